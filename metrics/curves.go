package metrics

import (
	"cmp"
	"math"
	"slices"
)

// quantity is what a step function of time counts.
type quantity uint8

const (
	inFlight    quantity = iota // requests between start and end
	inPrefill                   // requests between start and first token
	inDecode                    // requests between first token and end
	prefillRate                 // input tokens a second, each request's spread evenly over its prefill
	decodeRate                  // output tokens a second, each request's shared out evenly among its gaps
	bothRates                   // prefillRate, and output tokens spread evenly from first token to end
	heldTokens                  // tokens of requests in flight: the input from the start on, the output as it comes
	quantities  = iota
)

// stretch is a time in which nothing changed.
type stretch struct {
	from, to int64
	v        [quantities]float64
}

// change is what one moment adds to one quantity.
type change struct {
	at  int64
	of  quantity
	add float64
}

// span is what the curves need of one request. A count below 0 is absent, as first is where it is 0.
type span struct {
	start, first, end int64
	in, out           float64
	gaps              [2]int // in curves.gaps
}

// curves keeps the requests of a phase as step functions of time: exactly, up to so many requests and gaps; past that as averages over
// short equal times, which become longer as the run does, so that memory stays bounded.
type curves struct {
	cap     int
	spans   []span
	gaps    []Gap
	bins    *bins // nil = exact
	seen    [quantities]bool
	changes []change  // of one request, used again
	parts   []lasting // of one curve, used again
}

// curveCap is how many requests and gaps are kept for each value that a series keeps exactly.
const curveCap = 4

func newCurves(exact int) *curves {
	if exact <= 0 {
		exact = DefaultExactCap
	}
	return &curves{cap: curveCap * exact}
}

// add takes a request that was completed, whether or not it is valid. An error has no tokens to show.
func (c *curves) add(r *Record) {
	s := span{start: firstOf(r.Start, r.Ready, r.Issued), end: r.End, in: -1, out: -1}
	if s.start == 0 || s.end < s.start {
		return
	}
	var gaps []Gap
	if r.Valid() {
		if r.Streaming && !r.Whole && r.First >= s.start && r.First <= s.end {
			s.first = r.First
			gaps = r.Gaps
		}
		if r.In.Known {
			s.in = float64(r.In.N)
		}
		if n, ok := osl(r); ok {
			s.out = n
		}
	}
	if c.bins == nil && len(c.spans)+len(c.gaps)+1+len(gaps) > c.cap {
		c.spill()
	}
	if c.bins != nil {
		c.bin(&s, gaps)
		return
	}
	s.gaps = [2]int{len(c.gaps), len(c.gaps) + len(gaps)}
	c.spans, c.gaps = append(c.spans, s), append(c.gaps, gaps...)
}

func firstOf(stamps ...int64) int64 {
	for _, s := range stamps {
		if s != 0 {
			return s
		}
	}
	return 0
}

// spill goes over to averages.
func (c *curves) spill() {
	c.bins = newBins()
	for i := range c.spans {
		s := &c.spans[i]
		c.bin(s, c.gaps[s.gaps[0]:s.gaps[1]])
	}
	c.spans, c.gaps = nil, nil
}

func (c *curves) bin(s *span, gaps []Gap) {
	c.changes = c.of(c.changes[:0], s, gaps)
	for i := range c.changes {
		ch := &c.changes[i]
		c.bins.add(ch.of, ch.at, ch.add)
	}
}

// of appends the changes that one request makes. The rules are aiperf's: output tokens but the first, which comes at once, are shared out
// evenly among the gaps; two events of one read have no time between them, and their tokens go to the other gaps.
func (c *curves) of(dst []change, s *span, gaps []Gap) []change {
	during := func(q quantity, from, to int64, n float64) {
		c.seen[q] = true
		dst = append(dst, change{from, q, n}, change{to, q, -n})
	}
	during(inFlight, s.start, s.end, 1)
	if s.first == 0 {
		return dst
	}
	during(inPrefill, s.start, s.first, 1)
	during(inDecode, s.first, s.end, 1)
	if s.in >= 0 && s.first > s.start {
		rate := s.in * 1e9 / float64(s.first-s.start)
		during(prefillRate, s.start, s.first, rate)
		during(bothRates, s.start, s.first, rate)
		during(heldTokens, s.start, s.end, s.in)
	}
	if s.out < 1 {
		return dst
	}
	if s.end > s.first {
		during(bothRates, s.first, s.end, (s.out-1)*1e9/float64(s.end-s.first))
	}
	measured, held, at, before := 0., 1., s.first, 0.
	for _, g := range gaps {
		if g > 0 {
			measured++
		}
	}
	if len(gaps) == 0 {
		return dst
	}
	dst = append(dst, change{at, heldTokens, 1})
	for _, g := range gaps {
		if g > 0 {
			rate := (s.out - 1) / measured * 1e9 / float64(g)
			dst = append(dst, change{at, decodeRate, rate - before})
			at, before = at+int64(g), rate
		}
		// What a busy reader stamped after the end of the answer was there before it.
		more := (s.out - 1) / float64(len(gaps))
		dst = append(dst, change{min(at, s.end), heldTokens, more})
		held += more
	}
	c.seen[heldTokens], c.seen[decodeRate] = true, c.seen[decodeRate] || measured > 0
	return append(dst, change{at, decodeRate, -before}, change{s.end, heldTokens, -held})
}

