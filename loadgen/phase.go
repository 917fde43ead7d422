package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"prefire/loadgen/wire"
	"prefire/metrics"
)

// phase is one phase while it runs.
type phase struct {
	*run
	Phase
	index   int
	stream  Stream
	start   int64
	issue   context.Context // done when sending has ended
	end     context.CancelFunc
	repeat  context.Context // done when nothing is to be sent again: time is up, the user's stop, too many failures
	last    context.CancelFunc
	cut     atomic.Bool
	thought atomic.Bool // a session thought between its turns
	why     wire.Cause  // valid once cut is set
	gauge   gauge
	ledger  *ledger

	sending, working, watching sync.WaitGroup // what decides on sends; sessions; what ends the phase
	quit                       context.CancelFunc

	// turnstile lets one worker at a time draw a session, so that numbers and sessions pair in order; it has room for one.
	turnstile chan struct{}

	mu       sync.Mutex // guards what follows
	sent     int64
	sessions int64
	closed   bool  // no session may start any more
	owed     int64 // turns of started sessions that are still to be sent
	sendEnd  int64
	sum      PhaseSummary
	err      error
	workers  []*worker
	idle     []*worker // of a pacer, those without a session
	due      []*worker // of a paced phase, those whose next turn waits for an arrival
	paceOver bool
}

// begin starts a phase.
func (r *run) begin(ctx context.Context, index int) *phase {
	r.tell(index, nil)
	ph := &phase{run: r, Phase: r.plan.Phases[index], index: index, turnstile: make(chan struct{}, 1)}
	ph.stream = Stream{Kind: ph.Kind, Phase: index}
	ph.issue, ph.end = context.WithCancel(ctx)
	ph.repeat, ph.last = context.WithCancel(ctx)
	ph.start = r.Clock.Now()
	ph.gauge.begin(ph.start)
	ph.ledger = newLedger(ph.start)
	r.Progress.begin(index, ph.start)
	ph.limit(r.slots, ph.Concurrency, ph.ConcurrencyRamp, forSessionRamp)
	ph.limit(r.prefill, ph.Prefill, ph.PrefillRamp, forPrefillRamp)
	var watch context.Context
	watch, ph.quit = context.WithCancel(ctx)
	ph.watching.Go(func() { ph.watch(watch) })
	switch ph.Arrivals.Mode {
	case Paced:
		ph.sending.Go(ph.pace)
	case Scheduled:
		ph.sending.Go(ph.replay)
	case Users:
		ph.sending.Go(ph.users)
	default:
		for range ph.Concurrency {
			w := ph.newWorker()
			ph.working.Go(w.loop)
		}
	}
	return ph
}

// limit sets a limit, 0 = none, and brings it up along its ramp.
func (ph *phase) limit(l *limiter, limit int, ramp Ramp, p purpose) {
	switch {
	case limit == 0:
		l.resize(unlimited)
	case ramp.Duration <= 0 || limit == 1:
		l.resize(limit)
	default:
		l.resize(1)
		ph.sending.Go(func() {
			for _, m := range ramp.limits(limit, stream(ph.plan.Seed, ph.index, p)) {
				if ph.Clock.Until(ph.issue, ph.start+m.at) != nil {
					return
				}
				l.resize(m.limit)
			}
		})
	}
}

// finish waits until the last request has returned.
func (ph *phase) finish() (PhaseSummary, error) {
	defer ph.end()
	defer ph.last()
	if ph.Arrivals.Mode != Closed {
		ph.sending.Wait()
	}
	ph.working.Wait()
	end := ph.Clock.Now()
	ph.quit()
	ph.watching.Wait()
	ph.mu.Lock()
	ph.stopSending(end)
	ph.mu.Unlock()
	ph.sending.Wait()
	s := ph.sum
	s.Phase, s.Index = ph.Phase, ph.index
	s.Start, s.SendEnd, s.End = ph.start, ph.sendEnd, end
	s.Sent, s.Sessions, s.InFlight = ph.sent, ph.sessions, ph.gauge.result()
	s.Load = ph.ledger.report()
	s.Thought = ph.thought.Load()
	return s, ph.err
}

// overtime is how long past its time a pacer that is behind may send what was due before. A machine that stands still for longer is named.
const overtime = 100 * time.Millisecond

// timeUp is when the phase's duration is over; what is due then or later is not sent.
func (ph *phase) timeUp() int64 {
	if ph.Duration == 0 {
		return math.MaxInt64
	}
	return ph.start + int64(ph.Duration)
}

// lastSend is from when on nothing is sent at all.
func (ph *phase) lastSend() int64 {
	if ph.Duration == 0 || ph.Arrivals.Mode != Paced {
		return ph.timeUp()
	}
	return ph.timeUp() + int64(overtime)
}

// watch ends the sending and cuts what is in flight when the plan or the user says so.
func (ph *phase) watch(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if ph.Duration > 0 {
		wg.Go(func() {
			deadline := ph.timeUp()
			if ph.Clock.Until(ctx, ph.lastSend()) != nil {
				return
			}
			ph.endSending()
			if ph.Grace >= 0 && ph.Clock.Until(ctx, deadline+int64(ph.Grace)) == nil {
				ph.cutAll(wire.ByGrace)
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-ph.Stop:
		ph.endSending()
		grace := ph.Grace
		if grace < 0 || ph.Duration == 0 {
			grace = UserGrace
		}
		if ph.Clock.Until(ctx, ph.Clock.Now()+int64(grace)) == nil {
			ph.cutAll(wire.ByUser)
		}
	case <-ph.failed.enough:
		ph.endSending()
		if ph.Clock.Until(ctx, ph.Clock.Now()+int64(failedGrace)) == nil {
			ph.cutAll(wire.ByGrace)
		}
	}
	// ctx ends when the workers are done, and then there is nothing to cut, or when the run's own context is cancelled.
	if ctx.Err() != nil {
		ph.cutAll(wire.ByUser)
	}
}

func (ph *phase) endSending() {
	ph.last()
	ph.mu.Lock()
	defer ph.mu.Unlock()
	ph.stopSending(ph.Clock.Now())
}

// stopSending marks the end of sending; mu is held.
func (ph *phase) stopSending(at int64) {
	if ph.sendEnd != 0 {
		return
	}
	ph.sendEnd = at
	ph.gauge.stop(at)
	ph.progress(func(p *Progress) { p.Draining.Store(true) })
	ph.end()
}

// progress keeps the live view up to date while it shows this phase.
func (ph *phase) progress(f func(p *Progress)) {
	if int(ph.Progress.Phase.Load()) == ph.index {
		f(ph.Progress)
	}
}

// cutAll cancels every request in flight. A worker that starts one at this moment sees cut and cancels it itself.
func (ph *phase) cutAll(why wire.Cause) {
	ph.last()
	ph.mu.Lock()
	if !ph.cut.Load() {
		ph.why = why
		ph.cut.Store(true)
	}
	workers := ph.workers
	ph.mu.Unlock()
	for _, w := range workers {
		ph.Transport.Cancel(&w.call, w.gen.Load(), ph.why)
	}
}

// permit is what a worker needs to send a turn.
type permit struct {
	seq    int64
	target int
	at     int64 // when the plan wanted it sent
	taken  int64 // when its places and number were its own
	// late: its place among those without a first token is still to be had; then the worker takes it, and its number, itself.
	late    bool
	refused bool
}

// broken reports whether the source failed.
func (ph *phase) broken() bool {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	return ph.err != nil
}

// draw takes the next session from the source. It reports false where the phase starts no more.
func (ph *phase) draw() (*Session, bool) {
	if !ph.mayOpen() {
		return nil, false
	}
	sess, err := ph.Source.Next(ph.issue, ph.stream)
	if err == nil {
		return sess, true
	}
	ph.mu.Lock()
	defer ph.mu.Unlock()
	now := ph.Clock.Now()
	switch {
	case errors.Is(err, io.EOF):
		ph.closed = true
		ph.settle(now, 0)
	case ph.issue.Err() == nil:
		ph.err = fmt.Errorf("phase %q: request %d: %w", ph.Name, ph.sent, err)
		ph.stopSending(now)
	}
	return nil, false
}

// open starts a session that was drawn, with so many of its turns to be sent, and takes the number of its first request.
func (ph *phase) open(turns int) (p permit, ok bool) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if _, ok := ph.maySend(); !ok { // the end came while the session was made
		return permit{}, false
	}
	ph.sessions++
	ph.owed += int64(turns) - 1
	if ph.Sessions > 0 && ph.sessions >= ph.Sessions && ph.Arrivals.Mode != Closed {
		ph.closed = true
	}
	p.target = int((ph.run.next.Add(1) - 1) % int64(len(ph.plan.Targets)))
	p.seq, p.taken = ph.take()
	if ph.Arrivals.Mode != Closed {
		ph.settle(p.taken, 0)
	}
	return p, true
}

// mayOpen checks the stops for a new session.
func (ph *phase) mayOpen() bool {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	at, ok := ph.maySend()
	if ok && (ph.closed || ph.Sessions > 0 && ph.sessions >= ph.Sessions) {
		ph.closed = true
		ph.settle(at, 0)
		return false
	}
	return ok
}

// settle books that so many owed turns were sent or given up; mu is held. Started sessions may send all their turns: only when no session
// may start and nothing is owed has sending ended.
func (ph *phase) settle(at, turns int64) {
	ph.owed -= turns
	if (ph.closed || ph.Sessions > 0 && ph.sessions >= ph.Sessions) && ph.owed == 0 {
		ph.stopSending(at)
	}
}

// giveUp books the turns that a session does not send.
func (ph *phase) giveUp(turns int) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	ph.settle(ph.Clock.Now(), int64(turns))
}

// another takes the number of a session's next turn.
func (ph *phase) another() (p permit, ok bool) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if _, ok = ph.maySend(); !ok {
		return permit{refused: true}, false
	}
	p.seq, p.taken = ph.take()
	ph.settle(p.taken, 1)
	return p, true
}

