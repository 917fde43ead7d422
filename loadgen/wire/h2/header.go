package h2

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"prefire/loadgen/wire"
)

// requestFields are the fields of one request that the target does not fix. The error is a *wire.Error.
func (c *Conn) requestFields(call *wire.Call) ([]hpack.HeaderField, error) {
	method, path := call.Method, call.Path
	if method == "" {
		method = "POST"
	}
	if path == "" {
		path = c.o.Target.Path
	}
	fields := make([]hpack.HeaderField, 0, 5+len(call.Header))
	fields = append(fields,
		hpack.HeaderField{Name: ":method", Value: method},
		hpack.HeaderField{Name: ":scheme", Value: c.o.Target.Scheme},
		hpack.HeaderField{Name: ":authority", Value: c.o.Target.Host},
		hpack.HeaderField{Name: ":path", Value: path})
	for _, f := range fields {
		if !httpguts.ValidHeaderFieldValue(f.Value) || f.Value == "" {
			return nil, &wire.Error{Type: "InvalidURL", Message: fmt.Sprintf("%q cannot be sent as %s", f.Value, f.Name)}
		}
	}
	fields, err := lowerFields(fields, call.Header)
	if err != nil {
		return nil, err
	}
	if len(call.Body) > 0 {
		fields = append(fields, hpack.HeaderField{Name: "content-length", Value: strconv.Itoa(len(call.Body))})
	}
	return fields, nil
}

// lowerFields appends fields in HTTP/2's spelling. What belongs to one HTTP/1.1 connection (RFC 9113 8.2.2), Host, which is :authority
// here, and Content-Length, which follows from the body, are left out.
func lowerFields(dst []hpack.HeaderField, fields []wire.Field) ([]hpack.HeaderField, error) {
	for _, f := range fields {
		if !httpguts.ValidHeaderFieldName(f.Name) {
			return nil, &wire.Error{Type: "ValueError", Message: fmt.Sprintf("%q is not the name of a header field", f.Name)}
		}
		if !httpguts.ValidHeaderFieldValue(f.Value) {
			// The value may be a secret.
			return nil, &wire.Error{Type: "ValueError", Message: fmt.Sprintf("the value of header field %s has control characters", f.Name)}
		}
		name := strings.ToLower(f.Name)
		switch name {
		case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host", "content-length":
			continue
		case "te":
			if f.Value != "trailers" {
				continue
			}
		}
		dst = append(dst, hpack.HeaderField{Name: name, Value: strings.Trim(f.Value, " \t")})
	}
	return dst, nil
}

// encode appends the request's header block to the batch, cut into frames the server takes.
func (c *Conn) encode(st *stream, endStream bool) {
	c.block.Reset()
	// The pseudo-header fields come first, the request's own after the target's.
	for _, part := range [...][]hpack.HeaderField{st.fields[:4], c.fixed, st.fields[4:]} {
		for _, f := range part {
			must(c.enc.WriteField(f))
		}
	}
	rest := c.block.Bytes()
	n := min(len(rest), int(c.peerFrame))
	must(c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: st.id, BlockFragment: rest[:n], EndStream: endStream, EndHeaders: n == len(rest),
	}))
	for rest = rest[n:]; len(rest) > 0; rest = rest[n:] {
		n = min(len(rest), int(c.peerFrame))
		must(c.framer.WriteContinuation(st.id, n == len(rest), rest[:n]))
	}
}

// must takes the error of a write into memory: it can only be a frame that breaks the protocol, which is a fault of this package.
func must(err error) {
	if err != nil {
		panic("h2: " + err.Error())
	}
}

// answer is what a client needs of an answer's header fields.
type answer struct {
	status      int
	contentType string
	encoding    string
	retryAfter  string
	length      int64 // Content-Length, or -1
}

// readAnswer reads the head of an answer, or says what is wrong with it.
func readAnswer(f *http2.MetaHeadersFrame) (a answer, wrong string) {
	text := f.PseudoValue("status")
	status, err := strconv.Atoi(text)
	if err != nil || len(text) != 3 || status < 100 {
		return a, fmt.Sprintf("the answer has the status %q", text)
	}
	a = answer{status: status, length: -1}
	for _, h := range f.RegularFields() {
		switch h.Name {
		case "content-type":
			a.contentType = h.Value
		case "content-encoding":
			a.encoding = h.Value
		case "retry-after":
			a.retryAfter = h.Value
		case "content-length":
			n, err := strconv.ParseUint(h.Value, 10, 63)
			if err != nil || (a.length >= 0 && a.length != int64(n)) {
				return a, fmt.Sprintf("the answer has the Content-Length %q", h.Value)
			}
			a.length = int64(n)
		}
	}
	if slices.Contains([]int{204, 304}, status) {
		a.length = -1
	}
	return a, ""
}
