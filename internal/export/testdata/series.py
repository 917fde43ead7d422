# Makes series/: from the folder of a run of aiperf 0.13.0 against `prefire mock --ttft 20ms --itl 2ms`,
#   aiperf profile --model test-model --url URL --streaming --tokenizer builtin --ui none --no-gpu-telemetry --no-server-metrics --isl 32 --osl 8 \
#     --extra-inputs ignore_eos:true --request-count 6 --concurrency 1,2 --num-profile-runs 2 --warmup-request-count 2 --artifact-dir FOLDER
# the figures of each run, and aiperf's aggregates of them, of a few metrics: python series.py FOLDER
import csv, io, json, pathlib, sys

TAGS = ["request_throughput", "request_latency", "request_count", "time_to_first_token", "http_req_connection_overhead"]
at = pathlib.Path(sys.argv[1])
out = pathlib.Path(__file__).parent / "series"


def kept(name):
    return any(name == t or name.startswith(t + "_") and name.rsplit("_", 1)[0] == t for t in TAGS)


runs = []
for trial in (1, 2):
    for c in (1, 2):
        d = json.loads((at / f"profile_runs/trial_{trial:04}/concurrency_{c}/profile_export_aiperf.json").read_text())
        runs.append({"concurrency": c, "trial": trial - 1, "metrics": {t: d[t] for t in TAGS}})
(out / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")
a = at / "aggregate/concurrency_2/profile_export_aiperf_aggregate"
d = json.loads(a.with_suffix(".json").read_text())
d["metrics"] = {k: d["metrics"][k] for k in sorted(d["metrics"]) if kept(k)}
(out / "aggregate.json").write_text(json.dumps(d, indent=1) + "\n")
head, foot = a.with_suffix(".csv").read_bytes().decode().split("\r\n\r\n")
rows = head.split("\r\n")
(out / "aggregate.csv").write_bytes("\r\n".join(rows[:1] + sorted(r for r in rows[1:] if kept(r.split(",")[0])) + ["", foot]).encode())
a = at / "aggregate/sweep_aggregate/profile_export_aiperf_sweep"
d = json.loads(a.with_suffix(".json").read_text())
for cell in d["per_combination_metrics"]:
    cell["metrics"] = {k: cell["metrics"][k] for k in sorted(cell["metrics"]) if kept(k)}
(out / "sweep.json").write_text(json.dumps(d, indent=1) + "\n")
head, rest = a.with_suffix(".csv").read_bytes().decode().split("\r\n\r\n", 1)
table = list(csv.reader(io.StringIO(head)))
keep = [i for i, name in enumerate(table[0]) if i == 0 or kept(name.rsplit("_", 1)[0])]
(out / "sweep.csv").write_bytes("\r\n".join([",".join(r[i] for i in keep) for r in table] + ["", rest]).encode())
