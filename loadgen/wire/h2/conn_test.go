package h2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"prefire/loadgen/wire"
)

const oneEvent = "data: a\n\n"

func TestOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		p := newPeer(t, far)
		ck := newClock()
		go func() {
			time.Sleep(30 * time.Millisecond) // the server's SETTINGS take their time
			p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 7})
			p.flush(0)
		}()
		c, err := New(t.Context(), &stamped{Conn: near, clock: ck}, Options{Clock: ck, Target: target})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.Settings(), int64(1030*time.Millisecond); got != want {
			t.Errorf("Settings() = %d, want %d", got, want)
		}
		if got := c.Limit(); got != 7 {
			t.Errorf("Limit() = %d, want the server's 7", got)
		}
		first, ack := p.next(http2.FrameSettings), p.next(http2.FrameSettings)
		want := []http2.Setting{{ID: http2.SettingEnablePush, Val: 0}, {ID: http2.SettingInitialWindowSize, Val: 4 << 20},
			{ID: http2.SettingMaxHeaderListSize, Val: 64 << 10}}
		if !slices.Equal(first.settings, want) {
			t.Errorf("the client's SETTINGS are %v, want %v", first.settings, want)
		}
		if !ack.Flags.Has(http2.FlagSettingsAck) {
			t.Error("New returned before the server's SETTINGS were acknowledged")
		}
		c.Close()
		if g := p.next(http2.FrameGoAway); g.code != http2.ErrCodeNo {
			t.Errorf("GOAWAY with %v, want NO_ERROR", g.code)
		}
		far.Close()
	})
}

func TestOpeningFails(t *testing.T) {
	for name, tc := range map[string]struct {
		server func(p *peer)
		want   string
	}{
		"HTTP/1.1": {func(p *peer) { p.out.WriteString("HTTP/1.1 400 Bad Request\r\n\r\n") },
			"the server answered in HTTP/1.1 to HTTP/2 with prior knowledge: set the protocol to HTTP/1.1"},
		"first frame": {func(p *peer) { p.fr.WritePing(false, [8]byte{}) },
			"the server broke HTTP/2 (PROTOCOL_ERROR): its first frame is PING, and must be SETTINGS"},
		"setting": {func(p *peer) { p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}) },
			"the server broke HTTP/2 (PROTOCOL_ERROR): the setting [MAX_FRAME_SIZE = 1]"},
		"silence": {nil, "waiting for the server's HTTP/2 SETTINGS: context deadline exceeded"},
		"hang up": {func(p *peer) { p.nc.Close() }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				p := newPeer(t, far)
				go func() {
					if tc.server != nil {
						p.next(http2.FrameWindowUpdate)
						tc.server(p)
						p.nc.Write(p.out.Bytes())
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ck := newClock()
				c, err := New(ctx, &stamped{Conn: near, clock: ck}, Options{Clock: ck, Target: target})
				if c != nil || err == nil || err.Error() != tc.want {
					t.Errorf("New = %v, %v; want the error %q", c, err, tc.want)
				}
				far.Close()
			})
		})
	}
}

