package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"prefire/internal/sweep"
)

// variants expands the sweep: one variation of the file's tree and of the flags for each run, before any repeats.
func (x *expander) variants(root *node) ([]variant, error) {
	s := &x.series
	refuse := func(format string, args ...any) error {
		return &Error{Title: titleConfig, Msg: fmt.Sprintf(format, args...)}
	}
	phase, dataset := "profiling", "main"
	base := root
	if root != nil {
		base = root.without("sweep", "multi_run", "no_sweep_table")
		regular := regular(base)
		phase, dataset = regular.profilingName(), regular.datasetName()
		if s.kind != "" {
			base = regular
		}
	}
	lists := x.all.listFlags(phase, dataset)
	if len(s.variants) > 0 {
		if len(lists) > 0 {
			return nil, refuse("--variant is mutually exclusive with magic-list flags (%s). Drop one: magic-lists declare a Cartesian sweep, --variant declares hand-picked "+
				"scenarios.", x.all.byField[lists[0].field].given)
		}
		return x.flagVariants()
	}
	if len(lists) > 0 {
		first := x.all.byField[lists[0].field]
		switch {
		case s.kind == "scenarios":
			return nil, refuse("%s: a list of values cannot be combined with the sweep of scenarios in the config file (%s).", first.given, s.from)
		case x.all.truth("fixed_schedule").v:
			return nil, refuse("Parameter sweeps (e.g., --%s %s) cannot be used with --fixed-schedule mode (including the auto-promotion of trace datasets with per-record "+
				"timestamps). Use a single parameter value, or pass --no-fixed-schedule to keep your rate/concurrency mode and ignore the trace timestamps.",
				strings.ReplaceAll(lists[0].field, "_", "-"), strings.Join(lists[0].texts, ","))
		case s.kind == "":
			s.kind = "grid"
			if t := x.all.choice("sweep_type"); t.ok {
				s.kind = t.v
			}
		}
		if s.from == "" || s.from == s.runs.from {
			s.from = first.given
		}
		for _, l := range lists { // a list of the command line takes the place of the file's
			s.parameters = append(slices.DeleteFunc(s.parameters, func(p parameter) bool { return p.path == l.path }), l)
		}
	}
	switch s.kind {
	case "":
		for _, field := range []string{"sweep_type", "parameter_sweep_mode", "parameter_sweep_same_seed", "parameter_sweep_cooldown_seconds", "no_sweep_table"} {
			if g := x.all.byField[field].given; g != "" {
				x.all.notices = append(x.all.notices, g+" has no effect: nothing is swept.")
			}
		}
		return []variant{{sweep.Base(), base, x.all}}, nil
	case "scenarios":
		return x.scenarioVariants(base)
	}
	parameters := make([]sweep.Parameter, len(s.parameters))
	byPath := map[string]*parameter{}
	for i := range s.parameters {
		p := &s.parameters[i]
		parameters[i], byPath[p.path] = sweep.Parameter{Path: p.path, Values: p.values}, p
	}
	variations, err := sweep.Combine(parameters, s.kind == "zip")
	if err != nil {
		return nil, refuse("%s: %v.", s.from, err)
	}
	out := make([]variant, len(variations))
	for i, v := range variations {
		out[i] = variant{v, base, x.all}
		flags := map[string]string{}
		for _, set := range v.Values {
			p := byPath[set.Path]
			if p.field != "" {
				flags[p.field] = p.texts[set.Choice]
				continue
			}
			if out[i].root, err = out[i].root.put(set.Path, p.nodes[set.Choice]); err != nil {
				return nil, refuse("%s: %v", s.from, err)
			}
		}
		if len(flags) > 0 {
			out[i].all = x.all.with(flags, "")
		}
	}
	return out, nil
}

// scenarioVariants merges each scenario of the file into it.
func (x *expander) scenarioVariants(base *node) ([]variant, error) {
	var out []variant
	for i, sc := range x.series.scenarios {
		over := regular(sc.over)
		if name := base.datasetName(); over != sc.over || over.get("benchmark") != nil {
			over = over.nameDataset(name)
		}
		v := sweep.Variation{Index: i, Label: sc.name, Values: sc.values}
		if v.Values == nil {
			for _, e := range over.entries {
				v.Values = append(v.Values, sweep.Setting{Path: e.key, Value: swept(withoutSecrets(e.value.plainValue()))})
			}
		}
		out = append(out, variant{v, base.merge(over), x.all})
	}
	return out, nil
}

