package metrics

import (
	"math"
	"slices"
	"sort"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// DefaultExactCap is how many values of one metric are kept for exact percentiles.
const DefaultExactCap = 100_000

// SeriesOptions say how a Series keeps its values.
type SeriesOptions struct {
	Unit Unit
	// Cap is how many values are kept for exact percentiles; 0 means DefaultExactCap. Past it percentiles come from the histogram.
	Cap int
	// HDR keeps the histogram from the first value on. Without it there is one only past Cap.
	HDR bool
}

// Series is the values of one metric. Count, sum, sum of squares, minimum and maximum run exactly, always. Up to a cap the values
// themselves are kept; past it percentiles come from an HDR histogram of 3 digits, by the same rule. It allocates nothing a value once it
// is past the cap. It is not safe for concurrent use.
type Series struct {
	o        SeriesOptions
	n        int64
	sum, sq  dd
	min, max float64

	exact   []float64
	spilled bool // the cap was passed: exact is gone and the histogram has all values
	// pos holds the values from 0 up, neg the sizes of those below 0. Values that are out of its range are counted in above and below.
	pos, neg     *hdrhistogram.Histogram
	above, below int64
	res          resolution
}

// NewSeries returns an empty series.
func NewSeries(o SeriesOptions) *Series {
	if o.Cap <= 0 {
		o.Cap = DefaultExactCap
	}
	return &Series{o: o, res: resolutionOf(o.Unit)}
}

// resolution is how a unit's values become the integers of a histogram: value · scale, from 0 to max. A value of 1,000 and more keeps
// 3 digits, whatever its size.
type resolution struct {
	scale float64
	max   int64
}

const sixHours = int64(6 * 3600 * 1e9)

// resolutionOf keeps 3 digits from 1 µs to 6 h for times, from 0.001 to 10⁹ a second for rates, from 0.001 to 10⁷ for percents, and counts
// and bytes to the last one below 2,048.
func resolutionOf(u Unit) resolution {
	switch u {
	case Nanoseconds:
		return resolution{1, sixHours}
	case Milliseconds:
		return resolution{1e6, sixHours}
	case Seconds:
		return resolution{1e9, sixHours}
	case TokensPerSec, TokensPerSecUser, RequestsPerSec:
		return resolution{1e6, 1e15}
	case Ratio, Percent:
		return resolution{1e6, 1e13}
	}
	return resolution{1, 1e12}
}

func (r resolution) histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, r.max, 3) }

// Count is how many values there are.
func (s *Series) Count() int64 { return s.n }

// Sum is the sum of the values.
func (s *Series) Sum() float64 { return s.sum.float() }

// Add takes one value. A value that is not a finite number is not taken.
func (s *Series) Add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if s.n == 0 {
		s.min, s.max = v, v
	}
	s.min, s.max = min(s.min, v), max(s.max, v)
	s.n++
	s.sum, s.sq = s.sum.add(v), s.sq.addSquare(v)
	if !s.spilled && len(s.exact) == s.o.Cap {
		s.spill()
	}
	if !s.spilled {
		s.exact = append(s.exact, v)
	}
	if s.inHistogram() {
		s.record(v)
	}
}

// inHistogram reports whether the histogram has all values.
func (s *Series) inHistogram() bool { return s.spilled || s.o.HDR }

// spill gives up the values for the histogram.
func (s *Series) spill() {
	if !s.o.HDR {
		for _, v := range s.exact {
			s.record(v)
		}
	}
	s.exact, s.spilled = nil, true
}

func (s *Series) record(v float64) {
	h, out := &s.pos, &s.above
	if v < 0 {
		h, out, v = &s.neg, &s.below, -v
	}
	k := math.Round(v * s.res.scale)
	if k > float64(s.res.max) {
		*out++
		return
	}
	if *h == nil {
		*h = s.res.histogram()
	}
	_ = (*h).RecordValue(int64(k)) // refuses only what is out of range
}

