package h2

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"prefire/loadgen/wire"
)

// Whatever windows the server opens, the client stays within them and sends every body whole.
func TestSendWindows(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 0))
				initial := int64(rng.IntN(1000))
				frameSize := uint32(maxFrame + rng.IntN(2)*rng.IntN(1<<20))
				c, p := pair(t, Options{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(initial)},
					http2.Setting{ID: http2.SettingMaxFrameSize, Val: frameSize})
				bodies := map[uint32][]byte{}
				var rs []*request
				for range 4 {
					body := make([]byte, rng.IntN(150_000))
					for i := range body {
						body[i] = byte(rng.Uint32())
					}
					bodies[uint32(1+2*len(rs))] = body
					rs = append(rs, do(t, c, newCall(string(body))))
				}
				windows := map[uint32]int64{0: initialWindow, 1: initial, 3: initial, 5: initial, 7: initial}
				got, ended := map[uint32][]byte{}, 0
				var pending []int64 // deltas of the initial window that the client has not acknowledged
				acks := -1          // of the first SETTINGS
				for ended < len(rs) {
					synctest.Wait()
					for len(p.got) > 0 {
						f := <-p.got
						switch f.Type {
						case http2.FrameSettings:
							if f.Flags.Has(http2.FlagSettingsAck) {
								if acks++; acks > 0 {
									for id := uint32(1); id <= 7; id += 2 {
										windows[id] += pending[0]
									}
									pending = pending[1:]
								}
							}
						case http2.FrameHeaders:
							if f.Flags.Has(http2.FlagHeadersEndStream) {
								ended++
							}
						case http2.FrameData:
							n := int64(len(f.data))
							if n > windows[0] || n > windows[f.StreamID] || f.Length > frameSize {
								t.Fatalf("%d bytes on stream %d: its window is %d, the connection's %d, frames have at most %d", n, f.StreamID,
									windows[f.StreamID], windows[0], frameSize)
							}
							windows[0] -= n
							windows[f.StreamID] -= n
							got[f.StreamID] = append(got[f.StreamID], f.data...)
							if f.Flags.Has(http2.FlagDataEndStream) {
								ended++
							}
						}
					}
					switch rng.IntN(4) {
					case 0:
						next := int64(rng.IntN(20_000))
						pending = append(pending, next-initial)
						initial = next
						p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(next)})
					case 1:
						by := 1 + rng.IntN(200_000)
						windows[0] += int64(by)
						p.fr.WriteWindowUpdate(0, uint32(by))
					default:
						id, by := uint32(1+2*rng.IntN(4)), 1+rng.IntN(50_000)
						windows[id] += int64(by)
						p.fr.WriteWindowUpdate(id, uint32(by))
					}
					p.flush(0)
				}
				for id, body := range bodies {
					if !bytes.Equal(got[id], body) {
						t.Errorf("stream %d: %d bytes came, %d were sent, or they differ", id, len(got[id]), len(body))
					}
				}
				synctest.Wait()
				for id := uint32(1); id <= 7; id += 2 {
					p.headers(id, true, ":status", "204")
				}
				p.flush(0)
				for i, r := range rs {
					r.wait()
					if want := int64(len(bodies[uint32(1+2*i)])); r.Facts.Sent != want {
						t.Errorf("Sent = %d, want %d", r.Facts.Sent, want)
					}
				}
			})
		})
	}
}

// A long body does not hold up the others: neither while it is written nor while it waits for its window.
func TestLongBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 300_000})
		p.fr.WriteWindowUpdate(0, 1<<20)
		p.flush(0)
		synctest.Wait()
		gate := c.nc.(*stamped).block()
		long := do(t, c, newCall(strings.Repeat("x", 400_000)))
		short := do(t, c, newCall("short"))
		close(gate)
		before := 0
		for f := range p.got {
			if f.StreamID == 3 {
				break
			}
			before += len(f.data)
		}
		if before != sliceSize {
			t.Errorf("%d bytes of the long body before the short request, want one slice of %d", before, sliceSize)
		}
		if f := p.next(http2.FrameData); f.StreamID != 3 || string(f.data) != "short" {
			t.Errorf("DATA on stream %d, want 3", f.StreamID)
		}
		synctest.Wait()
		p.headers(3, true, ":status", "204")
		p.flush(0)
		short.wait()
		later := do(t, c, newCall("later"))
		for p.next(http2.FrameHeaders).StreamID != 5 {
		}
		p.fr.WriteWindowUpdate(1, 100_000)
		p.flush(0)
		synctest.Wait()
		p.headers(1, true, ":status", "204")
		p.headers(5, true, ":status", "204")
		p.flush(0)
		long.wait()
		later.wait()
		if long.Facts.Sent != 400_000 {
			t.Errorf("%d bytes of the long body sent", long.Facts.Sent)
		}
	})
}

