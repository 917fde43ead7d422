package portable

import (
	"errors"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/h2"
	"prefire/loadgen/wire/http1"
	"prefire/loadgen/wire/pooling"
)

// request is one use of a Call. What Cancel may touch is guarded by Transport.mu; the Call and its Facts belong to whoever drives the
// request: Start and the pool until it has a connection, then its goroutine or its HTTP/2 connection.
type request struct {
	t       *Transport
	call    *wire.Call
	gen     uint32
	pool    *pool
	timeout *time.Timer
	plan    *time.Timer

	pooling.Attempts
	conn    *conn
	turned  int  // connections that took no more requests when it came to them
	over    bool // nothing may cancel it any more
	cause   wire.Cause
	causeAt int64
}

// assign gives r its connection and sends it. The lock is held.
func (r *request) assign(c *conn, cold wire.Cold) {
	now := r.t.o.Clock.Now()
	c.uses++
	r.conn = c
	r.Assign(r.call, now, c.facts, c.uses, cold)
	if c.mux == nil {
		r.pool.upkeep.Take(1)
		r.t.work.Go(func() { r.run(c) })
		return
	}
	r.pool.upkeep.Take(0)
	c.lastUsed = now
	err := c.mux.Do(r.call, func(o h2.Outcome) { r.left(c, o) })
	if err == nil {
		if r.timeout != nil {
			r.timeout.Stop() // the HTTP/2 connection keeps the time from here
		}
		return
	}
	c.uses--
	r.conn = nil
	var refused *wire.Error
	switch {
	case errors.As(err, &refused):
		r.over = true
		r.t.work.Go(func() { r.fail(refused) })
	case errors.Is(err, h2.ErrFull):
		r.pool.queue = append(r.pool.queue, r)
	default:
		r.pool.retire(c)
		if r.turned++; r.turned < maxTurned {
			r.pool.place(r)
			return
		}
		r.over = true
		gone := &wire.Error{Type: "ServerDisconnectedError", Message: wire.Bound("Server disconnected before it took the request: " + wire.Words(err))}
		r.t.work.Go(func() { r.fail(gone) })
	}
}

// run sends r over an HTTP/1.1 connection and reads the answer.
func (r *request) run(c *conn) {
	k := r.t.kits.Get().(*kit)
	method, path := pooling.Line(r.call)
	res := c.exchange(k, &outgoing{
		method: method, path: path, target: r.pool.target, header: r.call.Header, body: r.call.Body,
		sent: func(at int64) { r.planCancel(at) },
	}, &callSink{r.call, c.src, &k.resp})
	r.t.kits.Put(k)
	f := &r.call.Facts
	f.FirstWrite, f.LastWrite, f.Sent, f.Unended = c.src.FirstWrite(), res.lastWrite, res.sent, res.unended
	pooling.Written(f, res.writes)
	now := r.t.o.Clock.Now()
	if res.lost && pooling.Caught(f, now) && r.again(c) {
		return
	}
	s := res.stamp
	if res.err != nil || s.User == 0 {
		s = wire.Stamp{At: now, User: now}
	}
	r.finish(c, s, res.err, res.reusable)
}

// again sends r once more, on another connection; false where it was sent twice already, or is cancelled.
func (r *request) again(c *conn) bool {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.cause != wire.NotCancelled || t.closed || !r.Again(r.call) {
		return false
	}
	if r.plan != nil {
		r.plan.Stop()
		r.plan = nil
	}
	r.conn = nil
	if c.mux == nil {
		r.pool.upkeep.Give(1)
		r.pool.drop(c)
	}
	if r.call.Timeout > 0 && c.mux != nil {
		left := r.call.Timeout - time.Duration(t.o.Clock.Now()-r.call.Facts.Ready)
		r.timeout = time.AfterFunc(max(left, 0), func() { t.Cancel(r.call, r.gen, wire.ByTimeout) })
	}
	r.pool.place(r)
	return true
}

