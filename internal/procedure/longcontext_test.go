package procedure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// server is a simulated server: TTFT is base + perToken for each token, times knee from kneeFrom tokens on, with a lognormal spread.
type server struct {
	base, perToken   float64 // ms
	kneeFrom         int
	knee             float64
	cv               float64 // of TTFT
	outputAt2048Less float64
	lostAt4096       float64 // the share of the requests, in all lengths before 0
}

func (s server) scan(seed uint64, n int) []Length {
	rng := rand.New(rand.NewPCG(seed, 1))
	sigma := math.Sqrt(math.Log1p(s.cv * s.cv))
	var out []Length
	for _, isl := range []int{512, 1024, 2048, 4096} {
		l := Length{Asked: isl}
		for i := range n {
			l.Lost = append(l.Lost, indicator(isl == 4096 && rng.Float64() < s.lostAt4096))
			t := s.base + s.perToken*float64(isl)
			o := 50.
			if s.kneeFrom > 0 && isl >= s.kneeFrom {
				t *= s.knee
				o *= 1 - s.outputAt2048Less
			}
			t *= math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2)
			l.Samples = append(l.Samples, Sample{Start: int64(i), TTFT: t, Prefill: float64(isl) / t * 1000, Output: o * math.Exp(0.1*rng.NormFloat64())})
		}
		out = append(out, l)
	}
	return out
}

// Over 200 seeds each: without a knee never unhealthy, with one never healthy; where the interval straddles the limit it says so.
func TestLongContextVerdicts(t *testing.T) {
	count := func(s server, n int) (got map[Judgement]int, from map[int]int) {
		got, from = map[Judgement]int{}, map[int]int{}
		for seed := range uint64(200) {
			v := JudgeLongContext(s.scan(seed, n))
			got[v.Verdict]++
			from[v.From]++
		}
		t.Logf("%+v, %d requests a length: %v, from %v", s, n, got, from)
		return got, from
	}
	for _, c := range []struct {
		name string
		s    server
		n    int
	}{
		{"a fixed part and a straight line", server{base: 20, perToken: 0.02, cv: 0.2}, 100},
		{"a straight line alone", server{perToken: 0.1, cv: 0.35}, 400},
		{"few requests", server{perToken: 0.1, cv: 0.35}, 10},
	} {
		if got, _ := count(c.s, c.n); got[Unhealthy] != 0 || c.n >= 100 && got[Healthy] != 200 {
			t.Errorf("no knee, %s: %v, want none unhealthy, and all healthy from 100 requests on", c.name, got)
		}
	}
	for _, c := range []struct {
		name string
		s    server
	}{
		{"a fixed part", server{base: 20, perToken: 0.02, kneeFrom: 2048, knee: 2, cv: 0.1}},
		{"a straight line", server{perToken: 0.1, kneeFrom: 2048, knee: 2, cv: 0.35}},
	} {
		if got, from := count(c.s, 100); got[Unhealthy] != 200 || from[2048] != 200 {
			t.Errorf("a knee ×2 at 2048, %s: %v from %v, want all 200 unhealthy from 2048", c.name, got, from)
		}
		if got, _ := count(c.s, 10); got[Healthy] != 0 {
			t.Errorf("a knee ×2 at 2048, %s, 10 requests: %v, want none healthy", c.name, got)
		}
	}
	// At the limit of lost requests, and far above it.
	if got, _ := count(server{base: 20, perToken: 0.02, cv: 0.2, lostAt4096: LostLimit}, 100); got[Unhealthy] != 0 {
		t.Errorf("1 %% of the requests lost: %v, want none unhealthy", got)
	}
	if got, from := count(server{base: 20, perToken: 0.02, cv: 0.2, lostAt4096: 0.25}, 100); from[4096] != 200 {
		t.Errorf("a quarter of the requests lost at 4096: %v from %v, want all 200 unhealthy from 4096", got, from)
	}
	// TTFT is 1.28 times as high from 2048 on: the exponent is log2(2·1.28) = 1.356, at the limit.
	if got, _ := count(server{perToken: 0.1, kneeFrom: 2048, knee: 1.28, cv: 0.5}, 100); got[Undecided] < 190 {
		t.Errorf("a server at the limit: %v, want nearly all undecided", got)
	}
}

