package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"prefire/metrics"
)

// FileDataset is a dataset from a file.
type FileDataset struct {
	Path     string
	Records  []byte // rows given in the config file, one a line; nil = the dataset is at Path
	Format   string // "" = found out by the file's first row
	Sampling string // sequential | random | shuffle
	// Entries is how many conversations random_pool draws; 0 = not given.
	Entries int
	// Block, MaxInput and MaxOutput are of traces, in tokens; 0 = not given.
	Block, MaxInput, MaxOutput int
	IgnoreTimes                bool
	DelayCap                   *time.Duration // nil = none
	Schedule                   Schedule
}

// Schedule says whether the profiling phases follow the file's times.
type Schedule struct {
	On      bool // they do
	IfTimed bool // they do where the first row of a trace has a time
	// FromFirst counts times from the first row's. Start and End, in ms of the file's own time, keep what is due within them; nil = not given.
	FromFirst  bool
	Start, End *float64
}

// fileDraft is what was given for a dataset from a file.
type fileDraft struct {
	path, format               opt[string]
	records                    []any
	rows                       []byte // records, one a line
	block, maxInput, maxOutput opt[int64]
	delayCap                   opt[float64]
	ignoreTimes                opt[bool]
	schedule, never, fromFirst opt[bool]
	start, end                 opt[int64]
}

// datasetFormats are aiperf's, so that one that is not supported is told from one that does not exist; sharegpt is prefire's own.
func datasetFormats() []string {
	formats := append(usableFormats(), "baseten_trace", "dag_jsonl", "sagemaker_data_capture", "tracelab", "weka_trace")
	for _, kind := range []string{
		"qualitative", "coding", "humanities", "math", "multilingual", "qa", "rag", "reasoning", "roleplay", "stem", "summarization", "writing",
	} {
		formats = append(formats, "speed_bench_"+kind)
	}
	for _, size := range []string{"1k", "2k", "8k", "16k", "32k"} {
		for _, entropy := range []string{"", "_low_entropy", "_mixed", "_high_entropy"} {
			formats = append(formats, "speed_bench_throughput_"+size+entropy)
		}
	}
	return formats
}

func usableFormats() []string {
	return []string{
		"single_turn", "multi_turn", "random_pool", "mooncake_trace", "bailian_trace", "burst_gpt_trace", "raw_payload", "inputs_json", "sharegpt",
	}
}

func samplings() []string { return []string{"sequential", "random", "shuffle"} }

// fileFlags are the flags of datasets from files.
func fileFlags() []Flag {
	return []Flag{
		{Field: "input_file", Names: []string{"--input-file"}, Group: gInput, Kind: Text,
			Help: "Dataset from a file, or from a folder of files: prompts, conversations, request bodies or a trace. Its rows are checked before any load."},
		{Field: "custom_dataset_type", Names: []string{"--custom-dataset-type"}, Group: gInput, Kind: Enum, Choices: datasetFormats(),
			Usable: usableFormats(),
			Help:   "Format of --input-file. Not given: found out by its first row. sharegpt is prefire's own name, for a local file."},
		{Field: "dataset_sampling_strategy", Names: []string{"--dataset-sampling-strategy"}, Group: gInput, Kind: Enum, Choices: samplings(),
			Default: "sequential",
			Help: "Order in which the conversations of --input-file, or the --num-dataset-entries synthetic ones, are taken. Those of a file go on through " +
				"all phases."},
		{Field: "ignore_trace_delays", Names: []string{"--ignore-trace-delays"}, Group: gInput, Kind: Bool, Default: "false",
			Help: "Drop the times and delays of --input-file."},
		{Field: "fixed_schedule", Names: []string{"--fixed-schedule"}, Group: gSchedule, Kind: Bool, Default: "false",
			Help: "Send each conversation of --input-file at its time, once. On by itself where --custom-dataset-type names a trace whose first row has a time."},
		{Field: "disable_auto_fixed_schedule", Names: []string{"--no-fixed-schedule"}, Group: gSchedule, Kind: Bool, Default: "false",
			Help: "Do not follow a trace's times by itself."},
		{Field: "fixed_schedule_auto_offset", Names: []string{"--fixed-schedule-auto-offset"}, Group: gSchedule, Kind: Bool, Default: "false",
			Help: "Count times from the first row's, so that the run begins with it."},
		{Field: "fixed_schedule_start_offset", Names: []string{"--fixed-schedule-start-offset"}, Group: gSchedule, Kind: Int, Bound: atLeast(0),
			Help: "Leave out what is due before, in ms of the file's time, and count from there."},
		{Field: "fixed_schedule_end_offset", Names: []string{"--fixed-schedule-end-offset"}, Group: gSchedule, Kind: Int, Bound: atLeast(0),
			Help: "Leave out what is due after, in ms of the file's time."},
		{Field: "inter_turn_delay_cap_seconds", Names: []string{"--inter-turn-delay-cap-seconds"}, Group: gConversation, Kind: Number, Bound: atLeast(0),
			Help: "Longest delay between two turns of a conversation of --input-file, in seconds."},
		{Field: "prompt_input_tokens_block_size", Names: []string{"--prompt-input-tokens-block-size", "--synthetic-input-tokens-block-size", "--isl-block-size"},
			Group: gISL, Kind: Int, Bound: atLeast(1),
			Help: "Tokens of one block of a trace's hash_ids. Not given: 512, for bailian_trace 16."},
		{Field: "synthesis_max_isl", Names: []string{"--synthesis-max-isl"}, Group: gSynthesis, Kind: Int, Bound: atLeast(1),
			Help: "Leave out the rows of a trace whose input is longer, in tokens."},
		{Field: "synthesis_max_osl", Names: []string{"--synthesis-max-osl"}, Group: gSynthesis, Kind: Int, Bound: atLeast(1),
			Help: "Cut the output lengths of a trace to so many tokens."},
	}
}

