//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/wiretest"
)

// descriptors is how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// After Close no goroutine or descriptor of the transport is left, whatever was under way, and all Calls are given back.
func TestCloseLeavesNothing(t *testing.T) {
	srv := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for r := p.Request(); r != nil; r = p.Request() {
			switch {
			case r.Method == "GET" && r.URL.Path == "/slow":
				io.Copy(io.Discard, p) // the probe's answer does not come
			case r.Method == "GET":
				p.Say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			default:
				p.Say(wiretest.StreamHead + wiretest.Chunk(wiretest.Event("c:a")))
			}
		}
	})
	deafTarget, named := *srv, *srv
	_, port, _ := net.SplitHostPort(srv.Addr)
	deafTarget.Addr = net.JoinHostPort(deaf(t, port).String(), port)
	named.Addr = net.JoinHostPort("example.test", port)
	before := descriptors(t)
	asked := make(chan struct{}, 1)
	tr, err := New(Options{Clock: fake.NewClock(), Resolver: names(func(ctx context.Context, _ string) ([]netip.Addr, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Open(t.Context(), srv, 4, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	w := wiretest.NewWatch(t, 10)
	begin := func(target *wire.Target) {
		c := wiretest.NewCall(target, w, strings.Repeat("x", 100_000))
		c.Timeout, c.CancelAfter = time.Hour, time.Hour
		tr.Start(c)
	}
	for range 8 {
		begin(srv)
	}
	for range 8 {
		wiretest.Wait(t, "First", w.Seen)
	}
	begin(&deafTarget)
	begin(&named)
	wiretest.Wait(t, "the lookup", asked)
	opening := make(chan error, 1)
	go func() {
		_, err := tr.Open(t.Context(), srv, 2, wire.Probe{Path: "/slow"})
		opening <- err
	}()
	eventually(t, "the second opening", func() (yes bool) {
		on(tr, func(l *loop) { yes = len(l.openings) == 1 && l.count.dialled.Load() == 10 })
		return yes
	})
	shut(t, tr)
	if len(w.Ended) != 10 {
		t.Errorf("%d of 10 calls are given back", len(w.Ended))
	}
	for range len(w.Ended) {
		if c := <-w.Ended; c.Facts.Cause != wire.ByUser {
			t.Errorf("a call ended by %d: %v", c.Facts.Cause, c.Facts.Err)
		}
	}
	if err := wiretest.Wait(t, "the end of the opening", opening); !errors.Is(err, errClosed) {
		t.Errorf("the opening ended by %v", err)
	}
	if h := tr.Health(); h.Open != 0 {
		t.Errorf("%d connections are open", h.Open)
	}
	eventually(t, "the end of all goroutines", func() bool {
		buf := make([]byte, 1<<20)
		return !bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("wire/reactor.(*loop)"))
	})
	eventually(t, "the descriptors before", func() bool { return descriptors(t) <= before })
	// A second Close does nothing, and calls that come now are given back at once.
	shut(t, tr)
	begin(srv)
	if c := wiretest.Wait(t, "Done", w.Ended); c.Facts.Err.Type != "ClientConnectionError" {
		t.Errorf("after Close: %v", c.Facts.Err)
	}
	if _, err := tr.Open(t.Context(), srv, 1, wire.Probe{}); !errors.Is(err, errClosed) {
		t.Errorf("Open after Close: %v", err)
	}
}

// A connection whose dial ends after nobody wants it any more is closed, before Close and during it.
func TestLateDial(t *testing.T) {
	gone := make(chan struct{}, 2)
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		if p.Request() == nil {
			gone <- struct{}{}
		}
	})
	begun, held := make(chan struct{}, 2), make(chan struct{})
	before := descriptors(t)
	tr, err := New(Options{Clock: fake.NewClock(), Dial: func(_ context.Context, network, addr string) (net.Conn, error) {
		begun <- struct{}{}
		<-held
		return net.Dial(network, addr)
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := wiretest.NewWatch(t, 2)
	c := wiretest.NewCall(target, w, "{}")
	gen := tr.Start(c)
	wiretest.Wait(t, "the dial", begun)
	tr.Cancel(c, gen, wire.ByUser)
	wiretest.Wait(t, "Done", w.Ended)
	held <- struct{}{}
	wiretest.Wait(t, "the end of the connection", gone)
	tr.Start(c)
	wiretest.Wait(t, "the second dial", begun)
	ended := make(chan error, 1)
	go func() { ended <- tr.Close(context.Background()) }()
	wiretest.Wait(t, "Done", w.Ended)
	<-tr.hub.loops()[0].gone // the dial outlives the loop
	held <- struct{}{}
	wiretest.Wait(t, "the end of the connection", gone)
	if err := wiretest.Wait(t, "the end of Close", ended); err != nil {
		t.Error(err)
	}
	eventually(t, "the descriptors before", func() bool { return descriptors(t) <= before })
}

// An Open that fails, or whose context ends, leaves no connection.
func TestOpenFails(t *testing.T) {
	srv := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for p.Request() != nil {
			if p.N == 3 {
				return
			}
			if p.N < 3 {
				p.Say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			}
		}
	})
	tr := newTransport(t, Options{Clock: fake.NewClock()})
	_, err := tr.Open(t.Context(), srv, 4, wire.Probe{Path: "/health"})
	var e *wire.Error
	if !errors.As(err, &e) || e.Type != "ServerDisconnectedError" {
		t.Errorf("the fourth connection closes: %v", err)
	}
	if h := tr.Health(); h.Open != 0 {
		t.Errorf("%d connections are open", h.Open)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := tr.Open(ctx, srv, 1, wire.Probe{Path: "/health"}) // from the fifth on none answers
		done <- err
	}()
	eventually(t, "the connection", func() bool { return tr.Health().Open == 1 })
	stop()
	if err := wiretest.Wait(t, "the end of Open", done); !errors.Is(err, context.Canceled) || tr.Health().Open != 0 {
		t.Errorf("%v, %d connections are open", err, tr.Health().Open)
	}
}

func TestWhatItDoesNotServe(t *testing.T) {
	tr := newTransport(t, Options{Clock: fake.NewClock()})
	w := wiretest.NewWatch(t, 1)
	for _, target := range []*wire.Target{
		{Scheme: "https", Host: "a.test", Addr: "127.0.0.1:1", Path: "/"},
		{Scheme: "http", Host: "a.test", Addr: "127.0.0.1:1", Path: "/", Protocol: wire.H2C},
		{Scheme: "http", Host: "a.test", Addr: "127.0.0.1:1", Path: "/", Protocol: wire.HTTP2},
	} {
		if Serves(target) {
			t.Errorf("%+v is served", target)
		}
		_, err := tr.Open(t.Context(), target, 1, wire.Probe{})
		var e *wire.Error
		if !errors.As(err, &e) || e.Type != "ValueError" || !strings.Contains(e.Message, "--client portable") {
			t.Errorf("Open: %v", err)
		}
		c := wiretest.NewCall(target, w, "{}")
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
		if c.Facts.Err.Error() != e.Error() {
			t.Errorf("Start: %v, Open: %v", c.Facts.Err, e)
		}
	}
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000"} {
		c := wiretest.NewCall(&wire.Target{Scheme: "http", Host: "a.test", Addr: addr, Path: "/"}, w, "{}")
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
		if e := c.Facts.Err; e.Type != "InvalidURL" {
			t.Errorf("%s: %v", addr, e)
		}
	}
}

// A burst of long prompts does not stop reading: while they are written, and the server takes none of them, an answer goes on.
func TestLongPromptsDoNotStopReading(t *testing.T) {
	const long, many = 8 << 20, 8
	next := make(chan struct{})
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		r := p.Head()
		if r == nil {
			return
		}
		if r.ContentLength == long {
			<-next // takes nothing of it until the other answer is done
		}
		io.Copy(io.Discard, io.LimitReader(r.Body, r.ContentLength))
		p.Say(wiretest.StreamHead)
		if r.ContentLength != long {
			for range 100 {
				p.Say(wiretest.Chunk(wiretest.Event("c:a")))
			}
		}
		p.Say(wiretest.Chunk(wiretest.Event("c:b")+wiretest.Event("[DONE]")) + "0\r\n\r\n")
	})
	tr := newTransport(t, Options{Clock: fake.NewClock()})
	w := wiretest.NewWatch(t, many+1)
	for range many {
		tr.Start(wiretest.NewCall(target, w, strings.Repeat("x", long)))
	}
	short := wiretest.NewCall(target, w, "{}")
	tr.Start(short)
	if c := wiretest.Wait(t, "Done", w.Ended); c != short || c.Facts.Err != nil || len(c.Chunks) != 101 {
		t.Fatalf("%v, %d chunks", c.Facts.Err, len(c.Chunks))
	}
	close(next)
	for range many {
		c := wiretest.Wait(t, "Done", w.Ended)
		if f := &c.Facts; f.Err != nil || f.Sent != long || f.LastWrite <= f.FirstWrite || f.HeadAt < f.FirstWrite {
			t.Errorf("%v, sent %d, written from %d to %d", f.Err, f.Sent, f.FirstWrite, f.LastWrite)
		}
	}
}

