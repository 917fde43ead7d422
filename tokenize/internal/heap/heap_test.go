package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Numbers come out in order, each as often as it went in.
func TestMin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		var h Min
		var want, got []uint64
		work := 0
		for range n {
			v := rng.Uint64N(50)
			want = append(want, v)
			h.Push(v, &work)
		}
		for range n {
			got = append(got, h.Pop(&work))
		}
		slices.Sort(want)
		if !slices.Equal(got, want) || len(h) != 0 {
			t.Fatalf("%v come out as %v, %d left", want, got, len(h))
		}
	}
}
