package loadgen

import (
	"prefire/loadgen/wire"
	"prefire/metrics"
)

// fill makes the request's record out of what the transport brought back.
func fill(r *metrics.Record, c *wire.Call) {
	f := &c.Facts
	r.Ready, r.Start, r.End = f.Ready, start(f), f.EndAt
	r.Cold = metrics.Cold(f.Cold)
	r.Events, r.SharedReads, r.Malformed, r.Truncated = f.Events, f.SharedReads, f.Malformed, f.Truncated
	if f.Status >= 200 && f.Status <= 299 {
		r.Ack = f.HeadAt
	}
	r.Strange = f.Strange
	chunks(r, c.Chunks)
	r.Whole = r.Streaming && r.First != 0 && f.Events == 0
	r.HTTP = metrics.HTTP{
		Blocked:    f.Queued,
		FirstWrite: f.FirstWrite, LastWrite: f.LastWrite,
		Head:      f.HeadAt,
		FirstByte: f.FirstByte, LastByte: f.LastByte,
		Reused: f.Reused,
		Sent:   f.Sent, Received: f.Received,
		Reads:  int64(f.Reads),
		Status: f.Status, Reason: f.Reason,
		Local: f.Conn.Local, Remote: f.Conn.Remote,
		ConnID: uint64(f.Conn.ID), ConnUse: f.ConnUse, Protocol: f.Conn.Protocol,
	}
	if f.Sent > 0 {
		r.HTTP.Writes = 1
	}
	if !f.Reused {
		k := &f.Conn
		r.HTTP.DNSStart, r.HTTP.DNSEnd = k.DNSStart, k.DNSEnd
		r.HTTP.DialStart, r.HTTP.DialEnd = k.DialStart, k.DialEnd
		r.HTTP.TLSStart, r.HTTP.TLSEnd = k.TLSStart, k.TLSEnd
	}
	if e := f.Err; e != nil {
		r.Err = &metrics.Error{Code: e.Code, Type: e.Type, Message: e.Message, Cause: e.Cause, Chain: e.Chain}
	}
	r.CancelledAt = f.CancelledAt
	switch f.Cause {
	case wire.ByPlan:
		r.Cancelled = true
	case wire.ByGrace, wire.ByUser:
		// A request that had already failed or finished when the cut came is what it was.
		r.Censored = f.Err != nil && f.Err.Code == 499
	}
}

// exchange takes the parts of the exchange.
func exchange(c *wire.Call) *metrics.Exchange {
	t := &metrics.Exchange{Reads: make([]metrics.Read, len(c.Reads))}
	for i, p := range c.Reads {
		t.Reads[i] = metrics.Read{At: p.At, Size: int64(p.Size)}
	}
	for _, f := range c.Reply {
		t.Reply = append(t.Reply, metrics.HeaderField{Name: f.Name, Value: f.Value})
	}
	return t
}

// start is where a request's clock starts: at its first write where it had a ready connection, at the moment it was ready to go where it had
// to dial or wait for a dial, by the plan's wish too, or was sent again.
func start(f *wire.Facts) int64 {
	if f.FirstWrite == 0 || !f.Reused || f.Cold&(wire.Dialled|wire.Resent) != 0 {
		return f.Ready
	}
	return f.FirstWrite
}

// chunks takes TTFT, the gaps and what is known of their exactness out of the content parts.
func chunks(r *metrics.Record, parts []wire.Chunk) {
	if len(parts) == 0 {
		return
	}
	r.KernelStamps = true
	if len(parts) > 1 {
		r.Gaps = make([]metrics.Gap, 0, len(parts)-1)
	}
	for i := range parts {
		p := &parts[i]
		if p.Class != wire.Reasoning && r.FirstOut == 0 {
			r.FirstOut = p.At
		}
		if p.Flags&wire.Kernel == 0 {
			r.KernelStamps = false
		}
		r.MaxLate = max(r.MaxLate, p.Late)
		if p.Flags&wire.SamePart != 0 {
			continue
		}
		r.Chunks++
		before := r.LastSlack
		r.LastSlack = p.Slack
		if r.First == 0 {
			r.First, r.FirstSlack, r.FirstLate = p.At, p.Slack, p.Late
		} else {
			// Two events of one read came at times that one stamp cannot tell apart, and so did those of two reads that took one packet in
			// parts; and a stamp that fell back to the user's clock may lie after a later kernel stamp. Such a gap is absent, not 0.
			gap := metrics.Gap(p.At - r.Last)
			switch {
			case p.Flags&wire.SharesRe != 0 || gap <= 0:
				gap = metrics.Shared
			case before == 0 && p.Slack == 0:
				r.GapsExact++
			default: // its first event may have come so much earlier, its second as well
				r.GapSlack = max(r.GapSlack, before, p.Slack)
			}
			r.Gaps = append(r.Gaps, gap)
			if r.Chunks == 2 && gap != metrics.Shared {
				r.Second = p.At
			}
		}
		r.Last = max(r.Last, p.At)
	}
}

// texts splits the kept text into output (content and tool calls) and reasoning. Where the answer has no reasoning, output is the text
// itself; else both are built in the buffers given.
func texts(c *wire.Call, out, reason []byte) (output, reasoning []byte) {
	has := false
	for i := range c.Chunks {
		has = has || c.Chunks[i].Class == wire.Reasoning
	}
	if !has {
		return c.Text, nil
	}
	out, reason = out[:0], reason[:0]
	var from uint32
	for i := range c.Chunks {
		part := c.Text[from:c.Chunks[i].Off]
		from = c.Chunks[i].Off
		if c.Chunks[i].Class == wire.Reasoning {
			reason = append(reason, part...)
		} else {
			out = append(out, part...)
		}
	}
	return out, reason
}
