package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"prefire/internal/sweep"
)

// planOf parses args, with the text of run.yaml where it is not empty.
func planOf(t *testing.T, yaml string, args ...string) *Plan {
	t.Helper()
	p, err := parsePlanWith(yaml, args...)
	if err != nil {
		t.Fatalf("ParsePlan(%q): %v", args, err)
	}
	return p
}

func parsePlanWith(yaml string, args ...string) (*Plan, error) {
	texts := map[string]string{}
	if yaml != "" {
		texts["run.yaml"] = yaml
		args = append([]string{"-f", "run.yaml"}, args...)
	}
	return ParsePlan(args, noEnv, files(texts))
}

// loadsOf are the parts of each step's config that the tests sweep.
func loadsOf(p *Plan) []string {
	var out []string
	for i := range p.Steps {
		c := p.Steps[i].Config
		ph := &c.Phases[len(c.Phases)-1]
		out = append(out, fmt.Sprintf("%s: c=%d n=%d d=%v rate=%v isl=%v±%v osl=%v", p.Steps[i].Folder(), ph.Concurrency, ph.Requests, ph.Duration, ph.Load.Rate,
			c.Dataset.Input.Mean, c.Dataset.Input.Stddev, c.Dataset.Output.Mean))
	}
	return out
}

func TestListsOfFlagsAreSweeps(t *testing.T) {
	for _, c := range []struct {
		args string
		kind string
		want []string
	}{
		{"--concurrency|1,2", "grid", []string{"concurrency_1: c=1 n=10 d=0s rate=0 isl=550±0 osl=0", "concurrency_2: c=2 n=10 d=0s rate=0 isl=550±0 osl=0"}},
		{"--concurrency|1,|--request-count|7", "", []string{"base: c=1 n=7 d=0s rate=0 isl=550±0 osl=0"}},
		{"--request-rate|5, 2.5|--concurrency|3", "grid", []string{"rate_5.0: c=3 n=10 d=0s rate=5 isl=550±0 osl=0", "rate_2.5: c=3 n=10 d=0s rate=2.5 isl=550±0 osl=0"}},
		{"--isl|8,16|--osl|4,2|--sweep-type|zip", "zip", []string{"mean_8__mean_4: c=1 n=10 d=0s rate=0 isl=8±0 osl=4", "mean_16__mean_2: c=1 n=10 d=0s rate=0 isl=16±0 osl=2"}},
		{"--concurrency|1,2|--isl|8,16|--isl-stddev|1", "grid", []string{"mean_8__concurrency_1: c=1 n=10 d=0s rate=0 isl=8±1 osl=0",
			"mean_8__concurrency_2: c=2 n=10 d=0s rate=0 isl=8±1 osl=0", "mean_16__concurrency_1: c=1 n=10 d=0s rate=0 isl=16±1 osl=0",
			"mean_16__concurrency_2: c=2 n=10 d=0s rate=0 isl=16±1 osl=0"}},
		{"--benchmark-duration|30s,1.5", "grid", []string{"duration_30.0: c=1 n=0 d=30s rate=0 isl=550±0 osl=0", "duration_1.5: c=1 n=0 d=1.5s rate=0 isl=550±0 osl=0"}},
		{"--variant|short: isl=16, concurrency=2|--variant|request-rate=5,isl=32", "scenarios", []string{"short: c=2 n=10 d=0s rate=0 isl=16±0 osl=0",
			"v1: c=0 n=10 d=0s rate=5 isl=32±0 osl=0"}},
	} {
		p := planOf(t, "", append([]string{"-m", "m"}, strings.Split(c.args, "|")...)...)
		if got := loadsOf(p); !slices.Equal(got, c.want) || p.Kind != c.kind || p.Layout.Many() != (c.kind != "") {
			t.Errorf("%s: %s %q; want %s %q", c.args, p.Kind, got, c.kind, c.want)
		}
	}
}

// A warm-up without a concurrency of its own takes each step's.
func TestWarmupUnderAListTakesEachStepsConcurrency(t *testing.T) {
	p := planOf(t, "", "-m", "m", "--concurrency", "3,5", "--warmup-request-count", "9")
	for i, want := range []int{3, 5} {
		if got := p.Steps[i].Config.Phases[0].Concurrency; got != want {
			t.Errorf("the warm-up of step %d has %d sessions; want %d", i, got, want)
		}
	}
}

