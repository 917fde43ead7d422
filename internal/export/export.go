// Package export writes what a run found: the files aiperf 0.13.0 writes, byte for byte in layout, and the same tables on the screen, with
// prefire's own facts beside them. Everything that prints is a function of its arguments to an io.Writer; files go through [FS].
//
// Values arrive in display units (metrics.Result) and are never rounded in JSON and JSONL; CSV and the tables round to two decimals, as
// aiperf does. A value that is missing is absent: no null, no 0, no NaN.
package export

import (
	"encoding/json"
	"time"

	"prefire/metrics"
)

// AIPerfVersion is what readers of the files check.
const AIPerfVersion = "0.13.0"

const schemaVersion = "1.4"

// Run is everything the files and tables of one run need.
type Run struct {
	BenchmarkID string // 12 hex digits
	Info        Info
	// Results are the profiling phases' metrics. Internal ones are not written.
	Results []metrics.Result
	// Warmup are the warm-up phases' metrics, for warmup_metrics.
	Warmup []metrics.Result
	Errors []metrics.ErrorCount // of the profiling phases, in the order they were first seen
	// Start and End bound the profiling phases. A zero time is left out.
	Start, End   time.Time
	WasCancelled bool
	// Incomplete says why the results cover only a part of the run; "" = they cover all of it.
	Incomplete string
	// InputConfig is the explicitly set config; nil leaves the key out. Its MarshalJSON may use any whitespace: it is laid out again.
	InputConfig json.Marshaler
	// Slices are those of the profiling phases; none = none were asked for.
	Slices []Slice
	// Broken are the names of the files that grew with the run and are not whole.
	Broken []string
	// NoSummary leaves out the summary's JSON.
	NoSummary bool
	// Drafts[j] is how many steps of the server's speculative decoding took j draft tokens, in the profiling phases.
	Drafts []int64
	// Phases are all phases of the run, warm-up too, in order.
	Phases []Phase
	// Server is what the servers' own metrics did; nil = they were not read.
	Server *ServerMetrics
	// Prefire is the one extra top-level key of the summary.
	Prefire Object
	// Secrets takes known secret values out of whatever the server or the network said.
	Secrets *Redactor

	Screen Screen
}

// Info is run_info.
type Info struct {
	Seed    uint64
	Trial   int
	Command string // one that can be run again, secrets redacted; "" leaves it out
	part    *part  // of a series; nil = the run stands alone
}

// Phase is one phase of the run, for phases/ and phase_manifest.json.
type Phase struct {
	Index          int
	ProfilingIndex int // number among the profiling phases; unused for warm-up
	Name           string
	Kind           metrics.Kind
	Start, End     time.Time
	WasCancelled   bool
	OK, Failed     int64
	Errors         []metrics.ErrorCount
	Results        []metrics.Result
	Drafts         []int64
}

// Object is a JSON object that keeps the order of its keys. Floats are written with a point, and are left out where they are no number, as
// nil is. Values that encoding/json has to write (structs, maps, a json.Marshaler) keep its form of numbers.
type Object []Field

// Field is one key of an Object.
type Field struct {
	Key   string
	Value any
}

// result finds a metric by its tag.
func result(rs []metrics.Result, tag string) *metrics.Result {
	for i := range rs {
		if rs[i].Def.Tag == tag {
			return &rs[i]
		}
	}
	return nil
}

// MetricObjects are results as the summary writes them, by tag, for use inside Run.Prefire.
func MetricObjects(rs []metrics.Result) Object { return byTag(rs, nil) }

// hidden reports whether a metric is computed but not exported.
func hidden(r *metrics.Result) bool { return r.Def.Flags&metrics.Internal != 0 }