// A server that answers early and then reads the request all the same keeps its connection.
func TestEarlyAnswerThatReadsOn(t *testing.T) {
	const long = 32 << 20
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for r := p.Head(); r != nil; r = p.Head() {
			p.Say("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")
			io.Copy(io.Discard, r.Body)
		}
	})
	tr := newTransport(t, Options{Clock: &handClock{now: 1}}) // its time to read on does not run out
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(target, w, strings.Repeat("x", long))
	for use := range 2 {
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
		if f := &c.Facts; f.Status != 429 || f.Err.Code != 429 || f.Sent != long || f.LastWrite == 0 || f.ConnUse != uint32(use+1) {
			t.Errorf("%v, sent %d, last write %d, use %d", f.Err, f.Sent, f.LastWrite, f.ConnUse)
		}
	}
}

// Bytes that nobody asked for between two requests: the connection is not used for the next one.
func TestUnaskedBytes(t *testing.T) {
	more := make(chan struct{})
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for p.Request() != nil {
			p.Say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10\r\n\r\ndata: c:a\n")
			<-more
			p.Say("HTTP/1.1 200 OK\r\n\r\n")
		}
	})
	tr := newTransport(t, Options{Clock: fake.NewClock()})
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(target, w, "{}")
	c.Parser = finished{}
	var ids []wire.ConnID
	for range 2 {
		tr.Start(c)
		wiretest.Wait(t, "Done", w.Ended)
		more <- struct{}{}
		eventually(t, "the end of the connection", func() bool { return tr.Health().Open == 0 })
		if c.Facts.Err != nil || c.Facts.Attempts != 1 {
			t.Errorf("%v, sent %d times", c.Facts.Err, c.Facts.Attempts)
		}
		ids = append(ids, c.Facts.Conn.ID)
	}
	if ids[0] == ids[1] {
		t.Error("the connection is used again")
	}
}

