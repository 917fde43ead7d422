// Package scrape reads the /metrics of the servers under load while a run goes on: on connections of its own, in goroutines of its own, never
// more than one reading of a server at a time, and with nothing of it on the load's way.
package scrape

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"prefire/internal/servermetrics"
	"prefire/loadgen/wire"
)

const (
	// Interval is the time between readings, and between the end of a run and the last one, for what a server counts late.
	Interval = 333 * time.Millisecond

	reachable = 10 * time.Second // for the first reading of a server
	within    = 5 * time.Second  // for each further one
	edge      = time.Second      // what a phase's begin waits for its reading at most
	maxBody   = 16 << 20
)

// Options say what is read.
type Options struct {
	Clock wire.Clock
	URLs  []string // of the metrics
	TLS   *tls.Config
	Agent string // User-Agent
	// Say is told, once for each server, that it is not read.
	Say  func(string)
	Over http.RoundTripper // nil = the network
}

// Scraper reads servers from Start to Finish.
type Scraper struct {
	o     Options
	list  []*endpoint
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// New makes a scraper that reads nothing yet.
func New(o Options) *Scraper {
	s := &Scraper{o: o}
	for _, address := range o.URLs {
		e := &endpoint{o: &s.o, url: address, book: servermetrics.NewBook(Shown(address)), asks: make(chan ask, 64), seed: maphash.MakeSeed()}
		e.client.Transport = o.Over
		if o.Over == nil {
			e.client.Transport = &http.Transport{TLSClientConfig: o.TLS, DisableCompression: true, MaxConnsPerHost: 1}
		}
		e.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		s.list = append(s.list, e)
	}
	return s
}

// Start begins to read; ctx ends it.
func (s *Scraper) Start(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	for _, e := range s.list {
		ticks := make(chan struct{}, 1)
		s.tasks.Go(func() { e.run(ctx, ticks) })
		s.tasks.Go(func() {
			for at := s.o.Clock.Now() + int64(Interval); s.o.Clock.Until(ctx, at) == nil; at += int64(Interval) {
				select {
				case ticks <- struct{}{}:
				default: // the reading before is still under way
				}
				at = max(at, s.o.Clock.Now()-int64(Interval)) // after a standstill, no burst
			}
		})
	}
}

// Begin reads every server right before a phase, and returns when that is done, or a second later at the latest.
func (s *Scraper) Begin(ctx context.Context, phase int) {
	s.wait(ctx, edge, ask{phase: phase, kind: begins})
}

// End has every server read right after a phase. It does not wait for that.
func (s *Scraper) End(phase int) {
	for _, e := range s.list {
		e.post(ask{phase: phase, kind: ends})
	}
}

// Finish makes the last reading, an interval after at, and ends the scraper. It may be called once, started or not.
func (s *Scraper) Finish(ctx context.Context, at int64) {
	if s.stop == nil {
		return
	}
	if s.any() && s.o.Clock.Until(ctx, at+int64(Interval)) == nil {
		s.wait(ctx, within, ask{kind: last})
	}
	s.stop()
	s.tasks.Wait()
	for _, e := range s.list {
		e.client.CloseIdleConnections()
	}
}

func (s *Scraper) any() bool {
	for _, e := range s.list {
		if ok, _ := e.state(); ok {
			return true
		}
	}
	return false
}

func (s *Scraper) wait(ctx context.Context, limit time.Duration, a ask) {
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{}, len(s.list))
	a.done = done
	asked := 0
	for _, e := range s.list {
		if e.post(a) {
			asked++
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = s.o.Clock.Until(bound, s.o.Clock.Now()+int64(limit))
	}()
	for range asked {
		select {
		case <-done:
		case <-over:
			return
		}
	}
}

// Outcome is how a server was read.
type Outcome struct {
	URL    string // without what may be a key
	Book   *servermetrics.Book
	Read   bool // at least once
	Failed int  // readings that failed after that
	Why    string
}

// Outcomes are those of all servers, in their order.
func (s *Scraper) Outcomes() []Outcome {
	out := make([]Outcome, len(s.list))
	for i, e := range s.list {
		e.mu.Lock()
		out[i] = Outcome{URL: e.book.URL(), Book: e.book, Read: e.read, Failed: e.failed, Why: e.why}
		e.mu.Unlock()
	}
	return out
}

// Shown is an address without its query and its user, where keys may stand.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

type kind uint8

const (
	begins kind = iota
	ends
	last
)

// ask is one reading that is wanted.
type ask struct {
	phase int
	kind  kind
	done  chan<- struct{} // nil = nobody waits; has room
}

// endpoint is one server. Its goroutine alone reads.
type endpoint struct {
	o      *Options
	url    string
	book   *servermetrics.Book
	client http.Client
	asks   chan ask
	seed   maphash.Seed
	before uint64 // hash of the last reading

	mu     sync.Mutex
	read   bool
	off    bool
	failed int
	why    string // of the last failure
}

func (e *endpoint) state() (read, off bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.read, e.off
}

// post asks for a reading; false where the server is not read.
func (e *endpoint) post(a ask) bool {
	if _, off := e.state(); off {
		return false
	}
	select {
	case e.asks <- a:
		return true
	default: // more phases than can be asked for while one reading hangs
		return false
	}
}

func (e *endpoint) run(ctx context.Context, ticks <-chan struct{}) {
	e.first(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-e.asks:
			e.answer(ctx, a)
		case <-ticks:
			if _, off := e.state(); !off {
				e.reading(ctx, within, servermetrics.Tick)
			}
		}
	}
}

