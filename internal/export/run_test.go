package export

import (
	"bytes"
	"encoding/json"
	"testing"

	"prefire/metrics"
)

// From records to files: the cold request is in the counts and out of the latencies, and says so beside both.
func TestColdRequestsInTheFiles(t *testing.T) {
	acc := metrics.NewAccumulator(metrics.Options{Streaming: true, HDR: true})
	cold := coldRecord()
	acc.Add(cold)
	for range 2 {
		hot := coldRecord()
		hot.Cold, hot.First = 0, hot.Start+5_000_000
		acc.Add(hot)
	}
	failed := &metrics.Record{Issued: 5, Start: 6, End: 90, In: metrics.Known(4), Err: &metrics.Error{Code: 500, Message: "no"}}
	acc.Add(failed)
	r := &Run{Results: acc.Results(metrics.Window{Start: 0, End: 1e9}), Errors: acc.Errors(),
		Screen: Screen{Counts: acc.Counts(), Cold: acc.Cold()}}
	r.Prefire = Object{{"cold", Object{{"report", r.Screen.Cold}, {"with", MetricObjects(r.Screen.Cold.With)}}}}

	var out bytes.Buffer
	if err := JSON(&out, r); err != nil {
		t.Fatal(err)
	}
	type metric struct {
		Avg   float64
		Count *int64
	}
	var got struct {
		RequestCount metric `json:"request_count"`
		TTFT         metric `json:"time_to_first_token"`
		ISL          metric `json:"input_sequence_length"`
		Prefire      struct {
			Cold struct {
				Report metrics.ColdReport
				With   map[string]metric
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if c := got.RequestCount; c.Avg != 3 || c.Count != nil {
		t.Errorf("request_count = %+v", c)
	}
	if c := got.TTFT; c.Avg != 5 || *c.Count != 2 {
		t.Errorf("time_to_first_token = %+v", c)
	}
	if c := got.ISL; c.Avg != 32 || *c.Count != 3 {
		t.Errorf("input_sequence_length = %+v", c)
	}
	if c := got.Prefire.Cold; c.Report.Count != 1 || c.Report.Of != 3 || *c.With["time_to_first_token"].Count != 3 {
		t.Errorf("prefire.cold = %+v", c)
	}
	text := console(t, r, ConsoleWidth)
	for _, part := range []string{
		"│             Request Count (requests) │  3.00 │",
		"│ 2 of 3 requests; 1 cold kept out (dialled 1, resent 1): severity high, with them TTFT or │",
		"│ 4 sent = 3 ok + 1 failed + 0 cancelled + 0 censored ",
	} {
		if !bytes.Contains([]byte(text), []byte(part)) {
			t.Errorf("%s is not in\n%s", part, text)
		}
	}
}

// Every metric that the table shows has a row in its console table and a line in the CSV, under its own name.
func TestEveryMetricIsWritten(t *testing.T) {
	r := &Run{}
	rows := map[metrics.Group]int{}
	for _, d := range metrics.Table() {
		if d.Flags&metrics.Internal != 0 {
			continue
		}
		r.Results = append(r.Results, metrics.Result{Def: d, Scalar: d.Shape > metrics.PerGap, Count: 1})
		if d.Flags&metrics.ErrorOnly == 0 {
			rows[d.Group]++
		}
	}
	for _, g := range []metrics.Group{metrics.Main, metrics.UsageTable, metrics.TraceTable} {
		if got := len(metricTable("", r.Results, g).rows); got != rows[g] || got == 0 {
			t.Errorf("group %d has %d rows, want %d", g, got, rows[g])
		}
	}
	var csv, js bytes.Buffer
	if err := CSV(&csv, r); err != nil {
		t.Fatal(err)
	}
	if got, want := bytes.Count(csv.Bytes(), []byte("\r\n")), len(r.Results)+3; got != want {
		t.Errorf("the CSV has %d lines, want %d", got, want)
	}
	if err := JSON(&js, r); err != nil {
		t.Fatal(err)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(js.Bytes(), &top); err != nil {
		t.Fatal(err)
	}
	for i := range r.Results {
		if tag := r.Results[i].Def.Tag; top[tag] == nil {
			t.Errorf("%s is not in the summary", tag)
		}
	}
}
