package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"prefire/internal/procedure"
	"prefire/metrics"
)

// runOf is a run of requests with the same TTFT each.
func runOf(ttft float64) fstest.MapFS {
	var b strings.Builder
	for i := range 40 {
		b.WriteString(line(1_796_080_000_000_000_000+int64(i)*50_000_000, ttft, 100))
	}
	return fstest.MapFS{"x/profile_export.jsonl": {Data: []byte(b.String())}}
}

// comparisonMade is a comparison with each kind of verdict.
func comparisonMade() Comparison {
	change := func(tag string, o procedure.Outcome, v, low, high float64) procedure.Compared {
		return procedure.Compared{Tag: tag, Unit: metrics.Milliseconds, Outcome: o, Differences: []procedure.Difference{{Stat: "avg", A: 50, B: 60, Change: v, Low: low, High: high}}}
	}
	return Comparison{Name: "x", Records: [2]string{"x/profile_export.jsonl", "x/profile_export.jsonl"}, Verdict: "better and worse", Notes: []string{"ttft>+5%: broken"},
		Metrics: []procedure.Compared{change("time_to_first_token", procedure.Worse, 20, 15, 25), change("inter_token_latency", procedure.Better, -12, -20, -4), change("decode_duration", procedure.NoDifference, 1, -3, 5),
			{Tag: "request_latency", Outcome: procedure.NotComparable}, change("error_rate", procedure.NoDifference, 0, 0, 0)},
		Head: []string{"metric", "change", "verdict"}, Rows: [][]string{{"time_to_first_token", "+20 %", "worse"}, {"inter_token_latency", "-12 %", "better"}, {"decode_duration", "+1 %", "no difference"},
			{"request_latency", "-", "not comparable"}, {"error_rate", "+0 points", "no difference"}}}
}

// The page of a comparison has each pair's verdict, what there is to say, the table as it was given, the changes and both distributions; and both
// runs.
func TestCompare(t *testing.T) {
	pair := comparisonMade()
	var b bytes.Buffer
	if err := Compare(&b, Options{Name: "b (B) against a (A)"}, runOf(50), runOf(60), []Comparison{pair, pair}); err != nil {
		t.Fatal(err)
	}
	doc := validate(t, b.String())
	said := strings.Join(strings.Fields(text(doc)), " ")
	for _, want := range []string{"B against A: x better and worse B against A over all metrics. ttft>+5%: broken", "metric change verdict time_to_first_token +20 % worse inter_token_latency -12 % better",
		"Of 3 metrics 1 are worse, 1 better, and 1 show no difference.", "TTFT", "The median is 50 ms in A and 60 in B", "A: x"} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q: %.1200s", want, said)
		}
	}
	var states []string
	for n := range doc.Descendants() {
		if n.Data == "td" && attr(n, "data-label") == "verdict" {
			states = append(states, attr(n, "class"))
		}
	}
	if want := []string{"text bad", "text good", "text good", "text unknown", "text good"}; !slices.Equal(states, slices.Concat(want, want)) {
		t.Errorf("the verdicts are shown as %q", states)
	}
	if n := strings.Count(b.String(), "<article"); n != 4 {
		t.Errorf("%d runs have a part of their own, want 4", n)
	}
	pair.Records[1] = "y/profile_export.jsonl"
	if err := Compare(&b, Options{}, runOf(50), runOf(60), []Comparison{pair}); err == nil || fmt.Sprint(err) != "y/profile_export.jsonl is there no more" {
		t.Errorf("a run that is not there: %v", err)
	}
}
