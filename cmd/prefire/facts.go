package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"prefire/internal/config"
	"prefire/internal/endpoint"
	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/metrics"
)

// describe fills in what prefire says of a run beyond aiperf's metrics: the prefire key of the summary, and the screen's own block.
func (b *bench) describe(r *export.Run, sum *loadgen.Summary, acc *metrics.Accumulator) {
	cold, counts, client := acc.Cold(), acc.Counts(), acc.ClientReport()
	seed, source := b.load.seed, b.load.seedFrom
	prompts := b.load.source.Stats()
	verdicts := verdicts(r.Results, sum.Phases, &client)
	answers := answersOf(r.Results, &client, counts.OK, b.health.Unended)
	judged := make([]export.Verdict, len(verdicts))
	for i := range verdicts {
		judged[i] = verdicts[i].Verdict
	}
	r.Prefire = export.Object{
		{Key: "version", Value: version()},
		{Key: "go", Value: runtime.Version()},
		{Key: "seed", Value: seed},
		{Key: "seed_source", Value: source},
		{Key: "series", Value: b.part.facts()},
		{Key: "dialect", Value: dialect(b.cfg)},
		{Key: "command", Value: b.command},
		{Key: "counts", Value: value(counts)},
		{Key: "phases", Value: phaseFacts(sum)},
		{Key: "load", Value: loadFacts(sum)},
		{Key: "control", Value: b.control.facts()},
		{Key: "network", Value: b.networkFacts()},
		{Key: "server_metrics", Value: b.servers.facts(r.Server)},
		{Key: "prewarm", Value: b.prewarmFacts(sum)},
		{Key: "cold", Value: coldFacts(cold)},
		{Key: "answers", Value: answers.facts()},
		{Key: "prompts", Value: b.promptFacts(prompts)},
		{Key: "sent_again", Value: b.sink.again.facts()},
		{Key: "round_trip", Value: b.trip.facts()},
		{Key: "statistics", Value: statisticsFacts(r)},
		{Key: "client", Value: b.clientFacts(client, verdicts)},
	}
	r.Screen = export.Screen{
		Title:     title(b.load.kind),
		LogFile:   b.log.path,
		Version:   version(),
		ShowTrace: b.cfg.Artifacts.ShowTrace,
		Limits:    b.options.Limits,
		Seed:      fmt.Sprintf("%d (%s)", seed, source),
		Counts:    counts,
		Cold:      cold,
		Prewarm:   b.prewarmLines(sum),
		Load:      loadLines(sum),
		Server:    serverLines(r.Server),
		Health:    clientLine(b.health.Client, &client, &b.used),
		Client:    judged,
		Notices:   slices.Concat(b.recordNotices(r.Results, counts, cold), b.runNotices(verdicts), warmupNotices(sum), answers.notices(), b.promptNotices(prompts), b.control.notices(), b.networkNotices(), b.trip.notices(), b.sliceNotices(), lagNotice(r.Results)),
	}
}

// title is aiperf's name for the tables of an endpoint's metrics; "" = the usual one.
func title(kind endpoint.Type) string {
	if kind == endpoint.Embeddings {
		return "Embeddings Metrics"
	}
	return ""
}

// value lets a tagged struct stand in an export.Object.
func value(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil // the structs given here hold numbers and strings only
	}
	return raw
}

