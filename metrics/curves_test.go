package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// figures are a result's avg, min, max, std, p50 and p90.
func figures(r *Result) []float64 { return []float64{r.Avg, r.Min, r.Max, r.Std, r.P[4], r.P[6]} }

func resultOf(t *testing.T, rs []Result, tag string) *Result {
	t.Helper()
	i := slices.IndexFunc(rs, func(r Result) bool { return r.Def.Tag == tag })
	if i < 0 {
		t.Fatalf("no result %s", tag)
	}
	return &rs[i]
}

// twoRequests: A is in flight from 100 to 200 ms, with its first token at 140 and three gaps, of 10, 10 and 20 ms; B from 150 to 250, with its
// first token at 170, one gap of 40 ms and one within a read.
func twoRequests() []*Record {
	at := func(t int64) int64 { return t * ms }
	return []*Record{
		{Streaming: true, Issued: at(90), Start: at(100), First: at(140), Last: at(180), End: at(200),
			Gaps: []Gap{Gap(10 * ms), Gap(10 * ms), Gap(20 * ms)}, In: Known(80), Out: Known(7)},
		{Streaming: true, Issued: at(150), Start: at(150), First: at(170), Last: at(210), End: at(250),
			Gaps: []Gap{Shared, Gap(40 * ms)}, In: Known(20), Out: Known(3)},
	}
}

func TestCurvesOfTwoRequests(t *testing.T) {
	a := NewAccumulator(Options{Streaming: true})
	for _, r := range twoRequests() {
		a.Add(r)
	}
	// A failed request is in flight, and nothing else.
	a.Add(&Record{Streaming: true, Err: &Error{}, Issued: 1, Start: 260 * ms, End: 280 * ms, In: Known(5)})
	a.Add(&Record{Streaming: true, Censored: true, Start: 100 * ms, End: 300 * ms})
	rs := a.Results(Window{100 * ms, 300 * ms})
	sq := math.Sqrt
	for tag, want := range map[string][]float64{
		// 1 for 50 ms, 2 for 50, 1 for 50, 0 for 10, 1 for 20, 0 for 20
		"effective_concurrency":         {1.1, 0, 2, sq((120*0.01 + 50*0.81 + 30*1.21) / 200), 1, 2},
		"effective_prefill_concurrency": {0.3, 0, 1, sq((60*0.49 + 140*0.09) / 200), 0, 1},
		// A: 2 tokens a gap, so 200/s, 200/s, 100/s from 140 to 180; B: 2 tokens in its one gap of 40 ms, 50/s from 170 to 210
		"effective_decode_throughput": {40, 0, 200, sq((20*160*160 + 10*60*60 + 10*110*110 + 30*10*10 + 130*40*40) / 200.), 0, 150},
		// prefill: 2,000/s for 40 ms and 1,000/s for 20
		"effective_prefill_throughput":          {500, 0, 2000, sq((40*1500*1500 + 20*500*500 + 140*500*500) / 200.), 0, 2000},
		"active_prefill_throughput":             {100. / 60 * 1000, 1000, 2000, sq((40*(1000/3.)*(1000/3.) + 20*(2000/3.)*(2000/3.)) / 60), 2000, 2000},
		"effective_decode_concurrency":          {0.7, 0, 2, sq((30*1.69 + 80*0.09 + 90*0.49) / 200), 1, 2},
		"active_decode_throughput_per_user":     {(20*200 + 10*100 + 10*75 + 20*25 + 10*50) / 110., 0, 200, -1, 25, 200},
		"effective_prefill_throughput_per_user": {500, 0, 2000, -1, 0, 2000},
	} {
		r := resultOf(t, rs, tag)
		got := figures(r)
		if want[3] < 0 {
			want[3] = r.Std
		}
		if !approx(got, want) || r.Approx {
			t.Errorf("%s is %v, want %v", tag, got, want)
		}
		for name, there := range map[string]bool{"avg": true, "p50": true, "p95": true, "std": true, "count": false, "sum": false, "p75": false, "p1": false} {
			if _, ok := r.Stat(name); ok != there {
				t.Errorf("%s: %s is there: %v", tag, name, ok)
			}
		}
	}
	// A's tokens: 80 at once, 81 from 140, 83, 85, 87 as they come, until 200. B's: 20, then 21 + 1 at 170, 23 from 210, until 250.
	held := resultOf(t, rs, "tokens_in_flight")
	area := 40*80. + 10*81 + 10*83 + 20*85 + 20*87 + 20*20 + 40*22 + 40*23
	if !approx([]float64{held.Avg, held.Max}, []float64{area / 200, 87 + 22}) {
		t.Errorf("tokens in flight are %v on average and %v at most", held.Avg, held.Max)
	}
	// Without a window the run's own time is what counts.
	if got := resultOf(t, a.Results(), "effective_concurrency").Avg; !approx([]float64{got}, []float64{220. / 180}) {
		t.Errorf("without a window %v in flight", got)
	}
}

