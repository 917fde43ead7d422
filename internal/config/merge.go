package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"prefire/metrics"
)

// Typed values of flags. They were checked when they were parsed.

func (all *flags) last(field string) (value, given string, ok bool) {
	s := all.byField[field]
	if s.given == "" {
		return "", "", false
	}
	return s.values[len(s.values)-1], s.given, true
}

func flagValue[T any](all *flags, field string, parse func(string) (T, error)) opt[T] {
	value, from, ok := all.last(field)
	if !ok {
		return opt[T]{}
	}
	f := all.byField[field].flag
	if f.Sweep {
		if items := listItems(value); len(items) == 1 {
			value = items[0]
		}
	}
	v, err := parse(strings.TrimSpace(value))
	return opt[T]{v: v, ok: err == nil, from: from}
}

func (all *flags) text(field string) opt[string] {
	value, from, ok := all.last(field)
	return opt[string]{v: value, ok: ok, from: from}
}

func (all *flags) choice(field string) opt[string] {
	return flagValue(all, field, func(s string) (string, error) {
		c, _ := choose(s, all.byField[field].flag.Choices)
		return c, nil
	})
}

func (all *flags) truth(field string) opt[bool] {
	return flagValue(all, field, func(s string) (bool, error) {
		b, _ := boolean(s)
		return b, nil
	})
}

