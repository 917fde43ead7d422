package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"prefire/loadgen/wire"
	"prefire/metrics"
)

// Deps are the ports a run works through.
type Deps struct {
	Clock     wire.Clock
	Transport wire.Transport
	Source    Source
	Endpoint  Endpoint
	Sink      Sink
	// NewID returns a new unique id, for requests and for sessions.
	NewID func() string
	// Header appends the fields that name one request.
	Header func(dst []wire.Field, requestID, correlationID string) []wire.Field
	// Progress is kept up to date for a live view.
	Progress *Progress
	// Stop is closed when the user asks the run to end: sending stops, what is in flight may finish within the grace.
	Stop <-chan struct{}
	// OnPhase, where it is not nil, is told right before a phase begins and after its last request has returned.
	OnPhase func(phase int, over bool)
}

// Summary is what the engine itself knows of a run.
type Summary struct {
	Prewarm PrewarmReport
	Phases  []PhaseSummary // of those that started
	Stopped bool           // the user ended the run
}

// PhaseSummary is what became of one phase. Sent = OK + Failed + Cancelled + Censored.
type PhaseSummary struct {
	Phase   Phase
	Index   int
	Start   int64 // right before its first request
	SendEnd int64 // when it stopped sending
	End     int64 // when its last request had returned
	Sent    int64
	OK      int64
	Failed  int64
	// Cancelled by plan; Censored: cut by the end of the grace or by the user.
	Cancelled, Censored int64
	Sessions            int64 // started
	Stopped             bool  // the user ended it
	InFlight            InFlight
}

// Run makes the plan's targets warm, runs its phases one after another, and returns when every request it sent has been handed to the sink.
// Cancelling ctx cuts what is in flight at once. An error means that the plan could not be run (a *PrewarmError before any load), or that
// the source failed in the middle; the summary holds what happened until then.
func Run(ctx context.Context, p *Plan, d Deps) (*Summary, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if d.Progress == nil {
		d.Progress = new(Progress)
	}
	d.Progress.Phase.Store(-1)
	sum := new(Summary)
	r := &run{plan: p, Deps: d, warm: make([]atomic.Bool, len(p.Targets))}
	if p.Prewarm.On {
		err := r.prewarm(ctx, &sum.Prewarm)
		if sum.Stopped = stopped(d.Stop); err != nil || sum.Stopped {
			return sum, err
		}
	}
	tell := d.OnPhase
	if tell == nil {
		tell = func(int, bool) {}
	}
	for i := range p.Phases {
		tell(i, false)
		ps, err := r.phase(ctx, i)
		tell(i, true)
		sum.Stopped = stopped(d.Stop) || ctx.Err() != nil
		ps.Stopped = sum.Stopped
		sum.Phases = append(sum.Phases, ps)
		if err != nil || sum.Stopped {
			return sum, err
		}
	}
	return sum, nil
}

