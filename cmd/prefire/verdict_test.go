package main

import (
	"math"
	rtmetrics "runtime/metrics"
	"strings"
	"testing"
	"time"

	"prefire/internal/config"
	"prefire/internal/endpoint"
	"prefire/loadgen"
	"prefire/metrics"
)

func results(ttft, itl float64) []metrics.Result {
	return []metrics.Result{{Def: &metrics.Def{Tag: "time_to_first_token"}, Avg: ttft}, {Def: &metrics.Def{Tag: "inter_token_latency"}, Avg: itl}}
}

// inFlight is a run of one profiling phase.
func inFlight(asked int, sent, most int64, mean, waiting float64) []loadgen.PhaseSummary {
	return []loadgen.PhaseSummary{
		{Phase: loadgen.Phase{Name: "w", Kind: metrics.Warmup, Concurrency: 3}, Sent: 9},
		{Phase: loadgen.Phase{Name: "p", Kind: metrics.Profiling, Concurrency: asked}, Sent: sent, Sessions: sent,
			InFlight: loadgen.InFlight{Max: most, Mean: mean, Waiting: waiting}, Load: loadgen.LoadReport{Lateness: p99(9)}},
	}
}

// timed is a run of one phase whose requests have times.
func timed(change func(*loadgen.PhaseSummary)) []loadgen.PhaseSummary {
	ps := inFlight(0, 1000, 70, 50, 0)
	ps[1].Phase.Arrivals.Mode = loadgen.Paced
	ps[1].SendEnd, ps[1].Load.Due = 10e9, 1000
	change(&ps[1])
	return ps
}

func partOf(n, of int64) metrics.Part {
	return metrics.Part{N: n, Of: of, Share: float64(n) / float64(of)}
}

func p99(v float64) metrics.Spread { return metrics.Spread{Count: 10, P99: v, Max: 2 * v} }

