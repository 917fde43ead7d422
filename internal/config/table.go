package config

import "slices"

// Groups of flags, in the order and under the names of aiperf's help.
const (
	gPrefire       = "prefire"
	gNetwork       = "Network"
	gEndpoint      = "Endpoint"
	gInput         = "Input"
	gSchedule      = "Fixed Schedule"
	gGoodput       = "Goodput"
	gOutput        = "Output"
	gTrace         = "HTTP Trace"
	gTokenizer     = "Tokenizer"
	gLoad          = "Load Generator"
	gScenario      = "Scenario"
	gWarmup        = "Warmup"
	gUsers         = "User-Centric Rate"
	gCancel        = "Request Cancellation"
	gConversation  = "Conversation Input"
	gISL           = "Input Sequence Length (ISL)"
	gOSL           = "Output Sequence Length (OSL)"
	gPrompt        = "Prompt"
	gPrefix        = "Prefix Prompt"
	gCacheBust     = "Cache Bust"
	gRankings      = "Rankings"
	gSynthesis     = "Synthesis"
	gAudio         = "Audio Input"
	gImage         = "Image Input"
	gVideo         = "Video Input"
	gService       = "Service"
	gServerMetrics = "Server Metrics"
	gLatency       = "Network Latency"
	gGPU           = "GPU Telemetry"
	gUI            = "UI"
	gWorkers       = "Workers"
	gZMQ           = "ZMQ Communication"
	gAccuracy      = "Accuracy"
	gMultiRun      = "Multi-Run"
)

// groupOrder is the order of the help: what is prefire's own first, then aiperf's order.
func groupOrder() []string {
	return []string{
		gPrefire, gNetwork, gEndpoint, gInput, gSchedule, gGoodput, gOutput, gTrace, gTokenizer, gLoad, gScenario, gWarmup, gUsers, gCancel,
		gConversation, gISL, gOSL, gPrompt, gPrefix, gCacheBust, gRankings, gSynthesis, gAudio, gImage, gVideo, gService,
		gServerMetrics, gLatency, gGPU, gUI, gWorkers, gZMQ, gAccuracy, gMultiRun,
	}
}

// Flags returns the table of all flags of the profile command: prefire's own, the supported ones of aiperf 0.13.0, and the rest of
// aiperf's with what becomes of each.
func Flags() []Flag {
	return slices.Concat(ownFlags(), networkFlags(), supportedFlags(), loadFlags(), controlFlags(), serverFlags(), outputFlags(), promptFlags(), fileFlags(), seriesFlags(), aiperfRest())
}

func ownFlags() []Flag {
	return []Flag{
		{Field: "client", Names: []string{"--client"}, Group: gPrefire, Kind: Enum, Choices: []string{"auto", "portable", "reactor"},
			Default: "auto",
			Help: "How requests are sent. portable: a goroutine for each request, for every kind of target on every system. reactor: one loop for " +
				"all connections, more where one is busy all the time, which takes less memory and CPU; for HTTP/1.1 in the clear " +
				"on Linux. auto: reactor where it can be, else portable."},
		{Field: "http", Names: []string{"--http"}, Group: gPrefire, Kind: Enum, Choices: []string{"auto", "1.1", "2", "h2c"},
			Default: "auto",
			Help: "HTTP version. auto: what the server chooses over TLS, 1.1 in the clear. 2: HTTP/2 over TLS or an error. " +
				"h2c: HTTP/2 in the clear, with prior knowledge."},
		{Field: "prewarm", Names: []string{"--prewarm"}, Negative: []string{"--no-prewarm"}, Group: gPrefire, Kind: Bool, Default: "true",
			Help: "Before the clock starts, send one throwaway request to each server and open, handshake and probe all connections, " +
				"so that nothing cold is measured."},
		{Field: "include_cold", Names: []string{"--include-cold"}, Group: gPrefire, Kind: Bool, Default: "false",
			Help: "aiperf's way: no prewarm, and requests on new connections stay in all statistics."},
		{Field: "streams_per_connection", Names: []string{"--streams-per-connection"}, Group: gPrefire, Kind: Int, Bound: atLeast(1),
			Default: "16",
			Help:    "HTTP/2: how many requests share one connection at most, within what the server allows."},
		{Field: "retry_429", Names: []string{"--retry-429"}, Group: gPrefire, Kind: Int, Bound: between(0, 100), Default: "0",
			Help: "Send a request that was answered 429 again, at most so many times, after the time that its Retry-After asks for (1 s, 2 s, 4 s, … " +
				"where it asks for none). Its times count from the first send. 0: a 429 is a failure."},
		{Field: "live_metrics", Names: []string{"--live-metrics"}, Group: gPrefire, Kind: Text,
			Help: "Address where Prometheus finds the run's live metrics at /metrics while it goes on: HOST:PORT, or a port of this " +
				"machine alone; port 0 takes any free one. Not given: none are served."},
		{Field: "report", Names: []string{"--report"}, Group: gPrefire, Kind: Bool, Default: "false",
			Help: "After the run, make report.html in the artifact folder: one page with verdicts and plots, as prefire report does; of a sweep or of repeats, one for all runs."},
	}
}

