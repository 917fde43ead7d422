package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive is numpy's linear percentile, written the other way round: a weighted mean of the two order statistics.
func naive(sorted []float64, p float64) float64 {
	pos := p / 100 * float64(len(sorted)-1)
	lo := int(math.Floor(pos))
	hi := min(lo+1, len(sorted)-1)
	w := pos - float64(lo)
	return sorted[lo]*(1-w) + sorted[hi]*w
}

func defOf(u Unit) *Def { return &Def{Tag: "x", Unit: u, Display: u} }

// values are n values of a unit: spread over decades, with ties.
func values(rng *rand.Rand, u Unit, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		switch u {
		case Nanoseconds:
			out[i] = math.Round(math.Exp(rng.Float64()*23 + 7)) // 1 µs to 3 h
		case Tokens:
			out[i] = float64(rng.IntN(5000))
		case Percent:
			out[i] = rng.NormFloat64() * 40
		default:
			out[i] = math.Exp(rng.Float64()*12 - 2)
		}
		if i > 0 && rng.IntN(4) == 0 {
			out[i] = out[i-1]
		}
	}
	return out
}

func fill(o SeriesOptions, values ...[]float64) *Series {
	s := NewSeries(o)
	for _, part := range values {
		for _, v := range part {
			s.Add(v)
		}
	}
	return s
}

var units = []Unit{Nanoseconds, Tokens, Percent, TokensPerSecUser}

func TestSeriesAgainstPlainFormulas(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, u := range units {
		for _, n := range []int{1, 2, 3, 4, 10, 99, 1000} {
			vs := values(rng, u, n)
			got, _ := fill(SeriesOptions{Unit: u}, vs).Result(defOf(u))
			slices.Sort(vs)
			sum, sq := 0., 0.
			for _, v := range vs {
				sum += v
			}
			for _, v := range vs {
				sq += (v - sum/float64(n)) * (v - sum/float64(n))
			}
			if got.Count != int64(n) || got.Min != vs[0] || got.Max != vs[n-1] || got.Approx {
				t.Errorf("%s, %d values: %+v", u, n, got)
			}
			size := math.Max(math.Abs(vs[0]), math.Abs(vs[n-1]))
			for _, c := range []struct {
				name      string
				got, want float64
			}{{"sum", got.Sum, sum}, {"avg", got.Avg, sum / float64(n)}, {"std", got.Std, math.Sqrt(sq / float64(n))}} {
				if math.Abs(c.got-c.want) > 1e-12*size*float64(n) {
					t.Errorf("%s, %d values: %s is %v, want %v", u, n, c.name, c.got, c.want)
				}
			}
			for i, p := range Percentiles {
				if want := naive(vs, p); math.Abs(got.P[i]-want) > 1e-12*size {
					t.Errorf("%s, %d values: p%v is %v, want %v", u, n, p, got.P[i], want)
				}
			}
		}
	}
}

// The standard deviation holds where values are large and all but equal, as times since an epoch are.
func TestStdWithoutCancellation(t *testing.T) {
	s := fill(SeriesOptions{Unit: CountUnit}, []float64{1e15, 1e15 + 1, 1e15 + 2, 1e15 + 3})
	if got, _ := s.Result(defOf(CountUnit)); got.Std != math.Sqrt(1.25) {
		t.Errorf("std is %v, want %v", got.Std, math.Sqrt(1.25))
	}
	for _, vs := range [][]float64{{0.1}, {0.1, 0.1, 0.1}, {0, 0}} {
		if got, _ := fill(SeriesOptions{Unit: Ratio}, vs).Result(defOf(Ratio)); got.Std != 0 || got.Avg != vs[0] {
			t.Errorf("%v: std %v, avg %v", vs, got.Std, got.Avg)
		}
	}
}

func TestEmptySeries(t *testing.T) {
	s := fill(SeriesOptions{Unit: Tokens}, []float64{math.NaN(), math.Inf(1), math.Inf(-1)})
	if _, ok := s.Result(defOf(Tokens)); ok || s.Count() != 0 {
		t.Error("a series without numbers has a result")
	}
	if _, ok := s.Quantile(50); ok {
		t.Error("a series without numbers has a median")
	}
}

