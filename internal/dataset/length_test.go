package dataset

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Draws of a distribution have its mean and median, and keep its bounds. The bounds of the test are five standard errors of 20,000 draws.
func TestShapes(t *testing.T) {
	const n = 20_000
	f := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name           string
		l              Length
		mean, sd       float64 // of one draw, which is rounded up: half a token more
		median         int     // 0 = not checked
		least, longest int
	}{
		{"log-normal", Length{Mean: 512, Shape: &Shape{Median: 400}}, 512.5, 512 * math.Sqrt(math.Exp(2*math.Log(512.0/400))-1), 401, 1, math.MaxInt},
		{"median and mean alike", Length{Mean: 300, Shape: &Shape{Median: 300}}, 300, 0, 300, 300, 300},
		{"points", Length{Mean: 224, Shape: &Shape{Parts: []Part{{3, Length{Mean: 128}}, {1, Length{Mean: 512}}}}}, 224, 384 * math.Sqrt(3) / 4, 128, 128, 512},
		{"peaks", Length{Mean: 180, Shape: &Shape{Parts: []Part{{60, Length{Mean: 100, Stddev: 20}}, {40, Length{Mean: 300, Stddev: 10}}}}}, 180.5, 100, 0, 1, 400},
		{"bounds", Length{Mean: 100, Stddev: 50, Shape: &Shape{Min: f(90), Max: f(110)}}, 100, 10, 102, 90, 110}, // cut at 0, the normal one has its median at 101.4
		{"a bound over the value", Length{Mean: 5, Shape: &Shape{Min: f(7)}}, 7, 0, 7, 7, 7},
	} {
		rng := rand.New(rand.NewPCG(4, 2))
		var all []int
		sum := 0.0
		for range n {
			k := c.l.draw(rng, 1)
			all, sum = append(all, k), sum+float64(k)
		}
		slices.Sort(all)
		if mean, bound := sum/n, 5*c.sd/math.Sqrt(n)+0.5; math.Abs(mean-c.mean) > bound {
			t.Errorf("%s: a mean of %v, want %v within %v", c.name, mean, c.mean, bound)
		}
		if median := all[n/2]; c.median > 0 && math.Abs(float64(median-c.median)) > 5*1.2533*c.sd/math.Sqrt(n) {
			t.Errorf("%s: a median of %d, want %d", c.name, median, c.median)
		}
		if all[0] < c.least || all[n-1] > c.longest {
			t.Errorf("%s: from %d to %d, want %d to %d", c.name, all[0], all[n-1], c.least, c.longest)
		}
		if c.longest < math.MaxInt && c.l.Longest() > c.longest {
			t.Errorf("%s: %d has to be reckoned with, draws go to %d", c.name, c.l.Longest(), c.longest)
		}
	}
}
