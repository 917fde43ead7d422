package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Changes to the tree of a file, for the variations of a sweep. Trees are never changed in place: what is the same is shared.

// find is the entry under key in snake case, whatever its spelling.
func (n *node) find(key string) *entry {
	for _, e := range n.entries {
		if snake(e.key) == key {
			return e
		}
	}
	return nil
}

// without is the mapping without some keys.
func (n *node) without(keys ...string) *node {
	out := *n
	out.entries = slices.DeleteFunc(slices.Clone(n.entries), func(e *entry) bool { return slices.Contains(keys, snake(e.key)) })
	return &out
}

// having is the mapping with v under key, in the place of what was there.
func (n *node) having(key string, v *node) *node {
	out := *n
	out.entries = slices.Clone(n.entries)
	for i, e := range out.entries {
		if snake(e.key) == snake(key) {
			out.entries[i] = &entry{key: e.key, line: e.line, col: e.col, value: v}
			return &out
		}
	}
	out.entries = append(out.entries, &entry{key: key, line: v.line, col: v.col, value: v})
	return &out
}

// list makes a list node of items.
func list(at *node, items ...*node) *node {
	return &node{shape: isList, line: at.line, col: at.col, list: items}
}

// named puts a name first in a mapping that has none.
func (n *node) named(name string) *node {
	if n.shape != isMap || n.find("name") != nil {
		return n
	}
	out := *n
	out.entries = append([]*entry{{key: "name", line: n.line, col: n.col, value: &node{shape: isString, s: name, line: n.line, col: n.col}}}, n.entries...)
	return &out
}

// regular is the file with the short forms of phases and datasets written out as lists, so that paths and scenarios find them by name.
func regular(root *node) *node {
	e := root.find("benchmark")
	if e == nil || e.value.shape != isMap {
		return root
	}
	body := e.value
	if p := body.find("phases"); p != nil && p.value.shape == isMap {
		body = body.having("phases", list(p.value, p.value.named("profiling")))
	}
	var short []*node
	for _, key := range []string{"warmup", "profiling"} {
		if p := body.find(key); p != nil && p.value.shape == isMap {
			short = append(short, p.value.named(key))
		}
	}
	if len(short) > 0 && body.find("phases") == nil {
		body = body.without("warmup", "profiling").having("phases", list(short[0], short...))
	}
	if d := body.find("dataset"); d != nil && d.value.shape == isMap && body.find("datasets") == nil {
		body = body.without("dataset").having("datasets", list(d.value, d.value.named("default")))
	}
	if d := body.find("datasets"); d != nil && d.value.shape == isList {
		items := make([]*node, len(d.value.list))
		for i, item := range d.value.list {
			items[i] = item.promptLengths()
		}
		body = body.having("datasets", list(d.value, items...))
	}
	return root.having("benchmark", body)
}

// promptLengths moves the lengths of a synthetic dataset, which may stand beside its prompts, among them.
func (n *node) promptLengths() *node {
	if n.shape != isMap || isFile(n) {
		return n
	}
	for _, key := range []string{"isl", "osl"} {
		e := n.find(key)
		if e == nil {
			continue
		}
		prompts := &node{shape: isMap, line: e.line, col: e.col}
		if p := n.find("prompts"); p != nil && p.value.shape == isMap {
			prompts = p.value
		}
		if prompts.find(key) == nil { // both is an error, which the decoder words
			n = n.without(key).having("prompts", prompts.having(key, e.value))
		}
	}
	return n
}

// nameDataset gives the only dataset of a scenario, where it was written in the short form, the name of the file's.
func (n *node) nameDataset(name string) *node {
	e := n.find("benchmark")
	if e == nil {
		return n
	}
	d := e.value.find("datasets")
	if d == nil || d.value.shape != isList || len(d.value.list) != 1 || d.value.list[0].shape != isMap {
		return n
	}
	one := d.value.list[0]
	if have := one.find("name"); have == nil || have.value.s == "default" && have.line == one.line && have.col == one.col {
		one = one.without("name").named(name)
	}
	return n.having("benchmark", e.value.having("datasets", list(d.value, one)))
}

// datasetName is the name of a regular file's dataset.
func (n *node) datasetName() string {
	if e := n.find("benchmark"); e != nil {
		if d := e.value.find("datasets"); d != nil && len(d.value.list) == 1 {
			if name := d.value.list[0].find("name"); name != nil && name.value.shape == isString {
				return name.value.s
			}
		}
	}
	return "main"
}

// profilingName is the name of a regular file's profiling phase, where there is one alone.
func (n *node) profilingName() string {
	if e := n.find("benchmark"); e != nil {
		if p := e.value.find("phases"); p != nil {
			if found := profilingPhases(p.value.list); len(found) == 1 {
				return found[0].name()
			}
		}
	}
	return "profiling"
}

// name is what a mapping in a list is called; "" = nothing.
func (n *node) name() string {
	if e := n.find("name"); e != nil && e.value.shape == isString {
		return e.value.s
	}
	return ""
}

// profilingPhases are those that are measured; where none says so, those of the older dialect, which need not.
func profilingPhases(items []*node) []*node {
	var out, unsaid []*node
	for _, item := range items {
		kind := item.name()
		if e := item.find("kind"); e != nil {
			kind = e.value.s
		} else if kind != "warmup" {
			unsaid = append(unsaid, item)
		}
		if kind == "profiling" {
			out = append(out, item)
		}
	}
	if len(out) == 0 {
		return unsaid
	}
	return out
}