// syntheticOnly are the flags that shape synthetic prompts, and mean nothing for a file.
func syntheticOnly() []string {
	return []string{
		"prompt_input_tokens_mean", "prompt_input_tokens_stddev", "prompt_sequence_distribution", "prompt_random_range_ratio",
		"prompt_random_corpus_style", "prompt_prefix_pool_size", "prompt_prefix_length", "prompt_prefix_shared_system_length",
		"prompt_prefix_user_context_length", "conversation_turn_mean", "conversation_turn_stddev", "conversation_turn_delay_mean",
		"conversation_turn_delay_stddev",
	}
}

// fileDataset puts the flags of datasets from files over the draft, and holds them against the kind of dataset.
func (all *flags) fileDataset(d *draft) error {
	ds := &d.dataset
	f := &ds.fromFile
	replace(&f.path, all.text("input_file"))
	replace(&f.format, all.choice("custom_dataset_type"))
	replace(&ds.sampling, all.choice("dataset_sampling_strategy"))
	replace(&f.ignoreTimes, all.truth("ignore_trace_delays"))
	replace(&f.schedule, all.truth("fixed_schedule"))
	replace(&f.never, all.truth("disable_auto_fixed_schedule"))
	replace(&f.fromFirst, all.truth("fixed_schedule_auto_offset"))
	replace(&f.start, all.whole("fixed_schedule_start_offset"))
	replace(&f.end, all.whole("fixed_schedule_end_offset"))
	replace(&f.delayCap, all.number("inter_turn_delay_cap_seconds"))
	replace(&f.block, all.whole("prompt_input_tokens_block_size"))
	replace(&f.maxInput, all.whole("synthesis_max_isl"))
	replace(&f.maxOutput, all.whole("synthesis_max_osl"))
	refuse := func(format string, args ...any) error {
		return &Error{Title: titleConfig, Msg: fmt.Sprintf(format, args...)}
	}
	if d.file == "" {
		ds.isFile = f.path.ok
	}
	if !ds.isFile {
		for _, g := range []struct {
			field string
			asks  bool
		}{
			{"input_file", true}, {"custom_dataset_type", true},
			{"ignore_trace_delays", f.ignoreTimes.v}, {"fixed_schedule", f.schedule.v}, {"fixed_schedule_auto_offset", f.fromFirst.v},
			{"fixed_schedule_start_offset", true}, {"fixed_schedule_end_offset", true}, {"inter_turn_delay_cap_seconds", true},
			{"prompt_input_tokens_block_size", true}, {"synthesis_max_isl", true}, {"synthesis_max_osl", true},
		} {
			switch from := all.byField[g.field].given; {
			case from == "" || !g.asks:
			case d.file != "":
				return refuse("%s applies to a file dataset, but the config file declares type: synthetic", from)
			default:
				return refuse("%s needs a dataset from a file: pass --input-file, or drop it.", from)
			}
		}
		return nil
	}
	var shaping []string
	for _, field := range syntheticOnly() {
		if s := all.byField[field]; s.given != "" {
			shaping = append(shaping, s.given)
		}
	}
	switch {
	case len(shaping) > 0:
		return refuse("%s is only supported with synthetic datasets; remove --input-file / --public-dataset (use a synthetic dataset) to apply "+
			"synthetic-only prompt shaping (ISL, prefix prompts, multimodal generation, multi-turn conversation, etc).", strings.Join(shaping, ", "))
	case f.rows != nil && all.byField["input_file"].given != "":
		return refuse("FileDataset requires exactly one source: %s is given, and the config file has the rows themselves (records); drop one of them.",
			all.byField["input_file"].given)
	case f.path.v == "":
		return refuse("%s: the dataset's file has no name.", f.path.from)
	case f.fromFirst.v && !f.schedule.v, f.start.ok && !f.schedule.v, f.end.ok && !f.schedule.v:
		return refuse("--fixed-schedule-{auto,start,end}-offset requires --fixed-schedule.")
	case f.fromFirst.v && f.start.ok:
		return refuse("--fixed-schedule-auto-offset and --fixed-schedule-start-offset exclude each other: times count from the first row, or from the offset.")
	case f.start.ok && f.end.ok && f.start.v > f.end.v:
		return refuse("--fixed-schedule-start-offset is %d and --fixed-schedule-end-offset %d: the start must not be after the end.", f.start.v, f.end.v)
	case f.schedule.v && ds.sampling.ok && ds.sampling.v != "sequential":
		return refuse("--fixed-schedule needs sequential sampling, for the file's times give the order; found --dataset-sampling-strategy %s.", ds.sampling.v)
	case f.block.ok && f.format.ok && f.format.v != "mooncake_trace" && f.format.v != "bailian_trace":
		return refuse("%s only applies to hash-id trace replay (mooncake_trace, bailian_trace); the selected dataset is %s and does not decode hash-id token "+
			"blocks; drop it.", f.block.from, f.format.v)
	}
	return nil
}

