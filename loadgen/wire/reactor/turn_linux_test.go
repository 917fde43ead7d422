//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/wiretest"
)

// The tests here turn the loop by hand, on socket pairs.

// pairConn is a loop that no goroutine runs, a connection of it on which call has been begun, and the server's end of it.
func pairConn(tb testing.TB, clock wire.Clock, call *wire.Call) (l *loop, c *conn, peer int) {
	h := newHub(Options{Clock: clock, Resolver: names(func(context.Context, string) ([]netip.Addr, error) { return nil, nil })})
	l, err := newLoop(h, 0)
	if err != nil {
		tb.Fatal(err)
	}
	h.list.Store(&[]*loop{l})
	tb.Cleanup(func() { l.stop(); l.helpers.Wait(); l.closeAll() })
	call.Target = &wire.Target{Scheme: "http", Host: "a.test", Addr: "a.test:1", Path: "/"}
	c = addPair(tb, l, l.pool(call.Target), 1)
	l.post(op{kind: opStart, call: call, gen: call.Begin(clock.Now())})
	l.budget = turnSize
	l.take()
	return l, c, int(c.port)
}

// addPair adds a ready connection to p. The server's end is its port.
func addPair(tb testing.TB, l *loop, p *pool, id wire.ConnID) *conn {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		tb.Fatal(err)
	}
	c := newConn(p, id)
	c.fd, c.state, c.port, c.fresh = fds[0], idle, uint16(fds[1]), false
	if err := c.register(); err != nil {
		tb.Fatal(err)
	}
	p.conns[id] = c
	p.addReady(c)
	l.count.open.Add(1)
	tb.Cleanup(func() { c.close(); unix.Close(fds[1]) })
	return c
}

// In a turn a connection writes no more than its share, and all together no more than the turn's, whatever the sockets would take.
func TestBoundedWrites(t *testing.T) {
	call := &wire.Call{Body: bytes.Repeat([]byte("x"), 3*writeSize), Parser: wiretest.Parser{}}
	l, c, peer := pairConn(t, fake.NewClock(), call)
	if c.sent != writeSize || !c.unsent || call.Facts.FirstWrite == 0 || call.Facts.LastWrite != 0 {
		t.Fatalf("%d bytes in the first turn, to go on: %v, written from %d to %d", c.sent, c.unsent, call.Facts.FirstWrite, call.Facts.LastWrite)
	}
	for turn, want := range []int{2 * writeSize, 3 * writeSize, c.head + len(call.Body)} {
		drain(t, peer)
		l.turn()
		if last := turn == 2; c.sent != want || c.unsent == last || (call.Facts.LastWrite != 0) != last {
			t.Errorf("%d bytes of %d, to go on: %v, last write %d", c.sent, want, c.unsent, call.Facts.LastWrite)
		}
	}
	// Six calls, each with a connection of its own and more than its share to write: the turn is over after four.
	var conns []*conn
	for i := range 6 {
		conns = append(conns, addPair(t, l, c.pool, wire.ConnID(2+i)))
		next := &wire.Call{Target: call.Target, Conn: wire.ConnID(2 + i), Body: call.Body, Parser: wiretest.Parser{}}
		l.post(op{kind: opStart, call: next, gen: next.Begin(1)})
	}
	for step, do := range []func(){l.take, l.take, l.writeOn, l.writeOn, l.writeOn} {
		l.budget = turnSize
		do()
		all := 0
		for _, c := range conns {
			all += c.sent
			drain(t, int(c.port))
		}
		if want := []int{4, 6, 10, 14, 18}[step] * writeSize; all != want {
			t.Errorf("%d bytes are written after step %d, want %d", all, step, want)
		}
	}
}

