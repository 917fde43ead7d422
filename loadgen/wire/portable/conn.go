package portable

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/h2"
	"prefire/loadgen/wire/http1"
	"prefire/loadgen/wire/pooling"
	"prefire/loadgen/wire/stamp"
)

const (
	readSize   = 16 << 10
	inlineSend = 32 << 10 // what the socket's buffer takes at once; the rest is written beside the reading
)

// conn is one connection. Of its fields uses, lastUsed and hold are guarded by Transport.mu; gone is set by whoever has the connection.
type conn struct {
	t        *Transport
	target   *wire.Target
	src      stamp.Source
	mux      *h2.Conn // nil on HTTP/1.1
	facts    wire.ConnFacts
	uses     uint32
	lastUsed int64
	hold     pooling.Hold
	gone     bool // the probe's answer closed it
}

// abort closes the connection at once. Over HTTP/2 its calls end, each with an error.
func (c *conn) abort() { c.src.Abort() }

// shut closes the connection and waits until nothing of it is left. It must not be called with the lock held.
func (c *conn) shut() {
	if c.mux != nil {
		c.mux.Close()
		return
	}
	c.abort()
}

// stale reports that the server has closed an idle connection. Before the first answer over TLS there may be tickets to read, which say
// nothing.
func (c *conn) stale() bool {
	if c.uses == 0 && c.facts.TLSEnd != 0 {
		return false
	}
	return c.src.Stale()
}

// prove sends the probe and reads its answer; any status is one. It makes the connection a used one. gone says afterwards that the answer
// closed the connection.
func (c *conn) prove(ctx context.Context, p wire.Probe) *wire.Error {
	if p.Path == "" {
		return nil
	}
	var start, end int64
	var status int
	if c.mux != nil {
		f, err := c.mux.Get(ctx, p.Path, p.Header)
		if err != nil {
			return probeError(err)
		}
		start, end, status = f.FirstWrite, max(f.LastByte, f.HeadAt), f.Status
	} else {
		defer context.AfterFunc(ctx, c.abort)()
		k := c.t.kits.Get().(*kit)
		defer c.t.kits.Put(k)
		var to probeSink
		res := c.exchange(k, &outgoing{method: "GET", path: p.Path, target: c.target, header: p.Header}, &to)
		if res.err != nil {
			return res.err
		}
		start, end, status = c.src.FirstWrite(), res.stamp.At, to.status
		c.gone = !res.reusable
	}
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.t.probes++
	c.uses++
	c.lastUsed = c.t.o.Clock.Now()
	if c.facts.ProbeEnd == 0 {
		c.facts.ProbeStart, c.facts.ProbeEnd, c.facts.ProbeStatus = start, end, status
	}
	return nil
}

func probeError(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return &wire.Error{Type: "ServerDisconnectedError", Message: "the probe got no answer: " + wire.Words(err)}
}

// probeSink takes the status and lets the body go.
type probeSink struct{ status int }

func (s *probeSink) Field(_, _ []byte) {}

func (s *probeSink) Head(status int, _, _ string, _ wire.Stamp) { s.status = status }
func (s *probeSink) Data([]byte, wire.Stamp, bool) error        { return nil }
func (s *probeSink) complete() bool                             { return false }

// outgoing is a request as an HTTP/1.1 connection sends it.
type outgoing struct {
	method, path string
	target       *wire.Target
	header       []wire.Field
	body         []byte
	sent         func(at int64) // called once, when the last byte was handed to the kernel
}

// result is how an exchange ended.
type result struct {
	err       *wire.Error
	lost      bool // the other side ended the connection before a byte of the answer came
	reusable  bool
	stamp     wire.Stamp // of the read that brought the end; zero where there was none
	unended   bool       // the answer is complete, and its body was given up
	lastWrite int64
	writes    int
	sent      int64 // body bytes
}

// taker takes an answer.
type taker interface {
	http1.Sink
	// complete says that the body may end now, and that what still comes means nothing.
	complete() bool
}

// kit is what one exchange needs and the next can use again.
type kit struct {
	in   [readSize]byte
	out  []byte
	resp http1.Response
}

// exchange sends one request and reads its answer. It returns after the last write and the last read.
func (c *conn) exchange(k *kit, o *outgoing, to taker) (res result) {
	c.src.Mark()
	k.out = k.out[:0]
	var err error
	if k.out, err = http1.AppendHead(k.out, o.target, o.method, o.path, o.header, len(o.body)); err != nil {
		return result{err: &wire.Error{Type: "ValueError", Message: err.Error()}, reusable: true}
	}
	k.resp.Begin(o.method)
	head := len(k.out)
	inline := min(len(o.body), max(inlineSend-head, 0))
	k.out = append(k.out, o.body[:inline]...)

	var writing sync.WaitGroup
	var writeErr error
	send := func() {
		n, err := c.src.Write(k.out)
		res.sent, res.writes = int64(max(n-head, 0)), 1
		if rest := o.body[inline:]; err == nil && len(rest) > 0 {
			n, err = c.src.Write(rest)
			res.sent += int64(n)
			res.writes++
		}
		if writeErr = err; err == nil {
			res.lastWrite = c.src.LastWrite()
			if o.sent != nil {
				o.sent(res.lastWrite)
			}
		}
	}
	if inline == len(o.body) {
		send()
	} else {
		writing.Go(send)
	}
	// After a failed write there may still be an answer to read: a server that refuses a request can close before it has read all of it.
	reusable, end, readErr := c.receive(k, to)
	if readErr != nil && to.complete() && errors.Is(readErr, net.ErrClosed) { // by this side: nobody waits for the rest any more
		res.unended, readErr = true, nil
	}
	if readErr != nil || !reusable {
		c.src.Abort() // also ends a write that the server no longer reads
	}
	stuck := time.AfterFunc(pooling.EarlyWait, c.src.Abort)
	writing.Wait()
	stuck.Stop()
	res.stamp = end
	res.reusable = reusable && readErr == nil && writeErr == nil
	res.err, res.lost = k.resp.Failed(readErr, writeErr)
	return res
}

// receive reads an answer. reusable: the connection is good for another request.
func (c *conn) receive(k *kit, to taker) (reusable bool, end wire.Stamp, err error) {
	var rest *time.Timer
	defer func() {
		if rest != nil {
			rest.Stop()
		}
	}()
	for {
		n, broke := c.src.Read(k.in[:])
		if n > 0 {
			end = c.src.Last()
			used, done, err := k.resp.Read(k.in[:n], end, c.src.Drained(), to)
			if done || err != nil {
				return err == nil && used == n && k.resp.KeepAlive(), end, err
			}
			if rest == nil && to.complete() {
				rest = time.AfterFunc(wire.DoneWait, c.src.Abort)
			}
		}
		if broke != nil {
			return false, end, k.resp.End(broke)
		}
	}
}
