package config

import (
	"fmt"
	"slices"
	"strings"
)

// olderDatasets reads the datasets mapping of the older dialect: one list of one dataset under a name of its own, and the strategy.
func (d *decoder) olderDatasets(v *node, path string, out *datasetDraft) {
	var lists []*entry
	for _, e := range v.entries {
		if e.value.shape == isList {
			lists = append(lists, e)
		}
	}
	if len(lists) != 1 {
		d.fail(v.line, v.col, path, "the older config dialect (recognised because %s) has one list of one dataset here, under a name "+
			"such as default, "+
			"beside strategy; found %d lists.", d.why, len(lists))
		return
	}
	s := d.section(v, path, olderDatasetsKeys(snake(lists[0].key)))
	where := join(path, lists[0].key)
	if items := lists[0].value.list; len(items) != 1 {
		d.fail(lists[0].line, lists[0].col, where, "List should have 1 item, not %d: a run has one dataset.", len(items))
	} else {
		d.olderDataset(items[0], where+".0", out)
	}
	strategy, where, ok := s.value("strategy")
	if !ok {
		d.fail(v.line, v.col, join(path, "strategy"), "Field required: {type: fixed, input_tokens: N, output_tokens: N}.")
		return
	}
	k := olderStrategyKeys()
	k.other = d.newerKey
	st := d.section(strategy, where, k)
	if strategy.shape != isMap {
		return
	}
	st.choice("type", []string{"fixed"}, nil)
	out.isl = d.tokens(st, "input_tokens", true)
	out.osl = d.tokens(st, "output_tokens", false)
	out.maxTotal = st.whole("max_total_tokens", atLeast(1))
}

func (d *decoder) tokens(s *section, key string, required bool) lengthDraft {
	if s.entries[key] == nil && required {
		d.fail(s.n.line, s.n.col, join(s.path, key), "Field required.")
	}
	n := s.whole(key, atLeast(1))
	if !n.ok {
		return lengthDraft{}
	}
	return lengthDraft{mean: given(float64(n.v), n.from), fixed: true}
}

// newerKey explains a key of schema 2.0 in a file of the older dialect.
func (d *decoder) newerKey(key string) string {
	k := datasetKeys()
	if _, later := k.later[key]; !later && !slices.Contains(k.known, key) {
		return ""
	}
	return fmt.Sprintf("It belongs to schema 2.0; this file is read in the older config dialect, because %s. Lengths are input_tokens and "+
		"output_tokens of datasets.strategy here; or make datasets a list, as in schema 2.0.", d.why)
}

func (d *decoder) olderDataset(v *node, path string, out *datasetDraft) {
	k := olderDatasetKeys()
	k.other = d.newerKey
	s := d.section(v, path, k)
	if v.shape != isMap {
		return
	}
	out.at, out.typed = d.place(v.line, v.col, path), true
	out.name = s.text("name").or("default")
	s.choice("type", []string{"synthetic"}, nil)
	if t, where, ok := s.value("prompt_template"); ok {
		out.template = d.section(t, where, keys{known: []string{"content"}}).text("content")
		if t.shape == isMap && t.get("content") == nil {
			d.fail(t.line, t.col, join(where, "content"), "Field required: the text of the template.")
		}
	}
	vars, where, ok := s.value("variables")
	if ok && vars.shape != isList {
		s.bad(vars, where, "Input should be a valid list")
		return
	}
	if ok {
		for i, item := range vars.list {
			d.variable(item, fmt.Sprintf("%s.%d", where, i), out)
		}
	}
	d.checkTemplate(s, out)
}

func (d *decoder) variable(v *node, path string, out *datasetDraft) {
	s := d.section(v, path, keys{known: []string{"name", "values"}})
	if v.shape != isMap {
		return
	}
	name, values := s.text("name"), s.texts("values")
	for _, key := range []string{"name", "values"} {
		if s.entries[key] == nil {
			d.fail(v.line, v.col, join(path, key), "Field required.")
		}
	}
	if !name.ok || !values.ok {
		return
	}
	if !isName(name.v) {
		d.problem(name.from, "a variable's name has letters, digits and _; found %s.", pyString(name.v))
		return
	}
	for _, other := range out.vars {
		if other.Name == name.v {
			d.problem(name.from, "the variable %s is declared twice.", name.v)
			return
		}
	}
	out.vars = append(out.vars, Variable{Name: name.v, Values: values.v})
}

// checkTemplate holds the variables of the template against those declared.
func (d *decoder) checkTemplate(s *section, out *datasetDraft) {
	var declared []string
	for _, v := range out.vars {
		declared = append(declared, v.Name)
	}
	used, bad := placeholders(out.template.v)
	if bad != "" {
		d.problem(out.template.from, "%s is not a variable: {{name}} with letters, digits and _ is.", pyString(bad))
		return
	}
	list := func(names []string) string {
		if len(names) == 0 {
			return "none"
		}
		return strings.Join(names, ", ")
	}
	for _, name := range used {
		if !slices.Contains(declared, name) {
			d.problem(out.template.from, "the template uses {{%s}}, which variables does not declare; declared: %s.", name, list(declared))
		}
	}
	for _, name := range declared {
		if !slices.Contains(used, name) {
			d.fail(s.n.line, s.n.col, join(s.path, "variables"), "the variable %s is declared, but prompt_template.content does not use "+
				"{{%s}}; "+
				"used there: %s.", name, name, list(used))
		}
	}
}

// placeholders lists the variables of a template in their order, each once; bad is the first that is none.
func placeholders(template string) (names []string, bad string) {
	for {
		_, rest, ok := strings.Cut(template, "{{")
		if !ok {
			return names, ""
		}
		inner, tail, closed := strings.Cut(rest, "}}")
		if !closed {
			return names, prefix("{{"+rest, 40)
		}
		name := strings.TrimSpace(inner)
		if !isName(name) {
			return names, "{{" + inner + "}}"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		template = tail
	}
}
