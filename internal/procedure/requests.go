package procedure

import (
	"encoding/json"
	"io"
	"math"
	"strconv"

	"prefire/metrics"
)

// Request is what a record says of one request of profiling, in short. A figure that the record does not have is NaN.
type Request struct {
	// Start and End are in ns since 1970; 0 = not known.
	Start, End int64
	// Of an answered request none of these is true, of any other exactly one.
	Failed, Cancelled, Censored bool
	// Cold is as prefire wrote it down, or else by the signs of Debias. Untold: the record has no connection facts to tell it by.
	Cold, Untold bool
	TTFT, ITL    float64 // ms
	Latency      float64 // ms
	Prefill      float64 // tokens/sec/user
	Input        float64 // tokens
	Output       float64 // tokens
}

// requestLine is the part of a record that a Request is made from.
type requestLine struct {
	Metadata *struct {
		Phase     string `json:"benchmark_phase"`
		Cancelled bool   `json:"was_cancelled"`
		Start     int64  `json:"request_start_ns"`
		End       int64  `json:"request_end_ns"`
	} `json:"metadata"`
	Metrics *struct {
		TTFT       recordMetric `json:"time_to_first_token"`
		ITL        recordMetric `json:"inter_token_latency"`
		Latency    recordMetric `json:"request_latency"`
		Prefill    recordMetric `json:"prefill_throughput_per_user"`
		Input      recordMetric `json:"input_sequence_length"`
		Output     recordMetric `json:"output_sequence_length"`
		Reused     recordMetric `json:"http_req_connection_reused"`
		DNS        recordMetric `json:"http_req_dns_lookup"`
		Connecting recordMetric `json:"http_req_connecting"`
	} `json:"metrics"`
	Error   json.RawMessage `json:"error"`
	Prefire *struct {
		Cold     []string `json:"cold"`
		Censored bool     `json:"censored"`
	} `json:"prefire"`
}

// ReadRequests reads the requests of a run's records, profile_export.jsonl of aiperf 0.9 to 0.13 or of prefire, or of prefire's
// profile_export_censored.jsonl. The Request is used again for the next one. An error names the line; cut says that the last line was broken
// off and is left out. Nothing is held in memory.
func ReadRequests(records io.Reader, take func(*Request)) (cut bool, err error) {
	var r Request
	return eachLine(records, func(line []byte) error {
		var l requestLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if l.Metadata == nil || l.Metrics == nil && (l.Prefire == nil || !l.Prefire.Censored) {
			return errHalfRecord
		}
		if measured(l.Metadata.Phase) {
			l.fill(&r)
			take(&r)
		}
		return nil
	})
}

func (l *requestLine) fill(r *Request) {
	absent := math.NaN()
	*r = Request{Start: l.Metadata.Start, End: l.Metadata.End, TTFT: absent, ITL: absent, Latency: absent, Prefill: absent, Input: absent, Output: absent}
	switch {
	case l.Prefire != nil && l.Prefire.Censored:
		r.Censored = true
		return
	case l.Metadata.Cancelled:
		r.Cancelled = true
	case len(l.Error) > 0 && string(l.Error) != "null":
		r.Failed = true
	}
	m := l.Metrics
	r.TTFT, r.ITL, r.Latency = m.TTFT.orNaN(), m.ITL.orNaN(), m.Latency.orNaN()
	r.Prefill, r.Input, r.Output = m.Prefill.orNaN(), m.Input.orNaN(), m.Output.orNaN()
	if l.Prefire != nil {
		r.Cold = len(l.Prefire.Cold) > 0
		return
	}
	s := tellCold(func(tag string) (float64, bool) {
		switch tag {
		case "http_req_connection_reused":
			return m.Reused.number()
		case "http_req_dns_lookup":
			return m.DNS.number()
		default:
			return m.Connecting.number()
		}
	})
	r.Cold, r.Untold = s.cold(), !s.told
}

// number is the metric's value; a time is in ms.
func (m *recordMetric) number() (float64, bool) {
	v, err := strconv.ParseFloat(string(m.Value), 64)
	if err != nil {
		return 0, false
	}
	switch m.Unit {
	case metrics.Nanoseconds:
		v /= 1e6
	case metrics.Seconds:
		v *= 1e3
	}
	return v, true
}

func (m *recordMetric) orNaN() float64 {
	if v, ok := m.number(); ok {
		return v
	}
	return math.NaN()
}
