// Package digest makes of a run's records what its plots show, in memory that does not grow with the number of records.
package digest

import (
	"math"
	"slices"

	"prefire/internal/procedure"
)

// Figure is one of the figures that are followed over time.
type Figure int

const (
	TTFT    Figure = iota // ms
	ITL                   // ms
	Prefill               // tokens/sec/user
	Latency               // ms
	figures
)

// MostPoints is how many requests are kept one by one. A run with more has no points.
const MostPoints = 2000

// Point is one answered request.
type Point struct {
	At      float64 // start, s since the first start; NaN where its time is not known
	Figures [figures]float64
	Input   float64 // tokens
	Cold    bool
}

// Counts are how the requests ended.
type Counts struct {
	OK, Failed, Cancelled, Censored int64
	Cold                            int64 // answered ones
	Untold                          int64 // answered ones that cannot be told cold from hot
}

// Mean is an average.
type Mean struct {
	N   int64
	Sum float64
}

func (m *Mean) add(v float64) {
	if !math.IsNaN(v) {
		m.N, m.Sum = m.N+1, m.Sum+v
	}
}

// Value is the average, NaN of nothing.
func (m Mean) Value() float64 { return m.Sum / float64(m.N) }

// Digest is a run in short. The zero Digest is empty and leaves cold requests out of its figures.
type Digest struct {
	// IncludeCold keeps cold requests in the figures, as the result has them that the records belong to.
	IncludeCold bool

	counts  Counts
	time    timeline
	whole   [figures]Sketch
	hot     [figures]Mean
	all     [figures]Mean
	lengths map[int]*length // by lengthOf the input
	points  []start
	many    bool // there were more than MostPoints
}

type start struct {
	ns int64
	Point
}

// lengthRatio is how far input lengths lie apart that are told from each other.
const lengthRatio = 1.02

func lengthOf(input float64) int {
	return int(math.Floor(math.Log(min(max(input, 1), largest)) / math.Log(lengthRatio)))
}

// length is what is known of the requests of about one input length.
type length struct {
	input Mean
	ttft  Sketch
}

// Add takes one request, which is not kept.
func (d *Digest) Add(r *procedure.Request) {
	answered := !r.Failed && !r.Cancelled && !r.Censored
	d.count(r, answered)
	timed := r.Start > 0 && r.End >= r.Start
	if timed {
		d.flows(r, answered)
	}
	if !answered {
		return
	}
	of := [figures]float64{TTFT: r.TTFT, ITL: r.ITL, Prefill: r.Prefill, Latency: r.Latency}
	for f, v := range of {
		d.all[f].add(v)
		if !r.Cold {
			d.hot[f].add(v)
		}
	}
	shown := !r.Cold || d.IncludeCold
	d.point(r, of, timed)
	if !shown {
		return
	}
	for f, v := range of {
		if math.IsNaN(v) {
			continue
		}
		d.whole[f].Add(v)
		if timed {
			c := d.time.at(r.Start)
			if c.figures[f] == nil {
				c.figures[f] = new(Sketch)
			}
			c.figures[f].Add(v)
		}
	}
	if r.Input > 0 && !math.IsNaN(r.TTFT) {
		i := lengthOf(r.Input)
		if d.lengths == nil {
			d.lengths = map[int]*length{}
		}
		if d.lengths[i] == nil {
			d.lengths[i] = new(length)
		}
		d.lengths[i].input.add(r.Input)
		d.lengths[i].ttft.Add(r.TTFT)
	}
}

func (d *Digest) count(r *procedure.Request, answered bool) {
	switch {
	case r.Censored:
		d.counts.Censored++
	case r.Cancelled:
		d.counts.Cancelled++
	case r.Failed:
		d.counts.Failed++
	default:
		d.counts.OK++
	}
	if answered && r.Cold {
		d.counts.Cold++
	}
	if answered && r.Untold {
		d.counts.Untold++
	}
}

func (d *Digest) flows(r *procedure.Request, answered bool) {
	t := &d.time
	t.span(r.Start, r.End)
	t.at(r.Start).started++
	if answered {
		t.at(r.End).finished++
	} else {
		t.at(r.End).failed++
	}
	t.change(r.Start, flight, 1)
	t.change(r.End, flight, -1)
	if !answered || !(r.Output > 0) {
		return
	}
	first := r.Start
	if r.TTFT > 0 {
		first += int64(min(r.TTFT*1e6, float64(r.End-r.Start)))
	}
	if seconds := float64(r.End-first) / 1e9; seconds > 0 {
		t.change(first, output, r.Output/seconds)
		t.change(r.End, output, -r.Output/seconds)
	}
}

func (d *Digest) point(r *procedure.Request, of [figures]float64, timed bool) {
	if d.many {
		return
	}
	if len(d.points) == MostPoints {
		d.points, d.many = nil, true
		return
	}
	p := start{Point: Point{At: math.NaN(), Figures: of, Input: r.Input, Cold: r.Cold}}
	if timed {
		p.ns = r.Start
	}
	d.points = append(d.points, p)
}

// Counts are how the requests ended.
func (d *Digest) Counts() Counts { return d.counts }

// Whole is the distribution of a figure.
func (d *Digest) Whole(f Figure) *Sketch { return &d.whole[f] }

// Means are the averages of a figure over the hot requests alone, and over all.
func (d *Digest) Means(f Figure) (hot, all Mean) { return d.hot[f], d.all[f] }

// Seconds is how long the run took, from the first start to the last end.
func (d *Digest) Seconds() float64 { return float64(d.time.to-d.time.from) / 1e9 }

// Points are the answered requests in the order of their starts, cold ones too; nil where there are more than MostPoints.
func (d *Digest) Points() []Point {
	slices.SortStableFunc(d.points, func(a, b start) int { return int(min(max(a.ns-b.ns, -1), 1)) })
	out := make([]Point, len(d.points))
	for i, p := range d.points {
		out[i] = p.Point
		if p.ns != 0 {
			out[i].At = float64(p.ns-d.time.from) / 1e9
		}
	}
	return out
}

// Length is the TTFT of the requests of about one input length.
type Length struct {
	Input float64 // tokens, the average of those here
	TTFT  Sketch
}

// Lengths are the TTFTs by input length, at most n lengths, rising.
func (d *Digest) Lengths(n int) []Length {
	if len(d.lengths) == 0 {
		return nil
	}
	var buckets []int
	for i := range d.lengths {
		buckets = append(buckets, i)
	}
	slices.Sort(buckets)
	low := buckets[0]
	each := (buckets[len(buckets)-1] - low + n) / n
	var out []Length
	var inputs []Mean
	last := -1
	for _, i := range buckets {
		if (i-low)/each != last {
			last = (i - low) / each
			out, inputs = append(out, Length{}), append(inputs, Mean{})
		}
		at := len(out) - 1
		from := d.lengths[i]
		inputs[at].N, inputs[at].Sum = inputs[at].N+from.input.N, inputs[at].Sum+from.input.Sum
		out[at].TTFT.Merge(&from.ttft)
	}
	for i := range out {
		out[i].Input = inputs[i].Value()
	}
	return out
}
