package loadgen_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/metrics"
)

func paced(rate float64, n int64) loadgen.Phase {
	return loadgen.Phase{Name: "profiling", Kind: metrics.Profiling, Grace: -1, Requests: n,
		Arrivals: loadgen.Arrivals{Mode: loadgen.Paced, Pattern: loadgen.Constant, Rate: rate}}
}

// bySeq are the records in the order of their numbers.
func (b *book) bySeq() []metrics.Record {
	out := slices.Clone(b.records)
	slices.SortFunc(out, func(x, y metrics.Record) int { return int(x.Phase)*1e6 + int(x.Seq) - int(y.Phase)*1e6 - int(y.Seq) })
	return out
}

func TestAPacedPhaseSendsEveryArrivalAtItsTimeWhateverTheServerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, steady(6990*time.Millisecond, 0), paced(50, 500)) // 350 in flight
		s := r.run(t.Context()).Phases[0]
		if s.Sent != 500 || s.OK != 500 || s.InFlight.Max != 350 || s.SendEnd-s.Start != 10*sec || s.End-s.Start != 16990*msec {
			t.Errorf("sent %d, ok %d, %d in flight at most, sending ended after %d, all after %d; want 500, 500, 350, 10 s, 16.99 s",
				s.Sent, s.OK, s.InFlight.Max, s.SendEnd-s.Start, s.End-s.Start)
		}
		for i, rec := range r.sink.bySeq() {
			if want := s.Start + int64(i+1)*20*msec; rec.Intended != want || rec.Start != want || rec.Seq != int64(i) {
				t.Fatalf("request %d (number %d) was meant for %d and sent at %d, want %d", i, rec.Seq, rec.Intended, rec.Start, want)
			}
		}
		l := s.Load
		if l.Due != 500 || l.Dropped != 0 || l.Late != 0 || l.Burst != 0 || l.Lateness.Max != 0 {
			t.Errorf("load %+v", l)
		}
		if want := []int64{49, 50, 50, 50, 50, 50, 50, 50, 50, 50, 1}; !slices.Equal(l.Seconds.Sent, want) || !slices.Equal(l.Seconds.Due, want) {
			t.Errorf("sent by second %v, due %v, want %v", l.Seconds.Sent, l.Seconds.Due, want)
		}
	})
}

func TestADurationEndsAPacedPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := paced(10, 0)
		ph.Duration, ph.Grace = 10*time.Second, 2*time.Second
		r := newRig(t, steady(8*time.Second, 0), ph)
		s := r.run(t.Context()).Phases[0]
		// Arrivals at 0.1 to 9.9 s; those up to 4.0 s have ended by 12 s.
		if s.Sent != 99 || s.OK != 40 || s.Censored != 59 || s.SendEnd-s.Start != 10*sec || s.End-s.Start != 12*sec {
			t.Errorf("sent %d, ok %d, censored %d, sending for %d, ended at %d; want 99, 40, 59, 10 s, 12 s", s.Sent, s.OK, s.Censored, s.SendEnd-s.Start, s.End-s.Start)
		}
		if s.Load.Ran.Count != 59 || s.Load.Ran.Max != 7900 {
			t.Errorf("the censored had run for %+v, want 59 of up to 7.9 s", s.Load.Ran)
		}
	})
}

func TestAFullCapDropsArrivalsAndCountsThem(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*loadgen.Phase)
	}{
		{"sessions", func(ph *loadgen.Phase) { ph.Concurrency = 4 }},
		{"prefill", func(ph *loadgen.Phase) { ph.Prefill = 4 }},
	} {
		synctest.Test(t, func(t *testing.T) {
			ph := paced(50, 0)
			ph.Duration, ph.Grace = 10*time.Second+time.Millisecond, -1
			c.edit(&ph)
			r := newRig(t, steady(190*time.Millisecond, 0), ph) // 4 places take 21 a second
			s := r.run(t.Context()).Phases[0]
			// Each place is taken for 190 ms: by the first arrival that finds it free, 10 gaps of 20 ms after the one before.
			if s.Load.Due != 500 || s.Sent+s.Load.Dropped != 500 || s.Sent != 200 || s.InFlight.Max != 4 || s.Load.Late != 0 {
				t.Errorf("%s: %d due = %d sent + %d dropped, at most %d at once, %d late; want 500 = 200 + 300, 4, 0", c.name, s.Load.Due, s.Sent, s.Load.Dropped, s.InFlight.Max, s.Load.Late)
			}
			// The session that found no place is kept for the next arrival.
			for i, rec := range r.sink.bySeq() {
				if rec.Session != int64(i) {
					t.Fatalf("%s: request %d is of session %d", c.name, i, rec.Session)
				}
			}
		})
	}
}

