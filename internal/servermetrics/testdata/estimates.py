"""Makes estimates.json: what aiperf 0.13.0 says of random histograms, reading by reading.
Run with aiperf's own Python: ~/.cache/peers/aiperf/bin/python3 estimates.py > estimates.json"""
import json, random
import numpy as np
from aiperf.common.enums import PrometheusMetricType as T
from aiperf.common.models.server_metrics_models import MetricSample, TimeRangeFilter
from aiperf.server_metrics.export_stats import compute_stats
from aiperf.server_metrics.storage import HistogramTimeSeries, ScalarTimeSeries
from aiperf.server_metrics.units import infer_unit

BOUNDS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0]
rng = random.Random(7)

def histogram(draw, per_reading, readings):
    counts, total, n, out = [0] * (len(BOUNDS) + 1), 0.0, 0, []
    at = 1_000_000_000
    for i in range(readings):
        if i:
            for _ in range(per_reading(i)):
                v = draw()
                total, n = total + v, n + 1
                for k, b in enumerate(BOUNDS):
                    counts[k] += v <= b
                counts[-1] += 1
        out.append({"at": at, "sum": total, "count": n, "buckets": list(counts)})
        at += 333_000_000
    return out

cases = {
    "even over many buckets": histogram(lambda: rng.uniform(0, 1), lambda i: 40, 10),
    "one bucket, wide": histogram(lambda: rng.uniform(0.26, 0.49), lambda i: 30, 10),
    "one bucket, tight": histogram(lambda: rng.gauss(0.37, 0.004), lambda i: 20, 12),
    "one bucket, very tight": histogram(lambda: rng.gauss(0.3, 0.0001), lambda i: 20, 12),
    "one value a reading": histogram(lambda: rng.uniform(0.02, 0.2), lambda i: 1, 40),
    "two clusters": histogram(lambda: rng.choice([rng.gauss(0.015, 0.001), rng.gauss(0.9, 0.01)]), lambda i: 2, 60),
    "above the last bound": histogram(lambda: rng.uniform(4, 9), lambda i: 5, 8),
    "one above the last bound": histogram(lambda: 7.5 if rng.random() < 0.03 else rng.uniform(0.1, 0.4), lambda i: 4, 9),
    "all above the last bound": histogram(lambda: rng.uniform(6, 7), lambda i: 3, 5),
    "zeros": histogram(lambda: 0.0, lambda i: 3, 4),
    "few": histogram(lambda: 0.03, lambda i: 1 if i == 2 else 0, 5),
    "none": histogram(lambda: 0.03, lambda i: 0, 5),
    "more than are spread": histogram(lambda: rng.uniform(0, 3), lambda i: 26_000, 6),
}
out = {"bounds": [repr(b) for b in BOUNDS] + ["+Inf"], "histograms": {}}
for name, readings in cases.items():
    s = HistogramTimeSeries()
    for r in readings:
        s.append(r["at"], MetricSample(buckets=dict(zip(out["bounds"], map(float, r["buckets"]))), sum=r["sum"], count=float(r["count"])))
    # The first reading is from before the phase.
    f = TimeRangeFilter(start_ns=readings[1]["at"], end_ns=readings[-1]["at"])
    got = compute_stats(T.HISTOGRAM, s, f).model_dump(mode="json", exclude_none=True)
    out["histograms"][name] = {"readings": readings, "want": got["stats"], "buckets": list(got["buckets"].values())}
g, c = ScalarTimeSeries(), ScalarTimeSeries()
gauge, counter = [rng.choice([0, 1, 2.5, 7]) for _ in range(30)], np.cumsum([rng.randint(0, 9) for _ in range(30)]).tolist()
for i in range(30):
    g.append(10**9 + i * 333_000_000, MetricSample(value=gauge[i]))
    c.append(10**9 + i * 333_000_000, MetricSample(value=counter[i]))
f = TimeRangeFilter(start_ns=10**9 + 333_000_000, end_ns=10**9 + 29 * 333_000_000)
dump = lambda t, s: compute_stats(t, s, f).model_dump(mode="json", exclude_none=True)["stats"]
out["gauge"], out["counter"] = {"values": gauge, "want": dump(T.GAUGE, g)}, {"values": counter, "want": dump(T.COUNTER, c)}
names = [("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."), ("vllm:prompt_tokens", "x"), ("a_seconds", ""), ("request_success", ""),
         ("vllm:request_success", "Count"), ("x", "Time (in ms) of it"), ("x", "latency in milliseconds"), ("x_percent", "0-1"), ("x", "(0-100)"),
         ("vllm:num_requests_running", "Number"), ("x_error_count_total", ""), ("y_blocks", ""), ("z", "throughput (tokens/s)"), ("w", "power (in W)"), ("q", ""),
         ("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step."), ("a_ms", ""), ("p", "how many, in tokens"), ("m", "(in MiB)"), ("rate_gb_s", "")]
out["units"] = [[n, d, (u.display_name() if (u := infer_unit(n, d)) else "")] for n, d in names]
print(json.dumps(out, separators=(",", ":")))
