package config

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"prefire/internal/sweep"
)

// seriesDraft is what a file and flags say of a sweep and of repeats.
type seriesDraft struct {
	from string // what asks for more than one run: a place in the file, or a flag

	kind       string // grid | zip | scenarios; "" = nothing is swept
	parameters []parameter
	scenarios  []scenario
	variants   []string // --variant
	order      opt[string]
	sameSeed   opt[bool]
	sweepPause opt[float64]
	limits     []sweep.Limit
	noTable    opt[bool]

	runs             opt[int64]
	pause, level     opt[float64]
	consistent, vary opt[bool]
	warmupOnce       opt[bool]
	convergence      *convergenceDraft
}

// parameter is what a sweep varies: a path into the file, or a flag.
type parameter struct {
	path   string
	field  string   // of the flag; "" = the path is in the file
	texts  []string // the flag's values
	nodes  []*node  // the file's
	values []any
}

// scenario is one run of a sweep of scenarios.
type scenario struct {
	name string
	over *node // what it sets: variables and benchmark
	// values are those that the run states of itself; nil = what it sets.
	values []sweep.Setting
}

type convergenceDraft struct {
	metric, stat, mode opt[string]
	threshold          opt[float64]
	minRuns            opt[int64]
}

// maxRuns bounds the repeats, as aiperf does.
const maxRuns = 10

// readSeries reads the sections of a file that ask for several runs.
func (src *source) readSeries(out *seriesDraft) error {
	d := &decoder{file: src.file}
	root := src.root
	if d.recognise(root.get("benchmark").value); d.dialect == Schema20 {
		if root = d.rendered(root); d.err() != nil {
			return d.err()
		}
	}
	s := d.section(root, "", envelopeKeys())
	out.noTable = s.truth("no_sweep_table")
	if v, where, ok := s.value("sweep"); ok {
		out.from = d.place(v.line, v.col, where)
		d.sweep(v, where, out)
	}
	if v, where, ok := s.value("multi_run"); ok {
		if out.from == "" {
			out.from = d.place(v.line, v.col, where)
		}
		d.multiRun(v, where, out)
	}
	return d.err()
}

func (d *decoder) multiRun(v *node, where string, out *seriesDraft) {
	m := d.section(v, where, multiRunKeys())
	out.runs = m.whole("num_runs", between(1, maxRuns))
	out.pause = m.seconds("cooldown_seconds", between(0, 86400), false)
	out.level = m.share("confidence_level")
	out.consistent, out.vary, out.warmupOnce = m.truth("set_consistent_seed"), m.truth("vary_seed_per_trial"), m.truth("disable_warmup_after_first")
	v, where, ok := m.value("convergence")
	if !ok {
		return
	}
	c := d.section(v, where, convergenceKeys())
	out.convergence = &convergenceDraft{metric: c.text("metric"), stat: c.choice("stat", convergenceStats(), nil),
		mode: c.choice("mode", convergenceModes(), nil), threshold: c.share("threshold"), minRuns: c.whole("min_runs", atLeast(2))}
	if v.shape == isMap && c.entries["metric"] == nil {
		d.fail(v.line, v.col, join(where, "metric"), "Field required.")
	}
	if least, runs := out.convergence.minRuns.or(2), out.runs.or(1); least > runs {
		d.fail(v.line, v.col, where, "convergence.min_runs (%d) must be <= num_runs (%d). Either lower min_runs or raise num_runs.", least, runs)
	}
}

// share reads a number between 0 and 1, both outside.
func (s *section) share(key string) opt[float64] {
	v, where, ok := s.value(key)
	if !ok {
		return opt[float64]{}
	}
	n := s.number(v, where, &Bound{Low: 0, Open: true, High: math.Nextafter(1, 0)})
	return n
}

func convergenceStats() []string { return []string{"avg", "p50", "p90", "p95", "p99", "min", "max"} }
func convergenceModes() []string { return []string{"ci_width", "cv", "distribution"} }
func sweepOrders() []string      { return []string{"repeated", "independent"} }

