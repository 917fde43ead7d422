"""Cuts the raw runs of make.sh down to goldens: what prefire does not export yet (curves, error-adjusted and CO-aware rows) goes out, the keys
that aiperf writes in the order of a Python set are put in the order of their tags, and nothing of the machine stays."""
import asyncio, io, json, pathlib, re, sys
import orjson
from rich.console import Console
from aiperf.common.models import ErrorDetails, ErrorDetailsCount
from aiperf.exporters.console_error_exporter import ConsoleErrorExporter
from aiperf.metrics.metric_registry import MetricRegistry
from aiperf.common.enums import MetricFlags

work, here = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
UNREGISTERED_CSV = re.compile(r"^(Effective|Active|Credit-to-Start|Tokens In Flight)|\(error-adjusted\)")

def keep(key, value):
    return not (isinstance(value, dict) and "unit" in value) or MetricRegistry.get_class_or_none(key) is not None

def order(d, fixed_until):
    items = [(k, v) for k, v in d.items() if keep(k, v)]
    cut = next((i for i, (k, _) in enumerate(items) if k == fixed_until), -1) + 1
    return dict(items[:cut] + sorted(items[cut:]))

def summary(path):
    d = json.loads(path.read_text())
    d["input_config"]["artifacts"]["dir"] = "art"
    last = "warmup_metrics" if "warmup_metrics" in d else "end_time"
    if "warmup_metrics" in d:
        d["warmup_metrics"] = order(d["warmup_metrics"], None)
    return orjson.dumps(order(d, last), option=orjson.OPT_INDENT_2)

def table(path):
    lines = path.read_bytes().split(b"\r\n")
    return b"\r\n".join(l for l in lines if not UNREGISTERED_CSV.search(l.decode()))

def screen(path):
    text = path.read_text()
    for title in ("Effective", "Active"):
        text = re.sub(rf" *NVIDIA AIPerf \| LLM Metrics: {title} *\n┏.*?┘\n", "", text, flags=re.S)
    return re.sub(r"│ +\S[^│]*\(error-adjusted\) │.*\n│ +\(ms\) │.*\n", "", text)

seen = set()
for case in ("streaming", "plain", "errors", "warmup", "osl", "prefix"):
    art, out = work / case / "art", here / case
    out.mkdir(exist_ok=True)
    base = "foo" if case == "prefix" else "profile_export"
    js = "foo" if case == "prefix" else "profile_export_aiperf"
    (out / "summary.json").write_bytes(summary(art / f"{js}.json"))
    seen |= set(json.loads((out / "summary.json").read_text()))
    if case not in ("osl", "prefix"):
        (out / "summary.csv").write_bytes(table(art / f"{js}.csv"))
    (out / "console.txt").write_text(screen(art / f"{base}_console.txt"))
    if case not in ("streaming", "errors", "warmup"):
        continue
    lines = (art / f"{base}.jsonl").read_text().splitlines()
    picked = lines[:1] + [l for l in lines if '"error":' in l][:2]
    (out / "records.jsonl").write_text("\n".join(dict.fromkeys(picked)) + "\n")
inputs = json.loads((work / "streaming/art/inputs.json").read_text())
inputs["data"] = inputs["data"][:2]
(here / "inputs.json").write_bytes(orjson.dumps(inputs, option=orjson.OPT_INDENT_2))
for name in ("phase_manifest.json", ".aiperf_results_ready.json"):
    (here / "warmup" / name.lstrip(".")).write_bytes((work / "warmup/art" / name).read_bytes())

defs = []
for tag in sorted(set(MetricRegistry.all_tags()) & seen):
    c = MetricRegistry.get_class(tag)
    d = c.display_unit or c.unit
    defs.append({"tag": tag, "header": c.header, "unit": str(c.unit), "display": str(d), "group": str(c.console_group),
        "order": c.display_order or 0, "error_only": c.has_flags(MetricFlags.ERROR_ONLY), "trace": c.has_flags(MetricFlags.HTTP_TRACE_ONLY),
        "internal": c.has_flags(MetricFlags.INTERNAL), "record": str(c.type) == "record"})
(here / "defs.json").write_text("[\n" + ",\n".join(json.dumps(d) for d in defs) + "\n]\n")

long = ('{"object":"error","message":"This model\'s maximum context length is 4096 tokens. However, you requested 6271 tokens (6143 in the messages, '
    '128 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}')
tables = [
    [(400, "Bad Request", long, 12)],
    [(None, "ClientConnectorError", "x" * 300, 1234), (429, None, "short", 1)],
    [(500, "Internal Server Error", "first line\nsecond line\n\n" + "word " * 60, 1), (404, "AVeryLongTypeName" * 4, "日本語のエラー" * 20, 2)],
]
class Fake: pass
class Folding(ConsoleErrorExporter):
    """As aiperf's, but that a word wider than its column is folded; aiperf cuts it off."""
    def _construct_table(self, table, errors):
        for column in table.columns:
            column.overflow = "fold"
        super()._construct_table(table, errors)
for i, rows in enumerate(tables):
    cfg = Fake()
    cfg.results = Fake()
    cfg.results.error_summary = [
        ErrorDetailsCount(error_details=ErrorDetails(code=c, type=t, message=m), count=n) for c, t, m, n in rows]
    con = Console(record=True, file=io.StringIO(), force_terminal=True, width=140, _environ={"TERM": "xterm", "COLUMNS": "140"})
    asyncio.run(Folding(cfg).export(con))
    (here / f"errors_table_{i}.txt").write_text(con.export_text(styles=False))
(here / "errors_tables.json").write_text(json.dumps([[
    {"code": c or 0, "type": t or "", "message": m, "count": n} for c, t, m, n in rows] for rows in tables]))

floats = [0.0, -0.0, 1.0, 21.0, 2.5, 28.034599999999998, 1e15, 1e16, 9999999999999998.0, 123456789012345680.0, 1e-4, 1e-5, 9.999e-6, 1.234e-5,
    1e-7, 1.5e-7,
    1e22, 1e21, 1e100, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 0.1, 1 / 3, 100 / 3, 1e9, 1796058236.730885, 123456.789, -33.25, 4.35, 0.30000000000000004]
(here / "floats.txt").write_text("".join(f"{v.hex()} {orjson.dumps(v).decode()}\n" for v in floats))
text = "a\u2028é\x7f\x01\"\\/\n\t\b\f\r😀<>&\u0000"
(here / "strings.json").write_bytes(orjson.dumps([text]))
