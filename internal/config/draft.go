package config

import "prefire/metrics"

// opt is a value that may be absent, with where it was given.
type opt[T any] struct {
	v    T
	ok   bool
	from string // "run.yaml:3:5: benchmark.endpoint.timeout" or "--request-timeout-seconds"
}

func given[T any](v T, from string) opt[T] { return opt[T]{v, true, from} }

// or is the value, or fallback where there is none.
func (o opt[T]) or(fallback T) T {
	if o.ok {
		return o.v
	}
	return fallback
}

// place is where a value was given; "" = nowhere, or by default.
func (o opt[T]) place() string {
	if !o.ok || o.from == "the default" {
		return ""
	}
	return o.from
}

// draft is what was given, by file and flags, before defaults and rules. What is absent in it is absent in the echo of the config too.
type draft struct {
	dialect Dialect
	file    string

	models    modelsDraft
	endpoint  endpointDraft
	dataset   datasetDraft
	phases    []*phaseDraft
	tokenizer opt[string]
	revision  opt[string] // of the tokenizer
	dir       opt[string]
	outputs   outputsDraft
	prefix    opt[string]
	seed      opt[int64] // of the envelope or the flag
	ui        opt[string]
	interval  opt[float64] // of the lines of progress, in s
	level     opt[string]  // of the log
	verbose   bool         // a flag asks for more, and so for plain lines of progress
	noGPU     bool
	noStop    bool // none was given
	server    serverDraft

	client, http   opt[string]
	prewarm        opt[bool]
	includeCold    opt[bool]
	report         opt[bool]
	liveMetrics    opt[string]
	streamsPerConn opt[int64]
	retries        opt[int64]

	notices []string

	lint     bool     // the file is checked, not run
	warnings []string // of the check
}

type endpointDraft struct {
	at                              string // where the section begins, for messages
	urls                            opt[[]string]
	kind, path, apiKey, session     opt[string]
	reuse                           opt[string]
	timeout                         opt[float64]
	streaming, legacy, serverCounts opt[bool]
	perChunk                        opt[bool]
	contentType, urlStrategy        opt[string]
	headers, extra                  []KeyValue
	control                         controlDraft
	network                         networkDraft
}

type datasetDraft struct {
	name     string
	at       string // where the dataset begins, for messages
	typed    bool   // type was written out
	entries  opt[int64]
	seed     opt[int64]
	sampling opt[string]
	isl, osl lengthDraft
	template opt[string]
	vars     []Variable
	maxTotal opt[int64]
	isFile   bool // it comes from a file
	fromFile fileDraft
	prompts  promptsDraft
}

// lengthDraft is a length as it was written: fixed has a number alone, otherwise it is a mean and perhaps a stddev.
type lengthDraft struct {
	mean, stddev opt[float64]
	fixed        bool
	shape        *LengthShape // where it is more than that, with mean as what is to be expected, and as it was written
	form         Map
}

// plain makes it a mean and a stddev, as flags give them.
func (l *lengthDraft) plain() { l.fixed, l.shape, l.form = false, nil, nil }

func (l *lengthDraft) length() Length {
	return Length{Mean: l.mean.v, Stddev: l.stddev.v, Shape: l.shape}
}

type phaseDraft struct {
	at                              string // where it begins, for messages
	name                            string
	kind                            metrics.Kind
	exclude                         bool // exclude_from_results was written out
	requests, sessions, concurrency opt[int64]
	duration, grace                 opt[float64]
	loadDraft
}
