// Package fakellm is a server that behaves like vLLM 0.32's OpenAI front towards its clients, with exact and adjustable timing. Its log says
// of every request when its last byte arrived (by the kernel's stamp) and when each part of the answer was due and written: what a
// client's numbers are held against. It serves users as `prefire mock` and the tests of every other package.
//
// No model runs: the answer is a sequence of words that are one token each, so that a client that counts tokens finds as many as were sent.
package fakellm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"prefire/loadgen/wire"
)

// Defaults of Options.
const (
	DefaultMaxModelLen  = 131072
	DefaultKeepAlive    = 5 * time.Second // uvicorn's timeout_keep_alive, which vLLM keeps
	DefaultOutputTokens = 128
	// DefaultModel is the name listed where no model is named and every name is served.
	DefaultModel = "mock-model"
)

// Counter counts the tokens of a text. It is safe for concurrent use.
type Counter interface {
	Count(text []byte) int
}

// Options say how a server behaves. The zero value of a field means its default; Clock and Counter have none.
type Options struct {
	Clock   wire.Clock
	Counter Counter

	Models      []string // served names, the first of which answers carry; none: every name is served
	MaxModelLen int      // context length in tokens; 0 = DefaultMaxModelLen
	APIKey      string   // asked of everything under /v1; "" = open
	UsageExtra  int      // tokens of a chat template, added to the prompt's count
	NoTokenize  bool     // no /tokenize and /detokenize; nor are there any where Counter has no ids

	// The first token is due TTFT + PrefillPerToken for each token of the prompt after the request's last byte arrived, and that times
	// KneeFactor for a prompt of Knee tokens and more. Token k is due k times ITL later.
	TTFT            time.Duration
	PrefillPerToken time.Duration
	Knee            int     // 0 = none
	KneeFactor      float64 // 0 = 1
	ITL             time.Duration
	// Jitter spreads TTFT and each gap evenly over ±Jitter of its length. A prompt's draws depend on Seed and the prompt alone.
	Jitter float64
	Seed   uint64

	// Each answer stands still for Stall after StallAfter tokens, 1 at least; all further ones come so much later.
	Stall      time.Duration
	StallAfter int

	// OutputTokens is where an answer ends by itself (finish_reason stop), unless the request says ignore_eos. 0: an answer runs to the
	// limit that the request asks for, or to DefaultOutputTokens where it asks for none.
	OutputTokens   int
	TokensPerChunk int // 0 = 1

	Slots  int // inferences at once; 0 = no limit
	Refuse int // status of a request that finds no free slot: 429 or 503; 0 = it waits its turn

	ColdConnection time.Duration // the first request on a connection is held this long
	ColdTLS        time.Duration // each TLS handshake is held this long
	ColdInference  time.Duration // the first inference takes this much longer, and the others wait for it

	CloseAfter int           // a connection closes after so many answers; 0 = never
	KeepAlive  time.Duration // a used connection closes after so long without a request; 0 = DefaultKeepAlive, negative = never

	TLS        bool   // with a certificate made at start; HTTP/1.1
	H2         bool   // HTTP/2 beside HTTP/1.1, by ALPN; implies TLS
	H2C        bool   // HTTP/2 with prior knowledge beside HTTP/1.1, in the clear
	MaxStreams uint32 // streams at once that an HTTP/2 connection allows; 0 = 250

	// Faults are done to shares of the requests and connections, drawn by Seed; at most one to each. FaultHeader lets a request name its own
	// by FaultHeader.
	Faults      []Fault
	FaultHeader bool

	Log     io.Writer // one JSON line for each request, when it has ended; nil = none
	KeepLog bool      // keep the entries for Entries and Wait
}