func supportedFlags() []Flag {
	return []Flag{
		{Field: "model_names", Names: []string{"--model-names", "--model", "-m"}, Group: gEndpoint, Kind: Text, Repeat: true,
			Help: "Name of the model, sent as it is. Required, here or in the config file. Several, with commas between or the flag again, share " +
				"the sessions as --model-selection-strategy says."},
		{Field: "model_selection_strategy", Names: []string{"--model-selection-strategy"}, Group: gEndpoint, Kind: Enum, Choices: modelStrategies(),
			Default: RoundRobin,
			Help: "Which of several models a session asks, for all of its turns. round_robin: each in turn. random: drawn, all alike. weighted: drawn by " +
				"the weights that a config file gives them (models.items)."},
		{Field: "url_selection_strategy", Names: []string{"--url-strategy"}, Group: gEndpoint, Kind: Enum, Choices: []string{RoundRobin}, Default: RoundRobin,
			Help: "Which of several servers a session goes to, for all of its turns: each in turn."},
		{Field: "custom_endpoint", Names: []string{"--custom-endpoint", "--endpoint"}, Group: gEndpoint, Kind: Text,
			Help: "Path of the endpoint, from its leading slash on, in place of the type's own: /v1/chat/completions, /v1/completions or /v1/embeddings."},
		{Field: "endpoint_type", Names: []string{"--endpoint-type"}, Group: gEndpoint, Kind: Enum, Choices: endpointTypes(),
			Usable: usableEndpoints(), Default: "chat",
			Help: "Kind of API. chat: messages and answers. completions: a text, or with --batch-size a list of them, goes on. embeddings: texts " +
				"become vectors; there are no output tokens and no stream, so neither TTFT nor ITL. The other names are aiperf's and are refused."},
		{Field: "streaming", Names: []string{"--streaming"}, Group: gEndpoint, Kind: Bool, Default: "false",
			Help: "Ask for the answer as an event stream. TTFT, ITL and prefill throughput exist only with it."},
		{Field: "urls", Names: []string{"--url", "-u"}, Group: gEndpoint, Kind: Text, Several: true, Repeat: true,
			Default: "http://localhost:8000",
			Help: "Base address of the server; http:// is put before it where it has no scheme. The endpoint's path is added, " +
				"/v1 not twice."},
		{Field: "timeout_seconds", Names: []string{"--request-timeout-seconds"}, Group: gEndpoint, Kind: Duration, Bound: above(0),
			Default: "21600",
			Help: "Time a whole request may take, waiting and connecting included; a request over it is a failure. Seconds, or with a " +
				"unit: 30s, 5m, 2h."},
		{Field: "api_key", Names: []string{"--api-key"}, Group: gEndpoint, Kind: Text,
			Help: "Sent as Authorization: Bearer KEY. Never written to a file or the screen. env:NAME and file:PATH take it from the environment or a file, so that it " +
				"is not among the arguments, which other users of the machine can read."},
		{Field: "use_legacy_max_tokens", Names: []string{"--use-legacy-max-tokens"}, Group: gEndpoint, Kind: Bool, Default: "false",
			Help: "Send the output limit as max_tokens in place of max_completion_tokens."},
		{Field: "use_server_token_count", Names: []string{"--use-server-token-count"}, Group: gEndpoint, Kind: Bool, Default: "false",
			Help: "Take input and output lengths from the server's usage; streamed requests then ask for it."},
		{Field: "per_chunk_usage", Names: []string{"--per-chunk-usage"}, Group: gEndpoint, Kind: Bool, Default: "false",
			Help: "Ask for the token counts so far in every chunk, so that ITL divides by the tokens behind the first chunk where that holds more " +
				"than one. For streamed chats with --use-server-token-count."},
		{Field: "request_content_type", Names: []string{"--request-content-type"}, Group: gEndpoint, Kind: Enum, Choices: contentTypes(),
			Default: jsonContent, Help: "Content type of requests. The endpoints that prefire speaks take JSON alone."},
		{Field: "session_header", Names: []string{"--session-header"}, Group: gEndpoint, Kind: Text, Default: "X-Correlation-ID",
			Help: "Name of the header field with the session's id."},
		{Field: "connection_reuse_strategy", Names: []string{"--connection-reuse-strategy"}, Group: gEndpoint, Kind: Enum, Choices: reuseStrategies(),
			Default: "pooled", Help: "pooled: any request takes any ready connection. sticky-user-sessions: each session has one of its own, closed at " +
				"its end. never: each request dials its own, and its times begin before that. The latter two speak HTTP/1.1."},

		{Field: "config_file", Names: []string{"--config", "-f"}, Group: gInput, Kind: Text,
			Help: "YAML or JSON config file, schema 2.0 or the older dialect (datasets as a mapping). Flags override it."},
		{Field: "extra_inputs", Names: []string{"--extra-inputs"}, Group: gInput, Kind: Pairs, Several: true, Repeat: true,
			Help: "key:value put into every request body, for example ignore_eos:true; several words, or a JSON object. Numbers, true, " +
				"false, null, lists and objects keep their type."},
		{Field: "headers", Names: []string{"--header", "-H"}, Group: gInput, Kind: Headers, Several: true, Repeat: true,
			Help: "Header sent with every request, as Name:value; several words, or a JSON object."},
		{Field: "random_seed", Names: []string{"--random-seed"}, Group: gInput, Kind: Int, Bound: atLeast(0),
			Help: "Seed of prompts and of everything drawn. Not given: drawn from the system, so that a second run does not meet its own " +
				"prompts in the server's prefix cache."},

		{Field: "artifact_directory", Names: []string{"--output-artifact-dir", "--artifact-dir"}, Group: gOutput, Kind: Text,
			Default: "artifacts",
			Help:    "Folder of the result files, used as it is. Not given: a folder below artifacts/, named after model, endpoint and load."},
		{Field: "profile_export_prefix", Names: []string{"--profile-export-prefix", "--profile-export-file"}, Group: gOutput, Kind: Text,
			Help: "Base name of the result files; the endings of aiperf's files are taken off, and the folder of an absolute path."},

		{Field: "tokenizer_name", Names: []string{"--tokenizer"}, Group: gTokenizer, Kind: Text,
			Help: "Tokenizer that prompts are made with and answers counted with: builtin (o200k_base), o200k_harmony, cl100k_base, p50k_base, " +
				"p50k_edit, r50k_base, a tokenizer.json, a folder with one, or a model in the local Hugging Face hub cache; nothing is downloaded. server: prompts are as long as the endpoint's own /tokenize " +
				"counts them (vLLM has it; elsewhere lengths are fitted by its usage), and answers have the tokens that it says. Not given: the model's " +
				"name, or builtin where that is a placeholder such as test-model."},
		{Field: "tokenizer_revision", Names: []string{"--tokenizer-revision"}, Group: gTokenizer, Kind: Text, Default: "main",
			Help: "Branch, tag or commit of a tokenizer in the hub cache."},

		{Field: "benchmark_duration", Names: []string{"--benchmark-duration"}, Group: gLoad, Kind: Duration, Bound: above(0), Sweep: true,
			Help: "Stop sending after this time. Seconds, or with a unit: 30s, 5m, 2h."},
		{Field: "benchmark_grace_period", Names: []string{"--benchmark-grace-period"}, Group: gLoad, Kind: Duration, Bound: atLeast(0),
			Inf:     true,
			Default: "30",
			Help:    "After --benchmark-duration, how long requests in flight may take to finish; then they are cut. inf: no end."},
		{Field: "concurrency", Names: []string{"--concurrency"}, Group: gLoad, Kind: Int, Bound: between(1, maxSessions), Sweep: true,
			Default: "1",
			Help:    "Sessions, and so requests, in flight at any time."},
		{Field: "request_count", Names: []string{"--request-count", "--num-requests"}, Group: gLoad, Kind: Int, Bound: atLeast(1),
			Sweep: true,
			Help:  "Stop after so many requests. With no request count, duration or session count: 10."},

		{Field: "warmup_request_count", Names: []string{"--warmup-request-count", "--num-warmup-requests"}, Group: gWarmup, Kind: Int,
			Bound: above(0), Help: "Warm-up phase: so many requests before the measured ones, kept out of the results."},
		{Field: "warmup_duration", Names: []string{"--warmup-duration"}, Group: gWarmup, Kind: Duration, Bound: above(0),
			Help: "Warm-up phase: stop sending after this time. Seconds, or with a unit."},
		{Field: "warmup_num_sessions", Names: []string{"--num-warmup-sessions"}, Group: gWarmup, Kind: Int, Bound: atLeast(1),
			Help: "Warm-up phase: stop after so many sessions."},
		{Field: "warmup_concurrency", Names: []string{"--warmup-concurrency"}, Group: gWarmup, Kind: Int, Bound: between(1, maxSessions),
			Help: "Sessions in flight during the warm-up phase. Not given: as --concurrency."},
		{Field: "warmup_grace_period", Names: []string{"--warmup-grace-period"}, Group: gWarmup, Kind: Duration, Bound: atLeast(0),
			Inf:  true,
			Help: "After --warmup-duration, how long requests in flight may take to finish. Not given: no end."},

		{Field: "conversation_num", Names: []string{"--conversation-num", "--num-conversations", "--num-sessions"}, Group: gConversation,
			Kind: Int, Bound: atLeast(1), Sweep: true, Help: "Stop after so many sessions."},
		{Field: "conversation_num_dataset_entries", Names: []string{"--num-dataset-entries", "--num-prompts"}, Group: gConversation,
			Kind:  Int,
			Bound: atLeast(1), Help: "Number of distinct prompts; they repeat where the run sends more. Not given: no prompt repeats."},

		{Field: "prompt_input_tokens_mean", Names: []string{"--prompt-input-tokens-mean", "--synthetic-input-tokens-mean", "--isl"},
			Group: gISL,
			Kind:  Int, Bound: atLeast(1), Sweep: true, Default: "550", Help: "Input tokens of a prompt, as the tokenizer counts them; " +
				"the mean where a stddev is given."},
		{Field: "prompt_input_tokens_stddev", Names: []string{"--prompt-input-tokens-stddev", "--synthetic-input-tokens-stddev",
			"--isl-stddev"},
			Group: gISL, Kind: Number, Bound: atLeast(0), Sweep: true, Default: "0", Help: "Standard deviation of the input tokens."},
		{Field: "prompt_output_tokens_mean", Names: []string{"--prompt-output-tokens-mean", "--output-tokens-mean", "--osl"}, Group: gOSL,
			Kind: Int, Bound: atLeast(1), Sweep: true, Help: "Output tokens asked of the server, as a limit. Not given: none is asked."},
		{Field: "prompt_output_tokens_stddev", Names: []string{"--prompt-output-tokens-stddev", "--output-tokens-stddev", "--osl-stddev"},
			Group: gOSL, Kind: Number, Bound: atLeast(0), Sweep: true, Default: "0", Help: "Standard deviation of the output tokens; " +
				"needs --osl."},

		{Field: "log_level", Names: []string{"--log-level"}, Group: gService, Kind: Enum, Choices: LogLevels(), Default: "INFO",
			Help: "What logs/aiperf.log in the result folder holds: TRACE each request, DEBUG each failed one and the whole config, INFO the course of the run, " +
				"NOTICE its phases and notices, WARNING and above what went wrong. From WARNING on notices are kept off stderr too."},
		{Field: "verbose", Names: []string{"--verbose", "-v"}, Group: gService, Kind: Bool, Default: "false",
			Help: "--log-level DEBUG, each phase's end on stderr, and --ui simple."},
		{Field: "extra_verbose", Names: []string{"--extra-verbose", "-vv"}, Group: gService, Kind: Bool, Default: "false",
			Help: "--log-level TRACE, each phase's end on stderr, and --ui simple."},
		{Field: "stats_interval", Names: []string{"--stats-interval"}, Group: gService, Kind: Duration, Bound: between(0, maxStatsInterval),
			Help: "Seconds between the lines of --ui simple where the output is no terminal; 0: no such lines. Not given: 5. A bar and a dashboard show " +
				"the run all the time."},
		{Field: "no_gpu_telemetry", Names: []string{"--no-gpu-telemetry"}, Group: gGPU, Kind: Bool, Default: "false",
			Help: "Do not collect GPU telemetry. This version never does."},
		{Field: "ui_type", Names: []string{"--ui-type", "--ui"}, Group: gUI, Kind: Enum, Choices: []string{"dashboard", "none",
			"simple"}, Default: "dashboard",
			Help: "Progress display. Where the output is no terminal: none if the flag is not given, simple for dashboard."},
	}
}

func contentTypes() []string { return []string{jsonContent, "multipart/form-data"} }

// endpointTypes are aiperf's, so that one that is not supported is told from one that does not exist.
func endpointTypes() []string {
	return []string{
		"audio_transcription", "chat", "cohere_rankings", "completions", "responses", "messages", "chat_embeddings", "embeddings",
		"hf_tei_rankings", "huggingface_generate", "image_generation", "image_edit", "video_generation", "image_retrieval",
		"nim_embeddings", "nim_rankings", "solido_rag", "raw", "template",
	}
}