// Merge adds another series of the same unit, as if its values had been added here. The other one does not change.
func (s *Series) Merge(o *Series) {
	if o.n == 0 {
		return
	}
	if s.n == 0 {
		s.min, s.max = o.min, o.max
	}
	s.min, s.max = min(s.min, o.min), max(s.max, o.max)
	s.n += o.n
	s.sum, s.sq = s.sum.plus(o.sum), s.sq.plus(o.sq)
	if !s.spilled && (o.spilled || len(s.exact)+len(o.exact) > s.o.Cap) {
		s.spill()
	}
	if !s.spilled {
		s.exact = append(s.exact, o.exact...)
	}
	if !s.inHistogram() {
		return
	}
	if !o.inHistogram() {
		for _, v := range o.exact {
			s.record(v)
		}
		return
	}
	s.above, s.below = s.above+o.above, s.below+o.below
	s.pos, s.neg = mergeHistogram(s.pos, o.pos), mergeHistogram(s.neg, o.neg)
}

// mergeHistogram adds from to h, which have the same shape, and returns h.
func mergeHistogram(h, from *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	if from == nil {
		return h
	}
	if h == nil {
		return from.Clone()
	}
	h.Merge(from)
	return h
}

// Clone is a copy that shares nothing with s.
func (s *Series) Clone() *Series {
	c := *s
	c.exact = slices.Clone(s.exact)
	if s.pos != nil {
		c.pos = s.pos.Clone()
	}
	if s.neg != nil {
		c.neg = s.neg.Clone()
	}
	return &c
}

// Result is what the series has to say, in d's Display unit; false where it is empty. The series' unit is d's Unit. Percentiles are linear
// between order statistics, numpy's default; the standard deviation is the population's (ddof 0).
func (s *Series) Result(d *Def) (Result, bool) {
	if s.n == 0 {
		return Result{}, false
	}
	f := d.Factor()
	r := Result{Def: d, Count: s.n, Sum: s.Sum() * f, Avg: s.mean() * f, Min: s.min * f, Max: s.max * f, Std: s.std() * f,
		Approx: s.spilled, OutOfRange: s.above + s.below}
	at := s.ranks()
	for i, p := range Percentiles {
		r.P[i] = percentile(p, s.n, at) * f
	}
	return r, true
}

// mean is within [min, max] also where the division rounds.
func (s *Series) mean() float64 { return min(max(s.Sum()/float64(s.n), s.min), s.max) }

func (s *Series) std() float64 {
	if s.min == s.max {
		return 0
	}
	n := float64(s.n)
	v := s.sq.minus(s.sum.square().over(n)).over(n).float()
	return math.Sqrt(max(v, 0))
}

// percentile is numpy's linear rule over n values, where at gives the value of a rank from 0.
func percentile(p float64, n int64, at func(int64) float64) float64 {
	pos := p / 100 * float64(n-1)
	lo := int64(pos)
	a := at(lo)
	if lo+1 >= n {
		return a
	}
	b := at(lo + 1)
	return min(a+float64((pos-float64(lo))*(b-a)), b)
}

// ranks gives the value of each rank, in order of size: the value itself, or the middle of its histogram bucket within [min, max].
func (s *Series) ranks() func(rank int64) float64 {
	if !s.spilled {
		slices.Sort(s.exact)
		return func(rank int64) float64 { return s.exact[rank] }
	}
	return s.histogramRanks()
}

func (s *Series) histogramRanks() func(rank int64) float64 {
	var values []float64
	var upTo []int64 // ranks below this one are at most of the value
	n := int64(0)
	take := func(v float64, count int64) {
		if count > 0 {
			n += count
			values, upTo = append(values, min(max(v, s.min), s.max)), append(upTo, n)
		}
	}
	take(s.min, s.below)
	for _, b := range slices.Backward(bars(s.neg)) {
		take(-s.middle(b), b.Count)
	}
	for _, b := range bars(s.pos) {
		take(s.middle(b), b.Count)
	}
	take(s.max, s.above)
	return func(rank int64) float64 {
		return values[sort.Search(len(upTo), func(i int) bool { return upTo[i] > rank })]
	}
}

func (s *Series) middle(b hdrhistogram.Bar) float64 {
	return (float64(b.From) + float64(b.To)) / 2 / s.res.scale
}

func bars(h *hdrhistogram.Histogram) []hdrhistogram.Bar {
	if h == nil {
		return nil
	}
	return h.Distribution()
}

// Quantile is the percentile p (0–100) in the series' unit, from the histogram where there is one; false where the series is empty.
func (s *Series) Quantile(p float64) (float64, bool) {
	if s.n == 0 {
		return 0, false
	}
	at := s.ranks
	if s.inHistogram() {
		at = s.histogramRanks
	}
	return percentile(p, s.n, at()), true
}