// A server that loses requests at a length is not healthy there, however fast it answers the others: it is unhealthy where the share is surely above
// the limit, undecided where it may be chance, and no loss at all is none.
func TestLongContextOfLostRequests(t *testing.T) {
	fine := server{base: 20, perToken: 0.02, cv: 0.2}
	for _, c := range []struct {
		name    string
		lose    func(lengths []Length)
		verdict Judgement
		from    int
	}{
		{"none", func([]Length) {}, Healthy, 0},
		{"one of a hundred", func(ls []Length) { ls[2].Lost[40] = 1 }, Healthy, 0},
		{"two of a hundred", func(ls []Length) { ls[2].Lost[40], ls[2].Lost[70] = 1, 1 }, Undecided, 0},
		{"every second at 2048", func(ls []Length) {
			for i := range ls[2].Lost {
				ls[2].Lost[i] = float64(i % 2)
			}
		}, Unhealthy, 2048},
		{"every tenth at the shortest", func(ls []Length) {
			for i := range ls[0].Lost {
				ls[0].Lost[i] = indicator(i%10 == 3)
			}
		}, Unhealthy, 512},
		{"all at 4096, so that it has no figure", func(ls []Length) {
			ls[3].Samples = nil
			for i := range ls[3].Lost {
				ls[3].Lost[i] = 1
			}
		}, Unhealthy, 4096},
		{"nothing is known of 4096", func(ls []Length) { ls[3].Lost = nil }, Undecided, 0},
	} {
		lengths := fine.scan(1, 100)
		c.lose(lengths)
		v := JudgeLongContext(lengths)
		rule := ""
		if c.verdict == Unhealthy {
			rule = "error_rate"
		}
		if v.Verdict != c.verdict || v.From != c.from || v.Rule != rule {
			t.Errorf("%s: %s from %d by %q, want %s from %d by %q", c.name, v.Verdict, v.From, v.Rule, c.verdict, c.from, rule)
		}
	}
	// What is asked for decides it.
	some := fine
	some.lostAt4096 = 0.06
	v := JudgeLongContext(some.scan(1, 60))
	if v.Verdict != Undecided || v.Needed <= 60 {
		t.Fatalf("6 %% of 60 requests: %s, %d needed; want undecided, and more than 60", v.Verdict, v.Needed)
	}
	if again := JudgeLongContext(some.scan(2, 2*v.Needed)); again.Verdict != Unhealthy || again.Rule != "error_rate" {
		t.Errorf("with twice the %d requests asked for: %s by %q", v.Needed, again.Verdict, again.Rule)
	}
}

// The requests of a length are those that came to an end: failed ones, and those cut after they had run for longer than any that was answered.
func TestReadLength(t *testing.T) {
	record := func(start, end int, rest string) string {
		return fmt.Sprintf(`{"metadata":{"benchmark_phase":"profiling","request_start_ns":%d,"request_end_ns":%d%s}`+"\n", start, end, rest)
	}
	figures := `},"metrics":{"time_to_first_token":{"value":%d,"unit":"ms"},"usage_prompt_tokens":{"value":70,"unit":"tokens"}},"error":null,"prefire":{%s}`
	records := record(10, 30, fmt.Sprintf(figures, 7, "")) + record(50, 90, fmt.Sprintf(figures, 9, `"cold":["dialled"]`)) +
		record(20, 25, `},"metrics":{},"error":{"message":"no"},"prefire":{}`) + record(60, 61, `,"was_cancelled":true},"metrics":{},"error":{"message":"by plan"},"prefire":{}`)
	censored := record(40, 81, `},"prefire":{"censored":true}`) + record(45, 85, `},"prefire":{"censored":true}`)
	l, err := ReadLength(64, strings.NewReader(records), strings.NewReader(censored))
	want := Length{Asked: 64, Samples: []Sample{{Start: 10, TTFT: 7, Server: 70}}, Lost: []float64{0, 1, 1, 0}, Overdue: 1}
	if err != nil || !reflect.DeepEqual(l, want) {
		t.Errorf("%+v, %v; want %+v", l, err, want)
	}
	if _, err := ReadLength(64, strings.NewReader(records), strings.NewReader(`{"metadata"`)); err == nil {
		t.Error("a censored request that ends in the middle is no error")
	}
}

func TestLongContextRuleThatFired(t *testing.T) {
	v := JudgeLongContext(server{perToken: 0.1, kneeFrom: 2048, knee: 1, outputAt2048Less: 0.5, cv: 0.1}.scan(1, 100))
	if v.Verdict != Unhealthy || v.From != 2048 || v.Rule != "output_fall" {
		t.Errorf("%+v, want output_fall at 2048", v)
	}
	if c := v.Lengths[1].Checks[2]; c.Judgement != Healthy {
		t.Errorf("output at 1024: %+v", c)
	}
}

