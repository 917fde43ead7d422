package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"prefire/loadgen/wire"
)

// clock is package time, from an epoch of its own: virtual inside a synctest bubble.
type clock struct{ epoch time.Time }

func newClock() clock { return clock{time.Now().Add(-time.Second)} }

func (c clock) Now() int64              { return int64(time.Since(c.epoch)) }
func (c clock) Wall(at int64) time.Time { return c.epoch.Add(time.Duration(at)) }
func (c clock) Until(ctx context.Context, at int64) error {
	t := time.NewTimer(time.Duration(at - c.Now()))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stamped numbers and stamps reads as if the kernel did.
type stamped struct {
	net.Conn
	clock wire.Clock
	last  wire.Stamp
	reads uint64
	empty int64
	gate  atomic.Pointer[chan struct{}] // writes wait until it is closed
}

// block holds up all writes until the gate it returns is closed.
func (s *stamped) block() chan struct{} {
	gate := make(chan struct{})
	s.gate.Store(&gate)
	return gate
}

func (s *stamped) Write(p []byte) (int, error) {
	if gate := s.gate.Load(); gate != nil {
		<-*gate
	}
	return s.Conn.Write(p)
}

func (s *stamped) Read(p []byte) (int, error) {
	before := s.clock.Now()
	n, err := s.Conn.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = net.ErrClosed // as a socket says it
	}
	if n > 0 {
		s.reads++
		at := s.clock.Now()
		s.last = wire.Stamp{At: at, User: at, Empty: s.empty, Read: s.reads, Kernel: true}
		s.empty = before
	}
	return n, err
}
func (s *stamped) Last() wire.Stamp { return s.last }
func (s *stamped) Drained() bool    { return true }
func (s *stamped) Abort()           { _ = s.Close() }

// words reads every event as content.
type words struct{}

func (words) Event(_, data []byte, d *wire.Delta) wire.Class {
	d.Content = data
	return wire.Content
}
func (words) Body(data []byte, d *wire.Delta) wire.Class {
	d.Content = data
	return wire.Content
}

type observer struct{ first, done atomic.Int32 }

func (o *observer) First(*wire.Call) { o.first.Add(1) }
func (o *observer) Done(*wire.Call)  { o.done.Add(1) }

var target = &wire.Target{
	Scheme: "http", Host: "llm.test:8000", Addr: "127.0.0.1:8000", Path: "/v1/chat/completions", Protocol: wire.H2C,
	Header: []wire.Field{{Name: "Authorization", Value: "Bearer key"}, {Name: "Content-Type", Value: "application/json"}},
}

// request is a call under way.
type request struct {
	*wire.Call
	gen  uint32
	obs  *observer
	out  Outcome
	done chan struct{}
}

func (r *request) wait() Outcome { <-r.done; return r.out }

func newCall(body string) *wire.Call {
	return &wire.Call{Target: target, Body: []byte(body), Parser: words{}, Keep: wire.KeepText,
		Header: []wire.Field{{Name: "X-Request-ID", Value: "r1"}}}
}

func do(t testing.TB, c *Conn, call *wire.Call) *request {
	t.Helper()
	r := &request{Call: call, obs: &observer{}, done: make(chan struct{})}
	call.Obs = r.obs
	r.gen = call.Begin(c.o.Clock.Now())
	if err := c.Do(call, func(o Outcome) { r.out = o; close(r.done) }); err != nil {
		t.Fatalf("Do: %v", err)
	}
	return r
}

// peer is a server at the level of frames: what the client sends arrives in got, what the test sends goes out as it says.
type peer struct {
	t     testing.TB
	nc    net.Conn
	fr    *http2.Framer
	out   bytes.Buffer // frames not flushed yet
	enc   *hpack.Encoder
	block bytes.Buffer
	got   chan frame
	read  error // why got was closed; set before
}

