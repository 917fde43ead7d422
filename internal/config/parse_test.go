package config

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"prefire/metrics"
)

// quiet is what a command line needs to have no notices of its own.
var quiet = []string{"--model", "m", "--request-count", "5", "--no-gpu-telemetry", "--no-server-metrics"}

// base is the config of quiet.
func base() Config {
	return Config{
		Models:    []string{"m"},
		Endpoint:  Endpoint{URLs: []string{"http://localhost:8000"}, Type: "chat", Timeout: 6 * time.Hour, HTTP: "auto"},
		Dataset:   Dataset{Name: "main", Input: Length{Mean: 550}},
		Phases:    []Phase{{Name: "profiling", Concurrency: 1, Requests: 5, Grace: Infinite, Load: closedLoad()}},
		Tokenizer: "m", Artifacts: Artifacts{Dir: "artifacts/m-openai-chat-concurrency1"},
		LogLevel: "INFO", Client: "auto", Prewarm: true, StreamsPerConn: 16,
	}
}

func TestArguments(t *testing.T) {
	seed := uint64(7)
	zero := uint64(0)
	tests := []struct {
		name string
		args string // split at |
		want func(c *Config)
	}{
		{"defaults", "", func(*Config) {}},
		{"= and _", "--request_timeout_seconds=60", func(c *Config) { c.Endpoint.Timeout = time.Minute }},
		{"units on a seconds flag", "--request-timeout-seconds|2m", func(c *Config) { c.Endpoint.Timeout = 2 * time.Minute }},
		{"fractions of a second", "--request-timeout-seconds|0.25", func(c *Config) { c.Endpoint.Timeout = 250 * time.Millisecond }},
		{"exponents", "--request-timeout-seconds|1e3", func(c *Config) { c.Endpoint.Timeout = 1000 * time.Second }},
		{"short flags", "-u|a:1|-HX:y|-v", func(c *Config) {
			c.Endpoint.URLs = []string{"http://a:1"}
			c.Endpoint.Headers = []KeyValue{{"X", "y"}}
			c.LogLevel, c.UI = "DEBUG", "simple"
		}},
		{"-uX", "-uhttps://h", func(c *Config) { c.Endpoint.URLs = []string{"https://h"} }},
		{"_ for -", "--artifact_dir|out", func(c *Config) { c.Artifacts.Dir = "out" }},
		{"-u=X", "-u=https://h", func(c *Config) { c.Endpoint.URLs = []string{"https://h"} }},
		{"several words, commas and repeats", "--url|a|b,c|--streaming|--url|d:4", func(c *Config) {
			c.Endpoint.URLs = []string{"http://a", "http://b", "http://c", "http://d:4"}
			c.Endpoint.Streaming = true
		}},
		{"switches", "--streaming|--use-legacy-max-tokens=true|--use-server-token-count=FALSE", func(c *Config) {
			c.Endpoint.Streaming, c.Endpoint.LegacyMaxTokens = true, true
		}},
		{"case-blind choices", "--ui|NONE|--endpoint-type|Chat", func(c *Config) { c.UI = "none" }},
		{"an interval of lines", "--stats-interval|2.5", func(c *Config) { every := 2500 * time.Millisecond; c.StatsInterval = &every }},
		{"no lines", "--stats_interval=0", func(c *Config) { c.StatsInterval = new(time.Duration) }},
		{"-vv", "-v|-vv|--log-level|error|--ui|none", func(c *Config) { c.LogLevel, c.UI = "TRACE", "simple" }},
		{"a log's level", "--log-level|warning", func(c *Config) { c.LogLevel = "WARNING" }},
		{"one item of a list is a scalar", "--concurrency|4,", func(c *Config) {
			c.Phases[0].Concurrency, c.Artifacts.Dir = 4, "artifacts/m-openai-chat-concurrency4"
		}},
		{"a duration", "--benchmark-duration|5m", func(c *Config) {
			c.Phases[0].Duration, c.Phases[0].Grace = 5*time.Minute, 30*time.Second
		}},
		{"no end of the grace", "--benchmark-duration|10|--benchmark-grace-period|inf", func(c *Config) {
			c.Phases[0].Duration, c.Phases[0].Grace = 10*time.Second, Infinite
		}},
		{"no grace", "--benchmark-duration|10|--benchmark-grace-period|0", func(c *Config) {
			c.Phases[0].Duration, c.Phases[0].Grace = 10*time.Second, 0
		}},
		{"sessions", "--num-sessions|3", func(c *Config) { c.Phases[0].Sessions = 3 }},
		{"warm-up takes the concurrency", "--concurrency|3|--num-warmup-requests|2", func(c *Config) {
			c.Phases[0].Concurrency, c.Artifacts.Dir = 3, "artifacts/m-openai-chat-concurrency3"
			c.Phases = append([]Phase{{Name: "warmup", Kind: metrics.Warmup, Concurrency: 3, Requests: 2, Grace: Infinite, Load: closedLoad()}}, c.Phases...)
		}},
		{"warm-up of its own", "--warmup-duration|3s|--warmup-concurrency|2|--warmup-grace-period|1|--num-warmup-sessions|9",
			func(c *Config) {
				c.Phases = append([]Phase{{
					Name: "warmup", Kind: metrics.Warmup, Concurrency: 2, Sessions: 9, Duration: 3 * time.Second, Grace: time.Second,
					Load: closedLoad(),
				}}, c.Phases...)
			}},
		{"lengths", "--isl|32|--isl-stddev|2.5|--osl|8|--osl-stddev|1", func(c *Config) {
			c.Dataset.Input, c.Dataset.Output = Length{Mean: 32, Stddev: 2.5}, Length{Mean: 8, Stddev: 1}
		}},
		{"prompts", "--num-prompts|3", func(c *Config) { c.Dataset.Entries = 3 }},
		{"seed", "--random-seed|7", func(c *Config) { c.Seed = &seed }},
		{"seed 0 is a seed", "--random-seed|0", func(c *Config) { c.Seed = &zero }},
		{"tokenizer", "--tokenizer|builtin", func(c *Config) { c.Tokenizer = "builtin" }},
		{"revision of a tokenizer", "--tokenizer|a/b|--tokenizer-revision|v2", func(c *Config) { c.Tokenizer, c.TokenizerRevision = "a/b", "v2" }},
		{"a folder as given", "--artifact-dir|results/x", func(c *Config) { c.Artifacts.Dir = "results/x" }},
		{"prefix", "--profile-export-prefix|/tmp/run1_raw.jsonl", func(c *Config) { c.Artifacts.Prefix = "run1" }},
		{"path", "--endpoint|/my/chat", func(c *Config) { c.Endpoint.Path = "/my/chat" }},
		{"key", "--api-key|k-1", func(c *Config) { c.Endpoint.APIKey = "k-1" }},
		{"a key that looks like a flag", "--api-key=--model", func(c *Config) { c.Endpoint.APIKey = "--model" }},
		{"headers with commas and colons", "-H|Accept: a, b|-H|X: 1,Y: http://h,z://|--header|D:Tue, 15 Nov 1994 08:12:31 GMT",
			func(c *Config) {
				c.Endpoint.Headers = []KeyValue{{"Accept", "a, b"}, {"X", "1"}, {"Y", "http://h,z://"}, {"D", "Tue, 15 Nov 1994 08:12:31 GMT"}}
			}},
		{"headers as JSON", `-H|{"X": "a,b:c", "N": 3}|Y:2`, func(c *Config) {
			c.Endpoint.Headers = []KeyValue{{"X", "a,b:c"}, {"N", "3"}, {"Y", "2"}}
		}},
		{"a header given again replaces", "-H|X:1|-H|X:2", func(c *Config) { c.Endpoint.Headers = []KeyValue{{"X", "2"}} }},
		{"extra inputs", `--extra-inputs|a:1,b:1.5|c:true|d:None|e:1e5|f:007|g:-3|h:x:y|i:[1, "x,y:z", {"k":2}]|{"j":{"b":1,"a":[]}}`,
			func(c *Config) {
				c.Endpoint.Extra = []KeyValue{
					{"a", int64(1)}, {"b", 1.5}, {"c", true}, {"d", nil}, {"e", "1e5"}, {"f", "007"}, {"g", int64(-3)}, {"h", "x:y"},
					{"i", []any{int64(1), "x,y:z", Map{{"k", int64(2)}}}},
					{"j", Map{{"b", int64(1)}, {"a", []any{}}}},
				}
			}},
		{"the other client", "--client|Reactor", func(c *Config) { c.Client = "reactor" }},
		{"connections of each session's own", "--connection-reuse-strategy|Sticky_User-Sessions", func(c *Config) { c.Endpoint.Reuse = "sticky-user-sessions" }},
		{"ours", "--client|portable|--http|1.1|--no-prewarm|--streams-per-connection|4", func(c *Config) {
			c.Client, c.Endpoint.HTTP, c.Prewarm, c.StreamsPerConn = "portable", "1.1", false, 4
		}},
		{"--prewarm=false", "--prewarm=false", func(c *Config) { c.Prewarm = false }},
		{"live metrics", "--live-metrics|9464", func(c *Config) { c.LiveMetrics = "9464" }},
		{"report", "--report", func(c *Config) { c.Report = true }},
		{"include cold has no prewarm", "--include-cold", func(c *Config) { c.IncludeCold, c.Prewarm = true, false }},
		{"h2c", "--http|h2c", func(c *Config) { c.Endpoint.HTTP = "h2c" }},
		{"h2 over TLS", "--http|2|-u|https://h", func(c *Config) {
			c.Endpoint.HTTP, c.Endpoint.URLs = "2", []string{"https://h"}
		}},
		{"values of refused flags that change nothing",
			"--num-profile-runs|1|--export-level|records|--request-content-type|application/json|--fixed-schedule=no|" +
				"--no-auto-plot|--open-loop-replay",
			func(*Config) {}},
		{"flags without a meaning here", "--workers-max|3|--zmq-dual-bind", func(c *Config) {
			c.Notices = []string{
				"--workers-max has no effect: prefire runs its load in one process and has no workers.",
				"--zmq-dual-bind has no effect: prefire has no ZMQ services.",
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := slices.Clone(quiet)
			if tt.args != "" {
				args = append(args, strings.Split(tt.args, "|")...)
			}
			got := mustParse(t, "", args...)
			got.Input, got.Command = nil, ""
			want := base()
			tt.want(&want)
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("got\n%+v\nwant\n%+v", *got, want)
			}
		})
	}
}

func TestNotices(t *testing.T) {
	c := mustParse(t, "", "--model", "test-model")
	want := []string{
		"No --request-count, --benchmark-duration or --num-conversations given: the run stops after 10 requests.",
		"Model name 'test-model' looks like a placeholder; defaulting tokenizer to 'builtin' (tiktoken o200k_base). Pass --tokenizer " +
			"<name> to override.",
		"This version of prefire collects no GPU telemetry (as with --no-gpu-telemetry).",
	}
	if !slices.Equal(c.Notices, want) {
		t.Errorf("notices %q, want %q", c.Notices, want)
	}
	if c.Tokenizer != "builtin" || c.Phases[0].Requests != 10 {
		t.Errorf("tokenizer %q and %d requests, want builtin and 10", c.Tokenizer, c.Phases[0].Requests)
	}
}

func TestPlaceholderModels(t *testing.T) {
	for name, want := range map[string]bool{
		"test": true, "Mock": true, "mock-llama": true, "Test_Model_v2": true, "my_model": true, "gpt-mock": true, "model-id-7": true,
		"Qwen/Qwen3-0.6B": false, "./test": false, "~test": false, "contestant": false, "testing": false, "org/test": false, "": false,
	} {
		if got := isPlaceholder(name); got != want {
			t.Errorf("isPlaceholder(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestPrefixes(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "run": "run", "run.json": "run", "run.jsonl": "run", "run_raw.jsonl": "run", "run_server_metrics.parquet": "run",
		"run.txt":         "run.txt",
		"run_console.txt": "run", "/a/b/run.csv": "run", "a/run.csv": "a/run", "run_timeslices.csv": "run",
		"run_timeslices": "run_timeslices",
	} {
		if got := basePrefix(given); got != want {
			t.Errorf("basePrefix(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestFolderNames(t *testing.T) {
	for _, tt := range []struct{ yaml, args, want string }{
		{"", "--model|org/my model|--concurrency|10", "artifacts/org_my model-openai-chat-concurrency10"},
		{minimal("phases: [{name: warmup, type: concurrency, requests: 1, concurrency: 3}, {name: p, kind: profiling, type: " +
			"concurrency, requests: 1, " +
			"concurrency: 8}]"), "", "artifacts/m-openai-chat-concurrency8"},
		{minimal("phases: {type: concurrency, requests: 1}\n  artifacts: {dir: out}"), "", "out"},
		{minimal("phases: {type: concurrency, requests: 1}\n  artifacts: {dir: out}"), "--artifact-dir|there", "there"},
	} {
		var args []string
		if tt.args != "" {
			args = strings.Split(tt.args, "|")
		}
		if got := mustParse(t, tt.yaml, args...).Artifacts.Dir; got != tt.want {
			t.Errorf("%q: folder %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestHelpIsAskedFor(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--model", "m", "--help"}, {"--url", "a", "-h"}} {
		if _, err := Parse(args, noEnv, files(nil)); err != ErrHelp {
			t.Errorf("Parse(%q): %v, want ErrHelp", args, err)
		}
	}
}

func TestBadArguments(t *testing.T) {
	tests := []struct {
		args string // split at |
		want string
	}{
		// Texts that scripts know from aiperf.
		{"", `Command "profile" parameter --cli-config requires an argument.`},
		{"--model", `Command "profile" parameter --model requires an argument.`},
		{"--model|--streaming", `Command "profile" parameter --model requires an argument.`},
		{"-m|m|-u", `Command "profile" parameter -u requires an argument.`},
		{"--model|m|--no-streaming", "Unknown option: --no-streaming. Did you mean --streaming?"},
		{"--model|m|--concurrncy|3", "Unknown option: --concurrncy. Did you mean --concurrency?"},
		{"--model|m|--zzz", "Unknown option: --zzz."},
		{"--model|m|-x", "Unknown option: -x."},
		{"--model|m|--url|h:1|h:2|-x", "Unknown option: -x."},
		{"--model|m|x|it's", `Unused Tokens: ['x', "it's"].`},
		{"--model|m|--streaming|true", "Unused Tokens: ['true']."},
		{"--model|m|--concurrency|3|--concurrency|4", "Parameter --concurrency specified multiple times."},
		{"--model|m|--num-sessions|3|--num-conversations|4", "Parameter --num-conversations specified multiple times. --num-sessions is " +
			"another name of it."},
		{"--model|m|--streaming|--streaming", "Parameter --streaming specified multiple times."},
		{"--model|m|--prewarm|--no-prewarm", "Parameter --no-prewarm specified multiple times. --prewarm is another name of it."},
		{"--concurrency|4", "benchmark.models.items: List should have at least 1 item after validation, not 0. Name the model with " +
			"--model, or under " +
			"models in the config file."},
		{"-m|m|--benchmark-grace-period|3", "--benchmark-grace-period requires --benchmark-duration to be set. Grace period only " +
			"applies after a " +
			"duration-bounded run; drop --benchmark-grace-period or pass --benchmark-duration as well."},
		{"-m|m|--warmup-grace-period|3", "--warmup-grace-period was supplied without any warmup trigger; warmup runs only when " +
			"--warmup-request-count, --num-warmup-sessions, or --warmup-duration is set. Pass --warmup-duration, or drop " +
			"--warmup-grace-period."},
		{"-m|m|--warmup-grace-period|3|--warmup-request-count|1", "--warmup-grace-period requires --warmup-duration; grace_period " +
			"applies only to " +
			"duration-bounded warmup phases. Either set --warmup-duration, or drop --warmup-grace-period when using " +
			"--warmup-request-count / " +
			"--num-warmup-sessions."},
		{"-m|m|--warmup-concurrency|3", "--warmup-concurrency needs a warmup phase to apply to. Pass a warmup trigger " +
			"(--warmup-request-count / " +
			"--num-warmup-sessions / --warmup-duration)."},
		// Values.
		{"-m|m|--concurrency|abc", "--concurrency: Input should be a valid integer, got 'abc'."},
		{"-m|m|--concurrency|0", "--concurrency: Input should be greater than or equal to 1, got '0'."},
		{"-m|m|--concurrency|1000001", "--concurrency: Input should be less than or equal to 1000000, got '1000001'."},
		{"-m|m|--concurrency|", "--concurrency: Input should be a valid integer, got ''."},
		{"-m|m|--isl|128.5", "--isl: Input should be a valid integer, got '128.5'."},
		{"-m|m|--isl|0", "--isl: Input should be greater than or equal to 1, got '0'."},
		{"-m|m|--osl|0", "--osl: Input should be greater than or equal to 1, got '0'."},
		{"-m|m|--isl-stddev|nan", "--isl-stddev: Input should be a valid number, got 'nan'."},
		{"-m|m|--osl-stddev|3", "--osl-stddev: Field required: a stddev of the output length needs its mean (--osl)."},
		{"-m|m|--isl|1,2", "--isl: sweeps and repeats belong to prefire profile; this command makes its runs itself: leave it out."},
		{"-m|m|--random-seed|-1", "--random-seed: Input should be greater than or equal to 0, got '-1'."},
		{"-m|m|--warmup-request-count|0", "--warmup-request-count: Input should be greater than 0, got '0'."},
		{"-m|m|--request-timeout-seconds|0", "--request-timeout-seconds: Input should be greater than 0, got '0'."},
		{"-m|m|--request-timeout-seconds|inf", "--request-timeout-seconds: Input should be a finite number, got 'inf'."},
		{"-m|m|--benchmark-duration|1e12", "--benchmark-duration: Input should be less than or equal to 1000000000 seconds, got '1e12'."},
		{"-m|m|--benchmark-duration|3x", "--benchmark-duration: Invalid duration format: '3x'. Use number, '30s', '5m', '2h', or 'inf'."},
		{"-m|m|--ui|foo", "--ui: Input should be 'dashboard', 'none' or 'simple', got 'foo'."},
		{"-m|m|--streaming=maybe", "--streaming: Input should be a valid boolean, got 'maybe'."},
		{"-m|m|--endpoint-type|responses", "--endpoint-type responses: not supported yet by this version of prefire, which has " +
			"'chat', 'completions' or 'embeddings'."},
		{"-m|m|--transport|grpc", "--transport: Input should be 'http', got 'grpc'."},
		{"-m|m|--header|foo", "--header: each item must be in 'key:value' format: write Name:value."},
		{"-m|m|--header|a b:c", "--header: 'a b' is not a header name: letters, digits and - are allowed."},
		{"-m|m|--header|X:a\nb", "--header: the value of header X has a line end or a null byte in it."},
		{"-m|m|--extra-inputs|foo", "--extra-inputs: 'foo': each item must be in 'key:value' format."},
		{"-m|m|--extra-inputs|a:[1", "--extra-inputs: 'a:[1': must be a valid JSON string: it ends too early."},
		{"-m|m|--extra-inputs|{\"a\":1} x", "--extra-inputs: must be a valid JSON string: text after the value."},
		{"-m|m|--url|ftp://x", "--url: URL 'ftp://x' has unsupported scheme 'ftp'. Expected 'http' or 'https'."},
		{"-m|m|--url|http://x:99999", "--url: URL 'http://x:99999' has an invalid port. Ports must be integers in the range 1..65535."},
		{"-m|m|--url|http://x:abc", "--url: URL 'http://x:abc' has an invalid port. Ports must be integers in the range 1..65535."},
		{"-m|m|--url|http://:80", "--url: URL 'http://:80' is missing scheme or host. Expected 'http://host:port' or 'https://host:port'."},
		{"-m|m|--url|http://a b", "--url: URL 'http://a b' contains whitespace. URLs must not contain spaces, tabs, or newlines."},
		{"-m|m|--url|javascript:alert", "--url: URL 'javascript:alert' is missing scheme or host. Expected 'http://host:port' or " +
			"'https://host:port'."},
		{"-m|m|--custom-endpoint|foo", "--custom-endpoint: endpoint.path must start with a leading slash; found 'foo'."},
		{"-m|m|--http|2", "--http: HTTP/2 needs TLS, and http://localhost:8000 is in the clear: use an https URL, or --http h2c."},
		{"-m|m|--http|h2c|-u|https://u:p@h", "--http: h2c is HTTP/2 in the clear, and https://<redacted>@h uses TLS: use --http 2 or " +
			"auto."},
		{"-m|m|--include-cold|--prewarm", "--prewarm: --include-cold measures cold requests, so it cannot be combined with --prewarm. " +
			"Drop one of them."},
		{"-f|nope.yaml", "Configuration file not found: nope.yaml\nFile: nope.yaml"},
		// All that are refused are named at once.
		{"-m|m|--gpu-telemetry|x|--search-space|a:1,2|--otel-url|u", "--gpu-telemetry: not supported yet by this version of prefire; GPU telemetry is " +
			"not collected.\n--search-space: not part of prefire: searches and their recipes need aiperf; a sweep over a list of values is run here.\n" +
			"--otel-url: not part of prefire, which publishes nothing: send the result files yourself."},
		{"-m|m|--mlflow-tag|a:b|c:d|--auto-plot", "--mlflow-tag: not part of prefire, which publishes nothing: send the result files " +
			"yourself.\n--auto-plot: " +
			"not supported yet by this version of prefire: aiperf's own plot command reads prefire's files."},
	}
	for _, tt := range tests {
		var args []string
		if tt.args != "" {
			args = strings.Split(tt.args, "|")
		}
		got := message(t, "", args...)
		// What follows the first line is advice beside aiperf's text.
		if strings.HasPrefix(got, tt.want) && strings.HasPrefix(got[len(tt.want):], "\n") {
			continue
		}
		if got != tt.want {
			t.Errorf("%q:\ngot  %s\nwant %s", args, got, tt.want)
		}
	}
}

func TestEveryRefusedFlagIsRefusedByName(t *testing.T) {
	for _, f := range Flags() {
		if f.Status == Supported {
			continue
		}
		for _, n := range f.Names {
			args := append(slices.Clone(quiet), n)
			switch {
			case slices.Contains(f.Same, "true"):
				args[len(args)-1] += "=false"
			case f.Kind != Bool:
				value := "9"
				if f.Choices != nil {
					value = f.Choices[0]
				}
				args = append(args, value)
			}
			c, err := Parse(args, noEnv, files(nil))
			switch f.Status {
			case Refused:
				var e *Error
				if want := n + ": " + f.Reason + "."; !errors.As(err, &e) || e.Msg != want {
					t.Errorf("%s: %v, want %q", n, err, want)
				}
			case Notice:
				if want := []string{n + " has no effect: " + f.Reason + "."}; err != nil || !slices.Equal(c.Notices, want) {
					t.Errorf("%s: %v, %v; want the notice %q", n, c, err, want)
				}
			}
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	read := func(string) ([]byte, error) {
		return nil, &fs.PathError{Op: "read", Path: "d", Err: errors.New("is a directory")}
	}
	_, err := Parse([]string{"-f", "d"}, noEnv, read)
	want := &Error{Title: "Error Running AIPerf System", Msg: "Configuration file cannot be read: is a directory\nFile: d"}
	if !reflect.DeepEqual(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// minimal is a file of schema 2.0 whose benchmark section ends in rest.
func minimal(rest string) string {
	return "schema_version: \"2.0\"\nbenchmark:\n  model: m\n  endpoint: {url: h}\n  dataset: {isl: 8}\n  " + rest + "\n"
}
