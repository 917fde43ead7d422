package metrics

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

const ms = int64(1e6)

// streamed is a request whose every figure can be checked by hand. It started at 1 s.
func streamed() *Record {
	at := func(t int64) int64 { return 1000*ms + t*ms }
	return &Record{
		Streaming: true, Intended: at(-3), Issued: at(-3), Ready: at(-1), Start: at(0), Ack: at(90),
		First: at(100), Second: at(110), FirstOut: at(120), Last: at(180), End: at(200),
		FirstSlack: 400, LastSlack: 800, FirstLate: 50, MaxLate: 70, KernelStamps: true,
		Gaps:      []Gap{Gap(10 * ms), Gap(10 * ms), Shared, Gap(60 * ms)},
		In:        Known(512),
		Out:       Known(6),
		Reasoning: Known(3), RequestedOSL: Known(10),
		Usage: Usage{Prompt: Known(640), Completion: Known(12), Total: Known(652), Reasoning: Known(3), CacheRead: Known(160),
			CacheWrite: Known(7), CacheMiss: Known(480), AcceptedPrediction: Known(1), RejectedPredict: Known(2), PromptAudio: Known(4),
			CompletionAudio: Known(5), ToolUsePrompt: Known(6)},
		Scheduled: at(-5),
		Spec:      &SpecDecode{MeanLength: 2.5, AcceptanceRate: 0.75, Accepted: 6, Drafted: 8, Steps: 4, Histogram: []int64{1, 0, 3}},
		HTTP: HTTP{Blocked: 2 * ms, DNSStart: at(-40), DNSEnd: at(-37), DialStart: at(-37), DialEnd: at(-33), TLSStart: at(-33), TLSEnd: at(-28),
			FirstWrite: at(0), LastWrite: at(1), FirstByte: at(95), LastByte: at(200), Sent: 2048, Received: 5120, Writes: 2, Reads: 9},
	}
}

// value is the record's value of a metric in the definition's Display unit, as a list.
func value(t *testing.T, tag string, r *Record) []float64 {
	t.Helper()
	i := slices.IndexFunc(Table(), func(d *Def) bool { return d.Tag == tag })
	if i < 0 {
		t.Fatalf("no metric %s", tag)
	}
	d := Table()[i]
	if d.Shape == PerGap {
		var out []float64
		for _, v := range d.List(r, nil) {
			out = append(out, v*d.Factor())
		}
		return out
	}
	if v, ok := d.Value(r); ok {
		return []float64{v * d.Factor()}
	}
	return nil
}

func approx(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) })
}