// A body that is given up while it waits for its window leaves the turn to the next.
func TestBodyGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		first, second := do(t, c, newCall(strings.Repeat("x", initialWindow+100))), do(t, c, newCall("second"))
		synctest.Wait()
		c.Cancel(first.Call, first.gen, wire.ByUser)
		first.wait()
		synctest.Wait()
		p.fr.WriteWindowUpdate(0, 6)
		p.flush(0)
		for f := p.next(http2.FrameData); f.StreamID != 3; f = p.next(http2.FrameData) {
		}
		synctest.Wait()
		p.headers(3, true, ":status", "204")
		p.flush(0)
		if second.wait(); second.Facts.Sent != 6 {
			t.Errorf("%d bytes of the second body sent, want 6", second.Facts.Sent)
		}
	})
}

// The client opens its windows again in time for a long answer, and by no more than was used.
func TestReceiveWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		r := do(t, c, newCall("{}"))
		if f := p.next(http2.FrameWindowUpdate); f.StreamID != 0 || f.by != connWindow-initialWindow {
			t.Errorf("the connection's window is opened by %d on %d", f.by, f.StreamID)
		}
		p.next(http2.FrameData)
		p.headers(1, false, ":status", "200", "content-type", "application/json")
		p.flush(0)
		window, total := streamWindow, 0
		block := make([]byte, 10_000)
		for total < 3*streamWindow {
			if window < len(block)+200 {
				t.Fatalf("the window is down to %d after %d bytes", window, total)
			}
			p.fr.WriteDataPadded(1, false, block, make([]byte, 99))
			p.flush(0)
			total += len(block)
			window -= len(block) + 100 // padding and its length count too
			synctest.Wait()
			for len(p.got) > 0 {
				if f := <-p.got; f.Type == http2.FrameWindowUpdate {
					if window += int(f.by); f.StreamID != 1 || window != streamWindow {
						t.Errorf("stream %d opened to %d, want 1 to %d", f.StreamID, window, streamWindow)
					}
				}
			}
		}
		p.fr.WriteData(1, true, nil)
		p.flush(0)
		r.wait()
		if r.Facts.Received != int64(total) || r.Facts.Err != nil {
			t.Errorf("%d bytes received, want %d; %v", r.Facts.Received, total, r.Facts.Err)
		}
	})
}

// The connection's window is too wide to be used up in a test: the client is told that most of it is gone.
func TestConnectionWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		p.next(http2.FrameWindowUpdate) // of the start
		r := do(t, c, newCall("{}"))
		p.next(http2.FrameData)
		p.stream(1)
		p.flush(0)
		synctest.Wait()
		c.recvWindow = connWindow/2 + 5
		p.fr.WriteData(1, false, []byte("data"))
		p.fr.WriteData(1, false, []byte(": a\n\n"))
		p.flush(0)
		if f := p.next(http2.FrameWindowUpdate); f.StreamID != 0 || f.by != connWindow/2+4 {
			t.Errorf("stream %d opened by %d, want the connection by %d", f.StreamID, f.by, connWindow/2+4)
		}
		synctest.Wait()
		if c.recvWindow != connWindow {
			t.Errorf("the window is %d afterwards", c.recvWindow)
		}
		c.recvWindow = 5
		p.fr.WriteData(1, true, []byte("data: b\n\n"))
		p.nc.Write(p.out.Bytes())
		r.wait()
		want := "ClientPayloadError: Response payload is not completed: the server broke HTTP/2 (FLOW_CONTROL_ERROR): " +
			"more DATA than the connection's window of 1073741824 bytes"
		if failure(r.Facts.Err) != want || len(r.Chunks) != 1 {
			t.Errorf("error %q, %d chunks", failure(r.Facts.Err), len(r.Chunks))
		}
	})
}

