package sweep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func param(path string, values ...any) Parameter { return Parameter{path, values} }

func labels(vs []Variation) []string {
	out := make([]string, len(vs))
	for i := range vs {
		out[i] = vs[i].Label
	}
	return out
}

func TestCombine(t *testing.T) {
	for _, c := range []struct {
		name       string
		parameters []Parameter
		zip        bool
		want       []string
		err        string
	}{
		{name: "one", parameters: []Parameter{param("a.b", int64(1), 2.5, "x")}, want: []string{"a.b=1", "a.b=2.5", "a.b=x"}},
		// By path, whatever order they were given in; the last changes fastest.
		{name: "grid", parameters: []Parameter{param("b", int64(1), int64(2)), param("a", true, nil)},
			want: []string{"a=True, b=1", "a=True, b=2", "a=None, b=1", "a=None, b=2"}},
		{name: "zip", zip: true, parameters: []Parameter{param("b", int64(1), int64(2)), param("a", "x", "y")}, want: []string{"a=x, b=1", "a=y, b=2"}},
		{name: "zip of unequal lists", zip: true, parameters: []Parameter{param("b", int64(1)), param("a", "x", "y")},
			err: "zip sweep parameters must all have equal length; got {'a': 2, 'b': 1}"},
		{name: "empty", parameters: []Parameter{param("a")}, err: "sweep parameter 'a': value list must be non-empty"},
		{name: "twice", parameters: []Parameter{param("a", "x"), param("a", "y")}, err: "sweep parameter 'a' is given twice"},
		{name: "too many", parameters: []Parameter{param("a", make([]any, 11)...), param("b", make([]any, 100)...)},
			err: "the sweep has more than 1000 variations"},
	} {
		got, err := Combine(c.parameters, c.zip)
		if err != nil || c.err != "" {
			if fmt.Sprint(err) != c.err {
				t.Errorf("%s: %v; want %s", c.name, err, c.err)
			}
			continue
		}
		if !slices.Equal(labels(got), c.want) {
			t.Errorf("%s: %q; want %q", c.name, labels(got), c.want)
		}
		for i, v := range got {
			if v.Index != i {
				t.Errorf("%s: variation %d has index %d", c.name, i, v.Index)
			}
			for _, set := range v.Values {
				at := slices.IndexFunc(c.parameters, func(p Parameter) bool { return p.Path == set.Path })
				if have := c.parameters[at].Values[set.Choice]; have != set.Value {
					t.Errorf("%s: %s is choice %d, which is %v and not %v", c.name, set.Path, set.Choice, have, set.Value)
				}
			}
		}
	}
}

// Every combination of a grid comes once, whatever its size.
func TestAGridHasEachCombinationOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var parameters []Parameter
		want := 1
		for i := range 1 + random.IntN(4) {
			n := 1 + random.IntN(5)
			want *= n
			p := Parameter{Path: fmt.Sprint("p", i)}
			for j := range n {
				p.Values = append(p.Values, int64(j))
			}
			parameters = append(parameters, p)
		}
		vs, err := Combine(parameters, false)
		seen := map[string]bool{}
		for _, l := range labels(vs) {
			seen[l] = true
		}
		if err != nil || len(vs) != want || len(seen) != want {
			t.Fatalf("%d variations, %d of them different, %v; want %d", len(vs), len(seen), err, want)
		}
	}
}

