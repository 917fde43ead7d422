package config

import (
	"github.com/goccy/go-yaml"

	"prefire/internal/sweep"
)

// Expansion is the list of runs that a config file stands for.
type Expansion struct {
	Type       string // of the sweep, as aiperf names it; none where there is none
	Variations []Variation
}

// Variation is one of the runs of a sweep.
type Variation struct {
	Index      int
	Dir, Label string // base where there is no sweep
	Values     Map    // that the sweep sets
	Benchmark  Map    // the config, as given; secrets redacted
}

// Expand reads a config file and lists its runs.
func Expand(path string, env func(string) (string, bool), read func(string) ([]byte, error)) (*Expansion, error) {
	p, _, err := inspect(path, env, read)
	if err != nil {
		return nil, err
	}
	e := &Expansion{Type: map[string]string{"": "none", "grid": "GridSweep", "zip": "ZipSweep", "scenarios": "ScenarioSweep"}[p.Kind]}
	for i := range p.Steps {
		s := &p.Steps[i]
		values := Map{}
		for _, set := range s.Values {
			values = append(values, KeyValue{set.Path, unswept(set.Value)})
		}
		e.Variations = append(e.Variations, Variation{Index: s.Index, Dir: s.Folder(), Label: s.Label, Values: values, Benchmark: s.Config.Input})
	}
	return e, nil
}

// unswept is a value of a sweep as a config has it.
func unswept(v any) any {
	switch v := v.(type) {
	case sweep.Map:
		out := make(Map, len(v))
		for i, e := range v {
			out[i] = KeyValue{e.Key, unswept(e.Value)}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = unswept(item)
		}
		return out
	}
	return v
}

// YAML writes m in its order.
func (m Map) YAML() ([]byte, error) {
	return yaml.MarshalWithOptions(inOrder(m), yaml.IndentSequence(true))
}

// inOrder is a value with its mappings in the form whose order the YAML library keeps.
func inOrder(v any) any {
	switch v := v.(type) {
	case Map:
		out := make(yaml.MapSlice, len(v))
		for i, kv := range v {
			out[i] = yaml.MapItem{Key: kv.Key, Value: inOrder(kv.Value)}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = inOrder(item)
		}
		return out
	}
	return v
}
