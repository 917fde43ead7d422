package loadgen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/metrics"
)

const (
	msec = int64(time.Millisecond)
	sec  = int64(time.Second)
)

// words is an endpoint whose answers' events are plain words: "~w" is reasoning, "!w" an error, "$n" usage with n prompt tokens, "." the
// finish. A body is the JSON of the messages.
type words struct{}

func (words) Streaming() bool { return true }

func (words) Parser() wire.Parser { return words{} }

func (words) Answers(*loadgen.Turn) int { return 1 }

func (words) AppendBody(dst []byte, t *loadgen.Turn, history []loadgen.Message) ([]byte, error) {
	b, err := json.Marshal(struct {
		M   []loadgen.Message
		Max int
	}{append(slices.Clone(history), t.Messages...), t.MaxTokens})
	return append(dst, b...), err
}

func (words) SpecDecode([]byte) *metrics.SpecDecode { return nil }

func (words) Usage(raw []byte) (metrics.Usage, bool) {
	var n int64
	if _, err := fmt.Sscan(string(raw), &n); err != nil {
		return metrics.Usage{}, false
	}
	return metrics.Usage{Prompt: metrics.Known(n)}, true
}

func (words) Event(_, data []byte, d *wire.Delta) wire.Class {
	switch {
	case len(data) == 0:
		return wire.Other
	case data[0] == '~':
		d.Reasoning = data[1:]
		return wire.Reasoning
	case data[0] == '!':
		d.Message = data[1:]
		return wire.Fault
	case data[0] == '$':
		d.Usage = data[1:]
		return wire.UsageOnly
	case data[0] == '.':
		d.Finish = []byte("stop")
		return wire.Finish
	}
	d.Content = data
	return wire.Content
}

func (words) Body([]byte, *wire.Delta) wire.Class { return wire.Malformed }

// numbered is a source of sessions "phase/index" of so many turns; it ends after limit sessions where that is above 0.
type numbered struct {
	mu     sync.Mutex
	next   map[loadgen.Stream]int64
	turns  int
	limit  int64
	broken error // what comes after limit instead of the end
	alone  bool  // turns hold their whole conversations
}

func (s *numbered) Next(_ context.Context, st loadgen.Stream) (*loadgen.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = map[loadgen.Stream]int64{}
	}
	i := s.next[st]
	if s.limit > 0 && i >= s.limit {
		if s.broken != nil {
			return nil, s.broken
		}
		return nil, io.EOF
	}
	s.next[st]++
	sess := &loadgen.Session{Index: i, ID: fmt.Sprintf("%d/%d", st.Phase, i), Complete: s.alone}
	for t := range max(s.turns, 1) {
		sess.Turns = append(sess.Turns, loadgen.Turn{
			Messages:  []loadgen.Message{{Role: "user", Content: fmt.Sprintf("%d/%d.%d", st.Phase, i, t)}},
			MaxTokens: 100, Input: metrics.Known(10),
		})
	}
	return sess, nil
}

// book is a sink that keeps everything.
type book struct {
	mu      sync.Mutex
	records []metrics.Record
	texts   []string
	inputs  []string          // what is still to be counted
	bodies  map[string]string // by phase and sequence number
}

func (b *book) Issued(s loadgen.Stream, seq int64, _ *loadgen.Session, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bodies == nil {
		b.bodies = map[string]string{}
	}
	b.bodies[fmt.Sprintf("%d/%d", s.Phase, seq)] = string(body)
}

func (b *book) Finished(f *loadgen.Finished) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, f.Record)
	b.texts = append(b.texts, string(f.Output)+"|"+string(f.Reason))
	b.inputs = append(b.inputs, string(f.Input))
}

// rig is one engine run in a synctest bubble.
type rig struct {
	t     *testing.T
	clock *fake.Clock
	wire  *fake.Transport
	sink  book
	plan  loadgen.Plan
	deps  loadgen.Deps
	stop  chan struct{}
}

func newRig(t *testing.T, script fake.Script, phases ...loadgen.Phase) *rig {
	r := &rig{t: t, clock: fake.NewClock(), stop: make(chan struct{})}
	r.wire = fake.New(fake.Options{Clock: r.clock, Script: script})
	r.plan = loadgen.Plan{
		Targets: []loadgen.Target{{Wire: &wire.Target{Path: "/v1/chat/completions"}, URL: "http://fake", ProbePath: "/health", ModelsPath: "/v1/models"}},
		Phases:  phases, Keep: wire.KeepText, Streams: 16,
	}
	n := 0
	var mu sync.Mutex
	r.deps = loadgen.Deps{
		Clock: r.clock, Transport: r.wire, Source: &numbered{}, Endpoint: words{}, Sink: &r.sink, Stop: r.stop,
		NewID: func() string { mu.Lock(); defer mu.Unlock(); n++; return fmt.Sprint("id", n) },
		Header: func(dst []wire.Field, request, session string) []wire.Field {
			return append(dst, wire.Field{Name: "X-Request-ID", Value: request}, wire.Field{Name: "X-Correlation-ID", Value: session})
		},
	}
	return r
}

