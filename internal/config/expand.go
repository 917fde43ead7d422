package config

import "github.com/goccy/go-yaml"

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
	d, err := load(path, env, read)
	if err != nil {
		return nil, err
	}
	d.lint = true
	if err := d.read(read); err != nil {
		return nil, err
	}
	c, err := d.resolve()
	if err != nil {
		return nil, err
	}
	return &Expansion{Type: "none", Variations: []Variation{{Dir: "base", Label: "base", Values: Map{}, Benchmark: c.Input}}}, nil
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
