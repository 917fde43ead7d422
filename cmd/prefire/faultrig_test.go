package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"prefire/internal/endpoint"
	"prefire/internal/fakellm"
	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/portable"
	"prefire/loadgen/wire/reactor"
	"prefire/metrics"
	"prefire/tokenize"
)

// way is a transport with the kind of server that it speaks to.
type way string

const (
	viaReactor  way = "reactor"
	viaPortable way = "portable"
	viaTLS      way = "TLS"
	viaH2       way = "h2"
	viaH2C      way = "h2c"
)

var (
	http1    = []way{viaReactor, viaPortable, viaTLS}
	everyWay = []way{viaReactor, viaPortable, viaTLS, viaH2}
)

// faultServer is a server and a transport for it, for many cases.
type faultServer struct {
	*fakellm.Server
	way       way
	transport wire.Transport
	clock     *realClock
}

// faultTokenizer is one for all cases: under the race detector it takes seconds to open.
var faultTokenizer = sync.OnceValue(func() tokenize.Tokenizer {
	tokens, err := tokenize.Open("builtin")
	if err != nil {
		panic(err)
	}
	return tokens
})

// faultClient is what a client has of its own. The zero value is the system's.
type faultClient struct {
	resolver portable.Resolver
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
}

func newFaultServer(t *testing.T, w way, o fakellm.Options, own faultClient) *faultServer {
	t.Helper()
	o.TLS, o.H2, o.H2C = w == viaTLS, w == viaH2, w == viaH2C
	o.FaultHeader, o.KeepAlive = true, -1 // on a machine that stands still, a connection would be idle for long enough to be closed
	var err error
	o.Counter = faultTokenizer()
	s := &faultServer{Server: serve(t, o), way: w, clock: newClock()}
	if w == viaReactor {
		if !reactor.Available() {
			t.Skip("SKIP: this system has no reactor")
		}
		if s.transport, err = reactor.New(reactor.Options{Clock: s.clock, Resolver: own.resolver, Dial: own.dial}); err != nil {
			t.Fatal(err)
		}
	} else {
		s.transport = portable.New(portable.Options{Clock: s.clock, Resolver: own.resolver, Dial: own.dial})
	}
	t.Cleanup(func() { _ = s.transport.Close(context.Background()) })
	return s
}

func (s *faultServer) target(fault string) *wire.Target {
	addr := strings.TrimPrefix(strings.TrimPrefix(s.URL(), "https://"), "http://")
	w := &wire.Target{Scheme: "http", Host: addr, Addr: addr, Path: endpoint.Chat.Path(), Streams: 4,
		Header: []wire.Field{{Name: "Content-Type", Value: "application/json"}}}
	if fault != "" {
		w.Header = append(w.Header, wire.Field{Name: fakellm.FaultHeader, Value: fault})
	}
	if s.way == viaTLS || s.way == viaH2 {
		w.Scheme, w.TLS = "https", &tls.Config{RootCAs: s.CertPool()}
	}
	switch s.way {
	case viaH2:
		w.Protocol = wire.HTTP2
	case viaH2C:
		w.Protocol = wire.H2C
	}
	return w
}

// fixedPrompts are the same prompts in every run.
type fixedPrompts struct {
	more string // at their ends
	mu   sync.Mutex
	n    int64
}

func (f *fixedPrompts) Next(context.Context, loadgen.Stream) (*loadgen.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &loadgen.Session{Index: f.n, ID: fmt.Sprint("session ", f.n), Turns: []loadgen.Turn{{
		Messages: []loadgen.Message{{Role: "user", Content: fmt.Sprint("tell me about number ", f.n, f.more)}}, MaxTokens: faultTokens, Input: metrics.Known(5)}}}
	f.n++
	return s, nil
}

// faultTokens is how many tokens an answer has.
const faultTokens = 8

// ended is what came of the requests of one case.
type ended struct {
	mu      sync.Mutex
	acc     *metrics.Accumulator
	unended int64 // of the transport, before
	records []metrics.Record
	texts   []string // output and reasoning, joined by |
	results map[string]metrics.Result
}

func (e *ended) Issued(loadgen.Stream, int64, *loadgen.Session, []byte) {}

func (e *ended) Finished(f *loadgen.Finished) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := f.Record
	if r.Err == nil {
		r.Out = metrics.Known(int64(faultTokenizer().Count(f.Output)))
		if len(f.Reason) > 0 {
			r.Reasoning = metrics.Known(int64(faultTokenizer().Count(f.Reason)))
		}
	}
	e.acc.Add(&r)
	e.records, e.texts = append(e.records, r), append(e.texts, string(f.Output)+"|"+string(f.Reason))
}

// faultRun is how a case's requests are sent.
type faultRun struct {
	fault    string // asked for by header
	requests int64
	timeout  time.Duration
	whole    bool // not streamed
	retries  int
	perChunk bool               // usage is asked for in every chunk
	sessions int                // at once; 0 = 1
	prompt   int                // bytes that prompts are longer by
	aim      func(*wire.Target) // changes what is asked; nil = nothing
}

func (s *faultServer) run(t *testing.T, o faultRun) *ended {
	t.Helper()
	api, err := endpoint.New(endpoint.Options{Type: endpoint.Chat, Model: "m", Streaming: !o.whole, PerChunkUsage: o.perChunk})
	if err != nil {
		t.Fatal(err)
	}
	e := &ended{acc: metrics.NewAccumulator(metrics.Options{Streaming: !o.whole, IncludeCold: true})}
	target := s.target(o.fault)
	if o.aim != nil {
		o.aim(target)
	}
	e.unended = s.transport.Health().Unended
	plan := loadgen.Plan{Timeout: cmp.Or(o.timeout, time.Minute), Retries: o.retries, FirstUsage: o.perChunk, Keep: wire.KeepText, Streams: 4, Targets: []loadgen.Target{{Wire: target, URL: s.URL()}},
		Phases: []loadgen.Phase{{Name: "profiling", Concurrency: max(o.sessions, 1), Requests: o.requests}}}
	sum, err := loadgen.Run(t.Context(), &plan, loadgen.Deps{
		Clock: s.clock, Transport: s.transport, Source: &fixedPrompts{more: strings.Repeat(" word", o.prompt/5)}, Endpoint: api, Sink: e, NewID: uuid.NewString, Progress: new(loadgen.Progress),
		Header: func(dst []wire.Field, id, _ string) []wire.Field {
			return append(dst, wire.Field{Name: endpoint.RequestID, Value: id})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ph := sum.Phases[0]
	if c := e.acc.Counts(); c.Sent != ph.Sent || c.Sent != c.OK+c.Failed+c.Cancelled+c.Censored || c.Sent != o.requests {
		t.Errorf("%q: %+v, and the engine sent %d of %d", o.fault, c, ph.Sent, o.requests)
	}
	e.results = map[string]metrics.Result{}
	for _, r := range e.acc.Results(metrics.Window{Start: ph.Start, End: ph.End}) {
		e.results[r.Def.Tag] = r
	}
	return e
}

// of are the server's entries of one request that was answered, several for what was sent again: they may come a moment after the client has
// its answer. A request that failed need not have come to the server.
func (s *faultServer) of(t *testing.T, id string) []fakellm.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		all := s.Entries()
		if own := slices.DeleteFunc(all, func(e fakellm.Entry) bool { return e.XRequestID != id }); len(own) > 0 {
			return own
		}
		if _, err := s.Wait(ctx, len(all)+1); err != nil {
			t.Fatalf("request %s is not in the server's log: %v", id, err)
		}
	}
}