// The intervals cover the true value at least as often as they say, for requests that are alike in runs of ten too.
func TestIntervalsCover(t *testing.T) {
	const runs, alpha = 2000, 0.05
	for _, together := range []int{1, 5} {
		missed := 0
		for seed := range uint64(runs) {
			rng := rand.New(rand.NewPCG(seed, 2))
			draw := func() Length {
				var l Length
				shared := 0.
				for i := range 200 {
					if i%together == 0 {
						shared = 0.3 * rng.NormFloat64()
					}
					l.Samples = append(l.Samples, Sample{Start: int64(i), TTFT: math.Exp(shared + 0.05*rng.NormFloat64())})
				}
				return l
			}
			a, b := draw(), draw()
			if r := ratio(&a, &b, ttft, alpha); math.Abs(r.log) > r.half {
				missed++
			}
		}
		if share := float64(missed) / runs; share > 1.5*alpha {
			t.Errorf("runs of %d alike: %.1f %% of intervals miss, want about %.0f %%", together, 100*share, 100*alpha)
		}
	}
}

func TestLongContextWithoutFigures(t *testing.T) {
	if v := JudgeLongContext([]Length{{Asked: 512, Lost: make([]float64, 40)}}); v.Verdict != Undecided || len(v.Lengths) != 1 || v.Lengths[0].Checks[0].Judgement != Healthy {
		t.Errorf("one length: %+v", v)
	}
	two := []Length{{Asked: 1024, Samples: []Sample{{TTFT: 30}}}, {Asked: 512, Samples: []Sample{{TTFT: 10}}}}
	v := JudgeLongContext(two)
	if v.Verdict != Undecided || v.Lengths[1].Asked != 1024 {
		t.Fatalf("one request a length: %+v", v)
	}
	growth := v.Lengths[1].Checks[0]
	if growth.Value == nil || math.Abs(*growth.Value-math.Log2(3)) > 1e-12 || growth.Low != nil || growth.Judgement != Undecided {
		t.Errorf("growth: %+v, want a value of log2(3) without an interval", growth)
	}
	if out := v.Lengths[1].Checks[2]; out.Value != nil || out.Judgement != Undecided {
		t.Errorf("no output: %+v", out)
	}
}

// What is asked for is enough: with so many requests the same server is decided.
func TestRequestsNeeded(t *testing.T) {
	s := server{perToken: 0.1, cv: 0.6}
	v := JudgeLongContext(s.scan(3, 12))
	if v.Verdict != Undecided || v.Needed <= 12 {
		t.Fatalf("%v, %d needed; want undecided, and more than 12", v.Verdict, v.Needed)
	}
	if again := JudgeLongContext(s.scan(4, 2*v.Needed)); again.Verdict != Healthy {
		t.Errorf("with twice the %d requests asked for: %+v", v.Needed, again)
	}
}

// A server that cuts prompts takes no longer for longer ones, and is not called healthy for it: its own counts tell.
func TestLongContextOfCutPrompts(t *testing.T) {
	for _, c := range []struct {
		name    string
		count   func(isl int, more float64) float64 // more is 0 to 1
		from    int
		verdict Judgement
		judged  []int // lengths
	}{
		{"no counts", func(int, float64) float64 { return 0 }, 0, Healthy, []int{1024, 2048, 4096}},
		{"the same tokenizer with a template", func(isl int, _ float64) float64 { return float64(isl + 12) }, 0, Healthy, []int{1024, 2048, 4096}},
		{"another tokenizer", func(isl int, more float64) float64 { return math.Round((0.5 + 0.1*more) * float64(isl)) }, 0, Healthy, []int{1024, 2048, 4096}},
		{"cut at 600", func(isl int, _ float64) float64 { return float64(min(isl, 600)) }, 1024, Undecided, nil},
		{"cut at 3000", func(isl int, _ float64) float64 { return float64(min(isl, 3000)) }, 4096, Undecided, []int{1024, 2048}},
		{"cut to a different rest each", func(isl int, more float64) float64 { return min(float64(isl), 2000+math.Round(20*more)) }, 4096, Undecided, []int{1024, 2048}},
		{"cut from the shortest on", func(int, float64) float64 { return 256 }, 512, Undecided, nil},
	} {
		lengths := server{base: 20, perToken: 0.02, cv: 0.2}.scan(1, 100)
		rng := rand.New(rand.NewPCG(7, 1))
		for i := range lengths {
			for k := range lengths[i].Samples {
				lengths[i].Samples[k].Server = c.count(lengths[i].Asked, rng.Float64())
			}
		}
		v := JudgeLongContext(lengths)
		var judged []int
		for _, l := range v.Lengths[1:] {
			if !l.Cut {
				judged = append(judged, l.Asked)
			}
			for _, check := range l.Checks {
				if l.Cut && check.Rule != errorRate && (check.Judgement != Undecided || check.Needed != 0) {
					t.Errorf("%s: %d tokens: %+v", c.name, l.Asked, check)
				}
			}
		}
		if v.CutFrom != c.from || v.Verdict != c.verdict || !slices.Equal(judged, c.judged) {
			t.Errorf("%s: cut from %d, %s, judged %v; want %d, %s, %v", c.name, v.CutFrom, v.Verdict, judged, c.from, c.verdict, c.judged)
		}
	}
}
