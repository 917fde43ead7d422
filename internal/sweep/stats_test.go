package sweep

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// near reports whether two numbers agree to within a share of 1e-9, or are both next to nothing beside scale.
func near(a, b, scale float64) bool {
	return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) || math.Abs(a-b) <= 1e-12*scale
}

// The figures of scipy and numpy: testdata/scipy.py made them.
func TestStatisticsAreScipys(t *testing.T) {
	b, err := os.ReadFile("testdata/scipy.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		T []struct {
			Level   float64
			Freedom int
			T       float64
		}
		Intervals []struct {
			Values                   []float64
			Mean, Std, SE, Low, High float64
		}
		KS []struct {
			A, B []float64
			P    float64
		}
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if len(want.T) != 42 || len(want.Intervals) != 8 || len(want.KS) != 10 {
		t.Fatalf("%d, %d and %d cases", len(want.T), len(want.Intervals), len(want.KS))
	}
	for _, c := range want.T {
		if got := quantile(c.Level, c.Freedom); !near(got, c.T, 0) {
			t.Errorf("t of %v at %d degrees of freedom: %v; scipy has %v", c.Level, c.Freedom, got, c.T)
		}
	}
	for _, c := range want.Intervals {
		a, scale := Interval(c.Values, 0.95), slices.Max(c.Values)
		for _, pair := range [][2]float64{{a.Mean, c.Mean}, {a.Std, c.Std}, {a.SE, c.SE}, {a.Low, c.Low}, {a.High, c.High}} {
			if !near(pair[0], pair[1], math.Abs(scale)) {
				t.Errorf("%v: %+v; scipy has %+v", c.Values, a, c)
				break
			}
		}
	}
	for _, c := range want.KS {
		if got := KS(c.A, c.B); math.Abs(got-c.P) > 1e-12 {
			t.Errorf("Kolmogorov-Smirnov of %v and %v: %v; scipy has %v", c.A, c.B, got, c.P)
		}
		if got, turned := KS(c.A, c.B), KS(c.B, c.A); math.Abs(got-turned) > 1e-12 {
			t.Errorf("Kolmogorov-Smirnov of %v and %v: %v, the other way round %v", c.A, c.B, got, turned)
		}
	}
}

// scipy.stats.ks_2samp(numpy.arange(n)/n, numpy.arange(m)/m*(1-s)).pvalue
func TestKolmogorovSmirnovOfManyValues(t *testing.T) {
	even := func(n int, scale float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = float64(i) / float64(n) * scale
		}
		return out
	}
	for _, c := range []struct {
		n, m int
		s, p float64
	}{
		{20000, 12000, 0.005, 0.9900890626452293}, {20000, 12000, 0.01, 0.4300232671083416}, {20000, 12000, 0.015, 0.06573848029243745},
		{20000, 12000, 0.02, 0.004697802809536493}, {15000, 11000, 0.005, 0.9963942172443774}, {15000, 11000, 0.01, 0.5352857974179313},
		{15000, 11000, 0.015, 0.1102262342929049}, {15000, 11000, 0.02, 0.011790145879968085},
	} {
		if got := KS(even(c.n, 1), even(c.m, 1-c.s)); math.Abs(got-c.p) > 5e-6 {
			t.Errorf("%d and %d values, %v apart: %v; scipy has %v", c.n, c.m, c.s, got, c.p)
		}
	}
}

func runOf(v *Variation, trial int, metrics ...Metric) *Run {
	return &Run{Variation: v, Trial: trial, Metrics: metrics}
}

func TestConfidence(t *testing.T) {
	v := Base()
	a := runOf(&v, 0, Metric{"x", "ms", []Stat{{"avg", 1}, {"p99", 5}, {"count", 9}}}, Metric{"y", "s", []Stat{{"avg", math.NaN()}}})
	b := runOf(&v, 1, Metric{"x", "ms", []Stat{{"avg", 3}}}, Metric{"z", "", []Stat{{"avg", 0}}})
	failed := runOf(&v, 2, Metric{"x", "ms", []Stat{{"avg", 1e9}}})
	failed.Failure = "no"
	got := Confidence([]*Run{a, failed, b}, 0.95)
	if len(got) != 3 || got[0].Name() != "x_avg" || got[1].Name() != "x_p99" || got[2].Name() != "z_avg" {
		t.Fatalf("got %+v", got)
	}
	if x := got[0]; x.Mean != 2 || x.Min != 1 || x.Max != 3 || x.Runs != 2 || x.Unit != "ms" || !near(x.Std, math.Sqrt2, 1) || !near(x.T, 12.706204736174694, 1) {
		t.Errorf("x avg is %+v", x)
	}
	// A figure of one run among several has no spread; 0 over 0 has no coefficient.
	if p := got[1]; p.Mean != 5 || !math.IsNaN(p.Std) || !math.IsNaN(p.Low) || !math.IsNaN(p.CV) {
		t.Errorf("x p99 is %+v", p)
	}
	// Where one run counts, its figures stand for all.
	one := Confidence([]*Run{a, failed}, 0.95)[0]
	if one.Mean != 1 || one.Std != 0 || one.SE != 0 || one.Low != 1 || one.High != 1 || !math.IsNaN(one.T) {
		t.Errorf("of one run: %+v", one)
	}
	if got := Confidence([]*Run{failed}, 0.95); got != nil {
		t.Errorf("of no run: %+v", got)
	}
	if a := Interval([]float64{0, 0, 0}, 0.9); !math.IsInf(a.CV, 1) || a.Std != 0 {
		t.Errorf("of zeros: %+v", a)
	}
}

