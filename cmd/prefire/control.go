package main

import (
	"context"
	"fmt"

	"prefire/internal/control"
	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/metrics"
)

// controls are a run's requests beside its load, as far as it asks for any.
type controls struct {
	b        *bench
	client   *control.Client
	servers  []control.Server
	profiler *control.Profiler // nil = none
	began    int64             // of waiting for the servers
	ready    int64
	emptied  int64 // when the prefix caches were empty
	profiled int   // phases during which the profiler ran
	failed   error // of stopping it
}

func newControls(b *bench) *controls {
	e := &b.cfg.Endpoint
	x := &controls{b: b}
	if e.Wait.Timeout == 0 && e.Reset == nil && e.Profiler == nil {
		return x
	}
	o := control.Options{Clock: b.clock, Over: b.load.way.Client(), Say: b.view.say}
	for _, f := range b.load.header.Fixed {
		if f.Name != "Accept" && f.Name != "Content-Type" {
			o.Header = append(o.Header, f)
		}
	}
	if h := b.load.header.Host; h != "" {
		o.Header = append(o.Header, wire.Field{Name: "Host", Value: h})
	}
	x.client = control.New(o)
	for i, base := range e.URLs {
		t := &b.load.plan.Targets[i]
		x.servers = append(x.servers, control.Server{Base: base, Models: t.URL + t.ModelsPath, Inference: t.URL + t.Wire.Path})
	}
	if p := e.Profiler; p != nil {
		x.profiler = x.client.Profiler(x.servers, p.Start, p.Stop, p.Timeout)
	}
	return x
}

// run runs the plan, after what must come before it.
func (x *controls) run(ctx context.Context, stop <-chan struct{}, d loadgen.Deps) (*loadgen.Summary, error) {
	if err := x.before(ctx, stop); err != nil {
		if closed(stop) || ctx.Err() != nil {
			return &loadgen.Summary{Stopped: true}, nil
		}
		return nil, err
	}
	then := d.Before
	d.Before = func(ctx context.Context, phase int) error {
		if err := x.phaseBegins(ctx, phase); err != nil {
			return err
		}
		return then(ctx, phase)
	}
	return loadgen.Run(ctx, &x.b.load.plan, d)
}

// before waits for the servers and empties their caches. The user's stop ends it.
func (x *controls) before(ctx context.Context, stop <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	e := &x.b.cfg.Endpoint
	if w := &e.Wait; w.Timeout > 0 {
		x.began = x.b.clock.Now()
		err := x.client.Wait(ctx, &control.Readiness{Models: w.Mode != "inference", Inference: w.Mode != "models", Names: x.b.cfg.Models, Type: x.b.load.kind,
			Timeout: w.Timeout, Interval: w.Interval}, x.servers)
		if err != nil {
			return err
		}
		x.ready = x.b.clock.Now()
	}
	if r := e.Reset; r != nil {
		if err := x.client.Reset(ctx, (*control.Reset)(r), x.servers); err != nil {
			return err
		}
		x.emptied = x.b.clock.Now()
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// profiles says whether the profiler runs during a phase.
func (x *controls) profiles(phase int) bool {
	return x.profiler != nil && x.b.cfg.Phases[phase].Kind == metrics.Profiling
}

func (x *controls) phaseBegins(ctx context.Context, phase int) error {
	if !x.profiles(phase) {
		return nil
	}
	if err := x.profiler.Enter(ctx); err != nil {
		return err
	}
	x.profiled++
	return nil
}

// phaseOver is told of phases that began, one at a time.
func (x *controls) phaseOver(phase int) {
	if !x.profiles(phase) {
		return
	}
	if err := x.profiler.Leave(); err != nil {
		x.failed = x.b.redacted(err)
		x.b.view.say(x.failed.Error())
	}
}

// facts are what became of the requests; nil where there were none.
func (x *controls) facts() any {
	var o export.Object
	if x.ready > 0 {
		o = append(o, export.Field{Key: "ready_after_ms", Value: ms(x.ready - x.began)})
	}
	if x.emptied > 0 {
		o = append(o, export.Field{Key: "kv_cache_reset", Value: true})
	}
	if x.profiler != nil {
		o = append(o, export.Field{Key: "server_profiler_phases", Value: x.profiled})
		if x.failed != nil {
			o = append(o, export.Field{Key: "server_profiler_error", Value: x.failed.Error()})
		}
	}
	if len(o) == 0 {
		return nil
	}
	return o
}

// notices are what a reader of the figures must know.
func (x *controls) notices() []string {
	var out []string
	if x.profiled > 0 {
		out = append(out, "the server's profiler ran during the measured phases: the times hold what it costs the server")
	}
	if x.failed != nil {
		out = append(out, fmt.Sprintf("%v; the profiler may still run", x.failed))
	}
	return out
}
