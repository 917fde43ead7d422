// Package script runs load from Go programs, without a command line: a chat endpoint, prompts, phases, and the metrics of each phase, as
// prefire profile has them. Whoever needs more than that uses loadgen's own ports, which this package is a thin layer on.
package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"prefire/internal/endpoint"
	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/metrics"
)

const (
	// prewarmTokens is the output limit of the throwaway inference before the first phase.
	prewarmTokens = 8
	// prewarmTimeout bounds it: a model's first inference may compile kernels for minutes.
	prewarmTimeout = 10 * time.Minute
)

// Options say where a run's requests go and what they hold. URL, Model, Prompt, Clock and Transport must be set.
type Options struct {
	URL    string // of the server, as http://127.0.0.1:8000
	Model  string
	APIKey string // "" = none
	// Prompt gives the text of the i-th session of a phase, or io.EOF after the last one. What is asked twice may be answered from the server's
	// prefix cache: prompts should not repeat, within a phase or between phases.
	Prompt func(phase string, i int64) (string, error)
	// MaxTokens is the output limit of each request; 0 = none.
	MaxTokens int
	Timeout   time.Duration // of a request; 0 = none
	// Clock and Transport are the run's; the Transport must work on the same Clock. Run does not close it.
	Clock     wire.Clock
	Transport wire.Transport
	// Stop, where it is not nil, ends the run when it is closed: what is in flight may finish within the grace.
	Stop <-chan struct{}
	// Seed is what arrivals, ramps and cancellations are drawn from.
	Seed uint64
}

// Result is what a run found.
type Result struct {
	Summary *loadgen.Summary
	Phases  []Phase // of those that started, in their order
}

// Phase is what one phase found. Token counts are the server's.
type Phase struct {
	loadgen.PhaseSummary
	Metrics []metrics.Result // in display units: latencies in ms
	Cold    metrics.ColdReport
	Client  metrics.ClientReport
	Errors  []metrics.ErrorCount
}

// Find is a metric of the phase by its name, as time_to_first_token; false where it has no value.
func (p *Phase) Find(tag string) (metrics.Result, bool) {
	for _, r := range p.Metrics {
		if r.Def.Tag == tag {
			return r, true
		}
	}
	return metrics.Result{}, false
}

// Run makes the server and its connections warm and runs the phases one after another. An error means that the run could not begin or was
// broken off; the result holds what was measured until then, and is nil where nothing was.
func Run(ctx context.Context, o Options, phases ...loadgen.Phase) (*Result, error) {
	b, err := o.bench(phases)
	if err != nil {
		return nil, err
	}
	sum, err := loadgen.Run(ctx, &b.plan, b.deps)
	if sum == nil || len(sum.Phases) == 0 {
		return nil, err
	}
	r := &Result{Summary: sum}
	for i, s := range sum.Phases {
		acc := b.sink.byPhase[i]
		r.Phases = append(r.Phases, Phase{PhaseSummary: s, Metrics: acc.Results(metrics.Window{Start: s.Start, End: s.End}), Cold: acc.Cold(),
			Client: acc.ClientReport(), Errors: acc.Errors()})
	}
	return r, err
}

type bench struct {
	plan loadgen.Plan
	deps loadgen.Deps
	sink *sink
}

func (o *Options) bench(phases []loadgen.Phase) (*bench, error) {
	switch {
	case o.Clock == nil || o.Transport == nil || o.Prompt == nil:
		return nil, errors.New("a run needs a clock, a transport and prompts")
	case len(phases) == 0:
		return nil, errors.New("a run needs a phase")
	}
	chat, err := endpoint.New(endpoint.Options{Type: endpoint.Chat, Model: o.Model, Streaming: true})
	if err != nil {
		return nil, err
	}
	header, err := chat.Header(endpoint.HeaderOptions{UserAgent: "prefire/script", APIKey: o.APIKey})
	if err != nil {
		return nil, err
	}
	target, err := o.target(header.Fixed)
	if err != nil {
		return nil, err
	}
	stop := o.Stop
	if stop == nil {
		stop = make(chan struct{})
	}
	b := &bench{sink: &sink{}, plan: loadgen.Plan{Targets: []loadgen.Target{target}, Phases: phases, Prewarm: endpoint.Prewarm(), Timeout: o.Timeout,
		Keep: wire.KeepNothing, Seed: o.Seed}}
	b.plan.Prewarm.On, b.plan.Prewarm.MaxTokens, b.plan.Prewarm.Timeout, b.plan.Prewarm.Model = true, prewarmTokens, prewarmTimeout, o.Model
	if o.MaxTokens > 0 {
		b.plan.Prewarm.MaxTokens = min(prewarmTokens, o.MaxTokens)
	}
	for _, ph := range phases {
		b.sink.byPhase = append(b.sink.byPhase, metrics.NewAccumulator(metrics.Options{Streaming: true, ServerCounts: true,
			OpenLoop: ph.Arrivals.Mode != loadgen.Closed}))
	}
	var ids atomic.Int64
	b.deps = loadgen.Deps{Clock: o.Clock, Transport: o.Transport, Source: &source{options: o, phases: phases, next: map[loadgen.Stream]int64{}},
		Endpoint: chat, Sink: b.sink, Header: header.AppendIDs, Stop: stop, Progress: new(loadgen.Progress),
		NewID: func() string { return "script-" + strconv.FormatInt(ids.Add(1), 10) }}
	return b, b.plan.Validate()
}

func (o *Options) target(header []wire.Field) (loadgen.Target, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return loadgen.Target{}, fmt.Errorf("%q is no address of a server; one looks like http://127.0.0.1:8000", o.URL)
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	return loadgen.Target{URL: o.URL, ProbePath: "/health", ModelsPath: "/v1/models",
		Wire: &wire.Target{Scheme: u.Scheme, Host: u.Host, Addr: addr, Path: "/v1/chat/completions", Header: header}}, nil
}

// source makes sessions of one turn.
type source struct {
	options *Options
	phases  []loadgen.Phase
	mu      sync.Mutex
	next    map[loadgen.Stream]int64
}

// Next implements loadgen.Source.
func (s *source) Next(_ context.Context, st loadgen.Stream) (*loadgen.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, name := s.next[st], "prewarm"
	if st.Phase >= 0 {
		name = s.phases[st.Phase].Name
	}
	text, err := s.options.Prompt(name, i)
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("prompt %d of %s: %w", i, name, err)
	}
	s.next[st]++
	return &loadgen.Session{Index: i, ID: name + "-" + strconv.FormatInt(i, 10), Turns: []loadgen.Turn{{
		Messages: []loadgen.Message{{Role: "user", Content: text}}, MaxTokens: s.options.MaxTokens}}}, nil
}

// sink adds the records up. It counts nothing, so that it holds nothing up.
type sink struct {
	mu      sync.Mutex
	byPhase []*metrics.Accumulator
}

// Issued implements loadgen.Sink.
func (*sink) Issued(loadgen.Stream, int64, *loadgen.Session, []byte) {}

// Finished implements loadgen.Sink.
func (s *sink) Finished(f *loadgen.Finished) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Record.UseServerCounts()
	s.byPhase[f.Record.Phase].Add(&f.Record)
}