func (r *rig) run(ctx context.Context) *loadgen.Summary {
	r.t.Helper()
	sum, err := loadgen.Run(ctx, &r.plan, r.deps)
	if err != nil {
		r.t.Fatal(err)
	}
	r.close()
	return sum
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.wire.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

func profiling(c int) loadgen.Phase {
	return loadgen.Phase{Name: "profiling", Kind: metrics.Profiling, Concurrency: c, Grace: -1}
}

// steady answers every call: first word after ttft, two more a gap apart, the finish with the last.
func steady(ttft, gap time.Duration) fake.Script {
	return func(int64, *wire.Call) fake.Answer {
		return fake.Answer{Parts: []fake.Part{fake.Text(ttft, "role-less"), fake.Text(gap, "two"), fake.Text(gap, "three", "."), fake.Text(gap, "[DONE]")}}
	}
}

func TestARecordHoldsTheTimesOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(1)
		ph.Requests = 2
		r := newRig(t, func(n int64, _ *wire.Call) fake.Answer {
			return fake.Answer{Send: 3 * time.Millisecond, Head: 5 * time.Millisecond, Parts: []fake.Part{
				fake.Text(100*time.Millisecond, "~think"), fake.Text(10*time.Millisecond, "say"), fake.Text(20*time.Millisecond, "a", "b"),
				fake.Text(30*time.Millisecond, "c", ".", "$77"), fake.Text(40*time.Millisecond, "[DONE]")}}
		}, ph)
		start := r.clock.Now()
		sum := r.run(t.Context())
		first := r.sink.records[0]
		at := func(ms int64) int64 { return start + ms*msec }
		begin := first.Start - start
		if begin != 0 {
			t.Errorf("the first request started %d ns after the phase", begin)
		}
		for _, c := range []struct {
			what      string
			got, want int64
		}{
			{"first content (reasoning)", first.First, first.Start + 100*msec}, {"second", first.Second, first.Start + 110*msec},
			{"first output", first.FirstOut, first.Start + 110*msec}, {"last", first.Last, first.Start + 160*msec},
			{"end", first.End, first.Start + 200*msec}, {"head", first.Ack, first.Start + 5*msec},
			{"last write", first.HTTP.LastWrite, first.HTTP.FirstWrite + 3*msec},
			{"usage", first.Usage.Prompt.N, 77}, {"asked output", first.RequestedOSL.N, 100}, {"input", first.In.N, 10},
			{"chunks", int64(first.Chunks), 5}, {"shared reads", int64(first.SharedReads), 1},
			{"exact gaps", int64(first.GapsExact), 1}, {"bound of a gap", int64(first.GapSlack), 30_000}, // "c" shares its read with what follows
			{"second request's start", r.sink.records[1].Start, at(200)}, {"second request's number", r.sink.records[1].Seq, 1},
			{"phase start", sum.Phases[0].Start, start}, {"phase end", sum.Phases[0].End, at(400)}, {"end of sending", sum.Phases[0].SendEnd, at(400)},
		} {
			if c.got != c.want {
				t.Errorf("%s is %d, want %d", c.what, c.got, c.want)
			}
		}
		if want := []metrics.Gap{metrics.Gap(10 * msec), metrics.Gap(20 * msec), metrics.Shared, metrics.Gap(30 * msec)}; !slices.Equal(first.Gaps, want) {
			t.Errorf("gaps %v, want %v", first.Gaps, want)
		}
		if r.sink.texts[0] != "sayabc|think" {
			t.Errorf("texts %q", r.sink.texts[0])
		}
	})
}

