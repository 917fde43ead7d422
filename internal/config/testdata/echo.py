# Writes how aiperf echoes a config (input_config of its JSON) for command lines and files, without running them.
# Run in this folder's parent with the Python of an aiperf 0.13.0 installation:
#   python testdata/echo.py > testdata/aiperf-0.13.0-echo.json
import contextlib, io, json, os, sys, tempfile

sys.argv = ["aiperf"]
import aiperf.cli_runner
from aiperf.cli import app

OFF = ["--no-gpu-telemetry", "--no-server-metrics"]
SHORT = """
schema_version: "2.0"
benchmark:
  models: [m1]
  endpoint: {url: "127.0.0.1:8000/v1", streaming: true, timeout: 20}
  dataset: {type: synthetic, isl: 100, osl: {mean: 12, stddev: 2}}
  phases: {type: concurrency, duration: 5m, concurrency: 10}
"""
LONG = """
schemaVersion: "2.0"
randomSeed: 3
benchmark:
  model: m1
  endpoint:
    urls: [http://127.0.0.1:8000/v1, "https://u:p@h/x?token=abc"]
    type: chat
    path: /v1/chat/completions
    apiKey: "${KEY:abc}"
    extra: {a: 1, ignore_eos: true, nested: {b: [1, 2.5, x]}}
    headers: {X-A: "1", X-Secret-Thing: s}
    useServerTokenCount: true
  datasets:
    - name: main
      prompts: {isl: 100, osl: 10}
      entries: 7
  warmup: {type: concurrency, requests: 3, concurrency: 2}
  profiling: {type: concurrency, duration: 20, sessions: 9, concurrency: 4, gracePeriod: 5}
  artifacts: {dir: ./outx, prefix: foo.json}
  tokenizer: {name: builtin}
  runtime: {ui: simple}
"""
CASES = [
    ("", ["--model", "m", *OFF]),
    ("", ["--model", "org/my model", "--url", "127.0.0.1:8000", "--streaming", "--concurrency", "3", "--request-count", "4", "--api-key", "k",
          "--header", "X-A:b", "X-N:v2", "--extra-inputs", "ignore_eos:true", "temperature:0.5", "--isl", "32", "--osl", "8", "--tokenizer",
          "builtin", "--ui", "none", "--random-seed", "7", "--warmup-request-count", "2", "--request-timeout-seconds", "60", *OFF]),
    ("", ["--model", "m", "--num-sessions", "5", "--isl-stddev", "2.5", "--osl", "9", "--osl-stddev", "3", *OFF]),
    ("", ["--model", "m", "--benchmark-duration", "3", "--benchmark-grace-period", "inf", "--num-prompts", "4", "--warmup-duration", "3",
          "--warmup-grace-period", "2", "--warmup-concurrency", "2", *OFF]),
    ("", ["--model", "m", "--benchmark-duration", "3", "--profile-export-prefix", "foo.jsonl", "--artifact-dir", "a/b", "-v", *OFF]),
    ("", ["--model", "m", "--use-server-token-count", "--use-legacy-max-tokens", "--custom-endpoint", "/x", "--endpoint-type", "chat", *OFF]),
    (SHORT, OFF),
    (SHORT, ["--concurrency", "3", "--warmup-request-count", "4", "--isl", "20", "--osl", "9", "--random-seed", "4", "--artifact-dir", "zz",
             "--header", "X:y", *OFF]),
    (SHORT, ["--benchmark-duration", "7", "--model", "other", "--url", "h:1", "--tokenizer", "builtin", *OFF]),
    (LONG, OFF),
    (LONG, ["--header", "X-A:two", "--extra-inputs", "a:2", "--warmup-concurrency", "5", "--request-count", "8", "--ui", "none", *OFF]),
]

out = []
for text, flags in CASES:
    seen = []
    aiperf.cli_runner.run_benchmark = seen.append
    argv = list(flags)
    if text:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as f:
            f.write(text)
        argv = ["-f", f.name, *argv]
    log = io.StringIO()
    try:
        with contextlib.redirect_stderr(log), contextlib.redirect_stdout(log):
            app(["profile", *argv])
    except SystemExit:
        pass
    if not seen:
        sys.exit(log.getvalue())
    if text:
        os.unlink(f.name)
    echo = json.loads(seen[0].configs[0].model_dump_json(exclude_unset=True))
    out.append({"yaml": text, "flags": flags, "input_config": echo})
json.dump(out, sys.stdout, indent=1)
print()
