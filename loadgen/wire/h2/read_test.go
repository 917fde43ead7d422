package h2

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"prefire/loadgen/wire"
)

// script is a connection that gives out fixed bytes, some at a time, and swallows what is written.
type script struct {
	stamped
	in     []byte
	size   int // bytes a read; 0 = all
	closed chan struct{}
	once   sync.Once // reader and writer may both close it
}

func newScript(in []byte, size int) *script {
	return &script{stamped: stamped{clock: newClock()}, in: in, size: size, closed: make(chan struct{})}
}

func (s *script) Read(p []byte) (int, error) {
	n := len(p)
	if s.size > 0 {
		n = min(n, s.size)
	}
	n = copy(p[:n], s.in)
	s.in = s.in[n:]
	if n == 0 {
		return 0, io.EOF
	}
	s.reads++
	now := s.clock.Now()
	s.last = wire.Stamp{At: now, User: now, Read: s.reads, Kernel: true}
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	select {
	case <-s.closed:
		return 0, net.ErrClosed
	default:
		return len(p), nil
	}
}

func (s *script) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *script) Abort() { _ = s.Close() }

// Reading a chunk allocates nothing: DATA, its window, the stream's lookup and the call's own part of it.
func TestNoAllocationsPerChunk(t *testing.T) {
	event := []byte("data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n")
	const runs = 2000
	frames := func(write func(fr *http2.Framer)) []byte {
		var b bytes.Buffer
		fr := http2.NewFramer(&b, nil)
		for range runs + 2 { // AllocsPerRun warms up with one
			write(fr)
		}
		return b.Bytes()
	}
	for name, in := range map[string][]byte{
		"plain":  frames(func(fr *http2.Framer) { fr.WriteData(1, false, event) }),
		"padded": frames(func(fr *http2.Framer) { fr.WriteDataPadded(1, false, event, make([]byte, 20)) }),
	} {
		for _, size := range []int{0, 31, len(event) + 9} {
			sc := newScript(in, size)
			c := &Conn{o: Options{Clock: sc.clock, Target: target}, nc: sc, src: source{r: sc}, recvWindow: connWindow, nextID: 3,
				streams: map[uint32]*stream{}, wake: make(chan struct{}, 1)}
			c.in = http2.NewFramer(nil, &c.src)
			c.in.SetReuseFrames()
			call := newCall("")
			call.Keep, call.MaxChunks = wire.KeepNothing, runs+2
			call.Begin(1)
			st := &stream{conn: c, call: call, id: 1, headed: true, want: -1, credit: streamWindow}
			c.streams[1] = st
			call.Head(200, "", "text/event-stream", wire.Stamp{At: 2, User: 2})
			got := testing.AllocsPerRun(runs, func() {
				fh, err := c.in.ReadFrameHeader()
				if err != nil {
					t.Fatal(err)
				}
				if err := c.data(fh); err != nil {
					t.Fatal(err)
				}
			})
			if got != 0 {
				t.Errorf("%s, reads of %d: %v allocations a chunk", name, size, got)
			}
			if len(call.Chunks) != runs+1 {
				t.Errorf("%s, reads of %d: %d chunks, want %d", name, size, len(call.Chunks), runs+1)
			}
		}
	}
}

// Whatever a server sends, the connection ends: nothing panics, hangs or stays behind, and each call ends once.
func FuzzServer(f *testing.F) {
	add := func(size byte, write func(p *peer)) {
		p := &peer{}
		p.fr = http2.NewFramer(&p.out, nil)
		p.fr.AllowIllegalWrites = true
		p.enc = hpack.NewEncoder(&p.block)
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 9})
		write(p)
		f.Add(bytes.Clone(p.out.Bytes()), size)
	}
	add(0, func(p *peer) { p.stream(1); p.fr.WriteData(1, true, []byte("data: a\n\ndata: [DONE]\n\n")) })
	add(1, func(p *peer) {
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		p.fr.WriteWindowUpdate(0, 100)
		p.fr.WriteWindowUpdate(3, 0)
		p.fr.WritePing(false, [8]byte{})
		p.fr.WriteRSTStream(1, http2.ErrCodeRefusedStream)
	})
	add(5, func(p *peer) {
		block := p.encode(":status", "200", "content-length", "3")
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:1], PadLength: 3})
		p.fr.WriteContinuation(1, true, block[1:])
		p.fr.WriteDataPadded(1, false, []byte("abc"), make([]byte, 9))
		p.headers(1, true, "trailer", "x")
	})
	add(0, func(p *peer) { p.fr.WriteGoAway(1, http2.ErrCodeNo, []byte("bye")); p.stream(3) })
	add(0, func(p *peer) { p.headers(1, true, ":status", "100"); p.fr.WriteRawFrame(5, 4, 1, []byte{0, 0, 0, 2}) })
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), byte(0))
	f.Fuzz(func(t *testing.T, in []byte, size byte) {
		synctest.Test(t, func(t *testing.T) {
			sc := newScript(in, int(size))
			closed := 0
			o := Options{Clock: sc.clock, Target: target, Closed: func(*Conn) { closed++ }}
			c, err := prepare(sc, o)
			if err != nil {
				t.Fatal(err)
			}
			ends := 0
			for range 3 {
				call := newCall("body")
				call.Timeout = time.Minute
				call.Begin(c.o.Clock.Now())
				if c.Do(call, func(o Outcome) {
					if o.Verdict != Ended {
						call.End(o.Stamp, o.Err)
					}
					ends++
				}) != nil {
					ends++
				}
			}
			c.start()
			<-c.closed
			if ends != 3 || closed != 1 || c.InFlight() != 0 || c.Err() == nil {
				t.Errorf("%d of 3 calls ended, Closed %d times, %d in flight, %v", ends, closed, c.InFlight(), c.Err())
			}
		})
	})
}
