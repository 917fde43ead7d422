package portable

import (
	"context"
	"time"
)

// keepReady looks after all pools until the transport is closed.
func (t *Transport) keepReady() {
	for t.o.Clock.Until(t.ctx, t.o.Clock.Now()+int64(keepEvery)) == nil {
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
	now := p.t.o.Clock.Now()
	spare := max(len(p.conns)-p.keep, 0)
	busy := 0
	for _, q := range p.preps {
		if len(q.owners) == 0 {
			busy++
		}
	}
	idle := p.idle
	p.idle = nil
	var dead []*conn
	for _, c := range idle { // from the one used least lately
		long := time.Duration(now-c.lastUsed) >= idleProbe
		switch {
		case c.stale():
			dead = append(dead, c)
		case long && spare > 0:
			spare--
			p.idle = append(p.idle, c)
		case long && p.probe.Path != "" && busy < openAtOnce:
			busy++
			p.probeAgain(c)
		default:
			p.idle = append(p.idle, c)
		}
	}
	for _, c := range dead {
		p.drop(c)
	}
	for _, c := range p.muxes {
		if time.Duration(now-c.lastUsed) >= idleProbe && c.mux.InFlight() == 0 && p.probe.Path != "" && busy < openAtOnce {
			busy++
			c.lastUsed = now
			p.probeMux(c)
		}
	}
	p.fill()
}

// probeAgain probes an idle HTTP/1.1 connection, which is not to be had meanwhile.
func (p *pool) probeAgain(c *conn) {
	q := &prep{conn: c}
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
	p.t.work.Go(func() {
		ctx, cancel := context.WithTimeout(p.t.ctx, probeLimit)
		defer cancel()
		// What a failed probe means for the connection, it says itself, by its end.
		_ = c.prove(ctx, p.probe)
	})
}
