package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"prefire/metrics"
)

// Levels of export.
const (
	LevelRecords = ""        // the default
	LevelSummary = "summary" // no file of single requests
	LevelRaw     = "raw"     // requests and answers as they were sent, too
)

// RoundTrip is what the latencies are adjusted by. The zero value adjusts nothing.
type RoundTrip struct {
	Mean     time.Duration // given; 0 = not
	Interval time.Duration // between measurements; 0 = none are made
}

// Adjusts reports whether there will be network-adjusted latencies.
func (n RoundTrip) Adjusts() bool { return n.Mean > 0 || n.Interval > 0 }

// outputsDraft is what was given of files, objectives and the network's latency.
type outputsDraft struct {
	summaryOff, recordsOff      opt[bool]
	records                     opt[bool] // written out
	raw, trace, timing, answers opt[bool]
	slice                       opt[float64]
	slos                        opt[[]metrics.Objective]
	network                     opt[bool]
	networkMean                 opt[float64]
	networkInterval             opt[float64]
}

// outputFlags are the flags of files, objectives and the network's latency.
func outputFlags() []Flag {
	return []Flag{
		{Field: "goodput", Names: []string{"--goodput"}, Group: gGoodput, Kind: Text,
			Help: "Service level objectives, as \"metric:limit metric:limit\" in the metrics' own units (ms, tokens/sec/user): goodput counts the requests " +
				"that keep all of them. For example \"time_to_first_token:200 inter_token_latency:20\"."},
		{Field: "export_level", Names: []string{"--export-level", "--profile-export-level"}, Group: gOutput, Kind: Enum,
			Choices: []string{LevelSummary, "records", LevelRaw}, Default: "records",
			Help: "summary: no file of single requests. records: profile_export.jsonl. raw: profile_export_raw.jsonl as well, with every request and answer as sent."},
		{Field: "slice_duration", Names: []string{"--slice-duration"}, Group: gOutput, Kind: Duration, Bound: above(0),
			Help: "Divide the run into slices of so long, and write each one's metrics to two files. Seconds, or with a unit."},
		{Field: "export_outputs_json", Names: []string{"--export-outputs-json"}, Group: gOutput, Kind: Bool, Default: "false",
			Help: "Write the text of every answer to outputs.json."},
		{Field: "export_http_trace", Names: []string{"--export-http-trace"}, Group: gTrace, Kind: Bool, Default: "false",
			Help: "Write each request's headers, the times of its way over the network, and every read of its answer to profile_export.jsonl."},
		{Field: "show_trace_timing", Names: []string{"--show-trace-timing"}, Group: gTrace, Kind: Bool, Default: "false",
			Help: "Show a table of the HTTP times at the end."},
		{Field: "network_latency_automatic", Names: []string{"--network-latency-automatic"}, Group: gLatency, Kind: Bool, Default: "false",
			Help: "Measure the network's round trip by TCP handshakes on connections of their own during the measured phases, and show latencies without it beside the others."},
		{Field: "network_latency_mean", Names: []string{"--network-latency-mean"}, Group: gLatency, Kind: Number, Bound: atLeast(0),
			Help: "The network's round trip in ms, where it is known: latencies are shown without it beside the others."},
		{Field: "network_latency_ping_interval", Names: []string{"--network-latency-ping-interval"}, Group: gLatency, Kind: Number, Bound: above(0),
			Help: "Seconds between the handshakes of --network-latency-automatic. Not given: 1."},
	}
}

// outputs puts the flags over what the file says.
func (all *flags) outputs(o *outputsDraft) error {
	if text := all.text("goodput"); text.ok {
		slos, err := readObjectives(text.v)
		if err != nil {
			return &Error{Title: titleParse, Msg: text.from + ": " + err.Error()}
		}
		o.slos = given(slos, text.from)
	}
	if level := all.choice("export_level"); level.ok {
		o.records, o.recordsOff = given(level.v != LevelSummary, level.from), given(level.v == LevelSummary, level.from)
		o.raw = given(level.v == LevelRaw, level.from)
	}
	replace(&o.slice, all.seconds("slice_duration"))
	replace(&o.answers, all.truth("export_outputs_json"))
	replace(&o.trace, all.truth("export_http_trace"))
	replace(&o.timing, all.truth("show_trace_timing"))
	return all.roundTrip(o)
}