func TestExactlyNAreSentAndExactlyCAreInFlight(t *testing.T) {
	for _, c := range []struct{ concurrency, requests int }{{1, 1}, {1, 5}, {2, 5}, {45, 100}, {7, 3}, {128, 1000}, {1000, 2500}} {
		t.Run(fmt.Sprintf("c=%d,n=%d", c.concurrency, c.requests), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ph := profiling(c.concurrency)
				ph.Requests = int64(c.requests)
				r := newRig(t, steady(100*time.Millisecond, 10*time.Millisecond), ph)
				sum := r.run(t.Context())
				s := sum.Phases[0]
				if s.Sent != int64(c.requests) || s.OK != s.Sent || len(r.sink.records) != c.requests || r.wire.Started() != int64(c.requests) {
					t.Errorf("sent %d, ok %d, %d records, %d at the transport; want %d of each", s.Sent, s.OK, len(r.sink.records), r.wire.Started(), c.requests)
				}
				if want := min(c.concurrency, c.requests); r.wire.MaxInFlight() != want || s.InFlight.Max != int64(want) {
					t.Errorf("%d in flight at the transport, %d by the engine; want %d", r.wire.MaxInFlight(), s.InFlight.Max, want)
				}
				// Every answer takes 130 ms, and the slots are always full until the last round begins.
				rounds := (c.requests + c.concurrency - 1) / c.concurrency
				if got, want := s.End-s.Start, int64(rounds)*130*msec; got != want {
					t.Errorf("the phase took %d ns, want %d", got, want)
				}
				seen := map[int64]bool{}
				for _, rec := range r.sink.records {
					seen[rec.Seq] = true
				}
				if len(seen) != c.requests {
					t.Errorf("%d different numbers, want %d", len(seen), c.requests)
				}
			})
		})
	}
}

// A request that waits on this side for a stream is no load on the server.
func TestWaitingRequestsAreToldFromThoseInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(4)
		ph.Duration, ph.Grace = 10*time.Second, -1
		r := newRig(t, func(n int64, _ *wire.Call) fake.Answer {
			a := steady(750*time.Millisecond, 0)(0, nil)
			if a.Queue = 250 * time.Millisecond; n >= 36 {
				a.Queue = 8 * time.Second // the last ones, which the end of sending finds waiting
			}
			return a
		}, ph)
		f := r.run(t.Context()).Phases[0].InFlight
		// 9 rounds wait for a quarter of their second, and the last for all of it.
		if want := 4 * (9*0.25 + 1) / 10; f.Mean != 4 || f.Max != 4 || f.Waiting != want {
			t.Errorf("%+v, want 4 in flight by our count, of whom %v wait", f, want)
		}
	})
}

// Nor is one whose answer is there and has not been taken up: a client that is the limit must not count its own queue as load.
func TestAnswersThatWaitToBeReadAreNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(4)
		ph.Duration, ph.Grace = 10*time.Second, -1
		r := newRig(t, func(n int64, _ *wire.Call) fake.Answer {
			a := steady(500*time.Millisecond, 0)(0, nil)
			a.End = 100 * time.Millisecond // from [DONE] to the end of the body: that is the server's
			if a.Late = 400 * time.Millisecond; n >= 36 {
				a.Late = 8 * time.Second // of which the end of sending cuts all but the 0.4 s
			}
			return a
		}, ph)
		f := r.run(t.Context()).Phases[0].InFlight
		if want := 4 * 0.4; f.Mean != 4 || f.Waiting != want {
			t.Errorf("%+v, want 4 in flight by our count, of whom %v wait", f, want)
		}
	})
}

func TestNumbersAndSessionsPairInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(50)
		ph.Requests = 500
		r := newRig(t, steady(time.Millisecond, 0), ph)
		r.run(t.Context())
		for i := range 500 {
			if want := fmt.Sprintf(`{"M":[{"Role":"user","Content":"0/%d.0"}],"Max":100}`, i); r.sink.bodies[fmt.Sprintf("0/%d", i)] != want {
				t.Fatalf("request %d had the body %s, want %s", i, r.sink.bodies[fmt.Sprintf("0/%d", i)], want)
			}
		}
	})
}

func TestADurationEndsSendingAndTheGraceCutsWhatStillRuns(t *testing.T) {
	for _, c := range []struct {
		name         string
		grace        time.Duration
		ok, censored int64
		end          time.Duration
	}{
		{"cut by the grace", 2 * time.Second, 3, 3, 12 * time.Second},
		{"no grace", 0, 3, 3, 10 * time.Second},
		{"finished within the grace", 6 * time.Second, 6, 0, 16 * time.Second},
		{"grace without end", -1, 6, 0, 16 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ph := profiling(3)
				ph.Duration, ph.Grace = 10*time.Second, c.grace
				r := newRig(t, steady(5*time.Second, time.Second), ph) // 8 s an answer
				s := r.run(t.Context()).Phases[0]
				if s.Sent != 6 || s.OK != c.ok || s.Censored != c.censored || s.Failed != 0 || s.Cancelled != 0 {
					t.Errorf("sent %d = ok %d + failed %d + cancelled %d + censored %d; want 6 = %d + 0 + 0 + %d", s.Sent, s.OK, s.Failed, s.Cancelled, s.Censored, c.ok, c.censored)
				}
				if s.End-s.Start != int64(c.end) || s.SendEnd-s.Start != 10*sec {
					t.Errorf("ended after %v and sent for %v, want %v and 10 s", time.Duration(s.End-s.Start), time.Duration(s.SendEnd-s.Start), c.end)
				}
				for _, rec := range r.sink.records {
					if rec.Censored != (rec.Err != nil) || rec.Censored && rec.Err.Code != 499 {
						t.Errorf("request %d: censored %v with error %v", rec.Seq, rec.Censored, rec.Err)
					}
				}
				if s.InFlight.Mean != 3 {
					t.Errorf("%v in flight on average while sending, want 3", s.InFlight.Mean)
				}
			})
		})
	}
}

func TestTheUsersStopDrainsAndThenCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(2)
		ph.Requests = 100
		r := newRig(t, steady(5*time.Second, time.Second), ph)
		go func() { time.Sleep(time.Second); close(r.stop) }()
		sum := r.run(t.Context())
		s := sum.Phases[0]
		if !sum.Stopped || !s.Stopped || s.Sent != 2 || s.OK != 2 || s.SendEnd-s.Start != sec || s.End-s.Start != 8*sec {
			t.Errorf("stopped %v, sent %d, ok %d, sending ended at %d and the phase at %d; want true, 2, 2, 1 s and 8 s", sum.Stopped, s.Sent, s.OK, s.SendEnd-s.Start, s.End-s.Start)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(2)
		ph.Requests = 100
		r := newRig(t, func(int64, *wire.Call) fake.Answer { return fake.Answer{Hang: true} }, ph, profiling(1))
		r.plan.Phases[1].Requests = 1
		go func() { time.Sleep(time.Second); close(r.stop) }()
		sum := r.run(t.Context())
		s := sum.Phases[0]
		if s.Sent != 2 || s.Censored != 2 || s.End-s.Start != int64(time.Second+loadgen.UserGrace) || len(sum.Phases) != 1 {
			t.Errorf("sent %d, censored %d, ended at %d, %d phases; want 2, 2, 31 s, 1", s.Sent, s.Censored, s.End-s.Start, len(sum.Phases))
		}
	})
}

func TestACancelledContextCutsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(4)
		ph.Duration, ph.Grace = time.Hour, time.Hour
		r := newRig(t, func(int64, *wire.Call) fake.Answer { return fake.Answer{Hang: true} }, ph)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		s := r.run(ctx).Phases[0]
		if s.Sent != 4 || s.Censored != 4 || s.End-s.Start != 3*sec || !s.Stopped {
			t.Errorf("sent %d, censored %d, ended at %d, stopped %v; want 4, 4, 3 s, true", s.Sent, s.Censored, s.End-s.Start, s.Stopped)
		}
	})
}

func TestStartIsTheFirstWriteOrReadyToGoWhereItHadToDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(1)
		ph.Requests = 4
		r := newRig(t, func(n int64, _ *wire.Call) fake.Answer {
			a := steady(100*time.Millisecond, 0)(n, nil)
			switch n {
			case 0:
				a.Dial = 700 * time.Millisecond
			case 1:
				a.Queue = 50 * time.Millisecond
			case 2:
				a.Cold = wire.Resent
				a.Queue = 20 * time.Millisecond
			case 3:
				a.Cold = wire.FirstUse
			}
			return a
		}, ph)
		r.run(t.Context())
		for i, want := range []struct {
			ttft    int64
			cold    metrics.Cold
			blocked int64
		}{
			{800 * msec, metrics.ColdDialled | metrics.ColdFirstInference, 0}, {100 * msec, 0, 50 * msec},
			{120 * msec, metrics.ColdResent, 20 * msec}, {100 * msec, metrics.ColdFirstUse, 0},
		} {
			rec := r.sink.records[i]
			if rec.First-rec.Start != want.ttft || rec.Cold != want.cold || rec.HTTP.Blocked != want.blocked {
				t.Errorf("request %d: TTFT %d, cold %v, blocked %d; want %d, %v, %d", i, rec.First-rec.Start, rec.Cold.Names(), rec.HTTP.Blocked, want.ttft, want.cold.Names(), want.blocked)
			}
		}
	})
}

func TestFailuresAreCountedAndTheTargetStaysUnprovenUntilOneSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(1)
		ph.Requests = 3
		r := newRig(t, func(n int64, c *wire.Call) fake.Answer {
			if n == 0 {
				return fake.Answer{Status: 503, Parts: []fake.Part{{Data: []byte("busy")}}}
			}
			return steady(time.Millisecond, 0)(n, c)
		}, ph)
		s := r.run(t.Context()).Phases[0]
		if s.Failed != 1 || s.OK != 2 {
			t.Errorf("failed %d, ok %d; want 1, 2", s.Failed, s.OK)
		}
		if e := r.sink.records[0].Err; e == nil || e.Code != 503 || e.Type != "Service Unavailable" || e.Message != "busy" {
			t.Errorf("error %+v", e)
		}
		for i, want := range []metrics.Cold{metrics.ColdFirstInference, metrics.ColdFirstInference, 0} {
			if got := r.sink.records[i].Cold; got != want {
				t.Errorf("request %d is cold for %v, want %v", i, got.Names(), want.Names())
			}
		}
	})
}