// Server is one fake endpoint.
type Server struct {
	o      Options
	clock  wire.Clock
	words  []string
	alarm  *alarm
	pacers []*alarm // of streams that go past net/http
	load   load
	cold   coldStart
	stats  *stats
	log    *logbook
	http   *http.Server
	cert   *certificate
	faults *faults
	// Certificates of faults; nil where there are none.
	expired, stranger, unknown *certificate
	maxBody                    int64

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	front  *accepted // nil until Serve
	conns  int64
	closed bool
}

// New checks o and makes a server that does not listen yet. Close ends it, started or not.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	words, err := singleTokens(o.Counter)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, clock: o.Clock, words: words, alarm: newAlarm(o.Clock, 0), log: newLogbook(o.Log, o.KeepLog), maxBody: maxBody}
	s.load.init(o.Slots, o.Clock)
	s.stats = newStats(s.modelName(""), o.MaxModelLen, unixSeconds(o.Clock))
	if s.faults, err = newFaults(&s.o); err != nil {
		return nil, err
	}
	if err := s.makeCertificates(); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	// The server takes its TLS connections off before it hands them to net/http, so that h2 is h2c to net/http in both cases.
	protocols.SetUnencryptedHTTP2(o.H2 || o.H2C)
	s.http = &http.Server{
		Handler:     s.handler(),
		IdleTimeout: max(o.KeepAlive, 0),
		Protocols:   protocols,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: int(o.MaxStreams)},
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return s.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:   s.track,
	}
	s.pacers = newPacers(o.Clock)
	for _, a := range append(s.pacers, s.alarm) {
		s.wg.Go(func() { a.run(s.ctx) })
	}
	return s, nil
}

func (o *Options) complete() error {
	if o.Clock == nil || o.Counter == nil {
		return errors.New("fakellm: Options.Clock and Options.Counter must be set")
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"TTFT", o.TTFT}, {"time per prompt token", o.PrefillPerToken}, {"ITL", o.ITL}, {"stall", o.Stall}, {"delay of a new connection", o.ColdConnection},
		{"delay in the TLS handshake", o.ColdTLS}, {"delay of the first inference", o.ColdInference},
	} {
		if d.v < 0 {
			return fmt.Errorf("the %s is %v; it must be 0 or more", d.name, d.v)
		}
	}
	for _, n := range []struct {
		name string
		v    int
	}{
		{"context length", o.MaxModelLen}, {"knee", o.Knee}, {"number of output tokens", o.OutputTokens}, {"token of the stall", o.StallAfter}, {"number of slots", o.Slots},
		{"number of tokens a chunk", o.TokensPerChunk}, {"number of answers on a connection", o.CloseAfter}, {"extra tokens in usage", o.UsageExtra},
	} {
		if n.v < 0 {
			return fmt.Errorf("the %s is %d; it must be 0 or more", n.name, n.v)
		}
	}
	switch {
	case !(o.Jitter >= 0 && o.Jitter < 1):
		return fmt.Errorf("the jitter is %v; it must be a fraction from 0 to below 1", o.Jitter)
	case !(o.KneeFactor >= 0):
		return fmt.Errorf("the knee factor is %v; it must be 0 or more", o.KneeFactor)
	case o.Stall > 0 && o.StallAfter == 0:
		return errors.New("a stall comes after 1 token at least; what delays the first is TTFT")
	case o.Refuse != 0 && o.Refuse != http.StatusTooManyRequests && o.Refuse != http.StatusServiceUnavailable:
		return fmt.Errorf("the status of a refused request is %d; it must be 429 or 503", o.Refuse)
	case o.Refuse != 0 && o.Slots == 0:
		return errors.New("requests can be refused only where the number of slots is limited")
	case o.H2C && (o.TLS || o.H2):
		return errors.New("h2c is HTTP/2 in the clear; it cannot be had together with TLS")
	case o.ColdTLS > 0 && !o.TLS && !o.H2:
		return errors.New("a delay in the TLS handshake needs TLS")
	}
	o.TLS = o.TLS || o.H2
	o.Models = slices.Clone(o.Models)
	o.MaxModelLen = orDefault(o.MaxModelLen, DefaultMaxModelLen)
	o.KneeFactor = orDefault(o.KneeFactor, 1)
	o.TokensPerChunk = orDefault(o.TokensPerChunk, 1)
	o.KeepAlive = orDefault(o.KeepAlive, DefaultKeepAlive)
	o.MaxStreams = orDefault(o.MaxStreams, 250)
	return nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Start listens on address ("127.0.0.1:0" for any free port) and serves in the background until Close. ctx bounds the resolving of a name
