package export

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"prefire/metrics"
)

// exchanged is a streamed request whose answer came in three reads, of which the second holds the end of one event and the whole next one.
func exchanged() (r *metrics.Record, answer []byte) {
	parts := []string{"data: {\"a\":1}\r\n\r\ndata: {\"b\"", ":2}\n\n: ping\nevent: x\ndata: é\n\n", "data: [DONE]\n\n"}
	r = &metrics.Record{Seq: 3, Phase: 0, RequestID: "r", CorrelationID: "c", ConversationID: "s", Streaming: true, Issued: 90, Ready: 95, Start: 100, Ack: 150,
		First: 200, FirstOut: 200, Last: 300, End: 400, In: metrics.Known(5), Out: metrics.Known(2),
		HTTP: metrics.HTTP{Blocked: 5, DialStart: 96, DialEnd: 98, FirstWrite: 100, LastWrite: 110, Head: 150, FirstByte: 200, LastByte: 400, Sent: 7, Received: 66,
			Writes: 1, Reads: 3, Status: 200, Reason: "OK", Local: "127.0.0.1:40", Remote: "[::1]:80"},
		Exchange: &metrics.Exchange{Reply: []metrics.HeaderField{{Name: "Content-Type", Value: "text/event-stream"}, {Name: "Set-Cookie", Value: "k=1"}}}}
	for i, p := range parts {
		r.Exchange.Reads = append(r.Exchange.Reads, metrics.Read{At: int64(200 + 100*i), Size: int64(len(p))})
		answer = append(answer, p...)
	}
	return r, answer
}

func exchangeOptions() RecordOptions {
	return RecordOptions{
		Defs: metrics.Options{Streaming: true}.Table(), Phases: []Phase{{Name: "profiling"}}, Wall: func(at int64) int64 { return 1_000_000 + at }, Trace: true,
		Secrets: NewRedactor("sk-secret"), Host: func(*metrics.Record) string { return "h:1" },
		Request: func(r *metrics.Record) []metrics.HeaderField {
			return []metrics.HeaderField{{Name: "X-Request-ID", Value: r.RequestID}, {Name: "Authorization", Value: "Bearer sk-secret"}}
		},
	}
}

// keyOf is the value of a key of a line.
func keyOf(t *testing.T, line []byte, key string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	return string(m[key])
}