// finished is the toy parser for streams that end with their first event.
type finished struct{ wiretest.Parser }

func (f finished) Event(name, data []byte, d *wire.Delta) wire.Class {
	class := f.Parser.Event(name, data, d)
	d.Finish = []byte("stop")
	return class
}

// A storm of calls against a server that does all that servers do, with cancels at all times: every call is given back once, with an
// outcome that fits, and nothing is left.
func TestStorm(t *testing.T) {
	const workers, each = 32, 30
	whole := wiretest.Chunk(wiretest.Event("c:a")) + wiretest.Chunk(wiretest.Event("c:b")+wiretest.Event("[DONE]")) + "0\r\n\r\n"
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for use := 0; ; use++ {
			r := p.Request()
			if r == nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			switch kind := len(body) % 8; {
			case r.Method == "GET":
				p.Say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			case kind == 1: // closes without an answer
				return
			case kind == 2:
				p.Say(wiretest.StreamHead + whole[:30])
				return
			case kind == 3:
				p.Say(wiretest.StreamHead + whole[:30])
				p.Reset()
				return
			case kind == 4:
				p.Say("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbusy")
				return
			case kind == 5: // answers, and closes where an idle connection would be
				p.Say(wiretest.StreamHead + whole)
				return
			case kind == 6: // does not go on
				p.Say(wiretest.StreamHead + whole[:30])
				io.Copy(io.Discard, p)
				return
			default:
				for part := range slices.Chunk([]byte(wiretest.StreamHead+whole), 7) {
					p.Write(part)
				}
			}
		}
	})
	before := descriptors(t)
	tr, err := New(Options{Clock: fake.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Open(t.Context(), target, workers/2, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			w := wiretest.NewWatch(t, 2*each)
			c := wiretest.NewCall(target, w, "")
			for i := range each {
				kind := (n + i) % 8
				c.Body = bytes.Repeat([]byte("x"), 8*(1+1000*(i%5))+kind)
				cancelled := kind == 6 || (n+i)%11 == 0
				gen := tr.Start(c)
				if cancelled {
					if i%2 == 0 && kind == 6 {
						<-w.Seen // the answer has begun
					}
					tr.Cancel(c, gen, wire.ByUser)
					tr.Cancel(c, gen, wire.ByGrace)
				}
				if got := <-w.Ended; got != c {
					t.Error("another call is given back")
				}
				f := &c.Facts
				// Both connections it was sent on were idle ones that the server was about to close.
				twice := f.Attempts == 2 && f.Err != nil && (f.Err.Type == "ServerDisconnectedError" || f.Err.Type == "ClientOSError")
				switch {
				case twice:
				case f.Cause == wire.ByUser && cancelled && f.Err.Code == 499:
				case f.Cause != wire.NotCancelled:
					t.Errorf("kind %d: cause %d: %v", kind, f.Cause, f.Err)
				case (kind == 0 || kind == 5 || kind == 7) && (f.Err != nil || len(c.Chunks) != 2):
					t.Errorf("kind %d: %v, %d chunks", kind, f.Err, len(c.Chunks))
				case kind == 1 && f.Err.Type != "ServerDisconnectedError",
					kind == 2 && f.Err.Type != "ClientPayloadError", kind == 4 && f.Err.Code != 503:
					t.Errorf("kind %d: %v", kind, f.Err)
				case kind == 3 && f.Err.Type != "ClientPayloadError" && f.Err.Type != "ClientOSError": // a reset takes unread bytes with it
					t.Errorf("kind %d: %v", kind, f.Err)
				}
				c.Conn = f.Conn.ID
			}
		})
	}
	all.Wait()
	eventually(t, "the end of all timers but the keeper's", func() (yes bool) {
		on(tr, func(l *loop) { yes = len(l.active) == 0 && len(l.timers) == 1 })
		return yes
	})
	shut(t, tr)
	if h := tr.Health(); h.Open != 0 {
		t.Errorf("%d connections are open", h.Open)
	}
	eventually(t, "the descriptors before", func() bool { return descriptors(t) <= before })
}