func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		start := c.o.Clock.Now()
		call := newCall(`{"a":1}`)
		call.Header = append(call.Header, wire.Field{Name: "Host", Value: "x"}, wire.Field{Name: "Connection", Value: "close"},
			wire.Field{Name: "Transfer-Encoding", Value: "chunked"}, wire.Field{Name: "TE", Value: "trailers"})
		r := do(t, c, call)
		h, d := p.next(http2.FrameHeaders), p.next(http2.FrameData)
		want := map[string]string{":method": "POST", ":scheme": "http", ":authority": "llm.test:8000", ":path": "/v1/chat/completions",
			"authorization": "Bearer key", "content-type": "application/json", "x-request-id": "r1", "te": "trailers", "content-length": "7"}
		if !reflect.DeepEqual(h.fields, want) {
			t.Errorf("fields %v\nwant   %v", h.fields, want)
		}
		if string(d.data) != `{"a":1}` || !d.Flags.Has(http2.FlagDataEndStream) || d.StreamID != 1 {
			t.Errorf("body %q in %v", d.data, d.FrameHeader)
		}
		time.Sleep(200 * time.Millisecond)
		p.headers(1, false, ":status", "103", "link", "x") // an interim answer is not the head
		p.flush(0)
		time.Sleep(10 * time.Millisecond)
		p.stream(1)
		p.flush(0)
		time.Sleep(10 * time.Millisecond)
		p.fr.WriteData(1, false, []byte("data: one\n\n"))
		p.flush(0)
		time.Sleep(20 * time.Millisecond)
		p.fr.WriteData(1, false, []byte("data: two\n\ndata: three\n\n"))
		p.fr.WriteData(1, false, []byte("data: [DONE]\n\n"))
		p.flush(0)
		time.Sleep(5 * time.Millisecond)
		p.headers(1, true, "server-timing", "x") // trailers
		p.flush(0)
		if out := r.wait(); out.Verdict != Ended || out.Err != nil {
			t.Errorf("outcome %+v, want Ended", out)
		}
		ms := func(at int64) float64 { return float64(at-start) / 1e6 }
		f := &r.Facts
		for what, got := range map[string][2]float64{
			"FirstWrite": {ms(f.FirstWrite), 0}, "LastWrite": {ms(f.LastWrite), 0}, "HeadAt": {ms(f.HeadAt), 210}, "FirstByte": {ms(f.FirstByte), 220},
			"LastByte": {ms(f.LastByte), 240}, "EndAt": {ms(f.EndAt), 240}, "one": {ms(r.Chunks[0].At), 220}, "two": {ms(r.Chunks[1].At), 240},
			"Sent": {float64(f.Sent), 7}, "Events": {float64(f.Events), 4}, "Reads": {float64(f.Reads), 2}, "SharedReads": {float64(f.SharedReads), 1},
			"Status": {float64(f.Status), 200}, "First": {float64(r.obs.first.Load()), 1},
			// Only the event that ends a read is exact. The second read ends with [DONE], and the connection was last known to be empty
			// when the first read began, at 210.
			"slack of one": {float64(r.Chunks[0].Slack), 0}, "slack of two": {float64(r.Chunks[1].Slack), 30000},
			"slack of three": {float64(r.Chunks[2].Slack), 30000},
		} {
			if got[0] != got[1] {
				t.Errorf("%s = %v, want %v", what, got[0], got[1])
			}
		}
		if got, want := texts(r.Call), []string{"one", "two", "three"}; !slices.Equal(got, want) {
			t.Errorf("chunks %q, want %q", got, want)
		}
		if f.Err != nil || !f.SawDone || f.ContentType != "text/event-stream" || f.Reason != "OK" {
			t.Errorf("facts %+v", f)
		}
		if n := c.InFlight(); n != 0 {
			t.Errorf("%d in flight after the end", n)
		}
	})
}