func TestTraceOfARecord(t *testing.T) {
	r, _ := exchanged()
	e := NewRecordEncoder(exchangeOptions())
	const request = `"request_headers":{"Host":"h:1","X-Request-ID":"r","Authorization":"<redacted>","Content-Length":"7"}`
	want := `{"trace_type":"aiohttp","request_send_start_ns":1000100,` + request + `,"request_headers_sent_ns":1000110,"request_chunks":[[1000110,7]],` +
		`"request_send_end_ns":1000110,"request_chunks_count":1,"request_bytes_total":7,"response_status_code":200,"response_reason":"OK",` +
		`"response_receive_start_ns":1000200,"response_headers":{"Content-Type":"text/event-stream","Set-Cookie":"<redacted>"},` +
		`"response_headers_received_ns":1000150,"response_chunks":[[1000200,27],[1000300,31],[1000400,14]],"response_chunks_count":3,"response_bytes_total":66,` +
		`"response_receive_end_ns":1000400,"connection_pool_wait_start_ns":1000095,"connection_pool_wait_end_ns":1000100,"tcp_connect_start_ns":1000096,` +
		`"tcp_connect_end_ns":1000098,"local_ip":"127.0.0.1","local_port":40,"remote_ip":"::1","remote_port":80,"sending_ns":10,"waiting_ns":90,"receiving_ns":200,` +
		`"duration_ns":300,"blocked_ns":5,"connecting_ns":2}`
	if got := keyOf(t, e.Append(nil, r), "trace_data"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r.HTTP.Reused, r.HTTP.Blocked = true, 0
	r.Err = &metrics.Error{Code: 500, Message: "no"}
	got := keyOf(t, e.Append(nil, r), "trace_data")
	for text, there := range map[string]bool{`"connection_reused_ns":1000100`: true, `"error_timestamp_ns":1000400`: true, "tcp_connect": false, "pool_wait": false, "blocked_ns": false} {
		if strings.Contains(got, text) != there {
			t.Errorf("%s is there: %v, in %s", text, !there, got)
		}
	}
	o := exchangeOptions()
	o.Trace = false
	if got := keyOf(t, NewRecordEncoder(o).Append(nil, r), "trace_data"); got != "" {
		t.Errorf("a trace that nobody asked for: %s", got)
	}
}

func TestRawRecords(t *testing.T) {
	r, answer := exchanged()
	e := NewRecordEncoder(exchangeOptions())
	line := e.AppendRaw(nil, r, []byte("{\"prompt\": \"sk-secret\",\n \"n\": 1}"), answer)
	if bytes.Count(line, []byte("\n")) != 1 || bytes.Contains(line, []byte("sk-secret")) {
		t.Errorf("more lines than one, or a secret, in %s", line)
	}
	for key, want := range map[string]string{
		"start_perf_ns": "100", "status": "200", "request_headers": `{"X-Request-ID":"r","Authorization":"<redacted>"}`, "error": "",
		"payload": `{"prompt":"<redacted>","n":1}`,
		"responses": `[{"perf_ns":200,"packets":[{"name":"data","value":"{\"a\":1}"}]},{"perf_ns":300,"packets":[{"name":"data","value":"{\"b\":2}"}]},` +
			`{"perf_ns":300,"packets":[{"name":"comment","value":"ping"},{"name":"event","value":"x"},{"name":"data","value":"é"}]},` +
			`{"perf_ns":400,"packets":[{"name":"data","value":"[DONE]"}]}]`,
	} {
		if got := keyOf(t, line, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	r.Exchange.Reply[0].Value = "application/json; charset=utf-8"
	if got, want := keyOf(t, e.AppendRaw(nil, r, []byte("{}"), []byte(`{"x":1}`)), "responses"), `[{"perf_ns":200,"text":"{\"x\":1}","content_type":"application/json"}]`; got != want {
		t.Errorf("a whole answer is %s, want %s", got, want)
	}
	r.HTTP.Status, r.Err = 500, &metrics.Error{Code: 500, Type: "Oh", Message: "sk-secret is wrong"}
	line = e.AppendRaw(nil, r, nil, []byte("oh"))
	if got := keyOf(t, line, "responses") + keyOf(t, line, "error") + keyOf(t, line, "payload"); got != `[]{"code":500,"type":"Oh","message":"<redacted> is wrong"}` {
		t.Errorf("a failure is %s", got)
	}
}

func TestMessagesOfAStream(t *testing.T) {
	for in, want := range map[string][2]int{"": {0, 0}, "a": {1, 1}, "a\n": {2, 2}, "a\n\nb": {1, 3}, "a\r\n\r\nb": {1, 5}, "a\r\rb": {1, 3}, "a\nb\n\n": {3, 5}, "\n\na": {0, 2}} {
		if size, end := message([]byte(in)); size != want[0] || end != want[1] {
			t.Errorf("%q: %d, %d, want %v", in, size, end, want)
		}
	}
}

func TestDraftsOfARecord(t *testing.T) {
	r, _ := exchanged()
	r.Usage.Completion = metrics.Known(9)
	r.Spec = &metrics.SpecDecode{MeanLength: 2, AcceptanceRate: 0.5, Accepted: 2, Drafted: 4, Steps: 2, Histogram: []int64{0, 2, 0}, Tokens: metrics.Known(2), PerStepAccepted: []int64{1, 1}}
	want := `{"engine":"vllm","mean_acceptance_length":2.0,"draft_acceptance_rate":0.5,"acceptance_histogram":{"1":2},"num_accepted_draft_tokens":2,"num_draft_tokens":4,` +
		`"num_spec_steps":2,"num_spec_tokens":2,"completion_tokens":9,"per_step_accepted":[1,1]}`
	line := NewRecordEncoder(exchangeOptions()).Append(nil, r)
	if got := keyOf(t, line, "spec_decode_acceptance"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := keyOf(t, []byte(keyOf(t, line, "metrics")), "spec_decode_steps"); got != `{"value":2,"unit":"count"}` {
		t.Errorf("spec_decode_steps is %s", got)
	}
}

func TestDraftsOnTheScreenAndInTheSummary(t *testing.T) {
	acc := metrics.NewAccumulator(metrics.Options{Streaming: true})
	r, _ := exchanged()
	r.Spec = &metrics.SpecDecode{MeanLength: 2, AcceptanceRate: 0.5, Accepted: 11, Drafted: 20, Steps: 4, Histogram: []int64{1, 2, 0, 0, 0, 0, 0, 0, 0, 1}}
	acc.Add(r)
	acc.Add(r)
	run := &Run{Results: acc.Results(metrics.Window{Start: 1, End: 500}), Drafts: acc.Drafts()}
	text := console(t, run, ConsoleWidth)
	for _, line := range []string{"NVIDIA AIPerf | LLM Metrics: Spec Decode", " Acceptance Length (ratio) │  2.00 │",
		"\n  Accepted drafts per step (% of steps):  0: 25%   1: 50%   2: 0%   3: 0%   4: 0%   5: 0%   6: 0%   7: 0%   >=8: 25%\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	var out bytes.Buffer
	if err := JSON(&out, run); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(keyOf(t, out.Bytes(), "pooled_spec_decode_acceptance_histogram")), ""); got != `{"0":2,"1":4,"9":2}` {
		t.Errorf("the pooled histogram is %s", got)
	}
}

func TestAnswers(t *testing.T) {
	var out bytes.Buffer
	a := NewAnswers(&out, exchangeOptions())
	add := func(seq int64, change func(*metrics.Record), text string) {
		t.Helper()
		r, _ := exchanged()
		r.Seq = seq
		if change != nil {
			change(r)
		}
		if err := a.Add(r, nil, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	add(2, nil, "two\nsk-secret")
	add(0, nil, "zero")
	add(0, func(r *metrics.Record) { r.Kind = metrics.Warmup }, "warm")
	add(1, func(r *metrics.Record) { r.Censored = true }, "cut")
	add(4, func(r *metrics.Record) { r.Err = &metrics.Error{} }, "half")
	add(0, func(r *metrics.Record) { r.Phase = 1 }, "next phase")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Data []struct {
			Seq  int64   `json:"session_num"`
			Text *string `json:"response_text"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &file); err != nil {
		t.Fatalf("%v in %s", err, out.Bytes())
	}
	got := ""
	for _, d := range file.Data {
		got += string(rune('0'+d.Seq)) + ":"
		if d.Text != nil {
			got += *d.Text
		}
		got += ";"
	}
	if want := "0:zero;2:two\n<redacted>;4:;0:next phase;"; got != want {
		t.Errorf("answers %q, want %q", got, want)
	}
	const first = `{
  "schema_version": "1.0",
  "data": [
    {
      "session_num": 0,
      "conversation_id": "s",
      "turn_index": 0,
      "x_request_id": "r",
      "request_start_ns": 1000100,
      "request_end_ns": 1000400,
      "metrics": {
        "input_sequence_length": 5,
        "output_token_count": 2,
        "output_sequence_length": 2,
        "request_latency": 0.00019999999999999998,
        "time_to_first_token": 0.00009999999999999999,
        "inter_token_latency": 0.00009999999999999999
      },
      "response_text": "zero"
    },
`
	if !strings.HasPrefix(out.String(), first) {
		t.Errorf("got\n%s\nwant\n%s", out.String()[:min(len(first)+50, out.Len())], first)
	}
	out.Reset()
	if err := NewAnswers(&out, exchangeOptions()).Close(); err != nil || out.String() != "{\n  \"schema_version\": \"1.0\",\n  \"data\": []\n}" {
		t.Errorf("no answers are %q, %v", out.String(), err)
	}
}

func TestSliceFiles(t *testing.T) {
	acc := metrics.NewAccumulator(metrics.Options{Streaming: true})
	r, _ := exchanged()
	acc.Add(r)
	rs := acc.Results(metrics.Window{Start: 100, End: 500})
	var some []metrics.Result
	for _, m := range rs {
		if m.Def.Tag == "request_latency" || m.Def.Tag == "request_count" || m.Def.Tag == "effective_concurrency" {
			some = append(some, m)
		}
	}
	run := &Run{Slices: []Slice{{Start: 7, End: 9, Complete: true, Results: some[1:2]}, {Start: 9, End: 10, Results: some}}}
	file := func(write func(io.Writer, *Run) error) string {
		var out bytes.Buffer
		if err := write(&out, run); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := "Timeslice,Start_NS,End_NS,Metric,Unit,Stat,Value\r\n0,7,9,Request Count,requests,avg,1.00\r\n" +
		"1,9,10,Effective Concurrency,requests,avg,0.75\r\n1,9,10,Effective Concurrency,requests,min,0.00\r\n1,9,10,Effective Concurrency,requests,max,1.00\r\n" +
		"1,9,10,Effective Concurrency,requests,p50,1.00\r\n1,9,10,Effective Concurrency,requests,p90,1.00\r\n1,9,10,Effective Concurrency,requests,p95,1.00\r\n" +
		"1,9,10,Effective Concurrency,requests,p99,1.00\r\n1,9,10,Effective Concurrency,requests,std,0.43\r\n1,9,10,Request Count,requests,avg,1.00\r\n" +
		"1,9,10,Request Latency,ms,avg,0.00\r\n"
	if got := file(SlicesCSV); !strings.HasPrefix(got, want) || strings.Count(got, "\r\n") != 25 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got := strings.Join(strings.Fields(file(SlicesJSON)), "")
	if want := `{"timeslices":[{"start_ns":7,"end_ns":9,"request_count":{"unit":"requests","avg":1.0}},{"start_ns":9,"end_ns":10,"is_complete":false,"effective_concurrency":` +
		`{"unit":"requests","avg":0.75,"p50":1.0,"p90":1.0,"p95":1.0,"p99":1.0,"min":0.0,"max":1.0,"std":`; !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
