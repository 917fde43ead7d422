package h2

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"prefire/loadgen/wire"
)

// A call that is ended from this side: its stream is reset, the others and the connection go on.
func TestCancel(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(c *wire.Call)
		act     func(c *Conn, r *request)
		cause   wire.Cause
		at      time.Duration
		want    string
	}{
		"user": {act: func(c *Conn, r *request) { c.Cancel(r.Call, r.gen, wire.ByUser) }, cause: wire.ByUser,
			want: "RequestCancellationError: Request cancelled by the user"},
		"grace, and twice": {act: func(c *Conn, r *request) {
			c.Cancel(r.Call, r.gen, wire.ByGrace)
			synctest.Wait()
			c.Cancel(r.Call, r.gen, wire.ByUser)
		}, cause: wire.ByGrace, want: "RequestCancellationError: Request cancelled at the end of the grace period"},
		"timeout": {prepare: func(c *wire.Call) { c.Timeout = 700 * time.Millisecond }, cause: wire.ByTimeout, at: 700 * time.Millisecond,
			want: "TimeoutError: TimeoutError()"},
		"plan": {prepare: func(c *wire.Call) { c.CancelAfter = 500 * time.Millisecond }, cause: wire.ByPlan, at: 500 * time.Millisecond,
			want: "RequestCancellationError: Request cancelled 0.500s after being sent"},
	} {
		for _, begun := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, p := pair(t, Options{})
					start := c.o.Clock.Now()
					call := newCall("{}")
					if tc.prepare != nil {
						tc.prepare(call)
					}
					r, other := do(t, c, call), do(t, c, newCall("{}"))
					synctest.Wait()
					chunks := 0
					if begun {
						p.stream(1)
						p.fr.WriteData(1, false, []byte(oneEvent))
						p.flush(0)
						chunks = 1
					}
					p.stream(3) // the connection lives
					p.flush(0)
					synctest.Wait()
					if tc.act != nil {
						tc.act(c, r)
					}
					out := r.wait()
					f := &r.Facts
					if out.Verdict != Ended || failure(f.Err) != tc.want || f.Cause != tc.cause || f.CancelledAt-start != int64(tc.at) ||
						f.EndAt != f.CancelledAt || len(r.Chunks) != chunks {
						t.Errorf("%+v %q, cause %d, at %v, %d chunks", out, failure(f.Err), f.Cause, time.Duration(f.CancelledAt-start), len(r.Chunks))
					}
					if g := p.next(http2.FrameRSTStream); g.StreamID != 1 || g.code != http2.ErrCodeCancel {
						t.Errorf("stream %d reset with %v, want 1 with CANCEL", g.StreamID, g.code)
					}
					// What was under way for the dead stream is dropped; the call can be used again at once, and an old generation means nothing.
					again := do(t, c, call)
					synctest.Wait()
					c.Cancel(call, r.gen, wire.ByUser)
					p.fr.WriteData(1, true, []byte(oneEvent))
					for _, id := range []uint32{3, 5} {
						if id == 5 {
							p.stream(5)
						}
						p.fr.WriteData(id, true, []byte("data: b\n\ndata: [DONE]\n\n"))
					}
					p.flush(0)
					for _, r := range []*request{other, again} {
						if r.wait(); r.Facts.Err != nil || !slices.Equal(texts(r.Call), []string{"b"}) {
							t.Errorf("another request: %v %q", r.Facts.Err, texts(r.Call))
						}
					}
					if c.Err() != nil || c.InFlight() != 0 {
						t.Errorf("connection: %v, %d in flight", c.Err(), c.InFlight())
					}
				})
			})
		}
	}
}

// The timeout counts from the time the request was ready, not from Do; CancelAfter from the last byte written.
func TestTimersStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(t, Options{})
		start := c.o.Clock.Now()
		call := newCall("{}")
		call.Timeout = 300 * time.Millisecond
		call.Begin(start - int64(100*time.Millisecond))
		done := make(chan Outcome)
		if err := c.Do(call, func(o Outcome) { done <- o }); err != nil {
			t.Fatal(err)
		}
		<-done
		if got := call.Facts.CancelledAt - start; got != 200e6 {
			t.Errorf("timed out %v after Do, want 200ms", time.Duration(got))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		start := c.o.Clock.Now()
		call := newCall(strings.Repeat("x", initialWindow+1))
		call.CancelAfter = 100 * time.Millisecond
		r := do(t, c, call)
		time.Sleep(time.Second) // one byte has to wait for the window
		p.fr.WriteWindowUpdate(0, 1)
		p.fr.WriteWindowUpdate(1, 1)
		p.flush(0)
		r.wait()
		f := &r.Facts
		if f.FirstWrite != start || f.LastWrite-start != 1e9 || f.CancelledAt-start != 11e8 || f.Sent != initialWindow+1 {
			t.Errorf("first write +%d, last write +%d, cancelled +%d, %d bytes sent", f.FirstWrite-start, f.LastWrite-start,
				f.CancelledAt-start, f.Sent)
		}
	})
}

// A timeout that saw nothing at all come on the connection gives the connection up.
func TestSilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		call := newCall("{}")
		call.Timeout = time.Second
		r := do(t, c, call)
		r.wait()
		synctest.Wait()
		if err := c.Err(); err == nil || err.Error() != "nothing came on the HTTP/2 connection for the 1s of a request's timeout" {
			t.Errorf("Err() = %v", err)
		}
		p.next(http2.FrameRSTStream)
		p.next(http2.FrameGoAway)
	})
}

// canceller cancels its call from the transport's own thread, where the call is being written to.
type canceller struct {
	observer
	st *stream
}

func (o *canceller) First(call *wire.Call) {
	o.observer.First(call)
	o.st.cancel(wire.ByUser)
}

func TestCancelFromFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		r := do(t, c, newCall("{}"))
		p.next(http2.FrameData)
		synctest.Wait()
		obs := &canceller{st: c.streams[1]}
		r.Obs = obs
		p.stream(1)
		p.fr.WriteData(1, false, []byte(oneEvent))
		p.flush(0)
		r.wait()
		if r.Facts.Cause != wire.ByUser || obs.first.Load() != 1 || len(r.Chunks) != 1 {
			t.Errorf("cause %d, First %d times, %d chunks", r.Facts.Cause, obs.first.Load(), len(r.Chunks))
		}
	})
}

// A request that is still in the writer's hands can be ended; its body is not touched afterwards.
func TestCancelWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		gate := c.nc.(*stamped).block()
		body := []byte(strings.Repeat("a", 100))
		call := newCall("")
		call.Body = body
		r, queued := do(t, c, call), do(t, c, newCall("never written"))
		synctest.Wait()
		c.Cancel(r.Call, r.gen, wire.ByGrace)
		c.Cancel(queued.Call, queued.gen, wire.ByGrace)
		r.wait()
		queued.wait()
		for i := range body {
			body[i] = 'b'
		}
		close(gate)
		if got := string(p.next(http2.FrameData).data); got != strings.Repeat("a", 100) {
			t.Errorf("the body sent is %q", got)
		}
		p.next(http2.FrameRSTStream)
		if queued.Facts.FirstWrite != 0 || queued.Facts.EndAt == 0 || c.InFlight() != 0 {
			t.Errorf("the unwritten request: first write %d; %d in flight", queued.Facts.FirstWrite, c.InFlight())
		}
	})
}

// The answer comes before the writer is back from its write: the request ends with the time of that write all the same.
func TestAnswerOvertakesWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		start := c.o.Clock.Now()
		gate := c.nc.(*stamped).block()
		r := do(t, c, newCall("{}"))
		synctest.Wait()
		p.stream(1)
		p.fr.WriteData(1, true, []byte("data: a\n\ndata: [DONE]\n\n"))
		p.flush(0)
		sleep(3)
		close(gate)
		r.wait()
		// The write was back after 3 ms; but what has been answered was written before.
		f := &r.Facts
		if f.Err != nil || f.EndAt != start || f.LastWrite != f.HeadAt {
			t.Errorf("%v, end +%d, last write +%d, head +%d", f.Err, f.EndAt-start, f.LastWrite-start, f.HeadAt-start)
		}
	})
}

