package procedure

import (
	"math/rand/v2"
	"testing"
)

// queued are the requests of a Poisson process at a server with so many slots, each taken for about the given time; 0 slots = as many as it takes.
func queued(r *rand.Rand, rate, latency float64, slots int, seconds float64) (out []StepRequest) {
	free := make([]float64, slots)
	for at := r.ExpFloat64() / rate; at < seconds; at += r.ExpFloat64() / rate {
		end := at
		next := 0
		for i := range free {
			if free[i] < free[next] {
				next = i
			}
		}
		if slots > 0 {
			end = max(end, free[next])
		}
		end += latency * (0.9 + 0.2*r.Float64())
		if slots > 0 {
			free[next] = end
		}
		out = append(out, StepRequest{Start: int64(at * 1e9), End: int64(end * 1e9), Values: []float64{(end - at) * 1e3, 0}})
	}
	return out
}

// The number in flight goes up and down by chance, the more slowly the longer the answers take. A server falls behind where it is sure.
func TestAServerFallsBehindWhereItIsSure(t *testing.T) {
	const steps = 100
	r := rand.New(rand.NewPCG(1, 2))
	slo, err := ParseSLO("request_latency_p99<2000s")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rate, latency, seconds float64
		slots                  int
		least, most            int // steps judged as falling behind
	}{
		{0.5, 4, 60, 0, 0, 5}, {1, 2, 60, 0, 0, 5}, {1, 5, 60, 0, 0, 5}, {1, 15, 60, 0, 0, 5}, {5, 0.2, 4, 0, 0, 5}, {20, 2, 60, 0, 0, 5},
		{20, 2, 60, 36, 90, steps}, {20, 0.5, 60, 9, 90, steps}, {2, 5, 60, 7, 70, steps}, // 18, 18 and 1.4 a second are served
	} {
		behind := 0
		o := StepOptions{Load: c.rate, Open: true, SLO: slo, Tags: []string{"request_latency", "output_sequence_length"}}
		for range steps {
			s := JudgeStep(o, queued(r, c.rate, c.latency, c.slots, c.seconds))
			if !s.Kept {
				behind++
			}
			if broken := s.Broken(); !s.Kept != (len(broken) == 1 && broken[0] == Falling) || !s.Kept && !s.Sure {
				t.Errorf("kept %v, sure %v, broken %q", s.Kept, s.Sure, broken)
			}
		}
		if behind < c.least || behind > c.most {
			t.Errorf("%v a second of %v s for %v s at %d slots: the server falls behind in %d of %d steps, want %d to %d", c.rate, c.latency, c.seconds, c.slots, behind, steps, c.least, c.most)
		}
	}
}
