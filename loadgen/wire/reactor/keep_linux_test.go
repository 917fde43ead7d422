//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"context"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/pooling"
	"prefire/loadgen/wire/wiretest"
)

// handClock stands still until it is moved.
type handClock struct {
	fake.Clock
	mu  sync.Mutex
	now int64
}

func (c *handClock) Now() int64 { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

// move moves the time and has the loop look at it.
func (c *handClock) move(tr *Transport, d time.Duration) {
	c.mu.Lock()
	c.now += int64(d)
	c.mu.Unlock()
	on(tr, func(*loop) {})
}

func newTransport(t *testing.T, o Options) *Transport {
	t.Helper()
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, tr) })
	return tr
}

func shut(t *testing.T, tr *Transport) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), wiretest.Patience)
	defer stop()
	if err := tr.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// on runs f on the loop and waits for it.
func on(tr *Transport, f func(l *loop)) {
	done := make(chan struct{})
	l := tr.hub.loops()[0]
	if l.post(op{do: func() { defer close(done); f(l) }}) {
		<-done
	}
}

// eventually waits for something that the loop brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(wiretest.Patience); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// ready is how many connections are to be had; -1 while some are being made ready.
func ready(tr *Transport, target *wire.Target) (n int) {
	on(tr, func(l *loop) {
		p := l.pools[target]
		if n = len(p.idle); len(p.making) > 0 {
			n = -1
		}
	})
	return n
}

func answerOne(int, string) wiretest.Reply { return wiretest.Reply{Parts: wiretest.Events(1)} }

