package metrics

import "strconv"

// Shape says how a metric's value comes about and what its result holds.
type Shape uint8

const (
	PerRecord Shape = iota // one value a record; full statistics
	PerGap                 // a list a record, pooled; full statistics
	Aggregate              // a value a record, folded to one scalar
	Derived                // one scalar from the others
	Restated               // figures of another metric's values, seen in another way
	Curve                  // a step function of time, weighted by how long each step lasts
)

// Fold says how an Aggregate's values become one.
type Fold uint8

const (
	FoldSum Fold = iota
	FoldMin
	FoldMax
)

// Unit is a metric's unit as aiperf writes it.
type Unit string

const (
	Nanoseconds      Unit = "ns"
	Milliseconds     Unit = "ms"
	Seconds          Unit = "sec"
	Tokens           Unit = "tokens"
	TokensPerSec     Unit = "tokens/sec"
	TokensPerSecUser Unit = "tokens/sec/user"
	Requests         Unit = "requests"
	RequestsPerSec   Unit = "requests/sec"
	Ratio            Unit = "ratio"
	Percent          Unit = "%"
	Bytes            Unit = "B"
	Kilobytes        Unit = "KB"
	CountUnit        Unit = "count"
)

// Flags say when a metric applies and where it is shown.
type Flags uint16

const (
	StreamOnly     Flags = 1 << iota // streaming runs only
	LargerBetter                     // larger values are better
	ErrorOnly                        // from error records only
	NotInRecord                      // not in profile_export.jsonl
	UsageDiff                        // dropped where the server's counts are the counts
	Trace                            // the http_req_ family
	Integer                          // values are whole numbers, written without a point in JSONL
	Internal                         // computed, not exported
	OpenLoop                         // runs whose arrivals do not wait for answers only
	Produced                         // of answers that are tokens only
	Completed                        // from valid and failed records alike
	RunOnly                          // of the run as a whole, not of a slice of it
	WithObjectives                   // runs with service level objectives only
	Scheduled                        // runs on a fixed schedule only
	Network                          // runs whose network latency is known only
)

// Group is the console table a metric belongs to.
type Group uint8

const (
	FileOnly Group = iota
	Main
	UsageTable
	TraceTable
	EffectiveTable
	ActiveTable
	SpecTable
)

// Def is one row of the metric table.
type Def struct {
	Tag     string
	Header  string
	Unit    Unit // of the value
	Display Unit // of what is exported
	Shape   Shape
	Flags   Flags
	Group   Group
	Order   int // row in its console table; rows without one come last
	// ColdOut says that cold requests stay out of this metric (DESIGN.md 2).
	ColdOut bool
	// Doc says in one or two sentences what the number is, its unit and range, and the source of the formula.
	Doc string
	// Value is the record's value in Unit; false = the record has none. Nil for PerGap and Derived.
	Value func(r *Record) (float64, bool)
	// List appends the record's values in Unit; for PerGap only.
	List func(r *Record, dst []float64) []float64
	// Fold is how an Aggregate's values become one.
	Fold Fold
	// Derive is a Derived metric's value in Unit; false = the run has none.
	Derive func(t *Totals) (float64, bool)
	// Of names the metric whose values a Restated one shows; "" = it shows none of one metric, and Restate gets nil.
	Of string
	// Restate is a Restated metric's result, in Display, but for Def; false = the run has none.
	Restate func(of *Series, d *Def, t *Totals) (Result, bool)
	// over is a Curve's value during a stretch of time in which nothing changed; false = that time does not count.
	over func(s *stretch) (float64, bool)
	// part is the quantity without which a Curve has no values.
	part quantity
	// judge is the value that an objective is held against where it is not Value's.
	judge func(r *Record) (float64, bool)
}

// Has reports whether all flags of f are set.
func (d *Def) Has(f Flags) bool { return d.Flags&f == f }

// For reports whether r is of the kind that this metric is taken from: valid records, error records where it is ErrorOnly, both where it
// is Completed. A censored record is neither.
func (d *Def) For(r *Record) bool {
	switch {
	case d.Has(Completed):
		return r.Valid() || r.Failed()
	case d.Has(ErrorOnly):
		return r.Failed()
	case d.Has(StreamOnly) && r.Whole:
		return false
	}
	return r.Valid()
}

// Factor turns a value in Unit into one in Display. It is the factor that aiperf multiplies with, so that results agree to the last bit.
func (d *Def) Factor() float64 {
	switch {
	case d.Unit == Nanoseconds && d.Display == Milliseconds:
		return 1e3 / 1e9
	case d.Unit == Nanoseconds && d.Display == Seconds:
		return 1 / 1e9
	case d.Unit == Bytes && d.Display == Kilobytes:
		return 1.0 / 1024
	}
	return 1
}

// Totals are what Derived metrics are made from.
type Totals struct {
	by map[string]float64
	// seconds is what the rates divide by; 0 = nothing to divide by.
	seconds float64
	// phases is the sum of several phases' durations, in ns; 0 where there is one phase.
	phases float64
	// network is the network's round trip in ns; below 0 = not known.
	network float64
}

// Get is a metric's total in its Unit: the sum of a PerRecord or PerGap metric's values, the folded value of an Aggregate, or the value of
// a Derived metric that stands above in the table. It reports false where the run has no value.
func (t *Totals) Get(tag string) (float64, bool) {
	v, ok := t.by[tag]
	return v, ok
}

// Rate is the total of a metric divided by the observed duration in seconds.
func (t *Totals) Rate(tag string) (float64, bool) {
	v, ok := t.by[tag]
	if !ok || t.seconds <= 0 {
		return 0, false
	}
	return v / t.seconds, true
}

// Percentiles are the ranks that results carry, in order.
var Percentiles = [9]float64{1, 5, 10, 25, 50, 75, 90, 95, 99}

// Stats is a set of a Result's figures.
type Stats uint16

const (
	StatAvg Stats = 1 << iota
	StatMin
	StatMax
	StatStd
	StatSum
	StatCount
	statP // the first of Percentiles; the others follow
)

// percentileStats are the percentiles from index i on.
func percentileStats(i int) Stats { return statP * (1<<len(Percentiles) - 1) &^ (statP<<i - statP) }

// Result is what a run has to say on one metric, in the definition's Display unit.
type Result struct {
	Def *Def
	// Scalar: only Avg is present, as aiperf writes aggregates and derived metrics.
	Scalar bool
	// Absent are the figures that there are none of.
	Absent                  Stats
	Count                   int64
	Sum, Avg, Min, Max, Std float64
	P                       [9]float64
	Approx                  bool  // percentiles come from the HDR histogram, or a curve's figures from averages of short times
	OutOfRange              int64 // values that the histogram could not hold; in percentiles they count as Min or Max
}

// Stat is a figure by the name that files have for it: avg, min, max, std, sum, count, p1 to p99; false where there is none.
func (r *Result) Stat(name string) (float64, bool) {
	v, bit := 0., Stats(0)
	switch name {
	case "avg":
		v, bit = r.Avg, StatAvg
	case "min":
		v, bit = r.Min, StatMin
	case "max":
		v, bit = r.Max, StatMax
	case "std":
		v, bit = r.Std, StatStd
	case "sum":
		v, bit = r.Sum, StatSum
	case "count":
		v, bit = float64(r.Count), StatCount
	default:
		for i, p := range Percentiles {
			if name == "p"+strconv.FormatFloat(p, 'f', -1, 64) {
				v, bit = r.P[i], statP<<i
			}
		}
	}
	if bit == 0 || r.Absent&bit != 0 || r.Scalar && bit != StatAvg {
		return 0, false
	}
	return v, true
}
