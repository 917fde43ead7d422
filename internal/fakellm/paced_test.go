package fakellm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// wrapped is a listener whose connections are changed before the server has them.
type wrapped struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l wrapped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(c), nil
}

// behind hides that a connection is a socket, so that all of its answers take net/http's way.
func behind(c net.Conn) net.Conn { return struct{ net.Conn }{c} }

// startWrapped starts a server whose connections are changed by wrap, and returns a way to connect.
func startWrapped(t *testing.T, o Options, wrap func(net.Conn) net.Conn) (*Server, func() net.Conn) {
	t.Helper()
	s := unstarted(t, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(wrapped{l, wrap}); err != nil {
		t.Fatal(err)
	}
	return s, func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

var changing = regexp.MustCompile(`(?m)^Date: .*\r\n|"created":\d+`)

// exchanged are the bytes of an answer that does not end by the connection's end, but for what depends on the time of day.
func exchanged(t *testing.T, c net.Conn, body string) string {
	t.Helper()
	const head = "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nX-Request-ID: r\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	if _, err := fmt.Fprintf(c, head, len(body), body); err != nil {
		t.Fatal(err)
	}
	var all []byte
	buf := make([]byte, 4096)
	for !bytes.HasSuffix(all, []byte("\r\n0\r\n\r\n")) {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, all)
		}
		all = append(all, buf[:n]...)
	}
	return changing.ReplaceAllString(string(all), "")
}

// timeless is an entry of the log without what differs between two runs of the same; it fails the test where the writes are out of order.
func timeless(t *testing.T, e Entry) string {
	t.Helper()
	from := e.ArrivedNS
	last := from
	for i := range e.Writes {
		w := &e.Writes[i]
		if w.BeforeNS < last || w.AfterNS < w.BeforeNS || w.BeforeNS < w.DueNS {
			t.Errorf("write %d, %s, due at %d, from %d to %d, after one at %d", i, w.Kind, w.DueNS, w.BeforeNS, w.AfterNS, last)
		}
		last = w.AfterNS
		if w.DueNS -= from; w.Kind == WriteHead {
			w.DueNS = 0 // it is due when the request has been read
		}
		w.BeforeNS, w.AfterNS, w.Held = 0, 0, false
	}
	e.StartNS -= from
	e.ArrivedNS, e.ArrivedUserNS, e.Stamp, e.Remote = 0, 0, "", ""
	return fmt.Sprintf("%+v", e)
}