// sweep reads the sweep section.
func (d *decoder) sweep(v *node, where string, out *seriesDraft) {
	kind := ""
	if v.shape == isMap {
		e := v.get("type")
		switch all := []string{"grid", "zip", "scenarios", "adaptive_search", "sobol", "latin_hypercube"}; {
		case e == nil:
			d.fail(v.line, v.col, where, "Unable to extract tag using discriminator 'type': a sweep needs a type: grid, zip or scenarios.")
			return
		case e.value.shape != isString || !slices.Contains(all, e.value.s):
			d.fail(e.value.line, e.value.col, join(where, "type"), "Input tag %s found using 'type' does not match any of the expected tags: %s.",
				pyString(fmt.Sprint(e.value.plainValue())), strings.Join(all, ", "))
			return
		case !slices.Contains(all[:3], e.value.s):
			d.fail(e.value.line, e.value.col, join(where, "type"), "'%s' is known to aiperf, not supported by this version of prefire, which has %s.",
				e.value.s, oneOf(all[:3]))
			return
		}
		kind = e.value.s
	}
	s := d.section(v, where, sweepKeys(kind))
	if v.shape != isMap {
		return
	}
	out.kind = kind
	out.order, out.sameSeed = s.choice("iteration_order", sweepOrders(), nil), s.truth("same_seed")
	out.sweepPause = s.seconds("cooldown_seconds", between(0, maxSeconds), false)
	if v, where, ok := s.value("sla_filters"); ok {
		d.limits(v, where, out)
	}
	key := "parameters"
	if kind == "scenarios" {
		key = "runs"
	}
	v, where, ok := s.value(key)
	switch {
	case !ok:
		d.fail(s.n.line, s.n.col, join(s.path, key), "Field required.")
	case kind == "scenarios":
		d.scenarios(v, where, out)
	case v.shape != isMap:
		s.bad(v, where, "Input should be a valid dictionary")
	case len(v.entries) == 0:
		d.fail(v.line, v.col, where, "Dictionary should have at least 1 item after validation, not 0.")
	default:
		for _, e := range v.entries {
			d.parameter(e, join(where, e.key), kind, out)
		}
	}
}

func (d *decoder) parameter(e *entry, where, kind string, out *seriesDraft) {
	path, err := sweep.ResolvePath(e.key)
	switch {
	case err != nil:
		d.fail(e.line, e.col, where, "%s sweep parameter: %v.", kind, err)
		return
	case e.value.shape != isList:
		d.fail(e.value.line, e.value.col, where, "Input should be a valid list; found %s.", e.value.found())
		return
	case len(e.value.list) == 0:
		d.fail(e.value.line, e.value.col, where, "%s sweep parameter '%s': value list must be non-empty.", kind, e.key)
		return
	case slices.ContainsFunc(out.parameters, func(p parameter) bool { return p.path == path }):
		d.fail(e.line, e.col, where, "%s sweep parameter '%s' resolves to '%s', which is already a parameter. Pick one spelling (the bare alias or the full dotted "+
			"path) and remove the other.", kind, e.key, path)
		return
	}
	p := parameter{path: path, nodes: e.value.list}
	for i, n := range e.value.list {
		if holdsSecret(path, n.plainValue()) {
			d.fail(n.line, n.col, fmt.Sprintf("%s.%d", where, i), "%s", secretSwept)
			return
		}
		if n.shape == isFloat && (math.IsNaN(n.f) || math.IsInf(n.f, 0)) {
			d.fail(n.line, n.col, fmt.Sprintf("%s.%d", where, i), "%s sweep parameter '%s': value %s is not finite.", kind, e.key, n.found())
		}
		p.values = append(p.values, swept(n.plainValue()))
	}
	out.parameters = append(out.parameters, p)
}

const secretSwept = "the values of a sweep name its folders and stand in its files: a key, a password or an address with one is given once, outside of the sweep."

// holdsSecret reports whether a value at a path of the config must not be written.
func holdsSecret(path string, v any) bool {
	parent, leaf := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, leaf = path[:i], path[i+1:]
	}
	v = Map{{snake(leaf), v}}
	if parent == "headers" || strings.HasSuffix(parent, ".headers") {
		v = Map{{"headers", v}}
	}
	return fmt.Sprint(withoutSecrets(v)) != fmt.Sprint(v)
}

// withoutSecrets is a part of a config as files may hold it.
func withoutSecrets(v any) any {
	switch v := v.(type) {
	case string:
		return redactURL(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = withoutSecrets(item)
		}
		return out
	case Map:
		out := make(Map, len(v))
		for i, kv := range v {
			headers, isHeaders := kv.Value.(Map)
			switch {
			case sensitiveParam(kv.Key) || snake(kv.Key) == "api_key":
				kv.Value = redacted
			case kv.Key == "headers" && isHeaders:
				hidden := slices.Clone(headers)
				for j := range hidden {
					if sensitiveHeader(hidden[j].Key) {
						hidden[j].Value = redacted
					}
				}
				kv.Value = hidden
			default:
				kv.Value = withoutSecrets(kv.Value)
			}
			out[i] = kv
		}
		return out
	}
	return v
}

// swept is a config value as sweep has it.
func swept(v any) any {
	switch v := v.(type) {
	case Map:
		out := make(sweep.Map, len(v))
		for i, kv := range v {
			out[i] = sweep.Entry{Key: kv.Key, Value: swept(kv.Value)}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = swept(item)
		}
		return out
	}
	return v
}

