package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"prefire/loadgen/wire"
)

// taken is what a sink was told of an answer.
type taken struct {
	status            int
	reason, mediaType string
	heads             int
	body              []byte
	keepFields        bool
	fields            []string
	last              bool
}

func (s *taken) Field(name, value []byte) {
	if s.keepFields {
		s.fields = append(s.fields, string(name)+"="+string(value))
	}
}

func (s *taken) Head(status int, reason, mediaType string, _ wire.Stamp) {
	s.status, s.reason, s.mediaType = status, reason, mediaType
	s.heads++
}

func (s *taken) Data(p []byte, _ wire.Stamp, last bool) error {
	s.body, s.last = append(s.body, p...), last
	return nil
}

// outcome is the end of an answer, comparable.
type outcome struct {
	status            int
	reason, mediaType string
	body              string
	used              int // bytes of the input that are the answer's
	done, keeps       bool
	fault             string
}

// readAll feeds p in steps; what is left then is the end of the connection.
func readAll(r *Response, method string, p []byte, step int) outcome {
	var to taken
	var o outcome
	r.Begin(method)
	var err error
	for part := range slices.Chunk(p, max(step, 1)) {
		var n int
		n, o.done, err = r.Read(part, wire.Stamp{}, true, &to)
		o.used += n
		if o.done || err != nil {
			break
		}
	}
	if !o.done && err == nil {
		err = r.End(io.EOF)
		o.done = err == nil
	}
	o.keeps = r.KeepAlive()
	o.status, o.reason, o.mediaType, o.body = to.status, to.reason, to.mediaType, string(to.body)
	if err != nil {
		o.fault = err.Error()
	}
	return o
}

