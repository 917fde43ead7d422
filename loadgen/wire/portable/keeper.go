package portable

import (
	"context"
	"slices"
	"time"

	"prefire/loadgen/wire/pooling"
)

// keepReady looks after all pools until the transport is closed.
func (t *Transport) keepReady() {
	for t.o.Clock.Until(t.ctx, t.o.Clock.Now()+int64(pooling.KeepEvery)) == nil {
		t.mu.Lock()
		for _, p := range t.pools {
			if p.keep > 0 && !t.closed {
				p.refresh()
			}
		}
		t.mu.Unlock()
	}
}

// refresh drops what the server has closed, probes again what has been idle for long, and dials what is missing. A connection beyond those
// to keep is left to the server's idle limit.
func (p *pool) refresh() {
	var dead []*conn
	gone := func(c *conn) bool {
		stale := c.stale()
		if stale {
			dead = append(dead, c)
		}
		return stale
	}
	p.idle, p.held = slices.DeleteFunc(p.idle, gone), slices.DeleteFunc(p.held, gone)
	for _, c := range dead {
		delete(p.conns, c.facts.ID)
		c.abort()
	}
	now := p.t.o.Clock.Now()
	busy := p.unowned()
	room := 0
	if p.probe.Path != "" {
		room = pooling.OpenAtOnce - busy
	}
	var again []*conn
	lastUsed := func(c *conn) int64 { return c.lastUsed }
	p.idle, again = pooling.Keep(p.idle, lastUsed, now, max(len(p.conns)-p.keep, 0), room, &p.upkeep)
	var own []*conn
	p.held, own = pooling.Keep(p.held, lastUsed, now, 0, room-len(again), &pooling.Upkeep{Kept: len(p.held)})
	again = append(again, own...)
	busy += len(again)
	for _, c := range again {
		p.probeAgain(c)
	}
	for i, c := range p.muxes {
		if time.Duration(now-c.lastUsed) >= pooling.IdleProbe && c.mux.InFlight() == 0 && p.probe.Path != "" && busy < pooling.OpenAtOnce &&
			(i < p.upkeep.Kept || p.upkeep.Spare(1) == 1) {
			busy++
			c.lastUsed = now
			p.probeMux(c)
		}
	}
	p.fillUp(p.upkeep.Dials)
}

// probeAgain probes an idle HTTP/1.1 connection, which is not to be had meanwhile.
func (p *pool) probeAgain(c *conn) {
	q := &prep{conn: c, probe: p.probe}
	var ctx context.Context
	ctx, q.stop = context.WithCancel(p.t.ctx)
	p.preps = append(p.preps, q)
	p.t.work.Go(func() {
		defer q.stop()
		p.proveIn(ctx, q)
	})
}

// probeMux probes an idle HTTP/2 connection, which takes requests all the same.
func (p *pool) probeMux(c *conn) {
	probe := p.probe
	p.t.work.Go(func() {
		ctx, cancel := context.WithTimeout(p.t.ctx, pooling.ProbeLimit)
		defer cancel()
		// What a failed probe means for the connection, it says itself, by its end.
		_ = c.prove(ctx, probe)
	})
}