// How a request ends, by what the server does after the request has come.
func TestEndings(t *testing.T) {
	const reset = "Response payload is not completed: the server reset the stream (INTERNAL_ERROR)"
	headers := func(p *peer, end bool, fields ...string) { p.headers(1, end, fields...) }
	for name, tc := range map[string]struct {
		server  func(p *peer)
		verdict Verdict
		want    string // of Facts.Err, or of the outcome where it is not Ended
		chunks  int
		rst     http2.ErrCode // what the client resets the stream with
		down    string        // Err of the connection afterwards
	}{
		"complete": {server: func(p *peer) { p.stream(1); p.fr.WriteData(1, true, []byte("data: a\n\ndata: [DONE]\n\n")) }, chunks: 1},
		"not a stream": {server: func(p *peer) {
			headers(p, false, ":status", "200", "content-type", "application/json", "content-length", "2")
			p.fr.WriteData(1, true, []byte("{}"))
		}, chunks: 1},
		"429": {server: func(p *peer) {
			headers(p, false, ":status", "429")
			p.fr.WriteData(1, true, []byte("slow down"))
		}, want: "Too Many Requests: slow down"},
		"head alone": {server: func(p *peer) { headers(p, true, ":status", "204") },
			want: "InvalidInferenceResultError: No responses were received from the server"},
		"reset in the body": {server: func(p *peer) {
			p.stream(1)
			p.fr.WriteData(1, false, []byte(oneEvent))
			p.fr.WriteRSTStream(1, http2.ErrCodeInternal)
		}, want: "ClientPayloadError: " + reset, chunks: 1},
		"reset before the head": {server: func(p *peer) { p.fr.WriteRSTStream(1, http2.ErrCodeInternal) },
			want: "ServerDisconnectedError: Server disconnected: the server reset the stream (INTERNAL_ERROR)"},
		"refused": {server: func(p *peer) { p.fr.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, verdict: Refused,
			want: "ServerDisconnectedError: Server disconnected: the server reset the stream (REFUSED_STREAM)"},
		"refused after the head": {server: func(p *peer) { p.stream(1); p.fr.WriteRSTStream(1, http2.ErrCodeRefusedStream) },
			want: "ClientPayloadError: Response payload is not completed: the server reset the stream (REFUSED_STREAM)"},
		"hang up before anything": {server: func(p *peer) { p.nc.Close() }, verdict: Dropped,
			want: "ServerDisconnectedError: Server disconnected: the server closed the connection", down: "EOF"},
		"hang up after a frame": {server: func(p *peer) { p.fr.WriteWindowUpdate(1, 1); p.flush(0); p.nc.Close() },
			want: "ServerDisconnectedError: Server disconnected: the server closed the connection", down: "EOF"},
		"hang up in the body": {server: func(p *peer) { p.stream(1); p.fr.WriteData(1, false, []byte(oneEvent)); p.flush(0); p.nc.Close() },
			want: "ClientPayloadError: Response payload is not completed: the server closed the connection", chunks: 1, down: "EOF"},
		"GOAWAY above": {server: func(p *peer) { p.fr.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("too many")) }, verdict: Refused,
			want: "ServerDisconnectedError: Server disconnected: the server sent GOAWAY (ENHANCE_YOUR_CALM): too many",
			down: "the server sent GOAWAY (ENHANCE_YOUR_CALM): too many"},
		"GOAWAY, then the answer": {server: func(p *peer) {
			p.fr.WriteGoAway(1, http2.ErrCodeNo, nil)
			p.stream(1)
			p.fr.WriteData(1, true, []byte("data: a\n\ndata: [DONE]\n\n"))
		}, chunks: 1, down: "the server sent GOAWAY (NO_ERROR)"},
		"short body": {server: func(p *peer) {
			headers(p, false, ":status", "200", "content-length", "5")
			p.fr.WriteData(1, true, []byte("{}"))
		}, want: "ClientPayloadError: Response payload is not completed: it has 2 bytes, and Content-Length says 5"},
		"no status": {server: func(p *peer) { headers(p, false, "server", "x") }, rst: http2.ErrCodeProtocol,
			want: `ClientResponseError: the answer breaks HTTP/2: the answer has the status ""`},
		"upper case field": {server: func(p *peer) { headers(p, false, ":status", "200", "Server", "x") }, rst: http2.ErrCodeProtocol,
			want: `ClientResponseError: the answer breaks HTTP/2: invalid header field name "Server"`},
		"interim answer ends": {server: func(p *peer) { headers(p, true, ":status", "100") }, rst: http2.ErrCodeProtocol,
			want: "ClientResponseError: the answer breaks HTTP/2: an interim answer that ends the stream"},
		"two heads": {server: func(p *peer) { p.stream(1); p.stream(1) }, rst: http2.ErrCodeProtocol,
			want: "ClientResponseError: the answer breaks HTTP/2: a second head, or trailers that do not end the stream"},
		"DATA before the head": {server: func(p *peer) { p.fr.WriteData(1, false, []byte("x")) }, rst: http2.ErrCodeProtocol,
			want: "ClientResponseError: the answer breaks HTTP/2: DATA before the head"},
		"huge head": {server: func(p *peer) {
			block := p.encode(":status", "200", "a", strings.Repeat("~", 40<<10), "b", strings.Repeat("~", 30<<10))
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:1]})
			for block = block[1:]; len(block) > maxFrame; block = block[maxFrame:] {
				p.fr.WriteContinuation(1, false, block[:maxFrame])
			}
			p.fr.WriteContinuation(1, true, block)
		}, rst: http2.ErrCodeCancel, want: "ClientResponseError: the answer breaks HTTP/2: its header fields are longer than 65536 bytes"},
		"an event longer than a stream's window": {server: func(p *peer) {
			p.stream(1)
			p.flush(0)
			for range streamWindow / maxFrame { // no update comes before half of the window is read, but then it does
				p.fr.WriteData(1, false, make([]byte, maxFrame))
				p.flush(0)
			}
			p.fr.WriteData(1, true, []byte("\n\ndata: [DONE]\n\n"))
		}, want: "InvalidInferenceResultError: No responses with actual content were received from the server " +
			"(only usage/metadata, null/empty data, or [DONE] markers)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := pair(t, Options{})
				r := do(t, c, newCall("{}"))
				p.next(http2.FrameData)
				tc.server(p)
				p.flush(0)
				out := r.wait()
				synctest.Wait()
				got := r.Facts.Err
				if tc.verdict != Ended {
					got = out.Err
				}
				if out.Verdict != tc.verdict || failure(got) != tc.want || len(r.Chunks) != tc.chunks {
					t.Errorf("verdict %d, error %q, %d chunks\nwant    %d, error %q, %d chunks", out.Verdict, failure(got), len(r.Chunks),
						tc.verdict, tc.want, tc.chunks)
				}
				down := ""
				if err := c.Err(); err != nil {
					down = err.Error()
				}
				if down != tc.down {
					t.Errorf("Err() = %q, want %q", down, tc.down)
				}
				if tc.rst != 0 {
					if f := p.next(http2.FrameRSTStream); f.StreamID != 1 || f.code != tc.rst {
						t.Errorf("the client reset stream %d with %v, want 1 with %v", f.StreamID, f.code, tc.rst)
					}
				}
				if tc.down == "" { // the connection must be good for the next one
					r := do(t, c, newCall("{}"))
					id := p.next(http2.FrameHeaders).StreamID
					p.out.Reset()
					p.stream(id)
					p.fr.WriteData(id, true, []byte("data: b\n\ndata: [DONE]\n\n"))
					p.flush(0)
					r.wait()
					if id != 3 || r.Facts.Err != nil || !slices.Equal(texts(r.Call), []string{"b"}) {
						t.Errorf("the next request: stream %d, %v, %q", id, r.Facts.Err, texts(r.Call))
					}
				}
			})
		})
	}
}

