package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"prefire/internal/fakellm"
	"prefire/loadgen/wire"
)

// linkCase is what must come of requests whose way to the server is at fault. Each has a server and a client of its own.
type linkCase struct {
	faultCase        // fault is its name
	conn      string // of the server's connections
	server    fakellm.Options
	client    faultClient
}

// answersTo is a resolver that answers any name alike.
type answersTo func(ctx context.Context) ([]netip.Addr, error)

func (f answersTo) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) { return f(ctx) }

// unknown is a resolver that fails, as the system's does.
func unknown(e net.DNSError) answersTo {
	e.Name = "llm.test"
	return func(context.Context) ([]netip.Addr, error) { return nil, &e }
}

// named has the server asked by a name.
func named(w *wire.Target) {
	_, port, _ := net.SplitHostPort(w.Addr)
	w.Host, w.Addr = "llm.test:"+port, "llm.test:"+port
	if w.TLS != nil {
		w.TLS.ServerName = "localhost"
	}
}

// refusing is a dial that the system refuses.
func refusing(errno syscall.Errno) faultClient {
	return faultClient{dial: func(_ context.Context, network, _ string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", errno)}
	}}
}

func linkCases() []linkCase {
	const (
		lost      = "ServerDisconnectedError|ClientOSError|ClientConnectorError" // the last where the dial itself sees it
		lostWords = "Server disconnected|connection reset by peer|broken pipe"
		refused   = "ClientConnectorError"
		handshake = "ClientConnectorSSLError"
		cert      = "ClientConnectorCertificateError"
		name      = "ClientConnectorDNSError"
		late      = "TimeoutError"
	)
	clear, overTLS, shared := []way{viaReactor, viaPortable}, []way{viaTLS, viaH2}, []way{viaH2, viaH2C}
	all := []way{viaReactor, viaPortable, viaTLS, viaH2, viaH2C}
	brief := faultRun{timeout: patience, requests: 1}
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	of := func(fault string, ways []way, run faultRun, kind, words string) faultCase {
		return faultCase{fault: fault, ways: ways, run: run, kind: kind, words: words}
	}
	named := faultRun{aim: named}
	briefly := brief
	briefly.aim = named.aim
	local := netip.MustParseAddr("127.0.0.1")
	return []linkCase{
		// What comes of a connection.
		{faultCase: of("closed at once", clear, faultRun{}, lost, lostWords), conn: "conn-close"},
		{faultCase: of("closed at once", overTLS, faultRun{}, handshake+"|"+refused, "TLS handshake failed|connection reset by peer"), conn: "conn-close"},
		{faultCase: of("closed at once", []way{viaH2C}, faultRun{}, refused+"|", "Connect call failed"), conn: "conn-close"},
		{faultCase: of("reset at once", clear, faultRun{}, lost, lostWords), conn: "conn-reset"},
		{faultCase: of("reset at once", overTLS, faultRun{}, handshake+"|"+refused, "TLS handshake failed|connection reset by peer"), conn: "conn-reset"},
		{faultCase: of("accepted, and never read", all, brief, late, late), conn: "conn-hang"}, // 49
		{faultCase: of("accepted, and a body of 8 MB never read", clear, faultRun{timeout: patience, requests: 1, prompt: 8_000_000}, late, late), conn: "conn-hang"},
		{faultCase: of("refused", all, faultRun{}, refused, "connection refused"), conn: "conn-refuse"}, // 45
		{faultCase: of("no answer to the dial", all, brief, late, late), client: faultClient{dial: hang}},
		{faultCase: of("no way", clear, faultRun{}, refused, "network is unreachable"), client: refusing(syscall.ENETUNREACH)},
		{faultCase: of("ports used up", []way{viaReactor, viaPortable, viaH2}, faultRun{}, refused, "the ports of this machine for connections to that address are used up"), client: refusing(syscall.EADDRNOTAVAIL)}, // 64
		{faultCase: of("files used up", []way{viaReactor, viaPortable, viaH2}, faultRun{}, refused, "raise the limit (ulimit -n)"), client: refusing(syscall.EMFILE)},                                                  // 65
		{faultCase: faultCase{fault: "read slowly", ways: all, run: faultRun{prompt: 200_000}, text: "other"}, conn: "slow-reader=8192"},
		{faultCase: faultCase{fault: "small writes held", ways: clear, text: "other"}, conn: "conn-nagle"}, // 67
		{faultCase: faultCase{fault: "one answer a connection", ways: clear, text: "other", cold: "dialled"}, server: fakellm.Options{CloseAfter: 1}},
		{faultCase: faultCase{fault: "one stream a connection", ways: shared, run: faultRun{sessions: 4, requests: 12}, text: "other", cold: "any"}, server: fakellm.Options{MaxStreams: 1}},
		// Names.
		{faultCase: of("unknown name", all, named, name, "llm.test does not resolve: no such host"), client: faultClient{resolver: unknown(net.DNSError{Err: "no such host", IsNotFound: true})}},
		{faultCase: of("resolver fails", clear, named, name, "server misbehaving"), client: faultClient{resolver: unknown(net.DNSError{Err: "server misbehaving", IsTemporary: true})}},
		{faultCase: of("name without addresses", clear, named, name, "no addresses"), client: faultClient{resolver: answersTo(func(context.Context) ([]netip.Addr, error) { return nil, nil })}},
		{faultCase: of("no answer from the resolver", []way{viaReactor, viaPortable, viaH2}, briefly, late, late),
			client: faultClient{resolver: answersTo(func(ctx context.Context) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() })}},
		{faultCase: faultCase{fault: "the first address is dead", ways: all, run: named, text: "other"},
			client: faultClient{resolver: answersTo(func(context.Context) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("127.7.7.7"), local}, nil
			})}},
		// TLS and versions.
		{faultCase: of("no TLS on the port", overTLS, faultRun{}, handshake, "the server does not speak TLS on this port"), conn: "tls-plain"},
		{faultCase: of("handshake cut", overTLS, faultRun{}, handshake+"|", "TLS handshake failed"), conn: "tls-cut"},
		{faultCase: of("TLS 1.1", overTLS, faultRun{}, handshake, "protocol version not supported"), conn: "tls-old"},
		{faultCase: of("expired", overTLS, faultRun{}, cert, "certificate has expired"), conn: "tls-expired"},
		{faultCase: of("another host's", overTLS, faultRun{}, cert, "certificate is not trusted"), conn: "tls-name"},
		{faultCase: of("unknown issuer", overTLS, faultRun{}, cert, "certificate is not trusted"), conn: "tls-unknown"}, // 71
		{faultCase: of("a client's certificate is asked for", overTLS, faultRun{}, "ClientOSError|ClientConnectorError", "certificate required"), conn: "tls-client-cert"},
		{faultCase: of("https to http", []way{viaPortable}, faultRun{aim: func(w *wire.Target) { w.Scheme, w.TLS = "https", &tls.Config{} }}, handshake, "does not speak TLS on this port")},
		{faultCase: of("HTTP/2 not offered", []way{viaTLS}, faultRun{aim: func(w *wire.Target) { w.Protocol = wire.HTTP2 }}, "ClientConnectorError", "the server does not offer HTTP/2 (ALPN h2); use --http auto")},
		{faultCase: of("h2c to HTTP/1.1", []way{viaPortable}, faultRun{aim: func(w *wire.Target) { w.Protocol = wire.H2C }}, "ClientConnectorError", "the server answered in HTTP/1.1 to HTTP/2")},
		{faultCase: of("a header of two lines", all, faultRun{aim: func(w *wire.Target) { w.Header = append(w.Header, wire.Field{Name: "X-A", Value: "a\r\nX-B: c"}) }},
			"ValueError|ClientConnectorError", "X-A")},
	}
}

