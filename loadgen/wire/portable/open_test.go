package portable

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/wiretest"
)

// A server that accepts and says nothing must not hold up a run for ever.
func TestOpenGivesUpOnASilentServer(t *testing.T) {
	for _, c := range []struct {
		name string
		dial func(ctx context.Context, network, addr string) (net.Conn, error)
		says string
	}{
		{"no answer to the probe", func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			return near, nil
		}, "no answer to GET /health within 1m0s"},
		{"no connection", func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }, "no connection within 1m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := New(Options{Clock: fake.NewClock(), Dial: c.dial})
				from := time.Now()
				_, err := tr.Open(t.Context(), &wire.Target{Scheme: "http", Host: "a", Addr: "192.0.2.1:1", Path: "/"}, 2, wire.Probe{Path: "/health"})
				if took := time.Since(from); took != time.Minute {
					t.Errorf("Open gave up after %v, want 1m0s", took)
				}
				var e *wire.Error
				if !errors.As(err, &e) || e.Message != c.says {
					t.Errorf("Open says %v, want %q", err, c.says)
				}
				if err := tr.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// How many requests a connection may carry is known once it is open, so that enough of them can be opened.
func TestOpenSaysHowManyRequestsAConnectionMayCarry(t *testing.T) {
	for _, kind := range wiretest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			srv := wiretest.NewServer(t, kind, func(int, string) wiretest.Reply { return wiretest.Reply{Parts: wiretest.Events(1)} })
			tr := New(Options{Clock: fake.NewClock()})
			defer tr.Close(t.Context())
			srv.Target.Streams = 7
			facts, err := tr.Open(t.Context(), srv.Target, 1, wire.Probe{Path: "/health"})
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			if kind.Multiplexed() {
				want = 7
			}
			if facts[0].Streams != want {
				t.Errorf("Streams is %d, want %d", facts[0].Streams, want)
			}
		})
	}
}

// Only a server that closes after the first answer on a connection cannot be kept ready: one that closes after some answers may close with
// the answer to a later probe.
func TestAClosingAnswerToALaterProbeIsReplaced(t *testing.T) {
	clock := newHandClock()
	conns := make(chan struct{}, 100)
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		conns <- struct{}{}
		for n := 1; ; n++ {
			if p.Request() == nil {
				return
			}
			if n == 2 {
				p.Say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
				return
			}
			p.Say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		}
	})
	tr := New(Options{Clock: clock})
	defer tr.Close(t.Context())
	if _, err := tr.Open(t.Context(), target, 1, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	clock.move(t, 3*time.Second)
	eventually(t, "the replacement", func() bool { return tr.Health().Probes == 3 && ready(tr, target) == 1 })
	if got := len(conns); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

// Where no connection was opened beforehand each request gets a stream at once: it would be no load on the server while it waits for
// another's end.
func TestAsManyConnectionsAsTheRequestsInFlightNeed(t *testing.T) {
	const requests, streams = 10, 3
	for _, late := range []bool{false, true} {
		all := make(chan struct{}, requests+1)
		free := make(chan struct{})
		srv := wiretest.NewServer(t, wiretest.H2C, func(int, string) wiretest.Reply {
			all <- struct{}{}
			<-free
			return wiretest.Reply{Parts: wiretest.Events(1)}
		})
		srv.Target.Streams = streams
		tr := New(Options{Clock: fake.NewClock()})
		w := wiretest.NewWatch(t, requests)
		for i := range requests {
			tr.Start(wiretest.NewCall(srv.Target, w, "{}"))
			if late { // after the ones before it have their connections
				wiretest.Wait(t, "request "+strconv.Itoa(i)+" at the server", all)
			}
		}
		for range requests {
			if late {
				break
			}
			wiretest.Wait(t, "every request at the server", all)
		}
		close(free)
		for range requests {
			c := wiretest.Wait(t, "Done", w.Ended)
			if c.Facts.Err != nil || c.Facts.Queued != 0 {
				t.Errorf("%v, waited %d ns", c.Facts.Err, c.Facts.Queued)
			}
		}
		if want := (requests + streams - 1) / streams; srv.Conns() != want {
			t.Errorf("%d connections, want %d", srv.Conns(), want)
		}
		if err := tr.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A server that says goodbye on each connection before it takes a request must not be dialled for ever.
func TestAServerThatTakesNothing(t *testing.T) {
	conns := make(chan struct{}, 100)
	target := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		conns <- struct{}{}
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(p, preface); err != nil {
			return
		}
		var out bytes.Buffer
		fr := http2.NewFramer(&out, p)
		_ = fr.WriteGoAway(0, http2.ErrCodeNo, nil)
		goodbye := out.String()
		out.Reset()
		_ = fr.WriteSettings()
		p.Say(out.String() + goodbye)
		_, _ = io.Copy(io.Discard, p)
	})
	target.Protocol = wire.H2C
	tr := New(Options{Clock: fake.NewClock()})
	w := wiretest.NewWatch(t, 1)
	c := wiretest.NewCall(target, w, "{}")
	tr.Start(c)
	wiretest.Wait(t, "Done", w.Ended)
	if e := c.Facts.Err; e == nil || e.Type != "ServerDisconnectedError" && e.Type != "ClientConnectorError" {
		t.Errorf("error %v", e)
	}
	if n := len(conns); n > maxTurned {
		t.Errorf("%d connections, want %d at most", n, maxTurned)
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