// A server that breaks the protocol ends the connection, with GOAWAY and with the reason in every call.
func TestViolations(t *testing.T) {
	raw := func(b ...byte) func(p *peer) { return func(p *peer) { p.out.Write(b) } }
	for name, tc := range map[string]struct {
		server func(p *peer)
		code   http2.ErrCode
		text   string
	}{
		"stream not opened": {func(p *peer) { p.stream(99) }, http2.ErrCodeProtocol, "HEADERS on stream 99, which was not opened"},
		"even stream":       {func(p *peer) { p.fr.WriteData(2, false, nil) }, http2.ErrCodeProtocol, "DATA on stream 2, which was not opened"},
		"push": {func(p *peer) {
			p.fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: p.encode(":path", "/"), EndHeaders: true})
		}, http2.ErrCodeProtocol, "PUSH_PROMISE, which SETTINGS forbid"},
		"window of the connection": {func(p *peer) { p.fr.WriteWindowUpdate(0, 1<<31-1) }, http2.ErrCodeFlowControl,
			"WINDOW_UPDATE takes the connection's window past 2^31-1"},
		"initial window": {func(p *peer) {
			p.fr.WriteWindowUpdate(1, 1<<31-1-65535)
			p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		}, http2.ErrCodeFlowControl, "[INITIAL_WINDOW_SIZE = 2147483647] takes the window of stream 1 past 2^31-1"},
		"enable push": {func(p *peer) { p.fr.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 1}) }, http2.ErrCodeProtocol,
			"the setting [ENABLE_PUSH = 1], which is a client's"},
		"long frame":          {raw(0, 0x40, 1, 0, 0, 0, 0, 0, 1), http2.ErrCodeFrameSize, "a frame is longer than the 16384 bytes allowed"},
		"short window update": {raw(0, 0, 1, 8, 0, 0, 0, 0, 1, 0), http2.ErrCodeFrameSize, "a frame of the wrong size, value or stream"},
		"padding":             {raw(0, 0, 1, 0, 8, 0, 0, 0, 1, 5), http2.ErrCodeProtocol, "DATA with more padding than frame"},
		"no padding length":   {raw(0, 0, 0, 0, 8, 0, 0, 0, 1), http2.ErrCodeFrameSize, "padded DATA without the length of its padding"},
		"padding of a head":   {raw(0, 0, 1, 1, 12, 0, 0, 0, 1, 5), http2.ErrCodeProtocol, "HEADERS with more padding than frame"},
		"empty padded head":   {raw(0, 0, 0, 1, 12, 0, 0, 0, 1), http2.ErrCodeFrameSize, "a frame is too short for its kind"},
		"stray CONTINUATION":  {raw(0, 0, 0, 9, 4, 0, 0, 0, 1), http2.ErrCodeProtocol, "unexpected CONTINUATION for stream 1"},
		"compression":         {raw(0, 0, 1, 1, 4, 0, 0, 0, 1, 0xff), http2.ErrCodeCompression, "a frame of the wrong size, value or stream"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down error
				closed := 0
				c, p := pair(t, Options{Down: func(_ *Conn, err error) { down = err }, Closed: func(*Conn) { closed++ }})
				r := do(t, c, newCall("{}"))
				p.next(http2.FrameData)
				tc.server(p)
				p.nc.Write(p.out.Bytes())
				out := r.wait()
				text := fmt.Sprintf("the server broke HTTP/2 (%v): %s", tc.code, tc.text)
				if got, want := failure(r.Facts.Err), "ServerDisconnectedError: Server disconnected: "+text; out.Verdict != Ended || got != want {
					t.Errorf("verdict %d, error %q\nwant error %q", out.Verdict, got, want)
				}
				if g := p.next(http2.FrameGoAway); g.code != tc.code || string(g.data) != tc.text {
					t.Errorf("GOAWAY with %v %q, want %v %q", g.code, g.data, tc.code, tc.text)
				}
				synctest.Wait()
				if down == nil || down.Error() != text || closed != 1 {
					t.Errorf("Down was told %v, want %q; Closed %d times, want 1", down, text, closed)
				}
			})
		})
	}
}

