package servermetrics

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"prefire/metrics"
)

// Metric is one metric over a phase, with all its series.
type Metric struct {
	Name   string
	Kind   Kind
	Help   string
	Unit   string // "" = not known
	Series []Series
}

// Series is one series over a phase. One of Gauge, Counter and Histogram is set.
type Series struct {
	URL       string // of its endpoint
	Labels    []Label
	Gauge     *GaugeStats
	Counter   *CounterStats
	Histogram *HistogramStats
	place     int
}

// GaugeStats is the distribution of a gauge's samples; Std is that of a sample (n − 1).
type GaugeStats struct {
	Avg, Min, Max, Std float64
	P                  [9]float64 // metrics.Percentiles
}

// CounterStats is how much a counter rose, and that by the second.
type CounterStats struct{ Total, Rate float64 }

// HistogramStats is what a histogram took in: how many values, their sum, both by the second, the percentiles estimated from the buckets (nil
// where there is nothing to estimate from), and the rise of each bucket (nil where it cannot be told).
type HistogramStats struct {
	Count             int64
	Sum               float64
	CountRate         float64 // NaN = the phase was read once only
	SumRate           float64
	Avg               float64
	Estimates         []float64 // metrics.Percentiles
	Buckets           []Bucket
	HasCount, HasRate bool
}

// Report is one endpoint over one or more phases.
type Report struct {
	URL     string
	Info    Info
	Metrics []Metric // by name; their series as the server has them
}

// Report sums up the phases given, those that the book has; false where it has read nothing in them. whole takes Info over the whole run.
func (b *Book) Report(phases []int, whole bool) (Report, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := Report{URL: b.url, Info: b.info}
	all := map[string]*rise{}
	for _, phase := range phases {
		w := b.phases[phase]
		if w == nil {
			continue
		}
		if !whole {
			r.Info = *b.phase[phase]
		}
		for key, s := range w.series {
			if have := all[key]; have != nil {
				have.merge(s)
			} else {
				all[key] = s.clone()
			}
		}
	}
	byName := map[string]*Metric{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		s := all[key]
		one, ok := s.stats()
		if !ok {
			continue
		}
		one.URL, one.Labels, one.place = b.url, s.s.Labels, s.s.place
		m := byName[s.s.Name]
		if m == nil {
			m = &Metric{Name: s.s.Name, Kind: s.s.Kind, Help: s.s.Help, Unit: unitOf(s.s.Name, s.s.Help)}
			byName[s.s.Name] = m
		}
		if m.Kind == s.s.Kind { // a name stands for one kind
			m.Series = append(m.Series, one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		m := byName[name]
		slices.SortStableFunc(m.Series, func(a, b Series) int { return cmp.Compare(a.place, b.place) })
		r.Metrics = append(r.Metrics, *m)
	}
	return r, len(r.Metrics) > 0
}

// Merge puts the series of several endpoints under one name each, in the order of their addresses and labels.
func Merge(reports []Report) []Metric {
	byName := map[string]*Metric{}
	for i := range reports {
		for _, m := range reports[i].Metrics {
			have := byName[m.Name]
			switch {
			case have == nil:
				m.Series = slices.Clone(m.Series)
				byName[m.Name] = &m
			case have.Kind == m.Kind:
				have.Series = append(have.Series, m.Series...)
			}
		}
	}
	var out []Metric
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		m := byName[name]
		slices.SortStableFunc(m.Series, func(a, b Series) int {
			return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(LabelText(a.Labels), LabelText(b.Labels)))
		})
		out = append(out, *m)
	}
	return out
}

// stats is what a series says of its phase; false where it has no value.
func (r *rise) stats() (Series, bool) {
	switch r.s.Kind {
	case Counter:
		if r.prev == nil {
			return Series{}, false
		}
		c := &CounterStats{Total: r.total}
		if s := r.seconds(); s > 0 {
			c.Rate = r.total / s
		}
		return Series{Counter: c}, true
	case Histogram:
		if r.prev == nil {
			return Series{}, false
		}
		return Series{Histogram: r.histogram()}, true
	}
	from := r.ticks
	if from.Count() == 0 {
		from = r.edges
	}
	v, ok := from.Result(&metrics.Def{Unit: metrics.Ratio, Display: metrics.Ratio})
	if !ok {
		return Series{}, false
	}
	g := &GaugeStats{Avg: v.Avg, Min: v.Min, Max: v.Max, P: v.P}
	if n := float64(v.Count); n > 1 {
		g.Std = v.Std * math.Sqrt(n/(n-1))
	}
	return Series{Gauge: g}, true
}

func (r *rise) seconds() float64 { return float64(r.to-r.from) / 1e9 }

func (r *rise) histogram() *HistogramStats {
	h := &HistogramStats{Count: int64(r.count)}
	if !r.broken {
		h.Buckets = r.buckets
	}
	if h.Count <= 0 {
		h.Count = 0
		return h
	}
	h.HasCount, h.Sum, h.Avg = true, r.total, r.total/r.count
	if s := r.seconds(); s > 0 {
		h.HasRate, h.CountRate, h.SumRate = true, r.count/s, r.total/s
	}
	h.Estimates = r.estimates()
	return h
}

// estimates are the percentiles that the buckets make likely.
func (r *rise) estimates() []float64 {
	if r.broken || r.total < 0 {
		return nil
	}
	if r.total == 0 {
		return make([]float64, len(metrics.Percentiles))
	}
	var spans []span
	below, bound, overflow := 0.0, 0.0, 0.0
	for i, b := range r.buckets {
		count := b.Count - below
		below = b.Count
		if math.IsInf(b.Bound, 1) {
			overflow = count
			continue
		}
		spans = append(spans, span{low: bound, high: b.Bound, count: count, learned: r.learned[i]})
		bound = b.Bound
	}
	if len(spans) == 0 {
		return nil
	}
	values := estimate(spans, overflow, r.total)
	if len(values) == 0 {
		return nil
	}
	return percentiles(values, metrics.Percentiles[:])
}