// An event's slack reaches back to when its connection was last seen empty: by a read that did not fill the buffer, or found nothing.
func TestInterval(t *testing.T) {
	clock := &handClock{now: 1}
	call := &wire.Call{Body: []byte("{}"), Parser: wiretest.Parser{}}
	l, c, peer := pairConn(t, clock, call)
	chunk := wiretest.Chunk(wiretest.Event("c:a"))
	at := func(us int64, do func()) { clock.now = us * 1000; do() }
	at(100, func() { say(t, peer, wiretest.StreamHead); c.read() })
	at(200, func() { say(t, peer, chunk); c.read() }) // empty at 100
	at(300, func() { c.read() })                      // nothing there
	at(400, func() { say(t, peer, chunk); c.read() }) // empty at 300
	fill := len(l.buf) - len(chunk)
	at(500, func() { // fills the buffer: says nothing of emptiness
		say(t, peer, chunk+wiretest.Chunk(":"+strings.Repeat(" ", fill-len(":\n\n")-len("fff8\r\n\r\n"))+"\n\n"))
		c.read()
	})
	at(600, func() { say(t, peer, chunk); c.read() }) // empty at 400, when the read before the full one was
	at(700, func() { say(t, peer, chunk); c.read() })
	var got []int64
	for _, ch := range call.Chunks {
		got = append(got, ch.At/1000, int64(ch.Slack))
	}
	if want := []int64{200, 100, 400, 100, 500, 100, 600, 200, 700, 100}; !slices.Equal(got, want) {
		t.Errorf("times and slacks in µs %v, want %v", got, want)
	}
	if call.Facts.Reads != 5 || c.reads != 6 {
		t.Errorf("%d reads brought body bytes, %d in all", call.Facts.Reads, c.reads)
	}
	// The full read has the loop come back to the connection, whose request was sent long ago.
	l.writeOn()
	if l.readOn(); call.Facts.FirstWrite != 1 || call.Facts.LastWrite != 1 || c.empty != clock.now {
		t.Errorf("written from %d to %d, empty at %d", call.Facts.FirstWrite, call.Facts.LastWrite, c.empty)
	}
}

// The end of a connection that comes with the event of its being connected is not lost.
func TestEndWithConnect(t *testing.T) {
	call := &wire.Call{Body: []byte("{}"), Parser: wiretest.Parser{}}
	l, first, _ := pairConn(t, fake.NewClock(), call)
	c := addPair(t, l, first.pool, 2)
	first.pool.idle = nil
	l.count.open.Add(-1)
	c.state = connecting
	unix.Shutdown(int(c.port), unix.SHUT_WR)
	c.event(unix.EPOLLOUT | unix.EPOLLIN | unix.EPOLLRDHUP)
	if c.state != idle || l.count.open.Load() != 2 {
		t.Fatalf("state %d, %d open", c.state, l.count.open.Load())
	}
	l.readOn()
	if c.state != closed || l.count.open.Load() != 1 {
		t.Errorf("state %d, %d open", c.state, l.count.open.Load())
	}
}

// An idle connection that has ended, or has bytes, is not given out, even where its event has not been taken yet.
func TestStaleIsNotGivenOut(t *testing.T) {
	for name, spoil := range map[string]func(peer int){
		"ended": func(peer int) { unix.Shutdown(peer, unix.SHUT_WR) },
		"bytes": func(peer int) { say(t, peer, "x") },
	} {
		call := &wire.Call{Body: []byte("{}"), Parser: wiretest.Parser{}}
		l, first, _ := pairConn(t, fake.NewClock(), call)
		c := addPair(t, l, first.pool, 2)
		spoil(int(c.port))
		next := &wire.Call{Target: call.Target, Body: call.Body, Parser: wiretest.Parser{}}
		l.post(op{kind: opStart, call: next, gen: next.Begin(1)})
		l.take()
		if c.state != closed || len(c.pool.making) != 1 || c.pool.making[0].owner.call != next {
			t.Errorf("%s: state %d, %d are being made", name, c.state, len(c.pool.making))
		}
	}
}

// An event of a connection that had the descriptor before is not the new one's.
func TestEventOfAnOldConnection(t *testing.T) {
	call := &wire.Call{Body: []byte("{}"), Parser: wiretest.Parser{}}
	l, c, peer := pairConn(t, fake.NewClock(), call)
	say(t, peer, wiretest.StreamHead)
	l.event(&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.fd), Pad: 7})
	if c.reads != 0 {
		t.Error("the event of connection 7 had connection 1 read")
	}
	l.event(&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.fd), Pad: 1})
	if c.reads != 1 {
		t.Error("its own event did not")
	}
}