func TestResponse(t *testing.T) {
	long := strings.Repeat("x", HeadLimit)
	const end = "\r\n\r\n"
	for _, tc := range []struct {
		name, method, say string
		want              outcome
	}{
		{"length", "POST", "HTTP/1.1 200 OK\r\ncontent-LENGTH: 3 \r\nContent-Type:\ta/b \r\n\r\nabcREST",
			outcome{200, "OK", "a/b", "abc", 62, true, true, ""}},
		{"chunked over length", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: Chunked" + end + "2\r\nab\r\n0\r\n\r\n",
			outcome{200, "OK", "", "ab", 78, true, true, ""}},
		{"to the end", "POST", "HTTP/1.1 200 OK" + end + "abc", outcome{200, "OK", "", "abc", 22, true, false, ""}},
		{"no body", "POST", "HTTP/1.1 204 No Content" + end + "x", outcome{204, "No Content", "", "", 27, true, true, ""}},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3" + end, outcome{200, "OK", "", "", 38, true, true, ""}},
		{"1xx", "POST", "HTTP/1.1 100 Continue\r\nConnection: close" + end + "HTTP/1.1 103 Early Hints\r\nContent-Type: no" + end +
			"HTTP/1.1 404 Not Found\r\nContent-Length: 0" + end, outcome{404, "Not Found", "", "", 135, true, true, ""}},
		{"LF alone", "POST", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", outcome{200, "OK", "", "x", 36, true, true, ""}},
		{"Connection: close", "POST", "HTTP/1.1 200 OK\r\nConnection: x ,\tCLOSE\r\nContent-Length: 0" + end,
			outcome{200, "OK", "", "", 61, true, false, ""}},
		{"HTTP/1.0", "POST", "HTTP/1.0 200 OK\r\nContent-Length: 0" + end, outcome{200, "OK", "", "", 38, true, false, ""}},
		{"HTTP/1.0 keep-alive", "POST", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0" + end,
			outcome{200, "OK", "", "", 62, true, true, ""}},
		{"HTTP/1.0 chunked is none", "POST", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked" + end + "1\r\n",
			outcome{200, "OK", "", "1\r\n", 50, true, false, ""}},
		{"no reason", "POST", "HTTP/1.1 200\r\nContent-Length: 0" + end, outcome{200, "", "", "", 35, true, true, ""}},
		{"the same length twice", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1" + end + "x",
			outcome{200, "OK", "", "x", 58, true, true, ""}},
		{"nothing", "POST", "", outcome{fault: "EOF"}},
		{"half a head", "POST", "HTTP/1.1 200 OK\r\nContent-", outcome{used: 25, fault: "EOF"}},
		{"half a body", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 3" + end + "a", outcome{200, "OK", "", "a", 39, false, false, ErrShortBody.Error()}},
		{"folded", "POST", "HTTP/1.1 200 OK\r\nA: b\r\n c" + end, outcome{used: 27, fault: `malformed HTTP header: a folded line " c"`}},
		{"no colon", "POST", "HTTP/1.1 200 OK\r\nA" + end, outcome{used: 20, fault: `malformed HTTP header line "A"`}},
		{"no name", "POST", "HTTP/1.1 200 OK\r\n: b" + end, outcome{used: 22, fault: `malformed HTTP header line ": b"`}},
		{"a NUL", "POST", "HTTP/1.1 200 OK\r\nA: \x00b" + end, outcome{used: 24, fault: `malformed HTTP header line "A: \x00b"`}},
		{"not HTTP", "POST", "SSH-2.0-OpenSSH\r\n", outcome{used: 17, fault: `malformed HTTP response "SSH-2.0-OpenSSH"`}},
		{"a code that is none", "POST", "HTTP/1.1 20 OK\r\n", outcome{used: 16, fault: `malformed HTTP status code "20"`}},
		{"a version that is none", "POST", "HTTP/1 200 OK\r\n", outcome{used: 15, fault: `malformed HTTP version "HTTP/1"`}},
		{"two lengths", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2" + end,
			outcome{used: 55, fault: `malformed HTTP Content-Length "2"`}},
		{"a length beyond 63 bits", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808" + end,
			outcome{used: 54, fault: `malformed HTTP Content-Length "9223372036854775808"`}},
		{"another coding", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip" + end,
			outcome{used: 44, fault: "unsupported transfer encoding: only chunked is, and only once"}},
		{"two codings", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked" + end,
			outcome{used: 75, fault: "unsupported transfer encoding: only chunked is, and only once"}},
		{"101", "POST", "HTTP/1.1 101 Switching Protocols" + end, outcome{used: 36, fault: ErrSwitched.Error()}},
		{"too long", "POST", "HTTP/1.1 200 OK\r\nA: " + long, outcome{used: 17, fault: ErrHeadTooLong.Error()}},
	} {
		var r Response
		for range 2 { // the second answer finds the strings of the first
			if got := readAll(&r, tc.method, []byte(tc.say), len(tc.say)); got != tc.want {
				t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
			}
		}
	}
}

// A body's bytes are the last of their read only where nothing follows in the read, or may still follow in the socket.
func TestLastOfItsRead(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for _, tc := range []struct {
		say     string
		drained bool
		want    bool
	}{
		{head + "Content-Length: 2\r\n\r\nab", true, true},
		{head + "Content-Length: 2\r\n\r\nab", false, false},
		{head + "Content-Length: 2\r\n\r\nabH", true, false},
		{head + "\r\nab", true, true},
		{head + "\r\nab", false, false},
		{head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", true, true},
		{head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", false, false},
		{head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0", true, false},
	} {
		var r Response
		var to taken
		r.Begin("POST")
		if _, _, err := r.Read([]byte(tc.say), wire.Stamp{}, tc.drained, &to); err != nil || string(to.body) != "ab" || to.last != tc.want {
			t.Errorf("%q, drained %v: body %q, last %v, want %v (%v)", tc.say, tc.drained, to.body, to.last, tc.want, err)
		}
	}
}

func TestResponseAllocatesNothing(t *testing.T) {
	var r Response
	var to taken
	head := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk, end := []byte("4\r\nword\r\n"), []byte("0\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() {
		to.body = to.body[:0]
		r.Begin("POST")
		for _, p := range [][]byte{head[:30], head[30:], chunk, chunk, end} {
			if _, _, err := r.Read(p, wire.Stamp{}, true, &to); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations an answer", n)
	}
	if string(to.body) != "wordword" || to.mediaType != "text/event-stream" || !r.KeepAlive() {
		t.Errorf("%q, %q, keeps %v", to.body, to.mediaType, r.KeepAlive())
	}
}

// FuzzResponse holds the reader against itself over any split, and against net/http's ReadResponse and body.
func FuzzResponse(f *testing.F) {
	const end = "\r\n\r\n"
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/event-stream; charset=utf-8" + end + "abcREST",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked" + end + "A;x=y\r\n0123456789\r\n1 \r\nz\r\n000\r\nX: y\r\n\r\nrest",
		"HTTP/1.0 200\r\nConnection: keep-alive, x\r\nContent-Length: 0" + end,
		"HTTP/1.1 100 Continue" + end + "HTTP/1.1 103 Early Hints\r\nLink: <x>" + end + "HTTP/1.1 204 No Content\r\nConnection: close" + end,
		"HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 1\n\nx",
		"HTTP/1.1 200 OK\r\nA: b\r\n c" + end, "HTTP/1.1 500 Internal Server Error" + end + "to the end", "SSH-2.0-OpenSSH\r\n",
	} {
		f.Add([]byte(s), uint8(1))
		f.Add([]byte(s), uint8(7))
	}
	f.Fuzz(func(t *testing.T, p []byte, step uint8) {
		var r Response
		whole := readAll(&r, "POST", p, len(p))
		if parts := readAll(&r, "POST", p, int(step)); parts != whole {
			t.Fatalf("in steps of %d: %+v, whole: %+v", step, parts, whole)
		}
		want, keeps, err := oracle(p)
		switch {
		case err == nil && whole.fault != "":
			if !stricter(p, want.status) {
				t.Fatalf("net/http reads %+v, here: %s", want, whole.fault)
			}
		case err == nil:
			got := outcome{status: whole.status, reason: whole.reason, mediaType: whole.mediaType, body: whole.body}
			if got != want || whole.keeps != keeps {
				t.Fatalf("net/http reads %+v, keeps %v, here %+v, keeps %v", want, keeps, got, whole.keeps)
			}
		case whole.fault == "" && !looser(p, err):
			t.Fatalf("net/http says %v, here %+v", err, whole)
		}
	})
}

// oracle reads p as net/http does, 1xx heads passed over.
func oracle(p []byte) (want outcome, keeps bool, err error) {
	br := bufio.NewReader(bytes.NewReader(p))
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: "POST"})
		if err != nil {
			return want, false, err
		}
		if resp.StatusCode == 101 {
			return want, false, ErrSwitched
		}
		if resp.StatusCode >= 100 && resp.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_, reason, _ := strings.Cut(resp.Status, " ")
		return outcome{status: resp.StatusCode, reason: reason, mediaType: resp.Header.Get("Content-Type"), body: string(body)}, !resp.Close, err
	}
}

// stricter tells what is refused here and taken by net/http, each against RFC 9112: a status below 100 or with a sign, HTTP/0.x, a folded
// line, and a chunk size with other bytes behind it than a blank or a semicolon.
func stricter(p []byte, status int) bool {
	text := string(p)
	for line := range strings.Lines(text) {
		if line[0] == ' ' || line[0] == '\t' || strings.HasPrefix(line, "HTTP/0") {
			return true
		}
	}
	return status < 100 || strings.Contains(text, " +")
}

// looser tells what net/http alone refuses: fields that a trailer may not have or that are malformed there, and chunks with much more
// framing than data.
func looser(p []byte, err error) bool {
	text := err.Error()
	return bytes.Contains(bytes.ToLower(p), []byte("trailer")) || strings.Contains(text, "malformed MIME header") ||
		strings.Contains(text, "too much non-data") || errors.Is(err, bufio.ErrTooLong) || strings.Contains(text, "trailer")
}

// What a Response is given may be the end of one read and the beginning of another answer.
func TestNextAnswer(t *testing.T) {
	var r Response
	for i := range 3 {
		say := fmt.Sprintf("HTTP/1.1 20%d OK\r\nContent-Length: 1\r\n\r\n%d", i, i)
		if got := readAll(&r, "POST", []byte(say), 5); got.status != 200+i || got.body != fmt.Sprint(i) || !got.keeps {
			t.Errorf("answer %d: %+v", i, got)
		}
	}
}

// Only the final head's fields are the answer's.
func TestFieldsOfTheFinalHead(t *testing.T) {
	var r Response
	to := taken{keepFields: true}
	r.Begin("POST")
	const answer = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nServer:  vllm \r\nContent-Length: 2\r\n\r\nok"
	if _, done, err := r.Read([]byte(answer), wire.Stamp{}, true, &to); !done || err != nil {
		t.Fatal(done, err)
	}
	if want := []string{"Server=vllm", "Content-Length=2"}; !slices.Equal(to.fields, want) {
		t.Errorf("fields %q, want %q", to.fields, want)
	}
}
