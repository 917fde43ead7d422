package metrics

// httpDefs are the request's way over the network, of valid requests, under k6's names. The times do not overlap: blocked, DNS lookup,
// connecting, sending, waiting and receiving add up to the total.
func httpDefs() []*Def {
	ms := func(order int, tag, header string, value func(*Record) (float64, bool), doc string) *Def {
		return row(Def{Tag: tag, Header: header, Unit: Nanoseconds, Display: Milliseconds, Flags: Trace, Group: TraceTable, Order: order,
			Value: value, Doc: doc})
	}
	fact := func(order int, tag, header string, unit, display Unit, f Flags, value func(*HTTP) int64, doc string) *Def {
		return row(Def{Tag: tag, Header: header, Unit: unit, Display: display, Flags: Trace | f, Group: TraceTable, Order: order,
			Value: func(r *Record) (float64, bool) { return float64(value(&r.HTTP)), r.HTTP.FirstWrite != 0 }, Doc: doc})
	}
	return []*Def{
		ms(2000, "http_req_blocked", "HTTP Blocked", httpBlocked, "Time waited for a free connection or stream, in ms; 0 where there was "+
			"no wait."),
		ms(2010, "http_req_dns_lookup", "HTTP DNS Lookup", httpDNS, "Time of the name lookup of the request's own dial, in ms; 0 where "+
			"there was none."),
		ms(2020, "http_req_connecting", "HTTP Connecting", httpConnecting, "Time of the request's own TCP connect and TLS handshake, in ms, "+
			"the name lookup not counted; 0 on a connection that was there."),
		ms(2030, "http_req_sending", "HTTP Sending", httpSending, "From the first write of the request to the last, in ms."),
		ms(2040, "http_req_waiting", "HTTP Waiting (TTFB)", httpWaiting, "From the request's last write to the first byte of the answer's "+
			"body, in ms. A stream's first bytes may hold no content, so this is not the time to first token."),
		ms(2050, "http_req_receiving", "HTTP Receiving", httpReceiving, "From the first byte of the answer's body to the last, in ms; 0 for "+
			"a body of one read."),
		fact(2060, "http_req_connection_reused", "HTTP Connection Reused", Ratio, "", Integer,
			func(h *HTTP) int64 { return int64(oneIf(h.Reused)) },
			"1 where the request did not have to dial, else 0; the average is the share."),
		fact(2070, "http_req_data_sent", "HTTP Data Sent", Bytes, Kilobytes, 0, func(h *HTTP) int64 { return h.Sent },
			"Size of the request's body, in KB of 1,024 bytes; headers and framing not counted."),
		fact(2080, "http_req_chunks_sent", "HTTP Chunks Sent", CountUnit, "", Integer, func(h *HTTP) int64 { return h.Writes },
			"Writes that the request's body took."),
		fact(2090, "http_req_data_received", "HTTP Data Received", Bytes, Kilobytes, 0, func(h *HTTP) int64 { return h.Received },
			"Size of the answer's body, in KB of 1,024 bytes; headers and framing not counted."),
		fact(2100, "http_req_chunks_received", "HTTP Chunks Received", CountUnit, "", Integer, func(h *HTTP) int64 { return h.Reads },
			"Reads that brought bytes of the answer's body; one read may hold several events."),
		ms(2110, "http_req_connection_overhead", "HTTP Connection Overhead", httpOverhead, "Blocked + DNS lookup + connecting, in ms."),
		ms(2120, "http_req_duration", "HTTP Duration (excl. conn)", httpDuration, "From the first write of the request to the last "+
			"byte of the answer's body, in ms: sending + waiting + receiving, without the making of the connection."),
		ms(2130, "http_req_total", "HTTP Total Time", httpTotal, "Connection overhead + duration, in ms."),
	}
}

func httpBlocked(r *Record) (float64, bool) { return float64(r.HTTP.Blocked), r.HTTP.FirstWrite != 0 }

func httpDNS(r *Record) (float64, bool) {
	h := &r.HTTP
	if h.Reused || h.DNSStart == 0 {
		return 0, h.FirstWrite != 0
	}
	return between(h.DNSStart, h.DNSEnd)
}

func httpConnecting(r *Record) (float64, bool) {
	h := &r.HTTP
	if h.Reused {
		return 0, h.FirstWrite != 0
	}
	tcp, ok := between(h.DialStart, h.DialEnd)
	if h.TLSStart == 0 {
		return tcp, ok
	}
	tls, ok2 := between(h.TLSStart, h.TLSEnd)
	return tcp + tls, ok && ok2
}

func httpSending(r *Record) (float64, bool) { return between(r.HTTP.FirstWrite, r.HTTP.LastWrite) }
func httpWaiting(r *Record) (float64, bool) { return between(r.HTTP.LastWrite, r.HTTP.FirstByte) }

func httpReceiving(r *Record) (float64, bool) {
	if r.HTTP.Reads == 0 {
		return 0, false
	}
	return between(r.HTTP.FirstByte, r.HTTP.LastByte)
}

func httpOverhead(r *Record) (float64, bool) { return addAll(r, httpBlocked, httpDNS, httpConnecting) }

// httpDuration does not ask for its three parts: where the answer began before the request was fully sent, waiting is absent and this is not.
func httpDuration(r *Record) (float64, bool) { return between(r.HTTP.FirstWrite, r.HTTP.LastByte) }
func httpTotal(r *Record) (float64, bool)    { return addAll(r, httpOverhead, httpDuration) }

// addAll is the sum of values; absent where one of them is.
func addAll(r *Record, values ...func(*Record) (float64, bool)) (float64, bool) {
	sum := 0.
	for _, value := range values {
		v, ok := value(r)
		if !ok {
			return 0, false
		}
		sum += v
	}
	return sum, true
}
