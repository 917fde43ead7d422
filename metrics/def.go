package metrics

// Shape says how a metric's value comes about and what its result holds.
type Shape uint8

const (
	PerRecord Shape = iota // one value a record; full statistics
	PerGap                 // a list a record, pooled; full statistics
	Aggregate              // a value a record, folded to one scalar
	Derived                // one scalar from the others
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
	StreamOnly   Flags = 1 << iota // streaming runs only
	LargerBetter                   // larger values are better
	ErrorOnly                      // from error records only
	NotInRecord                    // not in profile_export.jsonl
	UsageDiff                      // dropped where the server's counts are the counts
	Trace                          // the http_req_ family
	Integer                        // values are whole numbers, written without a point in JSONL
	Internal                       // computed, not exported
)

// Group is the console table a metric belongs to.
type Group uint8

const (
	FileOnly Group = iota
	Main
	UsageTable
	TraceTable
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
}

// Percentiles are the ranks that results carry, in order.
var Percentiles = [9]float64{1, 5, 10, 25, 50, 75, 90, 95, 99}

// Result is what a run has to say on one metric, in the definition's Display unit.
type Result struct {
	Def *Def
	// Scalar: only Avg is present, as aiperf writes aggregates and derived metrics.
	Scalar                  bool
	Count                   int64
	Sum, Avg, Min, Max, Std float64
	P                       [9]float64
	Approx                  bool // percentiles come from the HDR histogram
	Integral                bool // a scalar that is a whole number
	OutOfRange              int64
}