// schedule makes the dataset's times those of a phase of a config file.
func (d *decoder) schedule(s *section, p *phaseDraft, f *fileDraft) {
	from := s.n.get("type").value
	place := d.place(from.line, from.col, join(s.path, "type"))
	switch {
	case p.kind == metrics.Warmup:
		d.problem(place, "a warm-up phase on a fixed schedule is known to aiperf, not supported by this version of prefire.")
	case p.requests.ok || p.sessions.ok:
		at := p.requests
		if !at.ok {
			at = p.sessions
		}
		d.problem(at.from, "a number of requests or sessions on a fixed schedule is known to aiperf, not supported by this version of prefire, which plays the "+
			"file to its end: give a duration or an end_offset, or shorten the file.")
	case p.autoOffset.or(true) && p.startOffset.ok:
		d.problem(p.startOffset.from, "auto_offset cannot be True when start_offset is set: set auto_offset to false.")
	case p.startOffset.ok && p.endOffset.ok && p.startOffset.v > p.endOffset.v:
		d.problem(p.startOffset.from, "start_offset must be <= end_offset: %d is after %d.", p.startOffset.v, p.endOffset.v)
	case f.schedule.ok && (f.fromFirst.v != p.autoOffset.or(true) || f.start.v != p.startOffset.v || f.end.v != p.endOffset.v):
		d.problem(place, "phases on a fixed schedule with different offsets are known to aiperf, not supported by this version of prefire.")
	}
	f.schedule, f.fromFirst = given(true, place), given(p.autoOffset.or(true), place)
	f.start, f.end = p.startOffset, p.endOffset
}

// checkSchedule holds the phases on a fixed schedule against their dataset and against each other.
func (r *decoder) checkSchedule(d *draft) {
	others := ""
	for _, p := range d.phases {
		if p.kind == metrics.Profiling && p.load != fixedSchedule {
			others = p.name
		}
	}
	for _, p := range d.phases {
		switch {
		case p.load != fixedSchedule:
		case !d.dataset.isFile:
			r.warnOrRefuse(d, p.at, fmt.Sprintf("Phase '%s' uses fixed_schedule, which takes its times from a dataset of type file", p.name))
		case d.dataset.sampling.or("sequential") != "sequential":
			r.warnOrRefuse(d, d.dataset.sampling.from, fmt.Sprintf("Phase '%s' uses fixed_schedule, which needs sequential sampling", p.name))
		case others != "":
			r.problem(p.at, "phase '%s' on a fixed schedule beside phase '%s', which is on none, is known to aiperf, not supported by this version of prefire.",
				p.name, others)
		}
	}
}

