// Package h2 is an HTTP/2 client connection for load: golang.org/x/net/http2's Framer and hpack under a reader goroutine that feeds each
// stream's bytes to its wire.Call as they arrive, with the stamp of the raw read that brought them, and a writer goroutine that keeps to
// the server's flow control. Dialling, TLS, choosing a connection, queueing and sending again belong to the pool above.
package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"prefire/loadgen/wire"
)

// Bounds of a connection.
const (
	// DefaultStreams is how many requests share a connection where Target.Streams is 0.
	DefaultStreams = 16

	streamWindow  = 4 << 20 // bytes a server may send on one stream ahead of the updates
	connWindow    = 1 << 30 // and on all of them together
	initialWindow = 65535   // RFC 9113 6.9.2: both windows before anything is said
	maxWindow     = 1<<31 - 1
	maxFrame      = 16 << 10 // RFC 9113 4.2: the largest frame a server may send unless told otherwise
	maxHeaderList = 64 << 10 // bytes of an answer's header fields, as RFC 9113 6.5.2 counts them
	maxPings      = 1000     // unanswered PINGs held while the socket is full
	lastID        = 1<<31 - 1<<16
	// byeWait bounds the last words (GOAWAY) to a server that does not read.
	byeWait = 2 * time.Second
)

// ErrFull says that the connection carries as many requests as Limit allows.
var ErrFull = errors.New("the HTTP/2 connection carries as many requests as it may")

// errClosed is the reason of a connection that Close ended.
var errClosed = errors.New("the HTTP/2 connection was closed by the client")

// Stream is the connection below: stamp.Source is one.
type Stream interface {
	net.Conn
	// Last is the stamp of the raw read that completed what the last Read returned.
	Last() wire.Stamp
	// Drained says that this Read left nothing of that raw read behind (below TLS a raw read can bring several records) and that the raw
	// read left nothing in the socket. Where that is not known it is false, which gives slack and never a wrong exactness.
	Drained() bool
	// Abort closes at once, without a farewell that could block behind a write.
	Abort()
}

// Options are what a connection needs beside its socket. Clock and Target must be set. The functions may be called before New returns,
// and also where New then fails; none of them may call Close.
type Options struct {
	Clock  wire.Clock
	Target *wire.Target
	// Down is told once, when the connection takes no more requests: GOAWAY, an error, the end of its stream numbers, Close. Requests that
	// the server still answers go on.
	Down func(c *Conn, why error)
	// Room is told when the server raised how many streams it allows.
	Room func(c *Conn)
	// Closed is told once, when the socket is closed and every call has ended.
	Closed func(c *Conn)
}

// Verdict says how a request left its connection.
type Verdict uint8

const (
	// Ended: Call.End was called; the request is over.
	Ended Verdict = iota
	// Refused: the server has not processed the request (GOAWAY, REFUSED_STREAM, or it was never sent), so it can be sent again without
	// being run twice. Call.End was not called.
	Refused
	// Dropped: the connection was lost after the request was written and before anything more came from the server, as when an idle
	// connection closes under a request. Call.End was not called.
	Dropped
)

// Outcome is how a request left its connection. Where Verdict is not Ended, a pool that does not send the request again calls
// Call.End(Stamp, Err); one that does calls Call.Restart first.
type Outcome struct {
	Verdict Verdict
	Err     *wire.Error
	Stamp   wire.Stamp
}

