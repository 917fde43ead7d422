// Package config reads the command line and the config files of both dialects into one resolved Config. Every value keeps its origin until
// then, so that a message names the flag, or the file, line, column and key, it came from.
package config

import (
	"time"

	"prefire/metrics"
)

// Dialect is the kind of config file a run came from.
type Dialect string

const (
	NoFile   Dialect = ""           // flags alone
	Schema20 Dialect = "aiperf-2.0" // as aiperf 0.13.0 reads it
	Older    Dialect = "older-2.0"  // datasets as a mapping (reference/two-procedures.md)
)

// Config is everything a run needs, with all defaults filled in and all rules between values checked.
type Config struct {
	Dialect Dialect
	File    string // config file, "" = none

	Models            []string
	ModelStrategy     string    // how sessions choose among Models: random | weighted | "" = each in turn
	ModelWeights      []float64 // of Models, where the strategy is weighted; they add up to about 1
	Endpoint          Endpoint
	Dataset           Dataset
	Phases            []Phase
	Tokenizer         string // the one asked for, builtin for a placeholder model, else the model's name
	TokenizerRevision string // of a model in the hub cache; "" = main
	// DefaultStop: no stop was given, and the run ends after 10 requests, unless its prompts come with a schedule.
	DefaultStop bool
	Artifacts   Artifacts
	SLOs        []metrics.Objective // none = no goodput
	RoundTrip   RoundTrip
	// ServerMetrics is what is read of the servers' own metrics; nil = nothing.
	ServerMetrics *ServerMetrics
	Seed          *uint64 // nil = drawn from the system
	UI            string  // dashboard | simple | none | "" = not given: the caller decides by its terminal, and tells Settle
	LogLevel      string  // one of LogLevels
	// StatsInterval is the time between lines of progress where there is no terminal: 0 = none are printed, nil = the display's own.
	StatsInterval *time.Duration

	// CountTemplate: the input length counts what the server's chat template adds.
	CountTemplate bool

	Client         string // auto | portable | reactor
	Prewarm        bool
	IncludeCold    bool
	StreamsPerConn int
	Retries        int    // of a request that was answered 429
	Report         bool   // make report.html after the run
	LiveMetrics    string // address; "" = none

	// Notices are lines for stderr: flags that mean nothing here, defaults that surprise, the dialect, totals under the rule.
	Notices []string
	// Input is the explicitly set config in schema 2.0's shape, secrets redacted, for input_config of the JSON: ordered maps
	// (config.Map), slices and scalars.
	Input Map
	// Command is the command line for run_info.cli_command: one that can be run again, secrets redacted.
	Command string // with aiperf as the program; CommandLine makes it for another name
}

// Endpoint is where and how requests go.
type Endpoint struct {
	URLs            []string // with scheme
	Path            string   // custom endpoint path; "" = the type's own
	Type            string   // chat | completions | embeddings
	Streaming       bool
	APIKey          string
	Headers         []KeyValue
	Extra           []KeyValue    // merged into every body; values are JSON values
	Timeout         time.Duration // 0 = none
	SessionHeader   string        // name of the field with the session's id; "" = the default
	Reuse           string        // of connections: sticky-user-sessions or never; "" = pooled, as "pooled" is
	LegacyMaxTokens bool
	ServerCounts    bool   // --use-server-token-count
	PerChunkUsage   bool   // the first chunk's tokens are known from its usage
	HTTP            string // auto | 1.1 | 2 | h2c
	Wait            Wait
	Reset           *ResetCache // nil = none
	Profiler        *Profiler   // nil = none
	Network         Network
}

// KeyValue keeps the order in which a mapping was written.
type KeyValue struct {
	Key   string
	Value any // string, bool, int64, float64, nil, Map, []any
}

// JSON is the value as JSON.
func (kv KeyValue) JSON() ([]byte, error) { return appendJSON(nil, kv.Value) }

// Map is an ordered mapping, written as a JSON object in its order.
type Map []KeyValue

// Length is a distribution of token lengths: normal, truncated at 1, or where High > 0 uniform from Low to High.
type Length struct {
	Mean, Stddev float64
	Low, High    int
	Shape        *LengthShape // nil = none of its own
}

// LengthShape is what only a config file says of a length. Mean is then what is to be expected, bounds aside.
type LengthShape struct {
	Median   float64      // of a log-normal distribution; 0 = it is none
	Min, Max *float64     // draws beyond are these; nil = no bound
	Parts    []LengthPart // of a mixture: peaks, or points; nil = it is none
}

