package procedure

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var comparePairs = flag.Int("compare.pairs", 100, "simulated pairs of runs for each claim on compare")

// truth is a simulated server and load: TTFT follows the prompt's length, beside a spread of its own and one that neighbours share.
type truth struct {
	input, inputCV float64
	ttft, own      float64 // ms at the mean length, and the spread of its own
	shared         float64 // spread that ten neighbours share
	itl            float64 // ms
	n              int
	failed         float64
	hung           float64
	cold           float64
}

var ordinary = truth{input: 1000, inputCV: 0.29, ttft: 200, own: 0.18, shared: 0.03, itl: 10, n: 1000}

func lognormal(rng *rand.Rand, cv float64) float64 {
	sigma := math.Sqrt(math.Log1p(cv * cv))
	return math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2)
}

func (s truth) run(seed uint64) Side {
	rng := rand.New(rand.NewPCG(seed, 9))
	tags := CompareTags()
	var side Side
	free := make([]float64, 10)
	shared := 1.
	for i := range s.n {
		if i%10 == 0 {
			shared = lognormal(rng, s.shared)
		}
		at := slices.Index(free, slices.Min(free))
		input, output := math.Round(s.input*lognormal(rng, s.inputCV)), math.Round(100*lognormal(rng, 0.2))
		ttft := s.ttft * input / s.input * lognormal(rng, s.own) * shared
		itl := s.itl * lognormal(rng, 0.1) * shared
		latency := ttft + itl*(output-1)
		r := StepRequest{Start: 1 + int64(free[at]*1e6), Failed: rng.Float64() < s.failed, Cold: rng.Float64() < s.cold, Values: make([]float64, len(tags))}
		r.End = r.Start + int64(latency*1e6)
		free[at] += latency
		if s.hung > 0 && rng.Float64() < s.hung {
			r.Censored, r.Failed, r.End = true, false, r.Start+3600e9
		}
		figures := map[string]float64{"time_to_first_token": ttft, "time_to_second_token": itl * lognormal(rng, 0.3),
			"time_to_first_output_token": ttft, "request_latency": latency, "decode_duration": latency - ttft, "inter_token_latency": itl,
			"output_token_throughput_per_user": 1000 / itl, "e2e_output_token_throughput": 1000 * output / latency,
			"prefill_throughput_per_user": 1000 * input / ttft, tagInput: input, tagOutput: output}
		for k, tag := range tags {
			v, ok := figures[tag]
			if r.Values[k] = v; !ok {
				r.Values[k] = math.NaN()
			}
			if r.Failed || r.Censored {
				r.Values[k] = math.NaN()
			}
		}
		side.Requests = append(side.Requests, r)
	}
	return side
}

// spreadOf is the coefficient of variation of TTFT in a run.
func spreadOf(s Side) float64 {
	v := values(s.Requests, slices.Index(CompareTags(), "time_to_first_token"))
	return deviation(v) / mean(v)
}

func outcomeIn(cs []Compared, tag string) Outcome {
	for _, c := range cs {
		if c.Tag == tag {
			return c.Outcome
		}
	}
	return ""
}

// Runs of the same truth do not differ in any metric; 5 % more TTFT is found where its spread of 0.35 is mostly that of the prompts' lengths, and
// nothing is called better for it.
func TestCompareFindsWhatThereIs(t *testing.T) {
	pairs := *comparePairs
	if testing.Short() {
		pairs = min(pairs, 10)
	}
	same, found, wrong, spread := 0, 0, 0, 0.
	slower := ordinary
	slower.ttft *= 1.05
	for seed := range uint64(pairs) {
		a := ordinary.run(2 * seed)
		spread += spreadOf(a) / float64(pairs)
		if !slices.ContainsFunc(Compare(a, ordinary.run(2*seed+1), CompareOptions{Seed: seed}), func(c Compared) bool { return c.Outcome != NoDifference }) {
			same++
		}
		cs := Compare(a, slower.run(1_000_000+seed), CompareOptions{Seed: seed})
		if outcomeIn(cs, "time_to_first_token") == Worse {
			found++
		}
		if slices.ContainsFunc(cs, func(c Compared) bool { return c.Outcome == Better }) {
			wrong++
		}
	}
	t.Logf("of %d pairs %d of the same truth show no difference, +5 %% TTFT is found in %d; spread of TTFT %.3f", pairs, same, found, spread)
	if math.Abs(spread-0.35) > 0.01 {
		t.Errorf("TTFT has a spread of %.3f, want 0.35", spread)
	}
	if same*10 < pairs*9 || found*10 < pairs*9 || wrong*10 > pairs {
		t.Errorf("of %d pairs %d of the same truth show no difference, +5 %% TTFT is found in %d, and something is better in %d", pairs, same, found, wrong)
	}
}

