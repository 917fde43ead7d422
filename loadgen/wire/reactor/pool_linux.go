//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"slices"
	"sync/atomic"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/pooling"
)

// pool holds the connections to one target.
type pool struct {
	l      *loop
	target *wire.Target
	probe  wire.Probe
	keep   int // connections to have ready or in use; what Open was asked for
	upkeep pooling.Upkeep
	pause  int64 // no dial of the pool's own before this time
	conns  map[wire.ConnID]*conn
	idle   []*conn       // ready, the one used last at the end
	held   []*conn       // each waits for its session's next call
	free   *atomic.Int64 // as many, less those that are promised
	making []*conn       // dialled, or probed: those that requests may wait for
}

// take gives a ready connection, or nil: the one named, if it is free, else the one used last, which is the furthest from the server's idle
// limit. One that the server has closed meanwhile is dropped on the way. seat is a promise, kept or broken by this.
func (p *pool) take(id wire.ConnID, seat bool) *conn {
	if seat {
		p.free.Add(1)
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
			if c := p.conns[id]; c != nil && c != p.idle[i] {
				if j := slices.Index(p.idle, c); j >= 0 {
					i = j
				}
			}
			id = 0
		}
		c := p.idle[i]
		p.unready(i)
		if !c.stale() {
			return c
		}
		p.drop(c)
	}
	return nil
}

// addReady takes c among those that are to be had.
func (p *pool) addReady(c *conn) {
	p.idle = append(p.idle, c)
	p.free.Add(1)
}

// unready takes a connection out of those that are to be had.
func (p *pool) unready(i int) {
	p.idle = slices.Delete(p.idle, i, i+1)
	p.free.Add(-1)
}

// begin begins r's time, and sends it on c, or has one found where c is nil.
func (p *pool) begin(r *request, c *conn) {
	r.pool = p
	if t := r.call.Timeout; t > 0 {
		p.l.timers.set(&r.timeout, r.call.Facts.Ready+int64(t))
	}
	p.place(r, c)
}

// place sends r on c, a ready connection; else on one that is being made ready and that nobody waits for; else on one dialled for it.
func (p *pool) place(r *request, c *conn) {
	if c != nil {
		r.assign(c, pooling.Unused(c.uses))
		return
	}
	if c := p.proving(r.call.Conn); c != nil {
		c.owner = r
		return
	}
	if r.call.Lease == wire.Single {
		p.dial(r)
		return
	}
	for _, c := range p.making {
		if c.owner == nil {
			c.owner = r
			return
		}
	}
	p.dial(r)
}

// dial starts a dial, for r or (nil) to keep the pool full.
func (p *pool) dial(r *request) {
	c := p.l.dial(p)
	c.owner = r
	p.making = append(p.making, c)
}

// dialled takes a connection that stands: to a probe first, where nobody waits for it yet.
func (p *pool) dialled(c *conn) {
	probe := p.probe
	if c.opening != nil {
		probe = c.opening.probe
	} else {
		p.conns[c.facts.ID] = c
	}
	switch {
	case probe.Path != "" && c.owner == nil:
		if c.opening == nil {
			p.l.timers.set(&c.timer, p.l.now()+int64(pooling.ProbeLimit))
		}
		c.ask(nil)
	case c.opening != nil:
		c.opening.ready(c)
	default:
		p.ready(c)
	}
}

// dialFailed ends those who wait for c, which could not be dialled.
func (p *pool) dialFailed(c *conn, e *wire.Error) {
	if c.opening != nil {
		c.opening.fail(e)
		return
	}
	p.unlist(c)
	p.pause = p.l.now() + int64(pooling.RedialWait)
	if r := c.owner; r != nil {
		c.owner = nil
		r.call.Facts.Conn = c.facts
		r.fail(e)
	}
}

// probed takes a connection after its probe; e is nil where there was an answer.
func (p *pool) probed(c *conn, e *wire.Error, keeps bool) {
	if e == nil {
		p.l.count.probes.Add(1)
		c.uses++
		c.lastUsed = p.l.now()
		if f := &c.facts; f.ProbeEnd == 0 {
			f.ProbeStart, f.ProbeEnd, f.ProbeStatus = c.first, c.end.At, c.status
		}
	}
	if o := c.opening; o != nil {
		if e != nil {
			o.fail(e)
			return
		}
		if !keeps {
			c.refused = true
			c.close()
		}
		o.ready(c)
		return
	}
	if e == nil && keeps {
		p.ready(c)
		return
	}
	p.unlist(c)
	if e != nil {
		p.pause = p.l.now() + int64(pooling.RedialWait)
	} else if c.fresh {
		p.keep = 0 // the server closes after the first answer: none can be kept ready
	}
	r := c.owner
	c.owner = nil
	p.drop(c)
	if r != nil {
		p.place(r, p.take(r.call.Conn, false))
	}
}

