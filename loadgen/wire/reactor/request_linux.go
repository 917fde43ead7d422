//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/pooling"
)

// request is one use of a Call. The loop uses its requests again.
type request struct {
	l       *loop
	call    *wire.Call
	gen     uint32
	pool    *pool
	conn    *conn // nil while it waits for one
	timeout timer
	plan    timer

	pooling.Attempts
}

func newRequest(l *loop) *request {
	r := &request{l: l}
	r.timeout.fire = func() { r.cancel(wire.ByTimeout, l.now()) }
	r.plan.fire = func() { r.cancel(wire.ByPlan, l.now()) }
	return r
}

// assign gives r its connection and sends it.
func (r *request) assign(c *conn, cold wire.Cold) {
	c.uses++
	r.conn = c
	r.pool.upkeep.Take(1)
	r.Assign(r.call, r.l.now(), c.facts, c.uses, cold)
	c.ask(r)
}

// sent is told when the last byte is the kernel's.
func (r *request) sent(at int64) {
	r.call.Facts.LastWrite = at
	if r.call.CancelAfter > 0 {
		r.l.timers.set(&r.plan, at+int64(r.call.CancelAfter))
	}
}

// answered takes the end of the exchange: e is nil where the whole answer has come, caught says that the connection was lost before a byte
// of it, keeps that the connection is good for another request.
func (r *request) answered(c *conn, e *wire.Error, caught, keeps bool) {
	f := &r.call.Facts
	f.Sent = int64(max(c.sent-c.head, 0))
	now := r.l.now()
	if caught && pooling.Caught(f, now) && r.again(c) {
		return
	}
	pooling.Written(f, c.writes)
	s := c.end
	if e != nil || s.User == 0 {
		s = wire.Stamp{At: now, User: now}
	}
	r.finish(c, s, e, keeps)
}

// again sends r once more, on another connection; false where it was sent twice already.
func (r *request) again(c *conn) bool {
	if !r.Again(r.call) {
		return false
	}
	r.l.timers.unset(&r.plan)
	r.conn = nil
	p := r.pool
	p.upkeep.Give(1)
	p.drop(c)
	p.place(r, p.take(r.call.Conn, false))
	return true
}

// cancel ends r, which is not over.
func (r *request) cancel(why wire.Cause, at int64) {
	c := r.conn
	if c != nil && c.state == answered { // the whole answer is here: only the rest of the request is not sent
		c.over(nil, false)
		return
	}
	f := &r.call.Facts
	if c != nil && f.SawDone {
		c.unended()
		return
	}
	f.Cause, f.CancelledAt = why, at
	if c != nil {
		f.Sent = int64(max(c.sent-c.head, 0))
	} else if r.pool != nil {
		r.pool.forget(r)
	}
	now := r.l.now()
	r.finish(c, wire.Stamp{At: now, User: now}, wire.Cancelled(why, r.call.CancelAfter), false)
}

// fail ends r, which has no connection.
func (r *request) fail(e *wire.Error) {
	now := r.l.now()
	r.finish(nil, wire.Stamp{At: now, User: now}, e, false)
}

// finish ends the Call and lets go of it and of the connection. Done is the last that is done with the Call.
func (r *request) finish(c *conn, s wire.Stamp, e *wire.Error, keeps bool) {
	l, call := r.l, r.call
	call.End(s, e)
	l.timers.unset(&r.timeout)
	l.timers.unset(&r.plan)
	delete(l.active, call)
	l.flight.Add(-1)
	l.count.fell.Add(int64(call.Facts.StampsFell))
	p := r.pool
	r.call, r.pool, r.conn = nil, nil, nil
	r.Attempts = pooling.Attempts{}
	l.spare = append(l.spare, r)
	if c != nil {
		p.upkeep.Give(1)
		if keeps {
			p.give(c, call.Lease)
		} else {
			p.drop(c)
		}
	}
	if call.Obs != nil {
		call.Obs.Done(call)
	}
}
