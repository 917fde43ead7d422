package export

import (
	"strconv"

	"prefire/internal/orjson"
	"prefire/metrics"
)

// RecordOptions say how records are written.
type RecordOptions struct {
	// Defs are the run's metrics, in the order they are written; those that do not belong into a record are left out.
	Defs []*metrics.Def
	// Phases are the run's phases by their Record.Phase number. Only Index, ProfilingIndex, Name and Kind are read.
	Phases []Phase
	// Wall turns a run time into Unix time in ns.
	Wall    func(at int64) int64
	Secrets *Redactor
	// Trace writes the exchange of each record that has one.
	Trace bool
	// Request is the header of a record's request, Host and Content-Length apart; nil = none is written.
	Request func(r *metrics.Record) []metrics.HeaderField
	// Host is the Host field; "" = not known.
	Host func(r *metrics.Record) string
}

// RecordEncoder makes the lines of profile_export.jsonl and profile_export_censored.jsonl. It keeps scratch space: one goroutine at a time.
type RecordEncoder struct {
	defs    []recordDef
	phases  [][]byte // the metadata that all records of a phase share
	wall    func(int64) int64
	secrets *Redactor
	request func(*metrics.Record) []metrics.HeaderField
	host    func(*metrics.Record) string
	spans   []span // nil = no traces
	values  []float64
}

type recordDef struct {
	*metrics.Def
	key, unit []byte // `"tag":{"value":` and `,"unit":"ms"}`
	factor    float64
}

// NewRecordEncoder prepares an encoder.
func NewRecordEncoder(o RecordOptions) *RecordEncoder {
	e := &RecordEncoder{wall: o.Wall, secrets: o.Secrets, request: o.Request, host: o.Host}
	if e.request == nil {
		e.request = func(*metrics.Record) []metrics.HeaderField { return nil }
	}
	if o.Trace {
		e.spans = spansOf()
	}
	for _, d := range o.Defs {
		if d.Flags&(metrics.NotInRecord|metrics.Internal) != 0 || d.Value == nil && d.List == nil {
			continue
		}
		e.defs = append(e.defs, recordDef{
			Def:    d,
			key:    append(orjson.AppendString(nil, d.Tag), `:{"value":`...),
			unit:   append(orjson.AppendString([]byte(`,"unit":`), string(d.Display)), '}'),
			factor: d.Factor(),
		})
	}
	for i := range o.Phases {
		p := &o.Phases[i]
		b := orjson.AppendString([]byte(`,"benchmark_phase":`), p.Kind.String())
		b = strconv.AppendInt(append(b, `,"phase_index":`...), int64(p.Index), 10)
		if p.Kind == metrics.Profiling {
			b = strconv.AppendInt(append(b, `,"profiling_index":`...), int64(p.ProfilingIndex), 10)
		}
		b = orjson.AppendString(append(b, `,"phase_name":`...), p.Name)
		b = orjson.AppendString(append(b, `,"phase_kind":`...), p.Kind.String())
		e.phases = append(e.phases, b)
	}
	return e
}

// Append appends one record's line. A censored record has no line here: see AppendCensored.
func (e *RecordEncoder) Append(dst []byte, r *metrics.Record) []byte {
	dst = e.metadata(append(dst, `{"metadata":{`...), r, r.Cancelled, r.CancelledAt)
	dst = append(dst, `},"metrics":{`...)
	first := true
	for i := range e.defs {
		d := &e.defs[i]
		if !d.For(r) {
			continue
		}
		at := len(dst)
		if !first {
			dst = append(dst, ',')
		}
		dst = append(dst, d.key...)
		var ok bool
		if dst, ok = e.value(dst, d, r); !ok {
			dst = dst[:at]
			continue
		}
		dst, first = append(dst, d.unit...), false
	}
	dst = append(dst, '}')
	if e.spans != nil && r.Exchange != nil {
		dst = e.trace(append(dst, `,"trace_data":`...), r)
	}
	if r.Spec != nil {
		dst = draft(append(dst, `,"spec_decode_acceptance":`...), r)
	}
	if r.Err != nil {
		dst = e.failure(append(dst, `,"error":`...), r.Err)
	}
	return append(e.facts(append(dst, `,"prefire":`...), r), "}}\n"...)
}

// value appends a metric's value or its list; false where the record has none.
func (e *RecordEncoder) value(dst []byte, d *recordDef, r *metrics.Record) ([]byte, bool) {
	if d.Shape != metrics.PerGap {
		v, ok := d.Value(r)
		if !ok || !finite(v) {
			return dst, false
		}
		return d.number(dst, v), true
	}
	e.values = d.List(r, e.values[:0])
	if len(e.values) == 0 {
		return dst, false
	}
	for i, v := range e.values {
		if !finite(v) {
			return dst, false
		}
		c := byte(',')
		if i == 0 {
			c = '['
		}
		dst = d.number(append(dst, c), v)
	}
	return append(dst, ']'), true
}

