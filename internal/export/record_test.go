package export

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"

	"prefire/metrics"
)

// aiperfLine is one line of a profile_export.jsonl as its readers see it.
type aiperfLine struct {
	Metadata struct {
		SessionNum     int64  `json:"session_num"`
		TurnIndex      int32  `json:"turn_index"`
		RequestID      string `json:"x_request_id"`
		CorrelationID  string `json:"x_correlation_id"`
		ConversationID string `json:"conversation_id"`
		Issued         int64  `json:"credit_issued_ns"`
		Start          int64  `json:"request_start_ns"`
		Ack            int64  `json:"request_ack_ns"`
		End            int64  `json:"request_end_ns"`
		WorkerID       string `json:"worker_id"`
		Phase          string `json:"benchmark_phase"`
		PhaseIndex     int    `json:"phase_index"`
		WasCancelled   bool   `json:"was_cancelled"`
	}
	Metrics map[string]struct {
		Value json.RawMessage
		Unit  string
	}
	Error *metrics.Error
}

func (l *aiperfLine) float(t *testing.T, tag string) float64 {
	t.Helper()
	var v float64
	if err := json.Unmarshal(l.Metrics[tag].Value, &v); err != nil {
		t.Fatalf("%s: %v", tag, err)
	}
	return v
}

func (l *aiperfLine) ns(t *testing.T, tag string) int64 {
	return int64(math.Round(l.float(t, tag) * 1e6))
}

const epoch = int64(1796058000_000000000)

func wall(at int64) int64 { return epoch + at }

// record builds the facts that must give aiperf's line again.
func (l *aiperfLine) record(t *testing.T) *metrics.Record {
	m := &l.Metadata
	r := &metrics.Record{Seq: m.SessionNum, Turn: m.TurnIndex, ConversationID: m.ConversationID, RequestID: m.RequestID,
		CorrelationID: m.CorrelationID, Phase: int32(m.PhaseIndex), Issued: m.Issued - epoch, Start: m.Start - epoch, End: m.End - epoch,
		Streaming: true, In: metrics.Known(32), Err: l.Error}
	if m.Ack != 0 {
		r.Ack = m.Ack - epoch
	}
	if m.Phase == "warmup" {
		r.Kind = metrics.Warmup
	}
	if l.Error != nil {
		return r
	}
	r.First = r.Start + l.ns(t, "time_to_first_token")
	r.FirstOut, r.Second = r.First, r.First+l.ns(t, "time_to_second_token")
	r.Last = r.Start + l.ns(t, "request_latency")
	var gaps []float64
	if err := json.Unmarshal(l.Metrics["inter_chunk_latency"].Value, &gaps); err != nil {
		t.Fatal(err)
	}
	for _, g := range gaps {
		r.Gaps = append(r.Gaps, metrics.Gap(math.Round(g*1e6)))
	}
	r.Chunks, r.Out, r.RequestedOSL = int32(len(gaps)+1), metrics.Known(8), metrics.Known(8)
	r.Usage = metrics.Usage{Prompt: metrics.Known(40), Completion: metrics.Known(8), Total: metrics.Known(48), CacheRead: metrics.Known(16)}
	r.HTTP = metrics.HTTP{FirstWrite: r.Start, Sent: int64(math.Round(l.float(t, "http_req_data_sent") * 1024)),
		Received: int64(math.Round(l.float(t, "http_req_data_received") * 1024)), Writes: 1, Reads: int64(l.float(t, "http_req_chunks_received")),
		Reused: l.float(t, "http_req_connection_reused") == 1}
	if d := l.ns(t, "http_req_connecting"); d > 0 {
		r.HTTP.DialStart, r.HTTP.DialEnd = r.Start, r.Start+d
	}
	r.HTTP.LastWrite = r.Start + 1000
	r.HTTP.FirstByte = r.HTTP.LastWrite + l.ns(t, "http_req_waiting")
	r.HTTP.LastByte = r.HTTP.FirstByte + l.ns(t, "http_req_receiving")
	return r
}

func encoder(defs []*metrics.Def) *RecordEncoder {
	return NewRecordEncoder(RecordOptions{Defs: defs, Wall: wall,
		Phases: []Phase{{Index: 0, Name: "profiling"}, {Index: 1, ProfilingIndex: 1, Name: "second"}}})
}