// frame is one frame of the client, copied.
type frame struct {
	http2.FrameHeader
	data     []byte
	fields   map[string]string
	settings []http2.Setting
	by       uint32
	code     http2.ErrCode
	ping     [8]byte
}

func newPeer(t testing.TB, nc net.Conn) *peer {
	p := &peer{t: t, nc: nc, got: make(chan frame, 1<<16)}
	p.fr = http2.NewFramer(&p.out, nc)
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.fr.SetMaxReadFrameSize(1<<24 - 1)
	p.enc = hpack.NewEncoder(&p.block)
	go p.receive()
	return p
}

func (p *peer) receive() {
	defer close(p.got)
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(p.nc, preface); err != nil || string(preface) != http2.ClientPreface {
		p.read = fmt.Errorf("preface %q: %v", preface, err)
		return
	}
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			p.read = err
			return
		}
		g := frame{FrameHeader: f.Header()}
		switch f := f.(type) {
		case *http2.DataFrame:
			g.data = bytes.Clone(f.Data())
		case *http2.MetaHeadersFrame:
			g.fields = map[string]string{}
			for _, h := range f.Fields {
				g.fields[h.Name] = h.Value
			}
		case *http2.SettingsFrame:
			for i := range f.NumSettings() {
				g.settings = append(g.settings, f.Setting(i))
			}
		case *http2.WindowUpdateFrame:
			g.by = f.Increment
		case *http2.RSTStreamFrame:
			g.code = f.ErrCode
		case *http2.GoAwayFrame:
			g.code, g.data = f.ErrCode, bytes.Clone(f.DebugData())
		case *http2.PingFrame:
			g.ping = f.Data
		}
		p.got <- g
	}
}

// next is the client's next frame of the kind; others are dropped.
func (p *peer) next(kind http2.FrameType) frame {
	p.t.Helper()
	for f := range p.got {
		if f.Type == kind {
			return f
		}
	}
	p.t.Fatalf("the client sent no %v before it hung up (%v)", kind, p.read)
	return frame{}
}

// flush sends what has been put together, in writes of at most size bytes: each is one read of the client. 0 = in one.
func (p *peer) flush(size int) {
	p.t.Helper()
	for b := p.out.Bytes(); len(b) > 0; {
		n := len(b)
		if size > 0 {
			n = min(n, size)
		}
		if _, err := p.nc.Write(b[:n]); err != nil {
			p.t.Fatalf("writing to the client: %v", err)
		}
		b = b[n:]
	}
	p.out.Reset()
}

func (p *peer) headers(id uint32, end bool, fields ...string) {
	p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode(fields...), EndHeaders: true, EndStream: end})
}

func (p *peer) encode(fields ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(p.block.Bytes())
}

func (p *peer) stream(id uint32) {
	p.headers(id, false, ":status", "200", "content-type", "text/event-stream")
}

// pair is a connection and its server, with SETTINGS exchanged. The connection must be closed before the bubble ends.
func pair(t testing.TB, o Options, settings ...http2.Setting) (*Conn, *peer) {
	t.Helper()
	near, far := net.Pipe()
	p := newPeer(t, far)
	p.fr.WriteSettings(settings...)
	flushed := make(chan struct{})
	go func() { p.flush(0); close(flushed) }()
	if o.Clock == nil {
		o.Clock = newClock()
	}
	if o.Target == nil {
		o.Target = target
	}
	c, err := New(context.Background(), &stamped{Conn: near, clock: o.Clock}, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	<-flushed
	t.Cleanup(func() { c.Close(); far.Close() })
	return c, p
}

// texts are the chunks' texts.
func texts(c *wire.Call) []string {
	var all []string
	from := uint32(0)
	for _, ch := range c.Chunks {
		all = append(all, string(c.Text[from:ch.Off]))
		from = ch.Off
	}
	return all
}

// failure is an error as "Type: Message".
func failure(e *wire.Error) string {
	if e == nil {
		return ""
	}
	return e.Error()
}

func sleep(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }
