package parity

import (
	"strings"
	"time"

	"prefire/internal/fakellm"
)

// scenario is one command line and the server it meets.
type scenario struct {
	name    string
	args    []string // both programs get them; URL stands for the server's address, FILE for the config file
	ours    []string // prefire alone
	config  string   // the config file's text, with URL in it
	server  fakellm.Options
	servers int    // how many; 0 = 1, -1 = an address where nothing listens
	input   string // text of the dataset's file, for which INPUT stands
	// verbatim: prompts are compared too, for both programs send the same.
	verbatim bool
	series   bool // several runs
	shape    bool // values depend on chance or on the clock: keys, units and orders alone are compared
}

func scenarios() []scenario {
	// The gaps are long enough that a busy machine rarely brings two events in one read, whose gap prefire does not count.
	fast := fakellm.Options{Models: []string{"test-model"}, TTFT: 20 * time.Millisecond, ITL: 20 * time.Millisecond}
	slow, keyed, small, one, short := fast, fast, fast, fast, fast
	slow.TTFT = 300 * time.Millisecond
	keyed.APIKey = "parity-key"
	small.MaxModelLen = 32
	short.OutputTokens, short.UsageExtra = 5, 12
	one.TTFT, one.Slots, one.Refuse = time.Second, 1, 429
	stream := func(more ...string) []string {
		return append([]string{"--model", "test-model", "--url", "URL", "--streaming", "--tokenizer", "builtin", "--isl", "48", "--osl", "8",
			"--random-seed", "11", "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry"}, more...)
	}
	file := func(format string, more ...string) []string {
		return append([]string{"--model", "test-model", "--url", "URL", "--streaming", "--tokenizer", "builtin", "--random-seed", "11", "--ui", "none",
			"--no-server-metrics", "--no-gpu-telemetry", "--input-file", "INPUT", "--custom-dataset-type", format}, more...)
	}
	return []scenario{
		{name: "streamed, one session", server: fast, args: stream("--concurrency", "1", "--request-count", "6")},
		{name: "streamed, four sessions", server: fast, args: stream("--concurrency", "4", "--request-count", "12")},
		{name: "plain, defaults", server: fakellm.Options{TTFT: 20 * time.Millisecond},
			args: []string{"-m", "test-model", "-u", "URL", "--tokenizer", "builtin"}},
		{name: "warm-up", server: fast, args: stream("--concurrency", "2", "--request-count", "6", "--warmup-request-count", "2")},
		{name: "duration and grace", server: slow, shape: true,
			args: stream("--concurrency", "2", "--benchmark-duration", "1.5", "--benchmark-grace-period", "5")},
		{name: "cut by the end", server: slow, shape: true,
			args: stream("--concurrency", "2", "--benchmark-duration", "1", "--benchmark-grace-period", "0")},
		{name: "some refused", server: one, args: stream("--concurrency", "2", "--request-count", "2")},
		{name: "all refused", server: small, args: stream("--concurrency", "2", "--request-count", "4"), ours: []string{"--include-cold"}},
		{name: "no server", servers: -1, args: stream("--concurrency", "2", "--request-count", "4"), ours: []string{"--include-cold"}},
		{name: "server token counts", server: fast, args: stream("--request-count", "4", "--use-server-token-count")},
		{name: "early end, chat template", server: short, args: stream("--request-count", "4")},
		{name: "extra inputs", server: fast, args: stream("--request-count", "4", "--use-legacy-max-tokens", "--extra-inputs", "ignore_eos:true",
			"--extra-inputs", "temperature:0.5", "--extra-inputs", `{"stop":["é","<x>"],"seed":5}`)},
		{name: "headers, key, path", server: keyed, args: stream("--request-count", "4", "--api-key", "parity-key", "--header", "X-Team:red",
			"--custom-endpoint", "/v1/chat/completions?tenant=a", "--session-header", "X-Session-ID")},
		{name: "config file", server: fast, args: []string{"--config", "FILE", "--ui", "none"}, config: configFile},
		{name: "misspelt key", server: fast, args: []string{"--config", "FILE", "--ui", "none"},
			config: strings.Replace(configFile, "streaming:", "streamin:", 1)},
		{name: "value out of range", server: fast, args: stream("--concurrency", "0")},
		{name: "prefix and spread lengths", server: fast, shape: true, args: stream("--request-count", "6", "--isl-stddev", "6", "--osl-stddev", "2",
			"--profile-export-prefix", "mine.json")},
		{name: "two servers, aiperf's way", server: fast, servers: 2, args: stream("--url", "URL2", "--concurrency", "2", "--request-count", "8"),
			ours: []string{"--include-cold"}},
		{name: "constant rate", server: fast, args: stream("--request-rate", "20", "--arrival-pattern", "constant", "--request-count", "10")},
		{name: "rates, warm-up with one", server: fast, shape: true, args: stream("--request-rate", "20", "--arrival-smoothness", "2", "--concurrency",
			"8", "--request-count", "10", "--warmup-request-count", "3", "--warmup-request-rate", "30", "--request-rate-ramp-duration", "0.5")},
		{name: "ramps and prefill limit", server: fast, args: stream("--concurrency", "4", "--prefill-concurrency", "2", "--request-count", "12",
			"--concurrency-ramp-duration", "0.4", "--prefill-concurrency-ramp-duration", "0.2")},
		{name: "sweep", server: fast, series: true, args: []string{"--model", "test-model", "--url", "URL", "--streaming", "--tokenizer", "builtin", "--osl", "8", "--random-seed", "11",
			"--ui", "none", "--no-server-metrics", "--no-gpu-telemetry", "--request-count", "4", "--concurrency", "1,2", "--isl", "24,32", "--sweep-type", "zip"}},
		{name: "repeats", server: fast, series: true, args: stream("--request-count", "4", "--num-profile-runs", "2"), ours: []string{"--set-consistent-seed"}},
		{name: "sweep with repeats", server: fast, series: true, args: []string{"--config", "FILE", "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics"}, config: sweepFile},
		{name: "all cancelled", server: slow, args: stream("--concurrency", "2", "--request-count", "4", "--request-cancellation-rate", "100",
			"--request-cancellation-delay", "0.1")},
		{name: "users without a rate", server: fast, args: stream("--num-users", "3")},
		{name: "users of single turns", server: fast, args: stream("--user-centric-rate", "5", "--num-users", "3")},
		{name: "every file", server: fast, shape: true, args: stream("--concurrency", "2", "--request-count", "8", "--export-level", "raw",
			"--export-http-trace", "--show-trace-timing", "--slice-duration", "0.3", "--export-outputs-json", "--network-latency-mean", "1.5",
			"--goodput", "time_to_first_token:500 inter_token_latency:500", "--api-key", "parity-key")},
		{name: "every file, not streamed, refusals", server: one, shape: true, args: []string{"--model", "test-model", "--url", "URL", "--tokenizer", "builtin",
			"--isl", "48", "--osl", "8", "--random-seed", "11", "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry", "--concurrency", "2", "--request-count",
			"2", "--export-level", "raw", "--slice-duration", "0.4", "--export-outputs-json", "--export-http-trace", "--profile-export-prefix", "mine"}},
		{name: "summary alone, round trip measured", server: fast, args: stream("--request-count", "4", "--export-level", "summary",
			"--network-latency-automatic")},
		{name: "goodput, none good", server: fast, args: stream("--concurrency", "2", "--request-count", "6", "--goodput",
			"time_to_first_token:1 output_token_throughput_per_user:1")},
		{name: "round trip both given and measured", server: fast, args: stream("--network-latency-automatic", "--network-latency-mean", "2")},
		{name: "smoothness without gamma", server: fast, args: stream("--arrival-smoothness", "2")},
		{name: "prefill limit above concurrency", server: fast, args: stream("--concurrency", "2", "--prefill-concurrency", "3")},
		{name: "file of prompts", server: fast, verbatim: true, shape: true, args: file("single_turn", "--request-count", "6"), input: `
{"text":"What is \u00e9 <b>?", "output_length": 3, "extra": {"temperature": 0, "min_tokens": 2}}
{"texts":["one","","two"],"role":"system"}
{"text":"first of two","session_id":"s"}
{"texts":[{"name":"a","contents":["x"]},{"name":"b","contents":["y","z"]}], "unknown": 1}

{"text":"second of two","session_id":"s","output_length":5}
`},
		{name: "file of conversations", server: fast, verbatim: true, shape: true, args: file("multi_turn", "--num-sessions", "3", "--osl", "4"), input: `
{"session_id":"one","turns":[{"role":"system","text":"be nice"},{"text":"Hi"},{"text":"More","delay":20,"output_length":2}]}
{"turns":[{"text":"a"},{"text":"b","extra":{"top_p":0.5}}]}
{"session_id":"three","turns":[{"texts":["c","d"]}]}
`},
		{name: "completions of a file", server: fast, verbatim: true, shape: true, args: file("single_turn", "--request-count", "4",
			"--endpoint-type", "completions"), input: `
{"text":"What is \u00e9 <b>?", "output_length": 3}
{"text":"two", "output_length": 4}
`},
		{name: "sessions, few prompts", server: fast, args: stream("--num-conversations", "6", "--num-dataset-entries", "3")},
		{name: "distribution of lengths", server: fast, shape: true, args: []string{"--model", "test-model", "--url", "URL", "--streaming", "--tokenizer",
			"builtin", "--sequence-distribution", "32,4:50;64,8:50", "--random-seed", "11", "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry",
			"--request-count", "6"}},
		{name: "two models", server: fakellm.Options{TTFT: fast.TTFT, ITL: fast.ITL}, args: stream("--request-count", "6", "--model", "test-model,other-model",
			"--model-selection-strategy", "round_robin")},
	}
}

