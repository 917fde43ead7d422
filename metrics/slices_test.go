package metrics

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// aiperf's own records, through the slices, give aiperf's slices.
func TestSlicesAreAiperfs(t *testing.T) {
	g := readGate(t, "all")
	raw, err := os.ReadFile("testdata/aiperf-0.13.0/all/timeslices.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Timeslices []map[string]json.RawMessage }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	o := Options{Streaming: true, Network: true, Objectives: objectives}
	s, whole := NewSlices(o, 300*ms), NewAccumulator(o)
	whole.SetNetwork(30e6)
	for i := range g.lines {
		r := g.record(t, &g.lines[i], o)
		r.Seq = int64(i + 1)
		s.Add(r)
		whole.Add(r)
	}
	got, err := s.Results(whole)
	if err != nil || len(got) != len(file.Timeslices) || len(got) != 4 {
		t.Fatalf("%d slices, aiperf has %d; %v", len(got), len(file.Timeslices), err)
	}
	coarse := map[string]bool{"benchmark_duration": true, "request_throughput": true, "input_token_throughput": true,
		"output_token_throughput": true, "total_token_throughput": true, "goodput": true}
	for i, one := range got {
		want := file.Timeslices[i]
		var from, to int64
		_ = json.Unmarshal(want["start_ns"], &from)
		_ = json.Unmarshal(want["end_ns"], &to)
		if _, cut := want["is_complete"]; cut == one.Complete || max(one.Start+g.base-from, from-one.Start-g.base, one.End+g.base-to, to-one.End-g.base) > 512 {
			t.Errorf("slice %d is %v, complete %v; aiperf has %d to %d", i, one.Window, one.Complete, from-g.base, to-g.base)
		}
		seen := 3
		if one.Complete {
			seen--
		}
		for k := range one.Results {
			r := &one.Results[k]
			var m exportedMetric
			if json.Unmarshal(want[r.Def.Tag], &m) != nil {
				t.Errorf("slice %d: aiperf has no %s", i, r.Def.Tag)
				continue
			}
			seen++
			switch {
			case r.Def.Shape == Curve:
				compareCurve(t, *r, m)
			case coarse[r.Def.Tag]:
				if math.Abs(r.Avg / *m.Avg - 1) > 2e-5 {
					t.Errorf("slice %d: %s is %v, aiperf has %v", i, r.Def.Tag, r.Avg, *m.Avg)
				}
			case r.Def.Shape == Restated:
				compareRestated(t, *r, m)
			case r.Scalar:
				if !near(r.Avg, *m.Avg, 0) {
					t.Errorf("slice %d: %s is %v, aiperf has %v", i, r.Def.Tag, r.Avg, *m.Avg)
				}
			default:
				compareSeries(t, r.Def.Tag, *r, m)
			}
		}
		if seen != len(want) {
			t.Errorf("slice %d has %d keys of aiperf's %d", i, seen, len(want))
		}
	}
}

// Requests that start in one slice and end in any other are the first one's; a slice without a start is left out.
func TestSlices(t *testing.T) {
	o := Options{Streaming: true}
	s, whole := NewSlices(o, 100*ms), NewAccumulator(o)
	add := func(seq, start, end int64) {
		r := &Record{Seq: seq, Streaming: true, Issued: start * ms, Start: start * ms, First: (start + 10) * ms, Last: (end - 1) * ms, End: end * ms,
			In: Known(8), Out: Known(4)}
		s.Add(r)
		whole.Add(r)
	}
	add(1, 1010, 1050)
	add(2, 1060, 1120)
	add(0, 1000, 1250) // the first one ends last: nothing is known before it
	add(3, 1320, 1380)
	s.Add(&Record{Seq: 4, Censored: true, Issued: 1330 * ms, Start: 1330 * ms, End: 1500 * ms})
	add(5, 1390, 1395)
	add(6, 1410, 1430)
	if len(s.open) != 1 || len(s.shut) != 2 {
		t.Errorf("%d slices are open, %d are not", len(s.open), len(s.shut))
	}
	got, err := s.Results(whole)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		from, to  int64
		complete  bool
		requests  float64
		rate, avg float64
	}
	var rows []row
	for _, one := range got {
		rows = append(rows, row{one.Start / ms, one.End / ms, one.Complete, resultOf(t, one.Results, "request_count").Avg,
			resultOf(t, one.Results, "request_throughput").Avg, math.Round(1000*resultOf(t, one.Results, "effective_concurrency").Avg) / 1000})
		if slices.ContainsFunc(one.Results, func(r Result) bool { return r.Def.Has(RunOnly) }) {
			t.Error("a slice has what is of the whole run alone")
		}
	}
	want := []row{{1000, 1100, true, 3, 30, 1.8}, {1300, 1400, true, 2, 20, 0.65}, {1400, 1430, false, 1, 1 / 0.03, 0.667}}
	if !slices.Equal(rows, want) {
		t.Errorf("got %v, want %v", rows, want)
	}
}

// Slices of a long run hold no more than those of the requests in flight.
func TestSlicesGiveUpTheirValues(t *testing.T) {
	o := Options{Streaming: true}
	s := NewSlices(o, 50*ms)
	for i, r := range traffic(3000, 9) {
		r.Seq, r.Issued = int64(i), r.Start // near enough to the order of issue
		s.Add(r)
		if len(s.open) > 20 {
			t.Fatalf("%d slices are open after %d requests", len(s.open), i)
		}
	}
}

func TestSlicesAreBounded(t *testing.T) {
	o := Options{}
	s, whole := NewSlices(o, 1), NewAccumulator(o)
	s.most = 50
	for i := range int64(53) {
		r := &Record{Seq: i, Issued: 1 + 10*i, Start: 1 + 10*i, Last: 5 + 10*i, End: 5 + 10*i}
		s.Add(r)
	}
	if got, err := s.Results(whole); err != nil || len(got) != 50 || s.Left() != 3 {
		t.Errorf("%d slices, %d requests left out, %v", len(got), s.Left(), err)
	}
}