func TestCurvesThatAreAbsent(t *testing.T) {
	a := NewAccumulator(Options{Streaming: true})
	a.Add(&Record{Streaming: true, Start: ms, First: 2 * ms, Last: 2 * ms, End: 3 * ms, In: Known(4), Out: Known(4)}) // all in one event
	has := map[string]bool{}
	for _, r := range a.Results(Window{ms, 5 * ms}) {
		has[r.Def.Tag] = true
	}
	for tag, want := range map[string]bool{"effective_concurrency": true, "effective_prefill_throughput": true, "effective_decode_throughput": false,
		"active_decode_throughput": false, "effective_decode_concurrency": true} {
		if has[tag] != want {
			t.Errorf("%s is there: %v", tag, has[tag])
		}
	}
}

// traffic is n requests at random, in the order of their ends, as a run brings them.
func traffic(n int, seed uint64) []*Record {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var out []*Record
	for i := range n {
		start := int64(i)*3*ms + rnd.Int64N(20*ms)
		r := &Record{Streaming: true, Start: start + 1, First: start + 10*ms + rnd.Int64N(30*ms), In: Known(1 + rnd.Int64N(500)), Out: Known(5)}
		r.Last = r.First
		for range 4 {
			g := Gap(rnd.Int64N(8 * ms))
			r.Gaps = append(r.Gaps, g)
			r.Last += int64(g)
		}
		r.End = r.Last + rnd.Int64N(ms)
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Record) int { return int(a.End - b.End) })
	return out
}

// Past the cap the averages stay what they are, and all else is what averages over short times give.
func TestCurvesPastTheCapKeepTheirAverages(t *testing.T) {
	records := traffic(15000, 5)
	exact, binned := NewAccumulator(Options{Streaming: true}), NewAccumulator(Options{Streaming: true, ExactCap: 50})
	for _, r := range records {
		exact.Add(r)
		binned.Add(r)
	}
	w := Window{1, 15000*3*ms + 200*ms}
	want, got := exact.Results(w), binned.Results(w)
	for i := range want {
		d := want[i].Def
		if d.Shape != Curve {
			continue
		}
		g := resultOf(t, got, d.Tag)
		if !g.Approx || want[i].Approx {
			t.Errorf("%s: approximate: %v and %v", d.Tag, g.Approx, want[i].Approx)
		}
		off := math.Abs(g.Avg/want[i].Avg - 1)
		if limit := map[bool]float64{true: 1e-9, false: 0.05}[d.Group == EffectiveTable && d.Unit != TokensPerSecUser]; off > limit {
			t.Errorf("%s: %v on average, exactly %v", d.Tag, g.Avg, want[i].Avg)
		}
		if g.Max > want[i].Max*(1+1e-9) {
			t.Errorf("%s: an average of %v over a short time, at most %v at any", d.Tag, g.Max, want[i].Max)
		}
	}
	if n := len(binned.curves.bins.part); n > maxBins || binned.curves.bins.width != 4*firstBin {
		t.Errorf("%d bins of %d ns", n, binned.curves.bins.width)
	}
}

func TestMergedCurvesAreThoseOfAllRecords(t *testing.T) {
	records := traffic(3000, 7)
	for _, caps := range [][2]int{{100_000, 100_000}, {1, 1}, {1000, 1000}, {1900, 1900}} {
		o := Options{Streaming: true, ExactCap: caps[0]}
		all, first, second := NewAccumulator(o), NewAccumulator(o), NewAccumulator(o)
		for i, r := range records {
			all.Add(r)
			if i%3 == 0 {
				first.Add(r)
			} else {
				second.Add(r)
			}
		}
		if err := first.Merge(second); err != nil {
			t.Fatal(err)
		}
		w := Window{1, 10e9}
		want, got := all.Results(w), first.Results(w)
		for i := range want {
			if want[i].Def.Shape == Curve && (!approxBy(figures(&got[i]), figures(&want[i]), 1e-6) || got[i].Approx != want[i].Approx) {
				t.Errorf("cap %d: merged, %s is %v, of all records %v", caps[0], want[i].Def.Tag, figures(&got[i]), figures(&want[i]))
			}
		}
	}
}

func approxBy(a, b []float64, by float64) bool {
	return slices.EqualFunc(a, b, func(a, b float64) bool { return math.Abs(a-b) <= by*(1+math.Abs(b)) })
}

