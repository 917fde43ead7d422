package config

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"prefire/metrics"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The file and command line of the long-context procedure, unchanged.
func TestLongContextFileAsWritten(t *testing.T) {
	args := []string{
		"--config", "longcontext.yaml", "--api-key", "k", "--concurrency", "10", "--ui", "none", "--no-gpu-telemetry",
		"--no-server-metrics",
		"--artifact-dir", "results/longcontext/vllm_REPLACE-MODEL-NAME/isl1024",
	}
	c, err := Parse(args, noEnv, files(map[string]string{"longcontext.yaml": fixture(t, "longcontext.yaml")}))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Dialect: Older, File: "longcontext.yaml", Models: []string{"vllm/REPLACE-MODEL-NAME"},
		Endpoint: Endpoint{URLs: []string{"https://ENDPOINT/v1"}, Type: "chat", Streaming: true, APIKey: "k", Timeout: 6 * time.Hour,
			HTTP: "auto"},
		Dataset: Dataset{
			Name: "synthetic_long", Input: Length{Mean: 1024}, Output: Length{Mean: 128}, MaxTotalTokens: 1152,
			Template: "Summarize the following text concisely: {{text}}",
			Variables: []Variable{{"text", []string{
				"artificial intelligence", "quantum computing", "blockchain technology", "climate change", "machine learning",
				"renewable energy",
			}}},
		},
		Phases: []Phase{{
			Name: "prefill_stress", Kind: metrics.Profiling, Concurrency: 10, Duration: 5 * time.Minute, Grace: 30 * time.Second, Load: closedLoad(),
		}},
		Tokenizer: "builtin", UI: "none", LogLevel: "INFO", Client: "auto", Prewarm: true, StreamsPerConn: 16,
		Artifacts: Artifacts{Dir: "results/longcontext/vllm_REPLACE-MODEL-NAME/isl1024"},
		Notices: []string{
			"longcontext.yaml is read in the older config dialect, because datasets is a mapping in line 10; sessions are concurrent " +
				"sessions there.",
			"longcontext.yaml:22:25: benchmark.datasets.strategy.max_total_tokens: max_total_tokens is 1152, input 1024 + output 128 is " +
				"1152; the rule " +
				"max_total_tokens >= input + output + 16 asks for 1168.",
		},
		Command: "aiperf profile --config 'longcontext.yaml' --api-key '<redacted>' --concurrency 10 --ui 'none' --no-gpu-telemetry " +
			"--no-server-metrics --artifact-dir 'results/longcontext/vllm_REPLACE-MODEL-NAME/isl1024'",
	}
	echo := asJSON(t, c.Input)
	c.Input = nil
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got\n%+v\nwant\n%+v", *c, want)
	}
	if *update {
		if err := os.WriteFile("testdata/longcontext.input.json", []byte(echo), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := fixture(t, "longcontext.input.json"); echo != want {
		t.Errorf("the echo is\n%s\nwant\n%s", echo, want)
	}
}

func TestLongContextTotals(t *testing.T) {
	file := fixture(t, "longcontext.yaml")
	const place = "run.yaml:22:25: benchmark.datasets.strategy.max_total_tokens: "
	tests := []struct {
		isl, total string
		notice     string
		err        string
	}{
		{"1024", "1168", "", ""},
		{"1024", "1167", place + "max_total_tokens is 1167, input 1024 + output 128 is 1152; the rule max_total_tokens >= input + " +
			"output + 16 asks for " +
			"1168.", ""},
		{"512", "1152", "", ""},
		{"1025", "1152", "", place + "max_total_tokens is 1152, input 1025 + output 128 is 1153: the requests do not fit. Raise " +
			"max_total_tokens to 1169, or " +
			"shorten input_tokens (--isl) or output_tokens (--osl)."},
	}
	for _, tt := range tests {
		yaml := strings.Replace(file, "max_total_tokens: 1152", "max_total_tokens: "+tt.total, 1)
		if tt.err != "" {
			if got := message(t, yaml, "--isl", tt.isl); got != tt.err {
				t.Errorf("isl %s, total %s:\ngot  %s\nwant %s", tt.isl, tt.total, got, tt.err)
			}
			continue
		}
		c := mustParse(t, yaml, "--isl", tt.isl, "--no-gpu-telemetry", "--no-server-metrics")
		if got := strings.Join(c.Notices[1:], "\n"); got != tt.notice {
			t.Errorf("isl %s, total %s: notices %q, want %q", tt.isl, tt.total, got, tt.notice)
		}
	}
}

func TestOlderDialect(t *testing.T) {
	const head = "benchmark:\n  model: m\n  endpoint: {url: h}\n  datasets:\n    d: [{name: n}]\n    strategy: {type: fixed, " +
		"input_tokens: 64}\n"
	c := mustParse(t, head+"  phases: [{type: concurrency, sessions: 4, requests: 9, kind: warmup}, {type: concurrency, duration: 5m, "+
		"grace_period: 2m}]\n")
	want := []Phase{
		{Name: "warmup", Kind: metrics.Warmup, Concurrency: 4, Requests: 9, Grace: Infinite, Load: closedLoad()},
		{Name: "profiling_1", Concurrency: 1, Duration: 5 * time.Minute, Grace: 2 * time.Minute, Load: closedLoad()},
	}
	if !reflect.DeepEqual(c.Phases, want) || c.Dialect != Older {
		t.Errorf("%s: phases %+v, want %+v", c.Dialect, c.Phases, want)
	}
	if c.Dataset.Template != "" || c.Dataset.Output.Mean != 0 {
		t.Errorf("dataset %+v, want no template and no output limit", c.Dataset)
	}
}

func TestSchema20(t *testing.T) {
	seed := uint64(3)
	yaml := `
schemaVersion: "2.0"
randomSeed: 3
benchmark:
  models: {items: [{name: org/m, weight: 1.0}], strategy: round_robin}
  endpoint:
    urls: [a:1/v1, "https://b"]
    type: chat
    path: /x
    apiKey: k
    timeout: 0
    streaming: yes
    headers: {X-A: "1"}
    extra: {n: 1, f: 1.5, b: true, z: null, s: "yes", l: [1, {k: v}]}
    useLegacyMaxTokens: true
    use_server_token_count: "true"
    connection_reuse: pooled
    wait_for_model_timeout: 0
  datasets:
    - {name: main, entries: 7, prompts: {isl: {mean: 100, stddev: 5}, osl: {value: 10}}, sampling: sequential}
  warmup: {type: concurrency, sessions: 3, concurrency: 2}
  profiling: {type: concurrency, duration: 2h, concurrency: 4, gracePeriod: inf, excludeFromResults: false}
  artifacts: {dir: out, prefix: run.json, summary: [json], records: [jsonl], raw: false}
  tokenizer: {name: builtin, revision: v2, trust_remote_code: true}
  runtime: {ui: simple, workers: 3}
  gpu_telemetry: {enabled: false}
  server_metrics: {enabled: false}
`
	c := mustParse(t, yaml)
	c.Input, c.Command = nil, ""
	want := Config{
		Dialect: Schema20, File: "run.yaml", Models: []string{"org/m"},
		Endpoint: Endpoint{
			URLs: []string{"http://a:1/v1", "https://b"}, Path: "/x", Type: "chat", Streaming: true, APIKey: "k", HTTP: "auto",
			Headers: []KeyValue{{"X-A", "1"}},
			Extra: []KeyValue{
				{"n", int64(1)}, {"f", 1.5}, {"b", true}, {"z", nil}, {"s", "yes"}, {"l", []any{int64(1), Map{{"k", "v"}}}},
			},
			LegacyMaxTokens: true, ServerCounts: true, Reuse: "pooled",
		},
		Dataset: Dataset{Name: "main", Entries: 7, Sampling: "sequential", Input: Length{Mean: 100, Stddev: 5}, Output: Length{Mean: 10, Stddev: 0}},
		Phases: []Phase{
			{Name: "warmup", Kind: metrics.Warmup, Concurrency: 2, Sessions: 3, Grace: Infinite, Load: closedLoad()},
			{Name: "profiling", Concurrency: 4, Duration: 2 * time.Hour, Grace: Infinite, Load: closedLoad()},
		},
		Tokenizer: "builtin", TokenizerRevision: "v2", Artifacts: Artifacts{Dir: "out", Prefix: "run"}, Seed: &seed, UI: "simple",
		LogLevel: "INFO", Client: "auto", Prewarm: true, StreamsPerConn: 16,
		Notices: []string{
			"run.yaml:24:44: benchmark.tokenizer.trust_remote_code has no effect: prefire runs no code of a tokenizer.",
			"run.yaml:25:25: benchmark.runtime.workers has no effect: prefire runs its load in one process and has no workers.",
		},
	}
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got\n%+v\nwant\n%+v", *c, want)
	}
}

