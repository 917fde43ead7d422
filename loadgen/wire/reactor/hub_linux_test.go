//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"testing"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/wiretest"
)

// A loop is too much for one when it has worked for nearly all of three windows in a row.
func TestLoad(t *testing.T) {
	const window = int64(loadWindow)
	var m load
	now := int64(0)
	for i, step := range []struct {
		after, parked int64
		want          bool
	}{
		{window / 2, 0, false}, // no window yet
		{window / 2, 0, false},
		{window, window / 10, false},
		{window, window / 10, true},
		{window, 0, false}, // it begins anew
		{window, 0, false},
		{window, window / 5, false}, // it had time
		{window, 0, false},
		{4 * window, window / 2, false}, // one long turn is one window
		{window, 0, true},
	} {
		now += step.after
		m.parked += step.parked
		if got := m.turn(now); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// A loop that is too much for one gets another beside it, up to as many as there may be.
func TestASecondLoopIsAdded(t *testing.T) {
	clock := &handClock{now: 1}
	tr := newTransport(t, Options{Clock: clock})
	tr.hub.most = 2
	for _, want := range []int{2, 2} {
		on(tr, func(l *loop) { l.load = load{from: clock.Now() - 2*int64(loadWindow), full: loadWindows - 1} })
		on(tr, func(*loop) {}) // the turn before has ended
		if h := tr.Health(); h.Loops != want {
			t.Errorf("%d loops, want %d", h.Loops, want)
		}
	}
}

// Connections move to a loop with less to do when their next request begins, and nothing else changes: no request has to dial, one that asks
// for its connection gets it, and each can be cancelled.
func TestConnectionsMove(t *testing.T) {
	const n = 60
	srv := wiretest.NewServer(t, wiretest.H1, func(i int, _ string) wiretest.Reply {
		if i < n {
			return wiretest.Reply{Parts: []string{wiretest.Event("c:a")}, Hang: true}
		}
		return wiretest.Reply{Parts: wiretest.Events(1)}
	})
	clock := fake.NewClock()
	tr := newTransport(t, Options{Clock: clock})
	tr.hub.most = 3
	if _, err := tr.Open(t.Context(), srv.Target, 2*n, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tr.hub.grow(); err != nil {
			t.Fatal(err)
		}
	}
	w := wiretest.NewWatch(t, n)
	gens := map[*wire.Call]uint32{}
	spread := func() (inFlight []int64) {
		for _, l := range tr.hub.loops() {
			inFlight = append(inFlight, l.flight.Load())
		}
		return inFlight
	}
	for range n {
		c := wiretest.NewCall(srv.Target, w, "{}")
		gens[c] = tr.Start(c)
	}
	for range n {
		wiretest.Wait(t, "First", w.Seen)
	}
	if s := spread(); len(s) != 3 || s[0]+s[1]+s[2] != n || max(s[0], s[1], s[2])-min(s[0], s[1], s[2]) > minImbalance {
		t.Errorf("%d are in flight on the loops, want %d spread evenly", s, n)
	}
	for c, gen := range gens {
		tr.Cancel(c, gen, wire.ByGrace)
	}
	for range n {
		if c := wiretest.Wait(t, "Done", w.Ended); c.Facts.Cause != wire.ByGrace || c.Facts.Cold != 0 {
			t.Errorf("cause %d, cold %d, %v", c.Facts.Cause, c.Facts.Cold, c.Facts.Err)
		}
	}
	// The cancelled ones' connections are gone; the loops have new ones made ready in their place.
	eventually(t, "the other connections", func() bool { return tr.Health().Open == 2*n && waiting(tr, srv.Target) == 2*n })
	for c := range gens {
		tr.Start(c)
	}
	for range n {
		c := wiretest.Wait(t, "Done", w.Ended)
		<-w.Seen
		if c.Facts.Err != nil || c.Facts.Cold != 0 {
			t.Errorf("cold %d, %v", c.Facts.Cold, c.Facts.Err)
		}
	}
	for c := range gens {
		c.Conn = c.Facts.Conn.ID
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
		<-w.Seen
		if f := &c.Facts; f.Err != nil || f.Conn.ID != c.Conn {
			t.Errorf("connection %d, asked for %d, %v", f.Conn.ID, c.Conn, f.Err)
		}
	}
	if s := spread(); s[0] != 0 || s[1] != 0 || s[2] != 0 || waiting(tr, srv.Target) != 2*n {
		t.Errorf("%d in flight, %d connections to be had, want none and %d", s, waiting(tr, srv.Target), 2*n)
	}
}

// waiting is how many ready connections the loops have, and how many they say they have; -1 where these differ.
func waiting(tr *Transport, target *wire.Target) (n int) {
	for i, l := range tr.hub.loops() {
		done := make(chan int)
		l.post(op{do: func() { done <- len(l.pool(target).idle) }})
		idle := <-done
		if n += idle; int64(idle) != tr.hub.seats(target)[i].Load() {
			return -1
		}
	}
	return n
}

// While any loop has a ready connection no request dials.
func TestReadyConnectionsAreEverybodys(t *testing.T) {
	const n, rounds = 9, 40
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	tr := newTransport(t, Options{Clock: fake.NewClock(), Loops: 3})
	if _, err := tr.Open(t.Context(), srv.Target, n, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{}, n)
	for worker := range n {
		go func() {
			defer func() { ended <- struct{}{} }()
			w := wiretest.NewWatch(t, 1)
			c := wiretest.NewCall(srv.Target, w, "{}")
			for i := range rounds {
				if c.Conn = 0; (worker+i)%2 == 0 {
					c.Conn = wire.ConnID(1 + (worker*7+i)%n)
				}
				tr.Start(c)
				<-w.Seen
				<-w.Ended
				if f := &c.Facts; f.Err != nil || f.Cold != 0 {
					t.Errorf("cold %d, %v", f.Cold, f.Err)
				}
			}
		}()
	}
	for range n {
		wiretest.Wait(t, "the end of a worker", ended)
	}
	eventually(t, "all connections", func() bool { return waiting(tr, srv.Target) == n })
	if got := srv.Conns(); got != n {
		t.Errorf("%d connections were dialled, want %d", got, n)
	}
}

// An opening on several loops fails as a whole, and leaves nothing of it.
func TestOpenOfSeveralLoopsFailsAsAWhole(t *testing.T) {
	conns := make(chan int, 100)
	n := 0
	srv := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		conns <- 1
		if r := p.Request(); r != nil && len(conns) < 3 {
			p.Say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			p.Request()
		}
	})
	tr := newTransport(t, Options{Clock: fake.NewClock(), Loops: 3})
	facts, err := tr.Open(t.Context(), srv, 7, wire.Probe{Path: "/health"})
	if err == nil || facts != nil {
		t.Errorf("%d connections, %v", len(facts), err)
	}
	for len(conns) > 0 {
		n += <-conns
	}
	eventually(t, "the end of all connections", func() bool { return tr.Health().Open == 0 })
	if n == 0 || waiting(tr, srv) != 0 {
		t.Errorf("%d were dialled, %d are to be had", n, waiting(tr, srv))
	}
}
