package export

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"

	"prefire/internal/orjson"
	"prefire/metrics"
)

// answersHeld bounds the bytes that wait for an answer that stands before them; then they go into the file before it.
const answersHeld = 64 << 20

// Answers writes outputs.json: the text of each measured request's answer with the request's main metrics, in the order of the requests'
// numbers. It is for one goroutine at a time.
type Answers struct {
	w       io.Writer
	wall    func(int64) int64
	secrets *Redactor
	defs    []*metrics.Def
	waiting map[int64][]byte
	size    int
	phase   int32
	next    int64
	written int64
	buf     []byte
	err     error
}

// NewAnswers returns a writer with the metrics of o.Defs that aiperf has there. The file is valid after Close.
func NewAnswers(w io.Writer, o RecordOptions) *Answers {
	a := &Answers{w: w, wall: o.Wall, secrets: o.Secrets, waiting: map[int64][]byte{}, buf: []byte("{\n  \"schema_version\": \"1.0\",\n  \"data\": [")}
	for _, tag := range [...]string{"input_sequence_length", "output_token_count", "output_sequence_length", "request_latency", "time_to_first_token",
		"inter_token_latency"} {
		if i := slices.IndexFunc(o.Defs, func(d *metrics.Def) bool { return d.Tag == tag }); i >= 0 {
			a.defs = append(a.defs, o.Defs[i])
		}
	}
	return a
}

// Add takes a request and its answer's text. One that was cut is left out, as in aiperf; warm-up is none of the file's.
func (a *Answers) Add(r *metrics.Record, reasoning, output []byte) error {
	if r.Kind != metrics.Profiling || a.err != nil {
		return a.err
	}
	if r.Phase != a.phase {
		a.flush()
		a.phase, a.next = r.Phase, 0
	}
	var entry []byte
	if !r.Censored {
		entry = a.entry(r, reasoning, output)
	}
	a.waiting[r.Seq] = entry
	a.size += len(entry)
	for {
		entry, ok := a.waiting[a.next]
		if !ok {
			break
		}
		a.write(entry)
		delete(a.waiting, a.next)
		a.next++
	}
	if a.size > answersHeld {
		a.flush()
	}
	return a.err
}

// flush writes what waits, in order, whatever is missing before it.
func (a *Answers) flush() {
	for _, seq := range slices.SortedFunc(maps.Keys(a.waiting), cmp.Compare[int64]) {
		a.write(a.waiting[seq])
		delete(a.waiting, seq)
		a.next = seq + 1
	}
}

func (a *Answers) entry(r *metrics.Record, reasoning, output []byte) []byte {
	line := func(b []byte, key string) []byte { return append(orjson.AppendString(newline(b, 3), key), ": "...) }
	text := func(b []byte, key, s string) []byte { return append(orjson.AppendString(line(b, key), s), ',') }
	number := func(b []byte, key string, n int64) []byte { return append(strconv.AppendInt(line(b, key), n, 10), ',') }
	start := first(r.Start, r.Ready, r.Issued)
	b := number([]byte{'{'}, "session_num", r.Seq)
	b = text(b, "conversation_id", r.ConversationID)
	b = number(b, "turn_index", int64(r.Turn))
	b = text(b, "x_request_id", r.RequestID)
	b = number(number(b, "request_start_ns", a.wall(start)), "request_end_ns", a.wall(first(r.End, start)))
	b = append(line(b, "metrics"), '{')
	some := false
	for _, d := range a.defs {
		v, ok := d.Value(r)
		if !ok || !d.For(r) {
			continue
		}
		if some {
			b = append(b, ',')
		}
		some = true
		b = append(orjson.AppendString(newline(b, 4), d.Tag), ": "...)
		b = (&recordDef{Def: d, factor: d.Factor()}).number(b, v)
	}
	if some {
		b = newline(b, 3)
	}
	b = line(append(b, '}', ','), "response_text")
	if len(reasoning)+len(output) == 0 || !r.Valid() {
		b = append(b, "null"...)
	} else {
		b = orjson.AppendString(b, a.secrets.String(string(reasoning)+string(output)))
	}
	return append(newline(b, 2), '}')
}

func (a *Answers) write(entry []byte) {
	a.size -= len(entry)
	if entry == nil || a.err != nil {
		return
	}
	if a.written > 0 {
		a.buf = append(a.buf, ',')
	}
	a.written++
	a.buf = append(newline(a.buf, 2), entry...)
	if len(a.buf) > 64<<10 {
		_, a.err = a.w.Write(a.buf)
		a.buf = a.buf[:0]
	}
}

// Close ends the file. It does not close the writer beneath.
func (a *Answers) Close() error {
	a.flush()
	if a.written > 0 {
		a.buf = newline(a.buf, 1)
	}
	if a.err == nil {
		_, a.err = a.w.Write(append(a.buf, "]\n}"...))
	}
	return a.err
}