// ready takes c into the pool, or gives it to the one who waits for it.
func (p *pool) ready(c *conn) {
	p.unlist(c)
	fresh, r := c.fresh, c.owner
	c.fresh, c.owner = false, nil
	switch {
	case r == nil && c.hold == pooling.Held:
		p.held = append(p.held, c)
	case r == nil && c.hold == pooling.Released:
		p.drop(c)
	case r == nil:
		p.addReady(c)
	case fresh:
		r.assign(c, wire.Dialled)
	default:
		c.hold = pooling.Shared
		r.Queued = true
		r.assign(c, 0)
	}
}

func (p *pool) unlist(c *conn) {
	if i := slices.Index(p.making, c); i >= 0 {
		p.making = slices.Delete(p.making, i, i+1)
	}
}

// add takes a connection of Open. One that the server has closed already is not kept; where it did so by the probe's answer, none is to be
// kept ready.
func (p *pool) add(c *conn) {
	c.opening, c.fresh = nil, false
	if c.state == closed {
		if c.refused {
			p.keep = 0
		}
		return
	}
	p.conns[c.facts.ID] = c
	p.addReady(c)
}

// give takes a connection back after an answer to a call with that lease, which left it usable.
func (p *pool) give(c *conn, lease wire.Lease) {
	c.lastUsed = p.l.now()
	switch {
	case p.l.closed, lease == wire.Single, lease == wire.Final:
		p.drop(c)
	case lease == wire.Held:
		c.hold = pooling.Held
		p.held = append(p.held, c)
	default:
		p.addReady(c)
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

// proving is the connection of that name where it is held for its session and being probed; nil = it is not.
func (p *pool) proving(id wire.ConnID) *conn {
	if c := p.conns[id]; c != nil && c.hold == pooling.Held && c.owner == nil && slices.Contains(p.making, c) {
		return c
	}
	return nil
}

// release closes a connection that is held for a session which has ended. One that is being probed again closes after it.
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
	c.close()
	p.fill()
}

// gone takes the end of a connection that nobody was using. The keeper has another dialled: a server that closes at once is not dialled
// without a pause.
func (p *pool) gone(c *conn) {
	if i := slices.Index(p.idle, c); i >= 0 {
		p.unready(i)
	}
	p.unhold(c)
	delete(p.conns, c.facts.ID)
	c.close()
}

// fill dials what is missing of the connections to keep.
func (p *pool) fill() { p.fillUp(func(n, _ int) int { return n }) }

// fillUp dials as many as most says, of n that are missing where have are idle or in the making.
func (p *pool) fillUp(most func(n, have int) int) {
	if p.l.closed || p.keep == 0 || p.l.now() < p.pause {
		return
	}
	have := len(p.conns)
	for _, c := range p.making {
		if c.state == dialling || c.state == connecting {
			have++
		}
	}
	for range most(pooling.Missing(have, p.keep, p.unowned()), len(p.idle)+p.unowned()) {
		p.dial(nil)
	}
}

// unowned is how many connections are being made ready that nobody waits for.
func (p *pool) unowned() (n int) {
	for _, c := range p.making {
		if c.owner == nil {
			n++
		}
	}
	return n
}

// forget takes r out of what it waits for. A dial that was for it alone is given up.
func (p *pool) forget(r *request) {
	for _, c := range p.making {
		if c.owner == r {
			c.owner = nil
			if c.state == dialling || c.state == connecting {
				p.unlist(c)
				c.close()
			}
			return
		}
	}
}

// shut closes all connections.
func (p *pool) shut() {
	p.keep = 0
	for _, c := range p.making {
		c.close()
	}
	for _, c := range p.conns {
		c.close()
	}
	p.free.Add(-int64(len(p.idle)))
	p.making, p.idle, p.held = nil, nil, nil
	clear(p.conns)
}

// keepLooking has the loop look after its pools from now on.
func (l *loop) keepLooking() {
	if l.keeper.rank == 0 && !l.closed {
		l.timers.set(&l.keeper, l.now()+int64(pooling.KeepEvery))
	}
}

// keepReady looks after all pools, again and again.
func (l *loop) keepReady() {
	for _, p := range l.pools {
		if p.keep > 0 {
			p.refresh()
		}
	}
	l.timers.set(&l.keeper, l.now()+int64(pooling.KeepEvery))
}

// refresh probes again what has been idle for long, and dials what is missing. A connection beyond those to keep is left to the server's
// idle limit.
func (p *pool) refresh() {
	now := p.l.now()
	spare := max(len(p.conns)-p.keep, 0)
	room := 0
	if p.probe.Path != "" {
		room = pooling.OpenAtOnce - p.unowned()
	}
	var again []*conn
	lastUsed := func(c *conn) int64 { return c.lastUsed }
	p.idle, again = pooling.Keep(p.idle, lastUsed, now, spare, room, &p.upkeep)
	p.free.Add(-int64(len(again)))
	var own []*conn
	p.held, own = pooling.Keep(p.held, lastUsed, now, 0, room-len(again), &pooling.Upkeep{Kept: len(p.held)})
	again = append(again, own...)
	for _, c := range again {
		p.making = append(p.making, c)
		p.l.timers.set(&c.timer, now+int64(pooling.ProbeLimit))
		c.ask(nil)
	}
	p.fillUp(p.upkeep.Dials)
}
