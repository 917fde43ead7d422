package portable

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/wiretest"
)

// handClock stands still until it is moved; the keeper waits on it.
type handClock struct {
	fake.Clock
	mu     sync.Mutex
	now    int64
	moved  chan struct{}
	rested chan struct{} // somebody waits
}

func newHandClock() *handClock {
	return &handClock{now: 1, moved: make(chan struct{}), rested: make(chan struct{}, 1)}
}

func (c *handClock) Now() int64 { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *handClock) Until(ctx context.Context, at int64) error {
	for {
		c.mu.Lock()
		now, moved := c.now, c.moved
		c.mu.Unlock()
		if now >= at {
			return nil
		}
		select {
		case c.rested <- struct{}{}:
		default:
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// move waits until the keeper rests, and moves the time.
func (c *handClock) move(t *testing.T, d time.Duration) {
	t.Helper()
	wiretest.Wait(t, "the keeper's rest", c.rested)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += int64(d)
	close(c.moved)
	c.moved = make(chan struct{})
}

// eventually waits for something that another goroutine of the transport brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(wiretest.Patience); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s does not come", what)
		}
	}
}

func ready(tr *Transport, target *wire.Target) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	p := tr.pools[target]
	if len(p.preps) > 0 {
		return -1
	}
	return len(p.idle) + len(p.muxes)
}

func TestKeeperKeepsConnectionsReady(t *testing.T) {
	for _, kind := range wiretest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			clock := newHandClock()
			srv := wiretest.NewServer(t, kind, func(int, string) wiretest.Reply { return wiretest.Reply{Parts: wiretest.Events(1)} })
			tr := New(Options{Clock: clock})
			defer tr.Close(t.Context())
			if _, err := tr.Open(t.Context(), srv.Target, 3, wire.Probe{Path: "/health"}); err != nil {
				t.Fatal(err)
			}
			probes := func() int { return int(tr.Health().Probes) }
			// Under 3 s nothing happens; then each is probed again, on the same connection.
			clock.move(t, 2900*time.Millisecond)
			clock.move(t, 500*time.Millisecond)
			eventually(t, "the second probe of each", func() bool { return probes() == 6 && ready(tr, srv.Target) == 3 })
			if srv.Conns() != 3 || len(srv.Seen()) != 6 {
				t.Errorf("%d connections, %d probes", srv.Conns(), len(srv.Seen()))
			}
			// Whatever the server closes meanwhile is replaced, and the next request finds a probed connection.
			srv.CloseIdle()
			if !kind.Multiplexed() {
				clock.move(t, 500*time.Millisecond)
			}
			eventually(t, "the replacements", func() bool { return probes() == 9 && ready(tr, srv.Target) == 3 })
			w := wiretest.NewWatch(t, 1)
			c := wiretest.NewCall(srv.Target, w, "{}")
			tr.Start(c)
			wiretest.Wait(t, "Done", w.Ended)
			if f := &c.Facts; f.Err != nil || f.Cold != 0 || !f.Reused || f.ConnUse != 2 || srv.Conns() != 6 {
				t.Errorf("%v, cold %d, reused %v, use %d, %d connections", f.Err, f.Cold, f.Reused, f.ConnUse, srv.Conns())
			}
		})
	}
}

