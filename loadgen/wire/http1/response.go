package http1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"

	"prefire/loadgen/wire"
)

// HeadLimit bounds the head of an answer in bytes, 1xx heads counted.
const HeadLimit = 1 << 20

// What is wrong with a head as a whole.
var (
	ErrHeadTooLong = errors.New("the answer's head is longer than 1 MiB")
	ErrSwitched    = errors.New("101 Switching Protocols, which was not asked for")
)

// Response reads one answer to the next, push-fed, over any split into reads. It keeps bytes only of an unfinished line of a head, and the
// strings of the last head, which the next one most often repeats. Begin comes before the first Read of an answer.
//
// It takes what net/http's ReadResponse takes, but for what RFC 9112 forbids: folded lines, status codes that are not three digits from 100
// on, versions below 1.0.
type Response struct {
	method string
	state  responseState
	line   []byte // an unfinished line of the head
	size   int    // bytes of the heads so far
	came   bool   // a byte of the answer came

	status            int
	reason, mediaType string
	encoding, later   string // of this head: Content-Encoding and Retry-After
	older             bool   // HTTP/1.0
	typed             bool   // this head has a Content-Type
	closes, keeps     bool   // tokens of Connection
	codings           int    // Transfer-Encoding fields
	chunks            bool   // the only one is chunked
	length            int64

	left int64 // of the body, where its length is known
	body Chunked
}

type responseState uint8

const (
	inStatus responseState = iota
	inFields
	inLength  // a body of a known length
	inChunks  // a chunked body
	inRest    // a body up to the end of the connection
	afterBody // all has come
)

// Begin makes r ready for the answer to a request of the given method.
func (r *Response) Begin(method string) {
	r.method, r.size, r.came = method, 0, false
	r.beginHead()
}

func (r *Response) beginHead() {
	r.state, r.line = inStatus, r.line[:0]
	r.encoding, r.later = "", ""
	r.older, r.typed, r.closes, r.keeps, r.codings, r.chunks, r.length = false, false, false, false, 0, false, -1
}

// Came reports whether a byte of the answer has come.
func (r *Response) Came() bool { return r.came }

// Encoding is the Content-Encoding of the answer's head, from its Sink's Head on; "" = none.
func (r *Response) Encoding() string { return r.encoding }

// RetryAfter is the answer's Retry-After, from its Sink's Head on; "" = none.
func (r *Response) RetryAfter() string { return r.later }

// KeepAlive reports, after the whole answer has come, whether the connection may carry another request. Bytes behind the answer forbid it
// too, which the caller sees by what Read leaves over.
func (r *Response) KeepAlive() bool {
	return r.state == afterBody && !r.closes && (!r.older || r.keeps)
}

// Read takes the bytes of one raw read and tells the sink what is in them; drained says that the raw read holds no more. used is how much
// was taken, all of p unless the answer is done. An error is a HeadError, one of the body's framing, or the sink's.
func (r *Response) Read(p []byte, s wire.Stamp, drained bool, to Sink) (used int, done bool, err error) {
	r.came = r.came || len(p) > 0
	for r.state < inLength {
		i := bytes.IndexByte(p[used:], '\n')
		rest := p[used:]
		if i >= 0 {
			rest = rest[:i+1]
		}
		if r.size += len(rest); r.size > HeadLimit {
			return used, false, HeadError{ErrHeadTooLong}
		}
		used += len(rest)
		if i < 0 {
			r.line = append(r.line, rest...)
			return used, false, nil
		}
		line := rest
		if len(r.line) > 0 {
			r.line = append(r.line, rest...)
			line, r.line = r.line, r.line[:0]
		}
		line = line[:len(line)-1]
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if err := r.headLine(line, s, to); err != nil {
			return used, false, HeadError{err}
		}
	}
	switch rest := p[used:]; {
	case r.state == afterBody || len(rest) == 0:
	case r.state == inChunks:
		var n int
		n, done, err = r.body.Read(rest, s, drained, to)
		if used += n; done {
			r.state = afterBody
		}
	case r.state == inLength:
		n := int(min(r.left, int64(len(rest))))
		err = to.Data(rest[:n], s, drained && n == len(rest))
		used += n
		if r.left -= int64(n); r.left == 0 {
			r.state = afterBody
		}
	default:
		err = to.Data(rest, s, drained)
		used = len(p)
	}
	return used, r.state == afterBody && err == nil, err
}

// End takes the end of the connection: err is io.EOF, or what broke it. It is nil where that is the answer's end, else what LostBefore
// (where nothing came) or LostWithin makes an error of.
func (r *Response) End(err error) error {
	switch {
	case r.state == afterBody:
		return nil
	case !r.came:
		return err
	case r.state < inLength:
		return HeadError{err}
	case err != io.EOF:
		return err
	case r.state == inChunks:
		return ErrShortChunks
	case r.state == inLength:
		return ErrShortBody
	}
	r.state, r.closes = afterBody, true
	return nil
}