// mayFollow says whether the run may follow the file's times: it is told to, or the file is a trace, which decides.
func (f *fileDraft) mayFollow() bool {
	return f.schedule.v || !f.never.v && !f.ignoreTimes.v && (f.format.v == "mooncake_trace" || f.format.v == "bailian_trace")
}

// Follow writes into the echo that the profiling phase follows the file's times, of so many requests.
func (c *Config) Follow(requests int64) {
	for _, kv := range c.Input {
		phases, ok := kv.Value.([]any)
		if kv.Key != "phases" || !ok {
			continue
		}
		for i := range phases {
			m, ok := phases[i].(Map)
			if !ok || !slices.Contains(m, KeyValue{"kind", metrics.Profiling.String()}) {
				continue
			}
			m = m.set("type", "fixed_schedule")
			if c.DefaultStop {
				m = m.set("requests", requests)
			}
			phases[i] = m
		}
	}
}

// resolve fills in the defaults of a dataset from a file; entries is the number of conversations that the run's stops ask for.
func (f *fileDraft) resolve(entries opt[int64], sampling string) *FileDataset {
	out := &FileDataset{
		Path: f.path.v, Records: f.rows, Format: f.format.v, Sampling: sampling, Entries: int(entries.v), Block: int(f.block.v),
		MaxInput: int(f.maxInput.v), MaxOutput: int(f.maxOutput.v), IgnoreTimes: f.ignoreTimes.v,
		Schedule: Schedule{On: f.schedule.v, FromFirst: f.fromFirst.v},
	}
	if f.delayCap.ok {
		limit := duration(f.delayCap.v)
		out.DelayCap = &limit
	}
	out.Schedule.IfTimed = f.mayFollow() && !f.schedule.v
	for _, o := range []struct {
		from opt[int64]
		to   **float64
	}{{f.start, &out.Schedule.Start}, {f.end, &out.Schedule.End}} {
		if o.from.ok {
			v := float64(o.from.v)
			*o.to = &v
		}
	}
	return out
}

// fileDatasetKeys are those of a dataset of type file.
func fileDatasetKeys() keys {
	return keys{
		known: []string{
			"name", "type", "path", "format", "sampling", "synthesis", "entries", "random_seed", "osl", "inter_turn_delay_cap_seconds", "block_size",
			"ignore_trace_delays", "records", "prompt_batch_size", "cache_bust", "prompts", "system_prompt", "system_prompt_file",
		},
		later: map[string][]string{
			"trace_session_sample_ratio": nil, "max_idle_gap_cap_seconds": nil, "replay_speedup": nil, "open_loop_replay": {"true"},
			"open_loop_strict": off(), "omit_kv_hints": off(), "force_min_tokens": {"true"}, "image_batch_size": nil,
			"audio_batch_size": nil, "video_batch_size": nil, "trace_idle_gap_cap_seconds": nil, "use_think_time_only": off(),
			"max_context_length": nil,
		},
	}
}

func synthesisKeys() keys {
	return keys{
		known: []string{"max_isl", "max_osl"},
		later: map[string][]string{
			"speedup_ratio": {"1"}, "prefix_len_multiplier": {"1"}, "prefix_root_multiplier": {"1"}, "prompt_len_multiplier": {"1"},
			"output_len_multiplier": {"1"}, "allow_dataset_wrap": off(),
		},
	}
}

// isFile says whether a dataset is of type file.
func isFile(v *node) bool {
	if v.shape != isMap {
		return false
	}
	kind := v.get("type")
	return kind != nil && kind.value.shape == isString && fold(kind.value.s) == "file"
}

