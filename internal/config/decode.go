package config

import (
	"fmt"
	"slices"
	"strings"

	"prefire/metrics"
)

// source is a config file as it stands: the tree of its values, and what there is to say of its form.
type source struct {
	file    string
	root    *node
	notices []string
}

// readSource reads a config file of either dialect.
func readSource(file string, data []byte, env func(string) (string, bool)) (*source, error) {
	root, err := readYAML(file, data, env)
	if err != nil {
		return nil, &Error{Title: titleConfig, Msg: err.Error()}
	}
	d := &decoder{file: file}
	d.migrate(root)
	d.envelope(root)
	bench := root.get("benchmark")
	switch {
	case d.err() != nil:
	case bench == nil:
		d.fail(root.line, root.col, "benchmark", "Field required: a config file has the keys schema_version and benchmark.")
	case bench.value.shape != isMap:
		d.fail(bench.value.line, bench.value.col, "benchmark", "Input should be a valid dictionary; found %s.", bench.value.found())
	}
	return &source{file, root, d.notices}, d.err()
}

// decode reads a tree of the source into a draft: its own, or one that a sweep has made of it.
func (src *source) decode(root *node) (*draft, error) {
	d := &decoder{file: src.file, notices: slices.Clone(src.notices)}
	bench := root.get("benchmark")
	d.recognise(bench.value)
	if d.dialect == Schema20 {
		root = d.rendered(root)
		if err := d.err(); err != nil {
			return nil, err
		}
		bench = root.get("benchmark")
	}
	out := d.benchmark(bench.value)
	out.dialect, out.file = d.dialect, src.file
	s := d.section(root, "", envelopeKeys())
	out.seed = s.whole("random_seed", atLeast(0))
	if v, where, ok := s.value("variables"); ok && v.shape != isMap {
		s.bad(v, where, "Input should be a valid dictionary: a mapping of names to values")
	}
	d.schemaVersion(s)
	out.notices = d.notices
	return out, d.err()
}

// migrate moves the sections of an older file's top level below benchmark, as aiperf does.
func (d *decoder) migrate(root *node) {
	var moved, kept []*entry
	for _, e := range root.entries {
		if slices.Contains(bodyKeys(), snake(e.key)) {
			moved = append(moved, e)
		} else {
			kept = append(kept, e)
		}
	}
	if len(moved) == 0 {
		return
	}
	names := make([]string, len(moved))
	for i, e := range moved {
		names[i] = pyString(e.key)
	}
	d.notices = append(d.notices, fmt.Sprintf("%s uses pre-restructure flat shape (top-level keys: [%s]); auto-migrated: read as if "+
		"they stood "+
		"below benchmark.", d.file, strings.Join(names, ", ")))
	body := &node{shape: isMap, line: moved[0].line, col: moved[0].col, entries: moved}
	if bench := root.get("benchmark"); bench != nil && bench.value.shape == isMap {
		body.entries = append(slices.Clone(bench.value.entries), moved...)
		kept = slices.DeleteFunc(kept, func(e *entry) bool { return e == bench })
	}
	root.entries = append(kept, &entry{key: "benchmark", line: body.line, col: body.col, value: body})
}

// envelope refuses unknown keys of the top level in aiperf's words.
func (d *decoder) envelope(root *node) {
	k := envelopeKeys()
	all := slices.Clone(k.known)
	for key := range k.later {
		all = append(all, key)
	}
	slices.Sort(all)
	for _, e := range root.entries {
		if slices.Contains(all, snake(e.key)) {
			continue
		}
		msg := "Unknown top-level envelope key(s): " + pyString(e.key)
		if near := nearest(snake(e.key), all); near != "" {
			msg += fmt.Sprintf(" (did you mean '%s'?)", near)
		}
		d.fail(e.line, e.col, e.key, "%s. Known keys: %s.", msg, strings.Join(all, ", "))
	}
}

// schemaVersion checks the version, which is a string: 2.0 without quotes is a number.
func (d *decoder) schemaVersion(s *section) {
	v, where, ok := s.value("schema_version")
	if ok && (v.shape != isString || v.s != "2.0") {
		s.fail(v.line, v.col, where, "Input should be '2.0', a string in quotes; found %s.", v.found())
	}
}

