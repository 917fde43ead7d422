package bench

import (
	"math"
	"strings"
	"testing"
)

func TestRecordsOfPrefireAndAIPerf(t *testing.T) {
	const text = `{"metadata":{"x_request_id":"a","request_start_ns":77,"benchmark_phase":"profiling"},"metrics":{"time_to_first_token":{"value":1.5,"unit":"ms"},"inter_token_latency":{"value":0.25},"output_sequence_length":{"value":5}},"prefire":{"ttft_slack_us":3,"last_slack_us":8}}
{"metadata":{"x_request_id":"b","request_start_ns":78,"benchmark_phase":"profiling"},"metrics":{"time_to_first_token":{"value":2}},"error":null}
{"metadata":{"x_request_id":"w","benchmark_phase":"warmup"},"metrics":{}}
{"metadata":{"x_request_id":"e","benchmark_phase":"profiling"},"metrics":{},"error":{"code":503}}
{"metadata":{"x_request_id":"c","benchmark_phase":"profiling"},"metrics":{},"prefire":{"cold":["dialled"]}}
`
	got, failed, err := ReadRecords(strings.NewReader(text))
	if err != nil || failed != 1 || len(got) != 3 {
		t.Fatalf("%+v, %d failed, %v; want three requests and one failed", got, failed, err)
	}
	if want := (Measured{ID: "a", Start: 77, TTFT: 1.5e6, ITL: 0.25e6, Stated: true, TTFTBound: 3000, ITLBound: 2000}); got[0] != want {
		t.Errorf("%+v, want %+v", got[0], want)
	}
	if m := got[1]; m.ID != "b" || m.Stated || m.TTFT != 2e6 || !math.IsNaN(m.ITL) {
		t.Errorf("a record of aiperf's: %+v", m)
	}
	if m := got[2]; m.ID != "c" || !m.Stated || !math.IsNaN(m.TTFT) {
		t.Errorf("a cold request: %+v", m)
	}
}

func TestTheResultOfVLLMBench(t *testing.T) {
	got, failed, err := ReadVLLMBench(strings.NewReader(
		`{"ttfts":[0.2,0,0.3],"itls":[[0.01,0.03],[],[]],"errors":["","refused",""],"completed":2}`), "bench-")
	if err != nil || failed != 1 || len(got) != 2 || got[0] != (Measured{ID: "bench-0", TTFT: 2e8, ITL: 2e7}) ||
		got[1].ID != "bench-2" || got[1].TTFT != 3e8 || !math.IsNaN(got[1].ITL) {
		t.Errorf("%+v, %d failed, %v", got, failed, err)
	}
	if _, _, err := ReadVLLMBench(strings.NewReader(`{"ttfts":[0.2]}`), ""); err == nil {
		t.Error("a result without details is taken")
	}
}
