package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wrongFile is a config file whose benchmark section ends in rest, below what comes before it.
func wrongFile(before, rest string) string {
	return before + "benchmark:\n  model: m\n  endpoint: {url: 'http://127.0.0.1:9'}\n  " + rest + "\n"
}

// Command lines and config files that cannot be run. Each ends with exit code 1 before anything is sent, with a message that has these words: the
// culprit's name, and what scripts know from aiperf.
func TestWrongInputEndsWithItsName(t *testing.T) {
	const load = "dataset: {isl: 8}\n  phases: {type: concurrency, requests: 1}"
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"ok.yaml":     wrongFile("", load),
		"two.yaml":    wrongFile("", "dataset: {isl: 8}\n  phases: [{name: a, kind: profiling, type: concurrency, requests: 1}, {name: b, kind: profiling, type: concurrency, requests: 1}]"),
		"empty.yaml":  "",
		"list.yaml":   "- a\n",
		"double.yaml": "benchmark: {}\nbenchmark: {}\n",
		"series.json": `{"points":[{"time_s":0,"qps":1}]}`,
		"rows.jsonl":  "{\"text\":\"a\"}\n{\"text\":7}\n",
		"open.yaml":   "a: [\n",
		"typo.yaml":   wrongFile("sweeps: {}\n", load),
		"key.yaml":    wrongFile("", strings.Replace(load, "requests", "request", 1)),
		"type.yaml":   wrongFile("", strings.Replace(load, "requests: 1", "requests: many", 1)),
		"tag.yaml":    wrongFile("", strings.Replace(load, "type: concurrency", "type: burst", 1)),
		"stop.yaml":   wrongFile("", "dataset: {isl: 8}\n  phases: {type: concurrency}"),
		"name.yaml":   wrongFile("", "dataset: {isl: 8}\n  phases: [{name: load, type: concurrency, requests: 1}]"),
		"sets.yaml":   wrongFile("", "datasets: [{name: a, isl: 8}, {name: b, isl: 8}]\n  phases: {type: concurrency, requests: 1}"),
		"both.yaml":   wrongFile("", "datasets: [{name: a, isl: 8}]\n  "+load),
		"old.yaml":    wrongFile("schema_version: 2.0\n", load),
		"env.yaml":    wrongFile("", strings.Replace(load, "isl: 8", "isl: '${PREFIRE_NOT_SET}'", 1)),
		"undef.yaml":  wrongFile("", strings.Replace(load, "isl: 8", "isl: '{{ lenght }}'", 1)),
		"circle.yaml": wrongFile("variables: {a: '{{ b }}', b: '{{ a }}'}\n", load),
		"null.yaml":   wrongFile("", "dataset: {isl: 8}\n  phases:"),
		"head.yaml":   strings.Replace(wrongFile("", load), "'http://127.0.0.1:9'", "'http://127.0.0.1:9', headers: {X: 1}", 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ args, want string }{
		// Typos, and flags without their value.
		{"", `Command "profile" parameter --cli-config requires an argument.`},
		{"-m|m|--no-streaming", "Unknown option: --no-streaming. Did you mean --streaming?"},
		{"-m|m|--concurency|3", "Unknown option: --concurency. Did you mean --concurrency?"},
		{"-m|m|--reqest-count|3", "Unknown option: --reqest-count. Did you mean --request-count?"},
		{"--model", `Command "profile" parameter --model requires an argument.`},
		{"-m|m|--url|--streaming", `Command "profile" parameter --url requires an argument.`},
		{"-m|m|extra", "Unused Tokens: ['extra']."},
		{"-m|m|--streaming|true", "Unused Tokens: ['true']."},
		{"-m|m|--concurrency|1|--concurrency|2", "Parameter --concurrency specified multiple times."},
		{"-m|m|--streaming=maybe", "--streaming: Input should be a valid boolean"},
		// Wrong types and values.
		{"-m|m|--concurrency|many", "--concurrency: Input should be a valid integer"},
		{"-m|m|--concurrency|0", "--concurrency: Input should be greater than or equal to 1"},
		{"-m|m|--isl|128.5", "--isl: Input should be a valid integer"},
		{"-m|m|--request-rate|fast", "--request-rate: Input should be a valid number"},
		{"-m|m|--request-rate|-1", "--request-rate: Input should be greater than 0"},
		{"-m|m|--benchmark-duration|3x", "--benchmark-duration: Invalid duration format: '3x'. Use number, '30s', '5m', '2h', or 'inf'."},
		{"-m|m|--request-timeout-seconds|0", "--request-timeout-seconds: Input should be greater than 0"},
		{"-m|m|--endpoint-type|chatt", "--endpoint-type: Input should be "},
		{"-m|m|--ui|fancy", "--ui: Input should be 'dashboard', 'none' or 'simple'"},
		{"-m|m|--arrival-pattern|bursty", "--arrival-pattern: Input should be "},
		{"-m|m|--random-seed|-3", "--random-seed: Input should be greater than or equal to 0"},
		{"-m|m|--request-cancellation-rate|101", "--request-cancellation-rate: Input should be less than or equal to 100"},
		{"-m|m|--failed-request-threshold|2", "--failed-request-threshold: Input should be less than or equal to 1"},
		{"-m|m|--extra-inputs|temperature", "each item must be in 'key:value' format"},
		{"-m|m|--header|nothing", "each item must be in 'key:value' format"},
		{"-m|m|--url|ftp://h", "URL 'ftp://h' has unsupported scheme 'ftp'."},
		{"-m|m|--url|http://h:99999", "URL 'http://h:99999' has an invalid port. Ports must be integers in the range 1..65535."},
		{"-m|m|--url|http://a b", "URL 'http://a b' contains whitespace."},
		{"-m|m|--endpoint|v1/chat", "endpoint.path must start with a leading slash"},
		{"-m|m|--seq-dist|128,64:50", "Probabilities must sum to 100.0"},
		{"-m|m|--seq-dist|128x64", "Invalid pair format: '128x64'."},
		// Conflicts.
		{"--concurrency|2", "benchmark.models.items: List should have at least 1 item after validation, not 0."},
		{"-m|m|--benchmark-grace-period|3", "--benchmark-grace-period requires --benchmark-duration to be set."},
		{"-m|m|--num-users|3", "--num-users requires --user-centric-rate."},
		{"-m|m|--user-centric-rate|3|--num-users|3", "User-centric rate mode requires --session-turns-mean >= 2."},
		{"-m|m|--user-centric-rate|3|--num-users|4|--session-turns-mean|2|--num-sessions|3", "--num-sessions (3) must be >= --num-users (4)."},
		{"-m|m|--request-rate|3|--request-rate-series|series.json", "--request-rate and --request-rate-series are mutually exclusive."},
		{"-m|m|--request-rate-ramp-duration|3", "--request-rate-ramp-duration can only be used with rate-controlled scheduling"},
		{"-m|m|--request-rate|3|--arrival-pattern|constant|--arrival-smoothness|2", "--arrival-smoothness is only supported with --arrival-pattern gamma."},
		{"-m|m|--prefill-concurrency|3|--concurrency|2|--streaming", "prefill_concurrency must be <= concurrency"},
		{"-m|m|--prefill-concurrency|1", "prefill_concurrency requires endpoint.streaming=true"},
		{"-m|m|--request-cancellation-delay|3", "--request-cancellation-delay requires --request-cancellation-rate to be set"},
		{"-m|m|--warmup-grace-period|3", "--warmup-grace-period was supplied without any warmup trigger"},
		{"-m|m|--system-prompt|a|--shared-system-prompt-length|5", "a system prompt cannot be combined with"},
		{"-m|m|--random-range-ratio|0.5", "--random-range-ratio requires --isl to be set explicitly."},
		{"-m|m|--input-file|rows.jsonl|--isl|5", "--isl is only supported with synthetic datasets; remove --input-file / --public-dataset"},
		{"-m|m|--wait-for-model-mode|both", "--wait-for-model-mode has no effect unless --wait-for-model-timeout is set"},
		{"-m|m|--num-profile-runs|1|--profile-run-cooldown-seconds|5", "only applies when running multiple trials (--num-profile-runs > 1)."},
		{"-m|m|--search-planner|bayesian", "--search-planner: not part of prefire"},
		// Files.
		{"-f|none.yaml", "Configuration file not found: none.yaml\nFile: none.yaml"},
		{"-f|.", "Configuration file cannot be read: "},
		{"-m|m|--request-rate-series|none.json", "Cannot read request-rate series JSON 'none.json'"},
		{"-m|m|--request-rate-series|series.json", "Request-rate series requires at least two points"},
		{"-m|m|--system-prompt-file|none.txt", "--system-prompt-file: the system prompt cannot be read"},
		{"-m|m|--tokenizer|builtin|--input-file|none.jsonl", "none.jsonl cannot be read: no such file"},
		{"-m|m|--tokenizer|builtin|--input-file|rows.jsonl", "rows.jsonl:2: "},
		{"-m|m|--tokenizer|no/such-model", "no/such-model"},
		{"-f|empty.yaml", "empty.yaml: Configuration file is empty."},
		{"-f|list.yaml", "list.yaml:1:1: a config file is a mapping"},
		{"-f|double.yaml", "double.yaml:2:1: "},
		{"-f|open.yaml", "open.yaml:1:4: not valid YAML"},
		{"-f|typo.yaml", "Unknown top-level envelope key(s): 'sweeps' (did you mean 'sweep'?)"},
		{"-f|key.yaml", "key.yaml:5:31: benchmark.phases.request: Extra inputs are not permitted: unknown key 'request' (did you mean 'requests'?)"},
		{"-f|type.yaml", "type.yaml:5:41: benchmark.phases.requests: Input should be a valid integer; found 'many'"},
		{"-f|tag.yaml", "tag.yaml:5:18: benchmark.phases.type: Input tag 'burst' found using 'type' does not match any of the expected tags"},
		{"-f|stop.yaml", "at least one of 'requests', 'duration', or 'sessions' must be specified."},
		{"-f|name.yaml", "Phase 'load': kind is required for non-canonical phase names. Set kind to 'warmup' or 'profiling'."},
		{"-f|sets.yaml", "List should have at most 1 item after validation, not 2"},
		{"-f|both.yaml", "'dataset' cannot be used with 'datasets'"},
		{"-f|old.yaml", "old.yaml:1:17: schema_version: Input should be '2.0'"},
		{"-f|env.yaml", "Required environment variable 'PREFIRE_NOT_SET' is not set."},
		{"-f|undef.yaml", "Jinja2 template error at 'benchmark.dataset.isl': 'lenght' is undefined"},
		{"-f|circle.yaml", "Circular reference among variables: a, b"},
		{"-f|null.yaml", "null.yaml:5:3: benchmark.phases: Input should be a valid value; found nothing (null)."},
		{"-f|head.yaml", "benchmark.endpoint.headers.X: Input should be a valid string"},
		{"-f|two.yaml|--concurrency|3", "CLI loadgen flags target the profiling phase, but this config has 2 profiling phases: a, b."},
		{"-f|ok.yaml|--warmup-concurrency|3", "--warmup-concurrency needs a warmup phase to apply to."},
		{"-f|ok.yaml|--input-file|rows.jsonl", "--input-file applies to a file dataset, but the config file declares type: synthetic"},
		{"-f|ok.yaml|--num-users|3", "--num-users requires --user-centric-rate."},
	}
	if len(tests) < 60 {
		t.Errorf("%d wrong inputs", len(tests))
	}
	for _, tt := range tests {
		args := []string{"profile"}
		if tt.args != "" {
			args = append(args, strings.Split(tt.args, "|")...)
		}
		p := <-start(nil, nil, args...)
		if p.code != exitFailed || !strings.Contains(p.stderr, tt.want) || p.stdout != "" {
			t.Errorf("%s ended with %d\n%s%swant 1 and %q", tt.args, p.code, p.stdout, p.stderr, tt.want)
		}
	}
	if _, err := os.Stat("artifacts"); err == nil {
		t.Error("a run that could not be run has left a folder of results")
	}
}