func TestRecordIsAIPerfsLine(t *testing.T) {
	worker := regexp.MustCompile(`"(worker|record_processor)_[0-9a-f]{8}"`)
	defs := metrics.Options{Streaming: true}.Table()
	for _, name := range []string{"streaming", "errors", "warmup"} {
		for line := range bytes.Lines(golden(t, name+"/records.jsonl")) {
			var want aiperfLine
			if err := json.Unmarshal(line, &want); err != nil {
				t.Fatal(err)
			}
			phases := []Phase{{Name: "profiling"}}
			if name == "warmup" {
				phases = []Phase{{Name: "warmup", Kind: metrics.Warmup}, {Index: 1, Name: "profiling"}}
			}
			e := NewRecordEncoder(RecordOptions{Defs: defs, Phases: phases, Wall: wall})
			out := e.Append(nil, want.record(t))
			var got aiperfLine
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%s: %v in %s", name, err, out)
			}

			// The metadata byte for byte, but for the numbers of the workers.
			head := func(b []byte) string {
				s, _, _ := strings.Cut(string(b), `,"metrics":`)
				return worker.ReplaceAllString(s, `"$1"`)
			}
			if g, w := head(out), head(line); g != w {
				t.Errorf("%s: metadata\n got %s\nwant %s", name, g, w)
			}
			tail := func(b []byte) string {
				_, s, _ := strings.Cut(strings.TrimSuffix(string(b), "}\n"), `"error":`)
				s, _, _ = strings.Cut(s, `,"prefire"`)
				return s
			}
			if g, w := tail(out), tail(line); g != w {
				t.Errorf("%s: error\n got %s\nwant %s", name, g, w)
			}
			// aiperf counts the dial in these three; prefire does not (docs/differences.md).
			for tag, w := range want.Metrics {
				if tag == "http_req_sending" || tag == "http_req_duration" || tag == "http_req_total" {
					continue
				}
				if g := got.Metrics[tag]; strings.Contains(tag, "throughput") && g.Unit == w.Unit {
					// A rate is a quotient, whose last bit hangs on the order of the operations.
					if a, b := got.float(t, tag), want.float(t, tag); math.Abs(a-b) > 1e-14*b {
						t.Errorf("%s: %s = %v, aiperf wrote %v", name, tag, a, b)
					}
				} else if string(g.Value) != string(w.Value) || g.Unit != w.Unit {
					t.Errorf("%s: %s = %s %s, aiperf wrote %s %s", name, tag, g.Value, g.Unit, w.Value, w.Unit)
				}
			}
			for tag := range got.Metrics {
				if _, ok := want.Metrics[tag]; !ok {
					t.Errorf("%s: %s is in our line alone", name, tag)
				}
			}
		}
	}
}

// tinyDefs are a table of four metrics, for lines that can be read at a glance.
func tinyDefs() []*metrics.Def {
	return []*metrics.Def{
		{Tag: "time_to_first_token", Unit: metrics.Nanoseconds, Display: metrics.Milliseconds,
			Value: func(r *metrics.Record) (float64, bool) { return float64(r.First - r.Start), r.First != 0 }},
		{Tag: "input_sequence_length", Unit: metrics.Tokens, Display: metrics.Tokens, Flags: metrics.Integer,
			Value: func(r *metrics.Record) (float64, bool) { return float64(r.In.N), r.In.Known }},
		{Tag: "inter_chunk_latency", Unit: metrics.Nanoseconds, Display: metrics.Milliseconds, Shape: metrics.PerGap,
			List: func(r *metrics.Record, dst []float64) []float64 {
				for _, g := range r.Gaps {
					if g != metrics.Shared {
						dst = append(dst, float64(g))
					}
				}
				return dst
			}},
		{Tag: "error_isl", Unit: metrics.Tokens, Display: metrics.Tokens, Flags: metrics.ErrorOnly | metrics.Integer,
			Value: func(r *metrics.Record) (float64, bool) { return float64(r.In.N), r.In.Known }},
		{Tag: "secret_metric", Unit: metrics.Tokens, Display: metrics.Tokens, Flags: metrics.Internal,
			Value: func(*metrics.Record) (float64, bool) { return 1, true }},
		{Tag: "request_count", Unit: metrics.Requests, Display: metrics.Requests, Flags: metrics.NotInRecord, Shape: metrics.Aggregate,
			Value: func(*metrics.Record) (float64, bool) { return 1, true }},
		{Tag: "total", Unit: metrics.Tokens, Display: metrics.Tokens, Shape: metrics.Derived},
	}
}

func coldRecord() *metrics.Record {
	return &metrics.Record{
		Seq: 3, Turn: 1, Phase: 1, Worker: 0x2a, ConversationID: "session_000003", RequestID: "r-3", CorrelationID: "c-3",
		Intended: 1_000_000, Issued: 1_100_000, Ready: 1_150_000, Start: 1_150_000, Ack: 9_000_000, First: 10_150_000, Last: 30_150_000, End: 31_150_000,
		FirstSlack: 7, LastSlack: 8, FirstLate: 12, MaxLate: 90, KernelStamps: true, Gaps: []metrics.Gap{1_500_000, metrics.Shared, 2_000_000}, GapSlack: 6,
		Events: 6, Chunks: 4, SharedReads: 1, Streaming: true, In: metrics.Known(32), Cold: metrics.ColdDialled | metrics.ColdResent,
		HTTP: metrics.HTTP{Status: 200, FirstWrite: 1_150_000, ConnID: 5, ConnUse: 1, Protocol: "HTTP/1.1", Local: "127.0.0.1:1", Remote: "127.0.0.1:2", Blocked: 50_000,
			DNSStart: 1, DNSEnd: 2_000_001, DialStart: 3, DialEnd: 300_003, TLSStart: 4, TLSEnd: 700_000_004},
	}
}

