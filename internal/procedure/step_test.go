package procedure

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"prefire/metrics"
)

func TestParseSLO(t *testing.T) {
	errors := Clause{Text: "error_rate<1%", Tag: "error_rate", Limit: 0.01, Unit: metrics.Ratio}
	for text, want := range map[string][]Clause{
		"": {errors},
		"ttft_p99<500ms,itl_avg<30ms,error_rate<1%": {
			{Text: "ttft_p99<500ms", Tag: "time_to_first_token", Percentile: 99, Limit: 500, Unit: metrics.Milliseconds},
			{Text: "itl_avg<30ms", Tag: "inter_token_latency", Limit: 30, Unit: metrics.Milliseconds}, errors},
		" request_latency_p99.9 <= 1.5 s , error_rate<0.05": {
			{Text: "request_latency_p99.9<=1.5s", Tag: "request_latency", Percentile: 99.9, Limit: 1500, Unit: metrics.Milliseconds},
			{Text: "error_rate<0.05", Tag: "error_rate", Limit: 0.05, Unit: metrics.Ratio}},
		"output_token_throughput_per_user_p5>20,tpot_p50<200": {
			{Text: "output_token_throughput_per_user_p5>20", Tag: "output_token_throughput_per_user", Percentile: 5, AtLeast: true, Limit: 20, Unit: metrics.TokensPerSecUser},
			{Text: "tpot_p50<200", Tag: "inter_token_latency", Percentile: 50, Limit: 200, Unit: metrics.Milliseconds}, errors},
	} {
		if got, err := ParseSLO(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"ttft_p99":                        "it has neither < nor >",
		"ttft<5ms":                        "names no statistic",
		"speed_p99<5ms":                   `"speed" is no metric`,
		"ttft_max<5ms":                    `"max" is no statistic`,
		"ttft_p100<5ms":                   `"p100" is no statistic`,
		"ttft_p99<5 minutes":              `"minutes" is no unit`,
		"ttft_p99<fast":                   `"fast" is no limit`,
		"ttft_p99<-5ms":                   `"-5ms" is no limit`,
		"ttft_p99<1e400ms":                "is no limit",
		"inter_chunk_latency_p99<5ms":     "has not one value a request",
		"request_throughput_avg>5":        "has not one value a request",
		"error_rate>1%":                   "an upper limit alone",
		"error_rate<5":                    "below 100 %",
		"ttft_p99<5ms,ttft_p99<6ms":       "has a limit already",
		",":                               "holds no limit",
		"output_sequence_length_avg>5 ms": "values are in tokens",
	} {
		if got, err := ParseSLO(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
}

func FuzzParseSLO(f *testing.F) {
	f.Add("ttft_p99<500ms,itl_avg<30ms,error_rate<1%")
	f.Add("output_token_throughput_per_user_p5>=20")
	f.Fuzz(func(t *testing.T, text string) {
		clauses, err := ParseSLO(text)
		if err != nil {
			return
		}
		if c := clauses[0]; c.Tag == "" || !(c.Limit >= 0) || math.IsInf(c.Limit, 0) || c.Percentile < 0 || c.Percentile >= 100 {
			t.Errorf("%q: %+v", text, c)
		}
	})
}

// step makes the requests of a closed loop of n sessions: latency(i) ms each, the first so many times slower.
func closedLoop(rng *rand.Rand, sessions, n int, latency func(at float64) float64) []StepRequest {
	free := make([]float64, sessions)
	out := make([]StepRequest, 0, n)
	for range n {
		i := 0
		for j := range free {
			if free[j] < free[i] {
				i = j
			}
		}
		l := latency(free[i]) * math.Exp(0.3*rng.NormFloat64())
		out = append(out, StepRequest{Start: 1 + int64(free[i]*1e6), End: 1 + int64((free[i]+l)*1e6), Values: []float64{l / 4, math.NaN(), l, 10}})
		free[i] += l
	}
	return out
}

// The beginning is left out where it is slow, and next to nothing where it is not; a window with a trend is not called steady, and one without
// hardly ever the contrary.
func TestSteadyState(t *testing.T) {
	const runs = 100
	unsteady, cut, missed := 0, 0., 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 5))
		w := findWindow(closedLoop(rng, 10, 1000, func(float64) float64 { return 100 }))
		if !w.Steady {
			unsteady++
		}
		cut += float64(w.From-w.Begin) / float64(w.Sent-w.Begin) / runs
		if w := findWindow(closedLoop(rng, 10, 1000, func(at float64) float64 { return 100 * (1 + at/5000) })); w.Steady {
			missed++
		}
		w = findWindow(closedLoop(rng, 10, 1000, func(at float64) float64 {
			if at < 1000 {
				return 300
			}
			return 100
		}))
		if at := float64(w.From-w.Begin) / 1e6; at < 700 || at > 3000 || w.Sent-w.To < 50e6 || w.Sent-w.To > 200e6 {
			t.Errorf("seed %d: the window begins at %.0f ms and ends %.0f ms before the last start; the server was slow until 1000, and answers take 100",
				seed, at, float64(w.Sent-w.To)/1e6)
		}
	}
	if unsteady > 5 || cut > 0.1 || missed > 0 {
		t.Errorf("of %d steady runs %d are called unsteady and %.1f %% is cut; of as many with a trend %d are called steady", runs, unsteady, 100*cut, missed)
	}
	if w := findWindow(closedLoop(rand.New(rand.NewPCG(1, 1)), 2, 20, func(float64) float64 { return 100 })); w.Steady || w.From != w.Begin || w.To != w.Sent+1 {
		t.Errorf("20 requests: %+v, want all of them, and no word of a steady state", w)
	}
	if got := mser([]float64{9, 9, 1, 1, 1, 1, 1, 1}); got != 2 {
		t.Errorf("MSER leaves out %d values, want 2", got)
	}
}