// Over IPv6 as over IPv4, with the facts of both ends.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("SKIP: no IPv6 on this system: ", err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.Read(make([]byte, 4096))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: c:a\n\ndata: [DONE]\n\n")
	}()
	tr := newTransport(t, Options{Clock: fake.NewClock()})
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(&wire.Target{Scheme: "http", Host: "[::1]", Addr: l.Addr().String(), Path: "/"}, w, "{}")
	tr.Start(c)
	wiretest.Wait(t, "Done", w.Ended)
	if f := &c.Facts; f.Err != nil || f.Conn.Remote != l.Addr().String() || !strings.HasPrefix(f.Conn.Local, "[::1]:") {
		t.Errorf("%v, from %s to %s", f.Err, f.Conn.Local, f.Conn.Remote)
	}
}

// What a request allocates does not grow with its chunks, and is little.
func TestAllocations(t *testing.T) {
	chunk := []byte(wiretest.Chunk(wiretest.Event("c:word")))
	tail := []byte(wiretest.Chunk(wiretest.Event("f:stop")+wiretest.Event("[DONE]")) + "0\r\n\r\n")
	head := []byte(wiretest.StreamHead)
	var chunks atomic.Int64
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		in := make([]byte, 4096)
		for {
			if _, err := p.Read(in); err != nil { // the request comes in one piece: it is small
				return
			}
			p.Write(head)
			for range chunks.Load() {
				p.Write(chunk)
			}
			p.Write(tail)
		}
	})
	tr := newTransport(t, Options{Clock: fake.NewClock()})
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
		return testing.AllocsPerRun(20, one)
	}
	few, many := allocs(10), allocs(2010)
	if few > 10 || many > few+2 {
		t.Errorf("%v allocations with 10 chunks, %v with 2,010", few, many)
	}
	if c.Facts.Err != nil || len(c.Chunks) != 2010 {
		t.Errorf("%v, %d chunks", c.Facts.Err, len(c.Chunks))
	}
}
