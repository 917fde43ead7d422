package portable

import (
	"context"
	"slices"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/h2"
	"prefire/loadgen/wire/pooling"
)

// pool holds the connections to one target. Everything in it is guarded by Transport.mu.
type pool struct {
	t      *Transport
	target *wire.Target
	probe  wire.Probe
	keep   int // connections to have ready or in use; what Open was asked for
	upkeep pooling.Upkeep
	pause  int64 // no dial of the pool's own before this time
	shared bool  // the target is known to speak HTTP/2
	carry  int   // how many requests its last HTTP/2 connection could carry when it was new; 0 = not known
	conns  map[wire.ConnID]*conn
	idle   []*conn // HTTP/1.1, the one used last at the end
	held   []*conn // HTTP/1.1, each waits for its session's next call
	muxes  []*conn // HTTP/2, those that take requests
	preps  []*prep // connections being made ready
	queue  []*request
}

// prep is a connection being made ready: dialled and probed, or probed again.
type prep struct {
	conn   *conn // nil while it is dialled
	fresh  bool  // dialled, not only probed again
	owners []*request
	probe  wire.Probe
	stop   context.CancelFunc
}

// take gives a ready connection, or nil: the one named, if it is free, else the one used last, which is the furthest from the server's idle
// limit. One that the server has closed meanwhile is dropped on the way.
func (p *pool) take(id wire.ConnID) *conn {
	if c := p.conns[id]; c != nil && c.mux != nil && slices.Contains(p.muxes, c) && c.mux.InFlight() < c.mux.Limit() {
		return c
	}
	var best *conn
	for _, c := range p.muxes {
		if n := c.mux.InFlight(); n < c.mux.Limit() && (best == nil || n < best.mux.InFlight()) {
			best = c
		}
	}
	if best != nil {
		return best
	}
	if c := p.conns[id]; c != nil && p.unhold(c) {
		if !c.stale() {
			return c
		}
		p.drop(c)
	}
	for len(p.idle) > 0 {
		i := len(p.idle) - 1
		if id != 0 {
			if j := slices.IndexFunc(p.idle, func(c *conn) bool { return c.facts.ID == id }); j >= 0 {
				i, id = j, 0
			}
		}
		c := p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		if !c.stale() {
			return c
		}
		p.drop(c)
	}
	return nil
}

// place finds r a connection: a ready one; else one that is being made ready and has room for it; else one dialled for it. Where all streams
// of HTTP/2 connections that were opened beforehand are taken it waits for one; where none were, nobody has said how many connections
// there should be, and it dials: a request that waits for another's end is no load on the server.
func (p *pool) place(r *request) {
	if r.call.Lease == wire.Single {
		p.dial(r)
		return
	}
	if q := p.proving(r.call.Conn); q != nil {
		q.owners = append(q.owners, r)
		return
	}
	if c := p.take(r.call.Conn); c != nil {
		r.assign(c, pooling.Unused(c.uses))
		return
	}
	if len(p.muxes) > 0 && p.keep > 0 {
		p.queue = append(p.queue, r)
		return
	}
	for _, q := range p.preps {
		if len(q.owners) < p.room(q) {
			q.owners = append(q.owners, r)
			return
		}
	}
	p.dial(r)
}

// room is how many requests may wait for q's connection: one, unless it is known that it will carry more.
func (p *pool) room(q *prep) int {
	switch {
	case q.conn != nil && q.conn.mux != nil:
		return q.conn.mux.Limit()
	case q.conn == nil && p.shared && p.carry > 0:
		return p.carry
	case q.conn == nil && p.shared && p.target.Streams > 0:
		return p.target.Streams
	case q.conn == nil && p.shared:
		return h2.DefaultStreams
	}
	return 1
}

// dial starts a dial, for r or (nil) to keep the pool full.
func (p *pool) dial(r *request) {
	q := &prep{fresh: true}
	if r != nil {
		q.owners = append(q.owners, r)
	}
	var ctx context.Context
	ctx, q.stop = context.WithCancel(p.t.ctx)
	p.preps = append(p.preps, q)
	p.t.work.Go(func() {
		defer q.stop()
		p.prepare(ctx, q)
	})
}

