package export

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"

	"prefire/internal/orjson"
	"prefire/metrics"
)

// trace appends a record's trace_data in aiperf's order. Times are Unix times in ns; what did not happen is absent. The reads are those of
// the kernel's stamps, where there are any.
func (e *RecordEncoder) trace(dst []byte, r *metrics.Record) []byte {
	h := &r.HTTP
	dst = append(dst, `{"trace_type":"aiohttp"`...)
	dst = e.stamp(dst, `,"request_send_start_ns":`, h.FirstWrite)
	dst = headers(append(dst, `,"request_headers":`...), e.wholeRequest(r))
	dst = e.stamp(dst, `,"request_headers_sent_ns":`, h.LastWrite)
	dst = append(dst, `,"request_chunks":[`...)
	if h.LastWrite != 0 && h.Writes > 0 {
		dst = e.part(dst, h.LastWrite, h.Sent)
	}
	dst = e.stamp(append(dst, ']'), `,"request_send_end_ns":`, h.LastWrite)
	dst = counted(dst, `,"request_chunks_count":`, h.Writes)
	dst = counted(dst, `,"request_bytes_total":`, h.Sent)
	if h.Status != 0 {
		dst = counted(dst, `,"response_status_code":`, int64(h.Status))
		dst = text(dst, `,"response_reason":`, e.secrets.String(h.Reason))
	}
	dst = e.stamp(dst, `,"response_receive_start_ns":`, h.FirstByte)
	if len(r.Exchange.Reply) > 0 {
		dst = headers(append(dst, `,"response_headers":`...), r.Exchange.Reply)
	}
	dst = e.stamp(dst, `,"response_headers_received_ns":`, h.Head)
	dst = append(dst, `,"response_chunks":[`...)
	for i, p := range r.Exchange.Reads {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.part(dst, p.At, p.Size)
	}
	dst = counted(append(dst, ']'), `,"response_chunks_count":`, h.Reads)
	dst = counted(dst, `,"response_bytes_total":`, h.Received)
	dst = e.stamp(dst, `,"response_receive_end_ns":`, h.LastByte)
	if r.Err != nil {
		dst = e.stamp(dst, `,"error_timestamp_ns":`, r.End)
	}
	if h.Blocked > 0 {
		dst = e.stamp(e.stamp(dst, `,"connection_pool_wait_start_ns":`, r.Ready), `,"connection_pool_wait_end_ns":`, r.Ready+h.Blocked)
	}
	if h.Reused {
		dst = e.stamp(dst, `,"connection_reused_ns":`, h.FirstWrite)
	} else {
		dst = e.stamp(e.stamp(dst, `,"tcp_connect_start_ns":`, h.DialStart), `,"tcp_connect_end_ns":`, max(h.DialEnd, h.TLSEnd))
		dst = e.stamp(e.stamp(dst, `,"dns_lookup_start_ns":`, h.DNSStart), `,"dns_lookup_end_ns":`, h.DNSEnd)
	}
	dst = address(address(dst, "local", h.Local), "remote", h.Remote)
	for _, d := range e.spans {
		if v, ok := d.value(r); ok && (d.always || v > 0) {
			dst = counted(dst, d.key, int64(v))
		}
	}
	return append(dst, '}')
}

// wholeRequest is the request's header with what follows from its address and body.
func (e *RecordEncoder) wholeRequest(r *metrics.Record) []metrics.HeaderField {
	var out []metrics.HeaderField
	if e.host != nil && e.host(r) != "" {
		out = append(out, metrics.HeaderField{Name: "Host", Value: e.host(r)})
	}
	return append(append(out, e.request(r)...), metrics.HeaderField{Name: "Content-Length", Value: strconv.FormatInt(r.HTTP.Sent, 10)})
}

// span is one of the times that aiperf works out of a trace.
type span struct {
	key    string
	value  func(*metrics.Record) (float64, bool)
	always bool // 0 is a time, and not its absence
}

