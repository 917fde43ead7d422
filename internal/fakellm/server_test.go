package fakellm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// testClock is package time, real or a synctest bubble's.
type testClock struct{ epoch time.Time }

func newTestClock() *testClock { return &testClock{time.Now()} }

func (c *testClock) Now() int64              { return int64(time.Since(c.epoch)) + 1 }
func (c *testClock) Wall(at int64) time.Time { return c.epoch.Add(time.Duration(at - 1)) }
func (c *testClock) Until(ctx context.Context, at int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := time.NewTimer(time.Duration(at - c.Now()))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wordCounter counts words: enough where no real tokenizer is asked for.
type wordCounter struct{}

func (wordCounter) Count(text []byte) int { return len(bytes.Fields(text)) }

// start makes and starts a server on loopback and closes it at the test's end.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s := unstarted(t, o)
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return s
}

func unstarted(t *testing.T, o Options) *Server {
	t.Helper()
	o.Clock, o.KeepLog = newTestClock(), true
	if o.Counter == nil {
		o.Counter = wordCounter{}
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pipes is a listener without a network, for synctest bubbles.
type pipes struct {
	ch     chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// startPipes starts a server on pipes and returns a way to connect.
func startPipes(t *testing.T, o Options) (*Server, func() net.Conn) {
	t.Helper()
	s := unstarted(t, o)
	p := &pipes{ch: make(chan net.Conn), closed: make(chan struct{})}
	if err := s.Serve(p); err != nil {
		t.Fatal(err)
	}
	return s, func() net.Conn {
		client, server := net.Pipe()
		p.ch <- server
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.ch:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// asClient is one HTTP/1.1 connection in a client's hands.
type asClient struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func newClient(t *testing.T, c net.Conn) *asClient { return &asClient{t, c, bufio.NewReader(c)} }

func (c *asClient) send(method, path, body string) {
	c.t.Helper()
	const form = "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	_, err := fmt.Fprintf(c.c, form, method, path, len(body), body)
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *asClient) read() (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(body)
}

func (c *asClient) do(method, path, body string) (*http.Response, string) {
	c.t.Helper()
	c.send(method, path, body)
	return c.read()
}

// chatBody is a streamed request of n prompt words and limit output tokens.
func chatBody(n, limit int) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":true,"max_completion_tokens":%d,"ignore_eos":true}`,
		strings.TrimSpace(strings.Repeat("w ", n)), limit)
}

const chatPath = "/v1/chat/completions"

// entries waits for n entries of the log.
func entries(t *testing.T, s *Server, n int) []Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	list, err := s.Wait(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// since is a wall time in the log as a duration from another.
func since(at, from int64) time.Duration { return time.Duration(at - from) }

// dues are the kinds of e's writes and when they were due, counted from its arrival.
func dues(e Entry) []string {
	var list []string
	for _, w := range e.Writes {
		if w.Kind != WriteHead {
			list = append(list, fmt.Sprintf("%s %v", w.Kind, since(w.DueNS, e.ArrivedNS)))
		}
	}
	return list
}

func TestOptionsAreChecked(t *testing.T) {
	base := Options{Clock: newTestClock(), Counter: wordCounter{}}
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Clock = nil }, "fakellm: Options.Clock and Options.Counter must be set"},
		{func(o *Options) { o.TTFT = -time.Second }, "the TTFT is -1s; it must be 0 or more"},
		{func(o *Options) { o.Slots = -1 }, "the number of slots is -1; it must be 0 or more"},
		{func(o *Options) { o.Jitter = 1 }, "the jitter is 1; it must be a fraction from 0 to below 1"},
		{func(o *Options) { o.KneeFactor = -2 }, "the knee factor is -2; it must be 0 or more"},
		{func(o *Options) { o.Refuse, o.Slots = 500, 1 }, "the status of a refused request is 500; it must be 429 or 503"},
		{func(o *Options) { o.Refuse = 503 }, "requests can be refused only where the number of slots is limited"},
		{func(o *Options) { o.H2, o.H2C = true, true }, "h2c is HTTP/2 in the clear; it cannot be had together with TLS"},
		{func(o *Options) { o.ColdTLS = time.Second }, "a delay in the TLS handshake needs TLS"},
		{func(o *Options) { o.Stall = time.Second }, "a stall comes after 1 token at least; what delays the first is TTFT"},
		{func(o *Options) { o.StallAfter = -1 }, "the token of the stall is -1; it must be 0 or more"},
		{func(o *Options) { o.Counter = joined{} }, "fakellm: the tokenizer joins the server's words into longer tokens"},
	} {
		o := base
		c.change(&o)
		_, err := New(o)
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// joined is a tokenizer that takes any text for one token.
type joined struct{}

func (joined) Count([]byte) int { return 1 }

func TestServerIsStartedOnceAndTellsItsAddress(t *testing.T) {
	s := unstarted(t, Options{TLS: true})
	if got := s.URL(); got != "" {
		t.Errorf("URL before Start is %q", got)
	}
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.URL(), "https://127.0.0.1:") {
		t.Errorf("URL is %q", s.URL())
	}
	if err := s.Start(t.Context(), "127.0.0.1:0"); err == nil {
		t.Error("a second Start did not fail")
	}
}

func TestLogFailureIsReported(t *testing.T) {
	o := Options{Clock: newTestClock(), Counter: wordCounter{}, KeepLog: true, Log: full{}}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	newClient(t, c).do("GET", "/health", "")
	entries(t, s, 1)
	if err := s.Close(); err == nil || err.Error() != "cannot write the log: disk full" {
		t.Errorf("Close returned %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }
