package h2

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"prefire/loadgen/wire"
)

// stream is one request on its connection.
//
// Two locks guard it. feed is held by whoever writes to the call: the reader for each piece of the answer, and whoever ends the call.
// Conn.mu guards what reader and writer share. feed is taken before Conn.mu, never after.
type stream struct {
	conn *Conn
	call *wire.Call
	gen  uint32
	end  func(Outcome)

	feed   sync.Mutex
	over   bool  // the call has ended, or its outcome is on its way: nothing more is written to it
	headed bool  // the final head has come
	want   int64 // Content-Length, or -1
	got    int64 // body bytes so far
	why    atomic.Uint32

	rest *time.Timer // of a body that goes on after [DONE]; the reader's, and under feed
	tail wire.Stamp  // of the last piece of the body; under feed

	credit int64 // what the server may still send on the stream; the reader's

	// Under Conn.mu.
	id         uint32 // 0 = not opened
	fields     []hpack.HeaderField
	body       []byte // not written yet
	window     int64
	asked      int64 // when Do was called
	held       bool  // it waited for the server's stream limit in spite of Limit
	writing    bool  // bytes of it are in the batch that is being written
	closing    bool  // END_STREAM has been put into a batch
	firstWrite int64
	began      int64 // right before the latest write
	lastWrite  int64
	sent       int64
	frames     uint64 // Conn.frames right before firstWrite
	done       *result
	timeout    *time.Timer
	after      *time.Timer
}

// result is how a call ends.
type result struct {
	Outcome
	why   wire.Cause
	reset http2.ErrCode // for RST_STREAM where the server may think the stream open; ErrCodeNo = none
}

// take feeds a piece of the body to the call unless that is over.
func (st *stream) take(p []byte, s wire.Stamp, last bool) error {
	st.feed.Lock()
	if st.over {
		st.feed.Unlock()
		return nil
	}
	st.got += int64(len(p))
	err := st.call.Data(p, s, last)
	st.tail = s
	st.release()
	return err
}

// await bounds how long a stream whose answer is complete by its [DONE] is waited for.
func (st *stream) await() {
	st.feed.Lock()
	if !st.over && st.rest == nil && st.call.Facts.SawDone {
		st.rest = time.AfterFunc(wire.DoneWait, func() { st.finish(result{why: wire.ByTimeout}) })
	}
	st.release()
}

// release gives feed back. A cancellation that found it taken is carried out here.
func (st *stream) release() {
	st.feed.Unlock()
	st.settle()
}

// cancel ends the call for why, now or as soon as the piece of the answer that is being read is in.
func (st *stream) cancel(why wire.Cause) {
	st.why.CompareAndSwap(0, uint32(why))
	st.settle()
}

// settle carries out a cancellation. Where feed is taken its holder does so on release, which comes after the cause was stored: no
// cancellation is lost, and none waits for a lock that its own caller may hold (Observer.First may cancel).
func (st *stream) settle() {
	why := wire.Cause(st.why.Load())
	if why == wire.NotCancelled || !st.feed.TryLock() {
		return
	}
	now := st.conn.o.Clock.Now()
	st.finishLocked(result{Outcome: Outcome{Stamp: wire.Stamp{At: now, User: now}}, why: why, reset: http2.ErrCodeCancel})
}

// finish ends the call unless it is over.
func (st *stream) finish(r result) {
	st.feed.Lock()
	st.finishLocked(r)
}

// finishLocked is finish with feed held; it gives feed back.
func (st *stream) finishLocked(r result) {
	if st.over {
		st.feed.Unlock()
		return
	}
	st.over = true
	c, f := st.conn, &st.call.Facts
	c.mu.Lock()
	switch {
	case st.done != nil:
		// The answer was complete and waited only for the writer's own stamp.
		r = *st.done
	case r.why != wire.NotCancelled && f.SawDone:
		// The answer is complete, and only its body goes on.
		r = result{Outcome: Outcome{Stamp: st.tail}, reset: http2.ErrCodeCancel}
		f.Unended = true
	}
	silent := r.why == wire.ByTimeout && st.id != 0 && c.frames.Load() == st.frames
	c.forget(st, r.reset)
	f.FirstWrite, f.LastWrite, f.Sent = st.firstWrite, st.lastWrite, st.sent
	if f.HeadAt >= st.began && f.HeadAt < f.LastWrite {
		// The answer was there before the writer was scheduled again after its write, so the bytes were out by then.
		f.LastWrite = f.HeadAt
	}
	drained := c.down != nil && c.inFlight() == 0
	timeout := st.call.Timeout
	c.mu.Unlock()
	for _, t := range [...]*time.Timer{st.timeout, st.after, st.rest} {
		if t != nil {
			t.Stop()
		}
	}
	if r.why != wire.NotCancelled {
		f.CancelledAt, f.Cause = r.Stamp.At, r.why
		r.Err = wire.Cancelled(r.why, st.call.CancelAfter)
	}
	if r.Verdict == Ended {
		st.call.End(r.Stamp, r.Err)
		r.Err = nil
	}
	st.feed.Unlock()
	if silent {
		// Before the outcome, which may bring the next request to the least busy connection.
		c.retire(silentError(timeout))
	}
	st.end(r.Outcome)
	if drained {
		c.bye(http2.ErrCodeNo, "")
	}
}

// complete ends a call whose answer has come to its end. Where the last bytes of its request are still in the writer's hands, the writer
// ends it, so that the time of the last write is in its facts.
func (st *stream) complete(s wire.Stamp) {
	r := result{Outcome: Outcome{Stamp: s}}
	if st.want >= 0 && st.got != st.want {
		r.Err = answerError(true, "ContentLengthError", fmt.Sprintf("it has %d bytes, and Content-Length says %d", st.got, st.want))
	}
	c := st.conn
	c.mu.Lock()
	if !st.closing {
		// The server answered without waiting for the body; the rest of it is not wanted.
		r.reset = http2.ErrCodeCancel
	}
	if st.closing && st.writing && st.done == nil {
		st.done = &r
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	st.finish(r)
}
