package fakellm

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// harm does a fault that takes the place of the usual answer. It reports false where the request is answered as usual.
func (x *exchange) harm(f *Fault) bool {
	x.fault, x.entry.Fault = f, f.spec
	if f.kind.needs == onlyHTTP1 && x.r.ProtoMajor >= 2 || f.kind.needs == onlyHTTP2 && x.r.ProtoMajor < 2 {
		x.fault, x.entry.Fault = nil, ""
		return false
	}
	if f.kind.answer == nil {
		return false
	}
	f.kind.answer(x)
	return x.entry.Ended != "" || x.err != nil || x.hijacked || x.abort
}

func answerStatus(x *exchange) {
	if x.fault.retry != "" {
		x.w.Header().Set("Retry-After", x.fault.retry)
	}
	code := int(x.fault.num)
	x.fail(&apiError{code, http.StatusText(code), "", fmt.Sprintf("fault: status %d", code)})
}

func answerLongError(x *exchange) {
	x.fail(&apiError{500, "InternalServerError", "", strings.Repeat("x", int(x.fault.num))})
}

func refuseStreamOptions(x *exchange) {
	var q struct {
		Options json.RawMessage `json:"stream_options"`
	}
	if json.Unmarshal(x.body, &q) != nil || q.Options == nil {
		x.fault, x.entry.Fault = nil, ""
		return
	}
	x.fail(&apiError{int(x.fault.num), "BadRequestError", "stream_options", "Unrecognized request argument supplied: stream_options"})
}

func answerRedirect(x *exchange) {
	x.w.Header().Set("Location", x.r.URL.Path+"/")
	x.w.Header().Set("Content-Type", "text/plain")
	x.answer(int(x.fault.num), []byte("moved\n"))
}

func answerHTML(x *exchange) {
	x.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	x.answer(int(x.fault.num), []byte("<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><h1>Sign in to go on</h1></body></html>\n"))
}

func answerEmpty(x *exchange) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.answer(http.StatusOK, nil)
}

func answerDoneOnly(x *exchange) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.answer(http.StatusOK, []byte("data: [DONE]\n\n"))
}

func answerErrorBody(x *exchange) {
	x.answer(http.StatusOK, []byte(map[string]string{
		"object":       `{"error":{"message":"the model is gone","type":"InternalServerError","code":500}}`,
		"string":       `{"error":"the model is gone"}`,
		"null-choices": `{"object":"chat.completion","choices":null}`,
		"half":         `{"object":"chat.completion","choices":[{"index":0,"message":{"content":" wo`,
		"array":        `[1,2,3]`,
	}[x.fault.how]))
}

func answerGzip(x *exchange) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	// Writing to memory cannot fail.
	_, _ = z.Write([]byte("data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	_ = z.Close()
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Content-Encoding", "gzip")
	x.answer(http.StatusOK, b.Bytes())
}

// blackHole holds the request until the client leaves.
func blackHole(x *exchange) {
	<-x.r.Context().Done()
	x.err = x.r.Context().Err()
}

// answerLost ends the connection before a byte of the answer.
func answerLost(x *exchange) { x.lose(x.fault.how) }

func answerLostKept(x *exchange) {
	if x.entry.Use < 2 {
		x.fault, x.entry.Fault = nil, ""
		return
	}
	x.lose(x.fault.how)
}

// lose ends the request's connection, all its streams with it.
func (x *exchange) lose(how string) {
	x.entry.Ended = EndedFault
	switch how {
	case "rst":
		x.conn.reset()
	case "shut":
		x.conn.shut()
		<-x.r.Context().Done()
	default:
		// Without TLS's farewell, as of a process that ends.
		_ = x.conn.stamped.Close()
	}
	x.abort = true
}

// shut ends the server's half of the connection.
func (c *conn) shut() {
	if tcp, ok := c.stamped.Conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // where it cannot be, the client has left
	}
}

func holdSmallWrites(c *conn) bool {
	if tcp, ok := c.stamped.Conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(false) // it fails only for a connection that is gone
	}
	return true
}

// reset ends the connection with a RST.
func (c *conn) reset() {
	if tcp, ok := c.stamped.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // where it cannot be set, the connection is gone already
	}
	_ = c.stamped.Close()
}

// hijack takes an HTTP/1.1 connection from net/http.
func (x *exchange) hijack() net.Conn {
	c, _, err := x.flush.Hijack()
	if x.err = err; err != nil {
		return nil
	}
	x.hijacked, x.entry.Ended = true, EndedFault
	return c
}

// say writes raw bytes in place of an answer, and closes.
func (x *exchange) say(text string) {
	c := x.hijack()
	if c == nil {
		return
	}
	n, err := c.Write([]byte(text))
	x.entry.Bytes, x.err = int64(n), err
	_ = c.Close() // the client sees its end in any case
}

// endlessHead writes header lines until the client leaves.
func endlessHead(x *exchange) {
	c := x.hijack()
	if c == nil {
		return
	}
	defer c.Close()
	line := []byte("X-Line: " + strings.Repeat("x", 4000) + "\r\n")
	text := append([]byte("HTTP/1.1 200 OK\r\n"), line...)
	for x.s.ctx.Err() == nil {
		n, err := c.Write(text)
		if x.entry.Bytes += int64(n); err != nil {
			x.err = err
			return
		}
		text = line
	}
}

// chunk is text as one chunk of a chunked body.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

func plainAnswer(c *conn) bool {
	defer c.stamped.Close()
	var first [1024]byte
	if _, err := c.stamped.Read(first[:]); err == nil {
		_, _ = c.stamped.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
	}
	return false
}

func cutHandshake(c *conn) bool {
	var first [1024]byte
	_, _ = c.stamped.Read(first[:]) // whatever came, the connection ends
	_ = c.stamped.Close()
	return false
}
