package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"prefire/internal/sweep"
)

// seriesOf are the runs whose figures testdata/series.py took from aiperf's files.
func seriesOf(t *testing.T) *Series {
	t.Helper()
	b, err := os.ReadFile("testdata/series/runs.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []struct {
		Concurrency int64
		Trial       int
		Metrics     map[string]map[string]any
	}
	if err := json.Unmarshal(b, &runs); err != nil {
		t.Fatal(err)
	}
	s := &Series{Level: 0.95, Layout: sweep.Layout{Swept: true, Runs: 2, Order: sweep.Repeated}, Models: []string{"test-model", "test-model"}}
	if s.Variations, err = sweep.Combine([]sweep.Parameter{{Path: "phases.profiling.concurrency", Values: []any{int64(1), int64(2)}}}, false); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		run := &sweep.Run{Variation: &s.Variations[r.Concurrency-1], Trial: r.Trial}
		for tag, stats := range r.Metrics {
			m := sweep.Metric{Tag: tag, Unit: stats["unit"].(string)}
			for key, v := range stats {
				if f, ok := v.(float64); ok {
					m.Stats = append(m.Stats, sweep.Stat{Key: key, Value: f})
				}
			}
			run.Metrics = append(run.Metrics, m)
		}
		s.Runs = append(s.Runs, run)
	}
	return s
}

// differ names where two values of JSON part; numbers may by a share of 1e-9, or by next to nothing.
func differ(at string, got, want any) []string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s has %d keys; want %d", at, len(g), len(w))}
		}
		var out []string
		for k := range w {
			out = append(out, differ(at+"/"+k, g[k], w[k])...)
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s is %v; want %v", at, got, want)}
		}
		var out []string
		for i := range w {
			out = append(out, differ(fmt.Sprintf("%s/%d", at, i), g[i], w[i])...)
		}
		return out
	case float64:
		if g, ok := got.(float64); ok && (math.Abs(g-w) <= 1e-9*math.Abs(w) || math.Abs(g-w) < 1e-12) {
			return nil
		}
	}
	if got != want {
		return []string{fmt.Sprintf("%s is %v; want %v", at, got, want)}
	}
	return nil
}

// aiperf's aggregates of the same runs: every figure, every key, and the CSV files line by line.
func TestSeriesFilesAreAiperfs(t *testing.T) {
	s := seriesOf(t)
	cells := sweep.Cells(s.Runs, s.Level)
	sum := sweep.Summarise(cells, nil)
	for _, c := range []struct {
		golden string
		write  func(*bytes.Buffer) error
	}{
		{"aggregate.json", func(b *bytes.Buffer) error { return aggregateJSON(b, s, &cells[1]) }},
		{"aggregate.csv", func(b *bytes.Buffer) error { return aggregateCSV(b, s, &cells[1]) }},
		{"sweep.json", func(b *bytes.Buffer) error { return sweepJSON(b, s, &sum) }},
		{"sweep.csv", func(b *bytes.Buffer) error { return sweepCSV(b, s, &sum) }},
	} {
		want, err := os.ReadFile("testdata/series/" + c.golden)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := c.write(&got); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(c.golden, ".json") {
			var g, w any
			if err := json.Unmarshal(got.Bytes(), &g); err != nil {
				t.Fatalf("%s: %v", c.golden, err)
			}
			if err := json.Unmarshal(want, &w); err != nil {
				t.Fatal(err)
			}
			delete(g.(map[string]any), "prefire")
			for _, d := range differ(c.golden, g, w) {
				t.Error(d)
			}
			continue
		}
		// The order of the metrics is a Python set's in the aggregate.
		g, w := strings.Split(got.String(), "\r\n"), strings.Split(string(want), "\r\n")
		if c.golden == "aggregate.csv" {
			slices.Sort(g)
			slices.Sort(w)
		}
		if !slices.Equal(g, w) {
			t.Errorf("%s:\n%s\nwant\n%s", c.golden, strings.Join(g, "\n"), strings.Join(w, "\n"))
		}
	}
}

// A sweep of runs that are not repeated has the figures of each by tag, and its best all the same; a run that does not count is named.
func TestASweepWithoutRepeats(t *testing.T) {
	s := seriesOf(t)
	s.Runs, s.Layout.Runs = s.Runs[:2], 1
	s.Limits = []sweep.Limit{{Metric: "request_latency", Stat: "p95", Op: "lt", Threshold: 1}}
	s.Runs = append(s.Runs, &sweep.Run{Variation: &sweep.Variation{Index: 1, Label: "x", Values: []sweep.Setting{{Path: "phases.profiling.concurrency", Value: int64(9)}}}, Failure: "no"})
	sum := sweep.Summarise(sweep.Cells(s.Runs, s.Level), s.Limits)
	var b bytes.Buffer
	if err := sweepJSON(&b, s, &sum); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Failed   []struct{ Label, Error string } `json:"failed_runs"`
		Metadata struct {
			Combinations int `json:"num_combinations"`
			Most         int `json:"num_trials_per_value"`
			SLA          struct {
				Feasible   int `json:"feasible_count"`
				Infeasible int `json:"infeasible_count"`
			} `json:"sla_constraints"`
		}
		Cells []struct{ Metrics map[string]map[string]any }  `json:"per_combination_metrics"`
		Best  map[string]struct{ Parameters map[string]any } `json:"best_configurations"`
		Front []any                                          `json:"pareto_optimal"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	m := got.Cells[0].Metrics["request_latency"]
	first := s.Runs[0].Metrics[slices.IndexFunc(s.Runs[0].Metrics, func(m sweep.Metric) bool { return m.Tag == "request_latency" })]
	p99, _ := first.Stat("p99")
	if len(got.Cells) != 2 || m["mean"] != m["avg"] || m["std"] != 0.0 || m["ci_low"] != m["mean"] || m["p99"] != p99 || m["count"] != 6.0 || m["unit"] != "ms" {
		t.Errorf("request_latency is %v of %d cells", m, len(got.Cells))
	}
	if len(got.Failed) != 1 || got.Failed[0].Label != "run_0001" || got.Failed[0].Error != "no" || got.Metadata.Combinations != 3 || got.Metadata.Most != 1 {
		t.Errorf("%+v, %+v", got.Failed, got.Metadata)
	}
	if got.Metadata.SLA.Feasible != 0 || got.Metadata.SLA.Infeasible != 2 || got.Best["best_throughput"].Parameters["concurrency"] != 2.0 || len(got.Front) != 0 {
		t.Errorf("%+v, %+v, %v", got.Metadata.SLA, got.Best, got.Front)
	}
}
