package bench

import (
	"math"
	"testing"
)

// same compares floats, NaN being itself.
func same(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
}

func TestMedianAndPercentile(t *testing.T) {
	for _, c := range []struct {
		values           []float64
		median, p99, p25 float64
	}{
		{values: nil, median: math.NaN(), p99: math.NaN(), p25: math.NaN()},
		{values: []float64{7}, median: 7, p99: 7, p25: 7},
		{values: []float64{3, 1}, median: 2, p99: 2.98, p25: 1.5},
		{values: []float64{9, 1, 5}, median: 5, p99: 8.92, p25: 3},
		{values: []float64{4, 3, 2, 1}, median: 2.5, p99: 3.97, p25: 1.75},
	} {
		if m, p, q := Median(c.values), Percentile(c.values, 99), Percentile(c.values, 25); !same(m, c.median) || !same(p, c.p99) || !same(q, c.p25) {
			t.Errorf("%v: median %v, p99 %v, p25 %v; want %v, %v, %v", c.values, m, p, q, c.median, c.p99, c.p25)
		}
	}
	values := []float64{3, 1, 2}
	Median(values)
	Percentile(values, 50)
	if values[0] != 3 || values[1] != 1 || values[2] != 2 {
		t.Errorf("the values were put in order: %v", values)
	}
}

func TestSpread(t *testing.T) {
	if got, want := SpreadOf([]float64{3, math.NaN(), 1, math.Inf(1), 8}), (Spread{3, 1, 8, 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := SpreadOf([]float64{math.NaN()}); got != (Spread{}) {
		t.Errorf("without a figure: %+v", got)
	}
}

func TestASlopeLeavesOutWhatBothRunsPay(t *testing.T) {
	// 0.5 s of start-up and 2 ms a request.
	if got := Slope(0.5+0.2, 0.5+0.8, 100, 400); !same(got, 0.002) {
		t.Errorf("%v, want 0.002", got)
	}
	for _, large := range []float64{100, 50, math.NaN()} {
		if got := Slope(1, 2, 100, large); !math.IsNaN(got) {
			t.Errorf("from 100 to %v units: %v, want NaN", large, got)
		}
	}
}
