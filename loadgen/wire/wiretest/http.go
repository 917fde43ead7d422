package wiretest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
)

// Seams are what a test puts in the place of the network's own; nil = the system's.
type Seams struct {
	Clock    wire.Clock
	Resolver Resolver
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Resolver looks names up.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// HTTPSetup says how to make a transport that speaks HTTP, and which kinds.
type HTTPSetup struct {
	Kinds []Kind
	New   func(s Seams) wire.Transport
}

// RunHTTP holds a transport against an HTTP server: connections, what they cost, and how they end.
func RunHTTP(t *testing.T, s HTTPSetup) {
	for _, kind := range s.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			for name, f := range map[string]func(*testing.T, HTTPSetup, Kind){
				"request": request, "watched": watched, "opened": opened, "closed while idle": closedIdle, "close after": closeAfter, "dial": dialled,
				"slow dial": slowDial, "cancel a dial": cancelDial,
			} {
				t.Run(name, func(t *testing.T) { f(t, s, kind) })
			}
		})
	}
}

func ok(int, string) Reply { return Reply{Parts: Events(1)} }

func (s HTTPSetup) rig(t *testing.T, target *wire.Target, seams Seams) *Rig {
	if seams.Clock == nil {
		seams.Clock = fake.NewClock()
	}
	r := &Rig{Transport: s.New(seams), Target: target, Clock: seams.Clock}
	t.Cleanup(func() { r.close(t) })
	return r
}

func request(t *testing.T, s HTTPSetup, kind Kind) {
	srv := NewServer(t, kind, ok)
	srv.Target.Host = "model.example"
	r := s.rig(t, srv.Target, Seams{})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, `{"a":1}`)
	c.Header = []wire.Field{{Name: "X-Request-ID", Value: "id-1"}, {Name: "Accept", Value: "text/event-stream"}}
	do(t, r, w, c)
	f := &c.Facts
	if f.Err != nil {
		t.Fatal(f.Err)
	}
	got := srv.Seen()[0]
	same(t, "Host", got.Host, "model.example")
	same(t, "Body", got.Body, `{"a":1}`)
	same(t, "X-Request-ID", got.Header.Get("X-Request-Id"), "id-1")
	same(t, "User-Agent", strings.Join(got.Header["User-Agent"], ", "), "prefire-test")
	for _, absent := range []string{"Accept-Encoding", "Connection"} {
		same(t, absent, got.Header.Get(absent), "")
	}
	proto := "HTTP/1.1"
	if kind.Multiplexed() {
		proto = "HTTP/2"
		ordered(t, "DialEnd Settings FirstWrite", f.Conn.DialEnd, f.Conn.Settings, f.FirstWrite)
	}
	same(t, "Protocol", f.Conn.Protocol, proto)
	same(t, "Cold", f.Cold, wire.Dialled)
	same(t, "Reused", f.Reused, false)
	ordered(t, "Ready DialStart DialEnd Acquired FirstWrite", f.Ready, f.Conn.DialStart, f.Conn.DialEnd, f.Acquired, f.FirstWrite)
	same(t, "DNSStart", f.Conn.DNSStart, int64(0))
	same(t, "TLS", f.Conn.TLSEnd != 0, kind.TLS())
	same(t, "TLSVersion", f.Conn.TLSVersion == "TLS 1.3", kind.TLS())
	same(t, "Remote", f.Conn.Remote, srv.Target.Addr)
	if kind.TLS() {
		ordered(t, "DialEnd TLSStart TLSEnd FirstWrite", f.Conn.DialEnd, f.Conn.TLSStart, f.Conn.TLSEnd, f.FirstWrite)
	}
}

// Who watches gets every read of the body and the fields of the head; who does not, neither.
func watched(t *testing.T, s HTTPSetup, kind Kind) {
	srv := NewServer(t, kind, func(int, string) Reply { return Reply{Parts: Events(4)} })
	r := s.rig(t, srv.Target, Seams{})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, `{"a":1}`)
	c.Watch, c.Keep = true, wire.KeepRaw
	do(t, r, w, c)
	f := &c.Facts
	if f.Err != nil {
		t.Fatal(f.Err)
	}
	size := 0
	for i, p := range c.Reads {
		size += p.Size
		if p.Size <= 0 || p.At < f.FirstByte || p.At > f.LastByte || i > 0 && p.At < c.Reads[i-1].At {
			t.Errorf("read %d is %+v, of bytes from %d to %d", i, p, f.FirstByte, f.LastByte)
		}
	}
	same(t, "bytes of all reads", int64(size), f.Received)
	same(t, "bytes kept", int64(len(c.Raw)), f.Received)
	same(t, "reads", int32(len(c.Reads)), f.Reads)
	typed := ""
	for _, h := range c.Reply {
		if strings.EqualFold(h.Name, "Content-Type") {
			typed = h.Value
		}
	}
	same(t, "Content-Type", typed, f.ContentType)
	c.Watch = false
	do(t, r, w, c)
	same(t, "reads of an unwatched call", len(c.Reads), 0)
	same(t, "fields of an unwatched call", len(c.Reply), 0)
}