func (all *flags) whole(field string) opt[int64] {
	return flagValue(all, field, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
}

func (all *flags) number(field string) opt[float64] {
	return flagValue(all, field, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

func (all *flags) seconds(field string) opt[float64] { return flagValue(all, field, seconds) }

// replace puts a flag's value over one of the file, where the flag was given.
func replace[T any](dst *opt[T], v opt[T]) {
	if v.ok {
		*dst = v
	}
}

// defaultGrace is how long requests in flight may take after --benchmark-duration.
const defaultGrace = 30

// apply puts the flags over a file's draft, or over an empty one.
func (all *flags) apply(d *draft) error {
	d.notices = append(all.notices, d.notices...)
	if s := all.byField["model_names"]; s.given != "" {
		var names []string
		for _, v := range s.values {
			names = append(names, listItems(v)...)
		}
		d.models.set(names, s.given)
	}
	replace(&d.models.strategy, all.choice("model_selection_strategy"))
	all.endpoint(&d.endpoint)
	all.dataset(&d.dataset)
	if err := all.fileDataset(d); err != nil {
		return err
	}
	if err := all.prompts(&d.dataset.prompts, d.file == ""); err != nil {
		return err
	}
	replace(&d.tokenizer, all.text("tokenizer_name"))
	replace(&d.revision, all.text("tokenizer_revision"))
	replace(&d.dir, all.text("artifact_directory"))
	replace(&d.prefix, all.text("profile_export_prefix"))
	if err := all.outputs(&d.outputs); err != nil {
		return err
	}
	replace(&d.ui, all.choice("ui_type"))
	replace(&d.interval, all.seconds("stats_interval"))
	replace(&d.seed, all.whole("random_seed"))
	// --random-seed is the seed of the dataset too.
	replace(&d.dataset.seed, all.whole("random_seed"))
	d.client, d.http = all.choice("client"), all.choice("http")
	d.prewarm, d.includeCold = all.truth("prewarm"), all.truth("include_cold")
	d.streamsPerConn = all.whole("streams_per_connection")
	d.retries = all.whole("retry_429")
	d.report, d.liveMetrics = all.truth("report"), all.text("live_metrics")
	d.noGPU = d.noGPU || all.truth("no_gpu_telemetry").v
	if err := all.serverMetrics(&d.server); err != nil {
		return err
	}
	replace(&d.level, all.choice("log_level"))
	for _, more := range [...]struct{ flag, level string }{{"verbose", "DEBUG"}, {"extra_verbose", "TRACE"}} {
		if o := all.truth(more.flag); o.v {
			d.level, d.verbose = given(more.level, o.from), true
		}
	}
	if d.file == "" {
		if err := all.newProfiling(d); err != nil {
			return err
		}
	} else if err := all.editProfiling(d); err != nil {
		return err
	}
	return all.warmup(d)
}

func (all *flags) endpoint(e *endpointDraft) {
	if s := all.byField["urls"]; s.given != "" {
		var urls []string
		for _, v := range s.values {
			urls = append(urls, listItems(v)...)
		}
		e.urls = given(urls, s.given)
	}
	replace(&e.kind, all.choice("endpoint_type"))
	replace(&e.path, all.text("custom_endpoint"))
	replace(&e.apiKey, all.text("api_key"))
	replace(&e.timeout, all.seconds("timeout_seconds"))
	replace(&e.streaming, all.truth("streaming"))
	replace(&e.legacy, all.truth("use_legacy_max_tokens"))
	replace(&e.serverCounts, all.truth("use_server_token_count"))
	replace(&e.perChunk, all.truth("per_chunk_usage"))
	replace(&e.contentType, all.choice("request_content_type"))
	replace(&e.urlStrategy, all.choice("url_selection_strategy"))
	replace(&e.session, all.text("session_header"))
	replace(&e.reuse, all.choice("connection_reuse_strategy"))
	all.control(&e.control)
	all.network(&e.network)
	e.headers = all.merge("headers", e.headers, headers)
	e.extra = all.merge("extra_inputs", e.extra, pairs)
}

// merge puts the pairs of a flag over those of the file, key by key.
func (all *flags) merge(field string, base []KeyValue, parse func(string) ([]KeyValue, error)) []KeyValue {
	out := Map(base)
	for _, v := range all.byField[field].values {
		list, err := parse(v)
		if err != nil {
			continue // cannot be: the value was checked when it was set
		}
		for _, kv := range list {
			out = out.set(kv.Key, kv.Value)
		}
	}
	return out
}

func (all *flags) dataset(d *datasetDraft) {
	replace(&d.entries, all.whole("conversation_num_dataset_entries"))
	edit := func(l *lengthDraft, mean, stddev string) {
		if v := all.number(mean); v.ok {
			l.plain()
			l.mean = v
		}
		if v := all.number(stddev); v.ok {
			l.plain()
			l.stddev = v
		}
	}
	edit(&d.isl, "prompt_input_tokens_mean", "prompt_input_tokens_stddev")
	edit(&d.osl, "prompt_output_tokens_mean", "prompt_output_tokens_stddev")
}

// stops writes the flags that stop a phase or bound its load.
func (all *flags) stops(p *phaseDraft) {
	replace(&p.requests, all.whole("request_count"))
	replace(&p.duration, all.seconds("benchmark_duration"))
	replace(&p.grace, all.seconds("benchmark_grace_period"))
	replace(&p.sessions, all.whole("conversation_num"))
	replace(&p.concurrency, all.whole("concurrency"))
	if all.byField["benchmark_duration"].given != "" && !p.grace.ok {
		p.grace = given(float64(defaultGrace), "--benchmark-duration")
	}
}

// NoStop says what ends a run without a stop. Where a file may bring a schedule it is the caller's to say.
const NoStop = "No --request-count, --benchmark-duration or --num-conversations given: the run stops after 10 requests."

// newProfiling makes the phase of a run without a file.
func (all *flags) newProfiling(d *draft) error {
	p := &phaseDraft{at: "phases.profiling", name: "profiling"}
	all.stops(p)
	if !p.requests.ok && !p.duration.ok && !p.sessions.ok {
		p.requests = given(int64(10), "the default")
		d.noStop = true
		if ds := &d.dataset; !ds.isFile || !ds.fromFile.mayFollow() {
			d.notices = append(d.notices, NoStop)
		}
	}
	d.phases = []*phaseDraft{p}
	if err := all.shapeMeasured(d, p); err != nil {
		return err
	}
	if p.load == userCentric && d.dataset.prompts.turns.mean.or(1) < 2 {
		return &Error{Title: titleConfig, Msg: "User-centric rate mode requires --session-turns-mean >= 2. For single-turn workloads, use " +
			"--request-rate instead."}
	}
	return nil
}

// editProfiling changes the file's profiling phase, of which there must be one alone then.
func (all *flags) editProfiling(d *draft) error {
	var names []string
	var target *phaseDraft
	for _, p := range d.phases {
		if p.kind == metrics.Profiling {
			target = p
			names = append(names, p.name)
		}
	}
	var asked []string
	for _, field := range []string{
		"request_count", "benchmark_duration", "benchmark_grace_period", "concurrency", "conversation_num", "prefill_concurrency", "request_rate",
		"arrival_pattern", "arrival_smoothness", "concurrency_ramp_duration", "prefill_concurrency_ramp_duration", "request_rate_ramp_duration",
		"request_rate_series", "failed_request_threshold", "request_cancellation_rate", "request_cancellation_delay", "user_centric_rate", "num_users",
	} {
		if s := all.byField[field]; s.given != "" {
			asked = append(asked, s.given)
		}
	}
	switch {
	case len(asked) == 0 || target == nil:
		return nil
	case len(names) > 1:
		return &Error{Title: titleConfig, Msg: fmt.Sprintf("CLI loadgen flags target the profiling phase, but this config has %d "+
			"profiling phases: "+
			"%s. Set the value in YAML, and leave out %s.", len(names), strings.Join(names, ", "), strings.Join(asked, ", "))}
	}
	all.stops(target)
	return all.shapeMeasured(d, target)
}

// warmup edits the warm-up phase, or makes one where a flag asks for it.
func (all *flags) warmup(d *draft) error {
	var p *phaseDraft
	for _, q := range d.phases {
		if q.kind == metrics.Warmup {
			p = q
			break
		}
	}
	isGiven := func(field string) bool { return all.byField[field].given != "" }
	trigger := isGiven("warmup_request_count") || isGiven("warmup_num_sessions") || isGiven("warmup_duration")
	secondary := ""
	for _, field := range []string{
		"warmup_concurrency", "warmup_prefill_concurrency", "warmup_request_rate", "warmup_arrival_pattern", "warmup_concurrency_ramp_duration",
		"warmup_prefill_concurrency_ramp_duration", "warmup_request_rate_ramp_duration",
	} {
		if g := all.byField[field].given; secondary == "" {
			secondary = g
		}
	}
	grace := all.byField["warmup_grace_period"].given
	switch {
	case p != nil:
		if err := all.editWarmup(p); err != nil {
			return err
		}
	case trigger:
		p = &phaseDraft{at: "phases.warmup", name: "warmup", kind: metrics.Warmup}
		// A warm-up made by flags takes their concurrency, not the file's, as aiperf's does.
		if err := all.shapeWarmup(p); err != nil {
			return err
		}
		if p.concurrency = all.whole("concurrency"); !p.concurrency.ok && !p.rate.ok {
			p.concurrency = given(int64(1), "the default")
		}
		d.phases = append([]*phaseDraft{p}, d.phases...)
	case grace != "" && d.file == "":
		return &Error{Title: titleConfig, Msg: "--warmup-grace-period was supplied without any warmup trigger; warmup runs only when " +
			"--warmup-request-count, --num-warmup-sessions, or --warmup-duration is set. Pass --warmup-duration, or drop " +
			"--warmup-grace-period."}
	case secondary != "" || grace != "":
		if secondary == "" {
			secondary = grace
		}
		where := ""
		if d.file != "" {
			where = "Declare one in the config file, or pass"
		} else {
			where = "Pass"
		}
		return &Error{Title: titleConfig, Msg: fmt.Sprintf("%s needs a warmup phase to apply to. %s a warmup trigger "+
			"(--warmup-request-count / "+
			"--num-warmup-sessions / --warmup-duration).", secondary, where)}
	default:
		return nil
	}
	replace(&p.requests, all.whole("warmup_request_count"))
	replace(&p.sessions, all.whole("warmup_num_sessions"))
	replace(&p.duration, all.seconds("warmup_duration"))
	replace(&p.concurrency, all.whole("warmup_concurrency"))
	replace(&p.grace, all.seconds("warmup_grace_period"))
	if grace != "" && !p.duration.ok {
		return &Error{Title: titleConfig, Msg: "--warmup-grace-period requires --warmup-duration; grace_period applies only to " +
			"duration-bounded " +
			"warmup phases. Either set --warmup-duration, or drop --warmup-grace-period when using --warmup-request-count / " +
			"--num-warmup-sessions."}
	}
	return nil
}

// finite is sec as the echo of the config writes it: no end is null there, as in aiperf's.
func finite(sec float64) any {
	if math.IsInf(sec, 1) {
		return nil
	}
	return sec
}