// What a file says in several forms is the same config.
func TestFormsOfAFile(t *testing.T) {
	parse := func(yaml string) Config {
		c := mustParse(t, yaml)
		c.Input, c.Command, c.Notices, c.Dataset.Name = nil, "", nil, ""
		return *c
	}
	want := parse(`
benchmark:
  models: {items: [{name: m}]}
  endpoint: {urls: ["http://h"], timeout: 20}
  datasets: [{name: main, type: synthetic, prompts: {isl: {mean: 8}}}]
  phases: [{name: profiling, kind: profiling, type: concurrency, requests: 5, concurrency: 3}]
`)
	for name, yaml := range map[string]string{
		"shorthands": "benchmark:\n  model: m\n  endpoint: {url: h, timeout: 20s}\n  dataset: {isl: 8}\n" +
			"  phases: {type: concurrency, requests: 5, concurrency: 3}\n",
		"a list of models": minimal("phases: {type: concurrency, requests: 5, concurrency: 3}\n  endpoint: {url: h, timeout: 20}"),
		"profiling": "benchmark:\n  models: [m]\n  endpoint: {url: h, timeout: 20}\n  dataset: {isl: 8}\n  profiling: {type: " +
			"concurrency, requests: 5, concurrency: 3}\n",
		"JSON": `{"benchmark": {"model": "m", "endpoint": {"url": "h", "timeout": 20.0}, "dataset": {"isl": 8}, "phases": {"type": "concurrency", "requests": 5, "concurrency": 3}}}`,
		"JSON with tabs": "{\n\t\"benchmark\": {\n\t\t\"model\": \"m\",\n\t\t\"endpoint\": {\"url\": \"h\", \"timeout\": " +
			"20},\n\t\t\"dataset\": {\"isl\": 8},\n\t\t\"phases\": {\"type\": \"concurrency\", \"requests\": 5, \"concurrency\": " +
			"3}\n\t}\n}\n",
		"flat": "model: m\nendpoint: {url: h, timeout: 20}\ndataset: {isl: 8}\nphases: {type: concurrency, requests: 5, " +
			"concurrency: 3}\n",
		"anchors and merging": "benchmark:\n  model: &m m\n  endpoint: {url: h, timeout: 20}\n  dataset: {isl: 8}\n  phases:\n    - <<: " +
			"&p {type: concurrency, requests: 4}\n      name: profiling\n      requests: 5\n      concurrency: 3\n",
		"numbers as text": "benchmark:\n  model: m\n  endpoint: {url: h, timeout: \"20\"}\n  dataset: {isl: \"8\"}\n  phases: " +
			"{type: concurrency, requests: \"5\", concurrency: 3.0}\n",
		"Windows line ends": strings.ReplaceAll("benchmark:\n  model: m\n  endpoint: {url: h, timeout: 20}\n  dataset: {isl: 8}\n  "+
			"phases: {type: concurrency, requests: 5, concurrency: 3}\n", "\n", "\r\n"),
	} {
		if name == "a list of models" {
			yaml = strings.Replace(strings.Replace(yaml, "model: m", "models: [m]", 1), "endpoint: {url: h}\n  ", "", 1)
		}
		if got := parse(yaml); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, want)
		}
	}
}

