package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"prefire/metrics"
)

func TestOutputs(t *testing.T) {
	type outputs struct {
		a       Artifacts
		slos    []metrics.Objective
		network RoundTrip
		echo    string // of artifacts, slos and network_latency
	}
	const file = "phases: {type: concurrency, requests: 1}\n  artifacts: {dir: d, %}"
	yaml := func(artifacts, more string) string { return minimal(strings.Replace(file, "%", artifacts, 1)) + more }
	for _, tt := range []struct {
		yaml, args string
		want       outputs
	}{
		{"", "--artifact-dir|d", outputs{a: Artifacts{Dir: "d"}, echo: `{"dir":"d","auto_plot":false,"plot_required":false} null {"enabled":false}`}},
		{"", "--artifact-dir|d|--export-level|SUMMARY|--export-outputs-json|--slice-duration|1m", outputs{a: Artifacts{Dir: "d", Level: LevelSummary, Answers: true, Slice: time.Minute},
			echo: `{"dir":"d","records":false,"raw":false,"slice_duration":60.0,"auto_plot":false,"plot_required":false,"export_outputs_json":true} null {"enabled":false}`}},
		{"", "--artifact-dir|d|--profile-export-level|records|--export-http-trace|--show-trace-timing",
			outputs{a: Artifacts{Dir: "d", Trace: true, ShowTrace: true},
				echo: `{"dir":"d","records":["jsonl"],"raw":false,"trace":true,"show_trace_timing":true,"auto_plot":false,"plot_required":false} null {"enabled":false}`}},
		{"", "--artifact-dir|d|--goodput|time_to_first_token:200 inter_token_latency:20.5|--network-latency-mean|1.5", outputs{a: Artifacts{Dir: "d"},
			slos: []metrics.Objective{{Tag: "time_to_first_token", Limit: 200}, {Tag: "inter_token_latency", Limit: 20.5}}, network: RoundTrip{Mean: 1500 * time.Microsecond},
			echo: `{"dir":"d","auto_plot":false,"plot_required":false} {"time_to_first_token":200.0,"inter_token_latency":20.5} {"enabled":true,"mean_ms":1.5}`}},
		{"", "--artifact-dir|d|--network-latency-automatic|--network-latency-ping-interval|0.25", outputs{a: Artifacts{Dir: "d"}, network: RoundTrip{Interval: time.Second / 4},
			echo: `{"dir":"d","auto_plot":false,"plot_required":false} null {"enabled":true,"ping_interval":0.25}`}},
		{yaml("summary: false, records: [jsonl], raw: true, sliceDuration: 30s", "\n  slos: {request_latency: 500}\n  networkLatency: {enabled: true}"), "",
			outputs{a: Artifacts{Dir: "d", Level: LevelRaw, NoSummary: true, Slice: 30 * time.Second}, slos: []metrics.Objective{{Tag: "request_latency", Limit: 500}},
				network: RoundTrip{Interval: time.Second},
				echo:    `{"dir":"d","summary":false,"records":["jsonl"],"raw":true,"slice_duration":30.0} {"request_latency":500.0} {"enabled":true}`}},
		// Flags stand over the file: level, objectives, and how the network's latency is known.
		{yaml("records: false", "\n  slos: {request_latency: 500}\n  networkLatency: {enabled: true, meanMs: 3}"),
			"--export-level|records|--goodput|time_to_first_token:1|--network-latency-automatic",
			outputs{a: Artifacts{Dir: "d"}, slos: []metrics.Objective{{Tag: "time_to_first_token", Limit: 1}}, network: RoundTrip{Interval: time.Second},
				echo: `{"dir":"d","records":["jsonl"],"raw":false} {"time_to_first_token":1.0} {"enabled":true}`}},
		{yaml("records: false", "\n  networkLatency: {enabled: false, meanMs: 3}"), "", outputs{a: Artifacts{Dir: "d", Level: LevelSummary},
			echo: `{"dir":"d","records":false} null {"enabled":false,"mean_ms":3.0}`}},
	} {
		args := []string{}
		if tt.yaml == "" {
			args = []string{"-m", "m"}
		}
		if tt.args != "" {
			args = append(args, strings.Split(tt.args, "|")...)
		}
		c := mustParse(t, tt.yaml, args...)
		got := outputs{a: c.Artifacts, slos: c.SLOs, network: c.RoundTrip}
		for i, key := range []string{"artifacts", "slos", "network_latency"} {
			part := "null"
			for _, kv := range c.Input {
				if kv.Key == key {
					raw, err := kv.JSON()
					if err != nil {
						t.Fatal(err)
					}
					part = string(raw)
				}
			}
			got.echo += strings.Repeat(" ", min(i, 1)) + part
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q:\ngot  %+v\nwant %+v", args, got, tt.want)
		}
	}
}

