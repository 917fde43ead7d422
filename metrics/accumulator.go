package metrics

import (
	"errors"
	"slices"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const tagTTFT = "time_to_first_token"

// Options say what kind of run an Accumulator takes records of.
type Options struct {
	Streaming    bool // without it the StreamOnly metrics are dropped
	ServerCounts bool // token counts are the server's; the UsageDiff metrics are dropped
	IncludeCold  bool // cold requests stay in the latency sets
	OpenLoop     bool // arrivals do not wait for answers; without it the OpenLoop metrics are dropped
	NoTokens     bool // answers are no tokens; the Produced metrics are dropped
	Scheduled    bool // requests follow a file's schedule; without it the Scheduled metrics are dropped
	Network      bool // the network's latency is given or measured; without it the Network metrics are dropped
	// Objectives are the service level objectives; nil = none, and the WithObjectives metrics are dropped.
	Objectives *Objectives `json:"-"`
	// Limits are what counts as too far off; nil = DefaultLimits.
	Limits *Limits
	// ExactCap is how many values of one metric are kept for exact percentiles; 0 means DefaultExactCap.
	ExactCap int
	// HDR keeps a histogram of every latency and per-user rate from the first value on. All metrics get one past ExactCap.
	HDR bool
}

// Table is the part of the metric table that applies to such a run.
func (o Options) Table() []*Def {
	l := DefaultLimits()
	if o.Limits != nil {
		l = *o.Limits
	}
	return slices.DeleteFunc(table(l, o.Objectives), func(d *Def) bool {
		return d.Has(StreamOnly) && !o.Streaming || d.Has(UsageDiff) && o.ServerCounts || d.Has(OpenLoop) && !o.OpenLoop ||
			d.Has(WithObjectives) && o.Objectives == nil || d.Has(Scheduled) && !o.Scheduled || d.Has(Network) && !o.Network ||
			d.Has(Produced) && o.NoTokens
	})
}

// Counts are how the requests of a phase ended. Sent is always the sum of the others.
type Counts struct {
	Sent      int64 `json:"sent"`
	OK        int64 `json:"ok"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"` // by plan
	Censored  int64 `json:"censored"`
}

func (c *Counts) add(o Counts) {
	c.Sent, c.OK, c.Failed = c.Sent+o.Sent, c.OK+o.OK, c.Failed+o.Failed
	c.Cancelled, c.Censored = c.Cancelled+o.Cancelled, c.Censored+o.Censored
}

// Accumulator folds the records of one kind of phase into results. One goroutine adds; every method may be called from any.
// Once all series are past their cap it allocates nothing a record.
type Accumulator struct {
	mu   sync.Mutex
	o    Options
	defs []*Def
	// hot and cold hold the values of the metric of the same index: cold those of cold requests in a ColdOut metric, hot all others. A
	// series is nil where the metric is not one of values, a cold one also until there is a cold value.
	hot, cold []*Series
	folds     []fold
	counts    Counts
	errs      errorGroups
	coldSeen  coldCount
	client    clientSide
	curves    *curves // nil = none
	drafts    []int64 // by how many draft tokens a step took: steps
	network   float64 // round trip in ns; 0 = not known
	from, to  int64   // first start and last end of any request that was completed

	rec  Record    // the last record, with the server's counts
	list []float64 // the values of a PerGap metric
}

type fold struct {
	v float64
	n int64
}

func (f *fold) add(how Fold, v float64, n int64) {
	switch {
	case n == 0:
		return
	case f.n == 0:
		f.v = v
	case how == FoldSum:
		f.v += v
	case how == FoldMin:
		f.v = min(f.v, v)
	case how == FoldMax:
		f.v = max(f.v, v)
	}
	f.n += n
}

// NewAccumulator returns an empty accumulator.
func NewAccumulator(o Options) *Accumulator {
	a := newAccumulator(o, o.Table())
	a.curves = newCurves(o.ExactCap)
	return a
}

// newAccumulator returns one without curves. defs are o's table.
func newAccumulator(o Options, defs []*Def) *Accumulator {
	a := &Accumulator{o: o, defs: defs, client: newClientSide(&o)}
	a.hot, a.cold = make([]*Series, len(a.defs)), make([]*Series, len(a.defs))
	a.folds = make([]fold, len(a.defs))
	for i, d := range a.defs {
		if d.Shape == PerRecord || d.Shape == PerGap {
			a.hot[i] = a.series(d, o.HDR && d.ColdOut)
		}
	}
	return a
}

func (a *Accumulator) series(d *Def, hdr bool) *Series {
	return NewSeries(SeriesOptions{Unit: d.Unit, Cap: a.o.ExactCap, HDR: hdr})
}

// Add takes one record. Valid records feed the metrics that are not ErrorOnly, error records those that are, and a censored record is
// counted and nothing else. r itself is not kept; its error's strings are.
func (a *Accumulator) Add(r *Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.Sent++
	switch {
	case r.Censored:
		a.counts.Censored++
		return
	case r.Cancelled:
		a.counts.Cancelled++
	case r.Err != nil:
		a.counts.Failed++
	default:
		a.counts.OK++
	}
	if r.Err != nil {
		a.errs.add(r.Err, 1)
	}
	a.span(r.Start, r.End)
	if a.o.ServerCounts {
		a.rec = *r
		a.rec.UseServerCounts()
		r = &a.rec
	}
	cold := r.Cold != 0 && r.Valid()
	if cold {
		a.coldSeen.add(r.Cold)
	}
	if r.Valid() && r.Spec != nil {
		a.drafts = addDrafts(a.drafts, r.Spec.Histogram)
	}
	if r.Valid() {
		a.client.add(r, a.o.Streaming, !cold || a.o.IncludeCold)
	}
	if a.curves != nil {
		a.curves.add(r)
	}
	for i, d := range a.defs {
		if d.Shape <= Aggregate && d.For(r) {
			a.take(i, d, r, cold)
		}
	}
}

// take adds the record's value of one metric.
func (a *Accumulator) take(i int, d *Def, r *Record, cold bool) {
	if d.Shape == PerGap {
		a.list = d.List(r, a.list[:0])
		for _, v := range a.list {
			a.into(i, d, cold).Add(v)
		}
		return
	}
	v, ok := d.Value(r)
	switch {
	case !ok:
	case d.Shape == Aggregate:
		a.folds[i].add(d.Fold, v, 1)
	default:
		a.into(i, d, cold).Add(v)
	}
}

// into is the series that a value of metric i goes to.
func (a *Accumulator) into(i int, d *Def, cold bool) *Series {
	if !cold || !d.ColdOut {
		return a.hot[i]
	}
	if a.cold[i] == nil {
		a.cold[i] = a.series(d, false)
	}
	return a.cold[i]
}

// span widens the time between the first start and the last end.
func (a *Accumulator) span(from, to int64) {
	if from == 0 || to == 0 {
		return
	}
	if a.from == 0 || from < a.from {
		a.from = from
	}
	a.to = max(a.to, to)
}

// withCold is the series of metric i with its cold values.
func (a *Accumulator) withCold(i int) *Series {
	if a.cold[i] == nil {
		return a.hot[i]
	}
	s := a.hot[i].Clone()
	s.Merge(a.cold[i])
	return s
}

// shown is the series of metric i as the results have it.
func (a *Accumulator) shown(i int) *Series {
	if a.o.IncludeCold {
		return a.withCold(i)
	}
	return a.hot[i]
}

// Merge adds all that o has taken, as if its records had been added here. Both must have been made with the same Options. o does not change,
// and nothing may be added to it meanwhile.
func (a *Accumulator) Merge(o *Accumulator) error {
	if a.o != o.o {
		return errors.New("metrics: accumulators of different options cannot be merged")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, d := range a.defs {
		a.folds[i].add(d.Fold, o.folds[i].v, o.folds[i].n)
		if a.hot[i] != nil {
			a.hot[i].Merge(o.hot[i])
		}
		if o.cold[i] != nil {
			a.into(i, d, true).Merge(o.cold[i])
		}
	}
	a.counts.add(o.counts)
	a.errs.merge(&o.errs)
	a.coldSeen.merge(&o.coldSeen)
	a.client.merge(&o.client)
	a.curves.merge(o.curves)
	a.drafts = addDrafts(a.drafts, o.drafts)
	a.span(o.from, o.to)
	return nil
}

func addDrafts(all, more []int64) []int64 {
	for len(all) < len(more) {
		all = append(all, 0)
	}
	for j, n := range more {
		all[j] += n
	}
	return all
}

// Drafts are how many steps of the server's speculative decoding took 0, 1, … draft tokens; none where it said nothing of them.
func (a *Accumulator) Drafts() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.drafts)
}