// in address alone.
func (s *Server) Start(ctx context.Context, address string) error {
	l, err := (&net.ListenConfig{Control: stampEarly}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return s.Serve(l)
}

// Serve takes connections from l, in the background, until Close. It is called once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.front != nil {
		return errors.Join(errors.New("fakellm: the server has been started or closed before"), l.Close())
	}
	s.front = newAccepted(s.ctx, l)
	s.wg.Go(func() { s.acceptLoop(s.front) })
	s.wg.Go(func() { _ = s.http.Serve(s.front) }) // it ends by Close alone
	return nil
}

// URL is the address to give to a client, without a path. It is "" before Start.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.front == nil {
		return ""
	}
	scheme := "http://"
	if s.o.TLS {
		scheme = "https://"
	}
	a := s.front.Addr()
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return scheme + net.JoinHostPort("localhost", strconv.Itoa(t.Port))
	}
	return scheme + a.String()
}

// CertPEM is the server's certificate, nil without TLS.
func (s *Server) CertPEM() []byte {
	if s.cert == nil {
		return nil
	}
	return s.cert.pem
}

// CertPool holds the server's certificate alone: what a client must trust. It is nil without TLS.
func (s *Server) CertPool() *x509.CertPool {
	if s.cert == nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.cert.leaf)
	return pool
}

// InFlight is the number of inferences that the server has accepted and not yet finished. A request is no longer in flight before the
// last byte of its answer is written.
func (s *Server) InFlight() int { return s.load.current() }

// MaxInFlight is the greatest number in flight so far.
func (s *Server) MaxInFlight() int { return s.load.peak() }

// WaitInFlight blocks until n inferences have been in flight at once, or until ctx is done and returns its error.
func (s *Server) WaitInFlight(ctx context.Context, n int) error { return s.load.reach(ctx, n) }

// Connections is the number of connections accepted so far.
func (s *Server) Connections() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Entries are the log's entries so far, in the order in which the requests ended. There are none without Options.KeepLog.
func (s *Server) Entries() []Entry { return s.log.entries() }

// Wait waits until n requests have ended and been logged, or ctx is done, and returns the entries so far. It needs Options.KeepLog.
func (s *Server) Wait(ctx context.Context, n int) ([]Entry, error) { return s.log.wait(ctx, n) }

// Close ends the listener, all connections and all requests, and returns when nothing of the server runs any more. It returns the first
// error of writing the log.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	_ = s.http.Close() // what cannot be closed cleanly is closed all the same
	s.wg.Wait()
	return s.log.failure()
}

// modelName is the name that an answer carries. vLLM answers with the first served name whichever was asked for.
func (s *Server) modelName(asked string) string {
	switch {
	case len(s.o.Models) > 0:
		return s.o.Models[0]
	case asked != "":
		return asked
	}
	return DefaultModel
}

func (s *Server) tlsConfig(cert *certificate) *tls.Config {
	protocols := []string{"http/1.1"}
	if s.o.H2 {
		protocols = []string{"h2", "http/1.1"}
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert.chain}, NextProtos: protocols}
	if s.o.ColdTLS > 0 {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			return nil, s.alarm.wait(h.Context(), s.clock.Now()+int64(s.o.ColdTLS))
		}
	}
	return c
}

func unixSeconds(c wire.Clock) float64 { return float64(c.Wall(c.Now()).UnixMicro()) / 1e6 }
