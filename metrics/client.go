package metrics

// Spread is a distribution in short, in ms. It is absent (Count 0) where there are no values.
type Spread struct {
	Count int64   `json:"count"`
	Avg   float64 `json:"avg_ms"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

// Part is how many of a set have a property. It is absent (Of 0) where the set is empty.
type Part struct {
	N     int64   `json:"count"`
	Of    int64   `json:"of"`
	Share float64 `json:"share"`
}

func part(n, of int64) Part {
	if of == 0 {
		return Part{}
	}
	return Part{n, of, float64(n) / float64(of)}
}

// ClientReport is what the records say of the client's own part in the numbers. All of it is from valid requests.
type ClientReport struct {
	// ReceiveDelayFirst is how long the first content event lay in the kernel before the client read it; ReceiveDelayMax the longest such
	// time of a request. Without kernel stamps both are 0 and say nothing: KernelStamps tells.
	ReceiveDelayFirst Spread `json:"receive_delay_first_token,omitzero"`
	ReceiveDelayMax   Spread `json:"receive_delay_max,omitzero"`
	// SendLate is how late requests were ready to go, against the plan's intended time.
	SendLate Spread `json:"send_lateness,omitzero"`
	// KernelStamps: requests whose content stamps are all the kernel's.
	KernelStamps Part `json:"kernel_stamps,omitzero"`
	// TTFTExact: of the requests in time_to_first_token, those whose first token's arrival is exact.
	TTFTExact Part `json:"ttft_exact,omitzero"`
	// TTFTSlack bounds how much lower a request's true TTFT may be than what is reported.
	TTFTSlack Spread `json:"ttft_slack,omitzero"`
	// ITLSlack bounds how far a request's true inter token latency may be from what is reported, either way.
	ITLSlack Spread `json:"itl_slack,omitzero"`
	// GapsShared: gaps between two events of one read, which are no measurement and are left out of inter_chunk_latency.
	GapsShared Part `json:"gaps_in_one_read,omitzero"`
	// Truncated: requests whose kept text reached its bound, so that client token counts are too low.
	Truncated int64 `json:"truncated"`
	// Malformed: answered requests with events that could not be read and were left out.
	Malformed int64 `json:"malformed"`
}

// ClientReport reports on the client's own part in the numbers so far.
func (a *Accumulator) ClientReport() ClientReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.client
	return ClientReport{
		ReceiveDelayFirst: c.lateFirst.spread(), ReceiveDelayMax: c.lateMax.spread(), SendLate: c.sendLate.spread(),
		KernelStamps: part(c.kernel, c.lateFirst.n), TTFTExact: part(c.exact, c.ttftSlack.n),
		TTFTSlack: c.ttftSlack.spread(), ITLSlack: c.itlSlack.spread(), GapsShared: part(c.gapsShared, c.gaps), Truncated: c.truncated,
		Malformed: c.malformed,
	}
}

// clientSide gathers the figures of ClientReport. Its series are in ns.
type clientSide struct {
	lateFirst, lateMax, sendLate, ttftSlack, itlSlack *Series

	kernel, exact, gaps, gapsShared, truncated, malformed int64
}

func newClientSide(exactCap int) clientSide {
	s := func() *Series { return NewSeries(SeriesOptions{Unit: Nanoseconds, Cap: exactCap}) }
	return clientSide{lateFirst: s(), lateMax: s(), sendLate: s(), ttftSlack: s(), itlSlack: s()}
}

// add takes a valid record; shown says that its times are in the latency sets.
func (c *clientSide) add(r *Record, streaming, shown bool) {
	if r.First == 0 {
		return
	}
	c.lateFirst.Add(micros(r.FirstLate))
	c.lateMax.Add(micros(r.MaxLate))
	if late, ok := between(r.Intended, r.Ready); ok {
		c.sendLate.Add(late)
	}
	c.kernel += int64(oneIf(r.KernelStamps))
	c.truncated += int64(oneIf(r.Truncated))
	c.malformed += int64(oneIf(r.Malformed > 0))
	if !streaming || !shown {
		return
	}
	c.exact += int64(oneIf(r.FirstSlack == 0))
	c.ttftSlack.Add(micros(r.FirstSlack))
	if _, ok := itl(r); ok {
		n, _ := osl(r)
		c.itlSlack.Add(micros(max(r.FirstSlack, r.LastSlack)) / (n - 1))
	}
	c.gaps += int64(len(r.Gaps))
	for _, g := range r.Gaps {
		c.gapsShared += int64(oneIf(g == Shared))
	}
}

func (c *clientSide) merge(o *clientSide) {
	c.lateFirst.Merge(o.lateFirst)
	c.lateMax.Merge(o.lateMax)
	c.sendLate.Merge(o.sendLate)
	c.ttftSlack.Merge(o.ttftSlack)
	c.itlSlack.Merge(o.itlSlack)
	c.kernel, c.exact, c.truncated, c.malformed = c.kernel+o.kernel, c.exact+o.exact, c.truncated+o.truncated, c.malformed+o.malformed
	c.gaps, c.gapsShared = c.gaps+o.gaps, c.gapsShared+o.gapsShared
}

// micros is a time in µs in ns.
func micros(us uint32) float64 { return float64(us) * 1e3 }

// spread is a series of ns in short.
func (s *Series) spread() Spread {
	if s.n == 0 {
		return Spread{}
	}
	at := s.ranks()
	return Spread{Count: s.n, Avg: s.mean() / 1e6, P50: percentile(50, s.n, at) / 1e6, P99: percentile(99, s.n, at) / 1e6, Max: s.max / 1e6}
}