// flagVariants makes a variation of each --variant: the command line with other values for some flags.
func (x *expander) flagVariants() ([]variant, error) {
	x.series.kind, x.series.from = "scenarios", x.all.byField["sweep_variants"].given
	known := map[string]string{}
	for _, f := range Flags() {
		for _, n := range f.Names {
			if long, ok := strings.CutPrefix(n, "--"); ok {
				known[long] = f.Field
			}
		}
	}
	var out []variant
	for i, text := range x.series.variants {
		name, settings, err := parseVariant(text)
		if err != nil {
			return nil, &Error{Title: titleConfig, Msg: "--" + err.Error()}
		}
		v := variant{Variation: sweep.Variation{Index: i, Label: name}}
		if name == "" {
			v.Label = fmt.Sprintf("v%d", i)
		}
		flags := map[string]string{}
		for _, kv := range settings {
			field, ok := known[strings.ReplaceAll(kv[0], "_", "-")]
			if !ok || field == "sweep_variants" || field == "config_file" {
				return nil, &Error{Title: titleConfig, Msg: fmt.Sprintf("--variant %s: unknown key(s) ['%s']. Any flag without its -- is accepted.", pyString(text), kv[0])}
			}
			f := x.all.byField[field].flag
			if err := f.check("--variant "+kv[0], kv[1]); err != nil {
				return nil, &Error{Title: titleParse, Msg: err.Error()}
			}
			if redactValue(f, kv[1]) != kv[1] {
				return nil, &Error{Title: titleConfig, Msg: fmt.Sprintf("--variant: %s: %s", kv[0], secretSwept)}
			}
			if f.Sweep && len(listItems(kv[1])) > 1 {
				return nil, &Error{Title: titleConfig, Msg: fmt.Sprintf("--variant %s: %s takes one value here.", pyString(text), kv[0])}
			}
			flags[field] = kv[1]
		}
		v.all = x.all.with(flags, "--variant "+v.Label)
		if err := v.all.judge(); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// parseVariant reads "name: key=value, key=value"; the name may be missing.
func parseVariant(text string) (name string, settings [][2]string, err error) {
	body := strings.TrimSpace(text)
	if head, tail, ok := strings.Cut(body, ":"); ok && !strings.Contains(head, "=") {
		if name = strings.TrimSpace(head); name == "" {
			return "", nil, fmt.Errorf("variant %s: empty name before ':'", pyString(text))
		}
		body = tail
	}
	for item := range strings.SplitSeq(body, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		key, value, ok := strings.Cut(item, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '\'' || value[0] == '"') {
			value = value[1 : n-1]
		}
		switch {
		case !ok:
			return "", nil, fmt.Errorf("variant %s: token %s is missing '=' (expected key=value)", pyString(text), pyString(item))
		case key == "":
			return "", nil, fmt.Errorf("variant %s: empty key in token %s", pyString(text), pyString(item))
		case slices.ContainsFunc(settings, func(kv [2]string) bool { return kv[0] == key }):
			return "", nil, fmt.Errorf("variant %s: duplicate key %s", pyString(text), pyString(key))
		}
		settings = append(settings, [2]string{key, value})
	}
	if len(settings) == 0 {
		return "", nil, fmt.Errorf("variant %s: no key=value pairs", pyString(text))
	}
	return name, settings, nil
}

// with is the command line with other values for some flags. under names where they come from; "" keeps the flags' own names.
func (all *flags) with(values map[string]string, under string) *flags {
	out := &flags{byField: map[string]*setting{}, order: slices.Clone(all.order), notices: slices.Clip(all.notices)}
	for field, s := range all.byField {
		if v, ok := values[field]; ok {
			given := s.given
			if under != "" {
				given = under + ": " + s.flag.Name()
			}
			set := &setting{flag: s.flag, given: given, values: []string{v}}
			out.order = append(slices.DeleteFunc(out.order, func(o *setting) bool { return o == s }), set)
			s = set
		}
		out.byField[field] = s
	}
	return out
}

// nameVariants gives each variation by --variant the values that aiperf gives it: what of the config it changes.
func (x *expander) nameVariants(p *Plan) error {
	base, err := x.config(&variant{root: nil, all: x.all})
	if err != nil {
		return err
	}
	for i := range p.Steps {
		diff := changed(bare(base.Input), bare(p.Steps[i].Config.Input))
		if len(diff) > 0 {
			p.Steps[i].Values = []sweep.Setting{{Path: "benchmark", Value: swept(diff)}}
		}
	}
	return nil
}

// bare is an echo without the folder, which follows from the rest, and with whole numbers as such.
func bare(m Map) Map {
	out := whole(m).(Map)
	for i, kv := range out {
		if a, ok := kv.Value.(Map); ok && kv.Key == "artifacts" {
			out[i].Value = slices.DeleteFunc(a, func(kv KeyValue) bool { return kv.Key == "dir" })
		}
	}
	return out
}

func whole(v any) any {
	switch v := v.(type) {
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	case Map:
		out := make(Map, len(v))
		for i, kv := range v {
			out[i] = KeyValue{kv.Key, whole(kv.Value)}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = whole(item)
		}
		return out
	}
	return v
}

// changed is what of over differs from base.
func changed(base, over Map) Map {
	var out Map
	for _, kv := range over {
		old, _ := base.Get(kv.Key)
		a, aMap := old.(Map)
		b, bMap := kv.Value.(Map)
		x, xList := old.([]any)
		y, yList := kv.Value.([]any)
		switch {
		case aMap && bMap:
			if sub := changed(a, b); len(sub) > 0 {
				out = append(out, KeyValue{kv.Key, sub})
			}
		case xList && yList && named(x) && named(y):
			if sub := changedEntries(x, y); len(sub) > 0 {
				out = append(out, KeyValue{kv.Key, sub})
			}
		case sweep.Text(swept(old)) != sweep.Text(swept(kv.Value)):
			out = append(out, kv)
		}
	}
	return out
}

func changedEntries(base, over []any) []any {
	var out []any
	for _, item := range over {
		m := item.(Map)
		name, _ := m.Get("name")
		at := slices.IndexFunc(base, func(b any) bool { n, _ := b.(Map).Get("name"); return n == name })
		if at < 0 {
			out = append(out, m)
		} else if sub := changed(base[at].(Map), m); len(sub) > 0 {
			out = append(out, append(Map{{"name", name}}, sub...))
		}
	}
	return out
}

func named(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool {
		m, _ := v.(Map)
		name, _ := m.Get("name")
		_, ok := name.(string)
		return !ok
	})
}

// item is one value of a comma list, typed.
func (f *Flag) item(text string) any {
	if f.Kind == Int {
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			return n
		}
	}
	v, err := seconds(text) // a number is one without a unit
	if err != nil {
		return text
	}
	return v
}
