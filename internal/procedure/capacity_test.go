package procedure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/metrics"
)

// slots is a server that answers so many requests at once, each after a base to its first token and a time in all. The others wait in order
// of arrival, or are refused.
type slots struct {
	n               int
	base, answer    time.Duration
	spread          float64 // of answer, evenly to both sides
	refuse          bool
	mu              sync.Mutex
	free            []int64 // when each slot is free
	rng             *rand.Rand
	clock           *fake.Clock
	served, refused int
}

func (s *slots) script(int64, *wire.Call) fake.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	i := 0
	for j := range s.free {
		if s.free[j] < s.free[i] {
			i = j
		}
	}
	wait := time.Duration(max(0, s.free[i]-now))
	if s.refuse && wait > 0 {
		s.refused++
		return fake.Answer{Status: 503, ContentType: "application/json", Head: time.Millisecond}
	}
	answer := s.answer
	if s.spread > 0 {
		answer = time.Duration(float64(answer) * (1 + s.spread*(2*s.rng.Float64()-1)))
	}
	s.free[i] = now + int64(wait+answer)
	s.served++
	return fake.Answer{Parts: []fake.Part{fake.Text(wait+s.base, "a"), fake.Text(answer-s.base, "b", "[DONE]")}}
}

// plain is an endpoint whose answers' events are words, and a source of sessions of one turn.
type plain struct {
	mu   sync.Mutex
	next int64
}

func (*plain) Streaming() bool                       { return true }
func (p *plain) Parser() wire.Parser                 { return p }
func (*plain) SpecDecode([]byte) *metrics.SpecDecode { return nil }

func (*plain) Usage([]byte) (metrics.Usage, bool)                     { return metrics.Usage{}, false }
func (*plain) Body([]byte, *wire.Delta) wire.Class                    { return wire.Malformed }
func (*plain) Issued(loadgen.Stream, int64, *loadgen.Session, []byte) {}

func (*plain) Answers(*loadgen.Turn) int { return 1 }

func (*plain) AppendBody(dst []byte, _ *loadgen.Turn, _ []loadgen.Message) ([]byte, error) {
	return append(dst, '{', '}'), nil
}

func (*plain) Event(_, data []byte, d *wire.Delta) wire.Class {
	if len(data) == 0 || data[0] == '[' {
		return wire.Other
	}
	d.Content = data
	return wire.Content
}

func (p *plain) Next(context.Context, loadgen.Stream) (*loadgen.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	return &loadgen.Session{Index: p.next, ID: fmt.Sprint(p.next), Turns: []loadgen.Turn{{Input: metrics.Known(10)}}}, nil
}

// requests is a sink that keeps what a step is judged by.
type requests struct {
	plain
	mu   sync.Mutex
	defs []*metrics.Def
	all  []StepRequest
}

