package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"prefire/internal/config"
	"prefire/internal/dataset"
	"prefire/internal/endpoint"
	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/portable"
	"prefire/metrics"
)

// serverTokenizer is the --tokenizer that stands for the endpoint's own.
const serverTokenizer = "server"

const (
	tokenizeTimeout = 30 * time.Second
	tokenizeTries   = 3
	tokenizePause   = 100 * time.Millisecond // before the second try; before the third it is twice as long
)

// byServer is --tokenizer server: prompts are as long as the server counts them, by its /tokenize, or by its usage where it has none.
type byServer struct {
	counter *tokenCounter // nil = the server has no /tokenize
	url     string        // of /tokenize
	source  *dataset.Source

	ratio  float64 // by usage, the server's tokens for one of ours, its chat template in them; 0 = not known
	ready  bool    // the prompts ahead are made
	ahead  int     // how many they are
	before int64   // calls before the load
	during int64   // and until its end
}

// tokenCounter counts texts by /tokenize, over connections of its own. It is safe for concurrent use.
type tokenCounter struct {
	transport wire.Transport
	clock     wire.Clock
	target    *wire.Target
	path      string
	model     string
	secrets   *export.Redactor // the server's words may repeat one
	calls     atomic.Int64     // answers that had a count
}

// noTokenizeError is a server without /tokenize.
type noTokenizeError struct{ status int }

func (e *noTokenizeError) Error() string {
	return fmt.Sprintf("answered %d, so it is not there", e.status)
}

// countByServer asks whether the first target has /tokenize. It needs the header.
func (l *load) countByServer(cfg *config.Config) error {
	if cfg.Dataset.File != nil {
		return fmt.Errorf("--tokenizer server makes the lengths of synthetic prompts, and the prompts are a file's (%s): give the model's tokenizer, or builtin", cfg.Dataset.File.Path)
	}
	base := cfg.Endpoint.URLs[0]
	t, err := target(cfg, base, &l.header, l.way)
	if err != nil {
		return err
	}
	clock := newClock()
	c := &tokenCounter{transport: portable.New(portable.Options{Clock: clock, Resolver: l.way.Resolver()}), clock: clock, target: t.Wire,
		path: sibling(base, endpoint.TokenizePath), model: cfg.Models[0], secrets: export.NewRedactor(cfg.Secrets()...)}
	l.server = &byServer{counter: c, url: t.URL + c.path}
	_, err = c.count(context.Background(), []byte("Count me."))
	var none *noTokenizeError
	switch {
	case err == nil:
		l.notices = append(l.notices, "prompts are as long as the server counts them ("+l.server.url+"); the first ones are made before the load")
		return nil
	case !errors.As(err, &none):
		c.close()
		return fmt.Errorf("--tokenizer server: %s: %w", l.server.url, err)
	case !cfg.Prewarm:
		c.close()
		return fmt.Errorf("--tokenizer server: %s %w, and without the prewarm there is no request whose usage could stand in: leave out --no-prewarm and --include-cold, "+
			"or give the model's tokenizer", l.server.url, err)
	}
	c.close()
	l.server.counter = nil
	l.notices = append(l.notices, fmt.Sprintf("%s %v: prompt lengths are fitted, not exact, by the server's usage of the prewarm's inference", l.server.url, err))
	return nil
}

// count is dataset.Options.Count.
func (c *tokenCounter) count(ctx context.Context, text []byte) (int, error) {
	call := &wire.Call{Target: c.target, Path: c.path, Body: endpoint.AppendTokenize(nil, c.model, text), Parser: noEvents{}, Keep: wire.KeepRaw, Timeout: tokenizeTimeout}
	for try := 1; ; try++ {
		n, again, err := c.ask(ctx, call)
		if err == nil || !again || try == tokenizeTries {
			return n, err
		}
		if err := c.clock.Until(ctx, c.clock.Now()+int64(try)*int64(tokenizePause)); err != nil {
			return 0, err
		}
	}
}

// ask asks once. again says that another try may help.
func (c *tokenCounter) ask(ctx context.Context, call *wire.Call) (n int, again bool, err error) {
	done := make(answered, 1)
	call.Obs = done
	gen := c.transport.Start(call)
	select {
	case <-done:
	case <-ctx.Done():
		c.transport.Cancel(call, gen, wire.ByUser)
		<-done
		return 0, false, ctx.Err()
	}
	f := &call.Facts
	said := ""
	if f.Err != nil {
		said = c.secrets.String(cmp.Or(endpoint.ErrorText(f.Err.Message), f.Err.Type))
	}
	switch status := f.Status; {
	case status == http.StatusOK:
		if n, err = endpoint.ParseTokenize(call.Raw); err == nil {
			c.calls.Add(1)
		}
		return n, false, err
	case status == 0:
		return 0, true, fmt.Errorf("no answer: %s", said)
	case (status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented) && !bytes.Contains(call.Raw, []byte("NotFoundError")):
		return 0, false, &noTokenizeError{status}
	default:
		return 0, status == http.StatusTooManyRequests || status >= 500, fmt.Errorf("answered %d: %s", status, said)
	}
}

