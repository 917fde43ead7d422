package digest

import "math"

// A sketch's buckets lie 0.3 % apart, so that what is read from it is off by half of that at most.
const bucketRatio = 1.003

// The sizes that a sketch tells apart; what lies outside counts as the nearest of them.
const smallest, largest = 1e-6, 1e12

// Sketch is a distribution in short: how many values lie in each of its buckets, evenly spaced on a log axis. Its size depends on the spread
// of the values and not on their number. The zero Sketch is empty.
type Sketch struct {
	n, zero  int64 // zero: values of 0 and below, which no log axis has
	min, max float64
	counts   []uint32
	first    int // the bucket of counts[0]
}

// Bar is a run of neighbouring buckets.
type Bar struct {
	From, To float64
	Count    int64
}

func bucketOf(v float64) int {
	return int(math.Floor(math.Log(min(max(v, smallest), largest)) / math.Log(bucketRatio)))
}

// edge is the lower end of a bucket.
func edge(bucket int) float64 { return math.Exp(float64(bucket) * math.Log(bucketRatio)) }

// Add takes one value. What is no finite number is not taken.
func (s *Sketch) Add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	s.widen(v, v)
	s.n++
	if v <= 0 {
		s.zero++
		return
	}
	i := bucketOf(v)
	s.reach(i, i)
	s.counts[i-s.first]++
}

func (s *Sketch) widen(low, high float64) {
	if s.n == 0 {
		s.min, s.max = low, high
	}
	s.min, s.max = min(s.min, low), max(s.max, high)
}

// reach makes room for the buckets from low to high.
func (s *Sketch) reach(low, high int) {
	if len(s.counts) == 0 {
		s.counts, s.first = make([]uint32, high-low+1, high-low+8), low
		return
	}
	if low < s.first {
		s.counts = append(make([]uint32, s.first-low), s.counts...)
		s.first = low
	}
	if more := high - s.first + 1 - len(s.counts); more > 0 {
		s.counts = append(s.counts, make([]uint32, more)...)
	}
}

// Merge adds all values of another sketch, which does not change.
func (s *Sketch) Merge(o *Sketch) {
	if o.n == 0 {
		return
	}
	s.widen(o.min, o.max)
	s.n, s.zero = s.n+o.n, s.zero+o.zero
	if len(o.counts) == 0 {
		return
	}
	s.reach(o.first, o.first+len(o.counts)-1)
	for i, c := range o.counts {
		s.counts[o.first+i-s.first] += c
	}
}

// Count is how many values there are; Zeros how many of them are 0 or less.
func (s *Sketch) Count() int64 { return s.n }

// Zeros is how many of the values are 0 or less.
func (s *Sketch) Zeros() int64 { return s.zero }

// Min and Max are exact.
func (s *Sketch) Min() float64 { return s.min }

// Max is the largest value.
func (s *Sketch) Max() float64 { return s.max }

// Quantile is the percentile p (0–100), within 0.15 % of the value of the nearest rank; NaN where there are no values.
func (s *Sketch) Quantile(p float64) float64 {
	if s.n == 0 {
		return math.NaN()
	}
	rank := int64(math.Round(p / 100 * float64(s.n-1)))
	switch {
	case rank <= 0:
		return s.min
	case rank >= s.n-1:
		return s.max
	case rank < s.zero:
		return max(s.min, 0)
	}
	below := s.zero
	for i, c := range s.counts {
		if below += int64(c); below > rank {
			return min(max(edge(s.first+i)*math.Sqrt(bucketRatio), s.min), s.max)
		}
	}
	return s.max
}

// Bars are the values above 0 in at most n bars of equal width on a log axis.
func (s *Sketch) Bars(n int) []Bar {
	if len(s.counts) == 0 {
		return nil
	}
	each := (len(s.counts) + n - 1) / n
	var out []Bar
	for i := 0; i < len(s.counts); i += each {
		b := Bar{From: edge(s.first + i), To: edge(s.first + i + each)}
		for _, c := range s.counts[i:min(i+each, len(s.counts))] {
			b.Count += int64(c)
		}
		out = append(out, b)
	}
	return out
}