func TestVerdictsSayWhatTheClientWasFitFor(t *testing.T) {
	full := inFlight(10, 100, 10, 10, 0.1)
	report := func(change func(*metrics.ClientReport)) *metrics.ClientReport {
		c := &metrics.ClientReport{
			ReceiveDelayFirst: p99(0.02), SendLate: p99(9), WriteTime: p99(0.05), KernelStamps: partOf(10, 10), TTFTExact: partOf(9, 10),
			TTFTSlack: p99(0), ITLSlack: p99(0), ITLMissing: partOf(0, 10), GapSlack: p99(0), GapsExact: partOf(100, 100), GapsShared: partOf(0, 100), EventsARead: 1,
		}
		change(c)
		return c
	}
	for _, c := range []struct {
		name   string
		rs     []metrics.Result
		phases []loadgen.PhaseSummary
		change func(*metrics.ClientReport)
		unfit  string // the claims it was not fit for
	}{
		{"all fit at the limits", results(50, 10), full, func(c *metrics.ClientReport) {
			c.TTFTSlack, c.ITLSlack, c.ITLMissing, c.GapsExact, c.GapsShared = p99(1), metrics.Spread{Count: 10, Avg: 0.2, P99: 1}, partOf(5, 100), partOf(95, 100), partOf(2, 100)
		}, ""},
		{"TTFT bound over 1 ms of 50", results(50, 10), full, func(c *metrics.ClientReport) { c.TTFTSlack = p99(1.1) }, "TTFT"},
		{"TTFT bound of 9 ms under 1 % of 1 s", results(1000, 10), full, func(c *metrics.ClientReport) { c.TTFTSlack = p99(9) }, ""},
		{"TTFT bound of 0.5 ms over a tenth of 1 ms", results(1, 10), full, func(c *metrics.ClientReport) { c.TTFTSlack = p99(0.5) }, "TTFT"},
		{"requests written slowly", results(50, 10), full, func(c *metrics.ClientReport) { c.WriteTime = p99(1.1) }, "TTFT"},
		{"ITL bound on average", results(50, 10), full, func(c *metrics.ClientReport) { c.ITLSlack = metrics.Spread{Count: 10, Avg: 0.21, P99: 0.5} }, "ITL"},
		{"ITL bound at p99", results(50, 10), full, func(c *metrics.ClientReport) { c.ITLSlack = p99(1.1) }, "ITL"},
		{"answers in one read", results(50, 10), full, func(c *metrics.ClientReport) { c.ITLMissing = partOf(6, 100) }, "ITL"},
		{"all answers in one read", results(50, 10)[:1], full, func(c *metrics.ClientReport) {
			c.ITLSlack, c.GapSlack, c.ITLMissing, c.GapsShared, c.GapsExact = metrics.Spread{}, metrics.Spread{}, partOf(10, 10), partOf(100, 100), partOf(0, 100)
		}, "ITL ICL"},
		{"gaps lost, and the mean is right", results(50, 10), full, func(c *metrics.ClientReport) { c.GapsShared, c.GapsExact = partOf(6, 100), partOf(94, 100) }, "ICL"},
		{"gaps not exact", results(50, 10), full, func(c *metrics.ClientReport) { c.GapsExact = partOf(94, 100) }, "ICL"},
		{"one session missing", results(50, 10), inFlight(10, 100, 9, 10, 0), nil, "load"},
		{"slots empty on average", results(50, 10), inFlight(10, 100, 10, 9.4, 0), nil, "load"},
		{"answers not taken up", results(50, 10), inFlight(10, 100, 10, 10, 0.6), nil, "load"},
		{"fewer requests than sessions", results(50, 10), inFlight(10, 4, 4, 4, 3), nil, ""},
		{"late at p99, and the slots full", results(50, 10), full, func(c *metrics.ClientReport) { c.SendLate = p99(400) }, ""},
		{"think times leave slots empty by plan", results(50, 10), func() []loadgen.PhaseSummary {
			ps := inFlight(10, 100, 7, 3, 0.1)
			ps[1].Sessions, ps[1].Thought = 20, true
			return ps
		}(), nil, ""},
		{"turns without think times, and slots that were never full", results(50, 10), func() []loadgen.PhaseSummary {
			ps := inFlight(10, 100, 7, 7, 0.1)
			ps[1].Sessions = 20
			return ps
		}(), nil, "load"},
		{"turns whose last sessions are alone", results(50, 10), func() []loadgen.PhaseSummary {
			ps := inFlight(10, 100, 10, 6, 0.1)
			ps[1].Sessions = 20
			return ps
		}(), nil, ""},
		{"fewer sessions than are asked at once", results(50, 10), func() []loadgen.PhaseSummary {
			ps := inFlight(10, 12, 3, 2.9, 0.1)
			ps[1].Sessions = 3
			return ps
		}(), nil, ""},
		{"a ramp, and answers not taken up", results(50, 10), func() []loadgen.PhaseSummary {
			ps := inFlight(10, 100, 7, 3, 0.2)
			ps[1].Phase.ConcurrencyRamp.Duration = time.Second
			return ps
		}(), nil, "load"},
		{"a rate kept", results(50, 10), timed(func(s *loadgen.PhaseSummary) { s.Load.Lateness, s.Load.Dropped = p99(10), 50 }), nil, ""},
		{"a rate kept late", results(50, 10), timed(func(s *loadgen.PhaseSummary) { s.Load.Lateness = p99(10.1) }), nil, "load"},
		{"arrivals dropped", results(50, 10), timed(func(s *loadgen.PhaseSummary) { s.Load.Dropped = 51 }), nil, "load"},
	} {
		if c.change == nil {
			c.change = func(*metrics.ClientReport) {}
		}
		var claims, unfit []string
		for _, v := range verdicts(c.rs, c.phases, report(c.change)) {
			claims = append(claims, v.Claim)
			if !v.Good {
				unfit = append(unfit, v.Claim)
			}
		}
		if got := strings.Join(claims, " "); got != "TTFT ITL ICL load" {
			t.Errorf("%s: claims %s", c.name, got)
		}
		if got := strings.Join(unfit, " "); got != c.unfit {
			t.Errorf("%s: not fit for %q, want %q", c.name, got, c.unfit)
		}
	}
}