// A client that stands still sends late what was due meanwhile, says so, and goes on with the schedule.
func TestAStandStillShowsAsLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, steady(10*time.Millisecond, 0), paced(50, 500))
		r.deps.Source = &slow{numbered: &numbered{}, at: 100, pause: 5 * time.Second}
		s := r.run(t.Context()).Phases[0]
		if s.Sent != 500 || s.End-s.Start != 10*sec+10*msec {
			t.Errorf("sent %d in %d ns, want 500 in 10.01 s", s.Sent, s.End-s.Start)
		}
		// Session 100, due at 2.02 s, was made from 2.00 s to 7.00 s; until then 250 arrivals came due, the last in time.
		l := s.Load
		if l.Late != 249 || l.Burst != 250 || l.Lateness.Max != 4980 {
			t.Errorf("%d late, at most %d in one go, %v ms late at most; want 249, 250, 4980", l.Late, l.Burst, l.Lateness.Max)
		}
	})
}

// What is still to be sent when the time is over is not sent, and counted.
func TestArrivalsMissedAtTheEndAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := paced(50, 0)
		ph.Duration = 4*time.Second + time.Millisecond
		r := newRig(t, steady(10*time.Millisecond, 0), ph)
		r.deps.Source = &slow{numbered: &numbered{}, at: 100, pause: 5 * time.Second}
		s := r.run(t.Context()).Phases[0]
		if l := s.Load; l.Due != 200 || s.Sent != 100 || l.Missed != 100 || l.Dropped != 0 {
			t.Errorf("%d due, %d sent, %d missed, %d dropped; want 200, 100, 100, 0", l.Due, s.Sent, l.Missed, l.Dropped)
		}
	})
}

// What was due before the time was up is sent, also where the client is a little behind then; nothing that is due later is.
func TestArrivalsDueBeforeTheEndAreSentAfterIt(t *testing.T) {
	for _, tt := range []struct {
		pause        time.Duration
		sent, missed int64
		end          int64 // of sending
	}{
		{0, 200, 0, 4*sec + msec},
		{170 * time.Millisecond, 200, 0, 4*sec + 70*msec}, // session 195, due at 3.92 s, is made from 3.90 s to 4.07 s
		{230 * time.Millisecond, 195, 5, 4*sec + msec + 100*msec},
	} {
		synctest.Test(t, func(t *testing.T) {
			ph := paced(50, 0)
			ph.Duration = 4*time.Second + time.Millisecond
			r := newRig(t, steady(10*time.Millisecond, 0), ph)
			r.deps.Source = &slow{numbered: &numbered{}, at: 195, pause: tt.pause}
			s := r.run(t.Context()).Phases[0]
			if l := s.Load; l.Due != 200 || s.Sent != tt.sent || l.Missed != tt.missed || s.SendEnd-s.Start != tt.end {
				t.Errorf("%v: %d due, %d sent, %d missed, until %d; want 200, %d, %d, %d", tt.pause, l.Due, s.Sent, l.Missed, s.SendEnd-s.Start, tt.sent, tt.missed, tt.end)
			}
		})
	}
}

// slow is a source whose session at takes a pause to make.
type slow struct {
	*numbered
	at    int64
	pause time.Duration
}

func (s *slow) Next(ctx context.Context, st loadgen.Stream) (*loadgen.Session, error) {
	sess, err := s.numbered.Next(ctx, st)
	if err == nil && sess.Index == s.at {
		time.Sleep(s.pause)
	}
	return sess, err
}

// delayed gives sessions turns with think times, and offsets in a trace.
type delayed struct {
	*numbered
	turns func(sess *loadgen.Session)
}

func (d *delayed) Next(ctx context.Context, st loadgen.Stream) (*loadgen.Session, error) {
	sess, err := d.numbered.Next(ctx, st)
	if err == nil {
		d.turns(sess)
	}
	return sess, err
}

func TestTurnsShareTheRateWithNewSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := paced(10, 0)
		ph.Sessions = 20
		r := newRig(t, steady(250*time.Millisecond, 0), ph)
		r.deps.Source = &numbered{turns: 5}
		s := r.run(t.Context()).Phases[0]
		if s.Sent != 100 || s.OK != 100 || s.Sessions != 20 {
			t.Fatalf("%d requests in %d sessions, %d ok; want 100 in 20", s.Sent, s.Sessions, s.OK)
		}
		for second, n := range s.Load.Seconds.Sent[:9] {
			if want := int64(10); n != want && (second > 0 || n != want-1) {
				t.Errorf("%d requests in second %d, want %d", n, second, want)
			}
		}
		next := map[int64]int32{}
		for _, rec := range r.sink.bySeq() {
			if rec.Turn != next[rec.Session] || rec.Start != rec.Intended {
				t.Fatalf("request %d: turn %d of session %d, %d was to come; sent %d ns late", rec.Seq, rec.Turn, rec.Session, next[rec.Session], rec.Start-rec.Intended)
			}
			next[rec.Session]++
		}
		if s.Load.Due != s.Sent+s.Load.Idle {
			t.Errorf("%d due, %d sent and %d without anything to send", s.Load.Due, s.Sent, s.Load.Idle)
		}
	})
}

func TestThinkingIsSaid(t *testing.T) {
	for _, think := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ph := profiling(2)
			ph.Sessions = 3
			r := newRig(t, steady(10*time.Millisecond, 0), ph)
			r.deps.Source = &delayed{&numbered{turns: 2}, func(s *loadgen.Session) { s.Turns[1].Delay = think }}
			if s := r.run(t.Context()).Phases[0]; s.Thought != (think > 0) {
				t.Errorf("think times of %v: %v", think, s.Thought)
			}
		})
	}
}

func TestThinkTimesCountFromTheAnswerAndAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(1)
		ph.Sessions = 1
		r := newRig(t, steady(time.Second, 0), ph)
		r.plan.DelayCap = 5 * time.Second
		r.deps.Source = &delayed{&numbered{turns: 3}, func(s *loadgen.Session) {
			s.Turns[1].Delay, s.Turns[2].Delay = 600*time.Second, 300*time.Millisecond
		}}
		s := r.run(t.Context()).Phases[0]
		for i, want := range []int64{0, 6000, 7300} {
			if rec := r.sink.records[i]; rec.Start-s.Start != want*msec {
				t.Errorf("turn %d was sent at %d ns, want %d ms", i, rec.Start-s.Start, want)
			}
		}
		if s.InFlight.Max != 1 {
			t.Errorf("%d in flight", s.InFlight.Max)
		}
	})
}

// A server that keeps a connection for 5 s makes no turn cold that comes 8 s after the one before: as many connections are kept ready as there
// are sessions.
func TestThinkTimesBeyondTheKeepAliveMakeNothingCold(t *testing.T) {
	for _, c := range []struct {
		prewarm    bool
		cold, sets int64
	}{
		{true, 0, 18},
		{false, 15, 3}, // all but the first turns of the later three sessions, which begin where the first three end
	} {
		synctest.Test(t, func(t *testing.T) {
			ph := profiling(3)
			ph.Sessions = 6
			r := newRig(t, nil, ph)
			r.wire = fake.New(fake.Options{Clock: r.clock, Script: steady(time.Second, 0), KeepAlive: 5 * time.Second})
			r.deps.Transport = r.wire
			r.plan.Prewarm = loadgen.Prewarm{On: c.prewarm, MaxTokens: 8}
			r.deps.Source = &delayed{&numbered{turns: 3}, func(s *loadgen.Session) {
				s.Turns[1].Delay, s.Turns[2].Delay = 8*time.Second, 8*time.Second
			}}
			r.run(t.Context())
			acc := metrics.NewAccumulator(metrics.Options{Streaming: true})
			for i := range r.sink.records {
				acc.Add(&r.sink.records[i])
			}
			if cold, ttft := acc.Cold().Count, result(t, acc, "time_to_first_token"); cold != c.cold || ttft.Count != c.sets {
				t.Errorf("prewarm %v: %d cold, %d in the set of TTFT; want %d, %d", c.prewarm, cold, ttft.Count, c.cold, c.sets)
			}
		})
	}
}

// result is one metric of acc.
func result(t *testing.T, acc *metrics.Accumulator, tag string) metrics.Result {
	t.Helper()
	for _, r := range acc.Results(metrics.Window{Start: 1, End: sec}) {
		if r.Def.Tag == tag {
			return r
		}
	}
	t.Fatalf("there is no %s", tag)
	return metrics.Result{}
}