// left takes r back from its HTTP/2 connection.
func (r *request) left(c *conn, o h2.Outcome) {
	f := &r.call.Facts
	switch o.Verdict {
	case h2.Ended:
		r.t.mu.Lock()
		cause, at := r.cause, r.causeAt
		r.t.mu.Unlock()
		if cause != wire.NotCancelled && f.Err != nil && f.Cause == wire.NotCancelled {
			// The connection ended before it had come to the cancelling.
			f.Err, f.Cause, f.CancelledAt = wire.Cancelled(cause, r.call.CancelAfter), cause, at
		}
		r.close(c, false)
		return
	case h2.Dropped:
		if !pooling.Caught(f, r.t.o.Clock.Now()) {
			break
		}
		fallthrough
	case h2.Refused:
		if r.again(c) {
			return
		}
	}
	r.finish(c, o.Stamp, o.Err, false)
}

// planCancel arms CancelAfter.
func (r *request) planCancel(lastWrite int64) {
	if r.call.CancelAfter <= 0 {
		return
	}
	t := r.t
	left := r.call.CancelAfter - time.Duration(t.o.Clock.Now()-lastWrite)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.over {
		r.plan = time.AfterFunc(max(left, 0), func() { t.Cancel(r.call, r.gen, wire.ByPlan) })
	}
}

// cancel ends r if it is not over. The lock is held.
func (r *request) cancel(why wire.Cause) {
	if r.over || r.cause != wire.NotCancelled {
		return
	}
	r.cause, r.causeAt = why, r.t.o.Clock.Now()
	switch {
	case r.conn == nil:
		r.over = true
		r.pool.forget(r)
		r.t.work.Go(func() { r.fail(nil) })
	case r.conn.mux != nil:
		r.conn.mux.Cancel(r.call, r.gen, why)
	default:
		r.conn.abort()
	}
}

// fail ends r, which has no connection and is over.
func (r *request) fail(e *wire.Error) {
	now := r.t.o.Clock.Now()
	r.finish(nil, wire.Stamp{At: now, User: now}, e, false)
}

// finish ends the Call: with e, or with the reason of its cancelling.
func (r *request) finish(c *conn, s wire.Stamp, e *wire.Error, reusable bool) {
	r.t.mu.Lock()
	r.over = true
	cause, at := r.cause, r.causeAt
	r.t.mu.Unlock()
	if cause != wire.NotCancelled && (e != nil || c == nil) {
		e = wire.Cancelled(cause, r.call.CancelAfter)
		r.call.Facts.Cause, r.call.Facts.CancelledAt = cause, at
	}
	r.call.End(s, e)
	r.close(c, reusable && cause == wire.NotCancelled)
}

// close lets go of the Call, after its End, and of its connection.
func (r *request) close(c *conn, reusable bool) {
	t := r.t
	if r.timeout != nil {
		r.timeout.Stop()
	}
	t.mu.Lock()
	r.over, r.conn = true, nil
	if r.plan != nil {
		r.plan.Stop()
	}
	if t.active[r.call] == r {
		delete(t.active, r.call)
	}
	t.fell += int64(r.call.Facts.StampsFell)
	if r.call.Facts.Unended {
		t.unended++
	}
	if c != nil && c.mux == nil {
		r.pool.upkeep.Give(1)
	}
	switch {
	case c == nil:
	case c.mux != nil:
		c.lastUsed = t.o.Clock.Now()
		if !t.closed {
			r.pool.serve()
		}
	case reusable && !t.closed:
		r.pool.give(c, r.call.Lease)
	default:
		r.pool.drop(c)
	}
	t.mu.Unlock()
	if r.call.Obs != nil {
		r.call.Obs.Done(r.call)
	}
}

// callSink puts an answer into a Call.
type callSink struct {
	call *wire.Call
	src  interface{ FirstWrite() int64 }
	resp *http1.Response
}

func (s *callSink) Field(name, value []byte) { s.call.Field(name, value) }

func (s *callSink) Head(status int, reason, contentType string, st wire.Stamp) {
	f := &s.call.Facts
	f.FirstWrite, f.Encoding, f.RetryAfter = s.src.FirstWrite(), s.resp.Encoding(), s.resp.RetryAfter()
	s.call.Head(status, reason, contentType, st)
}

func (s *callSink) Data(p []byte, st wire.Stamp, last bool) error { return s.call.Data(p, st, last) }
func (s *callSink) complete() bool                                { return s.call.Facts.SawDone }
