package main

import (
	"strings"
	"testing"
	"time"

	"prefire/loadgen"
	"prefire/metrics"
)

func TestVerdictsSayWhatTheClientWasFitFor(t *testing.T) {
	results := func(ttft, itl, latency float64) []metrics.Result {
		return []metrics.Result{
			{Def: &metrics.Def{Tag: "time_to_first_token"}, Avg: ttft}, {Def: &metrics.Def{Tag: "inter_token_latency"}, Avg: itl},
			{Def: &metrics.Def{Tag: "request_latency"}, Avg: latency},
		}
	}
	phase := func(asked int, sent, most int64) []loadgen.PhaseSummary {
		return []loadgen.PhaseSummary{
			{Phase: loadgen.Phase{Name: "w", Kind: metrics.Warmup, Concurrency: 3}, Sent: 9},
			{Phase: loadgen.Phase{Name: "p", Kind: metrics.Profiling, Concurrency: asked}, Sent: sent, InFlight: loadgen.InFlight{Max: most, Mean: float64(most)}},
		}
	}
	empty := func(ps []loadgen.PhaseSummary, mean float64) []loadgen.PhaseSummary {
		ps[1].InFlight.Mean = mean
		return ps
	}
	report := func(slackP99, itlP99, shared, lateP99 float64) metrics.ClientReport {
		return metrics.ClientReport{
			KernelStamps: metrics.Part{N: 10, Of: 10, Share: 1}, TTFTExact: metrics.Part{N: 9, Of: 10, Share: 0.9},
			TTFTSlack: metrics.Spread{Count: 10, P99: slackP99, Max: 2 * slackP99}, ITLSlack: metrics.Spread{Count: 10, P99: itlP99},
			GapsShared: metrics.Part{N: int64(100 * shared), Of: 100, Share: shared}, SendLate: metrics.Spread{Count: 10, P99: lateP99},
		}
	}
	waiting := phase(10, 100, 10)
	waiting[1].InFlight.Waiting = 0.2
	for _, c := range []struct {
		name            string
		rs              []metrics.Result
		phases          []loadgen.PhaseSummary
		client          metrics.ClientReport
		ttft, itl, load bool
	}{
		{"all fit", results(50, 10, 500), phase(10, 100, 10), report(0.9, 0.19, 0.05, 9.9), true, true, true},
		{"TTFT bound over 1 ms of 50", results(50, 10, 500), phase(10, 100, 10), report(1.1, 0.1, 0, 0), false, true, true},
		{"TTFT bound of 9 ms under 1 % of 1 s", results(1000, 10, 5000), phase(10, 100, 10), report(9, 0.1, 0, 0), true, true, true},
		{"TTFT bound of 0.5 ms over a tenth of 1 ms", results(1, 10, 500), phase(10, 100, 10), report(0.5, 0.1, 0, 0), false, true, true},
		{"gaps lost", results(50, 10, 500), phase(10, 100, 10), report(0, 0, 0.06, 0), true, false, true},
		{"ITL bound", results(50, 10, 500), phase(10, 100, 10), report(0, 0.21, 0, 0), true, false, true},
		{"one session missing", results(50, 10, 500), phase(10, 100, 9), report(0, 0, 0, 0), true, true, false},
		{"slots empty on average", results(50, 10, 500), empty(phase(10, 100, 10), 9.4), report(0, 0, 0, 0), true, true, false},
		{"fewer requests than sessions", results(50, 10, 500), phase(10, 4, 4), report(0, 0, 0, 0), true, true, true},
		{"a session in fifty waits for a stream", results(50, 10, 500), waiting, report(0, 0, 0, 0), true, true, false},
		{"late sends", results(50, 10, 500), phase(10, 100, 10), report(0, 0, 0, 10.1), true, true, false},
	} {
		vs := verdicts(c.rs, c.phases, c.client, used{})
		if len(vs) != 3 || vs[0].Claim != "TTFT" || vs[1].Claim != "ITL" || vs[2].Claim != "load" {
			t.Fatalf("%s: %+v", c.name, vs)
		}
		if vs[0].Good != c.ttft || vs[1].Good != c.itl || vs[2].Good != c.load {
			t.Errorf("%s: fit for TTFT %v, ITL %v, load %v; want %v, %v, %v", c.name, vs[0].Good, vs[1].Good, vs[2].Good, c.ttft, c.itl, c.load)
		}
	}
	vs := verdicts(results(50, 10, 500), phase(10, 100, 10), report(0.5, 0.1, 0.02, 1), used{wall: time.Second, cores: 2,
		cpu: reading[time.Duration]{500 * time.Millisecond, true}, busy: reading[time.Duration]{time.Second, true}})
	for i, want := range []string{
		"kernel stamps; 90.0 % of first tokens exact, error bound p99 0.500 ms, max 1.000 ms",
		"2 of 100 gaps lay within one read and are no measurement; error bound of a request's mean p99 0.100 ms",
		"phase p: 10 in flight asked, 10 at most and 10.00 on average while sending; requests ready to go 1.000 ms after their turn at p99; " +
			"this process used 25 % of the cores' time, the machine 50 %",
	} {
		if vs[i].Why != want {
			t.Errorf("why of %s: %q, want %q", vs[i].Claim, vs[i].Why, want)
		}
	}
}

func TestVerdictsClaimNothingWithoutValues(t *testing.T) {
	if vs := verdicts(nil, []loadgen.PhaseSummary{{Phase: loadgen.Phase{Kind: metrics.Profiling, Concurrency: 1}}}, metrics.ClientReport{}, used{}); len(vs) != 0 {
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