// recognise tells the dialects apart: datasets is a mapping in the older one alone.
func (d *decoder) recognise(bench *node) {
	d.dialect, d.why = Schema20, "datasets is no mapping"
	if e := bench.get("datasets"); e != nil && e.value.shape == isMap {
		d.dialect, d.why = Older, fmt.Sprintf("datasets is a mapping in line %d", e.line)
		d.notices = append(d.notices, fmt.Sprintf("%s is read in the older config dialect, because %s; sessions are concurrent sessions "+
			"there.",
			d.file, d.why))
	}
}

func (d *decoder) benchmark(n *node) *draft {
	out := &draft{}
	const path = "benchmark"
	s := d.section(n, path, benchmarkKeys())
	d.exclusive(s, "model", "models", "Use 'model' for a single model or 'models' for multiple named models.")
	d.exclusive(s, "dataset", "datasets", "Use 'dataset' for a single dataset or 'datasets' for multiple named datasets.")
	d.models(s, out)
	d.endpoint(s, &out.endpoint)
	d.dataset(s, &out.dataset)
	d.phases(s, out)
	if v, where, ok := s.value("artifacts"); ok {
		a := d.section(v, where, artifactsKeys())
		out.dir, out.prefix = a.text("dir"), a.text("prefix")
		a.outputs(&out.outputs)
	}
	d.slos(s, &out.outputs)
	d.roundTrip(s, &out.outputs)
	if v, where, ok := s.value("tokenizer"); ok {
		t := d.section(v, where, tokenizerKeys())
		out.tokenizer, out.revision, out.dataset.prompts.template = t.text("name"), t.text("revision"), t.truth("apply_chat_template")
	}
	if v, where, ok := s.value("runtime"); ok {
		r := d.section(v, where, runtimeKeys())
		out.ui = r.choice("ui", choicesUI(), nil)
		if v, where, ok := r.value("stats_interval"); ok {
			out.interval = r.number(v, where, between(0, maxStatsInterval))
		}
	}
	if v, where, ok := s.value("logging"); ok {
		out.level = d.section(v, where, loggingKeys()).choice("level", LogLevels(), nil)
	}
	d.serverMetrics(s, &out.server)
	// The accepted forms of it say that it is off, or that it is as where the section is not written.
	for _, e := range n.entries {
		out.noGPU = out.noGPU || snake(e.key) == "gpu_telemetry" && !sameValue(e.value, []string{"enabled"})
	}
	return out
}

// exclusive refuses two keys that say the same.
func (d *decoder) exclusive(s *section, a, b, hint string) bool {
	ea, eb := s.entries[a], s.entries[b]
	if ea == nil || eb == nil {
		return false
	}
	d.fail(ea.line, ea.col, join(s.path, ea.key), "'%s' cannot be used with '%s' (line %d). %s", a, b, eb.line, hint)
	return true
}

func (d *decoder) models(s *section, out *draft) {
	key := "models"
	if s.entries[key] == nil {
		key = "model"
	}
	v, where, ok := s.value(key)
	if !ok {
		return
	}
	place := d.place(v.line, v.col, where)
	first := v
	if v.shape == isList && len(v.list) > 0 {
		first = v.list[0]
	}
	if _, isText := first.text(); isText || v.shape == isList && len(v.list) == 0 {
		names := s.texts(key)
		out.models.set(names.v, names.from)
		return
	}
	m := d.section(v, where, modelsKeys())
	items, where, ok := m.value("items")
	switch {
	case v.shape != isMap:
		return
	case !ok:
		d.fail(v.line, v.col, join(m.path, "items"), "Field required: a list of models, each with its name.")
		return
	case items.shape != isList:
		m.bad(items, where, "Input should be a valid list")
		return
	}
	out.models.from = place
	out.models.strategy = m.choice("strategy", modelStrategies(), nil)
	for i, item := range items.list {
		one := d.section(item, fmt.Sprintf("%s.%d", where, i), modelKeys())
		if item.shape != isMap {
			continue
		}
		name := one.text("name")
		if !name.ok && one.entries["name"] == nil {
			d.fail(item.line, item.col, join(one.path, "name"), "Field required.")
		}
		model := modelDraft{name: name.v}
		if v, where, ok := one.value("weight"); ok {
			model.weight = one.number(v, where, between(0, 1))
		}
		out.models.list = append(out.models.list, model)
	}
}