func opened(t *testing.T, s HTTPSetup, kind Kind) {
	const n = 5
	srv := NewServer(t, kind, ok)
	r := s.rig(t, srv.Target, Seams{})
	facts, err := r.Transport.Open(t.Context(), r.Target, n, wire.Probe{Path: "/health", Header: []wire.Field{{Name: "X-Probe", Value: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "facts", len(facts), n)
	same(t, "connections", srv.Conns(), n)
	for _, seen := range srv.Seen() {
		same(t, "probe", seen.Probe && seen.Use == 1 && seen.Header.Get("X-Probe") == "1", true)
	}
	w := NewWatch(t, n)
	for range n {
		r.Transport.Start(NewCall(r.Target, w, "{}"))
	}
	for range n {
		c := Wait(t, "Done", w.Ended)
		same(t, "Err", c.Facts.Err == nil, true)
		same(t, "Cold", c.Facts.Cold, wire.Cold(0))
		if !kind.Multiplexed() {
			same(t, "ConnUse >= 2", c.Facts.ConnUse >= 2, true)
		}
	}
	same(t, "connections afterwards", srv.Conns(), n)
	// An address that nobody listens on fails as a whole.
	bad := *r.Target
	bad.Addr = deadAddr(t)
	_, err = r.Transport.Open(t.Context(), &bad, 3, wire.Probe{Path: "/health"})
	var e *wire.Error
	if !errors.As(err, &e) || e.Type != "ClientConnectorError" || !strings.Contains(e.Message, "connection refused") {
		t.Errorf("Open of a dead address: %v", err)
	}
	same(t, "Open", r.Transport.Health().Open, n)
}

// deadAddr is an address that refuses.
func deadAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func closedIdle(t *testing.T, s HTTPSetup, kind Kind) {
	srv := NewServer(t, kind, ok)
	r := s.rig(t, srv.Target, Seams{})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, "{}")
	do(t, r, w, c)
	srv.CloseIdle()
	do(t, r, w, c)
	f := &c.Facts
	if f.Err != nil {
		t.Fatalf("after the server closed: %v", f.Err)
	}
	if f.Cold&(wire.Dialled|wire.Resent) == 0 {
		t.Error("the request is not cold")
	}
	same(t, "sent twice", f.Attempts == 2, f.Cold&wire.Resent != 0)
	same(t, "connections", srv.Conns(), 2)
}

func closeAfter(t *testing.T, s HTTPSetup, kind Kind) {
	if kind.Multiplexed() {
		t.Skip("SKIP: an HTTP/2 server ends connections by GOAWAY, which the tests of the h2 package cover")
	}
	srv := NewServer(t, kind, ok)
	srv.CloseAfter(3)
	r := s.rig(t, srv.Target, Seams{})
	if _, err := r.Transport.Open(t.Context(), r.Target, 1, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, "{}")
	cold := 0
	for range 10 {
		do(t, r, w, c)
		if c.Facts.Err != nil {
			t.Fatal(c.Facts.Err)
		}
		if c.Facts.Cold != 0 {
			cold++
			same(t, "Reused", c.Facts.Reused, false)
		}
	}
	// Cold are exactly those requests that were not preceded by another on their connection.
	first := 0
	for _, seen := range srv.Seen() {
		if seen.Use == 1 && !seen.Probe {
			first++
		}
	}
	// A replacement that was probed before the request came for it is hot; one the request waited for is cold even if it was probed.
	if cold < first || cold > srv.Conns()-1 {
		t.Errorf("%d are cold; %d were first on a connection, of %d connections after the opened one", cold, first, srv.Conns()-1)
	}
}

type staticResolver func(ctx context.Context, host string) ([]netip.Addr, error)

func (f staticResolver) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f(ctx, host)
}

func dialled(t *testing.T, s HTTPSetup, kind Kind) {
	srv := NewServer(t, kind, ok)
	_, port, _ := net.SplitHostPort(srv.Target.Addr)
	named := *srv.Target
	named.Addr = net.JoinHostPort("example.com", port) // the test server's certificate is for this name
	other := named
	other.Addr = net.JoinHostPort("other.test", port)
	distrust := named
	distrust.TLS = &tls.Config{}
	dead := *srv.Target
	dead.Addr = deadAddr(t)
	_, deadPort, _ := net.SplitHostPort(dead.Addr)
	local := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	cases := []struct {
		name    string
		target  *wire.Target
		resolve staticResolver
		kind    string // of the error; "" = none
		text    string
	}{
		{"refused", &dead, nil, "ClientConnectorError",
			fmt.Sprintf("Cannot connect to host 127.0.0.1:%[1]s ssl:default [Connect call failed ('127.0.0.1', %[1]s): connection refused]", deadPort)},
		{"no such name", &named, func(_ context.Context, host string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}, "ClientConnectorDNSError", "[the name example.com does not resolve: no such host]"},
		{"no addresses", &named, func(context.Context, string) ([]netip.Addr, error) { return nil, nil }, "ClientConnectorDNSError", "no addresses"},
		{"the second address", &named, func(context.Context, string) ([]netip.Addr, error) {
			return append([]netip.Addr{netip.MustParseAddr("127.0.0.2")}, local...), nil
		}, "", ""},
	}
	if kind.TLS() {
		resolve := func(context.Context, string) ([]netip.Addr, error) { return local, nil }
		cases = append(cases, []struct {
			name    string
			target  *wire.Target
			resolve staticResolver
			kind    string
			text    string
		}{
			{"not trusted", &distrust, resolve, "ClientConnectorCertificateError", "the certificate is not trusted: x509: "},
			{"another name", &other, resolve, "ClientConnectorCertificateError", "not other.test"},
		}...)
	}
	for _, tc := range cases {
		seams := Seams{}
		if tc.resolve != nil {
			seams.Resolver = tc.resolve
		}
		r := s.rig(t, tc.target, seams)
		w := NewWatch(t, 1)
		c := NewCall(r.Target, w, "{}")
		do(t, r, w, c)
		switch e := c.Facts.Err; {
		case tc.kind == "" && e != nil:
			t.Errorf("%s: %v", tc.name, e)
		case tc.kind == "":
			ordered(t, "Ready DNSStart DNSEnd DialStart DialEnd", c.Facts.Ready, c.Facts.Conn.DNSStart, c.Facts.Conn.DNSEnd,
				c.Facts.Conn.DialStart, c.Facts.Conn.DialEnd)
		case e == nil:
			t.Errorf("%s: no error", tc.name)
		default:
			same(t, tc.name+": Type", e.Type, tc.kind)
			if !strings.Contains(e.Message, tc.text) {
				t.Errorf("%s: Message = %q, want %q in it", tc.name, e.Message, tc.text)
			}
			same(t, tc.name+": FirstWrite", c.Facts.FirstWrite, int64(0))
		}
	}
}

// slowDial puts known delays into the name lookup and the TCP dial of the second connection alone.
func slowDial(t *testing.T, s HTTPSetup, kind Kind) {
	srv := NewServer(t, kind, ok)
	_, port, _ := net.SplitHostPort(srv.Target.Addr)
	target := *srv.Target
	target.Addr = net.JoinHostPort("example.com", port)
	clock := fake.NewClock()
	const dns, dial = int64(30 * time.Millisecond), int64(20 * time.Millisecond)
	var mu sync.Mutex
	var lookups, dials int
	second := func(n *int) bool {
		mu.Lock()
		defer mu.Unlock()
		*n++
		return *n == 2
	}
	seams := Seams{Clock: clock,
		Resolver: staticResolver(func(ctx context.Context, _ string) ([]netip.Addr, error) {
			if second(&lookups) {
				_ = clock.Until(ctx, clock.Now()+dns)
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}),
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if second(&dials) {
				_ = clock.Until(ctx, clock.Now()+dial)
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}}
	r := s.rig(t, &target, seams)
	probe := wire.Probe{Path: "/health"}
	var facts []wire.ConnFacts
	for range 2 {
		f, err := r.Transport.Open(t.Context(), r.Target, 1, probe)
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, f...)
	}
	same(t, "the delayed lookup", facts[1].DNSEnd-facts[1].DNSStart >= dns, true)
	same(t, "the delayed dial", facts[1].DialEnd-facts[1].DialStart >= dial, true)
	// Both connections are used; the facts of the delayed one go with the request that it carries, and with no other.
	w := NewWatch(t, 2)
	for _, want := range facts {
		c := NewCall(r.Target, w, "{}")
		c.Conn = want.ID
		do(t, r, w, c)
		same(t, "Conn", c.Facts.Conn, want)
		same(t, "Cold", c.Facts.Cold, wire.Cold(0))
	}
}

func cancelDial(t *testing.T, s HTTPSetup, kind Kind) {
	srv := NewServer(t, kind, ok)
	begun, ended := make(chan struct{}, 4), make(chan error, 4)
	var hold sync.Once
	r := s.rig(t, srv.Target, Seams{Dial: func(ctx context.Context, network, addr string) (nc net.Conn, err error) {
		held := false
		hold.Do(func() { held = true })
		if !held {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, "{}")
	gen := r.Transport.Start(c)
	Wait(t, "the dial", begun)
	r.Transport.Cancel(c, gen, wire.ByUser)
	Wait(t, "Done", w.Ended)
	same(t, "Cause", c.Facts.Cause, wire.ByUser)
	same(t, "FirstWrite", c.Facts.FirstWrite, int64(0))
	if err := Wait(t, "the end of the dial", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the dial ended by %v", err)
	}
	do(t, r, w, c)
	same(t, "the next use", c.Facts.Err == nil, true)
}
