//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"context"
	"net"

	"prefire/loadgen/wire"
)

// Transport implements wire.Transport with one loop, or more where one is not enough. Observers are told on a loop's goroutine.
type Transport struct {
	hub *hub
}

var _ wire.Transport = (*Transport)(nil)

// Available reports whether the system has what the transport needs.
func Available() bool { return true }

// New makes a transport and starts its loops. The error is the system's, where it gives no descriptors.
func New(o Options) (*Transport, error) {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	t := &Transport{newHub(o)}
	for range max(o.Loops, 1) {
		if err := t.hub.grow(); err != nil {
			_ = t.Close(context.Background()) // there is nothing in them that could take time
			return nil, err
		}
	}
	return t, nil
}

// Open dials n connections to target, at most 64 at once on each loop, and probes each. A second Open of the same target adds to the first.
// A connection that the server closes after the probe's answer is not kept, and such a target's connections are not kept ready afterwards:
// every request to it has to dial. The error is a *wire.Error, or the context's.
func (t *Transport) Open(ctx context.Context, target *wire.Target, n int, probe wire.Probe) ([]wire.ConnFacts, error) {
	if !Serves(target) {
		return nil, notServed(target)
	}
	loops := t.hub.loops()
	parts := make([]*opening, len(loops))
	for i, l := range loops {
		o := newOpening(l, probe, (n+len(loops)-1-i)/len(loops))
		parts[i] = o
		if !l.post(op{do: func() { o.begin(target) }}) {
			o.fail(errClosed) // there is no loop any more to do it
		}
	}
	fail := func(err error) {
		for _, o := range parts {
			o.l.post(op{do: func() { o.fail(err) }})
		}
	}
	defer context.AfterFunc(ctx, func() { fail(context.Cause(ctx)) })()
	for _, o := range parts {
		select {
		case <-o.there:
		case <-o.done:
			fail(o.err)
		}
	}
	var facts []wire.ConnFacts
	var err error
	for _, o := range parts {
		o.l.post(op{do: o.commit}) // a loop that has ended has failed its part
		<-o.done
		if facts = append(facts, o.facts...); o.err != nil && err == nil {
			err = o.err
		}
	}
	if err != nil {
		return nil, err
	}
	return facts, nil
}

// Start hands c to a loop.
func (t *Transport) Start(c *wire.Call) uint32 {
	gen := c.Begin(t.hub.o.Clock.Now())
	c.Facts.Attempts = 1
	l, seat := t.hub.choose(c)
	t.hub.start(l, c, gen, seat, 0)
	return gen
}

// Cancel ends c if it is still in generation gen.
func (t *Transport) Cancel(c *wire.Call, gen uint32, why wire.Cause) {
	t.hub.cancel(op{kind: opCancel, call: c, gen: gen, why: why, at: t.hub.o.Clock.Now()})
}

// Release closes a connection that is held for a session without another turn.
func (t *Transport) Release(target *wire.Target, id wire.ConnID) {
	for _, l := range t.hub.loops() {
		l.post(op{do: func() {
			if p := l.pools[target]; p != nil {
				p.release(id)
			}
		}})
	}
}

// Health is what the transport says of itself.
func (t *Transport) Health() wire.Health {
	loops := t.hub.loops()
	h := wire.Health{Client: "reactor", Loops: len(loops)}
	plain := int64(0)
	for _, l := range loops {
		n := &l.count
		h.Open += int(n.open.Load())
		h.Dialled += n.dialled.Load()
		h.Probes += n.probes.Load()
		h.StampFell += n.fell.Load()
		h.Unended += n.unended.Load()
		plain += n.plain.Load()
	}
	h.KernelStamps = h.Dialled > 0 && plain == 0
	return h
}

// Close ends all calls and connections, and waits until nothing of them is left, or ctx is done.
func (t *Transport) Close(ctx context.Context) error {
	t.hub.mu.Lock()
	t.hub.closed = true
	t.hub.mu.Unlock()
	loops := t.hub.loops()
	for _, l := range loops {
		l.stop()
		l.post(op{do: l.shut}) // after the first Close there is nothing to shut
	}
	done := make(chan struct{})
	go func() {
		for _, l := range loops {
			<-l.gone
			l.helpers.Wait()
		}
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