// roundTrip has aiperf's rules: measured and given exclude each other, and the flags that were given replace the file's section.
func (all *flags) roundTrip(o *outputsDraft) error {
	refuse := func(from, msg string) error { return &Error{Title: titleConfig, Msg: from + ": " + msg} }
	measured, mean, interval := all.truth("network_latency_automatic"), all.number("network_latency_mean"), all.number("network_latency_ping_interval")
	switch {
	case mean.ok && measured.v:
		return refuse(mean.from, "Cannot use both --network-latency-automatic and --network-latency-mean together. Automatic measures the RTT; mean sets it directly.")
	case mean.ok && interval.ok:
		return refuse(interval.from, "--network-latency-ping-interval only applies with --network-latency-automatic, not with --network-latency-mean.")
	case interval.ok && !measured.v:
		return refuse(interval.from, "--network-latency-ping-interval only applies when --network-latency-automatic is set (or --network-latency-mean is provided).")
	case mean.ok:
		o.network, o.networkMean, o.networkInterval = given(true, mean.from), mean, interval
	case measured.v:
		o.network, o.networkMean = given(true, measured.from), opt[float64]{}
		replace(&o.networkInterval, interval)
	}
	return nil
}

// readObjectives reads "metric:limit metric:limit".
func readObjectives(s string) ([]metrics.Objective, error) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return nil, fmt.Errorf("expected space-separated 'key:value' pairs (e.g., 'k:v x:y'), got empty string")
	}
	var slos []metrics.Objective
	for _, w := range words {
		tag, value, ok := strings.Cut(w, ":")
		limit, err := strconv.ParseFloat(value, 64)
		if !ok || tag == "" || err != nil || math.IsNaN(limit) || math.IsInf(limit, 0) {
			return nil, fmt.Errorf("expected space-separated 'key:value' pairs (e.g., 'k:v x:y') with numbers as values, got %s", pyString(w))
		}
		slos = append(slices.DeleteFunc(slos, func(o metrics.Objective) bool { return o.Tag == tag }), metrics.Objective{Tag: tag, Limit: limit})
	}
	return slos, nil
}

// outputs reads the keys of artifacts that say which files there are.
func (s *section) outputs(o *outputsDraft) {
	format := func(key, only string) (off, listed opt[bool]) {
		v, where, ok := s.value(key)
		switch {
		case !ok:
		case v.shape == isBool && !v.b:
			off = given(true, s.place(v.line, v.col, where))
		case v.shape == isList && len(v.list) == 0:
			s.fail(v.line, v.col, where, "%s format list cannot be empty; use false to disable.", key)
		case v.shape == isList && !slices.ContainsFunc(v.list, func(n *node) bool { return n.shape != isString || n.s != only }):
			off, listed = given(false, s.place(v.line, v.col, where)), given(true, s.place(v.line, v.col, where))
		default:
			s.bad(v, where, "Input should be a list with '"+only+"', or false")
		}
		return off, listed
	}
	o.summaryOff, _ = format("summary", "json")
	o.recordsOff, o.records = format("records", "jsonl")
	if o.recordsOff.v {
		o.records = given(false, o.recordsOff.from)
	}
	o.raw, o.trace, o.timing, o.answers = s.truth("raw"), s.truth("trace"), s.truth("show_trace_timing"), s.truth("export_outputs_json")
	o.slice = s.seconds("slice_duration", above(0), false)
}