func TestFlatFilesAreNoted(t *testing.T) {
	c := mustParse(t, "model: m\nendpoint: {url: h}\ndataset: {isl: 8}\nphases: {type: concurrency, requests: 5}\n", "--no-gpu-telemetry",
		"--no-server-metrics")
	want := []string{"run.yaml uses pre-restructure flat shape (top-level keys: ['model', 'endpoint', 'dataset', 'phases']); " +
		"auto-migrated: read as if " +
		"they stood below benchmark."}
	if !slices.Equal(c.Notices, want) {
		t.Errorf("notices %q, want %q", c.Notices, want)
	}
}

// What looks like a number or a truth value in the environment is a text where a text is wanted, letter for letter, and a number elsewhere.
func TestEnvironmentOfTexts(t *testing.T) {
	env := func(string) (string, bool) { return "0123", true }
	for _, models := range []string{"model: ${A}", "models: [\"${A}\"]", "models: {items: [{name: \"${A}\"}]}"} {
		yaml := "benchmark:\n  " + models + `
  endpoint: {url: a:1, api_key: "${A}", headers: {X: "${A}"}}
  dataset: {isl: "${A}"}
  phases: {type: concurrency, requests: 5}
`
		c, err := Parse([]string{"-f", "run.yaml"}, env, files(map[string]string{"run.yaml": yaml}))
		if err != nil {
			t.Fatalf("%s: %v", models, err)
		}
		if c.Models[0] != "0123" || c.Endpoint.APIKey != "0123" || c.Endpoint.Headers[0].Value != "0123" || c.Dataset.Input.Mean != 123 {
			t.Errorf("%s: got %q, key %q, headers %v, %v tokens", models, c.Models, c.Endpoint.APIKey, c.Endpoint.Headers, c.Dataset.Input.Mean)
		}
	}
}

func TestEnvironment(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"N": "12", "HOST": "h", "EMPTY": "", "YES": "true", "TEXT": "7 x"}[name]
		return v, ok
	}
	yaml := `
benchmark:
  model: ${TEXT}
  endpoint:
    url: "http://${HOST}:${PORT:80}/v1"
    streaming: ${YES}
    headers: {X: "a${EMPTY}b${NONE:}c"}
    extra: {n: "${N}", s: "${N} ", f: "${F:1.5}", t: "${TEXT}", d: "$${HOST}", u: "${1x}"}
  dataset: {isl: "${N}"}
  phases: {type: concurrency, requests: 5}
`
	c, err := Parse([]string{"-f", "run.yaml"}, env, files(map[string]string{"run.yaml": yaml}))
	if err != nil {
		t.Fatal(err)
	}
	wantExtra := []KeyValue{{"n", int64(12)}, {"s", "12 "}, {"f", 1.5}, {"t", "7 x"}, {"d", "$h"}, {"u", "${1x}"}}
	if !reflect.DeepEqual(c.Endpoint.Extra, wantExtra) {
		t.Errorf("extra %v, want %v", c.Endpoint.Extra, wantExtra)
	}
	if got, want := c.Endpoint.Headers, []KeyValue{{"X", "abc"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("headers %v, want %v", got, want)
	}
	if c.Models[0] != "7 x" || c.Endpoint.URLs[0] != "http://h:80/v1" || !c.Endpoint.Streaming || c.Dataset.Input.Mean != 12 {
		t.Errorf("got %q %q %t %v", c.Models, c.Endpoint.URLs, c.Endpoint.Streaming, c.Dataset.Input)
	}
}

func TestFlagsOverAFile(t *testing.T) {
	const two = "phases: [{name: warmup, type: concurrency, requests: 3, concurrency: 2}, {name: p, kind: profiling, type: concurrency, " +
		"duration: 20, " +
		"concurrency: 4}]"
	warm := Phase{Name: "warmup", Kind: metrics.Warmup, Concurrency: 2, Requests: 3, Grace: Infinite, Load: closedLoad()}
	main := Phase{Name: "p", Concurrency: 4, Duration: 20 * time.Second, Load: closedLoad()}
	tests := []struct {
		yaml string
		args string
		want func(w, p Phase) []Phase
	}{
		// aiperf gives a duration of a file no grace, unless the flag replaces it.
		{two, "", func(w, p Phase) []Phase { return []Phase{w, p} }},
		{two, "--concurrency|9", func(w, p Phase) []Phase { p.Concurrency = 9; return []Phase{w, p} }},
		{two, "--benchmark-duration|7", func(w, p Phase) []Phase {
			p.Duration, p.Grace = 7*time.Second, 30*time.Second
			return []Phase{w, p}
		}},
		{two, "--benchmark-grace-period|3", func(w, p Phase) []Phase { p.Grace = 3 * time.Second; return []Phase{w, p} }},
		{two, "--request-count|6|--num-sessions|5", func(w, p Phase) []Phase { p.Requests, p.Sessions = 6, 5; return []Phase{w, p} }},
		{two, "--warmup-concurrency|8|--warmup-request-count|1", func(w, p Phase) []Phase {
			w.Concurrency, w.Requests = 8, 1
			return []Phase{w, p}
		}},
		{strings.Replace(two, "duration: 20", "duration: 20, grace_period: 5", 1), "--benchmark-duration|7", func(w, p Phase) []Phase {
			p.Duration, p.Grace = 7*time.Second, 5*time.Second
			return []Phase{w, p}
		}},
		// A warm-up made by flags does not take the file's concurrency.
		{"phases: {type: concurrency, requests: 5, concurrency: 4}", "--warmup-request-count|2", func(w, _ Phase) []Phase {
			w.Requests, w.Concurrency = 2, 1
			return []Phase{w, {Name: "profiling", Concurrency: 4, Requests: 5, Grace: Infinite, Load: closedLoad()}}
		}},
	}
	for _, tt := range tests {
		var args []string
		if tt.args != "" {
			args = strings.Split(tt.args, "|")
		}
		if got, want := mustParse(t, minimal(tt.yaml), args...).Phases, tt.want(warm, main); !reflect.DeepEqual(got, want) {
			t.Errorf("%s %q:\ngot  %+v\nwant %+v", tt.yaml, args, got, want)
		}
	}
}