const sweptFile = `schema_version: "2.0"
benchmark:
  model: m
  endpoint: {url: h, streaming: true}
  dataset: {isl: 16, osl: 4}
  warmup: {type: concurrency, requests: 2, concurrency: 1}
  profiling: {type: poisson, rate: 5, requests: 4}
`

func TestSweepsOfAFile(t *testing.T) {
	for _, c := range []struct {
		name, sweep string
		args        []string
		want        []string
	}{
		{"names alone", "sweep: {type: grid, parameters: {rate: [1, 2.5]}}", nil,
			[]string{"rate_1: c=0 n=4 d=0s rate=1 isl=16±0 osl=4", "rate_2.5: c=0 n=4 d=0s rate=2.5 isl=16±0 osl=4"}},
		{"whole paths", "sweep:\n  type: zip\n  parameters:\n    phases.profiling.rate: [1, 2]\n    datasets.default.prompts.isl: [8, {mean: 9, stddev: 2}]", nil,
			[]string{"isl_8__rate_1: c=0 n=4 d=0s rate=1 isl=8±0 osl=4", "datasets.default.prompts.isl={'mean' 9, 'stddev' 2}, phases.profiling.rate=2: c=0 n=4 d=0s rate=2 isl=9±2 osl=4"}},
		{"by number and short form", "sweep: {type: grid, parameters: {phases.1.rate: [1, 2], datasets.default.isl: [5]}}", nil,
			[]string{"isl_5__rate_1: c=0 n=4 d=0s rate=1 isl=5±0 osl=4", "isl_5__rate_2: c=0 n=4 d=0s rate=2 isl=5±0 osl=4"}},
		{"a key that is not there, camel case", "sweep: {type: grid, parameters: {phases.profiling.gracePeriod: [1, 2], duration: [9]}}", nil,
			[]string{"duration_9__gracePeriod_1: c=0 n=4 d=9s rate=5 isl=16±0 osl=4", "duration_9__gracePeriod_2: c=0 n=4 d=9s rate=5 isl=16±0 osl=4"}},
		{"a variable", "variables: {n: 3}\nsweep: {type: grid, parameters: {variables.n: [2, 6]}}\n#T", nil,
			[]string{"n_2: c=0 n=4 d=0s rate=5 isl=16±0 osl=2", "n_6: c=0 n=4 d=0s rate=5 isl=16±0 osl=6"}},
		{"with a list of the command line", "sweep: {type: grid, parameters: {rate: [1, 2]}}", []string{"--isl", "7,8"},
			[]string{"mean_7__rate_1: c=0 n=4 d=0s rate=1 isl=7±0 osl=4", "mean_7__rate_2: c=0 n=4 d=0s rate=2 isl=7±0 osl=4", "mean_8__rate_1: c=0 n=4 d=0s rate=1 isl=8±0 osl=4",
				"mean_8__rate_2: c=0 n=4 d=0s rate=2 isl=8±0 osl=4"}},
		{"whose list is the command line's", "sweep: {type: grid, parameters: {rate: [1, 2]}}", []string{"--request-rate", "7,8"},
			[]string{"rate_7.0: c=0 n=4 d=0s rate=7 isl=16±0 osl=4", "rate_8.0: c=0 n=4 d=0s rate=8 isl=16±0 osl=4"}},
		{"no sweep in the file", "", []string{"--osl", "3,2"}, []string{"mean_3: c=0 n=4 d=0s rate=5 isl=16±0 osl=3", "mean_2: c=0 n=4 d=0s rate=5 isl=16±0 osl=2"}},
		{"scenarios", `sweep:
  type: scenarios
  runs:
    - {name: as it is}
    - name: long
      benchmark:
        dataset: {isl: 99}
        profiling: {rate: 1}
    - {name: named, values: {k: 1}, benchmark: {phases: [{name: profiling, type: constant, concurrency: 3}]}}
    - {benchmark: {datasets: [{name: default, prompts: {osl: {value: 8}}}]}}`, nil,
			[]string{"as it is: c=0 n=4 d=0s rate=5 isl=16±0 osl=4", "long: c=0 n=4 d=0s rate=1 isl=99±0 osl=4", "k_1: c=3 n=4 d=0s rate=5 isl=16±0 osl=4",
				"scenario_3: c=0 n=4 d=0s rate=5 isl=16±0 osl=8"}},
	} {
		file := sweptFile + c.sweep + "\n"
		if strings.Contains(c.sweep, "#T") {
			file = strings.Replace(file, "osl: 4", `osl: "{{ n }}"`, 1)
		}
		if got := loadsOf(planOf(t, file, c.args...)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// The only measured phase, whatever its name, is that of the short paths, and the flags name it in theirs.
func TestThePhaseOfAnotherName(t *testing.T) {
	file := minimal("phases: [{name: w, kind: warmup, type: concurrency, requests: 1}, {name: load, kind: profiling, type: concurrency, requests: 4}]")
	p := planOf(t, file+"sweep: {type: grid, parameters: {concurrency: [2, 3]}}\n")
	if got := loadsOf(p); !strings.Contains(got[0], "c=2 ") || !strings.Contains(got[1], "c=3 ") || p.Steps[0].Label != "phases.profiling.concurrency=2" {
		t.Errorf("%q, %s", got, p.Steps[0].Label)
	}
	if got := planOf(t, file, "--concurrency", "2,3").Steps[0].Label; got != "phases.load.concurrency=2" {
		t.Errorf("the flag's path is %s", got)
	}
}

// The older dialect sweeps by its own keys.
func TestSweepOfTheOlderDialect(t *testing.T) {
	file := fixture(t, "longcontext.yaml") + "\nsweep: {type: grid, parameters: {datasets.strategy.input_tokens: [64, 128], sessions: [3]}}\n"
	got := loadsOf(planOf(t, file, "--ui", "none"))
	want := []string{"input_tokens_64__sessions_3: c=3 n=0 d=5m0s rate=0 isl=64±0 osl=128", "input_tokens_128__sessions_3: c=3 n=0 d=5m0s rate=0 isl=128±0 osl=128"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestRepeats(t *testing.T) {
	file := minimal("phases: {type: concurrency, requests: 5}") + `multi_run: {num_runs: 4, cooldown_seconds: 2, confidence_level: 0.9, disable_warmup_after_first: false,
  convergence: {metric: request_latency, stat: p99, mode: cv, threshold: 0.2, min_runs: 3}}
no_sweep_table: true
`
	p := planOf(t, file)
	p.Steps = nil
	want := Plan{Layout: sweep.Layout{Runs: 4, Order: "repeated"}, Cooldown: 2 * time.Second, Confidence: 0.9, NoTable: true,
		Convergence: &sweep.Convergence{Metric: "request_latency", Stat: "p99", Mode: "cv", Threshold: 0.2, MinRuns: 3}}
	if !reflect.DeepEqual(*p, want) {
		t.Errorf("of a file:\n%+v\nwant\n%+v", *p, want)
	}
	p = planOf(t, file, "--num-profile-runs", "2", "--profile-run-cooldown-seconds", "3", "--confidence-level", "0.5", "--profile-run-disable-warmup-after-first",
		"--convergence-metric", "ttft", "--convergence-mode", "CI-width", "--random-seed", "9")
	p.Steps = nil
	seed := uint64(9)
	want = Plan{Layout: sweep.Layout{Runs: 2, Order: "repeated"}, Seed: &seed, Cooldown: 3 * time.Second, Confidence: 0.5, WarmupOnce: true, NoTable: true,
		Convergence: &sweep.Convergence{Metric: "ttft", Stat: "avg", Mode: "ci_width", MinRuns: 2}}
	if !reflect.DeepEqual(*p, want) {
		t.Errorf("with flags over it:\n%+v\nwant\n%+v", *p, want)
	}
}

func TestSeedsOfASeries(t *testing.T) {
	for _, c := range []struct {
		args                    string
		consistent, fixed, same bool
	}{
		{"--num-profile-runs|2", false, false, false},
		{"--num-profile-runs|2|--set-consistent-seed", true, true, false},
		{"--num-profile-runs|2|--set-consistent-seed|--vary-seed-per-trial", false, true, false},
		{"--num-profile-runs|2|--no-vary-seed-per-trial", true, false, false},
		{"--num-profile-runs|2|--no-set-consistent-seed", false, false, false},
		{"--concurrency|1,2|--parameter-sweep-same-seed", false, false, true},
	} {
		p := planOf(t, "", append([]string{"-m", "m"}, strings.Split(c.args, "|")...)...)
		if p.Consistent != c.consistent || p.FixedSeed != c.fixed || p.SameSeed != c.same {
			t.Errorf("%s: consistent %t, fixed %t, same %t", c.args, p.Consistent, p.FixedSeed, p.SameSeed)
		}
	}
}

// What a variation by flags sets is what aiperf says of it: the part of the config that it changes.
func TestValuesOfVariants(t *testing.T) {
	p := planOf(t, "", "-m", "test-model", "--isl", "32", "--osl", "8", "--variant", "short: isl=16, concurrency=1", "--variant", "isl=32, concurrency=2", "--variant", "same: isl=32")
	var got []any
	for i := range p.Steps {
		for _, s := range p.Steps[i].Values {
			got = append(got, s.Path, sweep.Scalar(s.Value))
		}
	}
	want := []any{"benchmark", `{"datasets":[{"name":"main","prompts":{"isl":{"mean":16}}}],"phases":[{"concurrency":1,"name":"profiling"}]}`,
		"benchmark", `{"phases":[{"concurrency":2,"name":"profiling"}]}`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// What a scenario sets may hold keys; what is written of it does not.
func TestSecretsOfScenarios(t *testing.T) {
	p := planOf(t, sweptFile+"sweep: {type: scenarios, runs: [{name: a, benchmark: {endpoint: {apiKey: sk-one, url: 'http://u:sk-one@h', headers: {X-Token: sk-one, X-A: b}}}}, {name: b}]}\n")
	text := fmt.Sprint(p.Steps[0].Values)
	if strings.Contains(text, "sk-one") || !strings.Contains(text, "X-A b") || p.Steps[0].Config.Endpoint.APIKey != "sk-one" {
		t.Errorf("%s, key %q", text, p.Steps[0].Config.Endpoint.APIKey)
	}
}

// A run of a series has its own folder and its own echo; without warm-up neither config nor echo has a warm-up phase. The plan's stays as it was.
func TestForRun(t *testing.T) {
	p := planOf(t, sweptFile, "--artifact-dir", "base", "--num-profile-runs", "2")
	c := p.Steps[0].Config
	before := asJSON(t, c.Input)
	one := c.ForRun("base/x", false)
	one.Settle("/abs/base/x", "none")
	if len(one.Phases) != 1 || one.Artifacts.Dir != "/abs/base/x" || strings.Contains(asJSON(t, one.Input), `"warmup"`) || !strings.Contains(asJSON(t, one.Input), "/abs/base/x") {
		t.Errorf("%+v\n%s", one.Phases, asJSON(t, one.Input))
	}
	if len(c.Phases) != 2 || c.Artifacts.Dir != "base" || asJSON(t, c.Input) != before {
		t.Errorf("the plan's config has changed: %+v\n%s", c.Phases, asJSON(t, c.Input))
	}
	if two := c.ForRun("y", true); len(two.Phases) != 2 {
		t.Errorf("%d phases with warm-up", len(two.Phases))
	}
}

func TestNoticesComeOnce(t *testing.T) {
	p := planOf(t, "", "-m", "m", "--concurrency", "1,2,3", "--workers-max", "3")
	for i := range p.Steps {
		if n := p.Steps[i].Config.Notices; (len(n) > 0) != (i == 0) {
			t.Errorf("step %d says %q", i, n)
		}
	}
}

func TestBadSeries(t *testing.T) {
	file := minimal("phases: [{name: profiling, type: concurrency, requests: 5}]")
	for _, c := range []struct{ yaml, args, want string }{
		{"", "-m|m|--concurrency|1,x", "--concurrency: Input should be a valid integer, got 'x'."},
		{"", "-m|m|--concurrency|1,0,2", "--concurrency: Input should be greater than or equal to 1, got '0'."},
		{"", "-m|m|--concurrency|1,1", "--concurrency: variations 0 and 1 of the sweep have the same folder, concurrency_1: give each value once, and each run a name of its own."},
		{"", "-m|m|--concurrency|1,2|--isl|5,6,7|--sweep-type|zip", "--concurrency: zip sweep parameters must all have equal length; got {'datasets.main.prompts.isl.mean': 3, " +
			"'phases.profiling.concurrency': 2}."},
		{"", "-m|m|--prefill-concurrency|1,3|--concurrency|2|--streaming", "phase 'profiling': prefill_concurrency must be <= concurrency: 3 is more than 2\nIn variation 1 of the " +
			"sweep: phases.profiling.prefill_concurrency=3."},
		{"", "-m|m|--num-profile-runs|11", "--num-profile-runs: Input should be less than or equal to 10, got '11'."},
		{"", "-m|m|--num-profile-runs|0", "--num-profile-runs: Input should be greater than or equal to 1, got '0'."},
		{"", "-m|m|--set-consistent-seed", "--set-consistent-seed only applies when running multiple trials (--num-profile-runs > 1). Either remove --set-consistent-seed or add " +
			"--num-profile-runs 5 (or higher)."},
		{"", "-m|m|--profile-run-cooldown-seconds|3", "--profile-run-cooldown-seconds only applies when running multiple trials (--num-profile-runs > 1)."},
		{"", "-m|m|--no-profile-run-disable-warmup-after-first", "--no-profile-run-disable-warmup-after-first only applies when running multiple trials"},
		{"", "-m|m|--convergence-metric|ttft", "--convergence-metric requires --num-profile-runs > 1."},
		{"", "-m|m|--convergence-threshold|1", "--convergence-threshold: Input should be less than or equal to 0.9999999999999999, got '1'."},
		{"", "-m|m|--confidence-level|0", "--confidence-level: Input should be greater than 0, got '0'."},
		{"", "-m|m|--variant|isl=5", "--variant: single occurrence is rejected."},
		{"", "-m|m|--variant|isl=5|--variant|isl", "--variant 'isl': token 'isl' is missing '=' (expected key=value)"},
		{"", "-m|m|--variant|isl=5|--variant|: isl=6", "--variant ': isl=6': empty name before ':'"},
		{"", "-m|m|--variant|isl=5|--variant|a: isl=6, isl=7", "--variant 'a: isl=6, isl=7': duplicate key 'isl'"},
		{"", "-m|m|--variant|isl=5|--variant|a: ,", "--variant 'a: ,': no key=value pairs"},
		{"", "-m|m|--variant|isl=5|--variant|=6", "--variant '=6': empty key in token '=6'"},
		{"", "-m|m|--variant|isl=5|--variant|nope=6", "--variant 'nope=6': unknown key(s) ['nope']."},
		{"", "-m|m|--variant|isl=5|--variant|isl=no", "--variant isl: Input should be a valid integer, got 'no'."},
		{"", "-m|m|--variant|isl=5|--variant|search-space=6", "--variant v1: --search-space: not part of prefire"},
		{"", "-m|m|--variant|a: isl=5|--variant|a: isl=6", "--variant: variations 0 and 1 of the sweep have the same folder, a:"},
		{"", "-m|m|--variant|isl=5|--variant|isl=6|--concurrency|1,2", "--variant is mutually exclusive with magic-list flags (--concurrency)."},
		{"", "-m|m|--search-recipe|concurrency-ramp", "--search-recipe: not part of prefire: searches and their recipes need aiperf; a sweep over a list of values is run here."},

		{file, "--sweep-type|zip|--parameter-sweep-mode|independent|--isl|1,2", "These CLI flags cannot be combined with --config and would otherwise be ignored: --sweep-type, " +
			"--parameter-sweep-mode."},
		{file + "sweep: {parameters: {}}\n", "", "run.yaml:7:9: sweep: Unable to extract tag using discriminator 'type': a sweep needs a type: grid, zip or scenarios."},
		{file + "sweep: {type: foo}\n", "", "sweep.type: Input tag 'foo' found using 'type' does not match any of the expected tags: grid, zip, scenarios, adaptive_search, sobol, " +
			"latin_hypercube."},
		{file + "sweep: {type: sobol, samples: 4}\n", "", "sweep.type: 'sobol' is known to aiperf, not supported by this version of prefire, which has 'grid', 'zip' or 'scenarios'."},
		{file + "sweep: 3\n", "", "sweep: Input should be a valid dictionary"},
		{file + "sweep: {type: grid}\n", "", "sweep.parameters: Field required."},
		{file + "sweep: {type: grid, parameters: {}}\n", "", "sweep.parameters: Dictionary should have at least 1 item after validation, not 0."},
		{file + "sweep: {type: grid, parameters: {rate: 5}}\n", "", "sweep.parameters.rate: Input should be a valid list; found 5 (an integer)."},
		{file + "sweep: {type: grid, parameters: {rate: []}}\n", "", "grid sweep parameter 'rate': value list must be non-empty."},
		{file + "sweep: {type: grid, parameters: {rate: [.inf]}}\n", "", "grid sweep parameter 'rate': value +Inf (a number) is not finite."},
		{file + "sweep: {type: zip, parameters: {random_seed: [1]}}\n", "", "zip sweep parameter: dimension path 'random_seed' targets non-sweepable top-level field 'random_seed'."},
		{file + "sweep: {type: grid, parameters: {concurrency: [1], phases.profiling.concurrency: [2]}}\n", "", "resolves to 'phases.profiling.concurrency', which is already a parameter."},
		{file + "sweep: {type: grid, parameters: {phases.nope.concurrency: [1, 2]}}\n", "", "sweep path 'phases.nope.concurrency': no entry named 'nope' found (existing: ['profiling'])."},
		{file + "sweep: {type: grid, parameters: {endpoint.url.x: [1, 2]}}\n", "", "sweep path 'endpoint.url.x': cannot assign into a single value at segment 'endpoint.url'"},
		{file + "sweep: {type: grid, parameters: {concurency: [1, 2]}}\n", "", "benchmark.concurency: Extra inputs are not permitted: unknown key 'concurency'"},
		{file + "sweep: {type: grid, parameters: {concurrency: [1, two]}}\n", "", "run.yaml:7:51: benchmark.phases.0.concurrency: Input should be a valid integer; found 'two' (a string).\n" +
			"In variation 1 of the sweep: phases.profiling.concurrency=two."},
		{file + "sweep: {type: grid, parameters: {concurrency: [1, 2]}}\n", "--concurrency|9", "variations 0 and 1 of the sweep are the same run: phases.profiling.concurrency=2 changes " +
			"nothing. Does a flag of the command line set it?"},
		{file + "sweep: {type: scenarios, runs: []}\n", "", "sweep.runs: List should have at least 1 item after validation, not 0."},
		{file + "sweep: {type: scenarios, runs: [{name: a}, {name: a}]}\n", "", "scenario sweep runs must have unique names; duplicates: ['a']."},
		{file + "sweep: {type: scenarios, runs: [{name: ../a}]}\n", "", "scenario sweep run name '../a' is path-unsafe"},
		{file + "sweep: {type: scenarios, runs: [{phases: []}]}\n", "", "sweep.runs.0.phases: Extra inputs are not permitted"},
		{file + "sweep: {type: scenarios, runs: [{values: {a: [1]}}]}\n", "", "sweep.runs.0.values.a: must be a hashable scalar; found a list of 1."},
		{file + "sweep: {type: scenarios, runs: [{name: a}]}\n", "--isl|1,2", "--isl: a list of values cannot be combined with the sweep of scenarios in the config file (run.yaml:7:9: sweep)."},
		{file + "sweep: {type: grid, parameters: {isl: [1]}, sla_filters: [{op: lt}]}\n", "", "sweep.sla_filters.0.metric_tag: Field required."},
		{file + "sweep: {type: grid, parameters: {isl: [1]}, post_process: {}}\n", "", "sweep.post_process: known to aiperf, not supported by this version of prefire"},
		{file + "multi_run: {num_runs: 2, convergence: {metric: a, min_runs: 3}}\n", "", "convergence.min_runs (3) must be <= num_runs (2). Either lower min_runs or raise num_runs."},
		{file + "multi_run: {num_runs: 2, convergence: {}}\n", "", "multi_run.convergence.metric: Field required."},
		{file + "multi_run: {num_runs: 2, cooldown_seconds: 1e6}\n", "", "multi_run.cooldown_seconds: Input should be less than or equal to 86400"},
		{file + "sweep: {type: grid, parameters: {endpoint.api_key: [sk-one, sk-two]}}\n", "", "run.yaml:7:53: sweep.parameters.endpoint.api_key.0: the values of a sweep name its " +
			"folders and stand in its files"},
		{file + "sweep: {type: grid, parameters: {endpoint.headers.X-Auth-Key: [sk-one]}}\n", "", "sweep.parameters.endpoint.headers.X-Auth-Key.0: the values of a sweep"},
		{file + "sweep: {type: zip, parameters: {endpoint.url: ['http://u:sk-one@h']}}\n", "", "sweep.parameters.endpoint.url.0: the values of a sweep"},
		{file + "sweep: {type: scenarios, runs: [{values: {apiKey: sk-one}}]}\n", "", "sweep.runs.0.values.apiKey: the values of a sweep"},
		{"", "-m|m|--variant|isl=5|--variant|api-key=sk-one", "--variant: api-key: the values of a sweep"},
		{"", "-m|m|--variant|isl=5|--variant|header=Authorization:sk-one", "--variant: header: the values of a sweep"},
		{file + "multi_run: {runs: 2}\n", "", "multi_run.runs: Extra inputs are not permitted: unknown key 'runs'"},
		{minimal("phases: [{name: a, kind: profiling, type: concurrency, requests: 5}, {name: b, kind: profiling, type: concurrency, requests: 5}]") +
			"sweep: {type: grid, parameters: {concurrency: [1, 2]}}\n", "", "sweep path 'phases.profiling.concurrency' is ambiguous: 2 profiling phases exist (a, b). Use an explicit phase " +
			"name like 'phases.a.concurrency' or a numeric index like 'phases.0.concurrency'"},
	} {
		var args []string
		if c.args != "" {
			args = strings.Split(c.args, "|")
		}
		p, err := parsePlanWith(c.yaml, args...)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q %q: %+v, %v; want an *Error", c.yaml, args, p, err)
			continue
		}
		if strings.Contains(e.Msg, "sk-one") {
			t.Errorf("%q %q: a secret is shown: %s", c.yaml, args, e.Msg)
		}
		if !strings.Contains(strings.ToLower(e.Msg), strings.ToLower(c.want)) {
			t.Errorf("%q %q:\n got %s\nwant %s", c.yaml, args, e.Msg, c.want)
		}
	}
}

// One run takes no sweep: the commands that make their own runs refuse it by where it was asked for.
func TestOneRunTakesNoSeries(t *testing.T) {
	for _, c := range []struct{ yaml, args, want string }{
		{"", "-m|m|--num-profile-runs|3", "--num-profile-runs: sweeps and repeats belong to prefire profile"},
		{minimal("phases: {type: concurrency, requests: 5}") + "multi_run: {num_runs: 3}\n", "", "run.yaml:7:13: multi_run: sweeps and repeats belong to prefire profile"},
	} {
		var args []string
		if c.args != "" {
			args = strings.Split(c.args, "|")
		}
		if got := message(t, c.yaml, args...); !strings.Contains(got, c.want) {
			t.Errorf("got %s; want %s", got, c.want)
		}
	}
}

// The variations of a file as aiperf 0.13.0's config expand prints them.
func TestExpandASweep(t *testing.T) {
	file := `schema_version: "2.0"
benchmark:
  model: test-model
  endpoint: {url: "http://127.0.0.1:1", streaming: true}
  datasets: [{name: d, isl: 16, osl: 4}]
  phases: [{name: load, kind: profiling, type: constant, rate: 50, requests: 4}]
  tokenizer: {name: builtin}
sweep:
  type: grid
  parameters:
    rate: [50, 100.0]
    datasets.d.prompts.isl: [16, {mean: 24}]
`
	e, err := Expand("run.yaml", noEnv, files(map[string]string{"run.yaml": file}))
	if err != nil {
		t.Fatal(err)
	}
	got := e.Type
	for _, v := range e.Variations {
		got += fmt.Sprintf("\n[%d] dir=%s  label=%s", v.Index, v.Dir, v.Label)
	}
	want := `GridSweep
[0] dir=isl_16__rate_50  label=datasets.d.prompts.isl=16, phases.profiling.rate=50
[1] dir=isl_16__rate_100.0  label=datasets.d.prompts.isl=16, phases.profiling.rate=100.0
[2] dir=datasets.d.prompts.isl={'mean' 24}, phases.profiling.rate=50  label=datasets.d.prompts.isl={'mean': 24}, phases.profiling.rate=50
[3] dir=datasets.d.prompts.isl={'mean' 24}, phases.profiling.rate=100.0  label=datasets.d.prompts.isl={'mean': 24}, phases.profiling.rate=100.0`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if v := e.Variations[3]; asJSON(t, v.Values) != "{\n  \"datasets.d.prompts.isl\": {\n    \"mean\": 24\n  },\n  \"phases.profiling.rate\": 100.0\n}\n" ||
		!strings.Contains(asJSON(t, v.Benchmark), `"rate": 100`) {
		t.Errorf("%s\n%s", asJSON(t, v.Values), asJSON(t, v.Benchmark))
	}
}