func TestKeeperKeepsConnectionsReady(t *testing.T) {
	clock := &handClock{now: 1}
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	tr := newTransport(t, Options{Clock: clock})
	if _, err := tr.Open(t.Context(), srv.Target, 3, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	probes := func() int { return int(tr.Health().Probes) }
	// Under 3 s nothing happens; then each is probed again, on the same connection.
	clock.move(tr, 2900*time.Millisecond)
	if n := ready(tr, srv.Target); n != 3 || probes() != 3 {
		t.Errorf("after 2.9 s %d are ready, %d probes", n, probes())
	}
	clock.move(tr, 500*time.Millisecond)
	eventually(t, "the second probe of each", func() bool { return probes() == 6 && ready(tr, srv.Target) == 3 })
	if srv.Conns() != 3 || len(srv.Seen()) != 6 {
		t.Errorf("%d connections, %d probes", srv.Conns(), len(srv.Seen()))
	}
	// Whatever the server closes meanwhile is replaced at the keeper's next look, and the next request finds a probed connection.
	srv.CloseIdle()
	eventually(t, "the end of all", func() bool { return tr.Health().Open == 0 })
	if n := ready(tr, srv.Target); n != 0 {
		t.Errorf("%d are ready before the keeper has looked", n)
	}
	clock.move(tr, 500*time.Millisecond)
	eventually(t, "the replacements", func() bool { return probes() == 9 && ready(tr, srv.Target) == 3 })
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(srv.Target, w, "{}")
	tr.Start(c)
	wiretest.Wait(t, "Done", w.Ended)
	if f := &c.Facts; f.Err != nil || f.Cold != 0 || !f.Reused || f.ConnUse != 2 || srv.Conns() != 6 {
		t.Errorf("%v, cold %d, reused %v, use %d, %d connections", f.Err, f.Cold, f.Reused, f.ConnUse, srv.Conns())
	}
}

// A connection that is held for a session is probed again when it has been idle for long, and nobody else's meanwhile.
func TestKeeperKeepsHeldConnections(t *testing.T) {
	clock := &handClock{now: 1}
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	tr := newTransport(t, Options{Clock: clock})
	if _, err := tr.Open(t.Context(), srv.Target, 1, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(srv.Target, w, "{}")
	c.Lease = wire.Held
	tr.Start(c)
	wiretest.Wait(t, "Done", w.Ended)
	own := c.Facts.Conn.ID
	clock.move(tr, 3500*time.Millisecond)
	eventually(t, "the second probe", func() bool { return tr.Health().Probes == 2 && ready(tr, srv.Target) == 0 })
	c.Conn = own
	tr.Start(c)
	wiretest.Wait(t, "Done", w.Ended)
	if f := &c.Facts; f.Err != nil || f.Cold != 0 || f.Conn.ID != own || f.ConnUse != 4 || srv.Conns() != 1 {
		t.Errorf("%v, cold %d, connection %d of %d, use %d, %d connections", f.Err, f.Cold, f.Conn.ID, own, f.ConnUse, srv.Conns())
	}
	tr.Release(srv.Target, own)
	eventually(t, "another in its place", func() bool { return ready(tr, srv.Target) == 1 && tr.Health().Dialled == 2 })
}

// Spares are not probed again while that would be more than one probe for twenty requests; those that the sessions need are.
func TestSparesAreProbedForAShareOfTheRequests(t *testing.T) {
	clock := &handClock{now: 1}
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	tr := newTransport(t, Options{Clock: clock})
	for spares, n := range map[bool]int{false: 2, true: 5} {
		if _, err := tr.Open(t.Context(), srv.Target, n, wire.Probe{Path: "/health", Spare: spares}); err != nil {
			t.Fatal(err)
		}
	}
	clock.move(tr, 3500*time.Millisecond)
	eventually(t, "the probes of the two that are needed", func() bool { return tr.Health().Probes == 9 && ready(tr, srv.Target) == 7 })
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(srv.Target, w, "{}")
	for range 40 {
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
	}
	clock.move(tr, 500*time.Millisecond)
	eventually(t, "the probes of two spares", func() bool { return tr.Health().Probes == 11 && ready(tr, srv.Target) == 7 })
	clock.move(tr, 500*time.Millisecond)
	if n := tr.Health().Probes; n != 11 || srv.Conns() != 7 {
		t.Errorf("%d probes on %d connections, want 11 on 7", n, srv.Conns())
	}
}

// A server that closes after each answer cannot be kept warm: every request dials, and nothing is dialled beside.
func TestServerThatAlwaysCloses(t *testing.T) {
	clock := &handClock{now: 1}
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	srv.CloseAfter(1)
	tr := newTransport(t, Options{Clock: clock})
	facts, err := tr.Open(t.Context(), srv.Target, 2, wire.Probe{Path: "/health"})
	if err != nil || len(facts) != 2 || facts[0].ProbeStatus != 200 {
		t.Fatal(facts, err)
	}
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(srv.Target, w, "{}")
	for i := range 3 {
		clock.move(tr, time.Second)
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
		if c.Facts.Err != nil || c.Facts.Cold != wire.Dialled || srv.Conns() != 3+i {
			t.Errorf("%v, cold %d, %d connections", c.Facts.Err, c.Facts.Cold, srv.Conns())
		}
	}
}

// A connection opened without a probe is cold at its first use only.
func TestFirstUse(t *testing.T) {
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	tr := newTransport(t, Options{Clock: fake.NewClock()})
	if _, err := tr.Open(t.Context(), srv.Target, 1, wire.Probe{}); err != nil {
		t.Fatal(err)
	}
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(srv.Target, w, "{}")
	for i, want := range []wire.Cold{wire.FirstUse, 0} {
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
		if f := &c.Facts; f.Err != nil || f.Cold != want || f.ConnUse != uint32(i+1) || !f.Reused {
			t.Errorf("%v, cold %d, use %d, reused %v", f.Err, f.Cold, f.ConnUse, f.Reused)
		}
	}
}

// A server that has begun to close after every answer, to a new connection's probe too, is left alone from then on.
func TestServerThatBeginsToClose(t *testing.T) {
	clock := &handClock{now: 1}
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	tr := newTransport(t, Options{Clock: clock})
	if _, err := tr.Open(t.Context(), srv.Target, 2, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	srv.CloseAfter(1)
	clock.move(tr, 3500*time.Millisecond)
	// The two that were probed again are replaced; the replacements tell.
	eventually(t, "the end of all", func() bool { return tr.Health().Open == 0 && ready(tr, srv.Target) == 0 })
	conns := srv.Conns()
	for range 3 {
		clock.move(tr, time.Second)
	}
	if n := ready(tr, srv.Target); n != 0 || conns < 3 || conns > 4 || srv.Conns() != conns {
		t.Errorf("%d are ready, %d connections in all, %d before", n, srv.Conns(), conns)
	}
}

// A connection beyond those to keep is left to the server's idle limit.
func TestConnectionBeyondThoseToKeep(t *testing.T) {
	clock := &handClock{now: 1}
	go1 := make(chan struct{})
	srv := wiretest.NewServer(t, wiretest.H1, func(int, string) wiretest.Reply { <-go1; return wiretest.Reply{Parts: wiretest.Events(1)} })
	tr := newTransport(t, Options{Clock: clock})
	if _, err := tr.Open(t.Context(), srv.Target, 1, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	w := wiretest.NewWatch(t, 2)
	for range 2 {
		tr.Start(wiretest.NewCall(srv.Target, w, "{}"))
	}
	eventually(t, "the second connection", func() bool { return srv.Conns() == 2 })
	close(go1)
	for range 2 {
		wiretest.Wait(t, "Done", w.Ended)
	}
	clock.move(tr, 3500*time.Millisecond)
	eventually(t, "the probe", func() bool { return tr.Health().Probes == 2 && ready(tr, srv.Target) == 2 })
	if seen := srv.Seen(); len(seen) != 4 {
		t.Errorf("%d requests in all, want two and two probes", len(seen))
	}
}

// A request that the server has held for a second was being worked on: its loss is not an idle connection's end.
func TestLossAfterASecondIsAFailure(t *testing.T) {
	clock := &handClock{now: 1}
	came, leave := make(chan struct{}, 4), make(chan struct{})
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		p.Request()
		p.Say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10\r\n\r\ndata: c:a\n")
		p.Request()
		came <- struct{}{}
		<-leave
	})
	tr := newTransport(t, Options{Clock: clock})
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(target, w, "{}")
	tr.Start(c)
	wiretest.Wait(t, "Done", w.Ended)
	tr.Start(c)
	wiretest.Wait(t, "the second request", came)
	clock.move(tr, pooling.IdleRace)
	close(leave)
	wiretest.Wait(t, "Done", w.Ended)
	if f := &c.Facts; f.Err == nil || f.Err.Type != "ServerDisconnectedError" || f.Attempts != 1 || f.ConnUse != 2 {
		t.Errorf("%v, sent %d times, use %d", f.Err, f.Attempts, f.ConnUse)
	}
}

// Times are kept to the nanosecond of the clock: nothing fires before them, and all that is due fires in one turn.
func TestTimes(t *testing.T) {
	clock := &handClock{now: 1}
	srv := wiretest.NewServer(t, wiretest.H1, func(int, string) wiretest.Reply {
		return wiretest.Reply{Parts: []string{wiretest.Event("c:a")}, Hang: true}
	})
	tr := newTransport(t, Options{Clock: clock})
	w := wiretest.NewWatch(t, 2)
	byTimeout, byPlan := wiretest.NewCall(srv.Target, w, "{}"), wiretest.NewCall(srv.Target, w, "{}")
	byTimeout.Timeout, byPlan.CancelAfter = 10*time.Second, 20*time.Second
	tr.Start(byTimeout)
	tr.Start(byPlan)
	for range 2 {
		wiretest.Wait(t, "First", w.Seen)
	}
	for _, step := range []struct {
		d     time.Duration
		ended *wire.Call
		cause wire.Cause
		at    int64
	}{
		{10*time.Second - 1, nil, 0, 0},
		{1, byTimeout, wire.ByTimeout, 10e9 + 1},
		{10*time.Second - 1, nil, 0, 0},
		{1, byPlan, wire.ByPlan, 20e9 + 1},
	} {
		clock.move(tr, step.d)
		on(tr, func(*loop) {}) // timers come after what is posted in a turn
		var got *wire.Call
		select {
		case got = <-w.Ended:
		default:
		}
		if got != step.ended {
			t.Fatalf("at %d the wrong call ended, or none", clock.Now())
		}
		if got == nil {
			continue
		}
		if f := &got.Facts; f.Cause != step.cause || f.CancelledAt != step.at || f.EndAt != step.at {
			t.Errorf("cause %d at %d, end %d, want %d at %d", f.Cause, f.CancelledAt, f.EndAt, step.cause, step.at)
		}
	}
}

// Open gives each connection a minute.
func TestOpenThatTakesTooLong(t *testing.T) {
	silent := wiretest.NewPeer(t, func(p *wiretest.Peer) { io.Copy(io.Discard, p) })
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	_, port, _ := net.SplitHostPort(srv.Target.Addr)
	unreachable := *srv.Target
	unreachable.Addr = net.JoinHostPort(deaf(t, port).String(), port)
	for _, tc := range []struct {
		target *wire.Target
		begun  func(l *loop) bool
		want   string
	}{
		{silent, func(l *loop) bool { return l.count.open.Load() == 1 }, "ServerTimeoutError: no answer to GET /health within 1m0s"},
		{&unreachable, func(l *loop) bool { return len(l.openings) == 1 }, "ServerTimeoutError: no connection within 1m0s"},
	} {
		clock := &handClock{now: 1}
		tr := newTransport(t, Options{Clock: clock})
		done := make(chan error, 1)
		go func() {
			_, err := tr.Open(t.Context(), tc.target, 1, wire.Probe{Path: "/health"})
			done <- err
		}()
		eventually(t, "the opening", func() (yes bool) { on(tr, func(l *loop) { yes = tc.begun(l) }); return yes })
		clock.move(tr, pooling.OpenLimit-1)
		select {
		case err := <-done:
			t.Fatalf("before its time: %v", err)
		default:
		}
		clock.move(tr, 1)
		if err := wiretest.Wait(t, "the end of Open", done); err == nil || err.Error() != tc.want || tr.Health().Open != 0 {
			t.Errorf("%v, want %s; %d are open", err, tc.want, tr.Health().Open)
		}
	}
}

// What waits for a dial ends with it, or is cancelled with it; a name's addresses get 3 s each but the last.
func TestAddressThatDoesNotAnswer(t *testing.T) {
	clock := &handClock{now: 1}
	srv := wiretest.NewServer(t, wiretest.H1, answerOne)
	_, port, _ := net.SplitHostPort(srv.Target.Addr)
	full := deaf(t, port)
	target := *srv.Target
	target.Addr = net.JoinHostPort("example.test", port)
	tr := newTransport(t, Options{Clock: clock, Resolver: names(func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{full, netip.MustParseAddr("127.0.0.1")}, nil
	})})
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(&target, w, "{}")
	tr.Start(c)
	attempt := func(i int) func() bool {
		return func() (yes bool) {
			on(tr, func(l *loop) {
				p := l.pools[&target]
				yes = len(p.making) == 1 && p.making[0].state == connecting && len(p.making[0].addrs) == 2-i
			})
			return yes
		}
	}
	eventually(t, "the first attempt", attempt(0))
	clock.move(tr, pooling.AddrWait)
	wiretest.Wait(t, "Done", w.Ended)
	if f := &c.Facts; f.Err != nil || f.Conn.DialEnd-f.Conn.DialStart != int64(pooling.AddrWait) || f.Cold != wire.Dialled {
		t.Errorf("%v, dial of %d ns, cold %d", f.Err, f.Conn.DialEnd-f.Conn.DialStart, f.Cold)
	}
}

// deaf is an address of this machine where nothing answers a dial to port: its queue of connections is full.
func deaf(t *testing.T, port string) netip.Addr {
	t.Helper()
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	at := &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 3}}
	socket := func(flags int) int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	l := socket(0)
	if err := unix.Bind(l, at); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 0); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := unix.Connect(socket(unix.SOCK_NONBLOCK), at); err != nil && err != unix.EINPROGRESS {
			t.Fatal(err)
		}
	}
	return netip.AddrFrom4(at.Addr)
}

type names func(ctx context.Context, host string) ([]netip.Addr, error)

func (f names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f(ctx, host)
}