func TestResolvePath(t *testing.T) {
	for _, c := range [][3]string{
		{"concurrency", "phases.profiling.concurrency"}, {"rate_series", "phases.profiling.rate_series"}, {"streaming", "streaming"},
		{"concurrency.x", "concurrency.x"}, {"datasets.main.prompts.isl", "datasets.main.prompts.isl"}, {"variables.x", "variables.x"},
		{"", "", "dimension path must be a non-empty string"}, {".a", "", "dimension path '.a' must not start with '.'"},
		{"a.", "", "dimension path 'a.' must not end with '.'"}, {"a..b", "", "dimension path 'a..b' must not contain consecutive dots ('..')"},
		{"sweep.type", "", "dimension path 'sweep.type' targets the sweep config itself; 'sweep.*' paths are not sweepable"},
		{"multi_run.num_runs", "", "dimension path 'multi_run.num_runs' targets non-sweepable top-level field 'multi_run'"},
		{"random_seed", "", "dimension path 'random_seed' targets non-sweepable top-level field 'random_seed'"},
		{"benchmark.endpoint.url", "", "dimension path 'benchmark.endpoint.url' must not include the redundant 'benchmark.' prefix: write 'endpoint.url'"},
	} {
		got, err := ResolvePath(c[0])
		said := ""
		if err != nil {
			said = err.Error()
		}
		if got != c[1] || said != c[2] {
			t.Errorf("%q: %q, %v; want %q, %q", c[0], got, err, c[1], c[2])
		}
	}
}

// Labels and folders as aiperf 0.13.0 has them: SweepVariation(index=15, label=…, values=…).dir_name of its Python.
func TestFolders(t *testing.T) {
	for _, c := range []struct {
		values        []Setting
		label, folder string
	}{
		{[]Setting{{Path: "a.concurrency", Value: int64(10)}}, "a.concurrency=10", "concurrency_10"},
		{[]Setting{{Path: "p.rate", Value: 5.0}}, "p.rate=5.0", "rate_5.0"},
		{[]Setting{{Path: "p.rate", Value: 1e-5}}, "p.rate=1e-05", "rate_1e-05"},
		{[]Setting{{Path: "p.rate", Value: 1e16}}, "p.rate=1e+16", "rate_1e+16"},
		{[]Setting{{Path: "p.rate", Value: 123456789.125}}, "p.rate=123456789.125", "rate_123456789.125"},
		{[]Setting{{Path: "p.rate", Value: 1e22}}, "p.rate=1e+22", "rate_1e+22"},
		{[]Setting{{Path: "a.b", Value: int64(1)}, {Path: "c.d", Value: true}}, "a.b=1, c.d=True", "b_1__d_True"},
		{[]Setting{{Path: "a.b", Value: nil}}, "a.b=None", "b_None"},
		{[]Setting{{Path: "a.model", Value: "org/name:v1"}}, "a.model=org/name:v1", "model_orgnamev1"},
		{[]Setting{{Path: "a.x", Value: "../.."}}, "a.x=../..", "x_"},
		{[]Setting{{Path: "a.x", Value: "it's"}}, "a.x=it's", "x_it's"},
		{[]Setting{{Path: "a.isl", Value: Map{{"mean", int64(5)}, {"sd", 1.5}}}}, "a.isl={'mean': 5, 'sd': 1.5}", "a.isl={'mean' 5, 'sd' 1.5}"},
		{[]Setting{{Path: "a.l", Value: []any{int64(1), "a", nil, true, 2.5}}}, "a.l=[1, 'a', None, True, 2.5]", "a.l=[1, 'a', None, True, 2.5]"},
		{[]Setting{{Path: "x", Value: `a"b'c`}}, `x=a"b'c`, "x_ab'c"},
		{[]Setting{{Path: "x", Value: []any{"it's", `"`, "\n"}}}, `x=["it's", '"', '\n']`, `x=["it's", '"', '\n']`},
		{nil, "../..", "variation_15"},
		{nil, "qps:100", "qps100"},
		{nil, "...", "variation_15"},
	} {
		v := Variation{Index: 15, Label: c.label, Values: c.values}
		if len(c.values) > 0 {
			v.Label = label(c.values)
		}
		want := c.folder
		if strings.ContainsAny(c.label, "[{") { // the file systems that refuse them are none of aiperf's
			want = safeSegment(c.label)
		}
		if got := v.Folder(); v.Label != c.label || got != want {
			t.Errorf("%v: label %q, folder %q; want %q, %q", c.values, v.Label, got, c.label, want)
		}
	}
}

