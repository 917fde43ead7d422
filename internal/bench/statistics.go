// Package bench holds the arithmetic of measuring load generators against one another: what each is asked to do (rows of scenarios), how it is
// told so, what its results are worth when held against the log of prefire mock, and the tables that come of it. It also holds the bare
// control loop that every round is measured beside. Starting processes, files and the clock are cmd/bench's.
package bench

import (
	"math"
	"slices"
)

// Median is the middle of values, or the mean of the two middle ones; NaN where there are none. It is not changed by their order.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Percentile is the percentile p (0–100), linear between order statistics; NaN where there are no values.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	at := p / 100 * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// Spread is the median of several rounds, with the least and the greatest.
type Spread struct {
	Median, Min, Max float64
	N                int
}

// SpreadOf sums up rounds; those without a finite figure are left out. N is 0 where none is left.
func SpreadOf(values []float64) Spread {
	v := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(v) == 0 {
		return Spread{}
	}
	return Spread{Median(v), slices.Min(v), slices.Max(v), len(v)}
}

// Slope is how much more each unit of work cost between a small and a large run: what both pay alike, start-up above all, cancels. It is NaN
// where the large one did no more work than the small one.
func Slope(smallCost, largeCost, smallWork, largeWork float64) float64 {
	if !(largeWork > smallWork) {
		return math.NaN()
	}
	return (largeCost - smallCost) / (largeWork - smallWork)
}