func (d *decoder) limits(v *node, where string, out *seriesDraft) {
	if v.shape != isList {
		d.fail(v.line, v.col, where, "Input should be a valid list; found %s.", v.found())
		return
	}
	for i, item := range v.list {
		s := d.section(item, fmt.Sprintf("%s.%d", where, i), limitKeys())
		l := sweep.Limit{Metric: s.text("metric_tag").v, Stat: s.choice("stat", []string{"avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max"},
			nil).or("p95"), Op: s.choice("op", []string{"lt", "le", "gt", "ge"}, nil).v}
		if n, at, ok := s.value("threshold"); ok {
			l.Threshold = s.number(n, at, nil).v
		}
		for _, key := range []string{"metric_tag", "op", "threshold"} {
			if item.shape == isMap && s.entries[key] == nil {
				d.fail(item.line, item.col, join(s.path, key), "Field required.")
			}
		}
		out.limits = append(out.limits, l)
	}
}

func (d *decoder) scenarios(v *node, where string, out *seriesDraft) {
	switch {
	case v.shape != isList:
		d.fail(v.line, v.col, where, "Input should be a valid list; found %s.", v.found())
		return
	case len(v.list) == 0:
		d.fail(v.line, v.col, where, "List should have at least 1 item after validation, not 0.")
		return
	}
	names := map[string]bool{}
	for i, item := range v.list {
		s := d.section(item, fmt.Sprintf("%s.%d", where, i), scenarioKeys())
		if item.shape != isMap {
			continue
		}
		sc := scenario{name: s.text("name").or(fmt.Sprintf("scenario_%d", i)), over: &node{shape: isMap, line: item.line, col: item.col}}
		if n, at, ok := s.value("name"); ok {
			switch {
			case names[sc.name]:
				d.fail(n.line, n.col, at, "scenario sweep runs must have unique names; duplicates: [%s].", pyString(sc.name))
			case strings.ContainsAny(sc.name, `/\`) || strings.Contains(sc.name, "..") || strings.Trim(sc.name, ".") == "":
				d.fail(n.line, n.col, at, "scenario sweep run name %s is path-unsafe (contains a path separator or '..', or is only dots); choose a name usable as a "+
					"directory.", pyString(sc.name))
			}
			names[sc.name] = true
		}
		for _, key := range []string{"variables", "benchmark"} {
			n, at, ok := s.value(key)
			if !ok {
				continue
			}
			if n.shape != isMap {
				s.bad(n, at, "Input should be a valid dictionary")
				continue
			}
			sc.over.entries = append(sc.over.entries, &entry{key: key, line: n.line, col: n.col, value: n})
		}
		if n, at, ok := s.value("values"); ok {
			if n.shape != isMap {
				s.bad(n, at, "Input should be a valid dictionary")
			}
			sc.values = []sweep.Setting{}
			for _, e := range n.entries {
				if holdsSecret(e.key, e.value.plainValue()) {
					d.fail(e.value.line, e.value.col, join(at, e.key), "%s", secretSwept)
					continue
				}
				if e.value.shape == isMap || e.value.shape == isList {
					d.fail(e.value.line, e.value.col, join(at, e.key), "must be a hashable scalar; found %s.", e.value.found())
				}
				sc.values = append(sc.values, sweep.Setting{Path: e.key, Value: swept(e.value.plainValue())})
			}
		}
		out.scenarios = append(out.scenarios, sc)
	}
}

// sweepFlags are the flags of a comma list with what they vary; P and D stand for the names of the phase and the dataset.
func sweepFlags() [][2]string {
	return [][2]string{
		{"concurrency", "phases.P.concurrency"}, {"prefill_concurrency", "phases.P.prefill_concurrency"}, {"request_rate", "phases.P.rate"},
		{"request_count", "phases.P.requests"}, {"benchmark_duration", "phases.P.duration"}, {"conversation_num", "phases.P.sessions"},
		{"num_users", "phases.P.users"}, {"prompt_input_tokens_mean", "datasets.D.prompts.isl.mean"},
		{"prompt_input_tokens_stddev", "datasets.D.prompts.isl.stddev"}, {"prompt_output_tokens_mean", "datasets.D.prompts.osl.mean"},
		{"prompt_output_tokens_stddev", "datasets.D.prompts.osl.stddev"}, {"conversation_turn_mean", "datasets.D.turns.mean"},
	}
}

// listFlags are the flags that were given a list of values, as parameters.
func (all *flags) listFlags(phase, dataset string) []parameter {
	var out []parameter
	for _, f := range sweepFlags() {
		value, _, ok := all.last(f[0])
		items := listItems(value)
		if !ok || len(items) < 2 {
			continue
		}
		p := parameter{path: strings.NewReplacer(".P.", "."+phase+".", ".D.", "."+dataset+".").Replace(f[1]), field: f[0], texts: items}
		for _, item := range items {
			p.values = append(p.values, all.byField[f[0]].flag.item(item))
		}
		out = append(out, p)
	}
	return out
}

// applySeries puts the flags over what the file says of sweeps and repeats, and gives what there is to say of them.
func (all *flags) applySeries(s *seriesDraft, file bool) (notices []string, err error) {
	refuse := func(format string, args ...any) error {
		return &Error{Title: titleConfig, Msg: fmt.Sprintf(format, args...)}
	}
	isGiven := func(field string) string { return all.byField[field].given }
	if file {
		var with []string
		for _, field := range []string{"sweep_type", "sweep_variants", "parameter_sweep_cooldown_seconds", "parameter_sweep_mode", "parameter_sweep_same_seed"} {
			if g := isGiven(field); g != "" {
				with = append(with, g)
			}
		}
		if isGiven("convergence_metric") == "" { // with it, they go together
			for _, field := range []string{"convergence_mode", "convergence_stat", "convergence_threshold"} {
				if g := isGiven(field); g != "" {
					with = append(with, g)
				}
			}
		}
		if len(with) > 0 {
			return nil, refuse("These CLI flags cannot be combined with --config and would otherwise be ignored: %s. Set the equivalent values in the YAML config "+
				"file, or drop --config and pass the run entirely on the command line.", strings.Join(with, ", "))
		}
	}
	replace(&s.runs, all.whole("num_profile_runs"))
	if s.runs.v > 1 && s.from == "" {
		s.from = s.runs.from
	}
	for _, field := range []string{"set_consistent_seed", "profile_run_disable_warmup_after_first", "profile_run_cooldown_seconds"} {
		if g := isGiven(field); g != "" && s.runs.or(1) < 2 {
			return nil, refuse("%s only applies when running multiple trials (--num-profile-runs > 1). Either remove %s or add --num-profile-runs 5 (or higher).", g, g)
		}
	}
	replace(&s.pause, all.seconds("profile_run_cooldown_seconds"))
	replace(&s.level, all.number("confidence_level"))
	replace(&s.consistent, all.truth("set_consistent_seed"))
	replace(&s.vary, all.truth("vary_seed_per_trial"))
	replace(&s.warmupOnce, all.truth("profile_run_disable_warmup_after_first"))
	replace(&s.noTable, all.truth("no_sweep_table"))
	if metric := all.text("convergence_metric"); metric.ok {
		s.convergence = &convergenceDraft{metric: metric, stat: all.choice("convergence_stat"), mode: all.choice("convergence_mode"),
			threshold: all.number("convergence_threshold")}
	} else if s.convergence == nil {
		for _, field := range []string{"convergence_mode", "convergence_stat", "convergence_threshold"} {
			if g := isGiven(field); g != "" {
				notices = append(notices, g+" has no effect without --convergence-metric.")
			}
		}
	}
	if s.convergence != nil && s.runs.or(1) < 2 {
		return nil, refuse("--convergence-metric requires --num-profile-runs > 1. Set --num-profile-runs to at least 2 to enable adaptive convergence.")
	}
	s.variants = all.byField["sweep_variants"].values
	if len(s.variants) == 1 {
		return nil, refuse("--variant: single occurrence is rejected. Use the individual --isl/--osl/--concurrency flags for a one-off; --variant is for multi-variant " +
			"sweeps. Pass --variant at least twice to declare a ScenarioSweep.")
	}
	replace(&s.order, all.choice("parameter_sweep_mode"))
	replace(&s.sameSeed, all.truth("parameter_sweep_same_seed"))
	replace(&s.sweepPause, all.seconds("parameter_sweep_cooldown_seconds"))
	return notices, nil
}

// resolve fills in the defaults.
func (s *seriesDraft) resolve() *Plan {
	p := &Plan{
		Kind: s.kind, Seed: nil, SameSeed: s.sameSeed.v, WarmupOnce: s.warmupOnce.or(true), Cooldown: duration(s.pause.v),
		SweepCooldown: duration(s.sweepPause.v), Confidence: s.level.or(0.95), Limits: s.limits, NoTable: s.noTable.v,
		Layout: sweep.Layout{Swept: s.kind != "", Runs: int(s.runs.or(1)), Order: sweep.Order(s.order.or("repeated"))},
	}
	// aiperf's repeats send the same prompts, and are served from a prefix cache from the second one on; here only those do that were asked to.
	p.Consistent = s.vary.ok && !s.vary.v || s.consistent.ok && s.consistent.v && !s.vary.v
	p.FixedSeed = s.consistent.ok && s.consistent.v
	if c := s.convergence; c != nil {
		p.Convergence = &sweep.Convergence{Metric: c.metric.v, Stat: c.stat.or("avg"), Mode: c.mode.or("ci_width"), Threshold: c.threshold.v, MinRuns: int(c.minRuns.or(2))}
	}
	return p
}