// Throughput is exact where requests cross the edges of the window in step, and its intervals cover the truth.
func TestThroughputOfAStep(t *testing.T) {
	tags := StepTags(nil)
	even := make([]StepRequest, 300)
	for i := range even {
		even[i] = StepRequest{Start: 1 + int64(i/10)*100e6, End: 1 + int64(i/10+1)*100e6, Values: []float64{25, math.NaN(), 100, 7}}
	}
	s := JudgeStep(StepOptions{Load: 10, Tags: tags}, even)
	if !same(s.Throughput.Value, 100) || !same(s.Tokens, 700) || !same(s.InFlight, 10) || s.Metrics["request_latency"] != (Figures{s.Requests, 100, 100, 100}) {
		t.Errorf("%+v, want 100 answers and 700 tokens a second, 10 in flight", s)
	}
	if _, ok := s.Metrics["inter_token_latency"]; ok {
		t.Error("a metric that no request has is there")
	}
	missed := 0
	for seed := range uint64(200) {
		s := JudgeStep(StepOptions{Load: 10, Tags: tags}, closedLoop(rand.New(rand.NewPCG(seed, 6)), 10, 600, func(float64) float64 { return 100 }))
		if truth := 100 / math.Exp(0.045); *s.Throughput.Low > truth || *s.Throughput.High < truth {
			missed++
		}
	}
	if missed > 20 {
		t.Errorf("%d of 200 intervals miss the throughput, want about 10", missed)
	}
}

func TestLimitsCountFailures(t *testing.T) {
	slo, err := ParseSLO("ttft_p90<50ms,error_rate<5%")
	if err != nil {
		t.Fatal(err)
	}
	make := func(failed int, ttft float64) []StepRequest {
		rs := make([]StepRequest, 400)
		for i := range rs {
			rs[i] = StepRequest{Start: 1 + int64(i)*10e6, End: 1 + int64(i)*10e6 + 100e6, Values: []float64{ttft, math.NaN(), 100, 7}}
			if failed > 0 && i%(len(rs)/failed) == 0 {
				rs[i].Failed, rs[i].Values = true, []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
			}
		}
		return rs
	}
	for _, c := range []struct {
		failed     int
		ttft       float64
		kept, sure [2]bool
	}{
		{0, 40, [2]bool{true, true}, [2]bool{true, true}},
		{0, 60, [2]bool{false, true}, [2]bool{true, true}},
		{16, 40, [2]bool{true, true}, [2]bool{true, false}},
		{100, 40, [2]bool{false, false}, [2]bool{true, true}},
	} {
		s := JudgeStep(StepOptions{Load: 10, SLO: slo, Tags: StepTags(slo)}, make(c.failed, c.ttft))
		for i, f := range s.Findings {
			if f.Kept != c.kept[i] || f.Sure != c.sure[i] {
				t.Errorf("%d failed, TTFT %v: %s kept %v sure %v, want %v, %v (%+v)", c.failed, c.ttft, f.Limit, f.Kept, f.Sure, c.kept[i], c.sure[i], f)
			}
		}
		if c.failed == 100 && s.Findings[0].Value != nil {
			t.Errorf("the 90th percentile is among failed requests, and is %v", s.Findings[0].Value)
		}
	}
}

// laddered is a ladder over a server whose throughput grows in line up to a knee, each answer's time spread.
func laddered(seed uint64, slots float64, loads []float64) (Capacity, []Step) {
	l := Ladder{Loads: loads}
	var steps []Step
	rng := rand.New(rand.NewPCG(seed, 7))
	slo, _ := ParseSLO("")
	runs := map[float64][][]StepRequest{}
	for {
		load, more := l.Next(steps)
		if !more {
			return l.JudgeCapacity(steps)
		}
		latency := 100 * max(1, load/slots)
		runs[load] = append(runs[load], closedLoop(rng, int(load), 400, func(float64) float64 { return latency }))
		steps = append(steps, JudgeStep(StepOptions{Load: load, SLO: slo, Tags: StepTags(slo)}, runs[load]...))
	}
}

