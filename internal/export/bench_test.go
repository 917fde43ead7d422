package export

import (
	"bytes"
	"io"
	"testing"

	"prefire/metrics"
)

func BenchmarkRecord(b *testing.B) {
	e, r := encoder(metrics.Options{Streaming: true}.Table()), coldRecord()
	r.Cold = 0
	for range 124 {
		r.Gaps = append(r.Gaps, 20_123_456)
	}
	buf := e.Append(nil, r)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = e.Append(buf[:0], r)
	}
}

func BenchmarkInputs(b *testing.B) {
	body := append(append([]byte(`{"messages":[{"role":"user","content":"`), bytes.Repeat([]byte("some words "), 220)...),
		`"}],"model":"m","stream":true,"max_completion_tokens":128,"stream_options":{"include_usage":true}}`...)
	in := NewInputs(io.Discard, 1<<62)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := in.Add("session_000000", body); err != nil {
			b.Fatal(err)
		}
	}
}
