package parity

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A rig that sees nothing would pass everything.
func TestCompareFindsWhatDiffers(t *testing.T) {
	a, p := newFacts(), newFacts()
	a.values = map[string]string{"same": "1", "value": "1", "aiperf only": "x"}
	p.values = map[string]string{"same": "1", "value": "2", "prefire only": "y"}
	a.orders = map[string][]string{"kept": {"a", "b", "c"}, "turned": {"a", "b", "c"}}
	p.orders = map[string][]string{"kept": {"a", "new", "c"}, "turned": {"c", "a"}}
	want := []difference{
		{"aiperf only", "x", ""}, {"prefire only", "", "y"}, {"value", "1", "2"}, {"turned/order", "a, c", "c, a"},
	}
	if got := compare(a, p); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestReadingASummary(t *testing.T) {
	const text = `{
  "request_count": {"unit": "requests", "avg": 3.0},
  "request_latency": {"unit": "ms", "avg": 12.5, "count": 3},
  "end_time": "2026-11-30T13:19:03.638077",
  "x": {"unit": "ms", "avg": 1}
}`
	f := newFacts()
	if err := readSummary(f, "s", []byte(text), false); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"s/ends with a newline": "false", "s/indent": "{\n  \"", "s/end_time": `"<time>"`,
		"s/metric/request_count": `"requests" unit,avg`, "s/metric/request_count/avg": "3.0",
		"s/metric/request_latency": `"ms" unit,avg,count`, "s/metric/request_latency/avg": "float", "s/metric/request_latency/count": "3",
		"s/metric/x": `"ms" unit,avg`, "s/metric/x/avg": "int",
	}
	if !maps.Equal(f.values, want) {
		t.Errorf("got %q\nwant %q", f.values, want)
	}
	if got := f.orders["s"]; !slices.Equal(got, []string{"request_count", "request_latency", "end_time"}) {
		t.Errorf("order of the declared keys: %q", got)
	}
}

func TestReadingTheScreen(t *testing.T) {
	const text = `
        NVIDIA AIPerf | LLM Metrics
┏━━━━━━━━━━━━━━┳━━━━━━━┳━━━━━┓
┃       Metric ┃   avg ┃ p50 ┃
┡━━━━━━━━━━━━━━╇━━━━━━━╇━━━━━┩
│ Request Rate │ 12.30 │ N/A │
│  (per second) │      │     │
│  Count (x)   │ 1,004.00 │ N/A │
└──────────────┴───────┴─────┘
╭── Warning ──╮
│ 4 of 4      │
│ are off     │
╰─────────────╯
`
	f := newFacts()
	readConsole(f, text)
	const table = "console/NVIDIA AIPerf | LLM Metrics"
	want := map[string]string{
		table: "there", table + "/columns": "Metric avg p50",
		table + "/row/Request Rate (per second)": "9.99 N/A", table + "/row/Count (x)": "9.99 N/A",
		"console/panel/Warning": " 4 of 4 are off",
	}
	if !maps.Equal(f.values, want) {
		t.Errorf("got %q\nwant %q", f.values, want)
	}
	if got := f.orders[table]; !slices.Equal(got, []string{"Request Rate (per second)", "Count (x)"}) {
		t.Errorf("rows %q", got)
	}
}

func TestReadingACSV(t *testing.T) {
	f := newFacts()
	readCSV(f, "c", "Metric,avg\r\nUsage A (x),1.50\r\nLatency (ms),12.34\r\n\r\nMetric,Value\r\nRate,\r\n", false)
	want := map[string]string{
		"c/every line ends with CRLF": "true", "c/section/Metric avg": "after 0 empty lines", "c/section/Metric Value": "after 1 empty lines",
		"c/row/Usage A (x)": "1.50", "c/row/Latency (ms)": "9.9", "c/row/Rate": "(empty)",
	}
	if !maps.Equal(f.values, want) {
		t.Errorf("got %q\nwant %q", f.values, want)
	}
}

func TestPromptsAreMaskedAndNothingElse(t *testing.T) {
	for in, want := range map[string]string{
		`{"messages":[{"role":"user","content":"a \"b\" \\"}],"model":"m"}`: `{"messages":[{"role":"user","content":"<prompt>"}],"model":"m"}`,
		`{"content": "x", "content":[{"content":""}]}`:                      `{"content": "<prompt>", "content":[{"content":"<prompt>"}]}`,
		`{"content":"cut`: `{"content":"<prompt>"`,
		`{"text":"a"}`:    `{"text":"a"}`,
	} {
		if got := maskPrompts([]byte(in)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestRequestsAreReadAsTheyWereSent(t *testing.T) {
	const wire = "POST /a?b=c HTTP/1.1\r\nHost: h:1\r\nX-Request-ID: 7\r\ncontent-length: 3\r\n\r\nabcGET /health HTTP/1.1\r\nHost: h:1\r\n\r\n" +
		"POST /cut HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"
	got, err := parseRequests([]byte(wire))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	q := got[0]
	if q.line != "POST /a?b=c HTTP/1.1" || strings.Join(q.names, " ") != "Host X-Request-ID content-length" || string(q.body) != "abc" ||
		q.id() != "7" {
		t.Errorf("got %+v", q)
	}
	if got[1].line != "GET /health HTTP/1.1" || len(got[1].body) != 0 {
		t.Errorf("got %+v", got[1])
	}
}