// A whole answer stands, however the request ends: by a cancel while its rest is written, or by a write that fails.
func TestWholeAnswerStands(t *testing.T) {
	const answer = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy"
	for name, end := range map[string]func(l *loop, c *conn, peer int, call *wire.Call){
		"cancelled": func(l *loop, c *conn, peer int, call *wire.Call) {
			say(t, peer, answer)
			l.turn()
			if c.state != answered {
				t.Errorf("state %d after the answer", c.state)
			}
			l.post(op{kind: opCancel, call: call, gen: call.Generation(), why: wire.ByUser, at: 5})
			l.take()
		},
		"the write fails": func(l *loop, c *conn, peer int, call *wire.Call) {
			say(t, peer, answer)
			unix.Shutdown(peer, unix.SHUT_RD) // a write here fails, and what was sent can be read
			l.writeOn()
			if c.writeErr != unix.EPIPE {
				t.Errorf("the write: %v", c.writeErr)
			}
			l.readOn()
		},
		"the time is over": func(l *loop, c *conn, peer int, call *wire.Call) {
			say(t, peer, answer)
			l.turn()
			l.timers.due(c.timer.at).fire()
		},
	} {
		w := wiretest.NewWatch(t, 1)
		call := &wire.Call{Body: bytes.Repeat([]byte("x"), 16*writeSize), Parser: wiretest.Parser{}, Obs: w}
		l, c, peer := pairConn(t, fake.NewClock(), call)
		end(l, c, peer, call)
		f := &call.Facts
		if len(w.Ended) != 1 || f.Err == nil || f.Err.Error() != "Too Many Requests: busy" || f.Cause != wire.NotCancelled || f.LastWrite != 0 ||
			f.Sent < writeSize/2 || f.Sent >= int64(len(call.Body)) || c.state != closed {
			t.Errorf("%s: ended %d times, %v, cause %d, sent %d, state %d", name, len(w.Ended), f.Err, f.Cause, f.Sent, c.state)
		}
	}
}

// A request whose rest cannot be written ends, though the server waits for that and says nothing.
func TestAFailedWriteEndsWhatNobodyAnswers(t *testing.T) {
	w := wiretest.NewWatch(t, 1)
	call := &wire.Call{Body: bytes.Repeat([]byte("x"), 16*writeSize), Parser: wiretest.Parser{}, Obs: w}
	l, c, peer := pairConn(t, fake.NewClock(), call)
	unix.Shutdown(peer, unix.SHUT_RD) // a write here fails, and there is nothing to read, nor an end
	l.writeOn()
	l.readOn()
	if e := call.Facts.Err; len(w.Ended) != 1 || e == nil || e.Error() != "ClientOSError: [Errno 32] broken pipe" || c.state != closed {
		t.Errorf("ended %d times, %v, state %d", len(w.Ended), e, c.state)
	}
}

// The timerfd stands at the earliest time, and is set anew only where that comes nearer or has gone by.
func TestArm(t *testing.T) {
	clock := &handClock{now: 1}
	l, _, _ := pairConn(t, clock, &wire.Call{Parser: wiretest.Parser{}})
	set := func() int64 {
		var spec unix.ItimerSpec
		if err := unix.TimerfdGettime(l.alarm, &spec); err != nil {
			t.Fatal(err)
		}
		return int64(time.Duration(spec.Value.Nano()).Round(100 * time.Second))
	}
	a, b := &timer{}, &timer{}
	const sec = int64(time.Second)
	for i, step := range []struct {
		do           func()
		armed, about int64
	}{
		{func() {}, 0, 0},
		{func() { l.timers.set(a, 1000*sec) }, 1000 * sec, 1000 * sec},
		{func() { l.timers.set(b, 2000*sec) }, 1000 * sec, 1000 * sec},
		{func() { l.timers.set(b, 400*sec) }, 400 * sec, 400 * sec},
		{func() { l.timers.unset(b) }, 400 * sec, 400 * sec}, // a turn for nothing then costs less than a system call now
		{func() { clock.now = 400 * sec }, 1000 * sec, 600 * sec},
		{func() { l.timers.set(a, 1000*sec) }, 1000 * sec, 600 * sec},
	} {
		step.do()
		l.arm(l.now())
		if l.armed != step.armed || set() != step.about {
			t.Errorf("step %d: armed for %d, in %d, want %d, %d", i, l.armed, set(), step.armed, step.about)
		}
	}
}

// As long as a loop stands, the kernel stamps arrivals.
func TestStampingIsKept(t *testing.T) {
	l, _, _ := pairConn(t, fake.NewClock(), &wire.Call{Parser: wiretest.Parser{}})
	if on, err := unix.GetsockoptInt(l.quiet, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS); err != nil || on != 1 {
		t.Errorf("SO_TIMESTAMPNS is %d, %v", on, err)
	}
}

func say(tb testing.TB, peer int, s string) {
	tb.Helper()
	if n, err := unix.Write(peer, []byte(s)); err != nil || n != len(s) {
		tb.Fatal(n, err)
	}
}

// drain takes what has come at the server's end of a connection.
func drain(tb testing.TB, peer int) (all []byte) {
	tb.Helper()
	in := make([]byte, 64<<10)
	for {
		n, err := unix.Read(peer, in)
		if err == unix.EAGAIN {
			return all
		}
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, in[:n]...)
	}
}

