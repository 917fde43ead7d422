package dataset

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"

	"prefire/loadgen"
	"prefire/metrics"
)

// numbered gives sessions of two turns.
type numbered map[int]int64

func (n numbered) Next(_ context.Context, s loadgen.Stream) (*loadgen.Session, error) {
	n[s.Phase]++
	return &loadgen.Session{Index: n[s.Phase] - 1, Turns: make([]loadgen.Turn, 2)}, nil
}

// chosen are the models of the first sessions of a phase.
func chosen(t *testing.T, c Choice, phase, n int) []string {
	t.Helper()
	src := Models(numbered{}, c)
	var out []string
	for range n {
		sess, err := src.Next(t.Context(), loadgen.Stream{Kind: metrics.Profiling, Phase: phase})
		if err != nil || sess.Turns[0].Model != sess.Turns[1].Model {
			t.Fatalf("%+v, %v", sess, err)
		}
		out = append(out, sess.Turns[0].Model)
	}
	return out
}

func TestModelsInTurn(t *testing.T) {
	c := Choice{Models: []string{"a", "b", "c"}}
	for phase := range 2 {
		if got := chosen(t, c, phase, 5); !slices.Equal(got, []string{"a", "b", "c", "a", "b"}) {
			t.Errorf("phase %d: %q", phase, got)
		}
	}
	sess, err := Models(numbered{}, c).Next(t.Context(), loadgen.Stream{Phase: -1})
	if err != nil || sess.Turns[0].Model != "" {
		t.Errorf("the throwaway's model is %q, %v", sess.Turns[0].Model, err)
	}
}

func TestModelsDrawn(t *testing.T) {
	const n = 4000
	for _, c := range []struct {
		weights, want []float64
	}{{nil, []float64{0.5, 0.5}}, {[]float64{0.8, 0.2}, []float64{0.8, 0.2}}, {[]float64{1, 0}, []float64{1, 0}}, {[]float64{0.505, 0.505}, []float64{0.5, 0.5}}} {
		choice := Choice{Models: []string{"a", "b"}, Random: true, Weights: c.weights, Seed: 7}
		got := chosen(t, choice, 0, n)
		if !slices.Equal(got, chosen(t, choice, 0, n)) {
			t.Errorf("%v: a seed gives two draws", c.weights)
		}
		count := map[string]float64{}
		for _, m := range got {
			count[m]++
		}
		for i, m := range choice.Models {
			if sd := math.Sqrt(c.want[i] * (1 - c.want[i]) * n); math.Abs(count[m]-c.want[i]*n) > 4*sd {
				t.Errorf("%v: %v", c.weights, count)
			}
		}
		if c.want[0] < 1 && slices.Equal(got, chosen(t, choice, 1, n)) {
			t.Errorf("%v: two phases have the same draws", c.weights)
		}
		if keys := slices.Sorted(maps.Keys(count)); c.want[0] == 1 && !slices.Equal(keys, []string{"a"}) {
			t.Errorf("a model of weight 0 was asked: %q", keys)
		}
	}
}