// Window is the time of one phase, from its first request's issue until all its requests had ended, in ns of the run.
type Window struct{ Start, End int64 }

// SetNetwork says how long the network's round trip took, in ns.
func (a *Accumulator) SetNetwork(ns float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.network = ns
}

// Results are the metrics that have a value, in the order of the table, Internal ones left out. The rates divide by the sum of the windows'
// durations, or by benchmark_duration where no window is given. Curves take all the time from the first window's start to the last one's
// end.
func (a *Accumulator) Results(w ...Window) []Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.curves.stretches()
	defer func() { a.curves.parts = nil }() // as long as the run
	var over Window
	switch {
	case len(w) > 0:
		over = Window{w[0].Start, w[len(w)-1].End}
	case len(all) > 0:
		over = Window{all[0].from, all[len(all)-1].to}
	}
	return a.results(w, func(d *Def) (Result, bool) { return a.curves.result(d, all, over) })
}

// results are those of the windows, where curve gives what there is to say of a Curve.
func (a *Accumulator) results(w []Window, curve func(*Def) (Result, bool)) []Result {
	t := &Totals{by: map[string]float64{}, network: a.network}
	for _, w := range w {
		t.seconds += float64(w.End-w.Start) / 1e9
	}
	if len(w) > 1 {
		t.phases = t.seconds * 1e9
	}
	var out []Result
	for i, d := range a.defs {
		var r Result
		var ok bool
		switch d.Shape {
		case PerRecord, PerGap:
			s := a.shown(i)
			if r, ok = s.Result(d); ok {
				t.by[d.Tag] = s.Sum()
			}
		case Aggregate:
			r, ok = t.scalar(d, a.folds[i].v, a.folds[i].n > 0)
		case Derived:
			v, has := d.Derive(t)
			r, ok = t.scalar(d, v, has)
			if ok && d.Tag == "benchmark_duration" && len(w) == 0 {
				t.seconds = v / 1e9
			}
		case Restated:
			r, ok = a.restate(d, t)
		case Curve:
			r, ok = curve(d)
		}
		if ok && !d.Has(Internal) {
			out = append(out, r)
		}
	}
	return out
}

