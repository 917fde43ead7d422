package digest

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"prefire/internal/procedure"
)

const day = int64(1_796_080_000_000_000_000)

func request(start, end int64, ttft, output float64) procedure.Request {
	return procedure.Request{Start: day + start, End: day + end, TTFT: ttft, ITL: 2, Latency: 5, Prefill: 100, Input: 50, Output: output}
}

// near reports whether two figures are the same but for the rounding of sums.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// What flows through the bins is what the requests were: request-seconds, tokens and counts, whatever the order of the records and however
// often the cells were made wider on the way.
func TestBinsKeepWhatTheyAreMadeOf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int64{1e6, 1e9, 1e12, 1e15} {
		var all []procedure.Request
		busy, tokens := 0., 0.
		for range 500 {
			from := r.Int64N(length)
			took := 1 + r.Int64N(length/4)
			q := request(from, from+took, float64(took)/1e6*r.Float64(), float64(1+r.IntN(50)))
			busy, tokens = busy+float64(took)/1e9, tokens+q.Output
			all = append(all, q)
		}
		all = append(all, procedure.Request{Start: day + 5, End: day + 5, Failed: true, TTFT: math.NaN()})
		var forward, backward Digest
		for i := range all {
			forward.Add(&all[i])
		}
		for _, q := range slices.Backward(all) {
			backward.Add(&q)
		}
		bins, other := forward.Bins(), backward.Bins()
		if len(bins) != len(other) || len(bins) > mostBins {
			t.Fatalf("%d and %d bins, at most %d", len(bins), len(other), mostBins)
		}
		var gotBusy, gotTokens, finished, failed float64
		started := int64(0)
		for i, b := range bins {
			seconds := b.To - b.From
			gotBusy, gotTokens = gotBusy+b.InFlight*seconds, gotTokens+b.Output*seconds
			finished, failed, started = finished+b.Finished*seconds, failed+b.Failed*seconds, started+b.Started
			o := other[i]
			if !near(b.From, o.From) || !near(b.To, o.To) || !near(b.InFlight, o.InFlight) || !near(b.Finished, o.Finished) || b.Started != o.Started ||
				b.Figures[TTFT] != nil && b.Figures[TTFT].Quantile(50) != o.Figures[TTFT].Quantile(50) {
				t.Errorf("length %d, bin %d: %+v, in the other order %+v", length, i, b, o)
			}
		}
		if math.Abs(gotBusy-busy) > 1e-6*busy || math.Abs(gotTokens-tokens) > 1e-6*tokens || !near(finished, 500) || !near(failed, 1) || started != 501 {
			t.Errorf("length %d: %v request-seconds of %v, %v tokens of %v, %v finished, %v failed, %d started", length, gotBusy, busy, gotTokens, tokens, finished, failed, started)
		}
		if first, last := bins[0], bins[len(bins)-1]; first.From != 0 || !near(last.To, forward.Seconds()) {
			t.Errorf("length %d: the bins go from %v to %v of %v s", length, first.From, last.To, forward.Seconds())
		}
	}
}

// Two requests side by side: the bins say so to the moment.
func TestBinsOfARunByHand(t *testing.T) {
	var d Digest
	a, b := request(0, 1<<29, 0, 8), request(1<<28, 1<<29, 0, 0)
	d.Add(&a)
	d.Add(&b)
	bins := d.Bins()
	for i := range bins {
		mid := (bins[i].From + bins[i].To) / 2
		want := 1.
		if mid > float64(1<<28)/1e9 {
			want = 2
		}
		wide := bins[i].To - bins[i].From
		if edge := math.Abs(mid - float64(1<<28)/1e9); edge > wide && wide > 0 && !near(bins[i].InFlight, want) {
			t.Errorf("at %v s %v in flight, want %v", mid, bins[i].InFlight, want)
		}
		if rate := 8 / (float64(1<<29) / 1e9); wide > 0 && math.Abs(bins[i].Output-rate) > 1e-6*rate {
			t.Errorf("at %v s %v tokens/s, want %v", mid, bins[i].Output, rate)
		}
	}
	// Reading the bins changes nothing.
	if again := d.Bins(); !reflect.DeepEqual(again, bins) {
		t.Error("the bins are others when they are read again")
	}
}