func (d *decoder) endpoint(s *section, out *endpointDraft) {
	v, where, ok := s.value("endpoint")
	if !ok {
		d.fail(s.n.line, s.n.col, join(s.path, "endpoint"), "Field required: where the server is, for example {urls: "+
			"[\"http://localhost:8000\"]}.")
		return
	}
	out.at = d.place(v.line, v.col, where)
	e := d.section(v, where, endpointKeys())
	if d.exclusive(e, "url", "urls", "Use one of them.") {
		return
	}
	out.urls = e.texts("urls")
	if !out.urls.ok {
		out.urls = e.texts("url")
	}
	out.kind = e.choice("type", endpointTypes(), usableEndpoints())
	out.path = e.text("path")
	out.apiKey = e.text("api_key")
	out.timeout = e.seconds("timeout", atLeast(0), false)
	out.streaming = e.truth("streaming")
	out.legacy = e.truth("use_legacy_max_tokens")
	out.serverCounts = e.truth("use_server_token_count")
	out.perChunk = e.truth("per_chunk_usage")
	out.contentType = e.choice("request_content_type", contentTypes(), nil)
	out.urlStrategy = e.choice("url_strategy", []string{RoundRobin}, nil)
	out.session = e.text("session_header")
	out.reuse = e.choice("connection_reuse", reuseStrategies(), nil)
	out.control = e.control()
	out.network = e.network()
	if v, where, ok := e.value("headers"); ok {
		out.headers = d.headers(v, where)
	}
	if v, where, ok := e.value("extra"); ok {
		if v.shape != isMap {
			e.bad(v, where, "Input should be a valid dictionary")
			return
		}
		out.extra = v.plainValue().(Map)
	}
}

func (d *decoder) headers(v *node, where string) []KeyValue {
	if v.shape != isMap {
		d.fail(v.line, v.col, where, "Input should be a valid dictionary; found %s.", v.found())
		return nil
	}
	var out []KeyValue
	for _, e := range v.entries {
		text, isText := e.value.text()
		if !isText { // what was found may be a key
			d.fail(e.value.line, e.value.col, join(where, e.key), "Input should be a valid string: put the value in quotes.")
			continue
		}
		if what := headerFault(e.key, text); what != "" {
			d.fail(e.line, e.col, join(where, e.key), "%s", what)
		}
		out = append(out, KeyValue{e.key, text})
	}
	return out
}

func (d *decoder) dataset(s *section, out *datasetDraft) {
	if v, where, ok := s.value("dataset"); ok {
		out.name = "default"
		d.synthetic(v, where, out, false)
		return
	}
	v, where, ok := s.value("datasets")
	switch {
	case !ok:
		d.fail(s.n.line, s.n.col, join(s.path, "datasets"), "Field required: one dataset, for example [{name: main, type: synthetic, "+
			"isl: 550}].")
	case d.dialect == Older:
		d.olderDatasets(v, where, out)
	case v.shape != isList:
		d.fail(v.line, v.col, where, "datasets must be a list of named entries; found %s.", v.found())
	case len(v.list) == 0:
		d.fail(v.line, v.col, where, "List should have at least 1 item after validation, not 0.")
	case len(v.list) > 1:
		d.fail(v.line, v.col, where, "List should have at most 1 item after validation, not %d: a run has one dataset.", len(v.list))
	default:
		d.synthetic(v.list[0], where+".0", out, true)
	}
}