// put is the file with v at a path: below benchmark, but for variables.
func (n *node) put(path string, v *node) (*node, error) {
	segments := strings.Split(path, ".")
	if segments[0] == "variables" {
		return n.assign(path, segments, 0, v)
	}
	if len(segments) >= 3 && segments[0] == "datasets" && (segments[2] == "isl" || segments[2] == "osl") && !n.datasetIsFile() {
		segments = slices.Insert(segments, 2, "prompts") // where regular has put them
	}
	e := n.find("benchmark")
	body, err := e.value.assign(path, segments, 0, v)
	if err != nil {
		return nil, err
	}
	return n.having("benchmark", body), nil
}

func (n *node) datasetIsFile() bool {
	d := n.find("benchmark").value.find("datasets")
	return d != nil && len(d.value.list) == 1 && isFile(d.value.list[0])
}

func (n *node) assign(path string, segments []string, at int, v *node) (*node, error) {
	if at == len(segments) {
		return v, nil
	}
	key := segments[at]
	switch {
	case n.shape == isMap:
		inner := &node{shape: isMap, line: v.line, col: v.col}
		if e := n.find(snake(key)); e != nil && (e.value.shape != isNull || at == len(segments)-1) {
			inner = e.value
		}
		changed, err := inner.assign(path, segments, at+1, v)
		if err != nil {
			return nil, err
		}
		return n.having(key, changed), nil
	case n.shape == isList && len(n.list) > 0 && !slices.ContainsFunc(n.list, func(item *node) bool { return item.name() == "" }):
		i, err := n.entryAt(path, segments, at)
		if err != nil {
			return nil, err
		}
		out := *n
		out.list = slices.Clone(n.list)
		out.list[i], err = n.list[i].assign(path, segments, at+1, v)
		return &out, err
	}
	prev := strings.Join(segments[:at], ".")
	what := "a single value" // which may be a key
	if n.shape == isList {
		what = "a list without names"
	}
	return nil, fmt.Errorf("sweep path '%s': cannot assign into %s at segment '%s'; expected a dict or list-of-named-dicts", path, what, prev)
}

// entryAt is the index of the entry of a list that a segment names: by number, for phases alone, by name, or as the only profiling phase.
func (n *node) entryAt(path string, segments []string, at int) (int, error) {
	key, ofPhases := segments[at], at > 0 && segments[at-1] == "phases"
	if i, err := strconv.Atoi(key); err == nil && ofPhases && i >= 0 && i < len(n.list) {
		return i, nil
	}
	if i := slices.IndexFunc(n.list, func(item *node) bool { return item.name() == key }); i >= 0 {
		return i, nil
	}
	if key == "profiling" && ofPhases {
		found := profilingPhases(n.list)
		if len(found) == 1 {
			return slices.Index(n.list, found[0]), nil
		}
		if len(found) > 1 {
			names := make([]string, len(found))
			for i, p := range found {
				names[i] = p.name()
			}
			return 0, fmt.Errorf("sweep path '%s' is ambiguous: %d profiling phases exist (%s). Use an explicit phase name like '%s' or a numeric index like '%s'", path,
				len(found), strings.Join(names, ", "), strings.Replace(path, "phases.profiling", "phases."+names[0], 1), strings.Replace(path, "phases.profiling", "phases.0", 1))
		}
	}
	var names []string
	for _, item := range n.list {
		names = append(names, pyString(item.name()))
	}
	return 0, fmt.Errorf("sweep path '%s': no entry named '%s' found (existing: [%s]). Add the entry first or fix the typo", path, key, strings.Join(names, ", "))
}

// merge is a mapping with another one put over it, deeply: lists of named mappings by their names, all else in place of what was there. A length
// of another kind takes the place of the old one whole.
func (n *node) merge(over *node) *node {
	out := n
	for _, e := range over.entries {
		v := e.value
		if old := out.find(snake(e.key)); old != nil {
			switch {
			case old.value.shape == isMap && v.shape == isMap && !otherLength(old.value, v):
				v = old.value.merge(v)
			case old.value.shape == isList && v.shape == isList && old.value.allNamed() && v.allNamed():
				v = old.value.mergeEntries(v)
			}
		}
		out = out.having(e.key, v)
	}
	return out
}

func (n *node) allNamed() bool {
	return len(n.list) > 0 && !slices.ContainsFunc(n.list, func(item *node) bool { return item.shape != isMap || item.name() == "" })
}

func (n *node) mergeEntries(over *node) *node {
	out := *n
	out.list = slices.Clone(n.list)
	for _, item := range over.list {
		i := slices.IndexFunc(out.list, func(o *node) bool { return o.name() == item.name() })
		if i < 0 {
			out.list = append(out.list, item)
		} else {
			out.list[i] = out.list[i].merge(item)
		}
	}
	return &out
}

// otherLength reports whether two mappings are lengths of different kinds.
func otherLength(a, b *node) bool {
	kinds := func(n *node) (out string) {
		for _, key := range []string{"peaks", "points", "value", "median", "stddev"} {
			if n.find(key) != nil {
				out += key + " "
			}
		}
		return out
	}
	x, y := kinds(a), kinds(b)
	return x != "" && y != "" && x != y
}