func stopped(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

type run struct {
	Deps
	plan *Plan
	warm []atomic.Bool // by target: an inference has succeeded on it
	next int           // target of the next session
}

// phase is one phase while it runs.
type phase struct {
	*run
	Phase
	index  int
	stream Stream
	start  int64
	issue  context.Context // done when sending has ended
	end    context.CancelFunc
	cut    atomic.Bool
	why    wire.Cause // valid once cut is set
	gauge  gauge

	// turnstile lets one worker at a time draw a session, so that numbers and sessions pair in order; it has room for one.
	turnstile chan struct{}

	mu       sync.Mutex // guards what follows
	sent     int64
	sessions int64
	owed     int64 // turns of started sessions that are still to be sent
	sendEnd  int64
	sum      PhaseSummary
	err      error
}

func (r *run) phase(ctx context.Context, index int) (PhaseSummary, error) {
	ph := &phase{run: r, Phase: r.plan.Phases[index], index: index, turnstile: make(chan struct{}, 1)}
	ph.stream = Stream{Kind: ph.Kind, Phase: index}
	ph.issue, ph.end = context.WithCancel(ctx)
	defer ph.end()
	ph.start = r.Clock.Now()
	ph.gauge.begin(ph.start)
	r.Progress.begin(index, ph.start)
	workers := make([]*worker, ph.Concurrency)
	for i := range workers {
		workers[i] = newWorker(ph, i)
	}
	watch, quit := context.WithCancel(ctx)
	var watching, working sync.WaitGroup
	watching.Go(func() { ph.watch(watch, workers) })
	for _, w := range workers {
		working.Go(w.run)
	}
	working.Wait()
	end := r.Clock.Now()
	quit()
	watching.Wait()
	ph.mu.Lock()
	defer ph.mu.Unlock()
	ph.stopSending(end)
	s := ph.sum
	s.Phase, s.Index = ph.Phase, index
	s.Start, s.SendEnd, s.End = ph.start, ph.sendEnd, end
	s.Sent, s.Sessions, s.InFlight = ph.sent, ph.sessions, ph.gauge.result()
	return s, ph.err
}

// watch ends the sending and cuts what is in flight when the plan or the user says so.
func (ph *phase) watch(ctx context.Context, workers []*worker) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if ph.Duration > 0 {
		wg.Go(func() {
			deadline := ph.start + int64(ph.Duration)
			if ph.Clock.Until(ctx, deadline) != nil {
				return
			}
			ph.endSending()
			if ph.Grace >= 0 && ph.Clock.Until(ctx, deadline+int64(ph.Grace)) == nil {
				ph.cutAll(workers, wire.ByGrace)
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
			ph.cutAll(workers, wire.ByUser)
		}
	}
	// ctx ends when the workers are done, and then there is nothing to cut, or when the run's own context is cancelled.
	if ctx.Err() != nil {
		ph.cutAll(workers, wire.ByUser)
	}
}

func (ph *phase) endSending() {
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
	ph.Progress.Draining.Store(true)
	ph.end()
}

// cutAll cancels every request in flight. A worker that starts one at this moment sees cut and cancels it itself.
func (ph *phase) cutAll(workers []*worker, why wire.Cause) {
	ph.mu.Lock()
	if !ph.cut.Load() {
		ph.why = why
		ph.cut.Store(true)
	}
	ph.mu.Unlock()
	for _, w := range workers {
		ph.Transport.Cancel(&w.call, w.gen.Load(), ph.why)
	}
}

// open takes the next session and the number of its first request. It reports false where the phase sends no more.
func (ph *phase) open() (sess *Session, target int, seq int64, at int64, ok bool) {
	select {
	case ph.turnstile <- struct{}{}:
	case <-ph.issue.Done():
		return nil, 0, 0, 0, false
	}
	defer func() { <-ph.turnstile }()
	if !ph.mayOpen() {
		return nil, 0, 0, 0, false
	}
	sess, err := ph.Source.Next(ph.issue, ph.stream)
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if err != nil {
		if !errors.Is(err, io.EOF) && ph.issue.Err() == nil {
			ph.err = fmt.Errorf("phase %q: request %d: %w", ph.Name, ph.sent, err)
		}
		ph.stopSending(ph.Clock.Now())
		return nil, 0, 0, 0, false
	}
	if _, ok := ph.maySend(); !ok { // the end came while the session was made
		return nil, 0, 0, 0, false
	}
	target = ph.next % len(ph.plan.Targets)
	ph.next++
	ph.sessions++
	ph.owed += int64(len(sess.Turns)) - 1
	seq, at = ph.take()
	return sess, target, seq, at, true
}

// mayOpen checks the stops for a new session.
func (ph *phase) mayOpen() bool {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	at, ok := ph.maySend()
	if ok && ph.Sessions > 0 && ph.sessions >= ph.Sessions {
		ph.settle(at, 0)
		return false
	}
	return ok
}

// settle books that so many owed turns were sent or given up; mu is held. Started sessions may send all their turns: only when no session
// may start and nothing is owed has sending ended.
func (ph *phase) settle(at, turns int64) {
	ph.owed -= turns
	if ph.Sessions > 0 && ph.sessions >= ph.Sessions && ph.owed == 0 {
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
func (ph *phase) another() (seq, at int64, ok bool) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if _, ok = ph.maySend(); !ok {
		return 0, 0, false
	}
	seq, at = ph.take()
	ph.settle(at, 1)
	return seq, at, true
}

func (ph *phase) take() (seq, at int64) {
	seq = ph.sent
	ph.sent++
	ph.Progress.Sent.Store(ph.sent)
	return seq, ph.Clock.Now()
}

// maySend checks the stops, in aiperf's order; mu is held.
func (ph *phase) maySend() (at int64, ok bool) {
	at = ph.Clock.Now()
	if ph.sendEnd != 0 || ph.issue.Err() != nil {
		return at, false
	}
	if ph.Requests > 0 && ph.sent >= ph.Requests || ph.Duration > 0 && at >= ph.start+int64(ph.Duration) {
		ph.stopSending(at)
		return at, false
	}
	return at, true
}

// count books a returned request.
func (ph *phase) count(r *metrics.Record) {
	ph.mu.Lock()
	switch {
	case r.Censored:
		ph.sum.Censored++
	case r.Cancelled:
		ph.sum.Cancelled++
	case r.Err != nil:
		ph.sum.Failed++
		ph.Progress.Failed.Add(1)
	default:
		ph.sum.OK++
	}
	ph.mu.Unlock()
	ph.Progress.Returned.Add(1)
}

// worker keeps one session in flight. Its call is the transport's between Start and Done.
type worker struct {
	ph          *phase
	index       int
	call        wire.Call
	gen         atomic.Uint32
	done        chan struct{}
	body        []byte
	header      []wire.Field
	out, reason []byte
	input       []byte
	finished    Finished
}

func newWorker(ph *phase, index int) *worker {
	w := &worker{ph: ph, index: index, done: make(chan struct{}, 1)}
	w.call.Parser, w.call.Obs = ph.Endpoint.Parser(), w
	w.call.Timeout, w.call.Keep = ph.plan.Timeout, ph.plan.Keep
	return w
}

// First is called on the transport's thread.
func (w *worker) First(*wire.Call) {}

// Done is called on the transport's thread; the channel has room for the one message.
func (w *worker) Done(*wire.Call) { w.done <- struct{}{} }

func (w *worker) run() {
	for {
		sess, target, seq, at, ok := w.ph.open()
		if !ok {
			return
		}
		w.session(sess, target, seq, at)
	}
}

// session runs one session's turns one after another, on the connection of its first turn where that still stands.
func (w *worker) session(sess *Session, target int, seq, at int64) {
	ph := w.ph
	id := ph.NewID()
	var history []Message
	w.call.Conn = 0
	for i := range sess.Turns {
		turn := &sess.Turns[i]
		if i > 0 {
			ok := turn.Delay == 0 || ph.Clock.Until(ph.issue, ph.Clock.Now()+int64(turn.Delay)) == nil
			if ok {
				seq, at, ok = ph.another()
			}
			if !ok {
				ph.giveUp(len(sess.Turns) - i)
				return
			}
		}
		r := &w.finished.Record
		*r = metrics.Record{
			Seq: seq, Session: sess.Index, Turn: int32(i), Phase: int32(ph.index), Kind: ph.Kind, Worker: int32(w.index),
			ConversationID: sess.ID, RequestID: ph.NewID(), CorrelationID: id,
			Intended: at, Issued: at,
			Streaming: ph.Endpoint.Streaming(),
		}
		w.countInput(turn, history)
		if turn.MaxTokens > 0 {
			r.RequestedOSL = metrics.Known(int64(turn.MaxTokens))
		}
		w.request(sess, turn, target, history)
		if i+1 < len(sess.Turns) {
			if !sess.Complete {
				history = append(history, turn.Messages...)
				if r.Err == nil {
					history = append(history, Message{Role: "assistant", Content: string(w.finished.Output)})
				}
			}
			w.call.Conn = w.call.Facts.Conn.ID
		}
	}
}

// countInput takes the source's count, or keeps the request's text for the sink to count, history included.
func (w *worker) countInput(turn *Turn, history []Message) {
	w.finished.Input = nil
	if len(history) == 0 && turn.Input.Known {
		w.finished.Record.In = turn.Input
		return
	}
	w.input = w.input[:0]
	for _, messages := range [][]Message{history, turn.Messages} {
		for i := range messages {
			w.input = append(append(w.input, ' '), messages[i].Content...)
		}
	}
	if len(w.input) > 0 {
		w.finished.Input = w.input[1:]
	}
}

// request sends one turn, waits for its end and hands over its record.
func (w *worker) request(sess *Session, turn *Turn, target int, history []Message) {
	ph, c, r := w.ph, &w.call, &w.finished.Record
	body, err := ph.Endpoint.AppendBody(w.body[:0], turn, history)
	if err != nil {
		r.Err = &metrics.Error{Type: "ValueError", Message: err.Error()}
		r.Start, r.End = r.Issued, ph.Clock.Now()
		w.hand(nil, nil)
		return
	}
	w.body = body
	w.header = ph.Header(w.header[:0], r.RequestID, r.CorrelationID)
	c.Target, c.Body, c.Header, c.MaxChunks = ph.plan.Targets[target].Wire, body, w.header, turn.MaxTokens
	ph.Sink.Issued(ph.stream, r.Seq, sess, body)
	unproven := !ph.warm[target].Load()
	began := ph.Clock.Now()
	ph.gauge.add(began, 1)
	ph.Progress.InFlight.Add(1)
	w.gen.Store(ph.Transport.Start(c))
	if ph.cut.Load() {
		ph.Transport.Cancel(c, w.gen.Load(), ph.why)
	}
	<-w.done
	ph.Progress.InFlight.Add(-1)
	ended := ph.Clock.Now()
	ph.gauge.add(ended, -1)
	if f := &c.Facts; f.FirstWrite == 0 {
		ph.gauge.wait(began, ended)
	} else {
		ph.gauge.wait(began, f.FirstWrite)
		ph.gauge.wait(f.EndAt, ended)
	}
	fill(r, c)
	if unproven {
		r.Cold |= metrics.ColdFirstInference
	}
	if r.Err == nil {
		ph.warm[target].Store(true)
	}
	if len(c.Usage) > 0 {
		if u, ok := ph.Endpoint.Usage(c.Usage); ok {
			r.Usage = u
		}
	}
	out, reason := texts(c, w.out, w.reason)
	if reason != nil {
		w.out, w.reason = out, reason
	}
	w.hand(out, reason)
}

func (w *worker) hand(out, reason []byte) {
	w.finished.Output, w.finished.Reason = out, reason
	w.ph.count(&w.finished.Record)
	w.ph.Sink.Finished(&w.finished)
}