// Where nothing explains the spread, no test of one metric at 5 % finds a 5 % change in more than 89 of 100 pairs: it is 3.2 standard errors. Over
// twelve metrics it is half of them, and with four times the requests it is found all the same.
func TestCompareOfPureNoise(t *testing.T) {
	pairs := max(4, *comparePairs/10)
	if testing.Short() {
		pairs = 2
	}
	noise := truth{input: 1000, ttft: 200, own: 0.35, itl: 10, n: 1000}
	slower := noise
	slower.ttft *= 1.05
	more, slowerMore := noise, slower
	more.n, slowerMore.n = 4000, 4000
	found, foundMore := 0, 0
	for seed := range uint64(pairs) {
		if outcomeIn(Compare(noise.run(2*seed), slower.run(2*seed+1), CompareOptions{Seed: seed}), "time_to_first_token") == Worse {
			found++
		}
		if outcomeIn(Compare(more.run(2*seed), slowerMore.run(2*seed+1), CompareOptions{Seed: seed}), "time_to_first_token") == Worse {
			foundMore++
		}
	}
	t.Logf("of %d pairs +5 %% TTFT in pure noise is found in %d with 1,000 requests a side, in %d with 4,000", pairs, found, foundMore)
	if foundMore*10 < pairs*9 || found > foundMore {
		t.Errorf("of %d pairs +5 %% TTFT in pure noise is found in %d with 1,000 requests a side, in %d with 4,000", pairs, found, foundMore)
	}
}

// What makes two runs no two measurements of one thing is said, and for which metrics.
func TestNotComparable(t *testing.T) {
	a := ordinary.run(1)
	for name, c := range map[string]struct {
		b        func() Side
		says     string
		not, yes []string
	}{
		"other inputs": {func() Side { s := ordinary; s.input = 1200; return s.run(2) }, "other input lengths: 1",
			[]string{"time_to_first_token", "inter_token_latency", "request_throughput", "error_rate"}, nil},
		"other cold share": {func() Side { s := ordinary; s.cold = 0.2; return s.run(2) }, "other cold share: 0.0 % and ",
			[]string{"time_to_first_token", "request_latency"}, []string{"request_throughput", "error_rate"}},
		"many failures": {func() Side { s := ordinary; s.failed = 0.2; return s.run(2) }, "other share of failed requests: 0.0 % and ",
			[]string{"time_to_first_token", "request_latency", "inter_token_latency"}, []string{"request_throughput", "error_rate"}},
		"hung requests": {func() Side { s := ordinary; s.hung = 0.05; return s.run(2) }, "requests hung until they were cut: 0.0 % of A's and ",
			[]string{"time_to_first_token", "request_latency", "inter_token_latency", "request_throughput"}, []string{"error_rate"}},
		"requests cut before they were late": {func() Side {
			s := ordinary.run(2)
			for i := range 10 {
				r := &s.Requests[len(s.Requests)-1-i]
				r.Censored, r.End = true, r.Start+1
			}
			return s
		}, "", nil, []string{"time_to_first_token", "request_latency", "request_throughput", "error_rate"}},
		"a client late for first tokens": {func() Side { s := ordinary.run(2); s.Unfit = []string{"TTFT"}; return s }, "not fit to claim TTFT",
			[]string{"time_to_first_token", "prefill_throughput_per_user"}, []string{"inter_token_latency", "request_throughput"}},
		"a client that was the limit": {func() Side { s := ordinary.run(2); s.Unfit = []string{"load"}; return s }, "did not deliver the load",
			[]string{"time_to_first_token", "request_throughput"}, nil},
		"other load": {func() Side { s := ordinary.run(2); s.Load = "y"; return s }, "other load: x and y", []string{"time_to_first_token", "error_rate"}, nil},
		"few": {func() Side { s := ordinary; s.n = 10; return s.run(2) }, "too few values: 1000 and 10, it takes 20",
			[]string{"time_to_first_token", "request_throughput", "output_token_throughput"}, []string{"error_rate"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := a
			x.Load = "x"
			b := c.b()
			b.Load = cmp.Or(b.Load, "x")
			for _, got := range Compare(x, b, CompareOptions{}) {
				if slices.Contains(c.not, got.Tag) && (got.Outcome != NotComparable || !strings.Contains(got.Why, c.says) || got.P != nil || len(got.Differences) > 0) {
					t.Errorf("%+v, want it not comparable for %q", got, c.says)
				}
				if slices.Contains(c.yes, got.Tag) && got.Outcome == NotComparable {
					t.Errorf("%+v, want it comparable", got)
				}
			}
		})
	}
}

