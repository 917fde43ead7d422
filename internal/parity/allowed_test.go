package parity

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// allowed is a difference that is meant, with the numbered line of docs/differences.md that says so.
type allowed struct {
	line     int
	path     string // of the fact; * stands for anything
	scenario string // "" = all
	only     string // the program that alone has the fact; "" = both have it, or either
	chance   bool   // seen in some runs only: on a machine so busy that all events of an answer fall into one read
}

func (a allowed) String() string { return fmt.Sprintf("line %d: %s %s", a.line, a.path, a.scenario) }

// allowances are all differences that the rig lets pass.
func allowances() []allowed {
	const aiperf, prefire = "aiperf", "prefire"
	list := []allowed{
		{line: 16, path: "json:*/prefire", only: prefire},
		{line: 16, path: "records/*/key/prefire", only: prefire},
		{line: 17, path: "console/prefire *", only: prefire},
		{line: 18, path: "file/*.hlog", only: prefire},
		{line: 18, path: "footer/Histograms", only: prefire},
		{line: 18, path: "footer/Records", only: prefire},
		{line: 19, path: "file/profile_export_censored.jsonl", only: prefire, scenario: "cut by the end"},
		{line: 21, path: "json:*/run_info/cli_command"},
		{line: 22, path: "json:*/run_info/random_seed", only: prefire, scenario: "plain, defaults"},
		{line: 22, path: "json:*/run_info/random_seed", only: prefire, scenario: "config file"},
		{line: 23, path: "wire/beside the load/GET /health *", only: prefire},
		{line: 23, path: "wire/beside the load/GET /v1/models *", only: prefire},
		{line: 23, path: "wire/beside the load/POST *", only: prefire},
		{line: 27, path: "wire/header/order"},
		{line: 28, path: "wire/header/User-Agent"},
	}
	list = append(list,
		allowed{line: 25, path: "records/warmup/metadata/conversation_id", scenario: "warm-up"},
		allowed{line: 25, path: "inputs/session_id", scenario: "warm-up"},
		allowed{line: 25, path: "inputs/session_id", scenario: "rates, warm-up with one"})
	for _, s := range []string{"sweep", "repeats", "sweep with repeats"} {
		list = append(list,
			allowed{line: 39, path: "file/logs/aiperf.log", only: aiperf, scenario: s, chance: s != "sweep"},
			allowed{line: 68, path: "file/*/run_config.json", only: aiperf, scenario: s},
			allowed{line: 68, path: "json:*/input_config/*", only: aiperf, scenario: s})
	}
	for _, s := range []string{"sweep", "repeats"} {
		for _, section := range []string{"otel", "mlflow"} {
			list = append(list, allowed{line: 68, path: "json:*/input_config/" + section, only: prefire, scenario: s})
		}
	}
	list = append(list,
		allowed{line: 67, path: "json:*/best_configurations", scenario: "sweep"},
		allowed{line: 67, path: "json:*/pareto_optimal", scenario: "sweep"},
		allowed{line: 67, path: "json:*/metadata/num_combinations", scenario: "sweep"},
		allowed{line: 67, path: "csv:*/section 1", scenario: "sweep"},
		allowed{line: 67, path: "csv:*/section 3/Number of Combinations", scenario: "sweep"},
		allowed{line: 25, path: "records/warmup/metadata/conversation_id", scenario: "sweep with repeats"},
		allowed{line: 25, path: "inputs/session_id", scenario: "sweep with repeats"})
	list = append(list, allowed{line: 57, path: "records/profiling/error/metadata/request_ack_ns", only: prefire, scenario: "all cancelled"})
	for _, tag := range []string{"time_to_first_token_from_intended", "request_latency_from_intended"} {
		list = append(list,
			allowed{line: 53, path: "json:*/metric/" + tag + "*", only: prefire},
			allowed{line: 53, path: "json:*/warmup/" + tag + "*", only: prefire},
			allowed{line: 53, path: "records/*/metric/" + tag, only: prefire})
	}
	for _, header := range []string{"TTFT from Intended Time", "Latency from Intended Time"} {
		list = append(list,
			allowed{line: 53, path: "csv:*/row/" + header + "*", only: prefire},
			allowed{line: 53, path: "console/*/row/" + header + "*", only: prefire})
	}
	for _, s := range []string{"warm-up", "config file", "plain, defaults", "sessions, few prompts"} {
		list = append(list, allowed{line: 26, path: "inputs/sessions", scenario: s})
	}
	for _, s := range []string{"file of prompts", "file of conversations"} {
		list = append(list, allowed{line: 26, path: "inputs/payloads of a session", scenario: s})
	}
	for _, path := range []string{"file/*", ".aiperf_results_ready.json/*", "json:*", "csv:*", "console*", "footer/*"} {
		list = append(list,
			allowed{line: 35, path: path, only: prefire, scenario: "all refused"},
			allowed{line: 35, path: path, only: prefire, scenario: "all cancelled"},
			allowed{line: 35, path: path, only: prefire, scenario: "no server"})
	}
	for _, path := range []string{"message", "cause", "cause_chain"} {
		list = append(list, allowed{line: 36, path: "records/*/error/" + path, scenario: "no server"})
	}
	for _, path := range []string{"json:*/telemetry_data", "csv:*/section/Endpoint *"} {
		list = append(list, allowed{line: 40, path: path, only: aiperf, scenario: "plain, defaults"})
	}
	list = append(list, allowed{line: 88, path: "wire/beside the load/HEAD /metrics *", only: aiperf, scenario: "plain, defaults"})
	list = append(list,
		allowed{line: 40, path: "console/panel/GPU Telemetry Platform", only: aiperf, scenario: "plain, defaults"},
		allowed{line: 40, path: "json:*/input_config/gpu_telemetry/*", scenario: "plain, defaults"})
	list = append(list,
		allowed{line: 20, path: "console/NVIDIA AIPerf | LLM Metrics/order", scenario: "some refused", chance: true},
		allowed{line: 94, path: "shape:*/is_complete", chance: true}) // where a run ends within its slices is chance
	for _, key := range []string{"connecting_ns", "tcp_connect_start_ns", "tcp_connect_end_ns"} {
		list = append(list, allowed{line: 23, path: "records/*/trace_data/" + key, only: aiperf})
	}
	list = append(list, allowed{line: 23, path: "records/*/trace_data/connection_reused_ns", only: prefire})
	for _, key := range []string{"request_chunks/*", "response_chunks/*", "local_ip", "local_port", "remote_ip", "remote_port", "error_timestamp_ns"} {
		list = append(list, allowed{line: 92, path: "records/*/trace_data/" + key, only: prefire})
	}
	const sliced = "every file, not streamed, refusals"
	for _, sc := range []string{"plain, defaults", sliced} {
		for _, what := range []string{"decode_*", "prefill_*", "total_*"} {
			list = append(list,
				allowed{line: 41, path: "json:*/metric/effective_" + what, only: aiperf, scenario: sc},
				allowed{line: 41, path: "json:*/metric/active_" + what, only: aiperf, scenario: sc})
			if sc == sliced {
				list = append(list,
					allowed{line: 41, path: "shape:*/effective_" + what, only: aiperf, scenario: sc},
					allowed{line: 41, path: "shape:*/active_" + what, only: aiperf, scenario: sc})
			}
		}
		list = append(list,
			allowed{line: 41, path: "json:*/metric/tokens_in_flight*", only: aiperf, scenario: sc},
			allowed{line: 41, path: "console/NVIDIA AIPerf | LLM Metrics: Active*", only: aiperf, scenario: sc})
		if sc == sliced {
			list = append(list, allowed{line: 41, path: "shape:*/tokens_in_flight*", only: aiperf, scenario: sc})
		}
		for _, header := range []string{"Effective Decode *", "Effective Prefill *", "Effective Total *", "Active *", "Tokens In Flight *"} {
			list = append(list,
				allowed{line: 41, path: "csv:*/row/" + header, only: aiperf, scenario: sc},
				allowed{line: 41, path: "console/*/row/" + header, only: aiperf, scenario: sc})
			if sc == sliced {
				list = append(list, allowed{line: 41, path: "csv:*timeslices.csv/" + header, only: aiperf, scenario: sc})
			}
		}
	}
	for _, tag := range uncounted {
		list = append(list,
			allowed{line: 3, path: "json:*/metric/" + tag + "*", only: aiperf, chance: true},
			allowed{line: 3, path: "csv:*/section 0/*/" + tag + "*", only: aiperf, chance: true},
			allowed{line: 3, path: "json:*/warmup/" + tag + "*", only: aiperf, chance: true},
			allowed{line: 3, path: "records/*/metric/" + tag, only: aiperf, chance: true})
	}
	for _, header := range []string{"Inter Chunk Latency", "Time to Second Token", "Inter Token Latency", "Output Token Throughput Per User"} {
		list = append(list,
			allowed{line: 3, path: "csv:*/row/" + header + " *", only: aiperf, chance: true},
			allowed{line: 3, path: "console/*/row/" + header + " *", only: aiperf, chance: true})
	}
	return list
}