// Conn is one HTTP/2 connection. Its methods may be called from any goroutine.
type Conn struct {
	o      Options
	nc     Stream
	limit  int // of Target.Streams
	fixed  []hpack.HeaderField
	src    source
	in     *http2.Framer // reads; the reader goroutine's
	frames atomic.Uint64 // frames that have begun to arrive

	work       sync.WaitGroup
	wake       chan struct{} // the writer has something to look at
	ready      chan struct{} // SETTINGS are read and acknowledged
	gone       chan struct{} // reading has ended: the writer has no more to do
	writerDone chan struct{}
	closed     chan struct{}

	recvWindow int64 // what the server may still send; the reader's

	mu       sync.Mutex
	down     error // why it takes no more requests
	settings int64
	acked    bool // the server's SETTINGS are acknowledged
	ended    bool // both goroutines are done
	nextID   uint32
	goAway   uint32 // last stream number the server will process
	streams  map[uint32]*stream
	opening  []*stream // no HEADERS yet
	sending  []*stream // body bytes left, in turn
	out      outbox
	enc      *hpack.Encoder
	block    bytes.Buffer // enc's output
	framer   *http2.Framer
	batch    bytes.Buffer // framer's output
	// The server's settings and the window of the connection, as they bind the writer.
	window     int64
	peerWindow int64
	peerFrame  uint32
	peerMax    uint32
}

// New speaks HTTP/2 on nc, over which ALPN has chosen h2 or the server is known to speak it. It returns when the server's SETTINGS have
// been read and acknowledged. On an error nc is closed.
func New(ctx context.Context, nc Stream, o Options) (*Conn, error) {
	c, err := prepare(nc, o)
	if err != nil {
		nc.Abort()
		return nil, err
	}
	c.start()
	select {
	case <-c.ready:
		return c, nil
	case <-c.closed:
		err = c.Err()
	case <-ctx.Done():
		err = fmt.Errorf("waiting for the server's HTTP/2 SETTINGS: %w", ctx.Err())
	}
	c.Close()
	return nil, err
}

// prepare makes a connection with its first bytes in the batch.
func prepare(nc Stream, o Options) (*Conn, error) {
	fixed, err := lowerFields(nil, o.Target.Header)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		o: o, nc: nc, fixed: fixed, limit: o.Target.Streams,
		src:        source{r: nc},
		wake:       make(chan struct{}, 1),
		ready:      make(chan struct{}),
		gone:       make(chan struct{}),
		writerDone: make(chan struct{}),
		closed:     make(chan struct{}),
		recvWindow: connWindow,
		nextID:     1, goAway: maxWindow,
		streams: map[uint32]*stream{},
		window:  initialWindow, peerWindow: initialWindow, peerFrame: maxFrame, peerMax: maxWindow,
	}
	if c.limit <= 0 {
		c.limit = DefaultStreams
	}
	c.in = http2.NewFramer(nil, &c.src)
	c.in.SetReuseFrames()
	c.in.SetMaxReadFrameSize(maxFrame)
	c.in.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.in.MaxHeaderListSize = maxHeaderList
	c.framer = http2.NewFramer(&c.batch, nil)
	c.enc = hpack.NewEncoder(&c.block)
	c.preface()
	return c, nil
}

func (c *Conn) start() {
	c.work.Go(c.read)
	c.work.Go(c.write)
}

// Do sends call and later calls end once, on another goroutine and with no lock held; it never blocks. Call.Begin has been called, and the
// pool has set the facts that are its own (Acquired, Conn, ConnUse, Reused, Cold, Queued, Attempts). Call.Timeout, counted from
// Facts.Ready, and Call.CancelAfter are kept here.
//
// On an error nothing was taken and end is not called: [ErrFull]; a *wire.Error where the request itself cannot be sent; else the reason
// why the connection takes no more requests.
func (c *Conn) Do(call *wire.Call, end func(Outcome)) error {
	fields, err := c.requestFields(call)
	if err != nil {
		return err
	}
	st := &stream{conn: c, call: call, gen: call.Generation(), end: end, fields: fields, body: call.Body, want: -1, credit: streamWindow}
	f := &call.Facts
	f.FirstWrite, f.LastWrite, f.Sent = 0, 0, 0
	c.mu.Lock()
	if err := c.down; err != nil {
		c.mu.Unlock()
		return err
	}
	if c.inFlight() >= c.limitLocked() {
		c.mu.Unlock()
		return ErrFull
	}
	st.asked = c.o.Clock.Now()
	if call.Timeout > 0 {
		left := call.Timeout - time.Duration(st.asked-f.Ready)
		st.timeout = time.AfterFunc(max(left, 0), func() { st.cancel(wire.ByTimeout) })
	}
	c.opening = append(c.opening, st)
	c.mu.Unlock()
	c.poke()
	return nil
}