func TestASessionsTurnsCarryTheAnswersAndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(1)
		ph.Sessions = 1
		r := newRig(t, steady(time.Millisecond, 0), ph)
		r.deps.Source = &numbered{turns: 3}
		s := r.run(t.Context()).Phases[0]
		if s.Sent != 3 || s.Sessions != 1 {
			t.Fatalf("%d requests in %d sessions, want 3 in 1", s.Sent, s.Sessions)
		}
		want := `{"M":[{"Role":"user","Content":"0/0.0"},{"Role":"assistant","Content":"role-lesstwothree"},` +
			`{"Role":"user","Content":"0/0.1"},{"Role":"assistant","Content":"role-lesstwothree"},{"Role":"user","Content":"0/0.2"}],"Max":100}`
		if got := r.sink.bodies["0/2"]; got != want {
			t.Errorf("the third turn's body is %s, want %s", got, want)
		}
		for i, rec := range r.sink.records {
			if rec.HTTP.ConnID != r.sink.records[0].HTTP.ConnID || rec.CorrelationID != r.sink.records[0].CorrelationID || rec.Turn != int32(i) {
				t.Errorf("turn %d: connection %d, session %s, turn %d", i, rec.HTTP.ConnID, rec.CorrelationID, rec.Turn)
			}
		}
	})
}

// Only what the source cannot have counted, a history with the server's answers, is left to the sink.
func TestTurnsThatHoldTheirWholeConversationGetNoHistory(t *testing.T) {
	for _, alone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ph := profiling(1)
			ph.Sessions = 1
			r := newRig(t, steady(time.Millisecond, 0), ph)
			r.deps.Source = &numbered{turns: 2, alone: alone}
			r.run(t.Context())
			want, input, count := `{"M":[{"Role":"user","Content":"0/0.1"}],"Max":100}`, "", metrics.Known(10)
			if !alone {
				want = `{"M":[{"Role":"user","Content":"0/0.0"},{"Role":"assistant","Content":"role-lesstwothree"},{"Role":"user","Content":"0/0.1"}],"Max":100}`
				input, count = "0/0.0 role-lesstwothree 0/0.1", metrics.Count{}
			}
			if got := r.sink.bodies["0/1"]; got != want {
				t.Errorf("the second turn's body is %s, want %s", got, want)
			}
			if got := r.sink.inputs; !slices.Equal(got, []string{"", input}) || r.sink.records[0].In != metrics.Known(10) || r.sink.records[1].In != count {
				t.Errorf("to be counted: %q, counts %v and %v", got, r.sink.records[0].In, r.sink.records[1].In)
			}
		})
	}
}

func TestStartedSessionsSendAllTheirTurns(t *testing.T) {
	for _, c := range []struct {
		concurrency    int
		sessions, want int64
	}{{1, 2, 6}, {2, 2, 6}, {5, 2, 6}, {3, 7, 21}} {
		synctest.Test(t, func(t *testing.T) {
			ph := profiling(c.concurrency)
			ph.Sessions = c.sessions
			r := newRig(t, steady(100*time.Millisecond, 0), ph)
			r.deps.Source = &numbered{turns: 3}
			s := r.run(t.Context()).Phases[0]
			if s.Sent != c.want || s.OK != c.want || s.Sessions != c.sessions {
				t.Errorf("%d sessions of 3 turns at %d at once: %d requests in %d sessions, %d ok; want %d", c.sessions, c.concurrency, s.Sent, s.Sessions, s.OK, c.want)
			}
			// The last request is sent 100 ms before it ends, and nothing is sent later.
			if s.End-s.SendEnd != 100*msec {
				t.Errorf("sending ended %d ns before the phase, want 100 ms", s.End-s.SendEnd)
			}
		})
	}
}

// stuck is a source whose next session never comes.
type stuck struct{ numbered }

func (s *stuck) Next(ctx context.Context, st loadgen.Stream) (*loadgen.Session, error) {
	if sess, err := s.numbered.Next(ctx, st); err == nil {
		return sess, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestASourceThatStandsStillDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(2)
		ph.Duration, ph.Grace = 10*time.Second, 0
		r := newRig(t, steady(time.Second, 0), ph)
		r.deps.Source = &stuck{numbered{limit: 3}}
		s := r.run(t.Context()).Phases[0]
		if s.Sent != 3 || s.OK != 3 || s.End-s.Start != 10*sec {
			t.Errorf("sent %d, ok %d, ended at %d; want 3, 3, 10 s", s.Sent, s.OK, s.End-s.Start)
		}
	})
}

func TestPhasesFollowOneAnotherAndDrawFromStreamsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warm := loadgen.Phase{Name: "warmup", Kind: metrics.Warmup, Concurrency: 2, Requests: 3, Grace: -1}
		ph := profiling(1)
		ph.Requests = 2
		r := newRig(t, steady(time.Second, 0), warm, ph)
		var told []string
		r.deps.OnPhase = func(i int, over *loadgen.PhaseSummary) {
			told = append(told, fmt.Sprint(i, over != nil, r.clock.Now()))
		}
		sum := r.run(t.Context())
		if sum.Phases[1].Start != sum.Phases[0].End || sum.Phases[0].End-sum.Phases[0].Start != 2*sec {
			t.Errorf("warm-up ended at %d, profiling began at %d", sum.Phases[0].End, sum.Phases[1].Start)
		}
		var want []string
		for i, ph := range sum.Phases {
			want = append(want, fmt.Sprint(i, false, ph.Start), fmt.Sprint(i, true, ph.End))
		}
		if !slices.Equal(told, want) {
			t.Errorf("told of the phases %q, want %q", told, want)
		}
		var got []string
		for _, rec := range r.sink.records {
			got = append(got, fmt.Sprintln(rec.Phase, rec.Kind, rec.Seq, rec.ConversationID))
		}
		slices.Sort(got)
		if want = []string{"0 warmup 0 0/0\n", "0 warmup 1 0/1\n", "0 warmup 2 0/2\n", "1 profiling 0 1/0\n", "1 profiling 1 1/1\n"}; !slices.Equal(got, want) {
			t.Errorf("records %q, want %q", got, want)
		}
	})
}

func TestTheEndOfTheSourceEndsThePhaseAndItsFailureTheRun(t *testing.T) {
	for _, broken := range []error{nil, errors.New("disk gone")} {
		synctest.Test(t, func(t *testing.T) {
			ph := profiling(2)
			ph.Requests = 100
			r := newRig(t, steady(time.Second, 0), ph)
			r.deps.Source = &numbered{limit: 5, broken: broken}
			sum, err := loadgen.Run(t.Context(), &r.plan, r.deps)
			r.close()
			if !errors.Is(err, broken) || sum.Phases[0].Sent != 5 || sum.Phases[0].OK != 5 {
				t.Errorf("error %v, sent %d, ok %d; want %v, 5, 5", err, sum.Phases[0].Sent, sum.Phases[0].OK, broken)
			}
			if broken != nil && !strings.Contains(err.Error(), `phase "profiling": request 5`) {
				t.Errorf("the error does not say where: %v", err)
			}
		})
	}
}