func (a allowed) covers(scenario string, d difference) bool {
	switch {
	case a.scenario != "" && a.scenario != scenario,
		a.only == "aiperf" && d.prefire != "",
		a.only == "prefire" && d.aiperf != "":
		return false
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(a.path), `\*`, ".*") + "$"
	return regexp.MustCompile(pattern).MatchString(d.path)
}

// Every allowed difference is told to users, under the number that the list names, and no number is given twice.
func TestAllowedDifferencesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^(\d+)\. `).FindAllSubmatch(b, -1)
	for i, m := range lines {
		if got, want := string(m[1]), fmt.Sprint(i+1); got != want {
			t.Fatalf("docs/differences.md: line %s stands where %s is due", got, want)
		}
	}
	for _, a := range allowances() {
		if a.line < 1 || a.line > len(lines) {
			t.Errorf("docs/differences.md has no line %d, which the allowed difference %q points to", a.line, a.path)
		}
	}
}

func TestAnAllowanceCoversNoMoreThanItSays(t *testing.T) {
	a := allowed{path: "json:*/metric/adj_*", scenario: "some refused", only: "aiperf"}
	for _, c := range []struct {
		scenario string
		d        difference
		want     bool
	}{
		{"some refused", difference{"json:x.json/metric/adj_request_latency", "there", ""}, true},
		{"some refused", difference{"json:x.json/metric/adj_request_latency", "there", "there"}, false},
		{"warm-up", difference{"json:x.json/metric/adj_request_latency", "there", ""}, false},
		{"some refused", difference{"json:x.json/metric/request_latency", "there", ""}, false},
		{"some refused", difference{"csv:json:x.json/metric/adj_request_latency", "there", ""}, false},
	} {
		if got := a.covers(c.scenario, c.d); got != c.want {
			t.Errorf("%s %s: %t", c.scenario, c.d.path, got)
		}
	}
}