// A server of 10 ms that freezes for 5 s, at 50 requests a second. A rate shows it in the latency from the intended time, whatever stands
// between the plan and the server; a closed loop waits with the server, and its p99 knows nothing of it.
func TestAFreezeShowsInTheLatencyFromTheIntendedTime(t *testing.T) {
	const n = 1500
	limited := loadgen.Phase{Name: "profiling", Kind: metrics.Profiling, Grace: -1, Concurrency: 4, Arrivals: loadgen.Arrivals{Mode: loadgen.Scheduled}}
	closed := profiling(1)
	closed.Requests = n
	for _, c := range []struct {
		name              string
		phase             loadgen.Phase
		service, anchored float64 // p99, ms; 0 = there is none
	}{
		// Arrivals k × 20 ms, those from 10 s on answered at 15.01 s: the 15th and 16th largest latency are 4.73 and 4.71 s.
		{"a rate", paced(50, n), 4710.2, 4710.2},
		// Four are with the server while it stands still; the others wait here, and then take 10 ms, four at a time.
		{"a schedule under a limit", limited, 10, 4740.2},
		{"a closed loop", closed, 10, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var start atomic.Int64
			var r *rig
			r = newRig(t, func(i int64, call *wire.Call) fake.Answer {
				latency := 10 * msec
				if at := r.clock.Now() - start.Load(); at >= 10*sec && at < 15*sec {
					latency += 15*sec - at
				}
				return steady(time.Duration(latency), 0)(i, call)
			}, c.phase)
			r.deps.OnPhase = func(int, *loadgen.PhaseSummary) { start.CompareAndSwap(0, r.clock.Now()) }
			r.plan.Prewarm = loadgen.Prewarm{On: true, MaxTokens: 8} // without, the first inference is cold, and the sets have one value less
			r.deps.Source = &delayed{&numbered{limit: n}, func(s *loadgen.Session) {
				s.Turns[0].At, s.Turns[0].Timed = time.Duration(s.Index)*20*time.Millisecond, true
			}}
			open := c.anchored != 0
			s := r.run(t.Context()).Phases[0]
			acc := metrics.NewAccumulator(metrics.Options{Streaming: true, OpenLoop: open})
			for i := range r.sink.records {
				acc.Add(&r.sink.records[i])
			}
			if s.OK != n {
				t.Fatalf("%s: %d ok, want %d", c.name, s.OK, n)
			}
			p99 := func(tag string, want float64) {
				if got := result(t, acc, tag).P[len(metrics.Percentiles)-1]; math.Abs(got-want) > 1e-6 {
					t.Errorf("%s: %s p99 is %v ms, want %v", c.name, tag, got, want)
				}
			}
			p99("time_to_first_token", c.service)
			p99("request_latency", c.service)
			if open {
				p99("time_to_first_token_from_intended", c.anchored)
				p99("request_latency_from_intended", c.anchored)
			}
		})
	}
}

func TestATraceIsSentAtItsTimes(t *testing.T) {
	trace := []time.Duration{0, 0, 100 * time.Millisecond, 1500 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second}
	source := func() loadgen.Source {
		return &delayed{&numbered{turns: 2, limit: int64(len(trace))}, func(s *loadgen.Session) {
			s.Turns[0].At, s.Turns[0].Timed = trace[s.Index], true
			if s.Index == 0 {
				s.Turns[1].At, s.Turns[1].Timed = 3*time.Second, true
			} else {
				s.Turns[1].Delay = 700 * time.Millisecond
			}
		}}
	}
	ph := loadgen.Phase{Name: "profiling", Kind: metrics.Profiling, Grace: -1, Arrivals: loadgen.Arrivals{Mode: loadgen.Scheduled}}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, steady(200*time.Millisecond, 0), ph)
		r.deps.Source = source()
		s := r.run(t.Context()).Phases[0]
		if s.Sent != 12 || s.OK != 12 || s.Load.Late != 0 || s.Load.Due != 12 {
			t.Errorf("sent %d, ok %d, %d late, %d due; want 12, 12, 0, 12", s.Sent, s.OK, s.Load.Late, s.Load.Due)
		}
		for _, rec := range r.sink.records {
			want := int64(trace[rec.Session])
			if rec.Turn == 1 {
				want += 900 * msec
				if rec.Session == 0 {
					want = 3 * sec
				}
			}
			if rec.Start-s.Start != want || rec.Intended != rec.Start {
				t.Errorf("turn %d of row %d was sent at %d, meant for %d; want %d", rec.Turn, rec.Session, rec.Start-s.Start, rec.Intended-s.Start, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) { // a cap makes rows late, and drops none
		capped := ph
		capped.Concurrency = 1
		r := newRig(t, steady(200*time.Millisecond, 0), capped)
		r.deps.Source = source()
		s := r.run(t.Context()).Phases[0]
		if s.Sent != 12 || s.Load.Dropped != 0 || s.InFlight.Max != 1 || s.Load.Late != 5 {
			t.Errorf("sent %d, %d dropped, %d at once, %d late; want 12, 0, 1, 5", s.Sent, s.Load.Dropped, s.InFlight.Max, s.Load.Late)
		}
	})
}