func (d *recordDef) number(dst []byte, v float64) []byte {
	if d.factor != 1 {
		v *= d.factor
	}
	if d.Has(metrics.Integer) && v == float64(int64(v)) {
		return strconv.AppendInt(dst, int64(v), 10)
	}
	return appendFloat(dst, v)
}

// metadata appends the fields of a record's metadata in aiperf's order.
func (e *RecordEncoder) metadata(dst []byte, r *metrics.Record, cancelled bool, at int64) []byte {
	start := first(r.Start, r.Ready, r.Issued)
	dst = strconv.AppendInt(append(dst, `"session_num":`...), r.Seq, 10)
	dst = text(dst, `,"x_request_id":`, r.RequestID)
	dst = text(dst, `,"x_correlation_id":`, r.CorrelationID)
	dst = text(dst, `,"conversation_id":`, r.ConversationID)
	dst = strconv.AppendInt(append(dst, `,"turn_index":`...), int64(r.Turn), 10)
	dst = e.stamp(dst, `,"credit_issued_ns":`, first(r.Issued, start))
	dst = e.stamp(dst, `,"request_start_ns":`, start)
	dst = e.stamp(dst, `,"request_ack_ns":`, r.Ack)
	dst = e.stamp(dst, `,"request_end_ns":`, first(r.End, start))
	// Readers tell workers apart by these strings; prefire's workers are numbered, so that two runs can be compared.
	dst = append(dst, `,"worker_id":"worker_`...)
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[uint32(r.Worker)>>shift&15])
	}
	dst = append(dst, `","record_processor_id":"record_processor_00000000"`...)
	if i := int(r.Phase); i >= 0 && i < len(e.phases) {
		dst = append(dst, e.phases[i]...)
	}
	dst = strconv.AppendBool(append(dst, `,"was_cancelled":`...), cancelled)
	if cancelled {
		dst = e.stamp(dst, `,"cancellation_time_ns":`, at)
	}
	dst = append(dst, `,"context_overflow_skip":false,"agent_depth":0`...)
	return text(dst, `,"root_correlation_id":`, r.CorrelationID)
}

func first(stamps ...int64) int64 {
	for _, s := range stamps {
		if s != 0 {
			return s
		}
	}
	return 0
}

// text appends a string field, stamp a time; both nothing where there is none.
func text(dst []byte, key, s string) []byte {
	if s == "" {
		return dst
	}
	return orjson.AppendString(append(dst, key...), s)
}

func (e *RecordEncoder) stamp(dst []byte, key string, at int64) []byte {
	if at == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, key...), e.wall(at), 10)
}