func TestBothWaysGiveTheSameAnswerAndLog(t *testing.T) {
	chat := chatBody(5, 12)
	with := func(more string) string { return strings.Replace(chat, `"stream":true`, `"stream":true,`+more, 1) }
	late := Options{TTFT: 2 * time.Millisecond, ITL: 300 * time.Microsecond, Jitter: 0.3, Seed: 4}
	for name, c := range map[string]struct {
		o    Options
		body string
	}{
		"at once":           {Options{}, chat},
		"paced":             {late, chat},
		"usage":             {late, with(`"stream_options":{"include_usage":true}`)},
		"usage in each":     {late, with(`"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)},
		"ends by itself":    {Options{OutputTokens: 4, TTFT: time.Millisecond}, strings.Replace(chat, `"ignore_eos":true`, `"n":1`, 1)},
		"one token":         {late, chatBody(2, 1)},
		"tokens in a chunk": {Options{ITL: 200 * time.Microsecond, TokensPerChunk: 5}, chat},
		"long chunks":       {Options{TTFT: time.Millisecond, TokensPerChunk: 3000}, chatBody(2, 7000)},
		"stall":             {Options{TTFT: time.Millisecond, ITL: time.Microsecond, Stall: 5 * time.Millisecond, StallAfter: 3}, chat},
		"cold inference":    {Options{TTFT: time.Millisecond, Slots: 1, ColdInference: 3 * time.Millisecond}, chat},
		"connection closes": {Options{TTFT: time.Millisecond, CloseAfter: 1}, chat},
	} {
		t.Run(name, func(t *testing.T) {
			var answers, logs [2]string
			for i, wrap := range []func(net.Conn) net.Conn{func(c net.Conn) net.Conn { return c }, behind} {
				s, dial := startWrapped(t, c.o, wrap)
				answers[i] = exchanged(t, dial(), c.body)
				logs[i] = timeless(t, entries(t, s, 1)[0])
			}
			same(t, "answer", answers)
			same(t, "log", logs)
		})
	}
}

// same demands that both ways gave the same, and shows where they begin to differ.
func same(t *testing.T, what string, of [2]string) {
	t.Helper()
	if of[0] == of[1] {
		return
	}
	at := 0
	for at < min(len(of[0]), len(of[1])) && of[0][at] == of[1][at] {
		at++
	}
	rest := func(s string) string { return s[max(at-40, 0):min(at+200, len(s))] }
	t.Errorf("past net/http the %s has %q where it has %q through it", what, rest(of[0]), rest(of[1]))
}

// small gives a connection small buffers, so that the client must read for the server to write.
func small(c net.Conn) net.Conn {
	_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	return c
}

// A client that does not read holds up its own stream alone, and gets all of it when it reads.
func TestAClientThatDoesNotReadHoldsUpNobodyElse(t *testing.T) {
	const tokens = 4000
	s, dial := startWrapped(t, Options{TTFT: 5 * time.Millisecond, ITL: time.Microsecond}, small)
	idle := dial()
	_ = idle.(*net.TCPConn).SetReadBuffer(4 << 10)
	newClient(t, idle).send("POST", chatPath, chatBody(3, tokens))
	for range 2 * runtime.GOMAXPROCS(0) { // one at least has the same pacer
		if _, body := newClient(t, dial()).do("POST", chatPath, chatBody(4, 20)); !strings.HasSuffix(body, "[DONE]\n\n") {
			t.Errorf("another stream is %q", body)
		}
	}
	if n := s.InFlight(); n != 1 {
		t.Errorf("%d in flight, want the one that is not read", n)
	}
	_, body := newClient(t, idle).read()
	if n := strings.Count(body, `"delta":{"content":`) + strings.Count(body, `"delta":{"role":`); n != tokens+1 || !strings.HasSuffix(body, "[DONE]\n\n") {
		t.Errorf("%d chunks came, want %d", n, tokens+1)
	}
	list := entries(t, s, 2*runtime.GOMAXPROCS(0)+1)
	e := list[len(list)-1]
	if e.Ended != EndedFinished || e.OutputTokens != tokens || e.Bytes != int64(len(body)) {
		t.Errorf("log: %s, %d tokens, %d bytes of %d", e.Ended, e.OutputTokens, e.Bytes, len(body))
	}
	timeless(t, e)
}

func TestAPacedStreamEndsWithItsClientAndWithItsServer(t *testing.T) {
	for want, end := range map[string]func(*Server, net.Conn){
		EndedClientClosed: func(_ *Server, c net.Conn) { _ = c.Close() },
		EndedServerClosed: func(s *Server, _ net.Conn) { _ = s.Close() },
	} {
		t.Run(want, func(t *testing.T) {
			s, dial := startWrapped(t, Options{Stall: time.Hour, StallAfter: 2}, func(c net.Conn) net.Conn { return c })
			c := dial()
			newClient(t, c).send("POST", chatPath, chatBody(3, 9))
			readUntil(t, c, 2)
			end(s, c)
			e := entries(t, s, 1)[0]
			if e.Ended != want || e.OutputTokens != 2 || s.InFlight() != 0 {
				t.Errorf("log: %s, %d tokens, %d in flight", e.Ended, e.OutputTokens, s.InFlight())
			}
		})
	}
}

// readUntil reads until n chunks of content have come.
func readUntil(t *testing.T, c net.Conn, n int) {
	t.Helper()
	var all []byte
	buf := make([]byte, 512)
	for bytes.Count(all, []byte(`"delta":{"content":`)) < n {
		got, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, buf[:got]...)
	}
}

// A pacer that sleeps for a late waiter wakes for an earlier one, and for its end.
func TestAPacerWakesForAnEarlierWaiter(t *testing.T) {
	a := newPacers(newTestClock())[0]
	ctx, cancel := context.WithCancel(t.Context())
	ended, late := make(chan struct{}), make(chan error)
	go func() { a.run(ctx); close(ended) }()
	go func() { late <- a.wait(ctx, int64(time.Hour)) }()
	for asleep := false; !asleep; runtime.Gosched() {
		a.mu.Lock()
		asleep = a.until == int64(time.Hour)
		a.mu.Unlock()
	}
	at := a.clock.Now() + int64(time.Millisecond)
	if err := a.wait(ctx, at); err != nil || a.clock.Now() < at {
		t.Errorf("woken at %d instead of %d: %v", a.clock.Now(), at, err)
	}
	cancel()
	<-ended
	if err := <-late; err != context.Canceled {
		t.Errorf("the late waiter got %v", err)
	}
	if err := a.serve(ctx, newWaiter(nil), 1); err != context.Canceled {
		t.Errorf("a waiter of a pacer that has ended got %v", err)
	}
}

// A waiter that is withdrawn while its step runs is not run again, and is withdrawn only when the step has returned.
func TestAlarmRunsAStepUntilItEndsOrIsWithdrawn(t *testing.T) {
	a := newAlarm(newTestClock(), 0)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { a.run(ctx); close(ended) }()
	var runs []int64
	err := a.serve(ctx, newWaiter(func() int64 {
		runs = append(runs, int64(len(runs)))
		return map[int64]int64{1: 1, 2: a.clock.Now() + 1000}[int64(len(runs))]
	}), 1)
	if err != nil || !slices.Equal(runs, []int64{0, 1, 2}) {
		t.Errorf("steps %v, %v", runs, err)
	}
	gone, leave := context.WithCancel(ctx)
	inStep, goOn := make(chan struct{}), make(chan struct{})
	steps := 0
	returned := make(chan error)
	go func() {
		returned <- a.serve(gone, newWaiter(func() int64 {
			steps++
			close(inStep)
			<-goOn
			return 1
		}), 1)
	}()
	<-inStep
	leave()
	select {
	case <-returned:
		t.Error("it was withdrawn during its step")
	case <-time.After(time.Millisecond):
	}
	close(goOn)
	if err := <-returned; err != context.Canceled || steps != 1 {
		t.Errorf("%d steps, %v", steps, err)
	}
	cancel()
	<-ended
}

// BenchmarkStream is the server's work on one token of a stream that is due at once, and of the client's bare reading.
func BenchmarkStream(b *testing.B) {
	const tokens = 1000
	for name, wrap := range map[string]func(net.Conn) net.Conn{"direct": func(c net.Conn) net.Conn { return c }, "net/http": behind} {
		b.Run(name, func(b *testing.B) {
			s, err := New(Options{Clock: newTestClock(), Counter: wordCounter{}})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Serve(wrapped{l, wrap}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				resp, err := http.Post("http://"+l.Addr().String()+chatPath, "application/json", strings.NewReader(chatBody(8, tokens)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/token")
		})
	}
}
