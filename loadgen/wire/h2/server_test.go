package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/stamp"
)

// echo answers with the body's length, its text and [DONE], each flushed as an event of its own.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.Method == "GET" {
		fmt.Fprint(w, "well")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, s := range []string{fmt.Sprint(len(body)), string(body), "[DONE]"} {
		fmt.Fprintf(w, "data: %s\n\n", s)
		w.(http.Flusher).Flush()
	}
}

// dial opens a connection to a real server.
func dial(t *testing.T, s *httptest.Server, o Options) *Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	o.Clock = newClock()
	o.Target = &wire.Target{Scheme: "http", Host: s.Listener.Addr().String(), Path: "/v1", Streams: 50}
	sc := stamp.New(nc, o.Clock)
	var stream Stream = sc
	if s.TLS != nil {
		o.Target.Scheme = "https"
		pool := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		tc := stamp.Client(sc, &tls.Config{RootCAs: pool, ServerName: "example.com", NextProtos: []string{"h2"}})
		if err := tc.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := tc.ConnectionState().NegotiatedProtocol; p != "h2" {
			t.Fatalf("ALPN chose %q", p)
		}
		stream = tc
	}
	c, err := New(t.Context(), stream, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// servers are net/http's own, in the clear and over TLS.
func servers(t *testing.T, h http.HandlerFunc) map[string]*httptest.Server {
	clear := httptest.NewUnstartedServer(h)
	clear.Config.Protocols = new(http.Protocols)
	clear.Config.Protocols.SetUnencryptedHTTP2(true)
	clear.Start()
	secure := httptest.NewUnstartedServer(h)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(func() { clear.Close(); secure.Close() })
	return map[string]*httptest.Server{"h2c": clear, "h2 over TLS": secure}
}

// Many requests at once, small and far larger than any window, each get their own answer, and First and Done once.
func TestNetHTTP(t *testing.T) {
	for name, s := range servers(t, echo) {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s, Options{})
			if f, err := c.Get(t.Context(), "/health", nil); err != nil || f.Status != 200 || f.Received != 4 {
				t.Errorf("the probe: %v, status %d, %d bytes", err, f.Status, f.Received)
			}
			var all sync.WaitGroup
			for i := range 40 {
				all.Go(func() {
					call := newCall("")
					for turn := range 5 {
						body := strings.Repeat(string(rune('a'+i%26)), 1+turn*turn*i*500)
						call.Body = []byte(body)
						r := do(t, c, call)
						r.wait()
						f := &call.Facts
						if got := texts(call); f.Err != nil || !slices.Equal(got, []string{fmt.Sprint(len(body)), body}) || !f.SawDone {
							t.Errorf("request %d of %d: %v, status %d, %d chunks", turn, i, f.Err, f.Status, len(got))
						}
						times := []int64{f.Ready, f.FirstWrite, f.LastWrite, f.FirstByte, f.EndAt}
						if !slices.IsSorted(times) || f.LastWrite > f.HeadAt || f.HeadAt > f.FirstByte ||
							f.Sent != int64(len(body)) || f.StampsFell != 0 || r.obs.first.Load() != 1 {
							t.Errorf("request %d of %d: times %v, head %d, first byte %d, %d of %d bytes sent, %d stamps fell, First %d times",
								turn, i, times, f.HeadAt, f.FirstByte, f.Sent, len(body), f.StampsFell, r.obs.first.Load())
						}
					}
				})
			}
			all.Wait()
			if c.InFlight() != 0 || c.Err() != nil {
				t.Errorf("%d in flight, %v", c.InFlight(), c.Err())
			}
		})
	}
}

// A handler that breaks off, and a server that shuts down.
func TestNetHTTPFailures(t *testing.T) {
	entered, hold := make(chan struct{}), make(chan struct{})
	for name, s := range servers(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, oneEvent)
		w.(http.Flusher).Flush()
		if r.Header.Get("X-Hold") == "" {
			panic(http.ErrAbortHandler)
		}
		entered <- struct{}{}
		<-hold
		fmt.Fprint(w, "data: [DONE]\n\n")
	}) {
		t.Run(name, func(t *testing.T) {
			down, closed := make(chan error, 1), make(chan struct{})
			c := dial(t, s, Options{Down: func(_ *Conn, err error) { down <- err }, Closed: func(*Conn) { close(closed) }})
			r := do(t, c, newCall("{}"))
			r.wait()
			want := "ClientPayloadError: Response payload is not completed: the server reset the stream (INTERNAL_ERROR)"
			if got := failure(r.Facts.Err); got != want || len(r.Chunks) != 1 {
				t.Errorf("broken off: %q, %d chunks", got, len(r.Chunks))
			}
			call := newCall("{}")
			call.Header = []wire.Field{{Name: "X-Hold", Value: "1"}}
			r = do(t, c, call)
			<-entered
			stopped := make(chan error, 1)
			go func() { stopped <- s.Config.Shutdown(context.Background()) }()
			if err := <-down; err.Error() != "the server sent GOAWAY (NO_ERROR)" {
				t.Errorf("Down was told %v", err)
			}
			hold <- struct{}{}
			if r.wait(); r.Facts.Err != nil || !r.Facts.SawDone {
				t.Errorf("the request under way at the shutdown: %v", r.Facts.Err)
			}
			<-closed
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	}
}

// Another implementation's server.
func TestNghttpd(t *testing.T) {
	path, err := exec.LookPath("nghttpd")
	if err != nil {
		t.Skip("nghttpd is not installed (Debian: nghttp2-server)")
	}
	dir := t.TempDir()
	page := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(filepath.Join(dir, "page"), page, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	cmd := exec.CommandContext(t.Context(), path, "--no-tls", "--address=127.0.0.1", "--htdocs="+dir, "--padding=100", "--verbose",
		fmt.Sprint(addr.Port))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := out.Read(first); err != nil { // it says where it listens
		t.Fatal(err)
	}
	go io.Copy(io.Discard, out)
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	ck := newClock()
	tg := &wire.Target{Scheme: "http", Host: addr.String(), Path: "/page"}
	c, err := New(t.Context(), stamp.New(nc, ck), Options{Clock: ck, Target: tg})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rs []*request
	for range 8 {
		call := newCall("")
		call.Method = "GET"
		rs = append(rs, do(t, c, call))
	}
	for _, r := range rs {
		if r.wait(); r.Facts.Err != nil || !bytes.Equal(r.Text, page) {
			t.Errorf("%v, status %d, %d bytes, want %d", r.Facts.Err, r.Facts.Status, len(r.Text), len(page))
		}
	}
	if f, err := c.Get(t.Context(), "/none", nil); err != nil || f.Status != 404 {
		t.Errorf("the probe: %v, status %d", err, f.Status)
	}
}
