package sweep

import (
	"math"
	"slices"
)

// Convergence ends the repeats of a variation before their number is reached.
type Convergence struct {
	Metric    string
	Stat      string  // of ci_width and cv
	Mode      string  // ci_width | cv | distribution
	Threshold float64 // 0 = the mode's own: 0.10, 0.05, 0.05
	MinRuns   int
}

func (c *Convergence) threshold() float64 {
	switch {
	case c.Threshold > 0:
		return c.Threshold
	case c.Mode == "ci_width":
		return 0.10
	}
	return 0.05
}

// Reached reports whether the repeats so far are enough. ci_width: the interval around the mean of the metric's figure is narrower than the
// threshold times the mean. cv: so is the standard deviation. distribution: a Kolmogorov-Smirnov test of the last run's values against those of
// all before it gives a p-value above the threshold; values holds the metric's values of every run that counts, in order.
func (c *Convergence) Reached(runs []*Run, level float64, values [][]float64) bool {
	if len(runs) < c.MinRuns {
		return false
	}
	if c.Mode == "distribution" {
		if len(values) < c.MinRuns {
			return false
		}
		before, last := slices.Concat(values[:len(values)-1]...), values[len(values)-1]
		return len(before) >= 2 && len(last) >= 2 && KS(before, last) > c.threshold()
	}
	figures := c.Figures(runs)
	if len(figures) < max(c.MinRuns, 2) {
		return false
	}
	a := Interval(figures, level)
	if a.Mean == 0 {
		return false
	}
	if c.Mode == "cv" {
		return a.Std/math.Abs(a.Mean) < c.threshold()
	}
	return 2*a.T*a.SE/math.Abs(a.Mean) < c.threshold()
}

// Figures are the metric's figures of the runs that count.
func (c *Convergence) Figures(runs []*Run) []float64 {
	var out []float64
	for _, r := range counting(runs) {
		if m := r.metric(c.Metric); m != nil {
			if v, ok := m.Stat(c.Stat); ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// exactKS is the number of values up to which the distribution is computed path by path.
const exactKS = 10_000

// KS is the p-value of the two-sided Kolmogorov-Smirnov test that a and b, of which neither is empty, come from one distribution. Up to
// 10,000 values each it is the share of all orders of the values whose distance is as large as theirs, exactly; beyond, Kolmogorov's limit with
// Vrbik's correction for finite numbers (2018), as close as makes no difference to a threshold.
func KS(a, b []float64) float64 {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	n, m := len(a), len(b)
	// distance × n × m, a whole number
	distance, i, j := 0, 0, 0
	for i < n && j < m {
		v := min(a[i], b[j])
		for i < n && a[i] == v {
			i++
		}
		for j < m && b[j] == v {
			j++
		}
		d := i*m - j*n
		distance = max(distance, d, -d)
	}
	switch {
	case distance == 0:
		return 1
	case max(n, m) <= exactKS:
		return 1 - inside(n, m, distance)
	}
	effective := math.Round(float64(n) * float64(m) / float64(n+m)) // as scipy has it
	x := float64(distance) / (float64(n) * float64(m)) * math.Sqrt(effective)
	return kolmogorov(x + 1/(6*math.Sqrt(effective)) + (x-1)/(4*effective))
}

// inside is the share of the orders of n and m values whose two step functions are nowhere so far apart as limit / (n m): the paths from (0, 0) to
// (n, m) that stay inside the band, counted as shares so that no number overflows.
func inside(n, m, limit int) float64 {
	row := make([]float64, m+1)
	for i := range n + 1 {
		for j := range m + 1 {
			d := i*m - j*n
			switch {
			case d >= limit || -d >= limit:
				row[j] = 0
			case i == 0 && j == 0:
				row[j] = 1
			default:
				// Of the orders of i and j values, i in i+j end with one of the first.
				share := 0.0
				if i > 0 {
					share = row[j] * float64(i)
				}
				if j > 0 {
					share += row[j-1] * float64(j)
				}
				row[j] = share / float64(i+j)
			}
		}
	}
	return row[m]
}

// kolmogorov is the probability that Kolmogorov's limiting distribution exceeds x.
func kolmogorov(x float64) float64 {
	if x < 0.2 {
		return 1
	}
	sum, sign := 0.0, 1.0
	for k := 1; k <= 100; k++ {
		term := math.Exp(-2 * float64(k) * float64(k) * x * x)
		sum += sign * term
		if term < 1e-18 {
			break
		}
		sign = -sign
	}
	return min(1, max(0, 2*sum))
}