// Past the cap percentiles come from the histogram, by the same rule, within 0.1 % of what the values themselves give.
func TestHistogramPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, u := range units {
		for _, hdr := range []bool{false, true} {
			for _, n := range []int{11, 100, 5000} {
				vs := values(rng, u, n)
				got, _ := fill(SeriesOptions{Unit: u, Cap: 10, HDR: hdr}, vs).Result(defOf(u))
				exact, _ := fill(SeriesOptions{Unit: u}, vs).Result(defOf(u))
				if !got.Approx || exact.Approx || got.OutOfRange != 0 {
					t.Errorf("%s, %d values: approx %v and %v", u, n, got.Approx, exact.Approx)
				}
				if got.Count != exact.Count || got.Sum != exact.Sum || got.Avg != exact.Avg || got.Std != exact.Std || got.Min != exact.Min ||
					got.Max != exact.Max {
					t.Errorf("%s, %d values: %+v, exact %+v", u, n, got, exact)
				}
				slices.Sort(vs)
				for i, p := range Percentiles {
					// The error is that of the two order statistics it lies between, of which one may be larger than the result.
					lo := int(p / 100 * float64(n-1))
					size := max(math.Abs(vs[lo]), math.Abs(vs[min(lo+1, n-1)]))
					if math.Abs(got.P[i]-exact.P[i]) > 1e-3*size {
						t.Errorf("%s, %d values: p%v is %v, exact %v", u, n, p, got.P[i], exact.P[i])
					}
				}
			}
		}
	}
}

func TestPercentilesAreInOrderAndInRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 40 {
		u := units[rng.IntN(len(units))]
		r, _ := fill(SeriesOptions{Unit: u, Cap: 1 + rng.IntN(40)}, values(rng, u, 1+rng.IntN(80))).Result(defOf(u))
		if !slices.IsSorted(r.P[:]) || r.P[0] < r.Min || r.P[8] > r.Max || r.Avg < r.Min || r.Avg > r.Max || !(r.Std >= 0) {
			t.Fatalf("%s: %+v", u, r)
		}
	}
}

func TestMergeIsAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 40 {
		u := units[rng.IntN(len(units))]
		o := SeriesOptions{Unit: u, Cap: 1 + rng.IntN(60), HDR: rng.IntN(2) == 0}
		x, y := values(rng, u, rng.IntN(50)), values(rng, u, rng.IntN(50))
		a, b, all := fill(o, x), fill(o, y), fill(o, x, y)
		before, hadB := b.Clone().Result(defOf(u))
		c := a.Clone()
		c.Merge(b)
		got, ok := c.Result(defOf(u))
		want, ok2 := all.Result(defOf(u))
		got.Def, want.Def = nil, nil
		if ok != ok2 || got != want {
			t.Fatalf("%s %+v, %d and %d values:\n%+v\n%+v", u, o, len(x), len(y), got, want)
		}
		if c.spilled != all.spilled || c.spilled != (len(x)+len(y) > o.Cap) {
			t.Fatalf("spilled: %v and %v for %d values of %d", c.spilled, all.spilled, len(x)+len(y), o.Cap)
		}
		if h, ah := c.pos, all.pos; (h == nil) != (ah == nil) || h != nil && !h.Equals(ah) {
			t.Fatal("the merged histogram is not that of all values")
		}
		after, has := b.Result(defOf(u))
		before.Def, after.Def = nil, nil
		if had := hadB; had != has || before != after {
			t.Fatal("merging changed the series that was merged")
		}
	}
}

func TestOutOfRange(t *testing.T) {
	hour := 3600e9
	s := fill(SeriesOptions{Unit: Nanoseconds, Cap: 1}, []float64{hour, 100 * hour, 200 * hour})
	r, _ := s.Result(defOf(Nanoseconds))
	if r.OutOfRange != 2 || r.Max != 200*hour || r.Count != 3 {
		t.Errorf("%+v", r)
	}
	// What is out of range ranks above all else, and is not known closer than the maximum.
	if r.P[8] != 200*hour || math.Abs(r.P[0]-(hour+0.02*199*hour)) > 0.01*hour {
		t.Errorf("percentiles are %v", r.P)
	}
}

// A series keeps 3 digits from 1 µs to 6 h, and per-user rates from 0.001 tokens a second.
func TestResolution(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		v    float64
	}{{Nanoseconds, 1e3}, {Nanoseconds, 1.2345e6}, {Nanoseconds, 6 * 3600e9}, {TokensPerSecUser, 0.001}, {TokensPerSecUser, 1e9},
		{Percent, -0.00123}, {Percent, 1e7}, {Tokens, 2047}, {Tokens, 1e12}, {Ratio, 1}, {Bytes, 1e11}} {
		s := fill(SeriesOptions{Unit: c.unit, HDR: true}, []float64{c.v})
		s.min, s.max = math.Inf(-1), math.Inf(1) // so that the bucket's own value is seen
		got, _ := s.Quantile(50)
		if math.Abs(got/c.v-1) > 1e-3 || s.above+s.below != 0 {
			t.Errorf("%v %s comes back as %v", c.v, c.unit, got)
		}
	}
}

func TestSeriesAllocatesNothingPastItsCap(t *testing.T) {
	s := NewSeries(SeriesOptions{Unit: Percent, Cap: 100, HDR: true})
	for i := range 101 {
		s.Add(float64(i%7 - 3))
	}
	v := -3.
	if n := testing.AllocsPerRun(1000, func() { s.Add(v); v = -v }); n != 0 {
		t.Errorf("%v allocations a value", n)
	}
	if s.exact != nil {
		t.Error("the values are still held")
	}
}
