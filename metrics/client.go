package metrics

// Spread is a distribution in short, in ms. It is absent (Count 0) where there are no values.
type Spread struct {
	Count int64   `json:"count"`
	Min   float64 `json:"min_ms"`
	Avg   float64 `json:"avg_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	Max   float64 `json:"max_ms"`
}

// Part is how many of a set have a property. It is absent (Of 0) where the set is empty.
type Part struct {
	N     int64   `json:"count"`
	Of    int64   `json:"of"`
	Share float64 `json:"share"`
}

// PartOf is n of so many.
func PartOf(n, of int64) Part {
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
	// WriteTime is from before the first write of a request to after its last, of requests with a body of at most SmallBody bytes: the
	// network is no part of it, and TTFT holds it.
	WriteTime Spread `json:"write_time_small_bodies,omitzero"`
	// KernelStamps: requests whose content stamps are all the kernel's.
	KernelStamps Part `json:"kernel_stamps,omitzero"`
	// TTFTExact: of the requests in time_to_first_token, those whose first token's arrival is exact.
	TTFTExact Part `json:"ttft_exact,omitzero"`
	// TTFTSlack bounds how much lower a request's true TTFT may be than what is reported.
	TTFTSlack Spread `json:"ttft_slack,omitzero"`
	// ITLSlack bounds how far a request's true inter token latency may be from what is reported, either way.
	ITLSlack Spread `json:"itl_slack,omitzero"`
	// ITLMissing: of the streamed answers of 2 tokens and more, those without an inter token latency, since all of it came in one event or
	// one read.
	ITLMissing Part `json:"itl_missing,omitzero"`
	// GapSlack bounds, request by request, how far any of its measured gaps may be from the true one, either way.
	GapSlack Spread `json:"gap_slack,omitzero"`
	// GapsExact: gaps between two events whose arrivals are both exact.
	GapsExact Part `json:"gaps_exact,omitzero"`
	// GapsShared: gaps between two events of one read, which are no measurement and are left out of inter_chunk_latency.
	GapsShared Part `json:"gaps_in_one_read,omitzero"`
	// EventsARead is how many content events came in each read that brought any, on average; 0 where nothing was streamed.
	EventsARead float64 `json:"content_events_a_read,omitzero"`
	// Truncated: requests whose kept text reached its bound, so that client token counts are too low.
	Truncated int64 `json:"truncated"`
	// Malformed: answered requests with events that could not be read and were left out.
	Malformed int64 `json:"malformed"`
	// Whole: requests that asked for a stream and were answered in one document, so that they have no first token.
	Whole int64 `json:"not_streamed,omitzero"`
	// Strange: answered requests with text, before any content, under a name that is not read.
	Strange int64 `json:"text_under_unknown_names,omitzero"`
}

// SmallBody is the size in bytes up to which a request's body fits any socket's send buffer, whose default on Linux is 16 KiB at least.
const SmallBody = 16 << 10

// ClientReport reports on the client's own part in the numbers so far.
func (a *Accumulator) ClientReport() ClientReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.client
	r := ClientReport{
		ReceiveDelayFirst: c.lateFirst.Spread(), ReceiveDelayMax: c.lateMax.Spread(), SendLate: c.sendLate.Spread(), WriteTime: c.writeTime.Spread(),
		KernelStamps: PartOf(c.kernel, c.lateFirst.n), TTFTExact: PartOf(c.exact, c.ttftSlack.n),
		TTFTSlack: c.ttftSlack.Spread(), ITLSlack: c.itlSlack.Spread(), ITLMissing: PartOf(c.itlMissing, c.itlMissing+c.itlSlack.n),
		GapSlack: c.gapSlack.Spread(), GapsExact: PartOf(c.gapsExact, c.gaps), GapsShared: PartOf(c.gapsShared, c.gaps),
		Truncated: c.truncated, Malformed: c.malformed, Whole: c.whole, Strange: c.strange,
	}
	if c.contentReads > 0 {
		r.EventsARead = float64(c.contentEvents) / float64(c.contentReads)
	}
	return r
}

// clientSide gathers the figures of ClientReport. Its series are in ns.
type clientSide struct {
	lateFirst, lateMax, sendLate, writeTime, ttftSlack, itlSlack, gapSlack *Series

	kernel, exact, itlMissing, gaps, gapsExact, gapsShared, contentEvents, contentReads, truncated, malformed, whole, strange int64
}

func newClientSide(o *Options) clientSide {
	s := func(hdr bool) *Series { return NewSeries(SeriesOptions{Unit: Nanoseconds, Cap: o.ExactCap, HDR: hdr}) }
	return clientSide{lateFirst: s(o.HDR), lateMax: s(o.HDR), sendLate: s(o.HDR), writeTime: s(o.HDR),
		ttftSlack: s(false), itlSlack: s(false), gapSlack: s(false)}
}

// series are all of them, in one order.
func (c *clientSide) series() [7]*Series {
	return [...]*Series{c.lateFirst, c.lateMax, c.sendLate, c.writeTime, c.ttftSlack, c.itlSlack, c.gapSlack}
}

// numbers are all the counts, in one order.
func (c *clientSide) numbers() [12]*int64 {
	return [...]*int64{&c.kernel, &c.exact, &c.itlMissing, &c.gaps, &c.gapsExact, &c.gapsShared, &c.contentEvents, &c.contentReads, &c.truncated,
		&c.malformed, &c.whole, &c.strange}
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
	if took, ok := between(r.HTTP.FirstWrite, r.HTTP.LastWrite); ok && r.HTTP.Sent <= SmallBody {
		c.writeTime.Add(took)
	}
	c.kernel += int64(oneIf(r.KernelStamps))
	c.truncated += int64(oneIf(r.Truncated))
	c.malformed += int64(oneIf(r.Malformed > 0))
	c.strange += int64(oneIf(r.Strange != ""))
	c.whole += int64(oneIf(r.Whole))
	if !streaming || !shown || r.Whole {
		return
	}
	c.exact += int64(oneIf(r.FirstSlack == 0))
	c.ttftSlack.Add(micros(r.FirstSlack))
	if n, ok := osl(r); ok && n >= 2 {
		if _, ok := itl(r); ok {
			c.itlSlack.Add(micros(max(r.FirstSlack, r.LastSlack)) / (n - 1))
		} else {
			c.itlMissing++
		}
	}
	c.contentEvents += int64(r.Chunks)
	c.contentReads += int64(r.Chunks - r.SharedReads)
	c.gaps += int64(len(r.Gaps))
	c.gapsExact += int64(r.GapsExact)
	measured := false
	for _, g := range r.Gaps {
		c.gapsShared += int64(oneIf(g == Shared))
		measured = measured || g != Shared
	}
	if measured {
		c.gapSlack.Add(micros(r.GapSlack))
	}
}

func (c *clientSide) merge(o *clientSide) {
	from := o.series()
	for i, s := range c.series() {
		s.Merge(from[i])
	}
	more := o.numbers()
	for i, n := range c.numbers() {
		*n += *more[i]
	}
}

// histograms are copies of those that have values.
func (c *clientSide) histograms() []Histogram {
	var out []Histogram
	for _, h := range [...]struct {
		tag, header string
		s           *Series
	}{
		{"client_receive_delay_first_token", "Receive Delay of the First Token", c.lateFirst},
		{"client_receive_delay_max", "Longest Receive Delay of a Request", c.lateMax},
		{"client_send_lateness", "Send Lateness", c.sendLate},
		{"client_write_time_small_bodies", "Write Time of Small Bodies", c.writeTime},
	} {
		if h.s.pos != nil {
			def := &Def{Tag: h.tag, Header: h.header, Unit: Nanoseconds, Display: Milliseconds}
			out = append(out, Histogram{def, h.s.pos.Clone(), h.s.res.scale})
		}
	}
	return out
}

// micros is a time in µs in ns.
func micros(us uint32) float64 { return float64(us) * 1e3 }

// Spread is a series of ns in short.
func (s *Series) Spread() Spread {
	if s.n == 0 {
		return Spread{}
	}
	at := s.ranks()
	p := func(p float64) float64 { return percentile(p, s.n, at) / 1e6 }
	return Spread{Count: s.n, Min: s.min / 1e6, Avg: s.mean() / 1e6, P50: p(50), P90: p(90), P99: p(99), P999: p(99.9), Max: s.max / 1e6}
}