// synthetic reads a dataset of schema 2.0.
func (d *decoder) synthetic(v *node, path string, out *datasetDraft, listed bool) {
	if v.shape == isMap {
		if kind := v.get("type"); kind != nil && kind.value.shape == isString && fold(kind.value.s) == "public" {
			d.fail(kind.value.line, kind.value.col, join(path, "type"), "'public' is known to aiperf, not supported by this version of prefire, which loads no "+
				"data sets from the network: give a local copy as a dataset of type file.")
			return
		}
	}
	k := datasetKeys()
	k.other = d.olderKey
	fromFile := isFile(v)
	if fromFile {
		k = fileDatasetKeys()
	}
	s := d.section(v, path, k)
	if v.shape != isMap {
		return
	}
	out.at = d.place(v.line, v.col, path)
	name := s.text("name")
	if listed && s.entries["name"] == nil {
		d.fail(v.line, v.col, path, "datasets[0] is missing required 'name' field. Each dataset entry needs a name (e.g. 'main', 'eval').")
	}
	out.name = name.or(out.name)
	kind := s.choice("type", []string{"synthetic", "file", "public"}, []string{"synthetic", "file"})
	out.typed = true
	if s.entries["type"] != nil && !kind.ok {
		return
	}
	if fromFile {
		d.fileDataset(s, out)
		return
	}
	out.entries = s.whole("entries", atLeast(1))
	out.seed = s.whole("random_seed", atLeast(0))
	out.sampling = s.choice("sampling", samplings(), nil)
	p := &section{decoder: d, n: v, entries: map[string]*entry{}}
	if v, where, ok := s.value("prompts"); ok {
		p = d.section(v, where, promptsKeys())
	}
	out.isl = d.length(s, p, "isl", 1)
	out.osl = d.length(s, p, "osl", 1)
	d.promptKeys(s, p, &out.prompts)
}

// olderKey explains a key of the older dialect in a file of schema 2.0.
func (d *decoder) olderKey(key string) string {
	if !slices.Contains([]string{"prompt_template", "variables", "strategy", "input_tokens", "output_tokens", "max_total_tokens"}, key) {
		return ""
	}
	return fmt.Sprintf("It belongs to the older config dialect; this file is read as schema 2.0, because %s. Lengths are isl and osl "+
		"here; "+
		"or make datasets a mapping, as in the older dialect.", d.why)
}

// length reads a length whose mean is least or more, at the dataset's own level or below prompts.
func (d *decoder) length(s, prompts *section, key string, least float64) lengthDraft {
	v, where, ok := s.value(key)
	if inner, at, both := prompts.value(key); both {
		if ok {
			d.fail(v.line, v.col, where, "given twice: also as %s in line %d.", at, inner.line)
			return lengthDraft{}
		}
		v, where, ok = inner, at, true
	}
	if !ok {
		return lengthDraft{}
	}
	if v.shape != isMap {
		return lengthDraft{mean: s.number(v, where, atLeast(least)), fixed: true}
	}
	return d.distribution(v, where, lengthKeys(), least)
}

func (d *decoder) phases(s *section, out *draft) {
	const hint = "Use 'warmup'/'profiling' for simple configs or 'phases' for advanced multi-phase configs."
	if d.exclusive(s, "warmup", "phases", hint) || d.exclusive(s, "profiling", "phases", hint) {
		return
	}
	if w := s.entries["warmup"]; w != nil && s.entries["profiling"] == nil {
		d.fail(w.line, w.col, join(s.path, w.key), "'warmup' requires 'profiling'. A warmup-only config without a profiling phase would "+
			"produce no results.")
		return
	}
	for _, key := range []string{"warmup", "profiling"} {
		if v, where, ok := s.value(key); ok {
			d.phase(v, where, key, out)
		}
	}
	v, where, ok := s.value("phases")
	switch {
	case !ok:
		if s.entries["profiling"] == nil {
			d.fail(s.n.line, s.n.col, join(s.path, "phases"), "Field required: at least one phase, for example "+
				"[{name: profiling, type: concurrency, requests: 100, concurrency: 10}].")
		}
	case v.shape == isMap:
		d.phase(v, where, "profiling", out)
	case v.shape != isList:
		s.bad(v, where, "Input should be a valid list")
	case len(v.list) == 0:
		d.fail(v.line, v.col, where, "List should have at least 1 item after validation, not 0.")
	default:
		for i, item := range v.list {
			d.phase(item, fmt.Sprintf("%s.%d", where, i), "", out)
		}
	}
}

