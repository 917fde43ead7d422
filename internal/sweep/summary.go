package sweep

import (
	"cmp"
	"slices"
)

// Limit is a service level that a variation must keep to be among the best.
type Limit struct {
	Metric    string
	Stat      string
	Op        string // lt | le | gt | ge
	Threshold float64
}

func (l *Limit) holds(v float64) bool {
	switch l.Op {
	case "lt":
		return v < l.Threshold
	case "le":
		return v <= l.Threshold
	case "gt":
		return v > l.Threshold
	}
	return v >= l.Threshold
}

// Cell is what the runs of one variation show together.
type Cell struct {
	Variation  *Variation
	Runs       []*Run
	Aggregates []Aggregate // none where no run counts
}

// OK is how many of the cell's runs count.
func (c *Cell) OK() int { return len(counting(c.Runs)) }

// Hung is the mean over the cell's runs of the share of requests that hung, in %.
func (c *Cell) Hung() float64 {
	sum, runs := 0., counting(c.Runs)
	for _, r := range runs {
		sum += r.Hung
	}
	return sum / float64(max(1, len(runs)))
}

// Lost is the share of the requests, in %, that failed or hung.
func (c *Cell) Lost() float64 {
	hung := c.Hung()
	if a, ok := c.Figure(errorRate, "avg"); ok {
		return hung + a.Mean*(100-hung)/100 // an error rate is of those that came to an end
	}
	return hung
}

// Figure is the mean over the cell's runs of one figure of a metric; false where there is none.
func (c *Cell) Figure(tag, stat string) (a *Aggregate, ok bool) {
	for i := range c.Aggregates {
		if a := &c.Aggregates[i]; a.Tag == tag && a.Stat == stat {
			return a, true
		}
	}
	return nil, false
}

// figure is Figure, or the average where a metric has no other figure.
func (c *Cell) figure(tag, stat string) (float64, bool) {
	a, ok := c.Figure(tag, stat)
	if !ok {
		a, ok = c.Figure(tag, "avg")
	}
	if !ok {
		return 0, false
	}
	return a.Mean, true
}

// Cells groups runs by their variation, in the order of the variations' first runs.
func Cells(runs []*Run, level float64) []Cell {
	var out []Cell
	for _, r := range runs {
		i := slices.IndexFunc(out, func(c Cell) bool { return c.Variation == r.Variation })
		if i < 0 {
			i = len(out)
			out = append(out, Cell{Variation: r.Variation})
		}
		out[i].Runs = append(out[i].Runs, r)
	}
	for i := range out {
		out[i].Aggregates = Confidence(out[i].Runs, level)
	}
	return out
}

// Best is a variation that is best in one figure.
type Best struct {
	Cell   *Cell
	Metric float64
	Unit   string
}

// Summary is what a sweep shows.
type Summary struct {
	Cells      []*Cell // those with a run that counts
	Throughput *Best   // most requests a second; nil where a variation has no such figure
	Latency    *Best   // smallest p99 of TTFT, of the request latency where there is no TTFT; nil likewise
	Pareto     []*Cell // those than which none has both more throughput and less latency, in the order of their values
	// Feasible is how many keep all limits.
	Feasible int
	// Failing are those of which more requests failed or hung than MostErrors: the times of those that were answered make none of them the best.
	Failing []*Cell
}

const (
	errorRate = "request_error_rate"
	// MostErrors is the share of failed and hung requests, in %, above which a variation is no candidate; where a limit is on the error rate, of
	// hung ones alone.
	MostErrors = 1.
)

// Summarise finds the best variations among those that keep all limits and answer their requests. Where none keeps the limits, Throughput and
// Latency are those of all that answer, and Pareto is empty; where none answers, nothing is best.
func Summarise(cells []Cell, limits []Limit) Summary {
	var s Summary
	var feasible []*Cell
	for i := range cells {
		c := &cells[i]
		if len(c.Aggregates) == 0 {
			continue
		}
		s.Cells = append(s.Cells, c)
		if keeps(c, limits) {
			feasible = append(feasible, c)
		}
	}
	s.Feasible = len(feasible)
	candidates := feasible
	if len(candidates) == 0 {
		candidates = s.Cells
	}
	lost := (*Cell).Lost
	if slices.ContainsFunc(limits, func(l Limit) bool { return l.Metric == errorRate }) {
		lost = (*Cell).Hung
	}
	fails := func(c *Cell) bool { return lost(c) > MostErrors }
	for _, c := range s.Cells {
		if fails(c) {
			s.Failing = append(s.Failing, c)
		}
	}
	candidates = slices.DeleteFunc(slices.Clone(candidates), fails)
	s.Throughput = best(candidates, "request_throughput", "avg", 1)
	latency := "time_to_first_token"
	if s.Latency = best(candidates, latency, "p99", -1); s.Latency == nil {
		latency = "request_latency"
		s.Latency = best(candidates, latency, "p99", -1)
	}
	if s.Feasible > 0 && s.Throughput != nil && s.Latency != nil {
		s.Pareto = front(candidates, latency)
	}
	return s
}

func keeps(c *Cell, limits []Limit) bool {
	for i := range limits {
		l := &limits[i]
		if v, ok := c.figure(l.Metric, l.Stat); !ok || !l.holds(v) {
			return false
		}
	}
	return true
}

// best is the first cell with the largest figure, or the smallest where sign is -1; nil where a cell has none.
func best(cells []*Cell, tag, stat string, sign float64) *Best {
	var out *Best
	for _, c := range cells {
		a, ok := c.Figure(tag, stat)
		if !ok {
			return nil
		}
		if out == nil || sign*a.Mean > sign*out.Metric {
			out = &Best{c, a.Mean, a.Unit}
		}
	}
	return out
}

// front are the cells that no other beats in one of throughput and latency without losing in the other.
func front(cells []*Cell, latency string) []*Cell {
	type point struct{ rate, late float64 }
	at := make([]point, len(cells))
	for i, c := range cells {
		rate, _ := c.Figure("request_throughput", "avg")
		late, _ := c.Figure(latency, "p99")
		at[i] = point{rate.Mean, late.Mean}
	}
	var out []*Cell
	for i, c := range cells {
		beaten := slices.ContainsFunc(at, func(p point) bool {
			return p.rate >= at[i].rate && p.late <= at[i].late && p != at[i]
		})
		if !beaten {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *Cell) int { return compareValues(a.Variation.Values, b.Variation.Values) })
	return out
}

func compareValues(a, b []Setting) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Or(cmp.Compare(a[i].Path, b[i].Path), compareValue(a[i].Value, b[i].Value)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareValue orders numbers by their size, all else by its text.
func compareValue(a, b any) int {
	x, isX := number(a)
	y, isY := number(b)
	if isX && isY {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(Text(Scalar(a)), Text(Scalar(b)))
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