func TestConvergence(t *testing.T) {
	v := Base()
	of := func(values ...float64) (out []*Run) {
		for i, x := range values {
			out = append(out, runOf(&v, i, Metric{"m", "ms", []Stat{{"avg", x}, {"p99", 2 * x}}}))
		}
		return out
	}
	same := [][]float64{{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}}
	apart := [][]float64{{1, 2, 3, 4, 5, 6, 7}, {11, 12, 13, 14, 15, 16, 17}}
	for _, c := range []struct {
		name   string
		c      Convergence
		runs   []*Run
		values [][]float64
		want   bool
	}{
		{"narrow", Convergence{Metric: "m", Stat: "avg", Mode: "ci_width", MinRuns: 2}, of(100, 100.1), nil, true},
		// 2 × 12.7062 × 0.7071 / √2 / 100.5 = 0.1264
		{"wide by the default", Convergence{Metric: "m", Stat: "avg", Mode: "ci_width", MinRuns: 2}, of(100, 101), nil, false},
		{"narrow by its own threshold", Convergence{Metric: "m", Stat: "p99", Mode: "ci_width", Threshold: 0.127, MinRuns: 2}, of(100, 101), nil, true},
		{"too few", Convergence{Metric: "m", Stat: "avg", Mode: "ci_width", MinRuns: 3}, of(100, 100), nil, false},
		{"a metric that is not there", Convergence{Metric: "n", Stat: "avg", Mode: "cv", MinRuns: 2}, of(1, 1), nil, false},
		{"a mean of 0", Convergence{Metric: "m", Stat: "avg", Mode: "cv", MinRuns: 2}, of(-1, 1), nil, false},
		// √0.5 / 14.5 = 0.0488; below -14.5 likewise
		{"little spread", Convergence{Metric: "m", Stat: "avg", Mode: "cv", MinRuns: 2}, of(-14, -15), nil, true},
		{"spread", Convergence{Metric: "m", Stat: "avg", Mode: "cv", MinRuns: 2}, of(13, 14), nil, false},
		{"one distribution", Convergence{Metric: "m", Mode: "distribution", MinRuns: 2}, of(1, 1), same, true},
		{"two distributions", Convergence{Metric: "m", Mode: "distribution", MinRuns: 2}, of(1, 1), apart, false},
		{"values of one run alone", Convergence{Metric: "m", Mode: "distribution", MinRuns: 2}, of(1, 1), same[:1], false},
	} {
		if got := c.c.Reached(c.runs, 0.95, c.values); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestSummarise(t *testing.T) {
	vs, err := Combine([]Parameter{param("c", int64(1), int64(2), int64(10), int64(4))}, false)
	if err != nil {
		t.Fatal(err)
	}
	// Throughput rises with c and latency too, but 10 has both worse than 4.
	rate, late := []float64{10, 20, 29, 30}, []float64{5, 6, 9, 8}
	var runs []*Run
	for i := range vs {
		for trial := range 2 {
			x := float64(trial) // the means are x + 0.5
			runs = append(runs, runOf(&vs[i], trial, Metric{"request_throughput", "requests/sec", []Stat{{"avg", rate[i] + x}}},
				Metric{"request_latency", "ms", []Stat{{"avg", late[i]}, {"p99", late[i] + x}}}))
		}
	}
	cells := Cells(runs, 0.95)
	folders := func(cells []*Cell) (out []string) {
		for _, c := range cells {
			out = append(out, c.Variation.Folder())
		}
		return out
	}
	s := Summarise(cells, nil)
	if got := folders(s.Cells); !slices.Equal(got, []string{"c_1", "c_2", "c_10", "c_4"}) {
		t.Errorf("cells %q", got)
	}
	if s.Throughput.Cell.Variation != &vs[3] || s.Throughput.Metric != 30.5 || s.Latency.Cell.Variation != &vs[0] || s.Latency.Metric != 5.5 || s.Latency.Unit != "ms" {
		t.Errorf("best: %+v, %+v", s.Throughput, s.Latency)
	}
	if got := folders(s.Pareto); !slices.Equal(got, []string{"c_1", "c_2", "c_4"}) {
		t.Errorf("front %q", got)
	}
	// A limit leaves out; a figure that is not there breaks it; a metric's average stands for one that it has not.
	s = Summarise(cells, []Limit{{Metric: "request_latency", Stat: "p99", Op: "le", Threshold: 6.5}, {Metric: "request_throughput", Stat: "p95", Op: "gt", Threshold: 11}})
	if got := folders(s.Pareto); s.Feasible != 1 || !slices.Equal(got, []string{"c_2"}) || s.Throughput.Cell.Variation != &vs[1] {
		t.Errorf("under limits: %d, %q, %+v", s.Feasible, got, s.Throughput)
	}
	s = Summarise(cells, []Limit{{Metric: "nothing", Stat: "avg", Op: "ge", Threshold: 0}})
	if s.Feasible != 0 || s.Pareto != nil || s.Throughput.Cell.Variation != &vs[3] {
		t.Errorf("under a limit that none keeps: %+v", s)
	}
	// One that fails its requests is not the best for the few that it answered, unless a limit says how many may fail.
	for _, r := range runs {
		share := 1.
		if r.Variation == &vs[0] || r.Variation == &vs[3] {
			share = 2
		}
		r.Metrics = append(r.Metrics, Metric{"request_error_rate", "%", []Stat{{"avg", share}}})
	}
	cells = Cells(runs, 0.95)
	s = Summarise(cells, nil)
	if got := folders(s.Pareto); !slices.Equal(got, []string{"c_2", "c_10"}) || s.Throughput.Cell.Variation != &vs[2] || s.Latency.Cell.Variation != &vs[1] ||
		!slices.Equal(folders(s.Failing), []string{"c_1", "c_4"}) {
		t.Errorf("where two fail their requests: front %q, failing %q, best %+v, %+v", got, folders(s.Failing), s.Throughput, s.Latency)
	}
	s = Summarise(cells, []Limit{{Metric: "request_error_rate", Stat: "avg", Op: "le", Threshold: 5}})
	if s.Throughput.Cell.Variation != &vs[3] || s.Failing != nil {
		t.Errorf("where 5 %% may fail: %+v, failing %q", s.Throughput, folders(s.Failing))
	}
	s = Summarise(cells[:1], nil)
	if s.Throughput != nil || s.Latency != nil || s.Pareto != nil || len(s.Failing) != 1 {
		t.Errorf("where all fail their requests: %+v", s)
	}
	for _, r := range runs {
		r.Metrics = r.Metrics[:2]
	}
	// Nor is one whose requests hung until they were cut, whatever the limit on failures, which they are none of.
	for _, limits := range [][]Limit{nil, {{Metric: "request_throughput", Stat: "avg", Op: "gt", Threshold: 0}}} {
		for _, r := range runs {
			if r.Hung = 0; r.Variation == &vs[0] {
				r.Hung = float64(1 + 2*r.Trial) // 2 on average
			}
		}
		s = Summarise(Cells(runs, 0.95), limits)
		if got := folders(s.Failing); !slices.Equal(got, []string{"c_1"}) || s.Failing[0].Hung() != 2 || s.Latency.Cell.Variation != &vs[1] ||
			!slices.Equal(folders(s.Pareto), []string{"c_2", "c_4"}) {
			t.Errorf("where one hangs: failing %q, best %+v, front %q", got, s.Latency, folders(s.Pareto))
		}
	}
	// Shares add up: 50 % of what came to an end, beside 20 % that did not.
	mixed := Cell{Runs: []*Run{{Hung: 20}}, Aggregates: []Aggregate{{Tag: "request_error_rate", Stat: "avg", Mean: 50}}}
	if got := mixed.Lost(); got != 60 {
		t.Errorf("%v %% lost, want 60", got)
	}
	for _, r := range runs {
		r.Hung = 0
	}
	// A variation without a run that counts is none of it.
	for _, r := range runs[:2] {
		r.Failure = "no"
	}
	if got := folders(Summarise(Cells(runs, 0.95), nil).Cells); !slices.Equal(got, []string{"c_2", "c_10", "c_4"}) {
		t.Errorf("cells that count %q", got)
	}
}

func TestPercentile(t *testing.T) {
	for _, c := range []struct{ p, want float64 }{{0, 1}, {50, 2.5}, {90, 3.7}, {99, 3.97}, {100, 4}} {
		if got := Percentile([]float64{1, 2, 3, 4}, c.p); !near(got, c.want, 1) {
			t.Errorf("p%v: %v; want %v", c.p, got, c.want)
		}
	}
}