func TestValuesOfAStreamedRequest(t *testing.T) {
	want := map[string][]float64{
		"time_to_first_token_from_intended": {103}, "request_latency_from_intended": {183},
		"time_to_first_token": {100}, "time_to_second_token": {10}, "time_to_first_output_token": {120}, "request_latency": {180},
		"decode_duration": {80}, "inter_token_latency": {10}, "inter_chunk_latency": {10, 10, 60},
		"output_token_throughput_per_user": {100}, "e2e_output_token_throughput": {50}, "prefill_throughput_per_user": {5120},
		"input_sequence_length": {512}, "output_sequence_length": {9}, "output_token_count": {6}, "reasoning_token_count": {3},
		"osl_mismatch_diff_pct": {-10}, "osl_mismatch_count": {1}, "error_isl": {512},
		"request_count": {1}, "error_request_count": {1}, "context_overflow_count": {0},
		"min_request_timestamp": {1e9}, "max_response_timestamp": {1.18e9},
		"http_req_blocked": {2}, "http_req_dns_lookup": {3}, "http_req_connecting": {9}, "http_req_sending": {1}, "http_req_waiting": {94},
		"http_req_receiving": {105}, "http_req_connection_reused": {0}, "http_req_data_sent": {2}, "http_req_chunks_sent": {2},
		"http_req_data_received": {5}, "http_req_chunks_received": {9}, "http_req_connection_overhead": {14}, "http_req_duration": {200},
		"http_req_total":      {214},
		"usage_prompt_tokens": {640}, "usage_completion_tokens": {12}, "usage_total_tokens": {652}, "usage_reasoning_tokens": {3},
		"usage_prompt_cache_read_tokens": {160}, "usage_prompt_cache_write_tokens": {7}, "usage_prompt_cache_miss_tokens": {480},
		"usage_accepted_prediction_tokens": {1}, "usage_rejected_prediction_tokens": {2}, "usage_prompt_audio_tokens": {4},
		"usage_completion_audio_tokens": {5}, "usage_tool_use_prompt_tokens": {6},
		"usage_prompt_tokens_diff_pct": {25}, "usage_completion_tokens_diff_pct": {100. / 3}, "usage_reasoning_tokens_diff_pct": {0},
		"usage_discrepancy_count": {1}, "good_request_count": {0},
		"credit_to_start_latency": {3}, "effective_latency": {203}, "replay_send_schedule_offset": {5e6},
		"spec_decode_acceptance_length": {2.5}, "spec_decode_draft_acceptance_rate": {75}, "spec_decode_accepted_per_verified": {10. / 12},
		"spec_decode_steps": {4}, "spec_decode_accepted_draft_tokens": {6}, "spec_decode_draft_tokens": {8},
	}
	got := map[string][]float64{}
	for _, d := range Table() {
		if d.Shape <= Aggregate {
			got[d.Tag] = value(t, d.Tag, streamed())
		}
	}
	if !maps.EqualFunc(got, want, approx) {
		for _, tag := range slices.Sorted(maps.Keys(got)) {
			if !approx(got[tag], want[tag]) {
				t.Errorf("%s is %v, want %v", tag, got[tag], want[tag])
			}
		}
		t.Errorf("%d metrics have a value, want %d", len(got), len(want))
	}
}

