package servermetrics

import (
	"math"
	"slices"
)

// maxValues bounds how many values an estimate spreads out.
const maxValues = 100_000

// learned is what is known of the values in one bucket from the readings between which all values fell into it: their means, by number of
// values, and how those means vary.
type learned struct {
	values, weighted float64
	n, mean, m2      float64 // of the means
}

func (l *learned) add(mean, count float64) {
	l.values += count
	l.weighted += mean * count
	l.n++
	d := mean - l.mean
	l.mean += d / l.n
	l.m2 += d * (mean - l.mean)
}

// merge adds what o has learned.
func (l *learned) merge(o learned) {
	if o.n == 0 {
		return
	}
	n, d := l.n+o.n, o.mean-l.mean
	l.m2 += o.m2 + d*d*l.n*o.n/n
	l.mean += d * o.n / n
	l.n, l.values, l.weighted = n, l.values+o.values, l.weighted+o.weighted
}

// variance is that of the means, known from three on.
func (l *learned) variance() float64 {
	if l.n < 3 {
		return 0
	}
	return l.m2 / (l.n - 1)
}

// span is one bucket of a histogram over a phase: values in (low, high].
type span struct {
	low, high float64
	count     float64
	learned   learned
}

// mean is the learned mean where it lies within the bucket.
func (s *span) mean() (float64, bool) {
	if s.learned.values == 0 {
		return 0, false
	}
	m := s.learned.weighted / s.learned.values
	return m, s.low < m && m < s.high
}

// estimate gives the values that a histogram's buckets, sum and learned means make most likely, as aiperf estimates them: each bucket's are
// spread around its mean, and all are moved within their buckets so that they add up to the sum. overflow is how many lie above the last bound.
func estimate(spans []span, overflow, sum float64) []float64 {
	total := overflow
	for _, s := range spans {
		total += s.count
	}
	if total > maxValues {
		share := maxValues / total
		for i := range spans {
			spans[i].count *= share
		}
		overflow, sum = overflow*share, sum*share
	}
	above := aboveLast(spans, overflow, sum)
	for _, v := range above {
		sum -= v
	}
	return append(within(spans, sum), above...)
}

// aboveLast are the values above the last bound: what the other buckets leave of the sum, spread evenly.
func aboveLast(spans []span, overflow, sum float64) []float64 {
	n := int(math.Ceil(overflow))
	if n <= 0 {
		return nil
	}
	last, below := 0.0, 0.0
	for i := range spans {
		s := &spans[i]
		last = s.high
		mean, ok := s.mean()
		if !ok {
			mean = (s.low + s.high) / 2
		}
		below += max(s.count, 0) * mean
	}
	mean := last * 1.5
	if rest := (sum - below) / float64(n); rest > last {
		mean = rest
	}
	if n == 1 {
		return []float64{mean}
	}
	top := 2*mean - last
	if top <= last {
		top = 2 * last
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = last + (top-last)*float64(i)/float64(n-1)
	}
	return out
}

// within are the values at or below the last bound.
func within(spans []span, sum float64) []float64 {
	total, most, dominant := 0.0, 0.0, -1
	for i, s := range spans {
		total += s.count
		if s.count > most {
			most, dominant = s.count, i
		}
	}
	average := 0.0
	if total > 0 {
		average = sum / total
	}
	if total <= 0 || most/total < 0.95 {
		dominant = -1
	}
	var out []float64
	ends := make([]int, len(spans))
	made := 0.0
	for i := range spans {
		s := &spans[i]
		out = s.spread(out, i == dominant, average)
		ends[i] = len(out)
	}
	for _, v := range out {
		made += v
	}
	off := sum - made
	if made <= 0 || sum <= 0 || math.Abs(off)/sum < 0.001 {
		return out
	}
	from := 0
	for i, s := range spans {
		part := out[from:ends[i]]
		from = ends[i]
		if len(part) == 0 {
			continue
		}
		own := 0.0
		for _, v := range part {
			own += v
		}
		most := (s.high - s.low) * 0.4
		shift := min(max(off*(own/made)/float64(len(part)), -most), most)
		for k := range part {
			part[k] = s.clip(part[k] + shift)
		}
	}
	return out
}

func (s *span) clip(v float64) float64 { return min(max(v, s.low), s.high) }

// spread appends a bucket's values. dominant: nearly all values of the histogram are in it, so that their average is its mean.
func (s *span) spread(dst []float64, dominant bool, average float64) []float64 {
	n := int(s.count)
	if n <= 0 {
		return dst
	}
	width, middle := s.high-s.low, (s.low+s.high)/2
	mean, known := s.mean()
	if variance := s.learned.variance(); known && variance > 0 {
		std := math.Sqrt(variance)
		switch cover := 4 * std / width; {
		case cover < 0.01: // two points that have the mean and the variance
			high := s.clip(mean + variance/(mean-s.low))
			low := int(float64(n) * min(max(variance/(variance+(mean-s.low)*(mean-s.low)), 0), 1))
			for i := range n {
				if i < low {
					dst = append(dst, s.low)
				} else {
					dst = append(dst, high)
				}
			}
		case cover < 0.2 && math.Abs(mean-middle)/width < 0.3:
			for i := range n {
				f := (float64(i) + 0.5) / float64(n)
				even := s.clip(s.low + width*f + mean - middle)
				dst = append(dst, s.clip(0.5*even+0.5*s.around(f, mean, std)))
			}
		default:
			for i := range n {
				dst = append(dst, s.around((float64(i)+0.5)/float64(n), mean, std))
			}
		}
		return dst
	}
	center := middle
	if known {
		center = mean
	}
	if dominant && s.low < average && average < s.high {
		center = average
	}
	for i := range n {
		dst = append(dst, s.clip(s.low+width*(float64(i)+0.5)/float64(n)+center-middle))
	}
	return dst
}

// around is the value at the fraction f of values that lie around a mean, up to three deviations off and within the bucket.
func (s *span) around(f, mean, std float64) float64 {
	if f < 0.5 {
		return s.clip(mean - min((mean-s.low)/std, 3)*std*(1-2*f))
	}
	return s.clip(mean + min((s.high-mean)/std, 3)*std*(2*f-1))
}

// percentiles are those of metrics.Percentiles of values, linear between order statistics. values is sorted.
func percentiles(values []float64, ranks []float64) []float64 {
	slices.Sort(values)
	out := make([]float64, len(ranks))
	for i, p := range ranks {
		at := p / 100 * float64(len(values)-1)
		low := int(at)
		out[i] = values[low]
		if low+1 < len(values) {
			out[i] += (values[low+1] - values[low]) * (at - float64(low))
		}
	}
	return out
}
