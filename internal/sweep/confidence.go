package sweep

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Stat is one figure of a metric: avg, min, max, sum, p1 to p99, std or count.
type Stat struct {
	Key   string
	Value float64
}

// Metric is a metric of one run, as its summary file has it.
type Metric struct {
	Tag, Unit string
	Stats     []Stat
}

// Stat is the figure under key; false where the metric has none.
func (m *Metric) Stat(key string) (float64, bool) {
	for _, s := range m.Stats {
		if s.Key == key {
			return s.Value, true
		}
	}
	return 0, false
}

// Run is what became of one run of a series.
type Run struct {
	Variation *Variation
	Trial     int
	Metrics   []Metric // in the order of the summary file
	Failure   string   // why the run does not count; "" = it does
	// Hung is the share of its requests, in %, that were cut after they had run for longer than any that was answered.
	Hung float64
}

// OK reports whether the run counts.
func (r *Run) OK() bool { return r.Failure == "" }

func (r *Run) metric(tag string) *Metric {
	for i := range r.Metrics {
		if r.Metrics[i].Tag == tag {
			return &r.Metrics[i]
		}
	}
	return nil
}

// statKeys are the figures that are aggregated over runs, in aiperf's order.
func statKeys() []string {
	return []string{"avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"}
}

// Aggregate is one figure of a metric over several runs. What needs two runs is NaN where there is one.
type Aggregate struct {
	Tag, Stat, Unit string
	Runs            int // that have the figure
	Mean            float64
	Std             float64 // of a sample: ddof 1
	Min, Max        float64
	CV              float64 // Std / Mean; infinite where the mean is 0
	SE              float64 // Std / √Runs
	Low, High       float64 // the interval of Student's t around the mean
	T               float64 // its quantile
}

// Name is the aggregate's key in the files.
func (a *Aggregate) Name() string { return a.Tag + "_" + a.Stat }

// Confidence aggregates every figure of runs that count, in the order in which they come first. Where one run alone counts, its figures
// stand for all with nothing around them (Std, CV and SE 0, the interval the value itself), as in aiperf, whose files say single_run then.
func Confidence(runs []*Run, level float64) []Aggregate {
	type series struct {
		unit   string
		values []float64
	}
	runs = counting(runs)
	at := map[[2]string]*series{}
	var tags []string
	for _, r := range runs {
		for i := range r.Metrics {
			m := &r.Metrics[i]
			if !slices.Contains(tags, m.Tag) {
				tags = append(tags, m.Tag)
			}
			for _, s := range m.Stats {
				if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
					continue
				}
				key := [2]string{m.Tag, s.Key}
				if at[key] == nil {
					at[key] = &series{unit: m.Unit}
				}
				at[key].values = append(at[key].values, s.Value)
			}
		}
	}
	var out []Aggregate
	for _, tag := range tags {
		for _, stat := range statKeys() {
			s := at[[2]string{tag, stat}]
			if s == nil {
				continue
			}
			a := Interval(s.values, level)
			if len(runs) == 1 {
				a.Std, a.CV, a.SE, a.Low, a.High = 0, 0, 0, a.Mean, a.Mean
			}
			a.Tag, a.Stat, a.Unit = tag, stat, s.unit
			out = append(out, a)
		}
	}
	return out
}

func counting(runs []*Run) []*Run {
	var out []*Run
	for _, r := range runs {
		if r.OK() {
			out = append(out, r)
		}
	}
	return out
}

// Interval aggregates values, of which there is one at least.
func Interval(values []float64, level float64) Aggregate {
	n := float64(len(values))
	a := Aggregate{Runs: len(values), Mean: Mean(values), Min: slices.Min(values), Max: slices.Max(values)}
	if len(values) < 2 {
		nan := math.NaN()
		a.Std, a.CV, a.SE, a.Low, a.High, a.T = nan, nan, nan, nan, nan, nan
		return a
	}
	a.Std = deviation(values, a.Mean)
	a.CV = math.Inf(1)
	if a.Mean != 0 {
		a.CV = a.Std / a.Mean
	}
	a.SE = a.Std / math.Sqrt(n)
	a.T = quantile(level, len(values)-1)
	a.Low, a.High = a.Mean-a.T*a.SE, a.Mean+a.T*a.SE
	return a
}

// quantile is Student's t between whose negative and itself a share of level lies.
func quantile(level float64, freedom int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(freedom)}.Quantile(1 - (1-level)/2)
}

// Mean is the mean of values, of which there is one at least.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// deviation is the standard deviation of a sample; of values that are all the same it is 0, whatever rounding made of their mean.
func deviation(values []float64, mean float64) float64 {
	sum, same := 0.0, true
	for _, v := range values {
		sum += (v - mean) * (v - mean)
		same = same && v == values[0]
	}
	if same {
		return 0
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// Percentile is the p-th percentile of sorted values, linear between two neighbours, as numpy has it.
func Percentile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (sorted[i+1]-sorted[i])*(at-float64(i))
}
