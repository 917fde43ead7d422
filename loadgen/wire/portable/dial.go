package portable

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/h2"
	"prefire/loadgen/wire/http1"
	"prefire/loadgen/wire/pooling"
	"prefire/loadgen/wire/stamp"
)

// connect makes a connection for p that requests can be sent on. On an error it returns a conn without a source, for its facts.
func (t *Transport) connect(ctx context.Context, p *pool) (*conn, *wire.Error) {
	target, now := p.target, t.o.Clock.Now
	c := &conn{t: t, target: target}
	t.mu.Lock()
	t.nextID++
	c.facts.ID = t.nextID
	t.mu.Unlock()
	f := &c.facts
	host, port, err := net.SplitHostPort(target.Addr)
	if err != nil {
		return c, &wire.Error{Type: "InvalidURL", Message: err.Error()}
	}
	nc, at, e := t.dial(ctx, target, host, port, f)
	if e != nil {
		return c, e
	}
	raw := stamp.New(nc, t.o.Clock)
	f.Local, f.Remote, f.Protocol = raw.LocalAddr().String(), raw.RemoteAddr().String(), "HTTP/1.1"
	f.KernelStamps = raw.KernelStamps()
	var src stamp.Source = raw
	multiplex := target.Protocol == wire.H2C
	if target.Scheme == "https" {
		cfg := clientTLS(target, host)
		s := stamp.Client(raw, cfg)
		f.TLSStart = now()
		err := s.HandshakeContext(ctx)
		f.TLSEnd = now()
		if err != nil {
			raw.Abort()
			if target.Protocol == wire.HTTP2 && strings.HasSuffix(err.Error(), "tls: no application protocol") { // the alert of a server that offers other ones
				return c, noHTTP2(host, port)
			}
			return c, tlsError(host, port, err)
		}
		state := s.ConnectionState()
		f.TLSVersion, f.TLSCipher = tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)
		multiplex = state.NegotiatedProtocol == "h2"
		if !multiplex && target.Protocol == wire.HTTP2 {
			raw.Abort()
			return c, noHTTP2(host, port)
		}
		src = s
	}
	c.src = src
	if multiplex {
		f.Protocol = "HTTP/2"
		closed := false
		c.mux, err = h2.New(ctx, src, h2.Options{
			Clock: t.o.Clock, Target: target,
			Down: func(m *h2.Conn, _ error) { p.down(m) },
			Room: func(*h2.Conn) { t.room(p) },
			Closed: func(m *h2.Conn) {
				t.mu.Lock()
				defer t.mu.Unlock()
				closed = true
				delete(t.muxes, m)
			},
		})
		if err != nil {
			c.src, c.mux = nil, nil
			return c, http1.ConnectError(host, port, at, err)
		}
		f.Settings = c.mux.Settings()
		t.mu.Lock()
		if !closed {
			t.muxes[c.mux] = struct{}{}
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dialled++
	if !f.KernelStamps {
		t.plain++
	}
	return c, nil
}

func noHTTP2(host, port string) *wire.Error {
	return &wire.Error{Type: "ClientConnectorError", Message: fmt.Sprintf("Cannot connect to host %s:%s "+
		"[the server does not offer HTTP/2 (ALPN h2); use --http auto or --http 1.1]", host, port)}
}

// dial makes the connection itself; at is the address that it, or the error, is of.
func (t *Transport) dial(ctx context.Context, target *wire.Target, host, port string, f *wire.ConnFacts) (nc net.Conn, at netip.Addr, e *wire.Error) {
	now := t.o.Clock.Now
	var err error
	if target.Unix != "" {
		f.DialStart = now()
		nc, err = t.o.Dial(ctx, "unix", target.Unix)
		if f.DialEnd = now(); err != nil {
			return nil, at, http1.UnixError(target.Unix, err)
		}
		return nc, at, nil
	}
	addrs := target.Addrs
	if len(addrs) == 0 {
		if addrs, e = t.lookup(ctx, host, port, f); e != nil {
			return nil, at, e
		}
	}
	dial := t.o.Dial
	if target.Dial != nil {
		dial = target.Dial
	}
	f.DialStart = now()
	nc, at, err = pooling.DialAny(ctx, dial, addrs, port)
	if f.DialEnd = now(); err != nil {
		return nil, at, http1.ConnectError(host, port, at, err)
	}
	return nc, at, nil
}

// room is told that p's target allows more streams on a connection.
func (t *Transport) room(p *pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		p.serve()
	}
}

// lookup gives the addresses of host, in the resolver's order.
func (t *Transport) lookup(ctx context.Context, host, port string, f *wire.ConnFacts) ([]netip.Addr, *wire.Error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	f.DNSStart = t.o.Clock.Now()
	addrs, e := pooling.Lookup(ctx, t.o.Resolver, host, port)
	f.DNSEnd = t.o.Clock.Now()
	return addrs, e
}

// clientTLS is the target's TLS configuration with the name of the server and the protocols to offer filled in.
func clientTLS(target *wire.Target, host string) *tls.Config {
	cfg := &tls.Config{}
	if target.TLS != nil {
		cfg = target.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	switch target.Protocol {
	case wire.HTTP1:
		cfg.NextProtos = []string{"http/1.1"}
	case wire.HTTP2:
		cfg.NextProtos = []string{"h2"}
	default:
		cfg.NextProtos = []string{"h2", "http/1.1"}
	}
	return cfg
}