func TestValuesThatDifferOrAreAbsent(t *testing.T) {
	oneEvent := func(r *Record) { r.Last, r.Second, r.Gaps = r.First, 0, nil }
	reused := func(r *Record) {
		r.HTTP.Reused, r.HTTP.DNSStart, r.HTTP.DialStart, r.HTTP.TLSStart = true, 0, 0, 0
	}
	for _, c := range []struct {
		name   string
		change func(*Record)
		tag    string
		want   []float64
	}{
		{"no content event", func(r *Record) { r.First = 0 }, "time_to_first_token", nil},
		{"no content event", func(r *Record) { r.First = 0 }, "prefill_throughput_per_user", nil},
		{"stamps in the wrong order", func(r *Record) { r.First = r.Start - 1 }, "time_to_first_token", nil},
		{"TTFT of 0", func(r *Record) { r.First = r.Start }, "time_to_first_token", []float64{0}},
		{"TTFT of 0", func(r *Record) { r.First = r.Start }, "prefill_throughput_per_user", nil},
		{"second event in the first one's read", func(r *Record) { r.Second = 0 }, "time_to_second_token", nil},
		{"only reasoning", func(r *Record) { r.FirstOut = 0 }, "time_to_first_output_token", nil},
		{"one event", oneEvent, "decode_duration", []float64{0}},
		{"one event", oneEvent, "inter_token_latency", nil},
		{"one event", oneEvent, "output_token_throughput_per_user", nil},
		{"one event", oneEvent, "inter_chunk_latency", nil},
		{"one event", oneEvent, "e2e_output_token_throughput", []float64{90}},
		{"one token", func(r *Record) { r.Out, r.Reasoning = Known(1), Count{} }, "inter_token_latency", nil},
		{"two tokens", func(r *Record) { r.Out, r.Reasoning = Known(2), Count{} }, "inter_token_latency", []float64{80}},
		{"no counts", func(r *Record) { r.Out, r.Reasoning = Count{}, Count{} }, "output_sequence_length", nil},
		{"no counts", func(r *Record) { r.Out, r.Reasoning = Count{}, Count{} }, "inter_token_latency", nil},
		{"no counts", func(r *Record) { r.Out, r.Reasoning = Count{}, Count{} }, "e2e_output_token_throughput", nil},
		{"only reasoning tokens", func(r *Record) { r.Out = Count{} }, "output_sequence_length", []float64{3}},
		{"no output tokens", func(r *Record) { r.Out = Known(0) }, "output_token_count", nil},
		{"no output tokens", func(r *Record) { r.Out = Known(0) }, "output_sequence_length", []float64{3}},
		{"no reasoning tokens, counted", func(r *Record) { r.Reasoning = Known(0) }, "reasoning_token_count", []float64{0}},
		{"no reasoning", func(r *Record) { r.Reasoning = Count{} }, "reasoning_token_count", nil},
		{"no input count", func(r *Record) { r.In = Count{} }, "input_sequence_length", nil},
		{"no input count", func(r *Record) { r.In = Count{} }, "prefill_throughput_per_user", nil},
		{"no input count", func(r *Record) { r.In = Count{} }, "usage_prompt_tokens_diff_pct", nil},
		{"no length asked for", func(r *Record) { r.RequestedOSL = Count{} }, "osl_mismatch_diff_pct", nil},
		{"no length asked for", func(r *Record) { r.RequestedOSL = Count{} }, "osl_mismatch_count", nil},
		{"length 0 asked for", func(r *Record) { r.RequestedOSL = Known(0) }, "osl_mismatch_diff_pct", nil},
		{"5 % short", func(r *Record) { r.Out, r.RequestedOSL = Known(92), Known(100) }, "osl_mismatch_count", []float64{0}},
		{"6 % short", func(r *Record) { r.Out, r.RequestedOSL = Known(91), Known(100) }, "osl_mismatch_count", []float64{1}},
		{"longer", func(r *Record) { r.Out, r.RequestedOSL = Known(147), Known(100) }, "osl_mismatch_diff_pct", []float64{50}},
		{"longer", func(r *Record) { r.Out, r.RequestedOSL = Known(147), Known(100) }, "osl_mismatch_count", []float64{1}},
		{"50 tokens short of many", func(r *Record) { r.Out, r.RequestedOSL = Known(1947), Known(2000) }, "osl_mismatch_count", []float64{0}},
		{"51 tokens short of many", func(r *Record) { r.Out, r.RequestedOSL = Known(1946), Known(2000) }, "osl_mismatch_count", []float64{1}},
		{"context too small", func(r *Record) { r.ContextOverflow = true }, "context_overflow_count", []float64{1}},
		{"reused connection", reused, "http_req_connection_reused", []float64{1}},
		{"reused connection", reused, "http_req_dns_lookup", []float64{0}},
		{"reused connection", reused, "http_req_connecting", []float64{0}},
		{"reused connection", reused, "http_req_connection_overhead", []float64{2}},
		{"reused connection", reused, "http_req_total", []float64{202}},
		{"no name to look up", func(r *Record) { r.HTTP.DNSStart, r.HTTP.DNSEnd = 0, 0 }, "http_req_dns_lookup", []float64{0}},
		{"in the clear", func(r *Record) { r.HTTP.TLSStart, r.HTTP.TLSEnd = 0, 0 }, "http_req_connecting", []float64{4}},
		{"handshake without an end", func(r *Record) { r.HTTP.TLSEnd = 0 }, "http_req_connecting", nil},
		{"dialled by another", func(r *Record) { r.HTTP.DialStart, r.HTTP.TLSStart = 0, 0 }, "http_req_connecting", nil},
		{"dialled by another", func(r *Record) { r.HTTP.DialStart, r.HTTP.TLSStart = 0, 0 }, "http_req_total", nil},
		{"never sent", func(r *Record) { r.HTTP = HTTP{} }, "http_req_blocked", nil},
		{"never sent", func(r *Record) { r.HTTP = HTTP{} }, "http_req_dns_lookup", nil},
		{"never sent", func(r *Record) { r.HTTP = HTTP{} }, "http_req_sending", nil},
		{"never sent", func(r *Record) { r.HTTP = HTTP{} }, "http_req_chunks_sent", nil},
		{"answered while sending", func(r *Record) { r.HTTP.LastWrite = r.HTTP.FirstByte + 1 }, "http_req_waiting", nil},
		{"answered while sending", func(r *Record) { r.HTTP.LastWrite = r.HTTP.FirstByte + 1 }, "http_req_duration", []float64{200}},
		{"body of one read", func(r *Record) { r.HTTP.LastByte, r.HTTP.Reads = r.HTTP.FirstByte, 1 }, "http_req_receiving", []float64{0}},
		{"no body", func(r *Record) { r.HTTP.Reads = 0 }, "http_req_receiving", nil},
		{"no usage", func(r *Record) { r.Usage = Usage{} }, "usage_prompt_tokens", nil},
		{"no usage", func(r *Record) { r.Usage = Usage{} }, "usage_completion_tokens_diff_pct", nil},
		{"no usage", func(r *Record) { r.Usage = Usage{} }, "usage_discrepancy_count", nil},
		{"client counts 0", func(r *Record) { r.In = Known(0) }, "usage_prompt_tokens_diff_pct", nil},
		{"10 % apart", func(r *Record) { r.In, r.Usage.Prompt, r.Usage.Completion = Known(100), Known(110), Known(9) },
			"usage_discrepancy_count", []float64{0}},
		{"output 11 % apart", func(r *Record) { r.In, r.Usage.Prompt, r.Usage.Completion = Known(100), Known(110), Known(10) },
			"usage_discrepancy_count", []float64{1}},
		{"reasoning apart", func(r *Record) { r.In, r.Usage.Completion, r.Usage.Reasoning = Known(640), Known(9), Known(4) },
			"usage_discrepancy_count", []float64{1}},
		{"no answer of the server's own drafts", func(r *Record) { r.Spec = nil }, "spec_decode_steps", nil},
		{"nothing drafted", func(r *Record) { r.Spec = &SpecDecode{} }, "spec_decode_accepted_per_verified", nil},
		{"no time in a file", func(r *Record) { r.Scheduled = 0 }, "replay_send_schedule_offset", nil},
		{"prompt 10 % below", func(r *Record) { r.In, r.Usage.Prompt = Known(1000), Known(900) }, "usage_prompt_tokens_diff_pct", []float64{10}},
	} {
		r := streamed()
		c.change(r)
		if got := value(t, c.tag, r); !approx(got, c.want) {
			t.Errorf("%s: %s is %v, want %v", c.name, c.tag, got, c.want)
		}
	}
}