// restate makes a Restated metric of the one that it shows.
func (a *Accumulator) restate(d *Def, t *Totals) (Result, bool) {
	var s *Series
	if d.Of != "" {
		i := slices.IndexFunc(a.defs, func(of *Def) bool { return of.Tag == d.Of })
		if i < 0 {
			return Result{}, false
		}
		s = a.shown(i)
	}
	r, ok := d.Restate(s, d, t)
	r.Def = d
	return r, ok
}

func (t *Totals) scalar(d *Def, v float64, ok bool) (Result, bool) {
	if !ok {
		return Result{}, false
	}
	t.by[d.Tag] = v
	return Result{Def: d, Scalar: true, Avg: v * d.Factor()}, true
}

// Errors are the errors so far, by code, type and message, in first-seen order. Past MaxErrors different ones the rest is one entry.
func (a *Accumulator) Errors() []ErrorCount {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.errs.counts()
}

// Counts are how the requests so far ended.
func (a *Accumulator) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// Histogram is the distribution of one metric: a value in Def.Unit is a recorded value divided by Scale.
type Histogram struct {
	Def   *Def
	Hist  *hdrhistogram.Histogram
	Scale float64
}

// Histograms are copies of the histograms of the latencies, the per-user rates and the client's own delays that have values; none without
// Options.HDR.
func (a *Accumulator) Histograms() []Histogram {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Histogram
	for i, d := range a.defs {
		if !d.ColdOut || !a.o.HDR {
			continue
		}
		if s := a.shown(i); s.pos != nil {
			out = append(out, Histogram{d, s.pos.Clone(), s.res.scale})
		}
	}
	if a.o.HDR {
		out = append(out, a.client.histograms()...)
	}
	return out
}

// Live is a snapshot for a progress line. TTFT is in ms and absent where TTFTCount is 0; Rate is completed requests a second between the
// first start and the last end, 0 before there is one.
type Live struct {
	Counts
	TTFTCount        int64
	TTFTAvg, TTFTP50 float64
	Rate             float64
}

// Live is the state so far. It costs no more than a look through one histogram.
func (a *Accumulator) Live() Live {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := Live{Counts: a.counts}
	if a.to > a.from {
		l.Rate = float64(a.counts.OK+a.counts.Failed+a.counts.Cancelled) / (float64(a.to-a.from) / 1e9)
	}
	for i, d := range a.defs {
		if d.Tag != tagTTFT {
			continue
		}
		s := a.shown(i)
		if p50, ok := s.Quantile(50); ok {
			l.TTFTCount, l.TTFTAvg, l.TTFTP50 = s.n, s.mean()*d.Factor(), p50*d.Factor()
		}
	}
	return l
}