// LengthPart is one part of a mixture, and its weight beside those of the others.
type LengthPart struct {
	Weight float64
	Length
}

// LengthShare is one pair of lengths of a mix.
type LengthShare struct {
	Percent       float64
	Input, Output Length
}

// Dataset is the synthetic dataset, or the one from a file; Output is for rows without a limit of their own there.
type Dataset struct {
	Name           string
	File           *FileDataset // nil = synthetic
	Entries        int          // distinct prompts; 0 = as many as the run sends, none repeated
	Sampling       string       // order of the entries: sequential | random | shuffle; "" = sequential
	Input          Length
	Output         Length     // Mean 0 = no limit asked of the server
	Template       string     // with {{name}}; "" = none
	Variables      []Variable // of the template
	MaxTotalTokens int        // 0 = not given

	Mix                      []LengthShare // in place of Input and Output; empty = none
	Corpus                   string        // sonnet | coding | random; "" = sonnet
	Batch                    int           // texts in one message; 0 = one
	System                   string        // system message of every session; "" = none
	SharedSystem             int           // tokens of one that is made; 0 = none
	UserContext              int           // tokens of a message before the first turn; 0 = none
	PrefixPool, PrefixLength int           // prefixes, one of which begins each session; 0 = none
	Turns                    Length        // of a session; a mean of 0 = one
	Delay                    Length        // think time before a turn, in ms; a mean of 0 = none
	DelayRatio               float64       // factor on it
	CacheBust                string        // aiperf's names; "" = none
	Repeat                   float64       // share of sessions that are an earlier one again
}

// Variable is one variable of a prompt template with the values it is drawn from.
type Variable struct {
	Name   string
	Values []string
}

// Phase is one block of load.
type Phase struct {
	Name        string
	Kind        metrics.Kind
	Concurrency int           // sessions in flight; 0 = no limit, where arrivals do not wait for answers
	Capped      bool          // of a dataset from a file: Concurrency was given, and bounds the file's own schedule too
	Requests    int64         // 0 = no such stop
	Sessions    int64         // 0 = no such stop
	Duration    time.Duration // 0 = no such stop
	Grace       time.Duration // Infinite = no end
	Load        Load
}

// Load is how the requests of a phase become due, and what limits them.
type Load struct {
	Type            string      // concurrency | constant | poisson | gamma | user_centric
	Rate            float64     // requests a second; 0 = there is a Series
	Users           int         // user_centric
	Series          []RatePoint // the rate over time, counted from the end of RateRamp
	Smoothness      float64     // gamma
	Prefill         int         // 0 = no limit
	ConcurrencyRamp Ramp
	PrefillRamp     Ramp
	RateRamp        Ramp
	CancelShare     float64       // of all requests, 0 to 1
	CancelDelay     time.Duration // from a request's last byte
	FailedShare     *float64      // nil = failures do not end the run
	Seamless        bool
}

// Open reports whether arrivals do not wait for answers.
func (l *Load) Open() bool { return l.Type != "concurrency" }

// Ramp brings a value up in time. Duration 0 = none.
type Ramp struct {
	Duration time.Duration
	Strategy string // linear | exponential | poisson
}

// RatePoint is a rate, in requests a second, at a time, in s.
type RatePoint struct{ At, Rate float64 }

// Infinite is a grace period without an end.
const Infinite = time.Duration(-1)

// Artifacts is where files go.
type Artifacts struct {
	Dir    string // the run's own folder, resolved (aiperf's naming where --artifact-dir is not given)
	Prefix string // "" = aiperf's default names

	Level     string        // one of the Level constants
	NoSummary bool          // no JSON of the summary
	Trace     bool          // each request's way over the network in its record
	ShowTrace bool          // a table of it on the screen
	Answers   bool          // outputs.json
	Slice     time.Duration // 0 = no slices
}

// Error is a command line or config that cannot be run. Cmd prints it under Title and exits 1.
type Error struct {
	Title string // as aiperf titles its box: Error, Error Running AIPerf System, Configuration Error
	Msg   string
	// Invalid says that the message is about values of a config file or the rules between them, each with its place.
	Invalid bool
}

func (e *Error) Error() string { return e.Msg }

// OwnConnections reports whether sessions, or requests, have connections of their own.
func (e *Endpoint) OwnConnections() bool { return e.Reuse != "" && e.Reuse != "pooled" }

// reuseStrategies are the values of --connection-reuse-strategy, as aiperf spells them.
func reuseStrategies() []string { return []string{"pooled", "never", "sticky-user-sessions"} }