// Another machine helps where the client was the limit, and not where the plan's own limits were.
func TestTheAdviceFitsTheReason(t *testing.T) {
	late, dropped := p99(20), int64(300)
	for _, c := range []struct {
		name            string
		change          func(*loadgen.PhaseSummary)
		client, limited bool
	}{
		{"as asked", func(*loadgen.PhaseSummary) {}, false, false},
		{"dropped", func(s *loadgen.PhaseSummary) { s.Load.Dropped = dropped }, false, true},
		{"late", func(s *loadgen.PhaseSummary) { s.Load.Lateness = late }, true, false},
		{"both", func(s *loadgen.PhaseSummary) { s.Load.Dropped, s.Load.Lateness = dropped, late }, true, false},
	} {
		b := bench{cfg: &config.Config{}, sink: &sink{}, load: &load{api: new(endpoint.Endpoint)}}
		said := strings.Join(b.runNotices(verdicts(nil, timed(c.change), &metrics.ClientReport{})), "\n")
		if client, limited := strings.Contains(said, "idle cores"), strings.Contains(said, "--concurrency"); client != c.client || limited != c.limited {
			t.Errorf("%s: %q", c.name, said)
		}
	}
}

func TestVerdictsGiveTheirReasons(t *testing.T) {
	c := &metrics.ClientReport{ReceiveDelayFirst: p99(0.02), SendLate: p99(1), WriteTime: p99(3), KernelStamps: partOf(10, 10), TTFTExact: partOf(9, 10),
		TTFTSlack: p99(0.5), ITLSlack: p99(0.1), ITLMissing: partOf(1, 11), GapSlack: p99(4), GapsExact: partOf(80, 100), GapsShared: partOf(15, 100), EventsARead: 14.2}
	for i, v := range verdicts(results(50, 10), inFlight(10, 100, 10, 10, 1), c) {
		if want := [...]string{
			"error bound p99 0.500 ms (at most 1.000), max 1.000 ms; 90.0 % of first tokens exact; kernel stamps; " +
				"the client took 3.000 ms at p99 to write a request, which TTFT holds",
			"error bound of a request's mean 0.000 ms on average (at most 0.200), p99 0.100 (at most 1.000), max 0.200; 1 of 11 answers came whole in one read and have none",
			"gaps between tokens are not trustworthy: 15 of 100 gaps lay within one read and are no measurement, 5 more have an end that is not exact " +
				"(bound max 8.000 ms); 14.2 events a read; the client was not late (first tokens read 0.020 ms after their arrival at p99): " +
				"they were sent or delivered together",
			"the load was not the one asked: phase p: 10 in flight asked, 10 at most; 9.00 on average with the server while sending (90.0 %); " +
				"1.00 more waited on this side, to be sent or with their answer there and not read, and were no load on the server; sent 9.000 ms after their time at p99",
		}[i]; v.Why != want {
			t.Errorf("why of %s:\n%q, want\n%q", v.Claim, v.Why, want)
		}
	}
	c.ReceiveDelayFirst = p99(7)
	if v := judgeGaps(c); !strings.HasSuffix(v.Why, "; the client was late (first tokens read 7.000 ms after their arrival at p99)") {
		t.Errorf("why of a late reader: %q", v.Why)
	}
	rate := timed(func(s *loadgen.PhaseSummary) {
		s.Sent, s.Load.Due, s.Load.Dropped, s.Load.Lateness = 700, 1000, 300, p99(40)
	})
	if got, want := judgeLoad(&rate[1]).Why, "the load was not the one asked: phase p: 50.00 in flight on average with the server while sending; "+
		"1000 requests due by the plan in 10 s, 700 sent; 300 found no place under the limits and were dropped; sent 40.000 ms after their time at p99"; got != want {
		t.Errorf("why of a rate: %q, want\n%q", got, want)
	}
	c.KernelStamps = partOf(0, 10)
	if v := judgeGaps(c); !strings.HasSuffix(v.Why, "; 14.2 events a read") {
		t.Errorf("why without kernel stamps: %q", v.Why)
	}
}