// Changes have their sign and their size, percentiles too, and failures are compared in percentage points.
func TestSizesOfDifferences(t *testing.T) {
	a, b := ordinary, ordinary
	b.ttft, b.itl, b.failed = 240, 8, 0.07
	cs := Compare(a.run(3), b.run(4), CompareOptions{Percentiles: []float64{50, 99}})
	for tag, want := range map[string]struct {
		outcome Outcome
		change  float64
	}{
		"time_to_first_token": {Worse, 20}, "prefill_throughput_per_user": {Worse, -100. / 6}, "inter_token_latency": {Better, -20},
		"output_token_throughput_per_user": {Better, 25}, "error_rate": {Worse, 7},
	} {
		i := slices.IndexFunc(cs, func(c Compared) bool { return c.Tag == tag })
		c := cs[i]
		if c.Outcome != want.outcome || *c.P >= CompareError {
			t.Errorf("%s is %s, p %v; want %s", tag, c.Outcome, c.P, want.outcome)
		}
		for _, d := range c.Differences {
			wide := 4.
			if d.Stat == "p99" {
				wide = 15
			}
			if math.Abs(d.Change-want.change) > wide || d.Low > want.change || d.High < want.change || d.High-d.Low > 6*wide {
				t.Errorf("%s %s: %.2f (%.2f to %.2f), want about %.2f", tag, d.Stat, d.Change, d.Low, d.High, want.change)
			}
		}
		note := ""
		if tag != "error_rate" {
			note = fmt.Sprintf("of the requests that succeeded: 100.0 %% of A's and %.1f %% of B's", 100-cs[len(cs)-1].Differences[0].B)
		}
		if c.Note != note {
			t.Errorf("%s: the note is %q, want %q", tag, c.Note, note)
		}
		if tag != "error_rate" && len(c.Differences) != 3 {
			t.Errorf("%s has %d figures, want avg, p50, p99", tag, len(c.Differences))
		}
	}
}

// A request that hung until it was cut counts as a failed one, and its run's p99 passes no limit.
func TestHungRequestsAreFailures(t *testing.T) {
	b := ordinary
	b.hung = 0.1
	cs := Compare(ordinary.run(3), b.run(4), CompareOptions{Percentiles: []float64{99}})
	if got := outcomeIn(cs, errorRate); got != Worse {
		t.Errorf("with 10 %% hung the error rate is %s, want worse", got)
	}
	for _, text := range []string{"request_latency.p99>+5%", "request_throughput<-50%", "error_rate>+20%", "error_rate>+2%"} {
		f, err := ParseFailOn(text)
		if err != nil {
			t.Fatal(err)
		}
		broken, why := f.Broken(cs)
		if told := f.Tag == errorRate; (why == "") != told || broken != (text == "error_rate>+2%") {
			t.Errorf("%s: broken %t, %q", text, broken, why)
		}
	}
}

// Intervals of averages and percentiles hold their level where neighbours are alike.
func TestIntervalsOfDifferencesCover(t *testing.T) {
	runs := 200
	if testing.Short() {
		runs = 25
	}
	missed := map[string]int{}
	draw := func(seed uint64) column {
		rng := rand.New(rand.NewPCG(seed, 11))
		var c column
		shared := 1.
		for i := range 400 {
			if i%5 == 0 {
				shared = lognormal(rng, 0.2)
			}
			c.values = append(c.values, 100*shared*lognormal(rng, 0.2))
		}
		return c
	}
	for seed := range uint64(runs) {
		var c Compared
		c.compare(draw(2*seed), draw(2*seed+1), CompareOptions{Seed: seed, Percentiles: []float64{50, 90}})
		for _, d := range c.Differences {
			if d.Low > 0 || d.High < 0 {
				missed[d.Stat]++
			}
		}
	}
	for _, stat := range []string{"avg", "p50", "p90"} {
		if missed[stat]*100 > 9*runs {
			t.Errorf("%s: %d of %d intervals miss, want about 5 %%", stat, missed[stat], runs)
		}
	}
}

// The resampled percentile is that of the values drawn.
func TestPercentileOfAResample(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 12))
	raw := make([]float64, 60)
	for i := range raw {
		raw[i] = math.Round(10 * rng.Float64())
	}
	r := newResampler(raw, raw, []float64{1, 50, 99})
	for range 50 {
		got := r.draw(rng)
		var drawn []float64
		for i := range raw {
			for range r.counts[i] {
				drawn = append(drawn, raw[i])
			}
		}
		slices.Sort(drawn)
		if len(drawn) != r.blocks()*r.block || math.Abs(got[0]-mean(drawn)) > 1e-9 {
			t.Fatalf("%d values with a mean of %v, want %d with %v", len(drawn), mean(drawn), r.blocks()*r.block, got[0])
		}
		for k, p := range r.ranks {
			if want := quantile(drawn, p); math.Abs(got[k+1]-want) > 1e-9 {
				t.Fatalf("p%v is %v, want %v of %v", p, got[k+1], want, drawn)
			}
		}
	}
}