// spansOf are the times in aiperf's order, by the metrics of the same meaning.
func spansOf() []span {
	var out []span
	for _, s := range [...]struct {
		tag, key string
		always   bool
	}{{"sending", `,"sending_ns":`, true}, {"waiting", `,"waiting_ns":`, true}, {"receiving", `,"receiving_ns":`, true}, {"duration", `,"duration_ns":`, true},
		{"blocked", `,"blocked_ns":`, false}, {"dns_lookup", `,"dns_lookup_ns":`, false}, {"connecting", `,"connecting_ns":`, false}} {
		for _, d := range metrics.Table() {
			if d.Tag == "http_req_"+s.tag {
				out = append(out, span{s.key, d.Value, s.always})
			}
		}
	}
	return out
}

func (e *RecordEncoder) part(dst []byte, at, size int64) []byte {
	dst = strconv.AppendInt(append(dst, '['), e.wall(at), 10)
	return append(strconv.AppendInt(append(dst, ','), size, 10), ']')
}

func counted(dst []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(dst, key...), n, 10)
}

// address appends an address and its port.
func address(dst []byte, name, s string) []byte {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return dst
	}
	dst = text(dst, `,"`+name+`_ip":`, a.Addr().String())
	return counted(dst, `,"`+name+`_port":`, int64(a.Port()))
}

// headers appends fields as an object. Those that may be secret have no value.
func headers(dst []byte, fields []metrics.HeaderField) []byte {
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		value := f.Value
		if SensitiveHeader(f.Name) {
			value = Redacted
		}
		dst = orjson.AppendString(append(orjson.AppendString(dst, f.Name), ':'), value)
	}
	return append(dst, '}')
}

// draft appends a record's spec_decode_acceptance.
func draft(dst []byte, r *metrics.Record) []byte {
	s := r.Spec
	dst = appendFloat(append(dst, `{"engine":"vllm","mean_acceptance_length":`...), s.MeanLength)
	dst = appendFloat(append(dst, `,"draft_acceptance_rate":`...), s.AcceptanceRate)
	dst = append(dst, `,"acceptance_histogram":{`...)
	next := `"`
	for j, n := range s.Histogram {
		if n > 0 {
			dst = strconv.AppendInt(append(strconv.AppendInt(append(dst, next...), int64(j), 10), `":`...), n, 10)
			next = `,"`
		}
	}
	dst = counted(append(dst, '}'), `,"num_accepted_draft_tokens":`, s.Accepted)
	dst = counted(counted(dst, `,"num_draft_tokens":`, s.Drafted), `,"num_spec_steps":`, s.Steps)
	for _, c := range [...]struct {
		key string
		n   metrics.Count
	}{{`,"num_spec_tokens":`, s.Tokens}, {`,"completion_tokens":`, r.Usage.Completion}} {
		if c.n.Known {
			dst = counted(dst, c.key, c.n.N)
		}
	}
	for _, l := range [...]struct {
		key  string
		list []int64
	}{{`,"per_step_accepted":`, s.PerStepAccepted}, {`,"per_step_drafted":`, s.PerStepDrafted}} {
		for i, n := range l.list {
			if i == 0 {
				dst = append(append(dst, l.key...), '[')
			} else {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, n, 10)
		}
		if len(l.list) > 0 {
			dst = append(dst, ']')
		}
	}
	return append(dst, '}')
}