// BenchmarkChunk is the whole way of a chunk through the loop: epoll, recvmsg, framing, event, record; and the server's write.
func BenchmarkChunk(b *testing.B) {
	call := &wire.Call{Body: []byte("{}"), Parser: wiretest.Parser{}}
	l, c, peer := pairConn(b, fake.NewClock(), call)
	in := func(s []byte) {
		if _, err := unix.Write(peer, s); err != nil {
			b.Fatal(err)
		}
		l.turn()
	}
	if got := drain(b, peer); !bytes.HasSuffix(got, []byte("\r\n\r\n{}")) {
		b.Fatalf("the request: %q", got)
	}
	in([]byte(wiretest.StreamHead))
	chunk := []byte(wiretest.Chunk(wiretest.Event("c:word")))
	b.ReportAllocs()
	for b.Loop() {
		in(chunk)
		call.Chunks = call.Chunks[:0] // memory for them all is not what is measured
	}
	if c.state != asking || call.Facts.Status != 200 {
		b.Fatalf("state %d, status %d", c.state, call.Facts.Status)
	}
}

// BenchmarkRequest is a request of 2 KiB and an answer of one chunk on a ready connection, and the server's part in it.
func BenchmarkRequest(b *testing.B) {
	call := &wire.Call{Body: bytes.Repeat([]byte("x"), 2048), Parser: wiretest.Parser{}, Conn: 1}
	l, c, peer := pairConn(b, fake.NewClock(), call)
	call.Target.Header = []wire.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "Authorization", Value: "Bearer x"}}
	call.Header = []wire.Field{{Name: "X-Request-ID", Value: "7"}}
	answer := []byte(wiretest.StreamHead + wiretest.Chunk(wiretest.Event("c:word")+wiretest.Event("[DONE]")) + "0\r\n\r\n")
	in := make([]byte, 64<<10)
	exchange := func() {
		if _, err := unix.Read(peer, in); err != nil {
			b.Fatal(err)
		}
		if _, err := unix.Write(peer, answer); err != nil {
			b.Fatal(err)
		}
		l.turn()
	}
	exchange()
	b.ReportAllocs()
	for b.Loop() {
		l.post(op{kind: opStart, call: call, gen: call.Begin(l.now())})
		l.budget = turnSize
		l.take()
		exchange()
	}
	if c.state != idle || call.Facts.Err != nil || len(call.Chunks) != 1 {
		b.Fatalf("state %d, %v, %d chunks", c.state, call.Facts.Err, len(call.Chunks))
	}
}

// In a turn as many connections are read as it may, in the order of their events; those that wait for their first token come before all.
func TestFirstTokensAreReadFirst(t *testing.T) {
	const n = readBatch + 20
	first := &wire.Call{Body: []byte("{}"), Parser: wiretest.Parser{}}
	l, waits, peer := pairConn(t, fake.NewClock(), first)
	var conns []*conn
	var calls []*wire.Call
	for i := range n {
		c := addPair(t, l, waits.pool, wire.ConnID(2+i))
		call := &wire.Call{Target: first.Target, Conn: c.facts.ID, Body: []byte("{}"), Parser: wiretest.Parser{}}
		l.post(op{kind: opStart, call: call, gen: call.Begin(1)})
		conns, calls = append(conns, c), append(calls, call)
	}
	chunk := wiretest.Chunk(wiretest.Event("c:a"))
	l.turn()
	for _, c := range conns {
		say(t, int(c.port), wiretest.StreamHead+chunk)
	}
	read := func(chunks int) (done int) {
		for _, call := range calls {
			if len(call.Chunks) == chunks {
				done++
			}
		}
		return done
	}
	if l.turn(); read(1) != n {
		t.Fatalf("%d of %d have their first token after one turn", read(1), n)
	}
	for _, c := range conns {
		say(t, int(c.port), chunk)
	}
	say(t, peer, wiretest.StreamHead+chunk)
	if l.turn(); len(first.Chunks) != 1 || read(2) != readBatch || len(calls[readBatch-1].Chunks) != 2 {
		t.Errorf("%d first tokens and %d others are read in a turn, want 1 and the first %d", len(first.Chunks), read(2), readBatch)
	}
	say(t, int(conns[0].port), chunk) // a third, behind what waits
	if l.turn(); read(3) != 1 || read(2) != n-1 {
		t.Errorf("after another turn %d have two and %d have three, want %d and 1", read(2), read(3), n-1)
	}
}