func TestFlood(t *testing.T) {
	for name, write := range map[string]func(p *peer){
		"PING":     func(p *peer) { p.fr.WritePing(false, [8]byte{}) },
		"SETTINGS": func(p *peer) { p.fr.WriteSettings() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				ck := newClock()
				p := &peer{t: t, nc: far}
				p.fr = http2.NewFramer(&p.out, nil)
				// The server never reads, so nothing it asks for can be answered.
				go func() {
					p.fr.WriteSettings()
					for range maxPings + 1 {
						write(p)
					}
					far.Write(p.out.Bytes())
				}()
				c, err := New(t.Context(), &stamped{Conn: near, clock: ck}, Options{Clock: ck, Target: target})
				if c != nil || err == nil || !strings.Contains(err.Error(), "ENHANCE_YOUR_CALM") {
					t.Errorf("New = %v, %v; want ENHANCE_YOUR_CALM", c, err)
				}
				if got := ck.Now(); got != int64(time.Second+byeWait) {
					t.Errorf("given up after %v, want %v", time.Duration(got)-time.Second, byeWait)
				}
				far.Close()
			})
		})
	}
}

func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := pair(t, Options{})
		p.fr.WritePing(false, [8]byte{1, 2, 3})
		p.flush(0)
		if f := p.next(http2.FramePing); !f.Flags.Has(http2.FlagPingAck) || f.ping != [8]byte{1, 2, 3} {
			t.Errorf("PING answered with %+v", f)
		}
	})
}

// Frames and fields a client must take in any shape.
func TestShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		r := do(t, c, newCall("{}"))
		p.next(http2.FrameData)
		block := p.encode(":status", "200", "content-type", "text/event-stream", "x", strings.Repeat("x", 100))
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:1], PadLength: 9})
		p.fr.WriteContinuation(1, false, block[1:20])
		p.fr.WriteContinuation(1, true, block[20:])
		p.fr.WriteRawFrame(0xab, 0xff, 1, []byte("unknown"))
		p.fr.WritePriority(1, http2.PriorityParam{Weight: 3})
		p.fr.WriteDataPadded(1, false, []byte("data: pad"), make([]byte, 200))
		p.fr.WriteData(1, false, nil)
		p.fr.WriteDataPadded(1, false, []byte("ded\n\n"), make([]byte, 0))
		p.fr.WriteDataPadded(1, true, []byte("data: [DONE]\n\n"), make([]byte, 255))
		p.flush(7)
		r.wait()
		if got := texts(r.Call); r.Facts.Err != nil || !slices.Equal(got, []string{"padded"}) || r.Facts.Received != 28 {
			t.Errorf("chunks %q, %v, %d bytes received", got, r.Facts.Err, r.Facts.Received)
		}
	})
}

