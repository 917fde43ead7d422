// Package portable is the transport for every system and every kind of target: HTTP/1.1 and HTTP/2, in the clear and over TLS. It dials
// itself, so that the name lookup, the TCP and the TLS handshake of each connection and the coldness of each request are known, keeps the
// connections that were opened beforehand ready, and runs one goroutine for each HTTP/1.1 request in flight.
package portable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/h2"
	"prefire/loadgen/wire/pooling"
)

// maxTurned is how many HTTP/2 connections may have ended before they took a request, which is then not tried on another.
const maxTurned = 5

// Resolver looks names up; *net.Resolver is one.
type Resolver = pooling.Resolver

// Options are what a Transport needs. Clock must be set.
type Options struct {
	Clock    wire.Clock
	Resolver Resolver                                                          // nil = the system's
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil = net.Dialer's; addr is ip:port
}

// Transport implements wire.Transport.
type Transport struct {
	o    Options
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	kits sync.Pool

	mu      sync.Mutex
	closed  bool
	keeping bool
	pools   map[*wire.Target]*pool
	active  map[*wire.Call]*request
	muxes   map[*h2.Conn]struct{} // all that are not closed, those that take no more requests counted
	nextID  wire.ConnID
	dialled int64
	probes  int64
	fell    int64
	unended int64
	plain   int64 // connections opened without kernel stamps
}

var _ wire.Transport = (*Transport)(nil)

// New makes a transport. It opens nothing until it is asked to.
func New(o Options) *Transport {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	t := &Transport{o: o, pools: map[*wire.Target]*pool{}, active: map[*wire.Call]*request{}, muxes: map[*h2.Conn]struct{}{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.kits.New = func() any { return &kit{} }
	return t
}

// Open dials n connections to target, at most 64 at once, and probes each. A second Open of the same target adds to the first. A
// connection that the server closes after the probe's answer is not kept, and such a target's connections are not kept ready afterwards:
// every request to it has to dial. The error is a *wire.Error, or the context's.
func (t *Transport) Open(ctx context.Context, target *wire.Target, n int, probe wire.Probe) ([]wire.ConnFacts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(errClosed) })()
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, errClosed
	}
	p := t.pool(target)
	t.mu.Unlock()
	conns := make([]*conn, n)
	slots := make(chan struct{}, pooling.OpenAtOnce)
	var wg sync.WaitGroup
	for i := range conns {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			c, err := t.openOne(ctx, p, probe)
			if err != nil {
				cancel(err)
				return
			}
			conns[i] = c
		})
	}
	wg.Wait()
	err := context.Cause(ctx)
	t.mu.Lock()
	if err == nil && t.closed {
		err = errClosed
	}
	if err != nil {
		t.mu.Unlock()
		for _, c := range conns {
			if c != nil {
				c.shut()
			}
		}
		return nil, err
	}
	p.probe = probe
	p.keep += n
	if !probe.Spare {
		p.upkeep.Kept += n
	}
	facts := make([]wire.ConnFacts, n)
	for i, c := range conns {
		facts[i] = c.facts
		p.add(c)
	}
	if !t.keeping {
		t.keeping = true
		t.work.Go(t.keepReady)
	}
	t.mu.Unlock()
	return facts, nil
}

// openOne makes one connection and probes it.
func (t *Transport) openOne(ctx context.Context, p *pool, probe wire.Probe) (*conn, error) {
	limited, cancel := context.WithTimeout(ctx, pooling.OpenLimit)
	defer cancel()
	c, e := t.connect(limited, p)
	step := "no connection"
	if e == nil {
		step = "no answer to GET " + probe.Path
		e = c.prove(limited, probe)
	}
	if e == nil {
		if c.mux != nil {
			c.facts.Streams = c.mux.Limit()
		}
		return c, nil
	}
	if c.src != nil {
		c.shut()
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return nil, &wire.Error{Type: "ServerTimeoutError", Message: fmt.Sprintf("%s within %v", step, pooling.OpenLimit)}
	}
	return nil, e
}

// Start sends c.
func (t *Transport) Start(c *wire.Call) uint32 {
	gen := c.Begin(t.o.Clock.Now())
	r := &request{t: t, call: c, gen: gen}
	c.Facts.Attempts = 1
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		go r.fail(&wire.Error{Type: "ClientConnectionError", Message: errClosed.Error()})
		return gen
	}
	t.active[c] = r
	r.pool = t.pool(c.Target)
	if c.Timeout > 0 {
		r.timeout = time.AfterFunc(c.Timeout, func() { t.Cancel(c, gen, wire.ByTimeout) })
	}
	r.pool.place(r)
	t.mu.Unlock()
	return gen
}

// Cancel ends c if it is still in generation gen.
func (t *Transport) Cancel(c *wire.Call, gen uint32, why wire.Cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.active[c]; r != nil && r.gen == gen {
		r.cancel(why)
	}
}

// Release closes a connection that is held for a session without another turn.
func (t *Transport) Release(target *wire.Target, id wire.ConnID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.pools[target]; p != nil {
		p.release(id)
	}
}

// Health is what the transport says of itself.
func (t *Transport) Health() wire.Health {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := wire.Health{Client: "portable", KernelStamps: t.dialled > 0 && t.plain == 0, Dialled: t.dialled, Probes: t.probes, StampFell: t.fell, Unended: t.unended}
	for _, p := range t.pools {
		h.Open += len(p.conns)
	}
	return h
}

// Close ends all calls and connections, and waits until nothing of them is left, or ctx is done.
func (t *Transport) Close(ctx context.Context) error {
	t.stop()
	t.mu.Lock()
	t.closed = true
	for _, r := range t.active {
		r.cancel(wire.ByUser)
	}
	for _, p := range t.pools {
		for _, c := range p.conns {
			if c.mux == nil {
				c.abort()
			}
		}
		p.conns, p.idle, p.held, p.muxes, p.keep = nil, nil, nil, nil, 0
	}
	muxes := slices.Collect(maps.Keys(t.muxes))
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		for _, m := range muxes {
			m.Close()
		}
		t.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Transport) pool(target *wire.Target) *pool {
	p := t.pools[target]
	if p == nil {
		p = &pool{t: t, target: target, conns: map[wire.ConnID]*conn{}}
		p.shared = target.Protocol == wire.HTTP2 || target.Protocol == wire.H2C
		t.pools[target] = p
	}
	return p
}

var errClosed = errors.New("the transport is closed")
