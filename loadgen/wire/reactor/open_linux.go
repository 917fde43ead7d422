//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"fmt"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/pooling"
)

// opening is one loop's part of an Open under way. Its connections are no pool's until those of all parts are there.
type opening struct {
	l     *loop
	pool  *pool
	probe wire.Probe
	n     int // asked for
	got   int // ready
	conns []*conn
	over  bool
	there chan struct{} // closed when all are ready

	// Of these the caller reads after done is closed.
	facts []wire.ConnFacts
	err   error
	done  chan struct{}
}

func newOpening(l *loop, probe wire.Probe, n int) *opening {
	return &opening{l: l, probe: probe, n: n, conns: make([]*conn, 0, n), there: make(chan struct{}), done: make(chan struct{})}
}

func (o *opening) begin(target *wire.Target) {
	l := o.l
	if l.closed {
		o.fail(errClosed)
		return
	}
	if o.over { // its context ended before it began
		return
	}
	o.pool = l.pool(target)
	l.openings[o] = struct{}{}
	o.next()
}

// next dials as many as may be under way at once, and says when all are ready.
func (o *opening) next() {
	for len(o.conns) < o.n && len(o.conns)-o.got < pooling.OpenAtOnce {
		c := o.l.dial(o.pool)
		c.opening = o
		o.conns = append(o.conns, c)
		c.limit.fire = func() { o.late(c) }
		o.l.timers.set(&c.limit, o.l.now()+int64(pooling.OpenLimit))
	}
	if o.got == o.n {
		close(o.there)
	}
}

// commit gives the connections to the pool.
func (o *opening) commit() {
	if o.over {
		return
	}
	o.end(nil)
	p := o.pool
	p.probe = o.probe
	p.keep += o.n
	if !o.probe.Spare {
		p.upkeep.Kept += o.n
	}
	for _, c := range o.conns {
		o.facts = append(o.facts, c.facts)
		p.add(c)
	}
	o.l.keepLooking()
	close(o.done)
}

// ready takes one connection that is dialled and probed.
func (o *opening) ready(c *conn) {
	o.l.timers.unset(&c.limit)
	o.got++
	o.next()
}

// late ends the opening where one connection has taken too long.
func (o *opening) late(c *conn) {
	step := "no answer to GET " + o.probe.Path
	if c.state == dialling || c.state == connecting {
		step = "no connection"
	}
	o.fail(&wire.Error{Type: "ServerTimeoutError", Message: fmt.Sprintf("%s within %v", step, pooling.OpenLimit)})
}

// fail ends the opening and closes all that it has.
func (o *opening) fail(err error) {
	if o.over {
		return
	}
	o.end(err)
	for _, c := range o.conns {
		c.close()
	}
	close(o.done)
}

func (o *opening) end(err error) {
	o.over, o.err = true, err
	delete(o.l.openings, o)
}