func (e *RecordEncoder) failure(dst []byte, err *metrics.Error) []byte {
	dst = append(dst, '{')
	if err.Code != 0 {
		dst = append(strconv.AppendInt(append(dst, `"code":`...), int64(err.Code), 10), ',')
	}
	if err.Type != "" {
		dst = append(orjson.AppendString(append(dst, `"type":`...), err.Type), ',')
	}
	dst = orjson.AppendString(append(dst, `"message":`...), e.secrets.String(err.Message))
	if err.Cause != "" {
		dst = orjson.AppendString(append(dst, `,"cause":`...), e.secrets.String(err.Cause))
	}
	for i, s := range err.Chain {
		sep := `,`
		if i == 0 {
			sep = `,"cause_chain":[`
		}
		dst = orjson.AppendString(append(dst, sep...), s)
	}
	if len(err.Chain) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// facts appends what prefire knows of a request beyond aiperf's record, without the last brace.
func (e *RecordEncoder) facts(dst []byte, r *metrics.Record) []byte {
	dst = append(dst, '{')
	at := len(dst)
	if r.Cold != 0 {
		dst = append(dst, `"cold":[`...)
		for i, name := range r.Cold.Names() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = orjson.AppendString(dst, name)
		}
		dst = append(dst, `],`...)
	}
	if r.Intended != 0 {
		dst = number(dst, `"intended_ns":`, e.wall(r.Intended))
	}
	if r.Intended != 0 && r.Ready >= r.Intended {
		dst = number(dst, `"send_late_us":`, (r.Ready-r.Intended)/1000)
	}
	if r.First != 0 {
		dst = number(dst, `"ttft_slack_us":`, int64(r.FirstSlack))
		dst = number(dst, `"last_slack_us":`, int64(r.LastSlack))
		dst = number(dst, `"late_us":`, int64(r.FirstLate))
		dst = number(dst, `"max_late_us":`, int64(r.MaxLate))
		dst = append(strconv.AppendBool(append(dst, `"kernel_stamps":`...), r.KernelStamps), ',')
	}
	if r.Streaming {
		dst = number(dst, `"events":`, int64(r.Events))
		dst = number(dst, `"chunks":`, int64(r.Chunks))
		dst = number(dst, `"shared_reads":`, int64(r.SharedReads))
		if len(r.Gaps) > 0 {
			dst = number(dst, `"gap_slack_us":`, int64(r.GapSlack))
			dst = lost(dst, r.Gaps)
		}
	}
	if r.Valid() && r.Start != 0 && r.End > r.Start {
		dst = millis(dst, `"stream_end_ms":`, r.End-r.Start)
	}
	if r.Attempts > 1 {
		dst = number(dst, `"attempts":`, int64(r.Attempts))
	}
	if r.Waited > 0 {
		dst = millis(dst, `"first_send_to_last_ms":`, r.Waited)
	}
	if r.Truncated {
		dst = append(dst, `"truncated":true,`...)
	}
	if r.Whole {
		dst = append(dst, `"not_streamed":true,`...)
	}
	if r.Strange != "" {
		dst = append(orjson.AppendString(append(dst, `"text_under":`...), r.Strange), ',')
	}
	if r.HTTP.Status != 0 {
		dst = number(dst, `"status":`, int64(r.HTTP.Status))
	}
	dst = connection(dst, &r.HTTP)
	if len(dst) > at {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// lost appends where, counted from 0, the gaps stand that inter_chunk_latency leaves out; nothing where it has them all.
func lost(dst []byte, gaps []metrics.Gap) []byte {
	next := `"gaps_in_one_read":[`
	for i, g := range gaps {
		if g == metrics.Shared {
			dst, next = strconv.AppendInt(append(dst, next...), int64(i), 10), ","
		}
	}
	if next == "," {
		dst = append(dst, "],"...)
	}
	return dst
}

// connection appends the facts of the connection that carried the request; those of the dial only where it was this request's own.
func connection(dst []byte, h *metrics.HTTP) []byte {
	if h.ConnID == 0 {
		return dst
	}
	dst = number(append(dst, `"connection":{`...), `"id":`, int64(h.ConnID))
	dst = number(dst, `"use":`, int64(h.ConnUse))
	dst = append(strconv.AppendBool(append(dst, `"reused":`...), h.Reused), ',')
	for _, f := range [...]struct{ key, value string }{{`"protocol":`, h.Protocol}, {`"local":`, h.Local}, {`"remote":`, h.Remote}} {
		if f.value != "" {
			dst = append(text(dst, f.key, f.value), ',')
		}
	}
	if h.Blocked > 0 {
		dst = millis(dst, `"queued_ms":`, h.Blocked)
	}
	for _, f := range [...]struct {
		key      string
		from, to int64
	}{{`"dns_ms":`, h.DNSStart, h.DNSEnd}, {`"connect_ms":`, h.DialStart, h.DialEnd}, {`"tls_ms":`, h.TLSStart, h.TLSEnd}} {
		if f.from != 0 && f.to >= f.from {
			dst = millis(dst, f.key, f.to-f.from)
		}
	}
	return append(dst[:len(dst)-1], `},`...)
}

// number and millis append a field and a comma.
func number(dst []byte, key string, n int64) []byte {
	return append(strconv.AppendInt(append(dst, key...), n, 10), ',')
}

func millis(dst []byte, key string, ns int64) []byte {
	return append(appendFloat(append(dst, key...), float64(ns)/1e6), ',')
}

// AppendCensored appends the line of a request that was cut by the end of the grace or by the user: what is known of it, how long it had
// run, and the transport's word for why it was cut. It has no metrics, since none of its times came to an end.
func (e *RecordEncoder) AppendCensored(dst []byte, r *metrics.Record) []byte {
	cut := first(r.CancelledAt, r.End)
	dst = e.metadata(append(dst, `{"metadata":{`...), r, true, cut)
	dst = append(dst, `},"prefire":{"censored":true,`...)
	if r.Err != nil {
		dst = append(orjson.AppendString(append(dst, `"reason":`...), e.secrets.String(r.Err.Message)), ',')
	}
	if start := first(r.Start, r.Ready, r.Issued); start != 0 && cut >= start {
		dst = millis(dst, `"ran_ms":`, cut-start)
		if r.First > start {
			dst = millis(dst, `"first_token_ms":`, r.First-start)
		}
	}
	dst = number(dst, `"chunks":`, int64(r.Chunks))
	dst = connection(dst, &r.HTTP)
	return append(dst[:len(dst)-1], "}}\n"...)
}
