package bench

import (
	"path"
	"strconv"
	"time"
)

// Kinds of load generators.
const (
	Prefire   = "prefire"
	AIPerf    = "aiperf"
	VLLMBench = "vllm-bench"
)

// Tool is a load generator.
type Tool struct {
	Name   string // in tables
	Kind   string
	Path   string // of its binary
	Client string // prefire's --client
	// TokenizerCache is the folder of the vocabulary that aiperf's builtin tokenizer would download.
	TokenizerCache string
}

// Scenario is one load against one server.
type Scenario struct {
	Name        string
	Concurrency int
	Requests    int
	// PeerRequests caps the requests of aiperf, which would take minutes; 0 = as many as the others.
	PeerRequests int
	// PeerConcurrency is up to how many at once aiperf is run; past it does not survive. 0 = no limit.
	PeerConcurrency int
	ISL, OSL        int
	TTFT, ITL       time.Duration // the server's
	ServerCounts    bool          // the client counts no tokens
	Protocol        string        // http, tls or h2
	Log             bool          // the server writes its log
}

// requests is how many a tool sends.
func (s *Scenario) requests(t *Tool) int {
	if t.Kind == AIPerf && s.PeerRequests > 0 {
		return min(s.Requests, s.PeerRequests)
	}
	return s.Requests
}

// Supports says why a tool cannot run a scenario; "" where it can.
func (t *Tool) Supports(s *Scenario) string {
	switch {
	case t.Kind == AIPerf && s.Protocol == "h2":
		return "it has no HTTP/2"
	case t.Kind == AIPerf && s.PeerConcurrency > 0 && s.Concurrency > s.PeerConcurrency:
		return "not run at " + strconv.Itoa(s.Concurrency) + " in flight"
	case t.Client == "reactor" && s.Protocol != "http":
		return "the reactor speaks HTTP/1.1 in the clear alone"
	}
	return ""
}

// ServerArgs are the flags of prefire mock for a scenario; log is where it writes its log, where it has one.
func (s *Scenario) ServerArgs(log string) []string {
	args := []string{"mock", "--ttft", s.TTFT.String(), "--itl", s.ITL.String()}
	switch s.Protocol {
	case "tls":
		args = append(args, "--tls")
	case "h2":
		args = append(args, "--h2")
	}
	if s.Log {
		args = append(args, "--log", log)
	}
	return args
}

// vllmTokenizer is one that vllm-bench can draw every token of: it panics at numbers that o200k_base and cl100k_base leave free.
const vllmTokenizer = "r50k_base"

// IDPrefix is what vllm-bench's request IDs begin with.
const IDPrefix = "bench-"

// Report names the file in a run's folder that Command has a tool write its requests to.
func (t *Tool) Report() string {
	if t.Kind == VLLMBench {
		return "result.json"
	}
	return "profile_export.jsonl"
}

// Command is how a tool is told to run a scenario against a server, with dir for its files: its arguments and what it needs in its
// environment.
func (t *Tool) Command(s *Scenario, url, dir string) (args, env []string) {
	n := strconv.Itoa
	if t.Kind == VLLMBench {
		args = []string{"--backend", "openai-chat", "--base-url", url, "--model", "bench", "--tokenizer", vllmTokenizer, "--dataset-name", "random",
			"--random-input-len", n(s.ISL), "--random-output-len", n(s.OSL), "--num-prompts", n(s.requests(t)), "--max-concurrency", n(s.Concurrency),
			"--ignore-eos", "--disable-tqdm", "--save-result", "--save-detailed", "--result-dir", dir, "--result-filename", t.Report(),
			"--request-id-prefix", IDPrefix}
		if s.Protocol != "http" {
			args = append(args, "--insecure")
		}
		return args, nil
	}
	args = []string{"profile", "--model", "bench", "--url", url, "--endpoint-type", "chat", "--streaming", "--tokenizer", "builtin", "--ui", "none",
		"--isl", n(s.ISL), "--osl", n(s.OSL), "--concurrency", n(s.Concurrency), "--request-count", n(s.requests(t)),
		"--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", dir}
	if s.ServerCounts {
		args = append(args, "--use-server-token-count")
	}
	if s.Protocol != "http" {
		env = append(env, "AIPERF_HTTP_SSL_VERIFY=false")
	}
	if t.Kind == AIPerf {
		return args, append(env, "TIKTOKEN_CACHE_DIR="+t.TokenizerCache)
	}
	if t.Client != "" {
		args = append(args, "--client", t.Client)
	}
	if s.Protocol == "h2" {
		args = append(args, "--http", "2")
	}
	return args, append(env, "PREFIRE_CALIBRATION=none")
}

// PromptsCommand has vllm-bench make prompts and send none.
func (t *Tool) PromptsCommand(prompts, isl int) []string {
	return []string{"--backend", "openai-chat", "--model", "bench", "--tokenizer", vllmTokenizer, "--dataset-name", "random", "--random-input-len",
		strconv.Itoa(isl), "--num-prompts", strconv.Itoa(prompts), "--disable-tqdm", "--dry-run"}
}

// Shown is a command as a table or a log shows it.
func Shown(file string, args []string) string {
	s := path.Base(file)
	for _, a := range args {
		s += " " + a
	}
	return s
}
