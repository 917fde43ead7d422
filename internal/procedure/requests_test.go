package procedure

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// Records of each kind, in short.
func TestReadRequests(t *testing.T) {
	const head = `{"metadata":{"benchmark_phase":"profiling","request_start_ns":5,"request_end_ns":9,"was_cancelled":false},`
	for _, c := range []struct{ name, line, want string }{
		{"ours", head + `"metrics":{"time_to_first_token":{"value":1.5,"unit":"ms"},"input_sequence_length":{"value":7,"unit":"tokens"},"http_req_connection_reused":{"value":0,"unit":"ratio"}},"prefire":{}}`,
			"5-9 ttft 1.5 input 7"},
		{"ours, cold", head + `"metrics":{"inter_token_latency":{"value":2,"unit":"ms"}},"prefire":{"cold":["dialled"]}}`, "5-9 cold itl 2"},
		{"aiperf's, in ns and seconds", head + `"metrics":{"time_to_first_token":{"value":1500000,"unit":"ns"},"request_latency":{"value":2,"unit":"sec"},"http_req_connection_reused":{"value":1,"unit":"ratio"}},"error":null}`,
			"5-9 ttft 1.5 latency 2000"},
		{"aiperf's, new connection", head + `"metrics":{"http_req_connection_reused":{"value":0,"unit":"ratio"}}}`, "5-9 cold"},
		{"aiperf's, slow lookup", head + `"metrics":{"http_req_dns_lookup":{"value":501,"unit":"ms"}}}`, "5-9 cold"},
		{"aiperf's, slow connect", head + `"metrics":{"http_req_connecting":{"value":501,"unit":"ms"}}}`, "5-9 cold"},
		{"no connection facts", head + `"metrics":{"output_sequence_length":{"value":4,"unit":"tokens"}}}`, "5-9 untold output 4"},
		{"failed", head + `"metrics":{},"error":{"code":500},"prefire":{}}`, "5-9 failed"},
		{"cancelled", `{"metadata":{"request_start_ns":5,"request_end_ns":9,"was_cancelled":true},"metrics":{},"error":{"code":499},"prefire":{}}`, "5-9 cancelled"},
		{"cut", `{"metadata":{"benchmark_phase":"profiling","request_start_ns":5,"request_end_ns":9,"was_cancelled":true},"prefire":{"censored":true}}`, "5-9 censored"},
		{"no number", head + `"metrics":{"time_to_first_token":{"value":[1],"unit":"ms"},"request_latency":{"value":null,"unit":"ms"}},"prefire":{}}`, "5-9"},
		{"warm-up", `{"metadata":{"benchmark_phase":"warmup"},"metrics":{}}`, ""},
	} {
		got := ""
		cut, err := ReadRequests(strings.NewReader(c.line+"\n"), func(r *Request) { got += short(r) })
		if err != nil || cut || got != c.want {
			t.Errorf("%s: %q, want %q (%v)", c.name, got, c.want, err)
		}
	}
}

func short(r *Request) string {
	s := fmt.Sprintf("%d-%d", r.Start, r.End)
	for _, f := range []struct {
		name string
		is   bool
	}{{"failed", r.Failed}, {"cancelled", r.Cancelled}, {"censored", r.Censored}, {"cold", r.Cold}, {"untold", r.Untold}} {
		if f.is {
			s += " " + f.name
		}
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"ttft", r.TTFT}, {"itl", r.ITL}, {"latency", r.Latency}, {"prefill", r.Prefill}, {"input", r.Input}, {"output", r.Output}} {
		if !math.IsNaN(f.v) {
			s += fmt.Sprintf(" %s %v", f.name, f.v)
		}
	}
	return s
}

// A line that was broken off is left out where it is the last one, and an error elsewhere; lines of any length are read.
func TestReadRequestsOfBrokenFiles(t *testing.T) {
	const good = `{"metadata":{},"metrics":{}}`
	long := `{"metadata":{},"metrics":{},"x":"` + strings.Repeat("y", 300_000) + `"}`
	for _, c := range []struct {
		name, file string
		n          int
		cut        bool
		err        string
	}{
		{"empty", "", 0, false, ""},
		{"no last line end", good + "\n" + good, 2, false, ""},
		{"cut", good + "\n" + good[:9], 1, true, ""},
		{"cut and long", long + "\n" + long[:200_000], 1, true, ""},
		{"long lines", long + "\n" + long + "\n" + good + "\n", 3, false, ""},
		{"broken in the middle", good[:9] + "\n" + good, 0, false, "line 1 is no record: invalid character '\\n' in string literal"},
		{"half a record", good + "\n{}", 1, false, "line 2 is no record: it has no metadata or no metrics"},
		{"no metrics", `{"metadata":{},"prefire":{}}` + "\n", 0, false, "line 1 is no record: it has no metadata or no metrics"},
	} {
		n := 0
		cut, err := ReadRequests(strings.NewReader(c.file), func(*Request) { n++ })
		if n != c.n || cut != c.cut || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %d records, cut %v, %v", c.name, n, cut, err)
		}
	}
}

// What is told here of each request adds up to what Debias finds in the same records.
func TestReadRequestsAgreesWithDebias(t *testing.T) {
	for _, run := range []string{"c1", "c5"} {
		data, err := os.ReadFile("testdata/aiperf-0.13.0/" + run + "/profile_export.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		d, err := Debias(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		cold, n, sum := 0, 0, 0.
		if _, err := ReadRequests(strings.NewReader(string(data)), func(r *Request) {
			if n++; r.Cold {
				cold++
			}
			sum += r.TTFT
		}); err != nil {
			t.Fatal(err)
		}
		if before := d.Changes[0].Before; cold != d.Cold || n != d.Requests || math.Abs(sum-before.Sum) > 1e-9*sum || before.Def.Tag != "time_to_first_token" {
			t.Errorf("%s: %d of %d cold with a TTFT of %v in all; debias has %d of %d, %v", run, cold, n, sum, d.Cold, d.Requests, before.Sum)
		}
	}
}