func TestImpossiblePlansAreRefused(t *testing.T) {
	for _, c := range []struct {
		plan loadgen.Plan
		want string
	}{
		{loadgen.Plan{}, "the plan has no target"},
		{loadgen.Plan{Targets: make([]loadgen.Target, 1)}, "the plan has no phase"},
		{loadgen.Plan{Targets: make([]loadgen.Target, 1), Phases: []loadgen.Phase{{Name: "a", Requests: 1}}}, `phase "a": concurrency is 0, it must be at least 1`},
		{loadgen.Plan{Targets: make([]loadgen.Target, 1), Phases: []loadgen.Phase{profiling(1)}},
			`phase "profiling": it has no end: give it a number of requests, a number of sessions or a duration`},
	} {
		if _, err := loadgen.Run(t.Context(), &c.plan, loadgen.Deps{}); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// opener records what the prewarm opens.
type opener struct {
	mu    sync.Mutex
	calls []string
}

func (o *opener) add(s string) { o.mu.Lock(); o.calls = append(o.calls, s); o.mu.Unlock() }

// warming is a rig with a prewarm against a server that answers /v1/models with models and inferences with infer.
func warming(t *testing.T, c int, models string, infer fake.Script) (*rig, *opener) {
	ph := profiling(c)
	ph.Requests = int64(c)
	o := new(opener)
	r := newRig(t, nil, ph)
	r.wire = fake.New(fake.Options{Clock: r.clock,
		Open: func(ctx context.Context, _ *wire.Target, n int, p wire.Probe) ([]wire.ConnFacts, error) {
			o.add(fmt.Sprintf("open %d %s", n, p.Path))
			return nil, r.clock.Until(ctx, r.clock.Now()+50*msec)
		},
		Script: func(n int64, c *wire.Call) fake.Answer {
			if c.Method == "GET" {
				o.add("GET " + c.Path)
				return fake.Answer{ContentType: "application/json", Parts: []fake.Part{{Data: []byte(models)}}}
			}
			o.add("POST " + string(c.Body))
			return infer(n, c)
		},
	})
	r.deps.Transport = r.wire
	r.plan.Prewarm = loadgen.Prewarm{On: true, MaxTokens: 8, Timeout: time.Minute, Model: "m", Input: 10, Output: 100,
		Models: func(body []byte) ([]loadgen.Model, error) {
			var m loadgen.Model
			_, err := fmt.Sscan(string(body), &m.ID, &m.MaxLen)
			return []loadgen.Model{m}, err
		},
		ErrorText: func(body string) string { return strings.Trim(body, "{}") },
		ContextFigures: func(text string) (limit, asked int, ok bool) {
			n, _ := fmt.Sscanf(text, "limit %d asked %d", &limit, &asked)
			return limit, asked, n == 2
		},
	}
	return r, o
}

func TestPrewarmMakesTheServerAndEveryConnectionWarmBeforeTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := warming(t, 3, "m 1000", func(n int64, c *wire.Call) fake.Answer {
			ttft := 100 * time.Millisecond
			if bytes.Contains(c.Body, []byte("-1/")) {
				ttft = 9 * time.Second // the server's first inference
			}
			return fake.Answer{Parts: []fake.Part{fake.Text(ttft, "a"), fake.Text(time.Millisecond, "b", ".", "$14"), fake.Text(0, "[DONE]")}}
		})
		sum := r.run(t.Context())
		want := []string{"open 1 /health", "GET /v1/models", `POST {"M":[{"Role":"user","Content":"-1/0.0"}],"Max":8}`, "open 2 /health"}
		if !slices.Equal(o.calls[:4], want) || len(o.calls) != 4+3 {
			t.Errorf("the prewarm did %q, want %q and then three requests", o.calls, want)
		}
		w := sum.Prewarm.Targets[0]
		if !w.Proven || w.MaxModelLen != 1000 || len(w.Connections) != 3 || len(w.Inferences) != 1 {
			t.Errorf("warmth %+v", w)
		}
		if inf := w.Inferences[0]; inf.TTFT != 9*sec || inf.Latency != 9*sec+msec || inf.Server != metrics.Known(14) || inf.Input != metrics.Known(10) {
			t.Errorf("inference %+v", inf)
		}
		for _, rec := range r.sink.records {
			if rec.Cold != 0 || rec.First-rec.Start != 100*msec || rec.HTTP.ConnUse < 2 {
				t.Errorf("request %d: cold %v, TTFT %d, use %d of its connection", rec.Seq, rec.Cold.Names(), rec.First-rec.Start, rec.HTTP.ConnUse)
			}
		}
		if len(r.sink.records) != 3 || sum.Phases[0].Sent != 3 || sum.Phases[0].Start != sum.Prewarm.End {
			t.Errorf("%d records; the phase began at %d, the prewarm ended at %d", len(r.sink.records), sum.Phases[0].Start, sum.Prewarm.End)
		}
	})
}

// Whoever learns from the throwaway may have another one, and may end the run.
func TestPrewarmTellsTheCountsOfTheThrowaway(t *testing.T) {
	for _, c := range []struct {
		again int // times that another one is asked for
		fail  bool
		want  int // throwaways
	}{{0, false, 1}, {1, false, 2}, {99, false, 3}, {0, true, 1}} {
		synctest.Test(t, func(t *testing.T) {
			r, o := warming(t, 1, "m 1000", func(int64, *wire.Call) fake.Answer {
				return fake.Answer{Parts: []fake.Part{fake.Text(time.Millisecond, "a"), fake.Text(time.Millisecond, "b", ".", "$14"), fake.Text(0, "[DONE]")}}
			})
			var told []metrics.Count
			r.plan.Prewarm.Learn = func(_ context.Context, ours, server metrics.Count) (bool, error) {
				told = append(told, ours, server)
				if c.fail {
					return false, errors.New("no good")
				}
				return len(told) <= 2*c.again, nil
			}
			if c.fail {
				_, err := loadgen.Run(t.Context(), &r.plan, r.deps)
				r.close()
				var pe *loadgen.PrewarmError
				if !errors.As(err, &pe) || pe.Msg != "no good" {
					t.Errorf("got %v", err)
				}
				return
			}
			sum := r.run(t.Context())
			var want []metrics.Count
			for range c.want {
				want = append(want, metrics.Known(10), metrics.Known(14))
			}
			if n := len(sum.Prewarm.Targets[0].Inferences); !slices.Equal(told, want) || n != c.want {
				t.Errorf("told %v in %d throwaways (%q), want %v", told, n, o.calls, want)
			}
		})
	}
}