// phase reads one phase; name is the one a shorthand gives it.
func (d *decoder) phase(v *node, path, name string, out *draft) {
	kind := "concurrency"
	if v.shape == isMap {
		var ok bool
		if kind, ok = d.phaseType(v, path); !ok {
			return
		}
	}
	k := phaseKeys(kind)
	if d.dialect == Older {
		k = olderPhaseKeys()
		k.other = func(key string) string {
			if key != "concurrency" {
				return ""
			}
			return fmt.Sprintf("This file is read in the older config dialect, because %s; there the number of concurrent sessions is "+
				"`sessions`.", d.why)
		}
	}
	s := d.section(v, path, k)
	if v.shape != isMap {
		return
	}
	p := &phaseDraft{at: d.place(v.line, v.col, path)}
	named := s.text("name")
	kinded := s.choice("kind", []string{"warmup", "profiling"}, nil)
	if s.entries["kind"] != nil && !kinded.ok || s.entries["name"] != nil && !named.ok {
		return
	}
	p.name = named.or(name)
	d.phaseName(s, p, kinded, len(out.phases))
	p.requests = s.whole("requests", atLeast(1))
	p.duration = s.seconds("duration", above(0), false)
	p.grace = s.seconds("grace_period", atLeast(0), true)
	if d.dialect == Older {
		p.concurrency = s.whole("sessions", between(1, maxSessions))
	} else {
		p.sessions = s.whole("sessions", atLeast(1))
		p.concurrency = s.whole("concurrency", between(1, maxSessions))
	}
	if e := s.truth("exclude_from_results"); e.ok {
		p.exclude = true
		if e.v != (p.kind == metrics.Warmup) {
			d.problem(e.from, "Phase '%s': exclude_from_results must be %t for kind '%s' (warmup is always excluded; profiling is "+
				"always included).",
				p.name, !e.v, p.kind)
		}
	}
	p.loadDraft = d.load(s, kind, p.kind)
	out.phases = append(out.phases, p)
	if kind == fixedSchedule {
		d.schedule(s, p, &out.dataset.fromFile)
	}
}

// phaseType is the type of a phase, which it must have.
func (d *decoder) phaseType(v *node, path string) (string, bool) {
	kind := v.get("type")
	switch usable := d.usableTypes(); {
	case kind == nil:
		d.fail(v.line, v.col, path, "Unable to extract tag using discriminator 'type': a phase needs a type; this version of "+
			"prefire has %s.", oneOf(usable))
	case kind.value.shape != isString || !slices.Contains(phaseTypes(), kind.value.s):
		tag := fmt.Sprint(kind.value.plainValue())
		d.fail(kind.value.line, kind.value.col, join(path, "type"), "Input tag %s found using 'type' does not match any of the "+
			"expected tags: %s.",
			pyString(tag), strings.Join(phaseTypes(), ", "))
	case !slices.Contains(usable, kind.value.s):
		d.fail(kind.value.line, kind.value.col, join(path, "type"), "'%s' is known to aiperf, not supported by this version of "+
			"prefire, which has %s.", kind.value.s, oneOf(usable))
	default:
		return kind.value.s, true
	}
	return "", false
}

// usableTypes are the types of phases that can be run. The older dialect has concurrency alone.
func (d *decoder) usableTypes() []string {
	if d.dialect == Older {
		return []string{"concurrency"}
	}
	return []string{"concurrency", "poisson", "gamma", "constant", userCentric, fixedSchedule}
}

// phaseName works out name and kind of a phase.
func (d *decoder) phaseName(s *section, p *phaseDraft, kind opt[string], index int) {
	switch {
	case kind.ok && kind.v == "warmup":
		p.kind = metrics.Warmup
	case kind.ok, p.name == "profiling":
	case p.name == "warmup":
		p.kind = metrics.Warmup
	case d.dialect == Older:
	case p.name != "":
		d.problem(p.at, "Phase '%s': kind is required for non-canonical phase names. Set kind to 'warmup' or 'profiling'.", p.name)
	}
	if p.name == "" && d.dialect == Older {
		p.name = p.kind.String()
		if index > 0 {
			p.name = fmt.Sprintf("%s_%d", p.kind, index)
		}
	}
	switch {
	case p.name == "":
		d.fail(s.n.line, s.n.col, join(s.path, "name"), "Field required: a phase in a list needs a name.")
	case !isPhaseName(p.name):
		d.problem(p.at, "String should match pattern '^[A-Za-z_][A-Za-z0-9_-]*$'; the phase's name is %s.", pyString(p.name))
	case (p.name == "warmup" || p.name == "profiling") && p.name != p.kind.String():
		d.problem(p.at, "Phase name '%s' is reserved for kind '%s'; got kind '%s'.", p.name, p.name, p.kind)
	}
}

func isPhaseName(s string) bool {
	return isName(strings.ReplaceAll(s, "-", "_")) && s[0] != '-'
}