// A connection that is held for a session is probed again when it has been idle for long, and nobody else's meanwhile.
func TestKeeperKeepsHeldConnections(t *testing.T) {
	clock := newHandClock()
	srv := wiretest.NewServer(t, wiretest.H1, func(int, string) wiretest.Reply { return wiretest.Reply{Parts: wiretest.Events(1)} })
	tr := New(Options{Clock: clock})
	defer tr.Close(t.Context())
	if _, err := tr.Open(t.Context(), srv.Target, 1, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(srv.Target, w, "{}")
	c.Lease = wire.Held
	tr.Start(c)
	wiretest.Wait(t, "Done", w.Ended)
	own := c.Facts.Conn.ID
	clock.move(t, 3500*time.Millisecond)
	eventually(t, "the second probe", func() bool { return tr.Health().Probes == 2 && ready(tr, srv.Target) == 0 })
	c.Conn = own
	tr.Start(c)
	wiretest.Wait(t, "Done", w.Ended)
	if f := &c.Facts; f.Err != nil || f.Cold != 0 || f.Conn.ID != own || f.ConnUse != 4 || srv.Conns() != 1 {
		t.Errorf("%v, cold %d, connection %d of %d, use %d, %d connections", f.Err, f.Cold, f.Conn.ID, own, f.ConnUse, srv.Conns())
	}
	tr.Release(srv.Target, own)
	eventually(t, "another in its place", func() bool { return ready(tr, srv.Target) == 1 && srv.Conns() == 2 })
}

// A dial that ends because nobody wants it any more says nothing of the server, and keeps no other dial waiting.
func TestADialThatWasGivenUpIsNoFailure(t *testing.T) {
	tr := New(Options{Clock: newHandClock(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	defer tr.Close(t.Context())
	target := &wire.Target{Scheme: "http", Host: "a.test", Addr: "127.0.0.1:1", Path: "/"}
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(target, w, "{}")
	tr.Cancel(c, tr.Start(c), wire.ByPlan)
	wiretest.Wait(t, "Done", w.Ended)
	tr.work.Wait()
	if c.Facts.Cause != wire.ByPlan || tr.pools[target].pause != 0 {
		t.Errorf("cause %d; no dial of the pool's own before %d", c.Facts.Cause, tr.pools[target].pause)
	}
}

// A server that closes after each answer cannot be kept warm: every request dials, and nothing is dialled beside.
func TestServerThatAlwaysCloses(t *testing.T) {
	clock := newHandClock()
	srv := wiretest.NewServer(t, wiretest.H1, func(int, string) wiretest.Reply { return wiretest.Reply{Parts: wiretest.Events(1)} })
	srv.CloseAfter(1)
	tr := New(Options{Clock: clock})
	defer tr.Close(t.Context())
	facts, err := tr.Open(t.Context(), srv.Target, 2, wire.Probe{Path: "/health"})
	if err != nil || len(facts) != 2 || facts[0].ProbeStatus != 200 {
		t.Fatal(facts, err)
	}
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(srv.Target, w, "{}")
	for i := range 3 {
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
		if c.Facts.Err != nil || c.Facts.Cold != wire.Dialled || srv.Conns() != 3+i {
			t.Errorf("%v, cold %d, %d connections", c.Facts.Err, c.Facts.Cold, srv.Conns())
		}
	}
}

// A connection opened without a probe is cold at its first use only.
func TestFirstUse(t *testing.T) {
	for _, kind := range wiretest.Kinds() {
		srv := wiretest.NewServer(t, kind, func(int, string) wiretest.Reply { return wiretest.Reply{Parts: wiretest.Events(1)} })
		tr := New(Options{Clock: fake.NewClock()})
		if _, err := tr.Open(t.Context(), srv.Target, 1, wire.Probe{}); err != nil {
			t.Fatal(err)
		}
		w := wiretest.NewWatch(t, 1)
		c := wiretest.NewCall(srv.Target, w, "{}")
		for i, want := range []wire.Cold{wire.FirstUse, 0} {
			tr.Start(c)
			wiretest.Wait(t, "Done", w.Ended)
			if f := &c.Facts; f.Err != nil || f.Cold != want || f.ConnUse != uint32(i+1) || !f.Reused {
				t.Errorf("%s: %v, cold %d, use %d, reused %v", kind, f.Err, f.Cold, f.ConnUse, f.Reused)
			}
		}
		tr.Close(t.Context())
	}
}

// Over HTTP/2 what is beyond the streams of all connections waits, and the wait is recorded.
func TestQueueForAStream(t *testing.T) {
	go1, begun := make(chan struct{}), make(chan struct{}, 8)
	srv := wiretest.NewServer(t, wiretest.H2C, func(int, string) wiretest.Reply {
		begun <- struct{}{}
		<-go1
		return wiretest.Reply{Parts: wiretest.Events(1)}
	})
	srv.Target.Streams = 2
	tr := New(Options{Clock: fake.NewClock()})
	defer tr.Close(t.Context())
	if _, err := tr.Open(t.Context(), srv.Target, 1, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	w := wiretest.NewWatch(t, 5)
	var calls []*wire.Call
	for range 5 {
		c := wiretest.NewCall(srv.Target, w, "{}")
		calls = append(calls, c)
		tr.Start(c)
	}
	gen := calls[4].Generation()
	for range 2 {
		wiretest.Wait(t, "a request", begun)
	}
	tr.Cancel(calls[4], gen, wire.ByUser)
	got := wiretest.Wait(t, "the end of the one that waited", w.Ended)
	if got != calls[4] || got.Facts.FirstWrite != 0 || got.Facts.Cause != wire.ByUser {
		t.Errorf("%+v", got.Facts)
	}
	close(go1)
	for range 4 {
		wiretest.Wait(t, "Done", w.Ended)
	}
	for i, c := range calls[:4] {
		f := &c.Facts
		if f.Err != nil || (f.Queued > 0) != (i >= 2) || f.Cold != 0 || i >= 2 && f.Queued != f.Acquired-f.Ready {
			t.Errorf("request %d: %v, queued %d of %d, cold %d", i, f.Err, f.Queued, f.Acquired-f.Ready, f.Cold)
		}
	}
	if srv.Conns() != 1 {
		t.Errorf("%d connections", srv.Conns())
	}
}

// After Close no goroutine of the transport is left, whatever was under way.
func TestCloseLeavesNothing(t *testing.T) {
	for _, kind := range wiretest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			srv := wiretest.NewServer(t, kind, func(int, string) wiretest.Reply {
				return wiretest.Reply{Parts: []string{wiretest.Event("c:a")}, Hang: true}
			})
			tr := New(Options{Clock: fake.NewClock()})
			if _, err := tr.Open(t.Context(), srv.Target, 4, wire.Probe{Path: "/health"}); err != nil {
				t.Fatal(err)
			}
			w := wiretest.NewWatch(t, 8)
			for range 8 {
				c := wiretest.NewCall(srv.Target, w, strings.Repeat("x", 100_000))
				c.Timeout, c.CancelAfter = time.Hour, time.Hour
				tr.Start(c)
			}
			wiretest.Wait(t, "First", w.Seen)
			if err := tr.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(w.Ended) != 8 {
				t.Errorf("%d of 8 calls are given back", len(w.Ended))
			}
			eventually(t, "the end of all goroutines", func() bool {
				buf := make([]byte, 1<<20)
				return !bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("wire/portable.(*")) &&
					!bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("wire/h2.(*"))
			})
		})
	}
}

