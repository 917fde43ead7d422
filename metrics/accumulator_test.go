package metrics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
)

// request is a streamed request that started at start ms and had its first token ttft ms later.
func request(start, ttft int64, change ...func(*Record)) *Record {
	r := streamed()
	at := func(t int64) int64 { return (start + t) * ms }
	r.Start, r.First, r.Second, r.FirstOut = at(0), at(ttft), at(ttft+10), at(ttft)
	r.Last, r.End, r.Intended, r.Ready = at(ttft+80), at(ttft+100), at(-3), at(-1)
	for _, f := range change {
		f(r)
	}
	return r
}

func cold(c Cold) func(*Record) { return func(r *Record) { r.Cold = c } }

func failed(code int, message string) func(*Record) {
	return func(r *Record) { r.Err = &Error{Code: code, Type: "T", Message: message} }
}

func accumulate(o Options, records ...*Record) *Accumulator {
	a := NewAccumulator(o)
	for _, r := range records {
		a.Add(r)
	}
	return a
}

func find(results []Result, tag string) (Result, bool) {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Def.Tag == tag })
	if i < 0 {
		return Result{}, false
	}
	return results[i], true
}

// scalars are the averages of the metrics named, NaN where there is no result.
func scalars(results []Result, tags ...string) []float64 {
	out := make([]float64, len(tags))
	for i, tag := range tags {
		out[i] = math.NaN()
		if r, ok := find(results, tag); ok {
			out[i] = r.Avg
		}
	}
	return out
}

func sameFloats(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(a, b float64) bool { return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-12*math.Abs(b) })
}

// mixed is a run in which everything that can happen to a request happens.
func mixed() []*Record {
	return []*Record{
		request(1000, 100),
		request(1100, 200),
		request(1200, 1500, cold(ColdDialled)),
		request(1300, 50, failed(500, "boom")),
		request(1400, 50, failed(400, "too long"), func(r *Record) { r.ContextOverflow = true }),
		request(1500, 50, failed(499, "cut"), func(r *Record) { r.Cancelled = true }),
		request(1600, 50, func(r *Record) { r.Censored = true }),
		request(1700, 50, failed(500, "boom"), cold(ColdFirstUse)),
		request(1800, 50, failed(0, "cut"), func(r *Record) { r.Censored = true }),
	}
}