func TestSketch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var whole, one, two Sketch
	var values []float64
	for i := range 20000 {
		v := math.Exp(3 * r.NormFloat64())
		values = append(values, v)
		whole.Add(v)
		if i%3 == 0 {
			one.Add(v)
		} else {
			two.Add(v)
		}
	}
	one.Merge(&two)
	slices.Sort(values)
	for _, p := range []float64{0, 1, 10, 50, 90, 99, 99.9, 100} {
		want := values[int(math.Round(p/100*19999))]
		if got := whole.Quantile(p); math.Abs(got-want) > 0.0016*want {
			t.Errorf("p%v is %v, want %v", p, got, want)
		}
		if whole.Quantile(p) != one.Quantile(p) {
			t.Errorf("p%v of the two halves is %v, of the whole %v", p, one.Quantile(p), whole.Quantile(p))
		}
	}
	if whole.Quantile(0) != values[0] || whole.Quantile(100) != values[19999] || whole.Count() != 20000 {
		t.Error("the ends are not exact")
	}
	n := int64(0)
	bars := whole.Bars(48)
	for i, b := range bars {
		n += b.Count
		if i > 0 && math.Abs(b.From-bars[i-1].To) > 1e-9*b.From {
			t.Errorf("bar %d starts at %v, the one before ends at %v", i, b.From, bars[i-1].To)
		}
	}
	if n != 20000 || len(bars) > 48 {
		t.Errorf("%d values in %d bars", n, len(bars))
	}
	var odd Sketch
	for _, v := range []float64{0, 0, -1, math.NaN(), math.Inf(1), 5, 1e-30, 1e30} {
		odd.Add(v)
	}
	if odd.Count() != 6 || odd.Zeros() != 3 || odd.Min() != -1 || odd.Max() != 1e30 || odd.Quantile(40) != 0 {
		t.Errorf("%d values, %d zeros, from %v to %v, p40 %v", odd.Count(), odd.Zeros(), odd.Min(), odd.Max(), odd.Quantile(40))
	}
	if v := new(Sketch).Quantile(50); !math.IsNaN(v) {
		t.Errorf("the median of nothing is %v", v)
	}
}

// Cold requests are counted and drawn, and stay out of the figures unless the result has them in.
func TestColdRequests(t *testing.T) {
	for _, include := range []bool{false, true} {
		d := Digest{IncludeCold: include}
		hot, cold := request(10, 20, 30, 1), request(0, 1000, 1500, 1)
		cold.Cold = true
		d.Add(&cold)
		d.Add(&hot)
		want := int64(1)
		if include {
			want = 2
		}
		h, all := d.Means(TTFT)
		if d.Whole(TTFT).Count() != want || h.Value() != 30 || all.Value() != 765 || d.Counts().Cold != 1 || d.Counts().OK != 2 {
			t.Errorf("include %v: %d values, averages %v and %v, %+v", include, d.Whole(TTFT).Count(), h.Value(), all.Value(), d.Counts())
		}
		if p := d.Points(); len(p) != 2 || !p[0].Cold || p[1].Cold || p[0].At != 0 || !near(p[1].At, 1e-8) {
			t.Errorf("points %+v", p)
		}
	}
}

// What is kept does not depend on how many requests there were: neither their number nor their spread over time and lengths.
func TestSizeIsBounded(t *testing.T) {
	var d Digest
	r := rand.New(rand.NewPCG(5, 6))
	for i := range int64(50_000) {
		q := request(i*1e9, i*1e9+1e8, 1+1e4*r.Float64(), 10)
		q.Input = math.Exp(15 * r.Float64())
		d.Add(&q)
	}
	if len(d.time.cells) > mostCells || len(d.points) != 0 || len(d.Points()) != 0 || len(d.lengths) > 800 {
		t.Errorf("%d cells, %d points, %d lengths", len(d.time.cells), len(d.points), len(d.lengths))
	}
	if n := len(d.Lengths(48)); n < 24 || n > 48 {
		t.Errorf("%d lengths", n)
	}
}

// Records without a time, or with one that cannot be, spoil nothing else.
func TestOddTimes(t *testing.T) {
	var d Digest
	for _, q := range []procedure.Request{{Start: 0, End: 0, TTFT: 3, Input: 4}, {Start: 50, End: 20, TTFT: 4}, {Start: 1, End: math.MaxInt64, TTFT: 5}, {Censored: true}} {
		d.Add(&q)
	}
	if d.Whole(TTFT).Count() != 3 || d.Counts() != (Counts{OK: 3, Censored: 1}) || len(d.Bins()) == 0 {
		t.Errorf("%d values, %+v, %d bins", d.Whole(TTFT).Count(), d.Counts(), len(d.Bins()))
	}
	if bins := new(Digest).Bins(); bins != nil {
		t.Errorf("bins of nothing: %v", bins)
	}
}