func (s *requests) Finished(f *loadgen.Finished) {
	r := &f.Record
	r.Out = metrics.Known(2)
	q := StepRequest{Start: r.Start, End: r.End, Failed: r.Err != nil, Censored: r.Censored, Values: make([]float64, len(s.defs))}
	for i, d := range s.defs {
		v, ok := d.Value(r)
		if q.Values[i] = v * d.Factor(); !ok || !d.For(r) {
			q.Values[i] = math.NaN()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, q)
}

// load runs one load on a server for a time, and gives its requests and whether it was ended for its failures.
func (s *slots) load(t *testing.T, ph loadgen.Phase, tags []string, seed uint64) (all []StepRequest, aborted bool) {
	synctest.Test(t, func(t *testing.T) {
		s.clock, s.free, s.rng = fake.NewClock(), make([]int64, s.n), rand.New(rand.NewPCG(seed, 3))
		w := fake.New(fake.Options{Clock: s.clock, Script: s.script})
		sink := &requests{}
		for _, tag := range tags {
			sink.defs = append(sink.defs, metrics.Table()[slices.IndexFunc(metrics.Table(), func(d *metrics.Def) bool { return d.Tag == tag })])
		}
		half := 0.5
		ph.Name, ph.Kind, ph.Grace, ph.FailedShare = "profiling", metrics.Profiling, -1, &half
		plan := loadgen.Plan{Targets: []loadgen.Target{{Wire: &wire.Target{Path: "/"}, URL: "http://fake"}}, Phases: []loadgen.Phase{ph},
			Keep: wire.KeepNothing, Streams: 1, Seed: seed}
		p := &plain{}
		var id int64
		var mu sync.Mutex
		_, err := loadgen.Run(t.Context(), &plan, loadgen.Deps{Clock: s.clock, Transport: w, Source: p, Endpoint: p, Sink: sink, Stop: make(chan struct{}),
			NewID:  func() string { mu.Lock(); defer mu.Unlock(); id++; return fmt.Sprint(id) },
			Header: func(dst []wire.Field, _, _ string) []wire.Field { return dst }})
		var many *loadgen.FailuresError
		if aborted = asFailures(err, &many); err != nil && !aborted {
			t.Fatal(err)
		}
		if err := w.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		all = sink.all
	})
	return all, aborted
}

// run is a capacity run, interrupted and gone on with after each step, as its state on disk is read: before says which loads were asked for.
func (s *slots) run(t *testing.T, l Ladder, slo string, phase func(load float64) loadgen.Phase) (Capacity, []Step, []float64) {
	t.Helper()
	clauses, err := ParseSLO(slo)
	if err != nil {
		t.Fatal(err)
	}
	o := StepOptions{Open: l.Open, SLO: clauses, Tags: StepTags(clauses)}
	tries := map[float64][][]StepRequest{}
	var steps []Step
	var asked []float64
	for {
		load, more := l.Next(throughJSON(t, steps))
		if !more {
			break
		}
		if asked = append(asked, load); len(asked) > 60 {
			t.Fatalf("the run does not end: %v", asked)
		}
		rs, aborted := s.load(t, phase(load), o.Tags, uint64(len(asked)))
		tries[load] = append(tries[load], rs)
		o.Load, o.Aborted = load, aborted
		steps = append(steps, JudgeStep(o, tries[load]...))
	}
	c, counted := l.JudgeCapacity(steps)
	return c, counted, asked
}

// throughJSON is what a step's file gives back.
func throughJSON(t *testing.T, steps []Step) []Step {
	t.Helper()
	data, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	var back []Step
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if len(steps) > 0 && !reflect.DeepEqual(steps, back) {
		t.Fatalf("a step's file gives back\n%+v\nfor\n%+v", back, steps)
	}
	return back
}

func closed(d time.Duration) func(float64) loadgen.Phase {
	return func(load float64) loadgen.Phase { return loadgen.Phase{Concurrency: int(load), Duration: d} }
}

func paced(d time.Duration, p loadgen.Pattern) func(float64) loadgen.Phase {
	return func(load float64) loadgen.Phase {
		return loadgen.Phase{Arrivals: loadgen.Arrivals{Mode: loadgen.Paced, Pattern: p, Rate: load}, Duration: d}
	}
}

// A server of 40 slots that refuses what finds none carries 40 in flight.
func TestCapacityOfAServerThatRefuses(t *testing.T) {
	spreads := []float64{0.3, 0}
	if testing.Short() {
		spreads = spreads[:1]
	}
	for _, spread := range spreads {
		s := &slots{n: 40, base: 100 * time.Millisecond, answer: time.Second, spread: spread, refuse: true}
		c, _, asked := s.run(t, Ladder{From: 16, To: 1000}, "ttft_p99<500ms", closed(11*time.Second))
		if c.Best != 40 || c.AtLeast != 40 || !c.BestSure || c.Below != 41 || !slices.Contains(c.Broken, defaultErrorRate) {
			t.Errorf("spread %v: %+v after %v, want 40 for sure, and not 41 for its errors", spread, c, asked)
		}
	}
}

// With a queue, N in flight take answer·N/40 each, of which the first token waits answer·(N−40)/40 + base: a limit L on it is kept up to
// 40 + 40·(L − base)/answer in flight; a rate up to 40/answer.
func TestCapacityOfAServerThatQueues(t *testing.T) {
	cases := []struct {
		answer, base, limit time.Duration
		spread              float64
	}{
		{time.Second, 100 * time.Millisecond, 610 * time.Millisecond, 0},
		{500 * time.Millisecond, 50 * time.Millisecond, 555 * time.Millisecond, 0.2},
		{2 * time.Second, 200 * time.Millisecond, 510 * time.Millisecond, 0.1},
	}
	if testing.Short() {
		cases = cases[:1]
	}
	for _, c := range cases {
		s := &slots{n: 40, base: c.base, answer: c.answer, spread: c.spread}
		slo := fmt.Sprintf("ttft_avg<%dms", c.limit.Milliseconds())
		want := 40 + 40*float64(c.limit-c.base)/float64(c.answer)
		got, steps, asked := s.run(t, Ladder{From: 32, To: 1000}, slo, closed(15*c.answer))
		if math.Abs(got.Best-want) > 1 || got.AtLeast > got.Best || got.Below <= got.Best && got.Below != 0 {
			t.Errorf("%s, answers of %v: %+v after %v, want %.1f", slo, c.answer, got, asked, want)
		}
		rate := 40 / c.answer.Seconds()
		if best := steps[slices.IndexFunc(steps, func(s Step) bool { return s.Load == got.Best })]; math.Abs(best.Throughput.Value/rate-1) > 0.03 ||
			math.Abs(best.InFlight/got.Best-1) > 0.01 {
			t.Errorf("%s, answers of %v: %v answers a second and %v in flight at the best point, want %v and %v", slo, c.answer, best.Throughput.Value,
				best.InFlight, rate, got.Best)
		}
		// The limit alone would be kept for a while by a rate that the server falls behind.
		got, _, asked = s.run(t, Ladder{Open: true, From: rate / 2, To: 10000}, fmt.Sprintf("ttft_avg<%dms", 10*c.answer.Milliseconds()),
			paced(40*c.answer, loadgen.Constant))
		if math.Abs(got.Best/rate-1) > 0.03 || !slices.Equal(got.Broken, []string{Falling}) {
			t.Errorf("answers of %v: %+v after rates of %v, want %v for falling behind", c.answer, got, asked, rate)
		}
	}
}

func asFailures(err error, f **loadgen.FailuresError) bool { return errors.As(err, f) }