// Cancel ends call, if it is still in generation gen on this connection, and resets its stream; other streams and the connection go on.
// Its end comes by the function given to Do, on another goroutine.
func (c *Conn) Cancel(call *wire.Call, gen uint32, why wire.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.find(call, gen); st != nil {
		// The table is never empty while the reader lives on, so the group is not waited for at zero here.
		c.work.Go(func() { st.cancel(why) })
	}
}

func (c *Conn) find(call *wire.Call, gen uint32) *stream {
	for _, st := range c.opening {
		if st.call == call && st.gen == gen {
			return st
		}
	}
	for _, st := range c.streams {
		if st.call == call && st.gen == gen {
			return st
		}
	}
	return nil
}

// discard reads a probe's answer: any answer counts, whatever is in it.
type discard struct{}

func (discard) Event(_, _ []byte, _ *wire.Delta) wire.Class { return wire.Other }
func (discard) Body([]byte, *wire.Delta) wire.Class         { return wire.Other }

// Get sends a GET with the target's header fields and those given, reads the answer to its end and returns its facts. Any status is an
// answer; an error means that there was none.
func (c *Conn) Get(ctx context.Context, path string, header []wire.Field) (wire.Facts, error) {
	call := &wire.Call{Target: c.o.Target, Method: "GET", Path: path, Header: header, Parser: discard{}}
	gen := call.Begin(c.o.Clock.Now())
	done := make(chan Outcome, 1)
	if err := c.Do(call, func(o Outcome) { done <- o }); err != nil {
		return call.Facts, err
	}
	var o Outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		c.Cancel(call, gen, wire.ByUser)
		o = <-done
		if call.Facts.Cause != wire.NotCancelled {
			return call.Facts, ctx.Err()
		}
	}
	switch {
	case o.Err != nil:
		return call.Facts, o.Err
	case call.Facts.Status == 0:
		return call.Facts, call.Facts.Err
	}
	return call.Facts, nil
}

// InFlight is how many requests the connection carries.
func (c *Conn) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inFlight()
}

func (c *Conn) inFlight() int { return len(c.streams) + len(c.opening) }

// Limit is how many requests it may carry now: Target.Streams, or less where the server allows less.
func (c *Conn) Limit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limitLocked()
}

func (c *Conn) limitLocked() int { return int(min(int64(c.limit), int64(c.peerMax))) }

// Err is why the connection takes no more requests, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// Settings is the arrival of the server's first SETTINGS, in ns since the run's epoch.
func (c *Conn) Settings() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings
}

// Close says goodbye, closes the connection and ends its calls with an error. It returns when no goroutine of the connection is left, and
// must not be called from one of the functions the connection calls.
func (c *Conn) Close() {
	c.retire(errClosed)
	c.bye(http2.ErrCodeNo, "")
	c.work.Wait()
}

// retire marks the connection as taking no more requests, and lets it end where it carries none.
func (c *Conn) retire(why error) {
	c.mu.Lock()
	first := c.down == nil
	if first {
		c.down = why
	}
	idle := c.inFlight() == 0
	c.mu.Unlock()
	if first && c.o.Down != nil {
		c.o.Down(c, why)
	}
	if idle {
		c.bye(http2.ErrCodeNo, "")
	}
}

// bye has the writer send GOAWAY and close the socket.
func (c *Conn) bye(code http2.ErrCode, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.bye != nil || c.ended {
		return
	}
	// A server that does not read would hold the writer in its last write for ever.
	c.out.bye = &goodbye{code, text, time.AfterFunc(byeWait, c.nc.Abort)}
	c.poke()
}

func (c *Conn) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