func TestResultsOfAMixedRun(t *testing.T) {
	a := accumulate(Options{Streaming: true}, mixed()...)
	if got, want := a.Counts(), (Counts{Sent: 9, OK: 3, Failed: 3, Cancelled: 1, Censored: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// 4 s of phase; the valid requests have 3 · 512 tokens in, 3 · 9 out; they go from 1,000 ms to 1,200 + 1,580 ms.
	got := a.Results(Window{500 * ms, 4500 * ms})
	tags := []string{"request_count", "error_request_count", "completed_request_count", "request_error_rate", "context_overflow_count",
		"osl_mismatch_count", "usage_discrepancy_count", "total_isl", "total_osl", "total_output_tokens", "total_reasoning_tokens",
		"total_error_isl", "benchmark_duration", "request_throughput", "input_token_throughput", "output_token_throughput",
		"total_token_throughput", "total_usage_prompt_tokens", "overall_usage_prompt_cache_read_pct"}
	want := []float64{3, 4, 7, 100 * 4. / 7, 1, 3, 3, 1536, 27, 18, 9, 2048, 1.78, 0.75, 384, 6.75, 390.75, 1920, 25}
	if values := scalars(got, tags...); !sameFloats(values, want) {
		t.Errorf("%v\n%v, want\n%v", tags, values, want)
	}
	for _, tag := range tags {
		if r, _ := find(got, tag); !r.Scalar {
			t.Errorf("%s is not a scalar", tag)
		}
	}
	// The cold request is in the counts and lengths and out of the latencies.
	for tag, count := range map[string]int64{"time_to_first_token": 2, "request_latency": 2, "inter_token_latency": 2,
		"inter_chunk_latency": 6, "prefill_throughput_per_user": 2, "input_sequence_length": 3, "http_req_waiting": 3,
		"usage_prompt_tokens": 3, "error_isl": 4} {
		if r, _ := find(got, tag); r.Count != count || r.Scalar {
			t.Errorf("%s has %d values, want %d", tag, r.Count, count)
		}
	}
	if r, _ := find(got, "time_to_first_token"); r.Avg != 150 || r.Min != 100 || r.Max != 200 || r.P[4] != 150 || r.Std != 50 || r.Sum != 300 {
		t.Errorf("%+v", r)
	}
	order := Options{Streaming: true}.Table()
	at := -1
	for _, r := range got {
		i := slices.IndexFunc(order, func(d *Def) bool { return d.Tag == r.Def.Tag })
		if i <= at {
			t.Errorf("%s is out of order", r.Def.Tag)
		}
		if at = i; r.Def.Has(Internal) {
			t.Errorf("%s is internal", r.Def.Tag)
		}
	}
}

func TestResultsThatAreAbsent(t *testing.T) {
	absent := math.NaN()
	tags := []string{"request_count", "error_request_count", "completed_request_count", "request_error_rate", "context_overflow_count",
		"benchmark_duration", "request_throughput", "total_token_throughput", "error_isl"}
	for _, c := range []struct {
		name    string
		records []*Record
		windows []Window
		want    []float64
	}{
		{"nothing", nil, []Window{{0, 1e9}}, []float64{absent, absent, absent, absent, absent, absent, absent, absent, absent}},
		{"censored alone", mixed()[6:7], []Window{{0, 1e9}}, []float64{absent, absent, absent, absent, absent, absent, absent, absent, absent}},
		{"clean", mixed()[:1], []Window{{0, 2e9}}, []float64{1, absent, 1, 0, absent, 0.18, 0.5, 260.5, absent}},
		{"all failed", mixed()[3:4], []Window{{0, 1e9}}, []float64{absent, 1, 1, 100, 0, absent, absent, absent, 512}},
		{"no window", mixed()[:2], nil, []float64{2, absent, 2, 0, absent, 0.38, 2 / 0.38, 1042 / 0.38, absent}},
		{"empty window", mixed()[:1], []Window{{5, 5}}, []float64{1, absent, 1, 0, absent, 0.18, absent, absent, absent}},
		{"two phases", mixed()[:2], []Window{{0, 1e9}, {5e9, 8e9}}, []float64{2, absent, 2, 0, absent, 4, 0.5, 260.5, absent}},
	} {
		if got := scalars(accumulate(Options{Streaming: true}, c.records...).Results(c.windows...), tags...); !sameFloats(got, c.want) {
			t.Errorf("%s: %v\n%v, want\n%v", c.name, tags, got, c.want)
		}
	}
}

func TestPlainRun(t *testing.T) {
	plain := func(r *Record) {
		r.Streaming, r.First, r.Second, r.FirstOut, r.Gaps = false, r.Last, 0, r.Last, nil
	}
	got := accumulate(Options{}, request(1000, 100, plain)).Results(Window{0, 1e9})
	for _, r := range got {
		if r.Def.Has(StreamOnly) {
			t.Errorf("%s is in a run without streaming", r.Def.Tag)
		}
	}
	want := []float64{180, 50, 512}
	if got := scalars(got, "request_latency", "e2e_output_token_throughput", "input_sequence_length"); !sameFloats(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestServerCountsInAnAccumulator(t *testing.T) {
	r := streamed()
	got := accumulate(Options{Streaming: true, ServerCounts: true}, r).Results(Window{0, 1e9})
	want := []float64{640, 12, 9, math.NaN(), 80. / 11, 6400}
	if got := scalars(got, "input_sequence_length", "output_sequence_length", "output_token_count", "usage_discrepancy_count",
		"inter_token_latency", "prefill_throughput_per_user"); !sameFloats(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !reflect.DeepEqual(r, streamed()) {
		t.Error("the caller's record was changed")
	}
}

func TestCold(t *testing.T) {
	hot := []*Record{request(1000, 100), request(1200, 100), request(1400, 100)}
	with := func(rs ...*Record) []*Record { return append(slices.Clone(hot), rs...) }
	for _, c := range []struct {
		name     string
		records  []*Record
		count    int64
		of       int64
		reasons  []ColdReason
		severity Severity
		change   float64 // NaN = absent
		ttft     float64 // with the cold ones
	}{
		{"none", hot, 0, 3, nil, SeverityNone, math.NaN(), math.NaN()},
		{"a failed one is not counted", with(request(1, 1, failed(500, ""), cold(ColdDialled))), 0, 3, nil, SeverityNone, math.NaN(), math.NaN()},
		// (3 · 100 + 104) / 4 = 101; prefill moves by less.
		{"low", with(request(1600, 104, cold(ColdFirstUse))), 1, 4, []ColdReason{{"first_use", 1}}, SeverityLow, 1, 101},
		{"medium", with(request(1600, 120, cold(ColdResent))), 1, 4, []ColdReason{{"resent", 1}}, SeverityMedium, 5, 105},
		{"high", with(request(1600, 1700, cold(ColdDialled|ColdFirstInference)), request(1800, 100, cold(ColdDialled))), 2, 5,
			[]ColdReason{{"dialled", 2}, {"first_inference", 1}}, SeverityHigh, 320, 420},
		// A faster cold request moves prefill (5,120 → 6,400 tokens/s, by 25 %) more than TTFT (100 → 87.5 ms).
		{"by prefill", with(request(1600, 50, cold(ColdFirstUse))), 1, 4, []ColdReason{{"first_use", 1}}, SeverityHigh, 25, 87.5},
		{"all", []*Record{request(1000, 100, cold(ColdDialled))}, 1, 1, []ColdReason{{"dialled", 1}}, SeverityHigh, math.NaN(), 100},
	} {
		for _, include := range []bool{false, true} {
			a := accumulate(Options{Streaming: true, IncludeCold: include}, c.records...)
			got := a.Cold()
			if got.Count != c.count || got.Of != c.of || !slices.Equal(got.Reasons, c.reasons) || got.Severity != c.severity ||
				got.Share != float64(c.count)/float64(c.of) || got.Included != include {
				t.Errorf("%s: %+v", c.name, got)
			}
			if change := got.Change; (change == nil) != math.IsNaN(c.change) || change != nil && math.Abs(*change-c.change) > 1e-9 {
				t.Errorf("%s: change %v, want %v", c.name, deref(change), c.change)
			}
			if ttft := scalars(got.With, "time_to_first_token"); !sameFloats(ttft, []float64{c.ttft}) {
				t.Errorf("%s: TTFT with the cold ones is %v, want %v", c.name, ttft, c.ttft)
			}
			for _, r := range got.With {
				if !r.Def.ColdOut {
					t.Errorf("%s: cold requests are never out of %s", c.name, r.Def.Tag)
				}
			}
			// What the results have: the hot ones, or all.
			want := int64(len(c.records)) - c.count
			if include {
				want = int64(len(c.records))
			}
			for _, rec := range c.records {
				if rec.Err != nil {
					want--
					if !include {
						break
					}
				}
			}
			if r, _ := find(a.Results(), "time_to_first_token"); r.Count != want {
				t.Errorf("%s, include %v: %d values of TTFT, want %d", c.name, include, r.Count, want)
			}
		}
	}
}

func TestColdWithoutStreaming(t *testing.T) {
	a := accumulate(Options{}, request(1000, 100), request(1000, 100+180, cold(ColdDialled)))
	if got := a.Cold(); got.Severity != SeverityHigh || math.Abs(*got.Change-50) > 1e-9 {
		t.Errorf("%+v, change %v", got, deref(got.Change))
	}
}

func TestErrorGroups(t *testing.T) {
	a := accumulate(Options{}, mixed()...)
	want := []ErrorCount{
		{Error{Code: 500, Type: "T", Message: "boom"}, 2}, {Error{Code: 400, Type: "T", Message: "too long"}, 1},
		{Error{Code: 499, Type: "T", Message: "cut"}, 1},
	}
	if got := a.Errors(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestErrorGroupsAreBounded(t *testing.T) {
	a := NewAccumulator(Options{})
	for i := range MaxErrors + 5 {
		a.Add(request(1000, 100, failed(500, fmt.Sprint(i))))
	}
	a.Add(request(1000, 100, failed(500, "0")))
	got := a.Errors()
	if len(got) != MaxErrors+1 || got[0].Count != 2 || got[MaxErrors].Count != 5 || got[MaxErrors].Error.Type != "OtherErrors" {
		t.Errorf("%d groups, the first %+v, the last %+v", len(got), got[0], got[len(got)-1])
	}
	b := NewAccumulator(Options{})
	b.Add(request(1000, 100, failed(500, "new")))
	if err := b.Merge(a); err != nil {
		t.Fatal(err)
	}
	got = b.Errors()
	sum := int64(0)
	for _, e := range got {
		sum += e.Count
	}
	if len(got) != MaxErrors+1 || got[0].Error.Message != "new" || sum != MaxErrors+7 {
		t.Errorf("merged: %d groups, the first %+v, %d errors", len(got), got[0], sum)
	}
}

func TestClientReport(t *testing.T) {
	exact := request(1000, 100, func(r *Record) {
		r.FirstSlack, r.LastSlack, r.FirstLate, r.MaxLate, r.GapsExact = 0, 0, 150, 270, 3
		r.Chunks, r.SharedReads = 5, 1
	})
	user := request(1200, 100, func(r *Record) {
		r.KernelStamps, r.Truncated, r.Malformed, r.Intended, r.GapSlack = false, true, 2, r.Ready, 600
		r.HTTP.FirstWrite, r.HTTP.LastWrite, r.HTTP.Sent, r.Chunks, r.SharedReads = 1000*ms, 1003*ms, SmallBody, 5, 1
	})
	large := func(r *Record) { r.HTTP.FirstWrite, r.HTTP.LastWrite, r.HTTP.Sent = 1000*ms, 1009*ms, SmallBody+1 }
	coldOne := request(1400, 900, cold(ColdDialled), large, func(r *Record) { r.FirstSlack = 5000 })
	broken := request(1500, 900, failed(500, ""), func(r *Record) { r.FirstSlack = 5000 })
	// All of its four events came in one read.
	once := request(1600, 100, func(r *Record) {
		r.Last, r.Second, r.FirstSlack, r.Chunks, r.SharedReads = r.First, 0, 300, 4, 3
		r.Gaps = []Gap{Shared, Shared, Shared}
	})
	got := accumulate(Options{Streaming: true}, exact, user, coldOne, broken, once).ClientReport()
	want := ClientReport{
		ReceiveDelayFirst: Spread{Count: 4, Min: 0.05, Avg: 0.075, P50: 0.05, P90: 0.12, P99: 0.147, P999: 0.1497, Max: 0.15},
		ReceiveDelayMax:   Spread{Count: 4, Min: 0.07, Avg: 0.12, P50: 0.07, P90: 0.21, P99: 0.264, P999: 0.2694, Max: 0.27},
		SendLate:          Spread{Count: 4, Min: 0, Avg: 1.5, P50: 2, P90: 2, P99: 2, P999: 2, Max: 2},
		WriteTime:         Spread{Count: 3, Min: 1, Avg: 5. / 3, P50: 1, P90: 2.6, P99: 2.96, P999: 2.996, Max: 3},
		KernelStamps:      Part{3, 4, 0.75},
		TTFTExact:         Part{1, 3, 1. / 3},
		TTFTSlack:         Spread{Count: 3, Avg: 0.7 / 3, P50: 0.3, P90: 0.38, P99: 0.398, P999: 0.3998, Max: 0.4},
		ITLSlack:          Spread{Count: 2, Avg: 0.05, P50: 0.05, P90: 0.09, P99: 0.099, P999: 0.0999, Max: 0.1},
		ITLMissing:        Part{1, 3, 1. / 3},
		GapSlack:          Spread{Count: 2, Avg: 0.3, P50: 0.3, P90: 0.54, P99: 0.594, P999: 0.5994, Max: 0.6},
		GapsExact:         Part{3, 11, 3. / 11},
		GapsShared:        Part{5, 11, 5. / 11},
		EventsARead:       14. / 9,
		Truncated:         1,
		Malformed:         1,
	}
	if !sameNumbers(reflect.ValueOf(got), reflect.ValueOf(want)) {
		t.Errorf("%+v, want\n%+v", got, want)
	}
	if got := NewAccumulator(Options{Streaming: true}).ClientReport(); got != (ClientReport{}) {
		t.Errorf("an empty run has %+v", got)
	}
	if got := accumulate(Options{}, exact).ClientReport(); got.TTFTSlack.Count != 0 || got.GapsShared.Of != 0 || got.ReceiveDelayFirst.Count != 1 {
		t.Errorf("a run without streaming has %+v", got)
	}
	if got := accumulate(Options{Streaming: true, IncludeCold: true}, coldOne).ClientReport(); got.TTFTSlack.Max != 5 {
		t.Errorf("cold requests are in TTFT, and its slack is %+v", got.TTFTSlack)
	}
}

// sameNumbers compares two structs of numbers, floats to the last digits.
func sameNumbers(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !sameNumbers(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Float64:
		return sameFloats([]float64{a.Float()}, []float64{b.Float()})
	}
	return a.Equal(b)
}

func TestLive(t *testing.T) {
	for _, hdr := range []bool{false, true} {
		a := NewAccumulator(Options{Streaming: true, HDR: hdr})
		if got := a.Live(); got != (Live{}) {
			t.Errorf("before the first record: %+v", got)
		}
		for _, r := range mixed() {
			a.Add(r)
		}
		// 7 requests were completed between 1,000 ms and 1,200 + 1,600 ms.
		got := a.Live()
		if got.Counts != a.Counts() || got.TTFTCount != 2 || got.TTFTAvg != 150 || math.Abs(got.TTFTP50-150) > 0.15 ||
			math.Abs(got.Rate-7/1.8) > 1e-12 {
			t.Errorf("HDR %v: %+v", hdr, got)
		}
	}
}

// randomRecord has all kinds of outcomes, cold ones and absent values.
func randomRecord(rng *rand.Rand) *Record {
	r := request(1000+rng.Int64N(1e6), 1+rng.Int64N(3000))
	r.Out = Known(rng.Int64N(100))
	r.FirstSlack, r.MaxLate = rng.Uint32N(3), rng.Uint32N(1000)
	switch rng.IntN(12) {
	case 0:
		failed(500, fmt.Sprint(rng.IntN(3)))(r)
	case 1:
		r.Censored = true
	case 2, 3:
		r.Cold = Cold(1 + rng.IntN(15))
	case 4:
		r.Gaps, r.Usage = nil, Usage{}
	}
	return r
}

func TestMergedAccumulatorsAreOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, o := range []Options{{Streaming: true}, {Streaming: true, ExactCap: 20, HDR: true}, {Streaming: true, ExactCap: 20, IncludeCold: true},
		{ServerCounts: true, ExactCap: 90}} {
		a, b, all := NewAccumulator(o), NewAccumulator(o), NewAccumulator(o)
		for i := range 150 {
			r := randomRecord(rng)
			all.Add(r)
			if i < 60 {
				a.Add(r)
			} else {
				b.Add(r)
			}
		}
		if err := a.Merge(b); err != nil {
			t.Fatal(err)
		}
		w := Window{0, 100e9}
		clean := func(rs []Result) []Result {
			for i := range rs {
				d := *rs[i].Def
				rs[i].Def = &Def{Tag: d.Tag}
			}
			return rs
		}
		if got, want := clean(a.Results(w)), clean(all.Results(w)); !reflect.DeepEqual(got, want) || len(got) < 30 {
			t.Errorf("%+v: the results differ", o)
		}
		x, y := a.Cold(), all.Cold()
		x.With, y.With = clean(x.With), clean(y.With)
		if !reflect.DeepEqual(x, y) || x.Count == 0 {
			t.Errorf("%+v: cold\n%+v\n%+v", o, x, y)
		}
		if a.ClientReport() != all.ClientReport() || a.Counts() != all.Counts() || a.Live() != all.Live() {
			t.Errorf("%+v: the client report, counts or live view differ", o)
		}
		if got, want := a.Errors(), all.Errors(); !sameErrors(got, want) {
			t.Errorf("%+v: %v, want %v", o, got, want)
		}
		for i, h := range a.Histograms() {
			if !h.Hist.Equals(all.Histograms()[i].Hist) {
				t.Errorf("%+v: the histogram of %s differs", o, h.Def.Tag)
			}
		}
	}
	if err := NewAccumulator(Options{}).Merge(NewAccumulator(Options{HDR: true})); err == nil {
		t.Error("accumulators of different options were merged")
	}
}

func sameErrors(a, b []ErrorCount) bool {
	count := func(list []ErrorCount) map[string]int64 {
		m := map[string]int64{}
		for _, e := range list {
			m[e.Error.Message] = e.Count
		}
		return m
	}
	return reflect.DeepEqual(count(a), count(b))
}

func TestHistograms(t *testing.T) {
	if got := accumulate(Options{Streaming: true}, mixed()...).Histograms(); got != nil {
		t.Errorf("there are histograms without HDR: %v", got)
	}
	for include, want := range map[bool]int64{false: 2, true: 3} {
		a := accumulate(Options{Streaming: true, HDR: true, IncludeCold: include}, mixed()...)
		var tags []string
		for _, h := range a.Histograms() {
			tags = append(tags, h.Def.Tag)
			if h.Def.Tag != "time_to_first_token" {
				continue
			}
			if n := h.Hist.TotalCount(); n != want {
				t.Errorf("include %v: %d values, want %d", include, n, want)
			}
			if low := float64(h.Hist.Min()) / h.Scale; math.Abs(low/float64(100*ms)-1) > 1e-3 {
				t.Errorf("the smallest value is %v ns", low)
			}
			h.Hist.Reset() // a copy
		}
		if len(tags) != 14 {
			t.Errorf("histograms of %v", tags)
		}
		if r, _ := find(a.Results(), "time_to_first_token"); r.Count != want {
			t.Errorf("%d values after the copy was emptied", r.Count)
		}
	}
}

// Past the caps a record costs no memory, so that a run of any length has a flat heap.
func TestAddAllocatesNothingPastTheCaps(t *testing.T) {
	for _, o := range []Options{{Streaming: true, HDR: true}, {Streaming: true, ServerCounts: true}, {}} {
		o.ExactCap = 50
		a := NewAccumulator(o)
		records := mixed()
		for range 60 {
			for _, r := range records {
				a.Add(r)
			}
		}
		i := 0
		if n := testing.AllocsPerRun(500, func() { a.Add(records[i%len(records)]); i++ }); n != 0 {
			t.Errorf("%+v: %v allocations a record", o, n)
		}
		for i, s := range a.hot {
			if s != nil && s.n > 50 && s.exact != nil {
				t.Errorf("%s still holds its values", a.defs[i].Tag)
			}
		}
	}
}

func TestLiveBesideTheWriter(t *testing.T) {
	a := NewAccumulator(Options{Streaming: true, HDR: true, ExactCap: 10})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			for _, r := range mixed() {
				a.Add(r)
			}
		}
	})
	last := int64(0)
	for last < 900 {
		l := a.Live()
		if l.Sent < last || l.Sent != l.OK+l.Failed+l.Cancelled+l.Censored {
			t.Fatalf("%+v after %d", l, last)
		}
		last = l.Sent
	}
	wg.Wait()
}

func BenchmarkAdd(b *testing.B) {
	a := NewAccumulator(Options{Streaming: true, HDR: true, ExactCap: 1000})
	r := streamed()
	for b.Loop() {
		a.Add(r)
	}
}
