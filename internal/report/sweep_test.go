package report

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// The page of a series has every headline as aiperf's own file has it, beside its interval; which variations are best, and what does not count.
func TestSeries(t *testing.T) {
	const once = `{"num_profile_runs":4,"num_successful_runs":3,"failed_runs":[{"label":"run_0001","error":"All 3 requests failed"}],"metadata":{"sweep_parameters":[{"name":"model","values":["a","b"]},{"name":"concurrency"}]},
"per_combination_metrics":[{"parameters":{"model":"a","concurrency":2},"metrics":{"request_throughput":{"avg":10,"mean":10,"ci_low":10,"ci_high":10},"request_latency":{"avg":5,"p99":20.5}}},
{"parameters":{"model":"b","concurrency":2},"metrics":{"request_throughput":{"avg":9},"request_latency":{"avg":5,"p99":30}}},{"parameters":{"model":"a","concurrency":4},"metrics":{"request_throughput":{"avg":16},"request_latency":{"avg":5.5,"p99":40}}}],
"best_configurations":{"best_throughput":{"parameters":{"model":"a","concurrency":4},"metric":16,"unit":"requests/sec"}}}`
	read := func(name string) string {
		data, err := os.ReadFile("../export/testdata/series/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, c := range []struct {
		name, path, file string
		figures          int // that are shown
		says, plots      []string
	}{
		{"aiperf's sweep with repeats", "aggregate/sweep_aggregate/profile_export_aiperf_sweep.json", read("sweep.json"), 10, []string{"✓ whole Runs all 4 count.", "Best throughput: concurrency 2 (", "Best latency (p99): concurrency 1 (",
			"Means over the repeats, in brackets their 95 % intervals.", "TTFT avg goes from "}, []string{"throughput_by_value", "ttft_by_value", "latency_by_value"}},
		{"two parameters, once", "sweep_aggregate/profile_export_aiperf_sweep.json", once, 9, []string{"! mind Runs 1 of 4 runs do not count. run_0001: All 3 requests failed.", "Best throughput: model a, concurrency 4 (16 requests/sec)",
			"Of 3 variations 2 are such that none is better in both."}, []string{"trade_off"}},
		{"aiperf's repeats", "aggregate/profile_export_aiperf_aggregate.json", read("aggregate.json"), 30, []string{"Repeats", "Over the repeats; from and to are the 95 % interval of the mean.", "TTFT p99 ms"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fstest.MapFS{c.path: {Data: []byte(c.file)}, "a/profile_export.jsonl": {}, "b/profile_export.jsonl": {}}
			r, err := Read(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Plots(), " "); got != strings.Join(c.plots, " ") {
				t.Errorf("plots %s, want %s", got, c.plots)
			}
			doc := validate(t, made(t, dir, Options{}))
			shown, numbers := figures(doc), decoded(t, []byte(c.file))
			for of, nodes := range shown {
				if want := at(t, numbers, of); want == "" || attr(nodes[0], "value") != want.String() {
					t.Errorf("%s is shown as %s, the file has %s", of, attr(nodes[0], "value"), want)
				}
			}
			if len(shown) != c.figures {
				t.Errorf("%d figures, want %d: %v", len(shown), c.figures, shown)
			}
			said := strings.Join(strings.Fields(text(doc)), " ")
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("the page does not say %q: %.1500s", want, said)
				}
			}
		})
	}
}