// GOAWAY in the middle: what is above the last stream may be sent again, what is below is answered, nothing new is taken, and the
// connection ends with its last answer.
func TestGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var downs []string
		closed := 0
		c, p := pair(t, Options{Down: func(_ *Conn, err error) { downs = append(downs, err.Error()) }, Closed: func(*Conn) { closed++ }})
		var rs []*request
		for range 4 {
			rs = append(rs, do(t, c, newCall("{}")))
			p.next(http2.FrameData)
		}
		p.stream(1)
		p.fr.WriteData(1, false, []byte(oneEvent))
		p.fr.WriteGoAway(3, http2.ErrCodeNo, nil)
		p.flush(0)
		for _, r := range rs[2:] {
			if out := r.wait(); out.Verdict != Refused {
				t.Errorf("a stream above the last: verdict %d, want Refused", out.Verdict)
			}
		}
		err := c.Do(newCall("{}"), func(Outcome) { t.Error("taken after GOAWAY") })
		if ge := (*goAwayError)(nil); !errors.As(err, &ge) {
			t.Errorf("Do after GOAWAY: %v", err)
		}
		if n := c.InFlight(); n != 2 {
			t.Errorf("%d in flight, want the 2 that go on", n)
		}
		p.stream(3)
		for id := uint32(1); id <= 3; id += 2 {
			p.fr.WriteData(id, true, []byte("data: b\n\ndata: [DONE]\n\n"))
		}
		p.flush(0)
		for i, want := range [][]string{{"a", "b"}, {"b"}} {
			if out := rs[i].wait(); out.Verdict != Ended || rs[i].Facts.Err != nil || !slices.Equal(texts(rs[i].Call), want) {
				t.Errorf("stream %d: %+v %v %q, want %q", 2*i+1, out, rs[i].Facts.Err, texts(rs[i].Call), want)
			}
		}
		p.next(http2.FrameGoAway)
		synctest.Wait()
		if !slices.Equal(downs, []string{"the server sent GOAWAY (NO_ERROR)"}) || closed != 1 {
			t.Errorf("Down was told %q, Closed %d times", downs, closed)
		}
	})
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := 0
		narrow := *target
		narrow.Streams = 3
		c, p := pair(t, Options{Target: &narrow, Room: func(*Conn) { room++ }}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
		a, b := do(t, c, newCall("{}")), do(t, c, newCall("{}"))
		if err := c.Do(newCall("{}"), func(Outcome) { t.Error("a third request was taken") }); !errors.Is(err, ErrFull) {
			t.Errorf("Do past the server's limit: %v, want ErrFull", err)
		}
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
		p.flush(0)
		synctest.Wait()
		if c.Limit() != 3 || room != 1 {
			t.Errorf("Limit() = %d, Room called %d times; want the target's 3, and once", c.Limit(), room)
		}
		for _, id := range []uint32{1, 3} {
			p.headers(id, true, ":status", "204")
		}
		p.flush(0)
		a.wait()
		b.wait()
	})
}

// The server lowers its limit after a request was taken and before it was written: the request waits for an end, and the wait is told.
func TestLimitLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		gate := c.nc.(*stamped).block()
		a, b := do(t, c, newCall("{}")), do(t, c, newCall("{}"))
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		p.flush(0)
		synctest.Wait()
		close(gate)
		time.Sleep(50 * time.Millisecond)
		p.headers(1, true, ":status", "204")
		p.flush(0)
		a.wait()
		synctest.Wait()
		p.headers(3, true, ":status", "204")
		p.flush(0)
		b.wait()
		if got := []int64{a.Facts.Queued, b.Facts.Queued}; !slices.Equal(got, []int64{0, 50e6}) {
			t.Errorf("Queued = %d, want 0 and 50 ms", got)
		}
	})
}