// take takes the next number; mu is held. A schedule ends with its last request; a closed loop finds its end when the next slot is free.
func (ph *phase) take() (seq, at int64) {
	seq, at = ph.sent, ph.Clock.Now()
	ph.sent++
	ph.progress(func(p *Progress) { p.Sent.Store(ph.sent) })
	if ph.Arrivals.Mode != Closed && ph.Requests > 0 && ph.sent >= ph.Requests {
		ph.stopSending(at)
	}
	return seq, at
}

// maySend checks the stops, in aiperf's order; mu is held.
func (ph *phase) maySend() (at int64, ok bool) {
	at = ph.Clock.Now()
	if ph.sendEnd != 0 || ph.issue.Err() != nil {
		return at, false
	}
	if ph.Requests > 0 && ph.sent >= ph.Requests || at >= ph.lastSend() {
		ph.stopSending(at)
		return at, false
	}
	return at, true
}

// count books a returned request.
func (ph *phase) count(r *metrics.Record) {
	failed := false
	ph.mu.Lock()
	switch {
	case r.Censored:
		ph.sum.Censored++
	case r.Cancelled:
		ph.sum.Cancelled++
		failed = true
	case r.Err != nil:
		ph.sum.Failed++
		failed = true
	default:
		ph.sum.OK++
	}
	sendEnd := ph.sendEnd
	ph.mu.Unlock()
	ph.progress(func(p *Progress) {
		if r.Err != nil && !r.Censored && !r.Cancelled {
			p.Failed.Add(1)
		}
		p.Returned.Add(1)
	})
	ph.ledger.returned(r, sendEnd)
	if ph.Kind == metrics.Profiling && ph.FailedShare != nil && !r.Censored && ph.failed.book(ph, failed) {
		ph.endSending()
	}
}