// slos reads the section of objectives.
func (d *decoder) slos(s *section, o *outputsDraft) {
	v, where, ok := s.value("slos")
	if !ok {
		return
	}
	if v.shape != isMap {
		s.bad(v, where, "Input should be a valid dictionary: metrics with their limits")
		return
	}
	var slos []metrics.Objective
	for _, e := range v.entries {
		if limit := s.number(e.value, join(where, e.key), nil); limit.ok {
			one := metrics.Objective{Tag: e.key, Limit: limit.v}
			if _, err := metrics.NewObjectives([]metrics.Objective{one}); err != nil {
				d.fail(e.line, e.col, join(where, e.key), "%v.", err)
			}
			slos = append(slos, one)
		}
	}
	o.slos = given(slos, d.place(v.line, v.col, where))
}

// roundTrip reads the section of the network's latency.
func (d *decoder) roundTrip(s *section, o *outputsDraft) {
	v, where, ok := s.value("network_latency")
	if !ok {
		return
	}
	n := d.section(v, where, keys{known: []string{"enabled", "ping_interval", "mean_ms"}})
	o.network = n.truth("enabled")
	for _, f := range [...]struct {
		key   string
		bound *Bound
		into  *opt[float64]
	}{{"ping_interval", above(0), &o.networkInterval}, {"mean_ms", atLeast(0), &o.networkMean}} {
		if v, where, ok := n.value(f.key); ok {
			*f.into = n.number(v, where, f.bound)
		}
	}
}

// resolveOutputs checks what was given and fills in the defaults.
func (r *decoder) resolveOutputs(o *outputsDraft, c *Config) {
	a := &c.Artifacts
	a.NoSummary = o.summaryOff.v
	if o.recordsOff.v {
		a.Level = LevelSummary
	}
	if o.raw.v {
		a.Level = LevelRaw
	}
	a.Trace, a.ShowTrace, a.Answers, a.Slice = o.trace.v, o.timing.v, o.answers.v, duration(o.slice.v)
	if a.Answers && a.Prefix+".json" == "outputs.json" {
		r.problem(o.answers.from, "--profile-export-prefix resolves to 'outputs' which produces 'outputs.json', colliding with --export-outputs-json (also "+
			"'outputs.json'). Use a different prefix.")
	}
	if a.Trace && a.Level == LevelSummary {
		r.problem(o.trace.from, "the HTTP trace is part of profile_export.jsonl, which --export-level summary leaves out. Drop one of them.")
	}
	if c.SLOs = o.slos.v; o.slos.ok {
		if _, err := metrics.NewObjectives(c.SLOs); err != nil {
			r.problem(o.slos.from, "%v.", err)
		}
	}
	if o.network.v {
		c.RoundTrip.Mean = time.Duration(o.networkMean.v * 1e6)
		if !o.networkMean.ok {
			c.RoundTrip.Interval = duration(o.networkInterval.or(1))
		}
	}
}

// echo appends what was given of files, in aiperf's order.
func (o *outputsDraft) echo(m Map) Map {
	if o.summaryOff.ok {
		m = append(m, KeyValue{"summary", listed(!o.summaryOff.v, "json")})
	}
	if o.records.ok {
		m = append(m, KeyValue{"records", listed(o.records.v, "jsonl")})
	}
	return put(put(put(put(m, "raw", o.raw), "trace", o.trace), "slice_duration", o.slice), "show_trace_timing", o.timing)
}

func listed(on bool, format string) any {
	if !on {
		return false
	}
	return []any{format}
}

func (o *outputsDraft) echoObjectives(m Map) Map {
	if len(o.slos.v) == 0 {
		return m
	}
	var slos Map
	for _, s := range o.slos.v {
		slos = append(slos, KeyValue{s.Tag, s.Limit})
	}
	return append(m, KeyValue{"slos", slos})
}

func (o *outputsDraft) echoRoundTrip() Map {
	m := Map{{"enabled", o.network.v}}
	return put(put(m, "ping_interval", o.networkInterval), "mean_ms", o.networkMean)
}