const configFile = `schemaVersion: "2.0"
benchmark:
  models: [test-model]
  endpoint:
    urls: ["URL"]
    streaming: true
  datasets:
    - name: main
      type: synthetic
      entries: 12
      prompts:
        isl: 40
        osl: 8
  phases:
    - name: warm
      kind: warmup
      type: concurrency
      requests: 2
      concurrency: 1
    - name: load
      kind: profiling
      type: concurrency
      requests: 6
      concurrency: 2
    - name: more
      kind: profiling
      type: concurrency
      sessions: 3
  tokenizer:
    name: builtin
  gpu_telemetry:
    enabled: false
  server_metrics:
    enabled: false
`

const sweepFile = `schema_version: "2.0"
random_seed: 11
benchmark:
  models: [test-model]
  endpoint: {urls: ["URL"], streaming: true}
  datasets: [{name: main, type: synthetic, entries: 4, prompts: {isl: 40, osl: 8}}]
  phases:
    - {name: warmup, type: concurrency, requests: 2, concurrency: 1}
    - {name: profiling, type: concurrency, requests: 4, concurrency: 2}
  tokenizer: {name: builtin}
sweep:
  type: grid
  iteration_order: independent
  parameters: {concurrency: [1, 2]}
  sla_filters: [{metric_tag: request_latency, stat: p95, op: lt, threshold: 100000}]
multi_run: {num_runs: 2, vary_seed_per_trial: true, confidence_level: 0.9}
`
