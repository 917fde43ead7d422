package export

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"prefire/metrics"
)

func console(t *testing.T, r *Run, width int) string {
	t.Helper()
	var out bytes.Buffer
	if err := Console(&out, r, width); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestOwnBlock(t *testing.T) {
	change := 812.4
	r := &Run{
		Results: []metrics.Result{
			{Def: &metrics.Def{Tag: prefillTag, Header: "Prefill"}, Avg: 7571.25, Min: 2003, Max: 9000, P: [9]float64{4: 7600}},
			{Def: &metrics.Def{Tag: "time_to_first_token", Header: "Time to First Token"}, Count: 9, Avg: 128},
		},
		Screen: Screen{Version: "0.1.0", Seed: "42, drawn from the system", Counts: metrics.Counts{Sent: 12, OK: 10, Failed: 1, Cancelled: 0, Censored: 1},
			Cold: metrics.ColdReport{Count: 1, Of: 10, Severity: metrics.SeverityHigh, Change: &change,
				Reasons: []metrics.ColdReason{{Reason: "dialled", Count: 1}, {Reason: "resent", Count: 1}}},
			Prewarm: []string{"1 connection: TLS 1,500.0 ms", "first inference 185.3 ms"},
			Client:  []Verdict{{"TTFT", true, "receive delay p99 0.1 ms"}, {"load", false, "sends were late"}},
			Notices: []string{"a notice"}},
	}
	r.Results = append(r.Results, metrics.Result{Def: &metrics.Def{Tag: "input_sequence_length", Group: metrics.FileOnly}, Avg: 512, Count: 100})
	want := `

                                                           prefire 0.1.0                                                           
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓
┃                                          Fact ┃ Value                                                                           ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┩
│ Prefill Throughput Per User (tokens/sec/user) │ avg 7,571.25, p50 7,600.00, min 2,003.00, max 9,000.00                          │
│    Prefill Time per 1,000 Prompt Tokens (sec) │ 0.132 by the average throughput, 0.250 by the averages of TTFT and input length │
│                                      Requests │ 12 sent = 10 ok + 1 failed + 0 cancelled + 1 censored                           │
│         Measured (latency and per-user rates) │ 9 of 10 requests; 1 cold kept out (dialled 1, resent 1): severity high, with    │
│                                               │ them TTFT or prefill would be 812.4 % off                                       │
│                                       Prewarm │ 1 connection: TLS 1,500.0 ms                                                    │
│                                               │ first inference 185.3 ms                                                        │
│                              Client, for TTFT │ fit: receive delay p99 0.1 ms                                                   │
│                              Client, for load │ NOT FIT: sends were late                                                        │
│                                          Seed │ 42, drawn from the system                                                       │
│                                        Notice │ p99 of Time to First Token comes from 9 values: it lies between the two largest │
│                                               │ ones                                                                            │
│                                               │ a notice                                                                        │
└───────────────────────────────────────────────┴─────────────────────────────────────────────────────────────────────────────────┘
`
	same(t, "block", own(nil, r, 131), []byte(want))
}

func TestColdLine(t *testing.T) {
	reasons := []metrics.ColdReason{{Reason: "first_use", Count: 2}}
	for want, c := range map[string]metrics.ColdReport{
		"10 of 10 requests; none was cold":                                          {Of: 10, Severity: metrics.SeverityNone},
		"8 of 10 requests; 2 cold kept out (first_use 2): severity low":             {Count: 2, Of: 10, Reasons: reasons, Severity: metrics.SeverityLow},
		"1,000 of 1,000 requests, 2 cold among them (first_use 2): severity medium": {Count: 2, Of: 1000, Reasons: reasons, Included: true, Severity: metrics.SeverityMedium},
	} {
		if got := coldLine(&c); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestFewValues(t *testing.T) {
	for n, want := range map[int64][]string{100: nil, 5000: nil, 1: {"p99 of TTFT comes from one value: it is that value"},
		99: {"p99 of TTFT comes from 99 values: it lies between the two largest ones"}} {
		r := &Run{Results: []metrics.Result{{Def: &metrics.Def{Tag: "time_to_first_token", Header: "TTFT"}, Count: n}}}
		if got := fewValues(r); !slices.Equal(got, want) {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestAllFailed(t *testing.T) {
	r := &Run{Errors: []metrics.ErrorCount{
		{Error: metrics.Error{Type: "ClientConnectorError", Message: "refused"}, Count: 2},
		{Error: metrics.Error{Code: 404, Type: "Not Found", Message: "The model `m` does not exist."}, Count: 1998}},
		Screen: Screen{LogFile: "/logs/prefire.log"}}
	got := console(t, r, 80)
	for _, part := range []string{
		"NVIDIA AIPerf | Error Summary", "╭──────────────────────── AIPerf System Exit Errors ─────────────────────────╮",
		"│  All 2,000 inference request(s) failed. No successful responses were         │",
		"│  Most frequent: 404 Not Found: The model `m` does not exist.                 │",
		"│  What to do: compare --model with the names at the server's /v1/models, and  │",
		"│  Log: /logs/prefire.log                                                      │",
	} {
		if !strings.Contains(got, strings.Trim(part, "╭─╮")) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
	if strings.Contains(got, "LLM Metrics") {
		t.Error("an empty table")
	}
	for line := range strings.Lines(got) {
		if n := cellLen(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d cells: %s", n, line)
		}
	}

	r.Results = []metrics.Result{{Def: &metrics.Def{Tag: requestsTag}, Scalar: true, Avg: 1}}
	if got := console(t, r, 80); strings.Contains(got, "inference request(s) failed") {
		t.Error("one request was answered")
	}
}

func TestAdvice(t *testing.T) {
	for want, errs := range map[string][]metrics.Error{
		"--api-key": {{Code: 401}, {Code: 403}}, "/v1/models": {{Code: 404}}, "--isl": {{Code: 400}, {Code: 422}}, "--concurrency,": {{Code: 429}, {Code: 503}},
		"its own log": {{Code: 500}, {Code: 502}}, "--request-timeout-seconds": {{Type: "TimeoutError"}}, "--url names": {{Type: "ClientConnectorError"}},
		"cancelled": {{Code: 499}},
	} {
		for _, e := range errs {
			if got := advice(&e); !strings.Contains(got, want) {
				t.Errorf("%d %s: %s", e.Code, e.Type, got)
			}
		}
	}
}

func TestMaxTokensHint(t *testing.T) {
	body := `{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), ` +
		`'msg': 'Extra inputs are not permitted'}]"}`
	r := &Run{Errors: []metrics.ErrorCount{{Error: metrics.Error{Code: 400, Type: "Bad Request", Message: body}, Count: 1}}}
	if got := console(t, r, ConsoleWidth); !strings.Contains(got, "─ Unsupported Parameter: max_completion_tokens ─") ||
		!strings.Contains(got, "--use-legacy-max-tokens") {
		t.Error(got)
	}
	r.Errors[0].Error.Message = "something else"
	if got := console(t, r, ConsoleWidth); strings.Contains(got, "Unsupported Parameter") {
		t.Error(got)
	}
}

func TestOutputLongerThanAskedIsNotCalledEOS(t *testing.T) {
	scalar := func(tag string, v float64) metrics.Result {
		return metrics.Result{Def: &metrics.Def{Tag: tag}, Scalar: true, Avg: v}
	}
	r := &Run{Results: []metrics.Result{scalar("osl_mismatch_count", 3), scalar(requestsTag, 4), scalar("osl_mismatch_diff_pct", 96.25)}}
	got := console(t, r, ConsoleWidth)
	if !strings.Contains(got, "│  Why: On average the output is longer than requested") || strings.Contains(got, "EOS token") ||
		!strings.Contains(got, "3 of 4 requests (75.0%)") || !strings.Contains(got, "Average mismatch: 96.2%") {
		t.Error(got)
	}
}

func TestIncompleteRun(t *testing.T) {
	r := &Run{Incomplete: "records were lost"}
	if got, want := console(t, r, ConsoleWidth), "\n\nNVIDIA AIPerf | INCOMPLETE RESULTS\nrecords were lost\n"+incompleteAdvice+"\n"; got != want {
		t.Errorf("got %q", got)
	}
	var out bytes.Buffer
	if err := JSON(&out, r); err != nil {
		t.Fatal(err)
	}
	want := `{
  "schema_version": "1.4",
  "aiperf_version": "0.13.0",
  "run_info": {
    "random_seed": 0,
    "trial": 0
  },
  "was_cancelled": false,
  "is_complete": false,
  "incomplete_reason": "records were lost",
  "error_summary": []
}`
	same(t, "JSON", out.Bytes(), []byte(want))
}

func TestFooter(t *testing.T) {
	r := &Run{WasCancelled: true, Info: Info{Command: "prefire profile --model m"},
		Results: []metrics.Result{{Def: &metrics.Def{Tag: "benchmark_duration", Header: "Benchmark Duration", Display: metrics.Seconds}, Scalar: true, Avg: 0.725}},
		Screen:  Screen{Files: []File{{"CSV Export", "/a/b.csv"}, {"JSON Export", "/a/b.json"}}, LogFile: "/a/l.log"}}
	var out bytes.Buffer
	if err := Footer(&out, r); err != nil {
		t.Fatal(err)
	}
	want := "\nCLI Command: prefire profile --model m\nBenchmark Duration: 0.72 sec (cancelled early)\nCSV Export: /a/b.csv\nJSON Export: /a/b.json\n" +
		"Log File: /a/l.log\nThe profile run was cancelled early. Results shown may be incomplete or inaccurate.\n\n"
	if out.String() != want {
		t.Errorf("got %q", out.String())
	}
	out.Reset()
	if err := Footer(&out, &Run{}); err != nil || out.String() != "\n\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestServersCannotDriveTheTerminal(t *testing.T) {
	r := &Run{Errors: []metrics.ErrorCount{{Error: metrics.Error{Type: "T\x1b[2J", Message: "a\x1b]0;x\x07b\r\nc\td"}, Count: 1}}}
	got := console(t, r, ConsoleWidth)
	if strings.ContainsAny(got, "\x1b\x07\r\t") || !strings.Contains(got, "│ a]0;xb  │") || !strings.Contains(got, "│ c    d  │") {
		t.Errorf("%q", got)
	}
}

func TestTablesFitTheScreen(t *testing.T) {
	r := aiperfRun(t, "errors/summary.json")
	r.Screen.Version = "0.1.0"
	for _, width := range []int{140, 100, 80, 60} {
		for line := range strings.Lines(console(t, r, width)) {
			if n := cellLen(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d cells: %s", width, n, line)
			}
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 5, []string{""}},
		{"a b", 5, []string{"a b"}},
		{"aaa bbb ccc", 7, []string{"aaa bbb", "ccc"}},
		{"aaa bbb ccc", 8, []string{"aaa bbb ", "ccc"}},
		{"one\n\ntwo", 5, []string{"one", "", "two"}},
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"x abcdefgh y", 3, []string{"x ", "abc", "def", "gh ", "y"}},
		{"日本語 x", 4, []string{"日本", "語 x"}},
		{"ab", 0, []string{"a", "b"}},
	} {
		if got := wrap(c.text, c.width); !slices.Equal(got, c.want) {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestShrink(t *testing.T) {
	for _, c := range []struct {
		widths []int
		room   int
		want   []int
	}{
		{[]int{5, 6}, 20, []int{5, 6}},
		{[]int{5, 30, 10}, 25, []int{5, 10, 10}},
		{[]int{30, 30}, 41, []int{20, 21}},
		{[]int{10, 20, 20}, 13, []int{4, 4, 5}},
		{[]int{10, 10}, 2, []int{3, 3}},
	} {
		if got := shrink(slices.Clone(c.widths), c.room); !slices.Equal(got, c.want) {
			t.Errorf("%v in %d: %v, want %v", c.widths, c.room, got, c.want)
		}
	}
}