func TestPrewarmEndsARunThatEveryRequestWouldFail(t *testing.T) {
	status := func(code int, text string) fake.Script {
		return func(int64, *wire.Call) fake.Answer {
			return fake.Answer{Status: code, ContentType: "text/plain", Parts: []fake.Part{{Data: []byte(text)}}}
		}
	}
	fine := func(int64, *wire.Call) fake.Answer {
		return fake.Answer{Parts: []fake.Part{fake.Text(0, "a", ".", "$25")}}
	}
	for _, c := range []struct {
		name, models string
		infer        fake.Script
		want         []string
	}{
		{"401", "m 1000", status(401, "{no key}"), []string{"http://fake/v1/chat/completions", "answered 401 Unauthorized: no key", "--api-key"}},
		{"403", "m 1000", status(403, "not you"), []string{"answered 403 Forbidden: not you", "--api-key"}},
		{"404", "other 1000", status(404, "no such model"), []string{"answered 404 Not Found: no such model", `"m"`, "the server lists: other", "--model"}},
		{"400", "m 12", status(400, "too long"), []string{"answered 400 Bad Request: too long", "10 tokens by our count", "max_model_len is 12"}},
		{"400 for the context", "m 12", status(400, "{limit 12 asked 13}"), []string{`model "m" is too small`, "10 tokens by our count", "13 tokens at least by the server's own",
			"max_model_len is 12", "the server said: limit 12 asked 13"}},
		{"302", "m 1000", status(302, ""), []string{"answered 302", "redirects are not followed"}},
		// 10 of our tokens were 25 of the server's, so the longest prompt of 10 is 25 there; with 100 output tokens 125 of 124.
		{"context", "m 124", fine, []string{`model "m" is too small`, "10 tokens by our count is 25 by the server's own", "100 output tokens 125 in all", "max_model_len is 124"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := warming(t, 2, c.models, c.infer)
				sum, err := loadgen.Run(t.Context(), &r.plan, r.deps)
				r.close()
				var pe *loadgen.PrewarmError
				if !errors.As(err, &pe) || len(sum.Phases) != 0 || len(r.sink.records) != 0 {
					t.Fatalf("error %v, %d phases, %d records; want a *PrewarmError before any load", err, len(sum.Phases), len(r.sink.records))
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // one more token of context, and it fits
		r, _ := warming(t, 2, "m 125", fine)
		if sum := r.run(t.Context()); sum.Phases[0].OK != 2 {
			t.Errorf("%d requests ok, want 2", sum.Phases[0].OK)
		}
	})
}

func TestPrewarmTriesABusyServerThreeTimesAndThenGoesOnUnproven(t *testing.T) {
	for _, failures := range []int64{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			tries := int64(0)
			r, _ := warming(t, 1, "m 1000", func(n int64, c *wire.Call) fake.Answer {
				if tries++; tries <= failures {
					return fake.Answer{Status: 503}
				}
				return steady(time.Millisecond, 0)(n, c)
			})
			sum := r.run(t.Context())
			w := sum.Prewarm.Targets[0]
			wantCold := metrics.Cold(0)
			if failures == 3 {
				wantCold = metrics.ColdFirstInference
			}
			if w.Proven != (failures < 3) || len(w.Inferences) != 3 || r.sink.records[0].Cold != wantCold {
				t.Errorf("after %d failures: proven %v, %d tries, first request cold for %v", failures, w.Proven, len(w.Inferences), r.sink.records[0].Cold.Names())
			}
		})
	}
}

func TestPrewarmSaysWhyThereIsNoConnection(t *testing.T) {
	for _, c := range []struct {
		kind string
		want string
	}{
		{"ClientConnectorError", "check --url, and that the server is up"}, {"ClientConnectorDNSError", "check the host name in --url"},
		{"ClientConnectorCertificateError", "SSL_CERT_FILE"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := warming(t, 1, "", nil)
			r.wire = fake.New(fake.Options{Clock: r.clock, Open: func(context.Context, *wire.Target, int, wire.Probe) ([]wire.ConnFacts, error) {
				return nil, &wire.Error{Type: c.kind, Message: "because"}
			}})
			r.deps.Transport = r.wire
			_, err := loadgen.Run(t.Context(), &r.plan, r.deps)
			if err == nil || !strings.HasPrefix(err.Error(), "http://fake: no connection: because; ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.kind, err)
			}
		})
	}
}

func TestTheUsersStopEndsThePrewarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := warming(t, 1, "m 1000", func(int64, *wire.Call) fake.Answer { return fake.Answer{Hang: true} })
		go func() { time.Sleep(2 * time.Second); close(r.stop) }()
		from := r.clock.Now()
		sum, err := loadgen.Run(t.Context(), &r.plan, r.deps)
		took := r.clock.Now() - from
		r.close()
		if err != nil || !sum.Stopped || len(sum.Phases) != 0 || took != 2*sec {
			t.Errorf("error %v, stopped %v, %d phases, after %d ns; want a stop at 2 s without an error", err, sum.Stopped, len(sum.Phases), took)
		}
	})
}