// What a server's slowness holds up is not late on this side.
func TestATurnOfATraceIsNotDueBeforeTheAnswerBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := loadgen.Phase{Name: "profiling", Kind: metrics.Profiling, Grace: -1, Arrivals: loadgen.Arrivals{Mode: loadgen.Scheduled}}
		r := newRig(t, steady(200*time.Millisecond, 0), ph)
		r.deps.Source = &delayed{&numbered{turns: 3, limit: 1}, func(s *loadgen.Session) {
			for i, at := range []time.Duration{50, 100, 600} {
				s.Turns[i].At, s.Turns[i].Timed = at*time.Millisecond, true
			}
		}}
		s := r.run(t.Context()).Phases[0]
		var got []int64
		for _, rec := range r.sink.records {
			got = append(got, (rec.Intended-s.Start)/msec, (rec.Start-s.Start)/msec)
		}
		if want := []int64{50, 50, 250, 250, 600, 600}; !slices.Equal(got, want) || s.Load.Late != 0 || s.Load.Lateness.Max != 0 {
			t.Errorf("meant for and sent at %v ms, %d late, by %v ms at most; want %v, 0, 0", got, s.Load.Late, s.Load.Lateness.Max, want)
		}
	})
}

// The example of aiperf's user-centric mode: 15 users, 20 turns, 1 request a second.
func TestUsersStandAtDifferentPointsOfTheirSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := loadgen.Phase{Name: "profiling", Kind: metrics.Profiling, Grace: -1, Requests: 60,
			Arrivals: loadgen.Arrivals{Mode: loadgen.Users, Rate: 1, Users: 15, Turns: 20}}
		r := newRig(t, steady(200*time.Millisecond, 0), ph)
		r.deps.Source = &numbered{turns: 20}
		s := r.run(t.Context()).Phases[0]
		recs := r.sink.bySeq()
		if s.Sent != 60 || s.Load.Due != 60 || s.Load.Late != 0 {
			t.Fatalf("sent %d of %d due, %d late; want 60 of 60, none late", s.Sent, s.Load.Due, s.Load.Late)
		}
		for i, rec := range recs { // one request a second, whoever sends it
			if rec.Start-s.Start != int64(i)*sec || rec.Intended != rec.Start {
				t.Errorf("request %d was sent at %d ns", i, rec.Start-s.Start)
			}
		}
		var order []string
		for _, rec := range recs[:15] {
			order = append(order, rec.CorrelationID)
		}
		if got, want := strings.Join(order, " "), "16 5 9 13 2 6 10 14 3 7 11 15 4 8 12"; got != want {
			t.Errorf("users send in the order %s, want %s", got, want)
		}
		// User 2 has 2 turns, at 4 and 19 s; the user in its place begins at 34 s.
		if recs[19].CorrelationID != "2" || recs[34].CorrelationID != "17" || recs[34].Turn != 0 {
			t.Errorf("request 19 is of user %s, request 34 turn %d of user %s; want 2, 0, 17", recs[19].CorrelationID, recs[34].Turn, recs[34].CorrelationID)
		}
	})
}

func TestALateAnswerShiftsItsUserAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := loadgen.Phase{Name: "profiling", Kind: metrics.Profiling, Grace: -1, Requests: 12,
			Arrivals: loadgen.Arrivals{Mode: loadgen.Users, Rate: 2, Users: 4, Turns: 100}}
		r := newRig(t, func(n int64, c *wire.Call) fake.Answer {
			if n == 0 {
				return steady(2500*time.Millisecond, 0)(n, c)
			}
			return steady(100*time.Millisecond, 0)(n, c)
		}, ph)
		r.deps.Source = &numbered{turns: 100}
		s := r.run(t.Context()).Phases[0]
		var first, other []int64
		for _, rec := range r.sink.bySeq() {
			if rec.CorrelationID == "5" {
				first = append(first, (rec.Start-s.Start)/msec)
			} else if rec.CorrelationID == r.sink.bySeq()[1].CorrelationID {
				other = append(other, (rec.Start-s.Start)/msec)
			}
		}
		if !slices.Equal(first[:2], []int64{0, 2500}) || !slices.Equal(other[:2], []int64{500, 2500}) {
			t.Errorf("the user with a late answer sends at %v ms, another at %v; want 0, 2500 and 500, 2500", first, other)
		}
	})
}

func TestConcurrencyAndPrefillRampsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(5)
		ph.Requests = 100
		ph.ConcurrencyRamp = loadgen.Ramp{Duration: 4 * time.Second}
		r := newRig(t, steady(100*time.Second, 0), ph)
		ph.Requests = 5
		r.plan.Phases[0] = ph
		s := r.run(t.Context()).Phases[0]
		for i, rec := range r.sink.bySeq() {
			if rec.Start-s.Start != int64(i)*sec {
				t.Errorf("session %d began at %d ns, want %d s", i, rec.Start-s.Start, i)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(6)
		ph.Requests, ph.Prefill = 6, 2
		r := newRig(t, func(int64, *wire.Call) fake.Answer { // 1 s to the first token, 10 s in all
			return fake.Answer{Parts: []fake.Part{fake.Text(300*time.Millisecond, ""), fake.Text(700*time.Millisecond, "a"), fake.Text(9*time.Second, "b", "."), fake.Text(0, "[DONE]")}}
		}, ph)
		s := r.run(t.Context()).Phases[0]
		for i, rec := range r.sink.bySeq() {
			if want := int64(i/2) * sec; rec.Start-s.Start != want {
				t.Errorf("request %d was sent at %d ns, want %d", i, rec.Start-s.Start, want)
			}
		}
		if s.InFlight.Max != 6 {
			t.Errorf("%d in flight at most, want 6", s.InFlight.Max)
		}
	})
}

// A request that fails before its first token gives its place back too.
func TestFailedRequestsKeepNoPrefillPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(3)
		ph.Requests, ph.Prefill = 30, 1
		r := newRig(t, func(n int64, c *wire.Call) fake.Answer {
			if n%2 == 0 {
				return fake.Answer{Status: 500, Parts: []fake.Part{{After: time.Second, Data: []byte("no")}}}
			}
			return steady(time.Second, 0)(n, c)
		}, ph)
		s := r.run(t.Context()).Phases[0]
		if s.Sent != 30 || s.OK != 15 || s.Failed != 15 || s.End-s.Start != 30*sec {
			t.Errorf("sent %d, ok %d, failed %d in %d ns; want 30, 15, 15 in 30 s", s.Sent, s.OK, s.Failed, s.End-s.Start)
		}
	})
}

func TestRequestsAreCancelledAfterTheirLastByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := profiling(1)
		ph.Requests = 400
		ph.Cancel = loadgen.Cancellation{Share: 0.25, Delay: 500 * time.Millisecond}
		r := newRig(t, func(int64, *wire.Call) fake.Answer {
			a := steady(2*time.Second, 0)(0, nil)
			a.Send = 50 * time.Millisecond
			return a
		}, ph)
		r.plan.Seed = 4
		s := r.run(t.Context()).Phases[0]
		if s.Cancelled+s.OK != 400 || s.Cancelled < 65 || s.Cancelled > 135 { // 100 ± 4 standard deviations
			t.Errorf("%d cancelled, %d ok of 400", s.Cancelled, s.OK)
		}
		for _, rec := range r.sink.records {
			if rec.Cancelled != (rec.Err != nil) || rec.Cancelled && (rec.CancelledAt-rec.HTTP.LastWrite != 500*msec || rec.Err.Message != "Request cancelled 0.500s after being sent") {
				t.Fatalf("request %d: cancelled %v at %d, last byte at %d, error %+v", rec.Seq, rec.Cancelled, rec.CancelledAt, rec.HTTP.LastWrite, rec.Err)
			}
		}
	})
}

func TestASeamlessPhaseBeginsWithTheEndOfSending(t *testing.T) {
	for _, seamless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := profiling(4), profiling(4)
			a.Name, a.Duration = "a", 2500*time.Millisecond
			b.Name, b.Requests, b.Seamless = "b", 8, seamless
			r := newRig(t, steady(time.Second, 0), a, b)
			var told []string
			r.deps.OnPhase = func(i int, over *loadgen.PhaseSummary) { told = append(told, fmt.Sprint(i, " ", over != nil)) }
			sum := r.run(t.Context())
			x, y := sum.Phases[0], sum.Phases[1]
			begin, order := 3*sec, "0 false 0 true 1 false 1 true"
			if seamless {
				begin, order = 2500*msec, "0 false 1 false 0 true 1 true"
			}
			if y.Start-x.Start != begin || x.SendEnd-x.Start != 2500*msec || x.End-x.Start != 3*sec || x.OK != 12 || y.OK != 8 || r.wire.MaxInFlight() != 4 {
				t.Errorf("seamless %v: the second began %d after the first, which sent for %d and ended at %d; %d and %d ok, %d at once", seamless,
					y.Start-x.Start, x.SendEnd-x.Start, x.End-x.Start, x.OK, y.OK, r.wire.MaxInFlight())
			}
			if got := strings.Join(told, " "); got != order {
				t.Errorf("seamless %v: told %s, want %s", seamless, got, order)
			}
		})
	}
}