// stretches are the whole run's, in order of time.
func (c *curves) stretches() []stretch {
	if c.bins != nil {
		return c.bins.stretches()
	}
	all := make([]change, 0, 14*len(c.spans)+2*len(c.gaps))
	for i := range c.spans {
		s := &c.spans[i]
		all = c.of(all, s, c.gaps[s.gaps[0]:s.gaps[1]])
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	moments := 0
	for i := range all {
		if i == 0 || all[i].at != all[i-1].at {
			moments++
		}
	}
	out := make([]stretch, 0, moments)
	var now [quantities]dd
	for i := 0; i < len(all); {
		at := all[i].at
		for ; i < len(all) && all[i].at == at; i++ {
			now[all[i].of] = now[all[i].of].add(all[i].add)
		}
		if len(out) > 0 {
			out[len(out)-1].to = at
		}
		st := stretch{from: at, to: at}
		for q := range now {
			st.v[q] = now[q].float()
		}
		out = append(out, st)
	}
	return settle(out)
}

// settle takes what rounding left over for the nothing that it is.
func settle(out []stretch) []stretch {
	var most [quantities]float64
	for i := range out {
		for q, v := range out[i].v {
			most[q] = max(most[q], math.Abs(v))
		}
	}
	for i := range out {
		for q, v := range out[i].v {
			if math.Abs(v) < 1e-9*most[q] {
				out[i].v[q] = 0
			}
		}
	}
	return out
}

// merge adds what o has. It does not change o.
func (c *curves) merge(o *curves) {
	for q := range c.seen {
		c.seen[q] = c.seen[q] || o.seen[q]
	}
	if c.bins == nil && (o.bins != nil || len(c.spans)+len(c.gaps)+len(o.spans)+len(o.gaps) > c.cap) {
		c.spill()
	}
	if o.bins != nil {
		c.bins.merge(o.bins)
		return
	}
	for i := range o.spans {
		s := o.spans[i]
		gaps := o.gaps[s.gaps[0]:s.gaps[1]]
		if c.bins != nil {
			c.bin(&s, gaps)
			continue
		}
		s.gaps = [2]int{len(c.gaps), len(c.gaps) + len(gaps)}
		c.spans, c.gaps = append(c.spans, s), append(c.gaps, gaps...)
	}
}

// lasting is a value and how long it held.
type lasting struct{ v, ns float64 }

// result is a Curve's figures over a window, weighted by time. What lies outside the stretches is a time when nothing was in flight. A
// percentile is the least value that the curve did not exceed for that share of the time, as in aiperf.
func (c *curves) result(d *Def, all []stretch, w Window) (Result, bool) {
	if !c.seen[d.part] || w.End <= w.Start {
		return Result{}, false
	}
	parts := c.parts[:0]
	take := func(s *stretch, from, to int64) {
		if v, counts := d.over(s); counts && to > from {
			parts = append(parts, lasting{v, float64(to - from)})
		}
	}
	idle := &stretch{}
	first, _ := slices.BinarySearchFunc(all, w.Start, func(s stretch, at int64) int { return cmp.Compare(s.to, at) })
	at := w.Start
	for i := first; i < len(all) && all[i].from < w.End; i++ {
		s := &all[i]
		take(idle, at, min(max(s.from, at), w.End))
		take(s, max(s.from, w.Start), min(s.to, w.End))
		at = max(at, s.to)
	}
	take(idle, at, w.End)
	c.parts = parts
	if len(parts) == 0 {
		return Result{}, false
	}
	r := weighted(parts)
	r.Def, r.Approx = d, c.bins != nil
	r.Absent = StatSum | StatCount | percentileStats(0)&^(statP<<4|statP<<6|statP<<7|statP<<8)
	return r, true
}

// weighted are figures weighted by time. parts change their order.
func weighted(parts []lasting) Result {
	r := Result{Min: math.Inf(1), Max: math.Inf(-1)}
	var total, sum, square dd
	for _, p := range parts {
		total, sum = total.add(p.ns), sum.add(p.v*p.ns)
		r.Min, r.Max = min(r.Min, p.v), max(r.Max, p.v)
	}
	time := total.float()
	r.Avg = min(max(sum.float()/time, r.Min), r.Max)
	for _, p := range parts {
		square = square.add(p.ns * (p.v - r.Avg) * (p.v - r.Avg))
	}
	r.Std = math.Sqrt(square.float() / time)
	slices.SortFunc(parts, func(a, b lasting) int { return cmp.Compare(a.v, b.v) })
	i, until := 0, parts[0].ns
	for k, p := range Percentiles {
		for i+1 < len(parts) && until < p/100*time {
			i++
			until += parts[i].ns
		}
		r.P[k] = parts[i].v
	}
	return r
}
