//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"context"
	"net"

	"prefire/loadgen/wire"
)

// Transport implements wire.Transport with one loop. Observers are told on the loop's goroutine.
type Transport struct {
	loop *loop
}

var _ wire.Transport = (*Transport)(nil)

// Available reports whether the system has what the transport needs.
func Available() bool { return true }

// New makes a transport and starts its loop. The error is the system's, where it gives no descriptors.
func New(o Options) (*Transport, error) {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	l, err := newLoop(o)
	if err != nil {
		return nil, err
	}
	go l.run()
	return &Transport{l}, nil
}

// Open dials n connections to target, at most 64 at once, and probes each. A second Open of the same target adds to the first. A
// connection that the server closes after the probe's answer is not kept, and such a target's connections are not kept ready afterwards:
// every request to it has to dial. The error is a *wire.Error, or the context's.
func (t *Transport) Open(ctx context.Context, target *wire.Target, n int, probe wire.Probe) ([]wire.ConnFacts, error) {
	if !Serves(target) {
		return nil, notServed(target)
	}
	l := t.loop
	o := &opening{probe: probe, conns: make([]*conn, 0, n), n: n, done: make(chan struct{})}
	if !l.post(op{do: func() { o.begin(l, target) }}) {
		return nil, errClosed
	}
	defer context.AfterFunc(ctx, func() { l.post(op{do: func() { o.fail(context.Cause(ctx)) }}) })()
	<-o.done
	return o.facts, o.err
}

// Start hands c to the loop.
func (t *Transport) Start(c *wire.Call) uint32 {
	l := t.loop
	gen := c.Begin(l.o.Clock.Now())
	c.Facts.Attempts = 1
	if !l.post(op{kind: opStart, call: c, gen: gen}) {
		go l.refuse(c)
	}
	return gen
}

// Cancel ends c if it is still in generation gen.
func (t *Transport) Cancel(c *wire.Call, gen uint32, why wire.Cause) {
	l := t.loop
	l.post(op{kind: opCancel, call: c, gen: gen, why: why, at: l.o.Clock.Now()})
}

// Health is what the transport says of itself.
func (t *Transport) Health() wire.Health {
	n := &t.loop.count
	dialled := n.dialled.Load()
	return wire.Health{Client: "reactor", KernelStamps: dialled > 0 && n.plain.Load() == 0, Open: int(n.open.Load()), Dialled: dialled,
		Probes: n.probes.Load(), StampFell: n.fell.Load()}
}

// Close ends all calls and connections, and waits until nothing of them is left, or ctx is done.
func (t *Transport) Close(ctx context.Context) error {
	l := t.loop
	l.stop()
	l.post(op{do: l.shut}) // after the first Close there is nothing to shut
	done := make(chan struct{})
	go func() {
		<-l.gone
		l.helpers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