// The end of a phase and the begin of the seamless one after it may come in either order.
func TestASeamlessPhaseFollowsOneWithNothingInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var phases []loadgen.Phase
		for i := range 20 {
			ph := profiling(1)
			ph.Requests, ph.Seamless = 2, i > 0
			phases = append(phases, ph)
		}
		for i, s := range newRig(t, steady(time.Second, 0), phases...).run(t.Context()).Phases {
			if s.OK != 2 || s.Sent != 2 || s.End-s.Start != 2*sec {
				t.Errorf("phase %d: %d sent, %d ok, in %d ns", i, s.Sent, s.OK, s.End-s.Start)
			}
		}
	})
}

// A seamless phase does not follow one whose source failed.
func TestAFailedSourceEndsASeamlessRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := profiling(2), profiling(2)
		a.Requests, b.Requests, b.Seamless = 8, 8, true
		r := newRig(t, steady(time.Second, 0), a, b)
		r.deps.Source = &numbered{limit: 3, broken: errors.New("the disk is gone")}
		sum, err := loadgen.Run(t.Context(), &r.plan, r.deps)
		r.close()
		if err == nil || !strings.Contains(err.Error(), "the disk is gone") || len(sum.Phases) != 1 || sum.Phases[0].OK != 3 {
			t.Errorf("%v, %d phases", err, len(sum.Phases))
		}
	})
}

// What must come before a phase and fails ends the run without it, the phase that it would have followed seamlessly to its own end.
func TestAPhaseThatMayNotBeginEndsTheRun(t *testing.T) {
	for _, seamless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			warm, ph := profiling(2), profiling(2)
			warm.Kind, warm.Name, warm.Requests, ph.Requests, ph.Seamless = metrics.Warmup, "warmup", 6, 6, seamless
			r := newRig(t, steady(time.Second, 0), warm, ph)
			var before []int
			no := errors.New("no profiler")
			r.deps.Before = func(_ context.Context, phase int) error {
				if before = append(before, phase); phase == 1 {
					return no
				}
				return nil
			}
			sum, err := loadgen.Run(t.Context(), &r.plan, r.deps)
			r.close()
			if !errors.Is(err, no) || !slices.Equal(before, []int{0, 1}) || len(sum.Phases) != 1 || sum.Phases[0].OK != 6 {
				t.Errorf("seamless %v: %v after %v, phases %+v; want the error after 0 and 1, one phase of 6", seamless, err, before, sum.Phases)
			}
		})
	}
}

func TestTooManyFailuresEndTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := 0.5
		ph := profiling(4)
		ph.Requests, ph.FailedShare = 1000, &share
		r := newRig(t, func(n int64, c *wire.Call) fake.Answer {
			if n >= 8 {
				return fake.Answer{Status: 500, Head: 10 * time.Millisecond}
			}
			return steady(time.Second, 0)(n, c)
		}, ph, ph)
		r.plan.Phases[1].Name = "second"
		sum, err := loadgen.Run(t.Context(), &r.plan, r.deps)
		r.close()
		var fe *loadgen.FailuresError
		if !errors.As(err, &fe) || fe.Failed != 9 || fe.Of != 17 || len(sum.Phases) != 1 {
			t.Fatalf("error %v, %d phases; want 9 of 17 in the first phase", err, len(sum.Phases))
		}
		if s := sum.Phases[0]; s.OK != 8 || s.Sent != s.OK+s.Failed || s.Sent > 17+4 {
			t.Errorf("sent %d, ok %d, failed %d", s.Sent, s.OK, s.Failed)
		}
	})
}

func TestConnectionsAreReadyAheadOfNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ph := paced(100, 300)
		r := newRig(t, nil, ph)
		opened := 0
		r.wire = fake.New(fake.Options{Clock: r.clock, Script: steady(995*time.Millisecond, 0),
			Open: func(ctx context.Context, _ *wire.Target, n int, _ wire.Probe) ([]wire.ConnFacts, error) {
				err := r.clock.Until(ctx, r.clock.Now()+20*msec)
				opened += n
				return nil, err
			}})
		r.deps.Transport = r.wire
		r.plan.Prewarm = loadgen.Prewarm{On: true, MaxTokens: 8}
		sum := r.run(t.Context())
		if s := sum.Phases[0]; s.InFlight.Max != 100 {
			t.Fatalf("%d in flight at most, want 100", s.InFlight.Max)
		}
		for _, rec := range r.sink.records {
			if rec.Cold != 0 || rec.HTTP.ConnUse < 2 {
				t.Fatalf("request %d is cold for %v, use %d of its connection", rec.Seq, rec.Cold.Names(), rec.HTTP.ConnUse)
			}
		}
		// The throwaway took 995 ms: 99.5 in flight were foreseen, with 8 spare.
		if opened != 108 {
			t.Errorf("%d connections opened, want 108", opened)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a server that becomes slower than it was for the throwaway
		ph := paced(100, 500)
		r := newRig(t, nil, ph)
		var ready atomic.Int64
		r.wire = fake.New(fake.Options{Clock: r.clock,
			Script: func(n int64, c *wire.Call) fake.Answer {
				if n == 0 {
					return steady(10*time.Millisecond, 0)(n, c)
				}
				if inUse := int64(r.wire.InFlight()); inUse > ready.Load() {
					t.Errorf("request %d: %d in flight and %d connections ready", n, inUse, ready.Load())
				}
				return steady(2995*time.Millisecond, 0)(n, c) // between two sends: no end and no start at one time
			},
			Open: func(ctx context.Context, _ *wire.Target, n int, _ wire.Probe) ([]wire.ConnFacts, error) {
				err := r.clock.Until(ctx, r.clock.Now()+20*msec)
				ready.Add(int64(n))
				return nil, err
			}})
		r.deps.Transport = r.wire
		r.plan.Prewarm = loadgen.Prewarm{On: true, MaxTokens: 8}
		if s := r.run(t.Context()).Phases[0]; s.InFlight.Max != 300 || ready.Load() > 330 {
			t.Errorf("%d in flight at most with %d connections ready, want 300 with little more", s.InFlight.Max, ready.Load())
		}
	})
}

// The list of (number, body, intended time) follows from the seed, whatever the number of cores.
func TestTheListOfRequestsDoesNotDependOnTheCores(t *testing.T) {
	list := func(procs int) (sums []string) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		synctest.Test(t, func(t *testing.T) {
			warm, ph := paced(300, 100), paced(1000, 0)
			warm.Kind, warm.Name = metrics.Warmup, "warmup"
			ph.Arrivals.Pattern, ph.Duration = loadgen.Poisson, 2*time.Second
			r := newRig(t, steady(30*time.Millisecond, time.Millisecond), warm, ph)
			r.plan.Seed = 77
			sum := r.run(t.Context())
			for _, rec := range r.sink.bySeq() {
				h := fnv.New64()
				_, _ = h.Write([]byte(r.sink.bodies[fmt.Sprintf("%d/%d", rec.Phase, rec.Seq)]))
				sums = append(sums, fmt.Sprint(rec.Phase, rec.Seq, h.Sum64(), rec.Intended-sum.Phases[rec.Phase].Start))
			}
		})
		return sums
	}
	first := list(1)
	if len(first) < 1900 {
		t.Fatalf("%d requests", len(first))
	}
	for _, procs := range []int{2, 8} {
		if got := list(procs); !slices.Equal(got, first) {
			t.Errorf("on %d cores %d requests, not those %d of one core", procs, len(got), len(first))
		}
	}
}

func TestATraceOfManyRowsReplaysInFlatMemory(t *testing.T) {
	const rows = 100_000
	synctest.Test(t, func(t *testing.T) {
		ph := loadgen.Phase{Name: "profiling", Kind: metrics.Profiling, Grace: -1, Arrivals: loadgen.Arrivals{Mode: loadgen.Scheduled}}
		r := newRig(t, steady(5*time.Millisecond, 0), ph)
		var heap []uint64
		r.deps.Source = &delayed{&numbered{limit: rows}, func(s *loadgen.Session) {
			s.Turns[0].At, s.Turns[0].Timed = time.Duration(s.Index)*time.Millisecond, true
			if s.Index%(rows/4) == rows/8 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap = append(heap, m.HeapAlloc)
			}
		}}
		r.deps.Sink = nowhere{}
		s := r.run(t.Context()).Phases[0]
		if s.Sent != rows || s.OK != rows || s.InFlight.Max > 6 {
			t.Errorf("sent %d, ok %d, %d at once; want %d, all, at most 6", s.Sent, s.OK, s.InFlight.Max, rows)
		}
		if last, first := heap[len(heap)-1], heap[0]; last > first+2<<20 {
			t.Errorf("the heap grew from %d to %d bytes", first, last)
		}
	})
}

// nowhere is a sink that keeps nothing.
type nowhere struct{}

func (nowhere) Issued(loadgen.Stream, int64, *loadgen.Session, []byte) {}
func (nowhere) Finished(*loadgen.Finished)                             {}
