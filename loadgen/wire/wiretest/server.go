package wiretest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"prefire/loadgen/wire"
)

// Kind is how a Server is spoken to.
type Kind string

// The kinds of Server.
const (
	H1    Kind = "HTTP/1.1"
	H1TLS Kind = "HTTP/1.1 over TLS"
	H2    Kind = "HTTP/2 over TLS"
	H2C   Kind = "HTTP/2 in the clear"
)

// Kinds are all kinds.
func Kinds() []Kind { return []Kind{H1, H1TLS, H2, H2C} }

// TLS says that the kind is over TLS.
func (k Kind) TLS() bool { return k == H1TLS || k == H2 }

// Multiplexed says that requests share a connection.
func (k Kind) Multiplexed() bool { return k == H2 || k == H2C }

// Seen is a request as the Server saw it.
type Seen struct {
	Conn   int // number of the connection, from 0
	Use    int // which request on it, from 1
	Probe  bool
	Header http.Header
	Host   string
	Proto  string
	Body   string
}

// Server plays Replies over HTTP.
type Server struct {
	Kind   Kind
	Target *wire.Target

	http  *httptest.Server
	reply func(n int, body string) Reply

	mu    sync.Mutex
	seen  []Seen
	conns int
	n     int
	last  int // answers after which a connection is closed; 0 = none
	open  map[net.Conn]bool
}

type connKey struct{}

type connState struct{ n, uses int }

// NewServer starts a Server. Probes (GET) are answered with 200; requests by reply.
func NewServer(t *testing.T, kind Kind, reply func(n int, body string) Reply) *Server {
	s := &Server{Kind: kind, reply: reply, open: map[net.Conn]bool{}}
	s.http = httptest.NewUnstartedServer(s)
	s.http.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns++
		return context.WithValue(ctx, connKey{}, &connState{n: s.conns - 1})
	}
	s.http.Config.ConnState = func(c net.Conn, st http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[c] = st != http.StateClosed && st != http.StateHijacked
	}
	p := new(http.Protocols)
	p.SetHTTP1(!kind.Multiplexed())
	p.SetHTTP2(kind == H2)
	p.SetUnencryptedHTTP2(kind == H2C)
	s.http.Config.Protocols = p
	s.http.EnableHTTP2 = kind == H2
	if kind.TLS() {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	t.Cleanup(s.http.Close)
	addr := s.http.Listener.Addr().String()
	s.Target = &wire.Target{Scheme: "http", Host: addr, Addr: addr, Path: "/v1/chat/completions",
		Header: []wire.Field{{Name: "User-Agent", Value: "prefire-test"}}}
	if kind == H2C {
		s.Target.Protocol = wire.H2C
	}
	if kind.TLS() {
		pool := x509.NewCertPool()
		pool.AddCert(s.http.Certificate())
		s.Target.Scheme, s.Target.TLS = "https", &tls.Config{RootCAs: pool}
	}
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	st := r.Context().Value(connKey{}).(*connState)
	st.uses++
	probe := r.Method == http.MethodGet
	s.seen = append(s.seen, Seen{st.n, st.uses, probe, r.Header, r.Host, r.Proto, string(body)})
	if s.last > 0 && st.uses%s.last == 0 {
		w.Header().Set("Connection", "close")
	}
	n := s.n
	if !probe {
		s.n++
	}
	s.mu.Unlock()
	if probe {
		io.WriteString(w, strings.Repeat("healthy ", 100))
		return
	}
	rep := s.reply(n, string(body))
	if rep.NoHead {
		panic(http.ErrAbortHandler)
	}
	if rep.ContentType == "" {
		rep.ContentType = "text/event-stream"
	}
	w.Header().Set("Content-Type", rep.ContentType)
	if rep.Status != 0 {
		w.WriteHeader(rep.Status)
	}
	flush := w.(http.Flusher).Flush
	for _, part := range rep.Parts {
		io.WriteString(w, part)
		flush()
	}
	if rep.Hang {
		flush()
		<-r.Context().Done()
	}
	if rep.Cut {
		panic(http.ErrAbortHandler)
	}
}

// Seen is what came so far, in order of arrival.
func (s *Server) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Seen(nil), s.seen...)
}

// Conns is how many connections there were.
func (s *Server) Conns() int { s.mu.Lock(); defer s.mu.Unlock(); return s.conns }

// CloseAfter has each connection closed after n answers, probes counted.
func (s *Server) CloseAfter(n int) { s.mu.Lock(); defer s.mu.Unlock(); s.last = n }

// CloseIdle closes all connections that are open now, which the caller knows to be idle.
func (s *Server) CloseIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, open := range s.open {
		if open {
			c.Close()
		}
	}
}