// What a request allocates does not grow with its chunks.
func TestNoAllocationAChunk(t *testing.T) {
	chunk := []byte(wiretest.Chunk(wiretest.Event("c:word")))
	tail := wiretest.Chunk(wiretest.Event("f:stop")+wiretest.Event("[DONE]")) + "0\r\n\r\n"
	var chunks atomic.Int64
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for p.Request() != nil {
			p.Say(wiretest.StreamHead)
			for range chunks.Load() {
				p.Write(chunk)
			}
			p.Say(tail)
		}
	})
	tr := New(Options{Clock: fake.NewClock()})
	defer tr.Close(t.Context())
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(target, w, "{}")
	one := func() {
		tr.Start(c)
		<-w.Seen
		<-w.Ended
	}
	allocs := func(n int64) float64 {
		chunks.Store(n)
		one()
		return testing.AllocsPerRun(10, one)
	}
	few, many := allocs(10), allocs(2010)
	if many-few > 20 { // 0.01 a chunk: the pools' refills after a collection
		t.Errorf("%v allocations with 10 chunks, %v with 2,010", few, many)
	}
	if c.Facts.Err != nil || len(c.Chunks) != 2010 {
		t.Errorf("%v, %d chunks", c.Facts.Err, len(c.Chunks))
	}
}