// A server that answers before it has the whole body does not get the rest.
func TestEarlyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		r := do(t, c, newCall(strings.Repeat("x", initialWindow+1)))
		synctest.Wait()
		p.headers(1, false, ":status", "413")
		p.fr.WriteData(1, true, []byte("too long"))
		p.flush(0)
		r.wait()
		if failure(r.Facts.Err) != "Request Entity Too Large: too long" || r.Facts.Sent != initialWindow {
			t.Errorf("%v, %d bytes sent", r.Facts.Err, r.Facts.Sent)
		}
		if g := p.next(http2.FrameRSTStream); g.code != http2.ErrCodeCancel {
			t.Errorf("reset with %v, want CANCEL", g.code)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		r := do(t, c, newCall("{}"))
		p.next(http2.FrameData)
		c.Close()
		r.wait()
		c.Close()
		if got := failure(r.Facts.Err); got != "ClientConnectionError: the HTTP/2 connection was closed by the client" {
			t.Errorf("error %q", got)
		}
		if err := c.Do(newCall("{}"), func(Outcome) { t.Error("taken after Close") }); err != errClosed {
			t.Errorf("Do after Close: %v", err)
		}
		c.Cancel(r.Call, r.gen, wire.ByUser)
	})
}

func TestGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		start := c.o.Clock.Now()
		go func() {
			h := p.next(http2.FrameHeaders)
			if h.fields[":method"] != "GET" || h.fields[":path"] != "/health" || h.fields["x"] != "y" || h.fields["authorization"] != "Bearer key" ||
				!h.Flags.Has(http2.FlagHeadersEndStream) {
				t.Errorf("the probe is %v %v", h.FrameHeader, h.fields)
			}
			time.Sleep(time.Millisecond)
			p.headers(1, false, ":status", "404", "content-type", "text/plain")
			p.fr.WriteData(1, true, []byte("no such page"))
			p.flush(0)
			p.next(http2.FrameRSTStream) // of the second, which gets no answer
			p.next(http2.FrameHeaders)
			p.fr.WriteRSTStream(5, http2.ErrCodeRefusedStream)
			p.flush(0)
		}()
		f, err := c.Get(t.Context(), "/health", []wire.Field{{Name: "X", Value: "y"}})
		if err != nil || f.Status != 404 || f.FirstWrite != start || f.LastByte != start+1e6 {
			t.Errorf("Get: %v, status %d, from +%d to +%d", err, f.Status, f.FirstWrite-start, f.LastByte-start)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Get(ctx, "/health", nil); err != context.DeadlineExceeded {
			t.Errorf("Get without an answer: %v", err)
		}
		if _, err := c.Get(t.Context(), "/health", nil); err == nil ||
			err.Error() != "ServerDisconnectedError: Server disconnected: the server reset the stream (REFUSED_STREAM)" {
			t.Errorf("Get refused: %v", err)
		}
	})
}

func TestUnsendable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(t, Options{})
		for want, change := range map[string]func(c *wire.Call){
			`ValueError: "a b" is not the name of a header field`: func(c *wire.Call) { c.Header = []wire.Field{{Name: "a b"}} },
			"ValueError: the value of header field Secret has control characters": func(c *wire.Call) {
				c.Header = []wire.Field{{Name: "Secret", Value: "a\nb"}}
			},
			`InvalidURL: "/a\nb" cannot be sent as :path`: func(c *wire.Call) { c.Path = "/a\nb" },
		} {
			call := newCall("{}")
			change(call)
			if err := c.Do(call, func(Outcome) { t.Error("taken") }); err == nil || err.Error() != want {
				t.Errorf("Do: %v, want %s", err, want)
			}
		}
	})
}