func TestErrorAdjustedAndNetworkAdjusted(t *testing.T) {
	a := NewAccumulator(Options{Streaming: true, Network: true, Scheduled: true})
	for i := range int64(8) {
		a.Add(&Record{Streaming: true, Scheduled: 1, Start: ms + i*i*ms, First: ms + i*i*ms + (10+i)*ms, Last: ms + i*i*ms + (20+i)*ms, End: 500 * ms, Out: Known(2)})
	}
	rs := a.Results(Window{1, 1e9})
	if slices.ContainsFunc(rs, func(r Result) bool { return r.Def.Tag == "adj_request_latency" || r.Def.Tag == "network_rtt" }) {
		t.Error("adjusted for failures that there are none of, or for a network that is not known")
	}
	lag := resultOf(t, rs, "replay_sched_lag_p50")
	if !lag.Scalar || lag.Avg != 12.5 || resultOf(t, rs, "replay_sched_degraded").Avg != 0 {
		t.Errorf("lag %v", lag.Avg)
	}
	a.Add(&Record{Streaming: true, Err: &Error{}, Start: ms, End: 2 * ms})
	a.Add(&Record{Streaming: true, Cancelled: true, Start: ms, End: 2 * ms})
	a.SetNetwork(12e6)
	rs = a.Results(Window{1, 1e9})
	adj := resultOf(t, rs, "adj_time_to_first_token")
	// 10 values, two of them failures: ranks 0.09 … 4.5 (to the even 4), 6.75 (7), and 8.1, which is a failure
	if adj.Count != 10 || adj.Min != 10 || adj.P[0] != 10 || adj.P[4] != 14 || adj.P[5] != 17 {
		t.Errorf("adjusted for failures: %+v", adj)
	}
	for name, there := range map[string]bool{"p75": true, "p90": false, "p99": false, "avg": false, "max": false, "sum": false, "std": false, "count": true} {
		if _, ok := adj.Stat(name); ok != there {
			t.Errorf("adjusted for failures: %s is there: %v", name, ok)
		}
	}
	net := resultOf(t, rs, "network_adjusted_time_to_first_token") // 10 … 17 less 12
	if !approx([]float64{net.Avg, net.Sum, net.Min, net.Max, net.P[4], net.Std}, []float64{15. / 8, 15, 0, 5, 1.5, math.Sqrt((55 - 15.*15/8) / 8)}) {
		t.Errorf("without the network: %+v", net)
	}
	whole := resultOf(t, rs, "network_adjusted_request_latency") // 20 … 27 less 12
	if !approx([]float64{whole.Avg, whole.Sum, whole.Min, whole.P[4], whole.Std}, []float64{11.5, 92, 8, 11.5, math.Sqrt(5.25)}) {
		t.Errorf("without the network: %+v", whole)
	}
	if rtt := resultOf(t, rs, "network_rtt"); rtt.Avg != 12 || rtt.P[8] != 12 || rtt.Std != 0 {
		t.Errorf("the network: %+v", rtt)
	}
}

func TestObjectives(t *testing.T) {
	for _, c := range []struct {
		objectives []Objective
		change     func(*Record)
		want       bool
	}{
		{[]Objective{{"time_to_first_token", 100}}, nil, true},
		{[]Objective{{"time_to_first_token", 99.999}}, nil, false},
		{[]Objective{{"time_to_first_token", 100}, {"inter_token_latency", 9}}, nil, false},
		{[]Objective{{"output_token_throughput_per_user", 100}}, nil, true},
		{[]Objective{{"output_token_throughput_per_user", 101}}, nil, false},
		{[]Objective{{"http_req_data_received", 5}}, nil, true},
		{[]Objective{{"time_to_second_token", 50}}, func(r *Record) { r.Second = 0 }, false},
		// All tokens at once: no latency between them to speak of, and none to complain of.
		{[]Objective{{"inter_token_latency", 1}}, func(r *Record) { r.Last = r.First }, true},
		{[]Objective{{"inter_token_latency", 1}}, func(r *Record) { r.Last, r.Out, r.Reasoning = r.First, Known(1), Count{} }, false},
	} {
		o, err := NewObjectives(c.objectives)
		if err != nil {
			t.Fatal(err)
		}
		r := streamed()
		if c.change != nil {
			c.change(r)
		}
		if got := o.Good(r); got != c.want {
			t.Errorf("%v: good is %v", c.objectives, got)
		}
	}
	for _, tag := range []string{"nonsense", "goodput", "request_throughput", "error_isl", "inter_chunk_latency", "effective_concurrency", "effective_latency"} {
		if _, err := NewObjectives([]Objective{{tag, 1}}); err == nil {
			t.Errorf("an objective on %s is taken", tag)
		}
	}
	o, err := NewObjectives([]Objective{{"time_to_first_token", 100}})
	if err != nil {
		t.Fatal(err)
	}
	a := NewAccumulator(Options{Streaming: true, Objectives: o})
	slow := streamed()
	slow.First += ms
	cold := streamed()
	cold.Cold = ColdDialled
	for _, r := range []*Record{streamed(), slow, cold, {Err: &Error{}, Start: 1, End: 2}} {
		a.Add(r)
	}
	rs := a.Results(Window{0, 4e9})
	for tag, want := range map[string]float64{"good_request_count": 2, "good_request_fraction": 0.5, "goodput": 0.5} {
		if got := resultOf(t, rs, tag).Avg; got != want {
			t.Errorf("%s is %v, want %v", tag, got, want)
		}
	}
}

func BenchmarkCurves(b *testing.B) {
	records := traffic(20000, 3)
	for _, c := range []struct {
		name string
		cap  int
	}{{"exact", 100_000}, {"binned", 1}} {
		a := NewAccumulator(Options{Streaming: true, ExactCap: c.cap})
		for _, r := range records {
			a.Add(r)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a.Results(Window{1, 100e9})
			}
		})
	}
}