// A ladder ends early where the server is saturated, and never where it is not.
func TestLadderEndsEarly(t *testing.T) {
	loads := []float64{5, 6, 8, 10, 20, 40, 80}
	late, ladders := 0, 100
	if testing.Short() {
		ladders = 15
	}
	for seed := range uint64(ladders) {
		if c, steps := laddered(seed, 1000, loads); c.Stopped != "" || len(steps) != len(loads) || c.Best != 80 {
			t.Errorf("seed %d: a server with room ends the ladder after %d steps: %+v", seed, len(steps), c)
		}
		c, steps := laddered(seed, 10, loads)
		if len(steps) < 6 {
			t.Errorf("seed %d: a server saturated from 10 on ends the ladder after %d steps: %+v", seed, len(steps), c)
		}
		if len(steps) > 6 {
			late++
		}
		if c.Knee < 8 || c.Knee > 20 {
			t.Errorf("seed %d: the knee is at %v, want 10", seed, c.Knee)
		}
	}
	if late*10 > ladders {
		t.Errorf("%d of %d ladders go on after two saturated steps", late, ladders)
	}
}

// A search ends for any truth, within its resolution, and an unsure step is run twice, not more.
func TestSearchFindsAnyTruth(t *testing.T) {
	for _, open := range []bool{false, true} {
		for _, truth := range []float64{1, 2, 7, 40, 199, 1234, 99999} {
			l := Ladder{Open: open, From: 8, To: 4096}
			var steps []Step
			for {
				load, more := l.Next(steps)
				if !more {
					break
				}
				tries := 1
				for _, s := range steps {
					if s.Load == load {
						tries++
					}
				}
				near := math.Abs(load-truth) < 0.05*truth
				if steps = append(steps, Step{Load: load, Tries: tries, Kept: load <= truth, Sure: !near}); len(steps) > 50 {
					t.Fatalf("truth %v, open %v: no end", truth, open)
				}
			}
			c, _ := l.JudgeCapacity(steps)
			if want := min(truth, l.To); c.Best > want || c.Best < want-l.Resolution(want) {
				t.Errorf("truth %v, open %v: found %v", truth, open, c.Best)
			}
			if c.AtLeast > c.Best || c.Below != 0 && c.Below <= truth {
				t.Errorf("truth %v, open %v: %+v", truth, open, c)
			}
		}
	}
	l := Ladder{From: 8, To: 100}
	if load, more := l.Next([]Step{{Load: 8, Tries: 1}, {Load: 8, Tries: 2}, {Load: 4, Sure: true}, {Load: 2, Sure: true}, {Load: 1, Sure: true}}); more {
		t.Errorf("nothing is kept, and %v is asked for", load)
	}
	// A load whose requests failed is no knee, however soon the few were answered.
	at := func(load, rate, latency float64, more func(*Step)) Step {
		s := Step{Load: load, Throughput: Interval{Value: rate}, Metrics: map[string]Figures{"request_latency": {Avg: latency}}}
		if more != nil {
			more(&s)
		}
		return s
	}
	knees := []Step{at(2, 10, 100, nil), at(4, 20, 100, nil), at(8, 21, 150, nil),
		at(16, 50, 50, func(s *Step) { s.Findings = []Finding{{Limit: "error_rate<1%"}} }), at(32, 60, 50, func(s *Step) { s.Aborted = true })}
	if c, _ := l.JudgeCapacity(knees); c.Knee != 4 {
		t.Errorf("knee %v, want 4", c.Knee)
	}
	if c, _ := l.JudgeCapacity(knees[1:]); c.Knee != 0 {
		t.Errorf("knee %v of two loads that answer, want none", c.Knee)
	}
	// A stall that breaks a limit unsurely says nothing against a larger load that surely keeps it.
	c, _ := l.JudgeCapacity([]Step{{Load: 8, Tries: 2}, {Load: 16, Kept: true, Sure: true}, {Load: 32, Sure: true, Findings: []Finding{{Limit: "x"}}}})
	if want := (Capacity{Best: 16, BestSure: true, AtLeast: 16, Below: 32, Broken: []string{"x"}}); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
}

func TestIntervalsOfAStepCover(t *testing.T) {
	missedMean, missedShare := 0, 0
	const runs, truth = 1000, 0.1
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 8))
		v, hit := make([]float64, 400), make([]float64, 400)
		shared := 0.
		for i := range v {
			if i%4 == 0 {
				shared = rng.NormFloat64()
			}
			v[i] = shared + 0.5*rng.NormFloat64()
			hit[i] = indicator(shared > 1.2815515655446004)
		}
		if m := meanOf(v, 0); *m.Low > 0 || *m.High < 0 {
			missedMean++
		}
		if s := shareOf(hit, CapacityError); *s.Low > truth || *s.High < truth {
			missedShare++
		}
	}
	if missedMean > runs*8/100 || missedShare > runs*8/100 {
		t.Errorf("%d means and %d shares of %d are missed, want about 50", missedMean, missedShare, runs)
	}
}