func TestServerCounts(t *testing.T) {
	type counts struct{ in, out, reasoning Count }
	for _, c := range []struct {
		name   string
		change func(*Record)
		want   counts
	}{
		{"all there", func(*Record) {}, counts{Known(640), Known(9), Known(3)}},
		{"no reasoning", func(r *Record) { r.Usage.Reasoning = Count{} }, counts{Known(640), Known(12), Count{}}},
		{"more reasoning than tokens", func(r *Record) { r.Usage.Reasoning = Known(20) }, counts{Known(640), Known(12), Count{}}},
		{"no usage", func(r *Record) { r.Usage = Usage{} }, counts{}},
		{"failed", func(r *Record) { r.Err = &Error{} }, counts{Known(512), Known(6), Known(3)}},
	} {
		r := streamed()
		c.change(r)
		for range 2 { // the second time changes nothing
			r.UseServerCounts()
			if got := (counts{r.In, r.Out, r.Reasoning}); got != c.want {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
		}
	}
}

// What the client has counted stays as it is.
func TestAddServerCounts(t *testing.T) {
	type counts struct{ in, out, reasoning Count }
	for _, c := range []struct {
		name   string
		change func(*Record)
		want   counts
	}{
		{"all counted", func(*Record) {}, counts{Known(512), Known(6), Known(3)}},
		{"the answer is not", func(r *Record) { r.Out, r.Reasoning = Count{}, Count{} }, counts{Known(512), Known(9), Known(3)}},
		{"nothing is", func(r *Record) { r.In, r.Out, r.Reasoning = Count{}, Count{}, Count{} }, counts{Known(640), Known(9), Known(3)}},
		{"nor has the server", func(r *Record) { r.In, r.Out, r.Reasoning, r.Usage = Count{}, Count{}, Count{}, Usage{} }, counts{}},
		{"failed", func(r *Record) { r.In, r.Err = Count{}, &Error{} }, counts{Count{}, Known(6), Known(3)}},
	} {
		r := streamed()
		c.change(r)
		r.AddServerCounts()
		if got := (counts{r.In, r.Out, r.Reasoning}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	rows := map[[2]int]string{}
	for _, d := range Table() {
		switch {
		case seen[d.Tag]:
			t.Errorf("%s is there twice", d.Tag)
		case d.Header == "" || d.Unit == "" || d.Display == "" || d.Doc == "" || !strings.HasSuffix(d.Doc, "."):
			t.Errorf("%s lacks its header, unit or doc", d.Tag)
		case (d.Value != nil) != (d.Shape == PerRecord || d.Shape == Aggregate), (d.List != nil) != (d.Shape == PerGap),
			(d.Derive != nil) != (d.Shape == Derived), (d.Restate != nil) != (d.Shape == Restated), (d.over != nil) != (d.Shape == Curve):
			t.Errorf("%s has the wrong functions for its shape", d.Tag)
		case d.Group == FileOnly && d.Order != 0 && !d.Has(ErrorOnly):
			t.Errorf("%s has a row in no table", d.Tag)
		}
		seen[d.Tag] = true
		if key := [2]int{int(d.Group), d.Order}; d.Order != 0 {
			if other, ok := rows[key]; ok {
				t.Errorf("%s and %s have the same row", d.Tag, other)
			}
			rows[key] = d.Tag
		}
	}
	var cold []string
	for _, d := range Table() {
		if d.ColdOut {
			cold = append(cold, d.Tag)
		}
	}
	want := []string{"time_to_first_token", "time_to_first_token_from_intended", "time_to_second_token", "time_to_first_output_token",
		"request_latency", "request_latency_from_intended", "decode_duration", "inter_token_latency", "inter_chunk_latency", "output_token_throughput_per_user", "e2e_output_token_throughput",
		"prefill_throughput_per_user"}
	if !slices.Equal(cold, want) {
		t.Errorf("cold requests stay out of %v, want %v", cold, want)
	}
}

func TestTableOfARun(t *testing.T) {
	has := func(o Options, tag string) bool {
		return slices.ContainsFunc(o.Table(), func(d *Def) bool { return d.Tag == tag })
	}
	for _, c := range []struct {
		o    Options
		tag  string
		want bool
	}{
		{Options{Streaming: true}, "time_to_first_token", true},
		{Options{}, "time_to_first_token", false},
		{Options{}, "request_latency", true},
		{Options{}, "request_latency_from_intended", false},
		{Options{OpenLoop: true}, "request_latency_from_intended", true},
		{Options{OpenLoop: true}, "time_to_first_token_from_intended", false},
		{Options{OpenLoop: true, Streaming: true}, "time_to_first_token_from_intended", true},
		{Options{Streaming: true}, "usage_prompt_tokens_diff_pct", true},
		{Options{Streaming: true, ServerCounts: true}, "usage_prompt_tokens_diff_pct", false},
		{Options{Streaming: true, ServerCounts: true}, "usage_prompt_tokens", true},
		{Options{}, "effective_concurrency", true},
		{Options{}, "effective_decode_throughput", false},
		{Options{}, "goodput", false},
		{Options{Objectives: &Objectives{}}, "goodput", true},
		{Options{}, "network_rtt", false},
		{Options{Network: true}, "network_adjusted_request_latency", true},
		{Options{Network: true}, "network_adjusted_time_to_first_token", false},
		{Options{}, "replay_sched_lag_p50", false},
		{Options{Scheduled: true}, "replay_sched_lag_p50", true},
		{Options{}, "adj_request_latency", true},
		{Options{}, "adj_inter_token_latency", false},
	} {
		if got := has(c.o, c.tag); got != c.want {
			t.Errorf("%+v: %s is there: %v, want %v", c.o, c.tag, got, c.want)
		}
	}
}

func TestColdNames(t *testing.T) {
	if got, want := (ColdDialled | ColdFirstInference).Names(), []string{"dialled", "first_inference"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Cold(0).Names(); got != nil {
		t.Errorf("hot has reasons: %v", got)
	}
}
