package fakellm

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/stamp"
)

// connKey is the context key under which a request finds its connection.
type connKey struct{}

// conn is one connection as net/http sees it: its bytes are plain, over TLS too. It notes when what it reads arrived.
type conn struct {
	net.Conn // stamped, or TLS over stamped
	stamped  *stamp.Conn
	s        *Server
	id       int64
	ctx      context.Context
	cancel   context.CancelFunc
	uses     atomic.Int64
	opened   bool // the first bytes have come; the reader's
	gone     sync.Once
	fault    *Fault            // nil = none
	slow     int               // bytes read a millisecond, as a fault; 0 = as they come
	cert     *certificate      // shown in the handshake
	edit     func(*tls.Config) // of a fault; nil = none
	direct   *sender           // writes without net/http's ways; nil = it cannot be written to so
	writing  sync.Mutex        // one write at a time: net/http's, or frames that a fault inserts
	waiting  []byte            // frames to be inserted when the current one has ended; guarded by writing

	mu        sync.Mutex
	last      wire.Stamp
	heldUntil int64
	h2        streamEnds
	out       sentData
	held      bool // the kernel held back some of the last write
}

// Read holds the first bytes of the connection back as Options.ColdConnection says.
func (c *conn) Read(p []byte) (int, error) {
	if c.slow > 0 {
		p = p[:min(len(p), c.slow)]
		if err := c.s.alarm.wait(c.ctx, c.s.clock.Now()+int64(time.Millisecond)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	st := c.stamped.Last()
	if !c.opened {
		c.opened = true
		if d := c.s.o.ColdConnection; d > 0 {
			until := st.At + int64(d)
			if werr := c.s.alarm.wait(c.ctx, until); werr != nil {
				return 0, werr
			}
			c.mu.Lock()
			c.heldUntil = until
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	c.last = st
	c.h2.feed(p[:n], st)
	c.mu.Unlock()
	return n, err
}

func (c *conn) Close() error {
	c.cancel()
	return c.Conn.Close()
}

// arrival is when a request's last byte arrived. It is asked for when the whole request has been read. On HTTP/2, where other streams may
// have read on meanwhile, the stream's own end is found by its X-Request-ID, and what is written on the stream is followed until done;
// without one the time is an upper bound, late says so, and stream is 0.
func (c *conn) arrival(r *http.Request) (at wire.Stamp, heldUntil int64, stream uint32, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.ProtoMajor < 2 {
		return c.last, c.heldUntil, 0, false
	}
	if e, ok := c.h2.take(r.Header.Get("X-Request-ID")); ok {
		c.out.follow(e.stream)
		return e.at, c.heldUntil, e.stream, false
	}
	return c.last, c.heldUntil, 0, true
}

// done ends the following of a stream.
func (c *conn) done(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.drop(stream)
}

// accepted is the listener that net/http serves: it gives out connections when they are ready, TLS handshake included.
type accepted struct {
	net.Listener
	ctx   context.Context
	ready chan net.Conn
}

func newAccepted(ctx context.Context, l net.Listener) *accepted {
	return &accepted{Listener: l, ctx: ctx, ready: make(chan net.Conn)}
}

func (a *accepted) Accept() (net.Conn, error) {
	select {
	case c := <-a.ready:
		return c, nil
	case <-a.ctx.Done():
		return nil, net.ErrClosed
	}
}

// acceptRetry is the pause after a failed accept, which running out of descriptors brings.
const acceptRetry = 5 * time.Millisecond

func (s *Server) acceptLoop(a *accepted) {
	for {
		nc, err := a.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || s.alarm.wait(s.ctx, s.clock.Now()+int64(acceptRetry)) != nil {
				return
			}
			continue
		}
		s.mu.Lock()
		s.conns++
		id := s.conns
		s.mu.Unlock()
		s.wg.Go(func() { s.greet(a, nc, id) })
	}
}

// greet brings a connection to where requests can be read from it.
func (s *Server) greet(a *accepted, nc net.Conn, id int64) {
	c := &conn{stamped: stamp.New(nc, s.clock), s: s, id: id}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.Conn, c.cert = c.stamped, s.cert
	if !s.o.TLS {
		c.direct = newSender(nc)
	}
	if f := s.faults.connection(id); f != nil {
		s.log.add(&Entry{Remote: nc.RemoteAddr().String(), Connection: id, ArrivedNS: s.wall(s.clock.Now()), Fault: f.spec, Ended: EndedFault})
		if c.fault = f; !f.kind.conn(c) {
			c.cancel()
			return
		}
	}
	if s.o.TLS {
		cfg := s.tlsConfig(c.cert)
		if c.edit != nil {
			c.edit(cfg)
		}
		t := tls.Server(c.stamped, cfg)
		c.Conn = t
		if err := t.HandshakeContext(c.ctx); err != nil {
			_ = c.Close() // the client learns of it by the handshake's alert
			return
		}
	}
	select {
	case a.ready <- c:
	case <-s.ctx.Done():
		_ = c.Close() // nobody is left to be told
	}
}

// track makes Close wait for net/http's goroutine of a connection.
func (s *Server) track(nc net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.wg.Add(1)
	case http.StateClosed, http.StateHijacked:
		if c, ok := nc.(*conn); ok {
			c.gone.Do(s.wg.Done)
		}
	}
}