// fileDataset reads a dataset of type file, whose keys have been checked.
func (d *decoder) fileDataset(s *section, out *datasetDraft) {
	v, path := s.n, s.path
	out.isFile = true
	f := &out.fromFile
	f.path = s.text("path")
	f.format = s.choice("format", datasetFormats(), usableFormats())
	switch records, where, given := s.value("records"); {
	case given && f.path.ok:
		s.bad(records, where, "FileDataset requires exactly one source: set either `path:` (load from disk) or `records:` (embed in YAML), not both")
	case given:
		d.records(records, where, f)
	case !f.path.ok && (s.entries["path"] == nil || s.entries["path"].value.shape == isNull):
		d.fail(v.line, v.col, join(path, "path"), "Field required: the dataset's file; or records, a list of its rows.")
	}
	p := &out.prompts
	p.batch = s.whole("prompt_batch_size", between(1, 1<<20))
	if v, where, ok := s.value("cache_bust"); ok {
		p.bust = d.section(v, where, keys{known: []string{"target"}}).choice("target", cacheBusts(), nil)
	}
	if v, where, ok := s.value("prompts"); ok {
		p.corpus = d.section(v, where, keys{known: []string{"corpus"}}).choice("corpus", corpora(), nil)
	}
	p.system, p.systemFile = s.text("system_prompt"), s.text("system_prompt_file")
	out.sampling = s.choice("sampling", samplings(), nil)
	out.entries = s.whole("entries", atLeast(1))
	out.seed = s.whole("random_seed", atLeast(0))
	out.osl = d.length(s, &section{decoder: d, n: v, entries: map[string]*entry{}}, "osl", 1)
	if out.osl.shape != nil {
		d.problem(out.osl.mean.from, "an output length beside a dataset from a file is a number, or a mean and a stddev.")
	}
	f.block = s.whole("block_size", atLeast(1))
	f.ignoreTimes = s.truth("ignore_trace_delays")
	if c, where, ok := s.value("inter_turn_delay_cap_seconds"); ok {
		f.delayCap = s.number(c, where, atLeast(0))
	}
	if y, where, ok := s.value("synthesis"); ok {
		inner := d.section(y, where, synthesisKeys())
		f.maxInput, f.maxOutput = inner.whole("max_isl", atLeast(1)), inner.whole("max_osl", atLeast(1))
	}
}

// records reads the rows of a dataset that stand in the config file itself, as the lines of a file.
func (d *decoder) records(v *node, where string, f *fileDraft) {
	if v.shape != isList {
		d.fail(v.line, v.col, where, "Input should be a valid list of rows; found %s. Several pools of random_pool are given as a folder of files (path).", v.found())
		return
	}
	if len(v.list) == 0 {
		d.fail(v.line, v.col, where, "List should have at least 1 item after validation, not 0.")
		return
	}
	for i, item := range v.list {
		row, err := json.Marshal(item.plainValue())
		if err != nil || item.shape != isMap {
			d.fail(item.line, item.col, fmt.Sprintf("%s[%d]", where, i), "Input should be a valid dictionary; found %s.", item.found())
			return
		}
		f.rows = append(append(f.rows, row...), '\n')
		f.records = append(f.records, item.plainValue())
	}
	f.path = given(d.file+" (records)", d.place(v.line, v.col, where))
	if !f.format.ok {
		f.format = given("single_turn", f.path.from)
	}
}

// echoFile is a dataset from a file as it was given, in the order of aiperf's fields.
func (ds *datasetDraft) echoFile(entries opt[int64]) Map {
	f := &ds.fromFile
	m := Map{{"name", ds.name}, {"type", "file"}}
	if f.records != nil {
		m = append(m, KeyValue{"records", f.records})
	} else {
		m = put(m, "path", f.path)
	}
	m = put(m, "format", f.format)
	m = put(m, "sampling", ds.sampling)
	if synthesis := put(put(Map{}, "max_isl", f.maxInput), "max_osl", f.maxOutput); len(synthesis) > 0 {
		m = append(m, KeyValue{"synthesis", synthesis})
	}
	m = put(m, "entries", entries)
	m = put(m, "random_seed", ds.seed)
	m = put(m, "inter_turn_delay_cap_seconds", f.delayCap)
	if osl, ok := ds.osl.echo(); ok {
		m = append(m, KeyValue{"osl", osl})
	}
	p := &ds.prompts
	m = put(m, "prompt_batch_size", p.batch)
	m = put(m, "block_size", f.block)
	m = put(m, "ignore_trace_delays", f.ignoreTimes)
	if p.bust.ok {
		m = append(m, KeyValue{"cache_bust", Map{{"target", p.bust.v}}})
	}
	if p.corpus.ok {
		m = append(m, KeyValue{"prompts", Map{{"corpus", p.corpus.v}}})
	}
	if p.systemFile.ok {
		return put(m, "system_prompt_file", p.systemFile)
	}
	return put(m, "system_prompt", p.system)
}