func (e *endpoint) answer(ctx context.Context, a ask) {
	if _, off := e.state(); !off {
		role := servermetrics.Edge
		if a.kind == last {
			role = servermetrics.Late
		}
		e.reading(ctx, within, role)
	}
	switch a.kind {
	case begins:
		e.book.Begin(a.phase)
	case ends:
		e.book.End(a.phase)
	}
	if a.done != nil {
		a.done <- struct{}{}
	}
}

// first finds out whether the server can be read. TensorRT-LLM has its metrics one step further down where /metrics is something else.
func (e *endpoint) first(ctx context.Context) {
	err := e.reading(ctx, reachable, servermetrics.Edge)
	if u, bad := url.Parse(e.url); bad == nil && errors.Is(err, errForeign) {
		base, ok := strings.CutSuffix(u.Path, "/metrics")
		if u.Path = base + "/prometheus/metrics"; ok && !strings.HasSuffix(base, "/prometheus") {
			own := e.url
			e.url = u.String()
			if e.reading(ctx, reachable, servermetrics.Edge) == nil {
				return
			}
			e.url = own
		}
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	e.off, e.why, e.failed = true, err.Error(), 0
	e.mu.Unlock()
	e.o.Say(fmt.Sprintf("server metrics: %s: %v: none are collected from it; --no-server-metrics asks for none", e.book.URL(), err))
}

// errForeign is that of an answer that is no text of metrics.
var errForeign = errors.New("the answer is no Prometheus text")

// reading makes one reading and puts it into the book.
func (e *endpoint) reading(ctx context.Context, limit time.Duration, role servermetrics.Role) error {
	at, took, body, err := e.fetch(ctx, limit)
	var list []servermetrics.Sample
	if err == nil {
		if list, err = servermetrics.Parse(body); err != nil {
			err = fmt.Errorf("%w: %w", errForeign, err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			e.failed++
			e.why = err.Error()
		}
		return err
	}
	if len(list) == 0 {
		return errors.New("it has no metrics")
	}
	e.read = true
	hash := maphash.Bytes(e.seed, body)
	e.book.Add(at, took, list, hash == e.before, role)
	e.before = hash
	return nil
}

// fetch gets the text; at is when its first byte came.
func (e *endpoint) fetch(ctx context.Context, limit time.Duration) (at, took int64, body []byte, err error) {
	bound, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var came atomic.Int64 // told on the connection's goroutine
	bound = httptrace.WithClientTrace(bound, &httptrace.ClientTrace{GotFirstResponseByte: func() { came.Store(e.o.Clock.Now()) }})
	req, err := http.NewRequestWithContext(bound, http.MethodGet, e.url, nil)
	if err != nil {
		return 0, 0, nil, errors.New("the address is none")
	}
	req.Header.Set("Accept", "text/plain; version=0.0.4")
	req.Header.Set("User-Agent", e.o.Agent)
	began := e.o.Clock.Now()
	resp, err := e.client.Do(req)
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
		_ = resp.Body.Close()
	}
	if at = came.Load(); at == 0 { // a RoundTripper that does not tell
		at = e.o.Clock.Now()
	}
	took = e.o.Clock.Now() - began
	var inside *url.Error
	switch {
	case err != nil && bound.Err() != nil && ctx.Err() == nil:
		return at, took, nil, fmt.Errorf("no answer within %v", limit)
	case errors.As(err, &inside):
		return at, took, nil, inside.Err
	case err != nil:
		return at, took, nil, err
	case resp.StatusCode != http.StatusOK:
		return at, took, nil, fmt.Errorf("answered %s", resp.Status)
	case len(body) > maxBody:
		return at, took, nil, fmt.Errorf("the answer is longer than %d bytes", maxBody)
	case strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "application/json"):
		return at, took, nil, errForeign
	}
	return at, took, body, nil
}