// Failed is the error of an exchange: read is what ended the reading, nil where the whole answer has come; write what ended the writing, if
// anything did. lost: the other side ended the connection before a byte of the answer came.
func (r *Response) Failed(read, write error) (e *wire.Error, lost bool) {
	known := (*wire.Error)(nil)
	switch {
	case read == nil:
		return nil, false
	case errors.As(read, &known):
		return known, false
	case r.came:
		return LostWithin(read), false
	case write != nil && !errors.Is(write, net.ErrClosed): // it says more, unless it is our own doing
		read = write
	}
	return LostBefore(read)
}

// headLine takes one line of the head without its end.
func (r *Response) headLine(line []byte, s wire.Stamp, to Sink) error {
	switch {
	case r.state == inStatus:
		r.state = inFields
		return r.statusLine(line)
	case len(line) > 0:
		return r.field(line, to)
	}
	if r.codings > 1 || r.codings == 1 && !r.chunks {
		return errors.New("unsupported transfer encoding: only chunked is, and only once")
	}
	switch {
	case r.status == 101:
		return ErrSwitched
	case r.status < 200:
		r.beginHead()
		return nil
	case r.status == 204 || r.status == 304 || r.method == "HEAD":
		r.state = afterBody
	case r.chunks:
		r.state, r.body = inChunks, Chunked{}
	case r.length == 0:
		r.state = afterBody
	case r.length > 0:
		r.state, r.left = inLength, r.length
	default:
		r.state = inRest
	}
	if !r.typed {
		r.mediaType = ""
	}
	to.Head(r.status, r.reason, r.mediaType, s)
	return nil
}

func malformed(what string, p []byte) error { return fmt.Errorf("malformed HTTP %s %q", what, p) }

func (r *Response) statusLine(line []byte) error {
	version, status, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return malformed("response", line)
	}
	status = bytes.TrimLeft(status, " ")
	code, reason, _ := bytes.Cut(status, []byte{' '})
	if len(code) != 3 || !digit(code[0]) || !digit(code[1]) || !digit(code[2]) || code[0] == '0' {
		return malformed("status code", code)
	}
	r.status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	if len(version) != len("HTTP/1.1") || string(version[:5]) != "HTTP/" || !digit(version[5]) || version[5] == '0' || version[6] != '.' ||
		!digit(version[7]) {
		return malformed("version", version)
	}
	r.older = version[5] == '1' && version[7] == '0'
	r.reason = again(r.reason, reason)
	return nil
}

// field takes one field line.
func (r *Response) field(line []byte, to Sink) error {
	if line[0] == ' ' || line[0] == '\t' {
		return malformed("header: a folded line", line)
	}
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || len(name) == 0 {
		return malformed("header line", line)
	}
	for _, c := range name {
		if !token(c) && c != ' ' { // a name with a blank at its end is a name of its own, as net/http has it
			return malformed("header line", line)
		}
	}
	value = bytes.Trim(value, " \t")
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return malformed("header line", line)
		}
	}
	if r.status >= 200 {
		to.Field(name, value)
	}
	switch len(name) {
	case len("Connection"):
		if fold(name, "connection") {
			r.connection(value)
		}
	case len("Content-Type"):
		if fold(name, "content-type") && !r.typed {
			r.mediaType, r.typed = again(r.mediaType, value), true
		}
	case len("Retry-After"):
		if fold(name, "retry-after") {
			r.later = string(value)
		}
	case len("Content-Encoding"):
		if fold(name, "content-encoding") {
			r.encoding = string(value)
		}
	case len("Content-Length"):
		if fold(name, "content-length") {
			n, ok := number(value)
			if !ok || r.length >= 0 && n != r.length {
				return malformed("Content-Length", value)
			}
			r.length = n
		}
	case len("Transfer-Encoding"):
		if fold(name, "transfer-encoding") && !r.older { // HTTP/1.0 has none
			r.codings++
			r.chunks = fold(value, "chunked")
		}
	}
	return nil
}

// connection takes the tokens of one Connection field.
func (r *Response) connection(value []byte) {
	for len(value) > 0 {
		part, rest, _ := bytes.Cut(value, []byte{','})
		value, part = rest, bytes.Trim(part, " \t")
		r.closes = r.closes || fold(part, "close")
		r.keeps = r.keeps || fold(part, "keep-alive")
	}
}

// number is a Content-Length of digits alone.
func number(p []byte) (n int64, ok bool) {
	for _, c := range p {
		d := int64(c - '0')
		if !digit(c) || n > (math.MaxInt64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(p) > 0
}

// again is p as a string: before, where they are the same, so that nothing is allocated.
func again(before string, p []byte) string {
	if string(p) == before {
		return before
	}
	return string(p)
}

// fold reports whether p is lower, without regard to case.
func fold(p []byte, lower string) bool {
	if len(p) != len(lower) {
		return false
	}
	for i, c := range p {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// token reports whether c may stand in a field's name (RFC 9110, 5.6.2).
func token(c byte) bool {
	return digit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0
}
