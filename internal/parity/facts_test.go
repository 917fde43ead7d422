package parity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// facts are what one program's run shows, without what timing touches.
type facts struct {
	values map[string]string
	orders map[string][]string // a sequence's elements; only those that both runs have are held against each other
}

func newFacts() *facts { return &facts{map[string]string{}, map[string][]string{}} }

// set notes a fact. One that is empty is still there.
func (f *facts) set(path, value string) { f.values[path] = cmp.Or(value, "(empty)") }

func (f *facts) order(path string, elements []string) { f.orders[path] = slices.Clone(elements) }

// add puts a value into the set at path: a fact that many requests share.
func (f *facts) add(path, value string) {
	have := strings.Split(f.values[path], " | ")
	if f.values[path] == "" {
		have = nil
	}
	if value = cmp.Or(value, "(empty)"); !slices.Contains(have, value) {
		f.values[path] = strings.Join(slices.Sorted(slices.Values(append(have, value))), " | ")
	}
}

// difference is one fact that the two runs do not share.
type difference struct {
	path            string
	aiperf, prefire string // "" = absent
}

// String shows both values from where they part.
func (d difference) String() string {
	same := 0
	for same < min(len(d.aiperf), len(d.prefire)) && d.aiperf[same] == d.prefire[same] {
		same++
	}
	from := max(0, same-60)
	show := func(s string) string {
		switch {
		case s == "":
			return "absent"
		case from > 0:
			s = "…" + s[from:]
		}
		return fmt.Sprintf("%.400s", s)
	}
	return fmt.Sprintf("%s\n  aiperf:  %s\n  prefire: %s", d.path, show(d.aiperf), show(d.prefire))
}

func compare(aiperf, prefire *facts) []difference {
	var out []difference
	paths := maps.Clone(aiperf.values)
	maps.Copy(paths, prefire.values)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if a, p := aiperf.values[path], prefire.values[path]; a != p {
			out = append(out, difference{path, a, p})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(aiperf.orders)) {
		a, p := common(aiperf.orders[path], prefire.orders[path]), common(prefire.orders[path], aiperf.orders[path])
		if !slices.Equal(a, p) {
			out = append(out, difference{path + "/order", strings.Join(a, ", "), strings.Join(p, ", ")})
		}
	}
	return out
}

// common are the elements of a that b has too.
func common(a, b []string) []string {
	var out []string
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}