// prepare dials and, where nobody waits for the connection yet, probes.
func (p *pool) prepare(ctx context.Context, q *prep) {
	t := p.t
	c, e := t.connect(ctx, p)
	t.mu.Lock()
	if e != nil {
		p.unlist(q)
		owners := q.owners
		if ctx.Err() == nil { // a dial that was given up says nothing of the server
			p.pause = t.o.Clock.Now() + int64(pooling.RedialWait)
		}
		for _, r := range owners {
			// The request is the transport's alone here: it has no connection, and nothing else ends it once it is over.
			r.over = true
			r.call.Facts.Conn = c.facts
		}
		t.mu.Unlock()
		for _, r := range owners {
			r.fail(e)
		}
		return
	}
	if t.closed {
		p.unlist(q)
		t.mu.Unlock()
		c.shut()
		return
	}
	q.conn = c
	if len(q.owners) > 0 || p.probe.Path == "" {
		p.ready(q)
		t.mu.Unlock()
		return
	}
	p.conns[c.facts.ID] = c
	q.probe = p.probe
	t.mu.Unlock()
	p.proveIn(ctx, q)
}

// proveIn probes the connection of q and gives it to those who came to wait for it, or to the pool.
func (p *pool) proveIn(ctx context.Context, q *prep) {
	t, c := p.t, q.conn
	ctx, cancel := context.WithTimeout(ctx, pooling.ProbeLimit)
	e := c.prove(ctx, q.probe)
	cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	if e == nil && !c.gone && !t.closed {
		p.ready(q)
		return
	}
	p.unlist(q)
	if c.gone && q.fresh {
		p.keep = 0 // the server closes after the first answer: none can be kept ready
	}
	if e != nil {
		p.pause = t.o.Clock.Now() + int64(pooling.RedialWait)
	}
	owners := q.owners
	p.drop(c)
	for _, r := range owners {
		if !t.closed {
			p.place(r)
		}
	}
}

// ready takes q's connection into the pool, or gives it to those who wait for it.
func (p *pool) ready(q *prep) {
	p.unlist(q)
	c := q.conn
	if c.mux != nil {
		p.carry = c.mux.Limit()
		p.addMux(c)
	} else {
		p.conns[c.facts.ID] = c
	}
	for _, r := range q.owners {
		switch {
		case c.mux != nil && c.mux.InFlight() >= c.mux.Limit():
			r.Cold |= wire.Dialled
			if p.carry > 0 {
				p.place(r)
			} else {
				p.queue = append(p.queue, r) // another connection would carry nothing either
			}
		case q.fresh:
			r.assign(c, wire.Dialled)
		default:
			c.hold = pooling.Shared
			r.Queued = true
			r.assign(c, 0)
		}
	}
	switch {
	case c.mux != nil || len(q.owners) > 0:
	case c.hold == pooling.Held:
		p.held = append(p.held, c)
	case c.hold == pooling.Released:
		p.drop(c)
	default:
		p.idle = append(p.idle, c)
	}
	p.serve()
}

func (p *pool) unlist(q *prep) {
	p.preps = slices.DeleteFunc(p.preps, func(x *prep) bool { return x == q })
}

// add takes a probed connection of Open.
func (p *pool) add(c *conn) {
	if c.gone {
		c.abort()
		p.keep = 0
		return
	}
	if c.mux != nil {
		p.addMux(c)
		p.serve()
		return
	}
	p.conns[c.facts.ID] = c
	p.idle = append(p.idle, c)
}

func (p *pool) addMux(c *conn) {
	if c.mux.Err() == nil {
		p.shared = true
		p.muxes = append(p.muxes, c)
		p.conns[c.facts.ID] = c
	}
}

// give takes an HTTP/1.1 connection back after an answer to a call with that lease, which left it usable.
func (p *pool) give(c *conn, lease wire.Lease) {
	c.lastUsed = p.t.o.Clock.Now()
	switch lease {
	case wire.Single, wire.Final:
		p.drop(c)
	case wire.Held:
		c.hold = pooling.Held
		p.held = append(p.held, c)
	default:
		p.idle = append(p.idle, c)
	}
}