func TestLayout(t *testing.T) {
	v := &Variation{Label: "a.c=1", Values: []Setting{{Path: "a.c", Value: int64(1)}}}
	for _, c := range []struct {
		Layout
		run, aggregate, summary string
	}{
		{Layout{false, 1, Repeated}, "", "aggregate", ""},
		{Layout{false, 3, Repeated}, "profile_runs/run_0002", "aggregate", ""},
		{Layout{true, 1, Repeated}, "c_1", "aggregate/c_1", "sweep_aggregate"},
		{Layout{true, 1, Independent}, "c_1", "c_1/aggregate", "sweep_aggregate"},
		{Layout{true, 3, Repeated}, "profile_runs/trial_0002/c_1", "aggregate/c_1", "aggregate/sweep_aggregate"},
		{Layout{true, 3, Independent}, "c_1/profile_runs/trial_0002", "c_1/aggregate", "sweep_aggregate"},
	} {
		if run, agg := c.Run(v, 1), c.Aggregate(v); run != c.run || agg != c.aggregate || c.Swept && c.Summary() != c.summary {
			t.Errorf("%+v: %s, %s, %s", c.Layout, run, agg, c.Summary())
		}
	}
	if got, want := fmt.Sprint(Layout{true, 2, Repeated}.Places(2)), "[{0 0} {1 0} {0 1} {1 1}]"; got != want {
		t.Errorf("repeated: %s; want %s", got, want)
	}
	if got, want := fmt.Sprint(Layout{true, 2, Independent}.Places(2)), "[{0 0} {0 1} {1 0} {1 1}]"; got != want {
		t.Errorf("independent: %s; want %s", got, want)
	}
}

// The seeds of aiperf 0.13.0 in: aiperf profile … --num-profile-runs 2 --isl 16,32 --concurrency 1,2 --sweep-type zip --random-seed 7
// --vary-seed-per-trial.
func TestSeeds(t *testing.T) {
	vs, err := Combine([]Parameter{param("datasets.main.prompts.isl.mean", int64(16), int64(32)), param("phases.profiling.concurrency", int64(1), int64(2))}, true)
	if err != nil {
		t.Fatal(err)
	}
	of := func(s Seeds) (out [4]uint64) {
		for i := range out {
			out[i] = s.Of(&vs[i%2], i/2)
		}
		return out
	}
	for _, c := range []struct {
		Seeds
		want [4]uint64
	}{
		{Seeds{Base: 7, Vary: true}, [4]uint64{2284053804300576898, 828825651734610677, 2052880968674394440, 4007423724138254761}},
		{Seeds{Base: 7}, [4]uint64{7, 8, 7, 8}},
		{Seeds{Base: 7, Same: true}, [4]uint64{7, 7, 7, 7}},
	} {
		if got := of(c.Seeds); got != c.want {
			t.Errorf("%+v: %v; want %v", c.Seeds, got, c.want)
		}
	}
	if got := of(Seeds{Base: 7, Same: true, Vary: true}); got[0] != got[1] || got[2] != got[3] || got[0] == got[2] {
		t.Errorf("one seed for all variations, and one of its own for each repeat: %v", got)
	}
}

func TestNames(t *testing.T) {
	vs, err := Combine([]Parameter{param("a.isl.mean", int64(1)), param("a.osl.mean", int64(1)), param("p.rate", int64(1))}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a.isl.mean": "a.isl.mean", "a.osl.mean": "a.osl.mean", "p.rate": "rate"}
	if got := Names(vs); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

func TestScalar(t *testing.T) {
	nested := Map{{"b", []any{int64(1), 2.0, "é<", nil, true}}, {"a", Map{{"x", "y"}}}}
	if got, want := Scalar(nested), `{"a":{"x":"y"},"b":[1,2.0,"é<",null,true]}`; got != want {
		t.Errorf("got %v; want %s", got, want)
	}
	if got := Scalar(int64(3)); got != int64(3) {
		t.Errorf("a number became %v", got)
	}
}