func TestTheClientsLineAndWhatStarvedIt(t *testing.T) {
	span := func(d time.Duration) reading[time.Duration] { return reading[time.Duration]{d, true} }
	u := used{wall: time.Second, cores: 2, cpu: span(500 * time.Millisecond), busy: span(1900 * time.Millisecond), stolen: span(40 * time.Millisecond),
		waited: span(250 * time.Millisecond), cycles: 3, stopped: 0.0004}
	c := &metrics.ClientReport{ReceiveDelayFirst: p99(0.02), SendLate: p99(1), EventsARead: 1.04}
	if got, want := clientLine("reactor", c, &u), "reactor; 25 % of 2 cores, the machine 95 %, 2 % stolen by its host; run-queue wait 0.25 s; "+
		"receive delay p99 0.020 ms; send lateness p99 1.000 ms; 1.0 events a read; 3 GCs, 0.4 ms paused"; got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
	if got, want := starved(&u), "the client's threads waited 0.25 s for a core beside 0.5 s at work; the machine was 95 % busy"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	u.waited = span(120 * time.Millisecond)
	if got := starved(&u); got != "" {
		t.Errorf("a client that had its cores was starved: %q", got)
	}
	if got, want := clientLine("portable", new(metrics.ClientReport), new(used)), "portable; 0 GCs, 0 ms paused"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPausesBetweenTwoReadings(t *testing.T) {
	at := func(counts ...uint64) machine {
		return machine{pauses: &rtmetrics.Float64Histogram{Counts: counts, Buckets: []float64{math.Inf(-1), 0.001, 0.002, math.Inf(1)}}}
	}
	for _, c := range []struct {
		from, to     machine
		sum, longest float64
	}{
		{at(1, 1, 1), at(1, 1, 1), 0, 0},
		{at(1, 1, 1), at(3, 1, 1), 0, 0.001},
		{at(1, 1, 1), at(1, 4, 1), 0.003, 0.002},
		{at(1, 1, 1), at(2, 2, 2), 0.003, 0.002},
		{machine{}, at(1, 1, 1), 0, 0},
	} {
		if sum, longest := c.to.pausesSince(c.from); sum != c.sum || longest != c.longest {
			t.Errorf("%v to %v: %v s in all and %v at once, want %v and %v", c.from.pauses, c.to.pauses, sum, longest, c.sum, c.longest)
		}
	}
}

func TestVerdictsClaimNothingWithoutValues(t *testing.T) {
	if vs := verdicts(nil, []loadgen.PhaseSummary{{Phase: loadgen.Phase{Kind: metrics.Profiling, Concurrency: 1}}}, new(metrics.ClientReport)); len(vs) != 0 {
		t.Errorf("verdicts %+v of a run without a request", vs)
	}
}

func TestWhatLiesBetweenTwoReadingsOfTheMachine(t *testing.T) {
	at := func(sec int, cpu, busy time.Duration, cycles uint64) machine {
		return machine{at: int64(sec) * 1e9, cpu: reading[time.Duration]{cpu, true}, busy: reading[time.Duration]{busy, true}, cores: 4, cycles: cycles}
	}
	u := at(3, 5*time.Second, 9*time.Second, 7).since(at(1, 4*time.Second, 6*time.Second, 5))
	u = u.add(at(10, 9*time.Second, 20*time.Second, 9).since(at(8, 7*time.Second, 15*time.Second, 8)))
	if u.wall != 4*time.Second || u.cpu.v != 3*time.Second || u.busy.v != 8*time.Second || u.cycles != 3 || u.waited.ok {
		t.Errorf("used %+v", u)
	}
	if u.ofCores(u.cpu.v) != 3.0/16 || u.ofCores(u.busy.v) != 0.5 {
		t.Errorf("shares %v and %v, want 0.1875 and 0.5", u.ofCores(u.cpu.v), u.ofCores(u.busy.v))
	}
	for _, f := range u.facts() {
		if strings.HasPrefix(f.Key, "run_queue") {
			t.Errorf("%s is given, and was not known", f.Key)
		}
	}
}