func TestRecordLine(t *testing.T) {
	got := string(encoder(tinyDefs()).Append(nil, coldRecord()))
	want := `{"metadata":{"session_num":3,"x_request_id":"r-3","x_correlation_id":"c-3","conversation_id":"session_000003","turn_index":1,` +
		`"credit_issued_ns":1796058000001100000,"request_start_ns":1796058000001150000,"request_ack_ns":1796058000009000000,` +
		`"request_end_ns":1796058000031150000,"worker_id":"worker_0000002a","record_processor_id":"record_processor_00000000",` +
		`"benchmark_phase":"profiling","phase_index":1,"profiling_index":1,"phase_name":"second","phase_kind":"profiling","was_cancelled":false,` +
		`"context_overflow_skip":false,"agent_depth":0,"root_correlation_id":"c-3"},"metrics":{"time_to_first_token":{"value":9.0,"unit":"ms"},` +
		`"input_sequence_length":{"value":32,"unit":"tokens"},"inter_chunk_latency":{"value":[1.5,2.0],"unit":"ms"}},` +
		`"prefire":{"cold":["dialled","resent"],"intended_ns":1796058000001000000,"send_late_us":150,"ttft_slack_us":7,"last_slack_us":8,"late_us":12,"max_late_us":90,` +
		`"kernel_stamps":true,"events":6,"chunks":4,"shared_reads":1,"gap_slack_us":6,"gaps_in_one_read":[1],"stream_end_ms":30.0,"status":200,"connection":{"id":5,"use":1,` +
		`"reused":false,"protocol":"HTTP/1.1","local":"127.0.0.1:1","remote":"127.0.0.1:2","queued_ms":0.05,"dns_ms":2.0,` +
		`"connect_ms":0.3,"tls_ms":700.0}}}` + "\n"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestRecordLeavesOutWhatIsMissing(t *testing.T) {
	r := &metrics.Record{Issued: 5, Err: &metrics.Error{Message: "no \"answer\"\nkey sk-12345678", Cause: "EOF", Chain: []string{"a", "b"}}}
	e := NewRecordEncoder(RecordOptions{Defs: tinyDefs(), Wall: wall, Secrets: NewRedactor("sk-12345678")})
	got := string(e.Append(nil, r))
	want := `{"metadata":{"session_num":0,"turn_index":0,"credit_issued_ns":1796058000000000005,"request_start_ns":1796058000000000005,` +
		`"request_end_ns":1796058000000000005,"worker_id":"worker_00000000","record_processor_id":"record_processor_00000000",` +
		`"was_cancelled":false,"context_overflow_skip":false,"agent_depth":0},"metrics":{},` +
		`"error":{"message":"no \"answer\"\nkey <redacted>","cause":"EOF","cause_chain":["a","b"]},"prefire":{}}` + "\n"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestRecordNeverWritesWhatIsNoNumber(t *testing.T) {
	bad := []*metrics.Def{
		{Tag: "a", Value: func(*metrics.Record) (float64, bool) { return math.NaN(), true }},
		{Tag: "b", Value: func(*metrics.Record) (float64, bool) { return math.Inf(1), true }},
		{Tag: "c", Shape: metrics.PerGap, List: func(_ *metrics.Record, dst []float64) []float64 { return append(dst, 1, math.Inf(-1)) }},
		{Tag: "d", Value: func(*metrics.Record) (float64, bool) { return 1.5, true }},
	}
	got := string(encoder(bad).Append(nil, &metrics.Record{Issued: 1, Phase: 9}))
	if !strings.Contains(got, `"metrics":{"d":{"value":1.5,"unit":""}},`) {
		t.Error(got)
	}
}

func TestCancelledRecord(t *testing.T) {
	r := &metrics.Record{Issued: 5, Start: 6, End: 90, Cancelled: true, CancelledAt: 80, In: metrics.Known(4),
		Err: &metrics.Error{Code: 499, Type: "RequestCancellationError", Message: "cut"}}
	got := string(encoder(tinyDefs()).Append(nil, r))
	for _, part := range []string{
		`"was_cancelled":true,"cancellation_time_ns":1796058000000000080,"context_overflow_skip"`,
		`"metrics":{"error_isl":{"value":4,"unit":"tokens"}}`,
		`"error":{"code":499,"type":"RequestCancellationError","message":"cut"}`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
}

func TestCensoredLine(t *testing.T) {
	r := coldRecord()
	r.Censored, r.CancelledAt, r.Last, r.HTTP = true, 50_150_000, 0, metrics.HTTP{ConnID: 5, ConnUse: 2, Reused: true}
	r.Err = &metrics.Error{Code: 499, Type: "RequestCancellationError", Message: "end of the grace"}
	got := string(encoder(tinyDefs()).AppendCensored(nil, r))
	_, got, _ = strings.Cut(got, `"was_cancelled"`)
	want := `:true,"cancellation_time_ns":1796058000050150000,"context_overflow_skip":false,"agent_depth":0,"root_correlation_id":"c-3"},` +
		`"prefire":{"censored":true,"reason":"end of the grace","ran_ms":49.0,"first_token_ms":9.0,"chunks":4,"connection":{"id":5,"use":2,"reused":true}}}` + "\n"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	e, r := encoder(tinyDefs()), coldRecord()
	r.Cold = 0
	buf := e.Append(nil, r)
	if n := testing.AllocsPerRun(200, func() { buf = e.Append(buf[:0], r) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

// The reading that people's scripts do (cold requests out by hand) must work on every line.
func TestScriptsCanReadRecords(t *testing.T) {
	defs := metrics.Options{Streaming: true}.Table()
	var line aiperfLine
	if err := json.Unmarshal(encoder(defs).Append(nil, coldRecord()), &line); err != nil {
		t.Fatal(err)
	}
	m := line.Metadata
	if m.SessionNum != 3 || m.TurnIndex != 1 || m.WorkerID != "worker_0000002a" || m.ConversationID != "session_000003" || m.WasCancelled {
		t.Errorf("metadata = %+v", m)
	}
	for tag, want := range map[string]string{
		"time_to_first_token": "9.0 ms", "prefill_throughput_per_user": "3555.5555555555557 tokens/sec/user", "request_latency": "29.0 ms",
		"http_req_connection_reused": "0 ratio",
	} {
		if got := string(line.Metrics[tag].Value) + " " + line.Metrics[tag].Unit; got != want {
			t.Errorf("%s = %s, want %s", tag, got, want)
		}
	}
}