func (c *tokenCounter) close() {
	ctx, cancel := context.WithTimeout(context.Background(), tokenizeTimeout)
	defer cancel()
	_ = c.transport.Close(ctx) // nothing is asked any more
}

// answered is told when a call is over.
type answered chan struct{}

func (answered) First(*wire.Call)  {}
func (a answered) Done(*wire.Call) { a <- struct{}{} }

// noEvents reads answers that are no inference.
type noEvents struct{}

func (noEvents) Event(_, _ []byte, _ *wire.Delta) wire.Class { return wire.Other }
func (noEvents) Body(_ []byte, _ *wire.Delta) wire.Class     { return wire.Other }

// countedSource ends what counts its prompts with it.
type countedSource struct {
	*dataset.Source
	counter *tokenCounter
}

func (s countedSource) Close() {
	s.Source.Close()
	s.counter.close()
}

// learn takes the ratio of lengths from the first throwaway. The next one has the length asked for, which the server is to have room for.
func (s *byServer) learn(ours, server metrics.Count) (again bool, err error) {
	if s.ratio > 0 {
		return false, nil
	}
	if !ours.Known || !server.Known || ours.N == 0 || server.N == 0 {
		return false, fmt.Errorf("%s is not there, and the answer has no usage.prompt_tokens, so the server's count of a prompt is not known: give the model's tokenizer, or "+
			"--tokenizer builtin", s.url)
	}
	s.ratio = float64(server.N) / float64(ours.N)
	return true, s.source.Scale(s.ratio)
}

// makeAhead makes the first prompts of each phase, so that the server is not asked for them beside the load.
func (s *byServer) makeAhead(ctx context.Context, phases []loadgen.Phase) error {
	if s.counter == nil || s.ready {
		return nil
	}
	for i := range phases {
		ph := &phases[i]
		n, err := s.source.Ahead(ctx, loadgen.Stream{Kind: ph.Kind, Phase: i}, cmp.Or(ph.Sessions, ph.Requests))
		if err != nil {
			return err
		}
		s.ahead += n
	}
	s.ready, s.before = true, s.counter.calls.Load()
	return nil
}

// loaded takes the count of calls at the end of the load: prompts that nobody will ask for are still being made. s may be nil.
func (s *byServer) loaded() {
	if s != nil && s.counter != nil {
		s.during = s.counter.calls.Load() - s.before
	}
}

// facts are those of prefire.prompts; s may be nil.
func (s *byServer) facts() export.Object {
	switch {
	case s == nil:
		return nil
	case s.counter == nil && s.ratio == 0:
		return export.Object{{Key: "lengths", Value: "builtin's: the server counted no prompt before the load"}}
	case s.counter == nil:
		return export.Object{{Key: "lengths", Value: "fitted, not exact, by the server's usage of the prewarm's inference, its chat template in it"}, {Key: "ratio", Value: s.ratio}}
	}
	return export.Object{
		{Key: "lengths", Value: "exact by the server's /tokenize"}, {Key: "made_ahead", Value: s.ahead},
		{Key: "tokenize_calls", Value: export.Object{{Key: "before_load", Value: s.before}, {Key: "during_load", Value: s.during}}},
	}
}

// notice says what a reader should know of the lengths; "" = nothing. s may be nil.
func (s *byServer) notice() string {
	switch {
	case s == nil:
		return ""
	case s.counter == nil && s.ratio == 0:
		return fmt.Sprintf("prompt lengths are builtin's (o200k_base), not the server's: %s is not there, and the prewarm's inference gave no count", s.url)
	case s.counter == nil:
		return fmt.Sprintf("prompt lengths are fitted, not exact: %s is not there, so they follow the server's usage of the prewarm's inference (%.3f tokens for each of ours, "+
			"its chat template in it)", s.url, s.ratio)
	}
	if s.during > 0 {
		return fmt.Sprintf("the server was asked %d times to count a prompt while it was measured (%s), for prompts beyond the %d made ahead: that is load of its own; "+
			"the model's own tokenizer, given with --tokenizer, asks nothing", s.during, s.url, s.ahead)
	}
	return ""
}