func dialect(cfg *config.Config) string {
	if cfg.Dialect == config.NoFile {
		return "flags"
	}
	return string(cfg.Dialect)
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// span is a time in ms, or nil, which export leaves out, where one of its ends is absent.
func span(from, to int64) any {
	if from == 0 || to == 0 || to < from {
		return nil
	}
	return ms(to - from)
}

func phaseFacts(sum *loadgen.Summary) []any {
	var out []any
	for i := range sum.Phases {
		s := &sum.Phases[i]
		var concurrency any // absent where it has no limit
		if s.Phase.Concurrency > 0 {
			concurrency = s.Phase.Concurrency
		}
		out = append(out, export.Object{
			{Key: "name", Value: s.Phase.Name},
			{Key: "kind", Value: s.Phase.Kind.String()},
			{Key: "concurrency", Value: concurrency},
			{Key: "in_flight_max", Value: s.InFlight.Max},
			{Key: "in_flight_mean_while_sending", Value: s.InFlight.Mean},
			{Key: "in_flight_mean_with_server", Value: s.InFlight.Mean - s.InFlight.Waiting},
			{Key: "in_flight_mean_waiting_here", Value: s.InFlight.Waiting},
			{Key: "sent", Value: s.Sent}, {Key: "ok", Value: s.OK}, {Key: "failed", Value: s.Failed},
			{Key: "cancelled", Value: s.Cancelled}, {Key: "censored", Value: s.Censored},
			{Key: "sending_ms", Value: span(s.Start, s.SendEnd)},
			{Key: "duration_ms", Value: span(s.Start, s.End)},
		})
	}
	return out
}

func (b *bench) prewarmFacts(sum *loadgen.Summary) export.Object {
	o := export.Object{{Key: "on", Value: b.cfg.Prewarm}}
	if !b.cfg.Prewarm {
		return o
	}
	o = append(o, export.Field{Key: "duration_ms", Value: span(sum.Prewarm.Start, sum.Prewarm.End)})
	var targets []any
	for i := range sum.Prewarm.Targets {
		targets = append(targets, targetFacts(&sum.Prewarm.Targets[i], b.options.Streaming))
	}
	return append(o, export.Field{Key: "targets", Value: targets})
}

func targetFacts(t *loadgen.TargetWarmth, streaming bool) export.Object {
	o := export.Object{{Key: "url", Value: t.URL}, {Key: "proven_warm", Value: t.Proven}}
	if t.MaxModelLen > 0 {
		o = append(o, export.Field{Key: "max_model_len", Value: t.MaxModelLen})
	}
	var inferences []any
	for i := range t.Inferences {
		inf := &t.Inferences[i]
		f := export.Object{}
		if inf.TTFT != 0 && streaming {
			f = append(f, export.Field{Key: "time_to_first_token_ms", Value: ms(inf.TTFT)})
		}
		f = append(f, export.Field{Key: "request_latency_ms", Value: ms(inf.Latency)})
		if inf.Input.Known {
			f = append(f, export.Field{Key: "prompt_tokens", Value: inf.Input.N})
		}
		if inf.Server.Known {
			f = append(f, export.Field{Key: "usage_prompt_tokens", Value: inf.Server.N})
		}
		if inf.Err != nil {
			f = append(f, export.Field{Key: "error", Value: value(inf.Err)})
		}
		inferences = append(inferences, f)
	}
	o = append(o, export.Field{Key: "inferences", Value: inferences}, export.Field{Key: "connections", Value: len(t.Connections)})
	if len(t.Connections) > 0 {
		first := &t.Connections[0]
		o = append(o, export.Field{Key: "protocol", Value: first.Protocol}, export.Field{Key: "first_connection", Value: export.Object{
			{Key: "dns_ms", Value: span(first.DNSStart, first.DNSEnd)},
			{Key: "connect_ms", Value: span(first.DialStart, first.DialEnd)},
			{Key: "tls_ms", Value: span(first.TLSStart, first.TLSEnd)},
			{Key: "settings_ms", Value: span(max(first.DialEnd, first.TLSEnd), first.Settings)},
			{Key: "probe_ms", Value: span(first.ProbeStart, first.ProbeEnd)},
			{Key: "probe_status", Value: first.ProbeStatus},
			{Key: "remote", Value: first.Remote},
		}})
	}
	for _, d := range [...]struct {
		key      string
		from, to func(i int) int64
	}{
		{"dns_max_ms", func(i int) int64 { return t.Connections[i].DNSStart }, func(i int) int64 { return t.Connections[i].DNSEnd }},
		{"connect_max_ms", func(i int) int64 { return t.Connections[i].DialStart }, func(i int) int64 { return t.Connections[i].DialEnd }},
		{"tls_max_ms", func(i int) int64 { return t.Connections[i].TLSStart }, func(i int) int64 { return t.Connections[i].TLSEnd }},
		{"settings_max_ms", func(i int) int64 { return max(t.Connections[i].DialEnd, t.Connections[i].TLSEnd) }, func(i int) int64 { return t.Connections[i].Settings }},
		{"probe_max_ms", func(i int) int64 { return t.Connections[i].ProbeStart }, func(i int) int64 { return t.Connections[i].ProbeEnd }},
	} {
		worst, known := 0.0, false
		for i := range t.Connections {
			if v, ok := span(d.from(i), d.to(i)).(float64); ok {
				worst, known = max(worst, v), true
			}
		}
		if known {
			o = append(o, export.Field{Key: d.key, Value: worst})
		}
	}
	return o
}

func (b *bench) prewarmLines(sum *loadgen.Summary) []string {
	if !b.cfg.Prewarm {
		return []string{"off: no connection was opened and no inference sent before the clock started"}
	}
	var out []string
	for i := range sum.Prewarm.Targets {
		t := &sum.Prewarm.Targets[i]
		last := t.Inferences[len(t.Inferences)-1]
		line := fmt.Sprintf("%s: %d connections", t.URL, len(t.Connections))
		if len(t.Connections) == 1 {
			line = t.URL + ": 1 connection"
		}
		if t.Proven {
			line += fmt.Sprintf(", first inference took %.1f ms", ms(last.Latency))
			if b.options.Streaming {
				line += fmt.Sprintf(" (TTFT %.1f ms)", ms(last.TTFT))
			}
			if last.Input.Known && last.Server.Known {
				line += fmt.Sprintf("; its prompt of %d tokens was %d by the server's count", last.Input.N, last.Server.N)
			}
		} else {
			line += fmt.Sprintf(", NOT PROVEN WARM: %d inferences failed, the last with %s: %s", len(t.Inferences), last.Err.Type, last.Err.Message)
		}
		out = append(out, line)
	}
	return out
}

func coldFacts(c metrics.ColdReport) export.Object {
	o := export.Object{
		{Key: "count", Value: c.Count}, {Key: "of", Value: c.Of}, {Key: "share", Value: c.Share},
		{Key: "included", Value: c.Included}, {Key: "severity", Value: string(c.Severity)},
	}
	if c.Change != nil {
		o = append(o, export.Field{Key: "change_percent", Value: *c.Change})
	}
	reasons := export.Object{}
	for _, r := range c.Reasons {
		reasons = append(reasons, export.Field{Key: r.Reason, Value: r.Count})
	}
	o = append(o, export.Field{Key: "reasons", Value: reasons})
	if len(c.With) > 0 {
		o = append(o, export.Field{Key: "metrics_with_cold", Value: export.MetricObjects(c.With)})
	}
	return o
}

func statisticsFacts(r *export.Run) export.Object {
	var approx, averages []string
	var reached export.Object
	for i := range r.Results {
		m := &r.Results[i]
		switch {
		case m.Approx && m.Def.Shape == metrics.Curve:
			averages = append(averages, m.Def.Tag)
		case m.Approx:
			approx = append(approx, m.Def.Tag)
		}
		if tag, ok := strings.CutPrefix(m.Def.Tag, "adj_"); ok {
			for _, p := range metrics.Percentiles {
				name := fmt.Sprintf("p%g", p)
				if _, ok := m.Stat(name); !ok {
					reached = append(reached, export.Field{Key: tag, Value: name})
					break
				}
			}
		}
	}
	how := "exact"
	if len(approx) > 0 {
		how = "exact, but for those listed in from_hdr_histogram"
	}
	o := export.Object{{Key: "percentiles", Value: how}, {Key: "rule", Value: "linear between order statistics"}}
	if len(approx) > 0 {
		o = append(o, export.Field{Key: "from_hdr_histogram", Value: approx})
	}
	if len(averages) > 0 {
		o = append(o, export.Field{Key: "from_averages_over_short_times", Value: averages})
	}
	if len(reached) > 0 {
		o = append(o, export.Field{Key: "percentile_that_reaches_failures", Value: reached})
	}
	return o
}

func (b *bench) clientFacts(c metrics.ClientReport, verdicts []verdict) export.Object {
	o := export.Object{
		{Key: "transport", Value: b.health.Client},
		{Key: "loops", Value: b.health.Loops},
		{Key: "kernel_stamps", Value: b.health.KernelStamps},
		{Key: "connection_reuse", Value: cmp.Or(b.cfg.Endpoint.Reuse, "pooled")},
		{Key: "connections_dialled", Value: b.health.Dialled},
		{Key: "probes", Value: b.health.Probes},
		{Key: "stamps_outside_bounds", Value: b.health.StampFell},
		{Key: "gomaxprocs", Value: runtime.GOMAXPROCS(0)},
		{Key: "machine", Value: b.used.facts()},
		{Key: "records", Value: value(c)},
	}
	if b.calibrated != nil {
		o = append(o, export.Field{Key: "calibration", Value: value(b.calibrated)})
	}
	return append(o, export.Field{Key: "verdicts", Value: verdictFacts(verdicts)})
}

func verdictFacts(verdicts []verdict) []any {
	var vs []any
	for _, v := range verdicts {
		vs = append(vs, append(export.Object{{Key: "claim", Value: v.Claim}, {Key: "good", Value: v.Good}, {Key: "why", Value: v.Why}}, v.figures...))
	}
	return vs
}

// failedShare is what share of failed requests is worth a notice of its own.
const failedShare = 0.1

// warmupNotices name the warm-up phases that warmed little, since most of their requests were not answered.
func warmupNotices(sum *loadgen.Summary) (out []string) {
	for i := range sum.Phases {
		s := &sum.Phases[i]
		if lost := s.Failed + s.Censored; s.Phase.Kind == metrics.Warmup && 2*lost > s.Sent {
			out = append(out, fmt.Sprintf("%d of the %d requests of phase %s failed or were cut: the server was hardly warmed by them before the measurement began", lost, s.Sent, s.Phase.Name))
		}
	}
	return out
}

// recordNotices are those that the records alone give rise to.
func (b *bench) recordNotices(rs []metrics.Result, c metrics.Counts, cold metrics.ColdReport) []string {
	out := b.sink.odd.notices()
	if c.OK > 0 && float64(c.Failed) >= failedShare*float64(c.Sent) {
		out = append(out, fmt.Sprintf("%d of %d requests failed: the latencies are those of the others, and the load was not what it would be if all were served", c.Failed, c.Sent))
	}
	if cold.Count > 0 && cold.Count == cold.Of && !cold.Included {
		out = append(out, "every request was cold, so there are no latencies: does the server close its connections after each answer? "+
			"prefire.cold.metrics_with_cold in the JSON has the figures with the cold requests; --include-cold shows them here")
	}
	if line := b.sink.again.notice(rs); line != "" && b.cfg.Retries > 0 {
		out = append(out, line)
	}
	if c.Censored > 0 {
		where := "they are in " + b.dir.Names.Censored + " and in no metric"
		if b.cfg.Artifacts.Level == config.LevelSummary {
			where = "they are in no metric"
		}
		out = append(out, fmt.Sprintf("%d requests were cut while they ran; %s", c.Censored, where))
	}
	return out
}

// runNotices are those that only the running program can give.
func (b *bench) runNotices(verdicts []verdict) []string {
	var out []string
	if n := choicesAsked(b.cfg.Endpoint.Extra); n > 1 {
		out = append(out, fmt.Sprintf("n is %d: an answer's tokens are those of all its choices, and the times between them are of no one choice", n))
	}
	for i := range b.cfg.Phases {
		switch ph := &b.cfg.Phases[i]; {
		case ph.Load.Open():
		case ph.Requests > 0 && ph.Requests < int64(ph.Concurrency):
			out = append(out, fmt.Sprintf("phase %s sends %d requests in all: %d at once cannot be reached", ph.Name, ph.Requests, ph.Concurrency))
		case ph.Sessions > 0 && ph.Sessions < int64(ph.Concurrency):
			out = append(out, fmt.Sprintf("phase %s has %d sessions in all: %d at once cannot be reached", ph.Name, ph.Sessions, ph.Concurrency))
		}
	}
	if slices.ContainsFunc(verdicts, func(v verdict) bool { return v.limited }) {
		out = append(out, "arrivals found no place under the limits on requests in flight, since the answers before them took too long: a higher --concurrency or "+
			"--prefill-concurrency lets them in, a lower rate asks for fewer")
	}
	if slices.ContainsFunc(verdicts, func(v verdict) bool { return !v.Good && !v.limited }) {
		out = append(out, "where the client was not fit, run it on a machine with idle cores, or with fewer sessions; docs/trust.md explains each verdict")
		if why := starved(&b.used); why != "" {
			out = append(out, why)
		}
	}
	if n := b.health.StampFell; n > 0 {
		out = append(out, fmt.Sprintf("%d arrival stamps lay outside their requests' own times and were replaced by the time of reading: the wall clock was set during the run", n))
	}
	if b.load.api.Amended() {
		out = append(out, "the server refused stream_options: from then on requests were sent without it, so there is no usage, and what counts tokens by the server is absent")
	}
	return out
}

// files are the run's files as the footer lists them: aiperf's, more of them, and our own.
func (b *bench) files(server *export.ServerMetrics, more []export.File) []export.File {
	n := b.dir.Names
	file := func(kind, name string) export.File {
		return export.File{Kind: kind, Path: filepath.Join(b.dir.Path, name)}
	}
	out := []export.File{file("CSV Export", n.CSV)}
	if !b.cfg.Artifacts.NoSummary {
		out = append(out, file("JSON Export", n.JSON))
	}
	out = append(out, more...)
	for _, f := range [...]struct{ kind, name string }{{"Server Metrics CSV Export", server.CSVName(n)}, {"Server Metrics JSON Export", server.JSONName(n)}} {
		if f.name != "" {
			out = append(out, file(f.kind, f.name))
		}
	}
	if b.cfg.Artifacts.Level != config.LevelSummary {
		out = append(out, file("Records", n.Records))
	}
	return append(out, file("Histograms", n.Hlog))
}