func TestOutputsThatCannotBe(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--goodput|ttft:1", "--goodput: Unknown metric tag(s) in --goodput: ttft. "},
		{"--goodput|request_throughput:1", "--goodput: request_throughput is not a metric of single requests"},
		{"--goodput|time_to_first_token", "--goodput: expected space-separated 'key:value' pairs (e.g., 'k:v x:y') with numbers as values, got 'time_to_first_token'"},
		{"--goodput|time_to_first_token:fast", "--goodput: expected space-separated 'key:value' pairs"},
		{"--goodput| ", "--goodput: expected space-separated 'key:value' pairs (e.g., 'k:v x:y'), got empty string"},
		{"--export-level|all", "--export-level: Input should be 'summary', 'records' or 'raw', got 'all'."},
		{"--slice-duration|0", "--slice-duration: Input should be greater than 0, got '0'."},
		{"--network-latency-mean|-1", "--network-latency-mean: "},
		{"--network-latency-mean|1|--network-latency-automatic", "--network-latency-mean: Cannot use both"},
		{"--network-latency-ping-interval|1", "--network-latency-ping-interval: --network-latency-ping-interval only applies when"},
		{"--network-latency-ping-interval|1|--network-latency-mean|1", "--network-latency-ping-interval: --network-latency-ping-interval only applies with"},
		{"--export-outputs-json|--profile-export-prefix|outputs", "--export-outputs-json: --profile-export-prefix resolves to 'outputs'"},
		{"--num-profile-runs|3|--convergence-metric|request_latency|--convergence-mode|distribution|--export-level|summary",
			"--convergence-mode distribution compares the records of the runs, which --export-level summary leaves out."},
		{"--export-http-trace|--export-level|summary", "--export-http-trace: the HTTP trace is part of profile_export.jsonl"},
	} {
		if got := message(t, "", append([]string{"-m", "m"}, strings.Split(strings.ReplaceAll(tt.args, "|-1", "=-1"), "|")...)...); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.args, got, tt.want)
		}
	}
	for _, tt := range []struct{ keys, want string }{
		{"slos: {ttft: 1}", "benchmark.slos.ttft: Unknown metric tag(s) in --goodput: ttft"},
		{"slos: {request_latency: fast}", "benchmark.slos.request_latency: Input should be a valid number"},
		{"slos: [1]", "benchmark.slos: Input should be a valid dictionary"},
		{"artifacts: {records: []}", "benchmark.artifacts.records: records format list cannot be empty; use false to disable."},
		{"artifacts: {records: [csv]}", "benchmark.artifacts.records: Input should be a list with 'jsonl', or false"},
		{"artifacts: {summary: true}", "benchmark.artifacts.summary: Input should be a list with 'json', or false"},
		{"network_latency: {mean_ms: -1}", "benchmark.network_latency.mean_ms: Input should be greater than or equal to 0"},
		{"network_latency: {mean: 1}", "benchmark.network_latency.mean: Extra inputs are not permitted"},
	} {
		if got := message(t, minimal("phases: {type: concurrency, requests: 1}")+"\n  "+tt.keys); !strings.Contains(got, tt.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.keys, got, tt.want)
		}
	}
}