// More than the window is the stream's end, and not the connection's.
func TestStreamWindowExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		r := do(t, c, newCall("{}"))
		p.next(http2.FrameData)
		p.stream(1)
		p.flush(0)
		synctest.Wait()
		c.streams[1].credit = 5
		p.fr.WriteData(1, true, []byte("data: a\n\n"))
		p.flush(0)
		r.wait()
		want := "ClientPayloadError: Response payload is not completed: the server sent more than the stream's window of 4194304 bytes"
		if failure(r.Facts.Err) != want {
			t.Errorf("error %q", failure(r.Facts.Err))
		}
		if f := p.next(http2.FrameRSTStream); f.code != http2.ErrCodeFlowControl {
			t.Errorf("reset with %v", f.code)
		}
		if c.Err() != nil {
			t.Errorf("Err() = %v", c.Err())
		}
	})
}

// The server's HEADER_TABLE_SIZE and MAX_FRAME_SIZE bind the header blocks.
func TestHeaderSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		long := strings.Repeat("~", 20<<10)
		for i, size := range []uint32{4096, 0, 100, 1 << 20} {
			p.fr.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: size})
			p.fr.ReadMetaHeaders.SetAllowedMaxDynamicTableSize(size)
			p.flush(0)
			synctest.Wait()
			if got, want := c.enc.MaxDynamicTableSize(), min(size, 4096); got != want {
				t.Errorf("a table of %d, want %d", got, want)
			}
			call := newCall("{}")
			call.Header[0].Value = long
			r := do(t, c, call)
			h := p.next(http2.FrameHeaders)
			if h.fields["x-request-id"] != long || h.fields["authorization"] != "Bearer key" || h.Length != maxFrame {
				t.Errorf("table of %d: %d bytes of x-request-id, authorization %q, HEADERS of %d bytes", size, len(h.fields["x-request-id"]),
					h.fields["authorization"], h.Length)
			}
			p.headers(uint32(1+2*i), true, ":status", "204")
			p.flush(0)
			r.wait()
		}
	})
}

// However the server cuts its frames, and the network its bytes, the chunks have the same texts; and their times, slack and flags depend
// on the bytes' arrival, not on the frames.
func TestSplits(t *testing.T) {
	body := []byte("data: one\n\ndata: two\n\n: ping\n\ndata: three\r\n\r\ndata: f\u00fcnf\n\ndata: [DONE]\n\n")
	want := []string{"one", "two", "three", "f\u00fcnf"}
	for size := 1; size <= len(body); size += 1 + size/8 {
		for _, read := range []int{0, 1, 2, 3, 7, 16, 64} {
			synctest.Test(t, func(t *testing.T) {
				c, p := pair(t, Options{})
				r := do(t, c, newCall("{}"))
				p.next(http2.FrameData)
				p.stream(1)
				for b := range slices.Chunk(body, size) {
					p.fr.WriteData(1, false, b)
				}
				p.fr.WriteData(1, true, nil)
				p.flush(read)
				r.wait()
				if got := texts(r.Call); r.Facts.Err != nil || !slices.Equal(got, want) || r.Facts.Received != int64(len(body)) {
					t.Errorf("frames of %d, reads of %d: %q, %v, %d bytes", size, read, got, r.Facts.Err, r.Facts.Received)
				}
			})
		}
	}
}

// One DATA frame that comes in two reads: the event in each has that read's own stamp.
func TestFrameInTwoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t, Options{})
		start := c.o.Clock.Now()
		r := do(t, c, newCall("{}"))
		p.next(http2.FrameData)
		p.stream(1)
		p.flush(0)
		p.fr.WriteData(1, true, []byte("data: a\n\ndata: b\n\n"))
		b := bytes.Clone(p.out.Bytes())
		p.out.Reset()
		sleep(10)
		p.nc.Write(b[:9+9]) // the frame's head and the first event
		sleep(10)
		p.nc.Write(b[9+9:])
		r.wait()
		var got []int64
		for _, ch := range r.Chunks {
			got = append(got, (ch.At-start)/1e6, int64(ch.Slack), int64(ch.Flags))
		}
		if !slices.Equal(got, []int64{10, 0, 1, 20, 0, 1}) {
			t.Errorf("at, slack and flags are %v; want 10 ms and 20 ms, exact, by the kernel's stamp", got)
		}
	})
}
