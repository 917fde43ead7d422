package config

import (
	"fmt"
	"slices"
	"strings"

	"prefire/internal/jinja"
)

// Get is the value under key: templates look into mappings by it.
func (m Map) Get(key string) (any, bool) {
	for _, kv := range m {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return nil, false
}

// rendered is the file with its templates filled in, as aiperf fills them: from the variables, and from the values of the file by their
// names, those below benchmark without that word too. The file itself stays as it is. What is wrong is in the problems.
func (d *decoder) rendered(root *node) *node {
	names := d.names(root)
	if len(d.problems) > 0 { // they come again below
		return root
	}
	return d.render(root, "", names)
}

// names gives what templates may read.
func (d *decoder) names(root *node) func(string) (any, bool) {
	context := Map{}
	lift := func(n *node) {
		for _, e := range n.entries {
			context = context.set(e.key, byName(e.value.plainValue()))
		}
	}
	lift(root)
	if bench := root.get("benchmark"); bench != nil {
		lift(bench.value)
	}
	vars := root.get("variables")
	if vars == nil || vars.value.shape != isMap {
		return context.Get
	}
	context = slices.DeleteFunc(context, func(kv KeyValue) bool { return kv.Key == "variables" || vars.value.get(kv.Key) != nil })
	resolved := Map{}
	for _, e := range d.ordered(vars.value) {
		v := d.render(e.value, join("variables", e.key), context.Get).plainValue()
		context, resolved = context.set(e.key, v), resolved.set(e.key, v)
	}
	return context.set("variables", resolved).Get
}

// byName makes a list of entries with names a mapping of them.
func byName(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	named := Map{}
	for _, item := range list {
		m, ok := item.(Map)
		if !ok {
			continue
		}
		if name, ok := m.Get("name"); ok {
			if s, ok := name.(string); ok {
				named = named.set(s, m)
			}
		}
	}
	if len(named) == 0 {
		return v
	}
	return named
}

// ordered are the variables, each after those that it reads.
func (d *decoder) ordered(vars *node) []*entry {
	reads := map[string][]string{}
	for _, e := range vars.entries {
		for _, name := range templateNames(e.value) {
			if vars.get(name) != nil {
				reads[e.key] = append(reads[e.key], name)
			}
		}
	}
	var out []*entry
	left := vars.entries
	for len(left) > 0 {
		var later []*entry
		for _, e := range left {
			waits := slices.ContainsFunc(reads[e.key], func(name string) bool {
				return !slices.ContainsFunc(out, func(done *entry) bool { return done.key == name })
			})
			if waits {
				later = append(later, e)
			} else {
				out = append(out, e)
			}
		}
		if len(later) == len(left) {
			names := make([]string, len(left))
			for i, e := range left {
				names[i] = e.key
			}
			slices.Sort(names)
			d.fail(left[0].line, left[0].col, join("variables", left[0].key), "Circular reference among variables: %s. Each is made of another of them.",
				strings.Join(names, ", "))
			return nil
		}
		left = later
	}
	return out
}

// templateNames are the names that the templates in a value read. A malformed one has none: rendering says what is wrong with it.
func templateNames(n *node) []string {
	var out []string
	switch n.shape {
	case isString:
		if jinja.Has(n.s) {
			if t, err := jinja.Parse(n.s); err == nil {
				out = t.Names()
			}
		}
	case isList:
		for _, item := range n.list {
			out = append(out, templateNames(item)...)
		}
	case isMap:
		for _, e := range n.entries {
			out = append(out, templateNames(e.value)...)
		}
	}
	return out
}

// laterTemplate reports whether a value's templates are filled in when requests or files are made, and not when the file is read.
func laterTemplate(path string) bool {
	field := path[strings.LastIndexByte(path, '.')+1:]
	if field == "template" || field == "body" || field == "payload_template" {
		return true
	}
	for _, key := range []string{"user_files", "userFiles"} {
		at := strings.TrimPrefix(path, "benchmark.")
		if at == "artifacts."+key || strings.HasPrefix(at, "artifacts."+key+".") {
			return true
		}
	}
	return false
}

func (d *decoder) render(n *node, path string, names func(string) (any, bool)) *node {
	if laterTemplate(path) {
		return n
	}
	switch n.shape {
	case isString:
		if jinja.Has(n.s) {
			return d.fill(n, path, names)
		}
	case isList:
		out := *n
		out.list = make([]*node, len(n.list))
		for i, item := range n.list {
			out.list[i] = d.render(item, fmt.Sprintf("%s.%d", path, i), names)
		}
		return &out
	case isMap:
		out := *n
		out.entries = make([]*entry, len(n.entries))
		for i, e := range n.entries {
			made := *e
			made.value = d.render(e.value, join(path, e.key), names)
			out.entries[i] = &made
		}
		return &out
	}
	return n
}

// fill renders one text. It becomes a boolean or a number where it spells one. The text itself is not shown: environment variables have
// been put into it, and one may be a key.
func (d *decoder) fill(n *node, path string, names func(string) (any, bool)) *node {
	var s string
	t, err := jinja.Parse(n.s)
	if err == nil {
		s, err = t.Render(names)
	}
	if err != nil {
		hint := ""
		if strings.Contains(path, "prompt_template") {
			hint = fmt.Sprintf(" The file is read as schema 2.0, because %s; {{name}} is a variable of prompt_template.content in the older dialect alone, "+
				"where datasets is a mapping.", d.why)
		}
		d.fail(n.line, n.col, path, "Jinja2 template error at '%s': %v.%s", path, err, hint)
		return n
	}
	out := *n
	out.s = s
	typed(&out, s)
	return &out
}