// AppendRaw appends one line of profile_export_raw.jsonl: the request as it was sent and the answer as it came, event by event with the time
// of arrival. start_perf_ns and perf_ns count from the run's epoch.
func (e *RecordEncoder) AppendRaw(dst []byte, r *metrics.Record, body, answer []byte) []byte {
	at := len(dst)
	dst = e.metadata(append(dst, `{"metadata":{`...), r, r.Cancelled, r.CancelledAt)
	dst = counted(append(dst, '}'), `,"start_perf_ns":`, first(r.Start, r.Ready, r.Issued))
	dst = headers(append(dst, `,"request_headers":`...), e.request(r))
	if r.HTTP.Status != 0 {
		dst = counted(dst, `,"status":`, int64(r.HTTP.Status))
	}
	dst = append(dst, `,"responses":[`...)
	if r.Exchange != nil && r.HTTP.Status >= 200 && r.HTTP.Status <= 299 && len(answer) > 0 {
		dst = responses(dst, r.Exchange, answer)
	}
	dst = append(dst, ']')
	if r.Err != nil {
		dst = e.failure(append(dst, `,"error":`...), r.Err)
	}
	if payload := bytes.TrimSpace(body); len(payload) > 0 {
		dst = append(dst, `,"payload":`...)
		if bytes.ContainsAny(payload, "\r\n") {
			var one bytes.Buffer
			if json.Compact(&one, payload) == nil {
				payload = one.Bytes()
			}
		}
		dst = append(dst, payload...)
	}
	return append(append(dst[:at], e.secrets.String(string(dst[at:]))...), "}\n"...)
}

// responses appends the events of a stream, each with the arrival of the read that completed it, or the one answer that is no stream.
func responses(dst []byte, x *metrics.Exchange, answer []byte) []byte {
	kind := ""
	for _, f := range x.Reply {
		if strings.EqualFold(f.Name, "Content-Type") {
			kind, _, _ = strings.Cut(f.Value, ";")
		}
	}
	arrival := arrivals{reads: x.Reads}
	if !strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") {
		dst = counted(dst, `{"perf_ns":`, arrival.of(int64(len(answer))))
		dst = orjson.AppendString(append(dst, `,"text":`...), strings.ToValidUTF8(string(answer), "\uFFFD"))
		return append(text(dst, `,"content_type":`, kind), '}')
	}
	next := `{"perf_ns":`
	for from := 0; from < len(answer); {
		size, end := message(answer[from:])
		if block := bytes.TrimSpace(answer[from : from+size]); len(block) > 0 {
			dst = counted(dst, next, arrival.of(int64(from+end)))
			dst = append(packets(append(dst, `,"packets":[`...), block), `]}`...)
			next = `,{"perf_ns":`
		}
		from += end
	}
	return dst
}

// message is the length of the first message of p and where the next one begins, behind its blank line.
func message(p []byte) (size, end int) {
	for i := 0; i < len(p); i++ {
		if p[i] != '\n' && p[i] != '\r' {
			continue
		}
		for j, ends := i, 0; j < len(p) && (p[j] == '\n' || p[j] == '\r'); ends++ {
			if p[j] == '\r' && j+1 < len(p) && p[j+1] == '\n' {
				j++
			}
			if j++; ends == 1 {
				return i, j
			}
		}
	}
	return len(p), len(p)
}

// packets appends the lines of a message, as aiperf reads them.
func packets(dst, block []byte) []byte {
	sep := ``
	for line := range bytes.FieldsFuncSeq(block, func(c rune) bool { return c == '\n' || c == '\r' }) {
		name, value, has := strings.Cut(strings.ToValidUTF8(string(bytes.TrimSpace(line)), "\uFFFD"), ":")
		if name = strings.TrimSpace(name); name == "" && has {
			name = "comment"
		}
		dst = orjson.AppendString(append(append(dst, sep...), `{"name":`...), name)
		if has {
			dst = orjson.AppendString(append(dst, `,"value":`...), strings.TrimSpace(value))
		}
		dst = append(dst, '}')
		sep = `,`
	}
	return dst
}

// arrivals says when the bytes up to a place had come; places are asked for in order.
type arrivals struct {
	reads []metrics.Read
	upTo  int64
	i     int
}

func (a *arrivals) of(end int64) int64 {
	for a.i < len(a.reads) && a.upTo+a.reads[a.i].Size < end {
		a.upTo += a.reads[a.i].Size
		a.i++
	}
	if a.i == len(a.reads) {
		if a.i == 0 {
			return 0
		}
		return a.reads[a.i-1].At
	}
	return a.reads[a.i].At
}
