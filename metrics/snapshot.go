package metrics

// Snapshot is the state of a phase for those who watch it while it runs. Times are in ms.
type Snapshot struct {
	Counts
	Cold int64 // valid requests that were cold
	// Input and Output are the tokens of the valid requests.
	Input, Output float64
	// The following leave cold requests out, as the results do.
	TTFT, ITL, Latency Watched
	// ReceiveDelay is how long the first content event lay in the kernel, SendLate how late requests were ready to go.
	ReceiveDelay, SendLate Watched
}

// Watched is a distribution so far. Its percentiles come from an HDR histogram of 3 digits where there is one; all but Count are 0, and
// Within nil, where there is no value.
type Watched struct {
	Count              int64
	Sum                float64
	P50, P90, P99, Max float64
	// Within is how many values are at or below each of the bounds asked for, to the histogram's digits.
	Within []int64
}

// Snapshot is the state so far. within are rising bounds in ms for Watched.Within, or nil. The accumulator is locked for one distribution at a
// time, no longer than a walk through the counts of its histogram, so that whoever adds records is not held up.
func (a *Accumulator) Snapshot(within []float64) Snapshot {
	a.mu.Lock()
	s := Snapshot{Counts: a.counts, Cold: a.coldSeen.n}
	a.mu.Unlock()
	for i, d := range a.defs {
		switch d.Tag {
		case "input_sequence_length":
			s.Input = a.sum(i)
		case "output_sequence_length":
			s.Output = a.sum(i)
		case tagTTFT:
			s.TTFT = a.watch(func() *Series { return a.hotOrAll(i) }, within)
		case "inter_token_latency":
			s.ITL = a.watch(func() *Series { return a.hotOrAll(i) }, within)
		case "request_latency":
			s.Latency = a.watch(func() *Series { return a.hotOrAll(i) }, within)
		}
	}
	s.ReceiveDelay = a.watch(func() *Series { return a.client.lateFirst }, within)
	s.SendLate = a.watch(func() *Series { return a.client.sendLate }, within)
	return s
}

// hotOrAll is the series of metric i without a copy of anything: without the cold requests unless they are part of it.
func (a *Accumulator) hotOrAll(i int) *Series {
	if a.o.IncludeCold && a.cold[i] != nil {
		return a.withCold(i)
	}
	return a.hot[i]
}

func (a *Accumulator) sum(i int) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hot[i] == nil {
		return 0
	}
	return a.hot[i].Sum()
}

func (a *Accumulator) watch(of func() *Series, within []float64) Watched {
	w, s := a.glanceAt(of, within != nil)
	if s == nil || within == nil {
		return w
	}
	// On a copy: the walk takes longer than whoever adds records should wait.
	w.Within = make([]int64, len(within))
	low := s.below
	list := bars(s.pos)
	for i, bound := range within {
		for len(list) > 0 && s.middle(list[0]) <= bound*1e6 {
			low, list = low+list[0].Count, list[1:]
		}
		w.Within[i] = low
	}
	return w
}

// glanceAt looks at a series; where copied is asked for, and there is a histogram, with a copy of it.
func (a *Accumulator) glanceAt(of func() *Series, copied bool) (Watched, *Series) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := of()
	if s == nil || s.n == 0 {
		return Watched{}, nil
	}
	w := Watched{Count: s.n, Sum: s.Sum() / 1e6, Max: s.max / 1e6}
	w.P50, w.P90, w.P99 = s.glance()
	if !copied {
		return w, nil
	}
	c := &Series{n: s.n, min: s.min, max: s.max, below: s.below, res: s.res}
	if !s.inHistogram() {
		for _, v := range s.exact {
			c.record(v)
		}
	} else if s.pos != nil {
		c.pos = s.pos.Clone()
	}
	return w, c
}

// glance is the median, the 90th and the 99th percentile of a series of ns in ms, from one walk through the histogram's counts where there is
// one: next to nothing is allocated, as it would be for the order statistics around them.
func (s *Series) glance() (p50, p90, p99 float64) {
	if !s.inHistogram() || s.pos == nil {
		rank := s.ranks()
		p := func(p float64) float64 { return percentile(p, s.n, rank) / 1e6 }
		return p(50), p(90), p(99)
	}
	at := s.pos.ValueAtPercentiles([]float64{50, 90, 99})
	p := func(p float64) float64 { return min(max(float64(at[p])/s.res.scale, s.min), s.max) / 1e6 }
	return p(50), p(90), p(99)
}
