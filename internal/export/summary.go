package export

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"prefire/metrics"
)

// declared are the metrics that aiperf's export model names; they come before the run's facts, in this order. All others follow them.
func declared() []string {
	return []string{
		"request_throughput", "request_latency", "request_count", "time_to_first_token", "time_to_second_token", "inter_token_latency",
		"output_token_throughput", "output_token_throughput_per_user", "output_sequence_length", "input_sequence_length", "goodput",
		"good_request_count", "output_token_count", "reasoning_token_count", "min_request_timestamp", "max_response_timestamp",
		"inter_chunk_latency", "total_output_tokens", "total_reasoning_tokens", "benchmark_duration", "total_isl", "total_osl",
		"error_request_count", "error_isl", "total_error_isl",
	}
}

// percentileNames are the keys of metrics.Percentiles.
func percentileNames() [len(metrics.Percentiles)]string {
	var names [len(metrics.Percentiles)]string
	for i, p := range metrics.Percentiles {
		names[i] = "p" + strconv.FormatFloat(p, 'f', -1, 64)
	}
	return names
}

// JSON writes profile_export_aiperf.json: aiperf's schema 1.4 in its layout (two spaces, no final newline), metrics outside the schema in
// the order of their tags, and prefire's own facts under one last key.
func JSON(w io.Writer, r *Run) error {
	top := summaryHead(r)
	first := declared()
	for _, tag := range first {
		if m := result(r.Results, tag); m != nil && !hidden(m) {
			top = append(top, Field{tag, metricObject(m)})
		}
	}
	top = append(top, summaryFacts(r)...)
	if o := byTag(r.Warmup, nil); len(o) > 0 {
		top = append(top, Field{"warmup_metrics", o})
	}
	if drafts := draftCounts(r.Drafts); len(drafts) > 0 {
		top = append(top, Field{"pooled_spec_decode_acceptance_histogram", drafts})
	}
	top = append(top, byTag(r.Results, first)...)
	if len(r.Prefire) > 0 {
		top = append(top, Field{"prefire", r.Prefire})
	}
	out, err := appendObject(nil, "the summary", top, 0)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

func summaryHead(r *Run) Object {
	o := Object{{"schema_version", schemaVersion}, {"aiperf_version", AIPerfVersion}}
	if r.BenchmarkID != "" {
		o = append(o, Field{"benchmark_id", r.BenchmarkID})
	}
	return o
}

func summaryFacts(r *Run) Object {
	var o Object
	if r.InputConfig != nil {
		o = append(o, Field{"input_config", r.InputConfig})
	}
	var info Object
	if r.BenchmarkID != "" {
		info = append(info, Field{"benchmark_id", r.BenchmarkID})
	}
	if r.Info.part != nil {
		info = append(info, Field{"sweep_id", r.Info.part.ID})
	}
	info = append(info, Field{"random_seed", r.Info.Seed}, Field{"trial", r.Info.Trial})
	if r.Info.part != nil {
		info = append(info, r.Info.part.fields()...)
	}
	if r.Info.Command != "" {
		info = append(info, Field{"cli_command", r.Info.Command})
	}
	o = append(o, Field{"run_info", info}, Field{"was_cancelled", r.WasCancelled}, Field{"is_complete", r.Incomplete == ""})
	if r.Incomplete != "" {
		o = append(o, Field{"incomplete_reason", r.Incomplete})
	}
	o = append(o, Field{"error_summary", errorSummary(r)})
	if !r.Start.IsZero() {
		o = append(o, Field{"start_time", isoformat(r.Start)})
	}
	if !r.End.IsZero() {
		o = append(o, Field{"end_time", isoformat(r.End)})
	}
	return o
}

// draftCounts are the numbers of accepted drafts that occurred, with how often.
func draftCounts(drafts []int64) Object {
	var o Object
	for j, n := range drafts {
		if n > 0 {
			o = append(o, Field{strconv.Itoa(j), n})
		}
	}
	return o
}

func errorSummary(r *Run) []Object {
	out := make([]Object, 0, len(r.Errors))
	for _, e := range r.Errors {
		var d Object
		if e.Error.Code != 0 {
			d = append(d, Field{"code", e.Error.Code})
		}
		if e.Error.Type != "" {
			d = append(d, Field{"type", e.Error.Type})
		}
		d = append(d, Field{"message", r.Secrets.String(e.Error.Message)})
		if e.Error.Cause != "" {
			d = append(d, Field{"cause", r.Secrets.String(e.Error.Cause)})
		}
		if len(e.Error.Chain) > 0 {
			d = append(d, Field{"cause_chain", e.Error.Chain})
		}
		out = append(out, Object{{"error_details", d}, {"count", e.Count}})
	}
	return out
}

// byTag holds the metrics but those in without, in the order of their tags: aiperf's own order changes from run to run.
func byTag(rs []metrics.Result, without []string) Object {
	var o Object
	for i := range rs {
		if m := &rs[i]; !hidden(m) && !slices.Contains(without, m.Def.Tag) {
			o = append(o, Field{m.Def.Tag, metricObject(m)})
		}
	}
	slices.SortFunc(o, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return o
}

// metricObject is one metric's values; all but count are floats, whatever the metric counts.
func metricObject(m *metrics.Result) Object {
	o := Object{{"unit", string(m.Def.Display)}}
	add := func(names ...string) {
		for _, name := range names {
			if v, ok := m.Stat(name); ok {
				o = append(o, Field{name, v})
			}
		}
	}
	percentiles := percentileNames()
	add("avg")
	add(percentiles[:]...)
	add("min", "max", "std")
	if _, ok := m.Stat("count"); ok {
		o = append(o, Field{"count", m.Count})
	}
	add("sum")
	return o
}

// isoformat is Python's naive local datetime.isoformat(): microseconds, and none where they are zero.
func isoformat(t time.Time) string {
	t = t.Round(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05")
	}
	return t.Format("2006-01-02T15:04:05.000000")
}

// Manifest writes phase_manifest.json, whose keys are sorted.
func Manifest(w io.Writer, r *Run, n Names) error {
	null := json.RawMessage("null")
	phases := make([]Object, 0, len(r.Phases))
	for i := range r.Phases {
		p := &r.Phases[i]
		kinds := make([]Object, 0, len(p.Errors))
		for _, e := range p.Errors {
			d := Object{{"cause", null}, {"cause_chain", null}, {"code", null}, {"details", null},
				{"message", r.Secrets.String(e.Error.Message)}, {"type", null}}
			if e.Error.Cause != "" {
				d[0].Value = r.Secrets.String(e.Error.Cause)
			}
			if len(e.Error.Chain) > 0 {
				d[1].Value = e.Error.Chain
			}
			if e.Error.Code != 0 {
				d[2].Value = e.Error.Code
			}
			if e.Error.Type != "" {
				d[5].Value = e.Error.Type
			}
			kinds = append(kinds, Object{{"count", e.Count}, {"error_details", d}})
		}
		var profiling any = null
		if p.Kind == metrics.Profiling {
			profiling = p.ProfilingIndex
		}
		dir := phaseDir(p.Name)
		phases = append(phases, Object{
			{"end_ns", p.End.UnixNano()}, {"error_request_count", p.Failed}, {"error_summary", kinds},
			{"metrics_csv", dir + "/" + n.CSV}, {"metrics_json", dir + "/" + n.JSON},
			{"phase_index", p.Index}, {"phase_kind", p.Kind.String()}, {"phase_name", p.Name}, {"profiling_index", profiling},
			{"start_ns", p.Start.UnixNano()}, {"successful_request_count", p.OK}, {"total_request_count", p.OK + p.Failed},
			{"was_cancelled", p.WasCancelled},
		})
		if r.Server.of(i) {
			phases[i] = sortedKeys(append(phases[i], Field{"server_metrics_json", dir + "/" + serverPhaseFile}))
		}
	}
	out, err := appendObject(nil, "the phase manifest", Object{{"phases", phases}, {"schema_version", 1}}, 0)
	if err != nil {
		return err
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// phasesDir holds a folder for each phase.
const phasesDir = "phases"

// phaseDir is the folder of one phase's files, relative to the run's, with slashes. A name cannot lead out of phases/.
func phaseDir(name string) string {
	name = strings.NewReplacer("/", "_", "\\", "_").Replace(name)
	if name == "" || name == "." || name == ".." {
		name = "_" + name
	}
	return phasesDir + "/" + name
}

// phaseRun is the run as the summary of one phase shows it: no warm-up beside it, nothing of the other phases.
func phaseRun(r *Run, p *Phase) *Run {
	one := *r
	one.Results, one.Warmup, one.Errors, one.Phases, one.Prefire, one.Drafts = p.Results, nil, p.Errors, nil, nil, p.Drafts
	one.Start, one.End, one.WasCancelled = p.Start, p.End, p.WasCancelled
	return &one
}