// unhold takes c out of those that wait for their sessions; false where it is not there.
func (p *pool) unhold(c *conn) bool {
	i := slices.Index(p.held, c)
	if i < 0 {
		return false
	}
	p.held = slices.Delete(p.held, i, i+1)
	c.hold = pooling.Shared
	return true
}

// proving is the probing of the connection of that name where it is held for its session; nil = it is not.
func (p *pool) proving(id wire.ConnID) *prep {
	c := p.conns[id]
	if c == nil || c.hold != pooling.Held {
		return nil
	}
	for _, q := range p.preps {
		if q.conn == c && len(q.owners) == 0 {
			return q
		}
	}
	return nil
}

// release closes a connection that is held for a session which has ended; one that is being probed, after its probe.
func (p *pool) release(id wire.ConnID) {
	switch c := p.conns[id]; {
	case c == nil || c.hold != pooling.Held:
	case p.unhold(c):
		p.drop(c)
	default:
		c.hold = pooling.Released
	}
}

// drop closes a connection for good and has another made ready in its place.
func (p *pool) drop(c *conn) {
	delete(p.conns, c.facts.ID)
	p.muxes = slices.DeleteFunc(p.muxes, func(x *conn) bool { return x == c })
	c.abort()
	p.fill()
}

// retire takes no more requests to an HTTP/2 connection that is about to say that it takes none.
func (p *pool) retire(c *conn) {
	p.muxes = slices.DeleteFunc(p.muxes, func(x *conn) bool { return x == c })
}

// fill dials what is missing of the connections to keep.
func (p *pool) fill() { p.fillUp(func(n, _ int) int { return n }) }

// fillUp dials as many as most says, of n that are missing where have are idle or in the making.
func (p *pool) fillUp(most func(n, have int) int) {
	if p.t.closed || p.t.o.Clock.Now() < p.pause {
		return
	}
	have := len(p.conns)
	for _, q := range p.preps {
		if q.fresh && (q.conn == nil || p.conns[q.conn.facts.ID] == nil) {
			have++
		}
	}
	for range most(pooling.Missing(have, p.keep, p.unowned()), len(p.idle)+p.unowned()) {
		p.dial(nil)
	}
}

// unowned is how many connections are being made ready that nobody waits for.
func (p *pool) unowned() (n int) {
	for _, q := range p.preps {
		if len(q.owners) == 0 {
			n++
		}
	}
	return n
}

// serve gives streams that have become free to the requests that wait for one.
func (p *pool) serve() {
	for len(p.queue) > 0 {
		r := p.queue[0]
		c := p.take(r.call.Conn)
		if c == nil {
			break
		}
		p.queue = p.queue[1:]
		r.Queued = true
		r.assign(c, r.Cold)
	}
	if len(p.queue) > 0 && len(p.muxes) == 0 {
		waiting := p.queue
		p.queue = nil
		for _, r := range waiting {
			r.Queued = true
			p.place(r)
		}
	}
}

// forget takes r out of whatever it waits in. A dial that was for it alone is given up.
func (p *pool) forget(r *request) {
	p.queue = slices.DeleteFunc(p.queue, func(x *request) bool { return x == r })
	for _, q := range p.preps {
		if i := slices.Index(q.owners, r); i >= 0 {
			q.owners = slices.Delete(q.owners, i, i+1)
			if len(q.owners) == 0 && q.conn == nil {
				q.stop()
				p.unlist(q)
			}
			return
		}
	}
}

// down is told by an HTTP/2 connection that it takes no more requests; those it carries go on.
func (p *pool) down(m *h2.Conn) {
	t := p.t
	t.mu.Lock()
	defer t.mu.Unlock()
	used := false
	for id, c := range p.conns {
		if c.mux == m {
			used = c.uses > 1
			delete(p.conns, id)
		}
	}
	p.muxes = slices.DeleteFunc(p.muxes, func(x *conn) bool { return x.mux == m })
	if t.closed {
		return
	}
	if used {
		p.fill() // else the keeper does, so that a server which closes at once is not dialled without a pause
	}
	p.serve()
}
