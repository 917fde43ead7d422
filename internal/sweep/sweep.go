// Package sweep says which runs a sweep and its repeats are made of, and what those runs show together: variations, folders, seeds,
// statistics over runs, when repeats have converged, which variation was best. It computes alone; what it reads and gives are values.
package sweep

import (
	"fmt"
	"slices"
	"strings"
)

// Parameter is what a sweep varies: a path into the config with its values.
type Parameter struct {
	Path   string
	Values []any // nil, bool, int64, float64, string, []any or Map
}

// Setting is one value that a variation sets.
type Setting struct {
	Path   string
	Value  any
	Choice int // its index among the parameter's values
}

// Map is a mapping that keeps its order.
type Map []Entry

// Entry is one key of a Map.
type Entry struct {
	Key   string
	Value any
}

// Variation is one step of a sweep. A run without a sweep has one, Base.
type Variation struct {
	Index  int
	Label  string
	Values []Setting
}

// Base is the variation of runs that nothing varies.
func Base() Variation { return Variation{Label: "base"} }

// Combine makes the variations of parameters: all combinations of their values, the last parameter's changing fastest, or for a zip the first
// values together, the second, and so on. Parameters are in the order of their paths, as in aiperf.
func Combine(parameters []Parameter, zip bool) ([]Variation, error) {
	list := slices.Clone(parameters)
	slices.SortFunc(list, func(a, b Parameter) int { return strings.Compare(a.Path, b.Path) })
	n := 1
	for i, p := range list {
		switch {
		case len(p.Values) == 0:
			return nil, fmt.Errorf("sweep parameter '%s': value list must be non-empty", p.Path)
		case i > 0 && p.Path == list[i-1].Path:
			return nil, fmt.Errorf("sweep parameter '%s' is given twice", p.Path)
		case !zip:
			n *= len(p.Values)
		case i == 0:
			n = len(p.Values)
		case len(p.Values) != n:
			return nil, fmt.Errorf("zip sweep parameters must all have equal length; got %s", lengths(list))
		}
		if n > MaxVariations {
			return nil, fmt.Errorf("the sweep has more than %d variations", MaxVariations)
		}
	}
	out := make([]Variation, n)
	for i := range out {
		v := Variation{Index: i, Values: make([]Setting, len(list))}
		rest := i
		for j := len(list) - 1; j >= 0; j-- {
			at := i
			if !zip {
				at, rest = rest%len(list[j].Values), rest/len(list[j].Values)
			}
			v.Values[j] = Setting{list[j].Path, list[j].Values[at], at}
		}
		v.Label = label(v.Values)
		out[i] = v
	}
	return out, nil
}

// MaxVariations bounds a sweep: one more is a typing error that would run for weeks.
const MaxVariations = 1000

func lengths(list []Parameter) string {
	parts := make([]string, len(list))
	for i, p := range list {
		parts[i] = fmt.Sprintf("'%s': %d", p.Path, len(p.Values))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func label(values []Setting) string {
	parts := make([]string, len(values))
	for i, s := range values {
		parts[i] = s.Path + "=" + Text(s.Value)
	}
	return strings.Join(parts, ", ")
}

// ResolvePath checks the path of a parameter and returns it whole: the short names of a phase's fields stand for those of the profiling
// phase. Paths begin below the config's benchmark section, but for variables.
func ResolvePath(path string) (string, error) {
	if !strings.Contains(path, ".") && slices.Contains(aliases(), path) {
		path = "phases.profiling." + path
	}
	first, _, _ := strings.Cut(path, ".")
	switch {
	case path == "":
		return "", fmt.Errorf("dimension path must be a non-empty string")
	case strings.HasPrefix(path, "."):
		return "", fmt.Errorf("dimension path '%s' must not start with '.'", path)
	case strings.HasSuffix(path, "."):
		return "", fmt.Errorf("dimension path '%s' must not end with '.'", path)
	case strings.Contains(path, ".."):
		return "", fmt.Errorf("dimension path '%s' must not contain consecutive dots ('..')", path)
	case first == "sweep":
		return "", fmt.Errorf("dimension path '%s' targets the sweep config itself; 'sweep.*' paths are not sweepable", path)
	case first == "multi_run", first == "random_seed":
		return "", fmt.Errorf("dimension path '%s' targets non-sweepable top-level field '%s'", path, first)
	case first == "benchmark":
		return "", fmt.Errorf("dimension path '%s' must not include the redundant 'benchmark.' prefix: write '%s'", path, strings.TrimPrefix(path, "benchmark."))
	}
	return path, nil
}

// aliases are the fields of a phase that a path may name alone.
func aliases() []string {
	return []string{"concurrency", "prefill_concurrency", "rate", "requests", "duration", "sessions", "users", "smoothness", "grace_period",
		"concurrency_ramp", "prefill_ramp", "rate_ramp", "rate_series"}
}

// Folder is the name of the variation's folder: the last part of each path with its value, or the label where values are mappings or lists.
func (v *Variation) Folder() string {
	if name := valueFolder(v.Values); name != "" {
		return name
	}
	if name := safeSegment(v.Label); name != "" {
		return name
	}
	return fmt.Sprintf("variation_%d", v.Index)
}

// Named reports whether the variation goes by its label, for it has no plain values to go by.
func (v *Variation) Named() bool { return valueFolder(v.Values) == "" }

func valueFolder(values []Setting) string {
	parts := make([]string, len(values))
	for i, s := range values {
		if nested(s.Value) {
			return ""
		}
		parts[i] = leaf(s.Path) + "_" + Text(s.Value)
	}
	return safeSegment(strings.Join(parts, "__"))
}

func nested(v any) bool {
	switch v.(type) {
	case []any, Map:
		return true
	}
	return false
}

// leaf is the last part of a path.
func leaf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// safeSegment takes out of a folder's name what could lead elsewhere or that some file systems refuse.
func safeSegment(s string) string {
	s = strings.NewReplacer("/", "", `\`, "", "..", "").Replace(s)
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`<>:"|?*`, r) || r == 0 {
			return -1
		}
		return r
	}, s)
	if strings.Trim(s, ".") == "" {
		return ""
	}
	return s
}

// Names are the parameters' names in the files: the last part of a path where no other has it too, else the whole path.
func Names(variations []Variation) map[string]string {
	count := map[string]int{}
	out := map[string]string{}
	for i := range variations {
		for _, s := range variations[i].Values {
			if _, seen := out[s.Path]; !seen {
				out[s.Path] = leaf(s.Path)
				count[leaf(s.Path)]++
			}
		}
	}
	for path, name := range out {
		if count[name] > 1 {
			out[path] = path
		}
	}
	return out
}

// Scalar is a value as the files hold it where they need one value: a mapping or a list becomes its JSON, keys sorted.
func Scalar(v any) any {
	if !nested(v) {
		return v
	}
	return string(appendJSON(nil, v))
}