// A way to the server that is at fault has the outcome that a right client gives it: what failed says where and why, and what is only slow or odd is
// answered.
func TestFaultsOfTheWayHaveTheirOutcomes(t *testing.T) {
	n, kinds := 0, map[string]bool{}
	for _, c := range linkCases() {
		kinds[c.fault] = true
		for _, w := range c.ways {
			n++
			t.Run(string(w)+"/"+c.fault, func(t *testing.T) { c.check(t, w) })
		}
	}
	if *faultReport {
		t.Logf("%d cases of %d kinds", n, len(kinds))
	}
}

func (c linkCase) check(t *testing.T, w way) {
	if c.conn != "" {
		f, err := fakellm.ParseFault(c.conn)
		if err != nil {
			t.Fatal(err)
		}
		c.server.Faults = append(c.server.Faults, f)
	}
	s := newFaultServer(t, w, c.server, c.client)
	if c.conn == "conn-refuse" {
		s.refuse(t)
	}
	o := c.run
	if o.requests == 0 {
		o.requests = 2
	}
	e := s.run(t, o)
	if *faultReport {
		t.Logf("%+v %v", e.acc.Counts(), e.records[0].Err)
	}
	if c.kind == "" {
		c.answers(t, s, e, []string{""})
		return
	}
	c.fails(t, e)
	for i := range e.records {
		if r := &e.records[i]; c.run.prompt > 0 && r.HTTP.Sent >= int64(c.run.prompt) {
			t.Errorf("request %d: %d bytes were sent to a server that reads nothing", i, r.HTTP.Sent)
		}
	}
}

// refuse makes the first connection, after which the port is closed.
func (s *faultServer) refuse(t *testing.T) {
	t.Helper()
	addr := strings.TrimPrefix(strings.TrimPrefix(s.URL(), "https://"), "http://")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return // it was reset so soon
	}
	defer c.Close()
	if _, err := io.Copy(io.Discard, c); err == nil {
		t.Error("the first connection was closed and not reset")
	}
}

// Each fault of a connection that the mock knows is a case.
func TestEveryFaultOfAConnectionIsACase(t *testing.T) {
	cases := linkCases()
	for line := range strings.Lines(fakellm.Faults()) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		isConn := strings.HasPrefix(name, "conn-") || strings.HasPrefix(name, "tls-") || name == "slow-reader"
		if isConn && !strings.Contains(name, " ") && !slices.ContainsFunc(cases, func(c linkCase) bool { return strings.HasPrefix(c.conn, name) }) {
			t.Errorf("%s has no case", name)
		}
	}
}