func TestDatasetSeed(t *testing.T) {
	const yaml = "random_seed: 3\nbenchmark:\n  model: m\n  endpoint: {url: h}\n  dataset: {isl: 8, random_seed: 4}\n  phases: {type: " +
		"concurrency, requests: 1}\n"
	want := "run.yaml:5:34: benchmark.dataset.random_seed: two seeds: random_seed is 3 at the top level and 4 in the dataset. prefire " +
		"draws everything " +
		"from one; give one of them."
	if got := message(t, yaml); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if c := mustParse(t, yaml, "--random-seed", "9"); *c.Seed != 9 {
		t.Errorf("seed %d, want the flag's 9", *c.Seed)
	}
	if c := mustParse(t, strings.Replace(yaml, "random_seed: 3\n", "", 1)); *c.Seed != 4 {
		t.Errorf("seed %d, want the dataset's 4", *c.Seed)
	}
}

func TestBadFiles(t *testing.T) {
	const ok = "phases: {type: concurrency, requests: 5}"
	const older = "benchmark:\n  model: m\n  endpoint: {url: h}\n  datasets:\n    d: [{name: n}]\n    strategy: {type: fixed, " +
		"input_tokens: 64}\n" +
		"  phases: {type: concurrency, requests: 5}\n"
	edit := func(text, old, with string) string { return strings.Replace(text, old, with, 1) }
	tests := []struct {
		name, yaml string
		want       string // the message, without its first line where that counts the problems
	}{
		{"empty", " \n# nothing\n", "run.yaml: Configuration file is empty."},
		{"a list", "- a\n", "run.yaml:1:1: a config file is a mapping of keys to values; found a list of 1."},
		{"two documents", minimal(ok) + "---\na: 1\n", "run.yaml:8:1: a second document begins here; a config file has one."},
		{"not YAML", "a: [1\n", "run.yaml:1:4: not valid YAML: sequence end token ']' not found."},
		{"a key twice", "schema_version: \"2.0\"\nschema_version: \"2.0\"\n",
			"run.yaml:2:1: not valid YAML: mapping key \"schema_version\" already defined at [1:1]."},
		{"a number as key", "1: a\n", "run.yaml:1:1: YAML key 1 (an integer) is not a string; only string keys are allowed."},
		{"a cycle", "a: &x [*x]\n", "run.yaml:1:8: the alias *x refers to no anchor before it."},
		{"a tag", "a: !foo b\n", "run.yaml:1:4: the tag !foo is not allowed in a config file."},
		{"no benchmark", "schema_version: \"2.0\"\n",
			"run.yaml:1:1: benchmark: Field required: a config file has the keys schema_version and benchmark."},
		{"unknown at the top", "sweeps: 1\n" + minimal(ok), "run.yaml:1:1: sweeps: Unknown top-level envelope key(s): 'sweeps' (did you " +
			"mean 'sweep'?). " +
			"Known keys: benchmark, multi_run, no_sweep_table, plot, random_seed, schema_version, sweep, variables."},
		{"a version without quotes", edit(minimal(ok), `"2.0"`, "2.0"),
			"run.yaml:1:17: schema_version: Input should be '2.0', a string in quotes; found 2 (a number)."},
		{"known, not supported", minimal(ok) + "plot: p.yaml\n",
			"run.yaml:7:1: plot: known to aiperf, not supported by this version of prefire; found 'p.yaml' (a string)."},
		{"misspelt", minimal(edit(ok, "requests", "reqests")), "run.yaml:6:31: benchmark.phases.reqests: Extra inputs are not " +
			"permitted: unknown key " +
			"'reqests' (did you mean 'requests'?). Allowed here: name, kind, type, requests, duration, sessions, concurrency, " +
			"grace_period, " +
			"exclude_from_results, concurrency_ramp, prefill_concurrency, prefill_ramp, cancellation, seamless, failed_request_threshold."},
		{"both spellings", minimal(ok + "\n  gpuTelemetry: {enabled: false}\n  tokenizer: {name: a, Name: b}"),
			"run.yaml:8:24: benchmark.tokenizer.Name: Extra inputs are not permitted: the key is given twice, as name in line 8."},
		{"a section of another type", minimal(ok + "\n  tokenizer: builtin"), "run.yaml:7:14: benchmark.tokenizer: Input should be a " +
			"valid dictionary: a " +
			"mapping with the keys name, revision, apply_chat_template; found 'builtin' (a string)."},
		{"model and models", minimal(ok + "\n  models: [x]"),
			"run.yaml:3:3: benchmark.model: 'model' cannot be used with 'models' (line 7). Use 'model' for a single model or 'models' " +
				"for multiple named models."},
		{"no models", edit(minimal(ok), "  model: m\n", ""), "benchmark.models.items: List should have at least 1 item after " +
			"validation, not 0. Name the " +
			"model with --model, or under models in the config file."},
		{"a model without a name", edit(minimal(ok), "model: m", "models: {items: [{nam: a}]}"),
			"run.yaml:3:21: benchmark.models.items.0.nam: Extra inputs are not permitted: unknown key 'nam' (did you mean 'name'?). " +
				"Allowed here: name, weight.\n" +
				"run.yaml:3:21: benchmark.models.items.0.name: Field required."},
		{"no endpoint", edit(minimal(ok), "  endpoint: {url: h}\n", ""), "run.yaml:3:3: benchmark.endpoint: Field required: where the " +
			"server is, for " +
			"example {urls: [\"http://localhost:8000\"]}."},
		{"endpoint", edit(minimal(ok), "{url: h}", "{urls: [], type: chatt, timeout: -1, streaming: 3, path: 4, api_key: 1, headers: "+
			"{X: 1}, extra: 5}"),
			"run.yaml:4:20: benchmark.endpoint.urls: List should have at least 1 item after validation, not 0.\n" +
				"run.yaml:4:30: benchmark.endpoint.type: Input should be " + oneOf(endpointTypes()) + "; found 'chatt' (a string).\n" +
				"run.yaml:4:70: benchmark.endpoint.path: Input should be a valid string; found 4 (an integer).\n" +
				"run.yaml:4:82: benchmark.endpoint.api_key: Input should be a valid string: put the key in quotes.\n" +
				"run.yaml:4:46: benchmark.endpoint.timeout: Input should be greater than or equal to 0; found -1 (an integer).\n" +
				"run.yaml:4:61: benchmark.endpoint.streaming: Input should be a valid boolean; found 3 (an integer).\n" +
				"run.yaml:4:98: benchmark.endpoint.headers.X: Input should be a valid string: put the value in quotes.\n" +
				"run.yaml:4:109: benchmark.endpoint.extra: Input should be a valid dictionary; found 5 (an integer)."},
		{"another endpoint type", edit(minimal(ok), "{url: h}", "{url: h, type: responses}"), "run.yaml:4:28: " +
			"benchmark.endpoint.type: 'responses' is " +
			"known to aiperf, not supported by this version of prefire, which has 'chat', 'completions' or 'embeddings'."},
		{"a bad URL", edit(minimal(ok), "url: h", "url: ftp://h"),
			"run.yaml:4:19: benchmark.endpoint.url: URL 'ftp://h' has unsupported scheme 'ftp'. Expected 'http' or 'https'."},
		{"two datasets", edit(minimal(ok), "dataset: {isl: 8}", "datasets: [{name: a}, {name: b}]"),
			"run.yaml:5:13: benchmark.datasets: List should have at most 1 item after validation, not 2: a run has one dataset."},
		{"a dataset without a name", edit(minimal(ok), "dataset: {isl: 8}", "datasets: [{isl: 3}]"),
			"run.yaml:5:15: benchmark.datasets.0: datasets[0] is " +
				"missing required 'name' field. Each dataset entry needs a name (e.g. 'main', 'eval')."},
		{"a public dataset", edit(minimal(ok), "{isl: 8}", "{type: public}"), "run.yaml:5:19: benchmark.dataset.type: 'public' is known to " +
			"aiperf, not supported by this version of prefire, which loads no data sets from the network: give a local copy as a dataset of type file."},
		{"a file without a name", edit(minimal(ok), "{isl: 8}", "{type: file}"), "run.yaml:5:13: benchmark.dataset.path: Field required: the dataset's file; or records, a list of its rows."},
		{"a file and lengths", edit(minimal(ok), "{isl: 8}", "{type: file, path: a, format: weka_trace, synthesis: {speedup_ratio: 2}, images: {}}"),
			"run.yaml:5:85: benchmark.dataset.images: Extra inputs are not permitted: unknown key 'images'. Allowed here: name, type, path, format, sampling, " +
				"synthesis, entries, random_seed, osl, inter_turn_delay_cap_seconds, block_size, ignore_trace_delays, records, prompt_batch_size, cache_bust, prompts, system_prompt, system_prompt_file.\n" +
				"run.yaml:5:42: benchmark.dataset.format: 'weka_trace' is known to aiperf, not supported by this version of prefire, which has 'single_turn', " +
				"'multi_turn', 'random_pool', 'mooncake_trace', 'bailian_trace', 'burst_gpt_trace', 'raw_payload', 'inputs_json' or 'sharegpt'.\n" +
				"run.yaml:5:66: benchmark.dataset.synthesis.speedup_ratio: known to aiperf, not supported by this version of prefire; found 2 (an integer)."},
		{"no lengths", edit(minimal(ok), "{isl: 8}", "{type: synthetic}"), "run.yaml:5:13: benchmark.dataset: All synthetic data are " +
			"disabled. Please enable " +
			"at least one of prompt, image, audio, or video: give the dataset an isl, or pass --isl."},
		{"lengths", edit(minimal(ok), "{isl: 8}", "{isl: 0, osl: {stddev: 1}, prompts: {isl: 3, block_size: 4}, images: {}}"),
			"run.yaml:5:73: benchmark.dataset.images: known to aiperf, not supported by this version of prefire; found a mapping.\n" +
				"run.yaml:5:57: benchmark.dataset.prompts.block_size: known to aiperf, not supported by this version of prefire; found " +
				"4 (an integer).\n" +
				"run.yaml:5:18: benchmark.dataset.isl: given twice: also as benchmark.dataset.prompts.isl in line 5.\n" +
				"run.yaml:5:27: benchmark.dataset.osl.mean: Field required."},
		{"an older key in 2.0", edit(minimal(ok), "{isl: 8}", "{isl: 8, prompt_template: {content: x}}"), "run.yaml:5:21: " +
			"benchmark.dataset.prompt_template: Extra inputs are not permitted: unknown key 'prompt_template'. It belongs to the older " +
			"config dialect; this " +
			"file is read as schema 2.0, because datasets is no mapping. Lengths are isl and osl here; or make datasets a mapping, as " +
			"in the older dialect."},
		{"a template in 2.0", edit(minimal(ok), "model: m", "model: \"{{ name }}\""),
			"run.yaml:3:10: benchmark.model: Jinja2 template error at 'benchmark.model': 'name' is undefined."},
		{"an open template", edit(minimal(ok), "model: m", "model: \"m{{ name\""),
			"run.yaml:3:10: benchmark.model: Jinja2 template error at 'benchmark.model': unbalanced '{{' with no closing '}}' in template."},
		{"a template of the older dialect in 2.0", edit(minimal(ok), "{isl: 8}", "{isl: 8, prompt_template: {content: \"{{ text }}\"}}"),
			"run.yaml:5:48: benchmark.dataset.prompt_template.content: Jinja2 template error at 'benchmark.dataset.prompt_template.content': 'text' is " +
				"undefined. The file is read as schema 2.0, because datasets is no mapping; {{name}} is a variable of prompt_template.content in the " +
				"older dialect alone, where datasets is a mapping."},
		{"variables in a circle", "variables: {c: 1, a: \"{{ b }}\", b: [\"{{ a + c }}\"]}\n" + minimal(ok),
			"run.yaml:1:19: variables.a: Circular reference among variables: a, b. Each is made of another of them."},
		{"variables that are none", "variables: [1]\n" + minimal(ok),
			"run.yaml:1:12: variables: Input should be a valid dictionary: a mapping of names to values; found a list of 1."},
		{"a refused filter", "variables: {x: \"{{ 3 | pprint }}\"}\n" + minimal(ok),
			"run.yaml:1:16: variables.x: Jinja2 template error at 'variables.x': the filter 'pprint' is not supported by prefire, which has abs, count, " +
				"d, default, float, int, length, lower, max, min, round, string, trim, upper."},
		{"phases", minimal("phases:\n    - {type: concurrency, name: x y, kind: profiling, requests: 0, duration: 0, sessions: 0, " +
			"concurrency: 0}\n" +
			"    - {name: foo, type: foo}\n    - {name: foo2, requests: 3}\n    - {name: warmup, type: concurrency, kind: profiling, " +
			"duration: 3x}\n" +
			"    - {name: bar, type: concurrency, requests: 3}\n    - {name: p, kind: profiling, type: fixed_schedule, rate: 3}\n    - 7\n    - {type: " +
			"concurrency, kind: profiling}\n" +
			"    - {name: profiling, type: concurrency, requests: 1, grace_period: 1, exclude_from_results: true}"),
			"run.yaml:7:8: benchmark.phases.0: String should match pattern '^[A-Za-z_][A-Za-z0-9_-]*$'; the phase's name is 'x y'.\n" +
				"run.yaml:7:65: benchmark.phases.0.requests: Input should be greater than or equal to 1; found 0 (an integer).\n" +
				"run.yaml:7:78: benchmark.phases.0.duration: Input should be greater than 0; found 0 (an integer).\n" +
				"run.yaml:7:91: benchmark.phases.0.sessions: Input should be greater than or equal to 1; found 0 (an integer).\n" +
				"run.yaml:7:107: benchmark.phases.0.concurrency: Input should be greater than or equal to 1; found 0 (an integer).\n" +
				"run.yaml:8:25: benchmark.phases.1.type: Input tag 'foo' found using 'type' does not match any of the expected tags: " +
				"concurrency, poisson, gamma, " +
				"constant, user_centric, fixed_schedule.\n" +
				"run.yaml:9:8: benchmark.phases.2: Unable to extract tag using discriminator 'type': a phase needs a type; this version " +
				"of prefire has 'concurrency', 'poisson', 'gamma', 'constant', 'user_centric' or 'fixed_schedule'.\n" +
				"run.yaml:10:8: benchmark.phases.3: Phase name 'warmup' is reserved for kind 'warmup'; got kind 'profiling'.\n" +
				"run.yaml:10:68: benchmark.phases.3.duration: Invalid duration format: '3x'. Use number, '30s', '5m', '2h', or 'inf'.\n" +
				"run.yaml:11:8: benchmark.phases.4: Phase 'bar': kind is required for non-canonical phase names. Set kind to 'warmup' " +
				"or 'profiling'.\n" +
				"run.yaml:12:56: benchmark.phases.5.rate: Extra inputs are not permitted: unknown key 'rate'. A phase of type 'fixed_schedule' has " +
				"none; it belongs to type 'poisson', 'gamma', 'constant' or 'user_centric'.\n" +
				"run.yaml:13:7: benchmark.phases.6: Input should be a valid dictionary: a mapping with the keys name, kind, type, " +
				"requests, duration, sessions, " +
				"concurrency, grace_period, exclude_from_results, concurrency_ramp, prefill_concurrency, prefill_ramp, cancellation, seamless, " +
				"failed_request_threshold; found 7 (an integer).\n" +
				"run.yaml:14:8: benchmark.phases.7.name: Field required: a phase in a list needs a name.\n" +
				"run.yaml:15:96: benchmark.phases.8.exclude_from_results: Phase 'profiling': exclude_from_results must be false for " +
				"kind 'profiling' (warmup is " +
				"always excluded; profiling is always included)."},
		{"rules between phases", minimal("phases:\n    - {name: a, kind: warmup, type: concurrency, requests: 1}\n    - {name: A, kind: " +
			"profiling, type: concurrency}\n" +
			"    - {name: b, kind: profiling, type: concurrency, requests: 1, grace_period: 3}"),
			"run.yaml:8:8: benchmark.phases.1: the phase name 'A' is given twice; names differ in more than their case.\n" +
				"run.yaml:8:8: benchmark.phases.1: Phase 'A': at least one of 'requests', 'duration', or 'sessions' must be specified.\n" +
				"run.yaml:9:80: benchmark.phases.2.grace_period: Phase 'b': grace_period requires duration to be set."},
		{"warm-up alone", minimal("phases: [{name: warmup, type: concurrency, requests: 1}]"),
			"run.yaml: benchmark.phases: at least one phase must have kind 'profiling': a run with warm-up alone measures nothing."},
		{"warmup without profiling", minimal("warmup: {type: concurrency, requests: 1}"), "run.yaml:6:3: benchmark.warmup: 'warmup' " +
			"requires 'profiling'. A " +
			"warmup-only config without a profiling phase would produce no results."},
		{"a missing variable", edit(minimal(ok), "model: m", "model: ${MISSING}"), "run.yaml:3:10: Required environment variable " +
			"'MISSING' is not set. Set " +
			"it, or use ${MISSING:default} to provide a default value."},
		{"an open reference", edit(minimal(ok), "model: m", `model: "${OPEN"`),
			"run.yaml:3:10: Unterminated environment variable reference: '${' has no closing '}'."},
		{"merging", "<<: [{a: 1}, 2]\n", "run.yaml:1:1: << takes mappings; found 2 (an integer)."},
		{"merging a word", "<<: x\n", "run.yaml:1:1: << takes a mapping; found 'x' (a string)."},
		{"a merged key twice over", edit(minimal(ok), "  model: m\n", "  <<: [{model: m}, {model: n, modle: 1}]\n"),
			"run.yaml:3:31: benchmark.modle: Extra " +
				"inputs are not permitted: unknown key 'modle' (did you mean 'model'?). Allowed here: models, model, endpoint, datasets, " +
				"dataset, phases, warmup, " +
				"profiling, artifacts, slos, tokenizer, network_latency, runtime, logging, server_metrics."},
		{"a section at both levels", "model: x\n" + minimal(ok), "run.yaml:1:1: benchmark.model: Extra inputs are not permitted: the " +
			"key is given twice, as " +
			"model in line 4."},
		{"a list as key", "? [a]\n: b\n", "run.yaml:2:1: not valid YAML: found an invalid key for this map."},
		{"a number of another kind", edit(minimal(ok), "{isl: 8}", "{isl: [8], osl: .inf, entries: 1.5, name: 3}"),
			"run.yaml:5:54: benchmark.dataset.name: Input should be a valid string; found 3 (an integer).\n" +
				"run.yaml:5:43: benchmark.dataset.entries: Input should be a valid integer; found 1.5 (a number).\n" +
				"run.yaml:5:18: benchmark.dataset.isl: Input should be a valid number; found a list of 1.\n" +
				"run.yaml:5:28: benchmark.dataset.osl: Input should be a valid number; found +Inf (a number)."},
		{"benchmark is no mapping", "benchmark: 3\n", "run.yaml:1:12: benchmark: Input should be a valid dictionary; found 3 (an " +
			"integer)."},
		{"models of another kind", edit(minimal(ok), "model: m", "models: {items: m}"),
			"run.yaml:3:19: benchmark.models.items: Input should be a valid list; found 'm' (a string)."},
		{"models without items", edit(minimal(ok), "model: m", "models: {strategy: random}"),
			"run.yaml:3:12: benchmark.models.items: Field required: a list of models, each with its name."},
		{"no dataset", edit(minimal(ok), "  dataset: {isl: 8}\n", ""),
			"run.yaml:3:3: benchmark.datasets: Field required: one dataset, for example [{name: main, type: synthetic, isl: 550}]."},
		{"datasets of another kind", edit(minimal(ok), "dataset: {isl: 8}", "datasets: 3"),
			"run.yaml:5:13: benchmark.datasets: datasets must be a list of named entries; found 3 (an integer)."},
		{"no phases", edit(minimal(ok), "  "+ok, "  runtime: {}"), "run.yaml:3:3: benchmark.phases: Field required: at least one phase, " +
			"for example [{name: " +
			"profiling, type: concurrency, requests: 100, concurrency: 10}]."},
		{"headers of another kind", edit(minimal(ok), "{url: h}", "{url: h, headers: [a]}"),
			"run.yaml:4:31: benchmark.endpoint.headers: Input should be a valid dictionary; found a list of 1."},
		{"a header name", edit(minimal(ok), "{url: h}", "{url: h, headers: {\"a b\": c}}"),
			"run.yaml:4:32: benchmark.endpoint.headers.a b: 'a b' is not a header name: letters, digits and - are allowed."},
		{"url and urls", edit(minimal(ok), "{url: h}", "{url: h, urls: [i]}"),
			"run.yaml:4:14: benchmark.endpoint.url: 'url' cannot be used with 'urls' (line 4). Use one of them."},
		// The older dialect.
		{"variables of another kind", edit(older, "{name: n}", "{name: n, variables: 3}"),
			"run.yaml:5:30: benchmark.datasets.d.0.variables: Input should be a valid list; found 3 (an integer)."},
		{"a variable twice", edit(older, "{name: n}", "{name: n, prompt_template: {content: \"{{x}}\"}, variables: [{name: x, values: "+
			"[a]}, {name: x, values: [b]}]}"),
			"run.yaml:5:99: benchmark.datasets.d.0.variables.1.name: the variable x is declared twice."},
		{"a variable without values", edit(older, "{name: n}", "{name: n, variables: [{name: x}, 5, {name: \"x y\", values: [a]}]}"),
			"run.yaml:5:32: benchmark.datasets.d.0.variables.0.values: Field required.\n" +
				"run.yaml:5:42: benchmark.datasets.d.0.variables.1: Input should be a valid dictionary: a mapping with the keys name, " +
				"values; found 5 (an integer).\n" +
				"run.yaml:5:52: benchmark.datasets.d.0.variables.2.name: a variable's name has letters, digits and _; found 'x y'."},
		{"a template without text", edit(older, "{name: n}", "{name: n, prompt_template: {}}"),
			"run.yaml:5:36: benchmark.datasets.d.0.prompt_template.content: Field required: the text of the template."},
		{"a 2.0 key in the older dialect", edit(older, "{name: n}", "{name: n, isl: 5}"), "run.yaml:5:19: benchmark.datasets.d.0.isl: " +
			"Extra inputs are not " +
			"permitted: unknown key 'isl'. It belongs to schema 2.0; this file is read in the older config dialect, because datasets is " +
			"a mapping in line 4. " +
			"Lengths are input_tokens and output_tokens of datasets.strategy here; or make datasets a list, as in schema 2.0."},
		{"concurrency in the older dialect", edit(older, "requests: 5", "requests: 5, concurrency: 3"),
			"run.yaml:7:44: benchmark.phases.concurrency: Extra " +
				"inputs are not permitted: unknown key 'concurrency'. This file is read in the older config dialect, because datasets is a " +
				"mapping in line 4; " +
				"there the number of concurrent sessions is `sessions`."},
		{"no strategy", edit(older, "    strategy: {type: fixed, input_tokens: 64}\n", ""),
			"run.yaml:5:5: benchmark.datasets.strategy: Field required: {type: fixed, input_tokens: N, output_tokens: N}."},
		{"no input tokens", edit(older, ", input_tokens: 64", ""), "run.yaml:6:16: benchmark.datasets.strategy.input_tokens: Field " +
			"required."},
		{"another strategy", edit(older, "fixed", "random"),
			"run.yaml:6:22: benchmark.datasets.strategy.type: Input should be 'fixed'; found 'random' (a string)."},
		{"two lists", edit(older, "    strategy", "    e: [{name: n}]\n    strategy"), "run.yaml:5:5: benchmark.datasets: the older " +
			"config dialect (recognised " +
			"because datasets is a mapping in line 4) has one list of one dataset here, under a name such as default, beside strategy; " +
			"found 2 lists."},
		{"two in the list", edit(older, "[{name: n}]", "[{name: n}, {name: o}]"), "run.yaml:5:5: benchmark.datasets.d: List should have " +
			"1 item, not 2: a run " +
			"has one dataset."},
		{"an undeclared variable", edit(older, "{name: n}", "{name: n, prompt_template: {content: \"a {{x}} {{ y }}\"}, variables: "+
			"[{name: y, values: [1]}]}"),
			"run.yaml:5:97: benchmark.datasets.d.0.variables.0.values.0: Input should be a valid string; found 1 (an integer).\n" +
				"run.yaml:5:46: benchmark.datasets.d.0.prompt_template.content: the template uses {{x}}, which variables does not " +
				"declare; declared: none.\n" +
				"run.yaml:5:46: benchmark.datasets.d.0.prompt_template.content: the template uses {{y}}, which variables does not " +
				"declare; declared: none."},
		{"an unused variable", edit(older, "{name: n}", "{name: n, prompt_template: {content: \"a {{x}}\"}, variables: [{name: x, "+
			"values: [a]}, {name: y, values: [b]}]}"),
			"run.yaml:5:10: benchmark.datasets.d.0.variables: the variable y is declared, but prompt_template.content does not use " +
				"{{y}}; used there: x."},
		{"no variable", edit(older, "{name: n}", "{name: n, prompt_template: {content: \"a {{ x y }}\"}}"),
			"run.yaml:5:46: benchmark.datasets.d.0.prompt_template.content: '{{ x y }}' is not a variable: {{name}} with letters, " +
				"digits and _ is."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := message(t, tt.yaml)
			if first, rest, ok := strings.Cut(got, "\n"); ok && strings.HasSuffix(first, " validation errors in the configuration:") {
				got = rest
			}
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestHugeFiles(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		a, b := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + b + ": &a" + b + " [" + strings.TrimSuffix(strings.Repeat("*a"+a+", ", 10), ", ") + "]\n"
	}
	for name, tt := range map[string]struct{ yaml, want string }{
		"aliases":  {bomb, "run.yaml:6:9: the file stands for more than 200000 values, its aliases filled in."},
		"brackets": {"a: " + strings.Repeat("[", 100_000), "run.yaml: nested deeper than 256 levels."},
		"dashes":   {strings.Repeat("- ", 100_000), "run.yaml: nested deeper than 256 levels."},
		"depth":    {"a: " + strings.Repeat("[", 300) + strings.Repeat("]", 300), "run.yaml:1:260: nested deeper than 256 levels."},
		"size":     {strings.Repeat("#", 5<<20), "run.yaml: the file has 5242880 bytes; a config file may have 4194304."},
	} {
		if got := message(t, tt.yaml); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestManyProblemsAreCut(t *testing.T) {
	var keys []string
	for i := range 60 {
		keys = append(keys, "x"+strings.Repeat("y", i)+": 1")
	}
	got := message(t, minimal("phases: {type: concurrency, requests: 5}\n  tokenizer: {"+strings.Join(keys, ", ")+"}"))
	if lines := strings.Split(got, "\n"); len(lines) != 52 || lines[0] != "60 validation errors in the "+
		"configuration:" || lines[51] != "... and 10 more" {
		t.Errorf("%d lines, first %q, last %q", len(lines), lines[0], lines[len(lines)-1])
	}
}
