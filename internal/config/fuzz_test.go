package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// checkOutcome holds what every outcome of Parse is: a config that is complete and can be echoed, or a message.
func checkOutcome(t *testing.T, c *Config, err error) {
	t.Helper()
	if err != nil {
		var e *Error
		if !errors.Is(err, ErrHelp) && (!errors.As(err, &e) || e.Msg == "" || e.Title == "") {
			t.Fatalf("the error is %#v", err)
		}
		return
	}
	if len(c.Models) == 0 || len(c.Endpoint.URLs) == 0 || len(c.Phases) == 0 || c.Dataset.Input.Mean < 1 && c.Dataset.File == nil && len(c.Dataset.Mix) == 0 || c.Artifacts.Dir == "" {
		t.Fatalf("an incomplete config: %+v", c)
	}
	for _, p := range c.Phases {
		if p.Concurrency < 1 && !p.Load.Open() || p.Requests < 0 || p.Sessions < 0 || p.Duration < 0 || p.Grace < Infinite ||
			p.Requests == 0 && p.Sessions == 0 && p.Duration == 0 {
			t.Fatalf("an impossible phase: %+v", p)
		}
	}
	for _, u := range c.Endpoint.URLs {
		if _, err := EndpointURL(u, "/v1/chat/completions"); err != nil {
			t.Fatalf("%q: %v", u, err)
		}
	}
	if text, err := c.Input.MarshalJSON(); err != nil || !json.Valid(text) {
		t.Fatalf("the echo is no JSON: %s, %v", text, err)
	}
}

func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		minimal("phases: {type: concurrency, requests: 5}"),
		minimal("phases: [{name: a, kind: warmup, type: concurrency, duration: 5m, grace_period: inf}, {name: b, kind: profiling, type: " +
			"concurrency, sessions: 2}]"),
		"benchmark:\n  model: m\n  endpoint: {url: h}\n  datasets:\n    d: [{name: n, prompt_template: {content: \"{{x}}\"}, variables: " +
			"[{name: x, values: [a]}]}]\n" +
			"    strategy: {type: fixed, input_tokens: 64, max_total_tokens: 99}\n  phases: {type: concurrency, sessions: 5, duration: " +
			"3}\n",
		"variables: {a: 3, b: \"{{ a * 2 }}\"}\n" + minimal("phases: {type: concurrency, requests: \"{{ b // a }}\"}"),
		"a: &x {b: *x}\n<<: *x\n", "? [a]\n: b\n", "a: !!str 1\nb: !!binary x\nc: |\n  ${A:b}\n", "{\"benchmark\": {\"model\": null}}",
		"%YAML 1.1\n---\na: b\n...\n",
		minimal("phases: {type: poisson, rate: 5, requests: 5}") + "sweep: {type: grid, parameters: {rate: [1, 2.5], datasets.default.prompts.isl: [8, {mean: 9}]}}\n",
		minimal("warmup: {type: concurrency, requests: 1}\n  profiling: {type: concurrency, requests: 5}") +
			"sweep: {type: scenarios, runs: [{name: a, benchmark: {dataset: {isl: 3}, phases: [{name: profiling, requests: 9}]}}, {values: {x: 1}}]}\n" +
			"multi_run: {num_runs: 3, convergence: {metric: m}}\n",
		minimal("phases: {type: concurrency, requests: 5}") + "variables: {n: 1}\nsweep: {type: zip, parameters: {variables.n: [1, 2], endpoint.url: [a, b]}}\n",
		"\xff\xfe", "a: \"\\x", "- - - ? : :", "a: {b: [c, {d: &e f, g: *e}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(string) ([]byte, error) { return data, nil }
		checkPlan(t, []string{"-f", "run.yaml"}, read)
	})
}

// checkPlan holds what every outcome of ParsePlan is.
func checkPlan(t *testing.T, args []string, read func(string) ([]byte, error)) {
	t.Helper()
	p, err := ParsePlan(args, noEnv, read)
	if err != nil {
		checkOutcome(t, nil, err)
		return
	}
	if len(p.Steps) == 0 || p.Layout.Runs < 1 || (p.Kind != "") != p.Layout.Swept {
		t.Fatalf("an impossible plan: %+v", p)
	}
	folders := map[string]bool{}
	for i := range p.Steps {
		checkOutcome(t, p.Steps[i].Config, nil)
		name := p.Steps[i].Folder()
		if folders[name] || name == "" || strings.ContainsAny(name, `/\`) || strings.Trim(name, ".") == "" {
			t.Fatalf("the folder of variation %d is %q", i, name)
		}
		folders[name] = true
		checkOutcome(t, p.Steps[i].Config.ForRun("x", false), nil)
	}
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		"--model|m", "-m=m|-u|a|b|-HX:y|--streaming=false", "--model|m|--extra-inputs|{\"a\":[1]}|b:c,d:e|--concurrency|3,", "-vv|-h",
		"--", "-|=|--=|-m=",
		"--model|m|--warmup-duration|3s|--benchmark-duration|1h|--no-prewarm|--http|h2c", "-f|x|--isl|9", "-vvv", "-mfoo|-bar",
		"--model|m|--api-key|-x",
		"--model|m|--concurrency|1,2|--isl|5, 6|--sweep-type|zip|--num-profile-runs|2", "--model|m|--variant|a: isl=5|--variant|request-rate=5,num-requests='3'",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "|")
		read := files(map[string]string{"x": minimal("phases: {type: concurrency, requests: 5}")})
		c, err := Parse(args, noEnv, read)
		checkOutcome(t, c, err)
		checkPlan(t, args, read)
		CommandLine("prefire", "profile", args)
		Complete(args, args[len(args)-1])
	})
}
