package loadgen

import (
	"sync/atomic"
	"time"

	"prefire/loadgen/wire"
	"prefire/metrics"
)

// worker runs one session at a time. Its call is the transport's between Start and Done.
type worker struct {
	ph       *phase
	index    int
	call     wire.Call
	gen      atomic.Uint32
	done     chan struct{}
	sessions chan assignment // of a pacer
	permits  chan permit     // each has room for one
	holds    bool            // a connection waits for its session's next turn
	prefills bool            // its request holds a place among those without a first token
	target   int             // of its session
	ended    int64           // end of its session's turn before
	body     []byte
	spare    []byte // the body before it was amended
	raw      bool   // the body is the user's own
	bodyErr  error
	header   []wire.Field
	out      []byte
	reason   []byte
	input    []byte
	asked    asked
}

// asked is what is known of a request before it is sent. A record is several times as long, and thousands of requests wait for their
// answers: theirs are made when they have ended.
type asked struct {
	session, scheduled  int64
	turn                int32
	conversation        string
	request, correlated string // ids
	in, limit           metrics.Count
	uncounted           []byte // the text whose tokens the sink is to count
	permit              permit
}

// assignment is a session that a pacer gives to a worker, with how much of it is to be sent.
type assignment struct {
	sess  *Session
	turns int
	id    string // correlation id; "" = a new one
}

func (ph *phase) newWorker() *worker {
	w := &worker{ph: ph, done: make(chan struct{}, 1), sessions: make(chan assignment, 1), permits: make(chan permit, 1)}
	w.call.Parser, w.call.Obs = ph.Endpoint.Parser(), w
	w.call.Timeout = ph.plan.Timeout
	ph.mu.Lock()
	defer ph.mu.Unlock()
	w.index = len(ph.workers)
	ph.workers = append(ph.workers, w)
	return w
}

// First is called on the transport's thread.
func (w *worker) First(*wire.Call) {
	if w.prefills {
		w.prefills = false
		w.ph.run.prefill.release()
	}
}

// Done is called on the transport's thread; the channel has room for the one message.
func (w *worker) Done(*wire.Call) { w.done <- struct{}{} }

// loop keeps one slot of a closed loop filled.
func (w *worker) loop() {
	ph := w.ph
	for ph.slots.acquire(ph.issue) == nil {
		ok := w.openNext()
		ph.slots.release()
		if !ok {
			return
		}
	}
}

// openNext runs the next session of a closed loop. It reports false where the phase starts no more.
func (w *worker) openNext() bool {
	ph := w.ph
	if ph.run.prefill.acquire(ph.issue) != nil {
		return false
	}
	a, p, ok := ph.nextInLine()
	if !ok {
		ph.run.prefill.release()
		return false
	}
	p.at = p.taken
	w.permits <- p
	w.session(a)
	return true
}

// nextInLine draws the next session and opens it.
func (ph *phase) nextInLine() (a assignment, p permit, ok bool) {
	select {
	case ph.turnstile <- struct{}{}:
	case <-ph.issue.Done():
		return a, p, false
	}
	defer func() { <-ph.turnstile }()
	if a.sess, ok = ph.draw(); !ok {
		return a, p, false
	}
	a.turns = len(a.sess.Turns)
	p, ok = ph.open(a.turns)
	return a, p, ok
}

// serve runs the sessions that a pacer gives.
func (w *worker) serve() {
	for a := range w.sessions {
		if w.session(a) {
			w.ph.slots.release()
		}
		w.ph.mu.Lock()
		w.ph.idle = append(w.ph.idle, w)
		w.ph.mu.Unlock()
	}
}

// session runs one session's turns one after another, on the connection of its first turn where that still stands. It reports false where
// not even the first was sent. The first permit brings a place among those without a first token.
func (w *worker) session(a assignment) bool {
	ph, sess := w.ph, a.sess
	id := a.id
	if id == "" {
		id = ph.NewID()
	}
	var history []Message
	w.call.Conn = 0
	w.call.Lease = [...]wire.Lease{Pooled: wire.Pooled, Sticky: wire.Held, Never: wire.Single}[ph.plan.Reuse]
	at := int64(0) // intended time of the turn before
	for i := range a.turns {
		turn := &sess.Turns[i]
		w.prepare(sess, i, id, history)
		var p permit
		if i == 0 {
			p = <-w.permits
			w.target = p.target
		} else {
			p = w.await(turn, at)
		}
		if p.refused {
			if i > 0 {
				ph.giveUp(a.turns - i)
				w.letGo()
			}
			return i > 0
		}
		at = p.at
		w.issue(sess, turn, p, i+1 < a.turns && !sess.Complete)
		if i+1 == a.turns {
			if w.call.Lease == wire.Held {
				w.call.Lease = wire.Final
			}
			a.sess, sess, turn = nil, nil, nil // thousands of prompts would else lie here until their answers end
		}
		output, ok := w.exchange()
		if sess == nil {
			break
		}
		if !sess.Complete {
			history = append(history, turn.Messages...)
			if ok {
				history = append(history, Message{Role: "assistant", Content: string(output)})
			}
		}
		w.call.Conn = w.call.Facts.Conn.ID
	}
	return true
}

// letGo gives up the connection that is held for a session without another turn.
func (w *worker) letGo() {
	if w.holds {
		w.holds = false
		w.ph.Transport.Release(w.call.Target, w.call.Conn)
		w.ph.ahead.down(w.target)
	}
}

// await waits until a session's next turn may be sent; before is the intended time of the turn before it.
func (w *worker) await(turn *Turn, before int64) permit {
	ph := w.ph
	end := w.ended
	delay := ph.delay(turn)
	if delay > 0 {
		ph.thought.Store(true)
	}
	at := end + int64(delay)
	switch {
	case ph.Arrivals.Mode == Scheduled && turn.Timed:
		at = max(end, ph.start+int64(turn.At)) // a server that is slow makes nobody late here
	case ph.Arrivals.Mode == Users:
		at = max(end, before+ph.userGap())
	}
	// A turn that the answer before it made due was not waited for, and no one was behind.
	ahead := at <= end || ph.Clock.Now() < at
	if ph.Clock.Until(ph.issue, at) != nil {
		return permit{refused: true}
	}
	if ph.Arrivals.Mode == Paced {
		if !ph.join(w) {
			return permit{refused: true}
		}
		p := <-w.permits
		if !p.late {
			return p
		}
		at = p.at
	}
	p := w.take(at)
	if !p.refused && (ph.Arrivals.Mode == Scheduled || ph.Arrivals.Mode == Users) {
		ph.ledger.arrival(at, ahead)
	}
	return p
}

// take gets a worker the place and the number of a turn that is due since at.
func (w *worker) take(at int64) permit {
	ph := w.ph
	if ph.run.prefill.acquire(ph.issue) != nil {
		return permit{refused: true}
	}
	p, ok := ph.another()
	if !ok {
		ph.run.prefill.release()
		return p
	}
	p.at = at
	if ph.Arrivals.Mode == Closed {
		p.at = p.taken
	}
	return p
}

// delay is the think time before a turn.
func (ph *phase) delay(t *Turn) time.Duration {
	if c := ph.plan.DelayCap; c > 0 {
		return min(t.Delay, c)
	}
	return t.Delay
}

// prepare makes the request of a session's turn, all but its number.
func (w *worker) prepare(sess *Session, i int, id string, history []Message) {
	ph, turn, q := w.ph, &sess.Turns[i], &w.asked
	*q = asked{session: sess.Index, turn: int32(i), conversation: sess.ID, request: ph.NewID(), correlated: id}
	w.countInput(turn, history)
	if turn.MaxTokens > 0 {
		q.limit = metrics.Known(int64(turn.MaxTokens) * int64(ph.Endpoint.Answers(turn)))
	}
	w.header = ph.Header(w.header[:0], q.request, q.correlated)
	w.raw = turn.Raw != nil
	body, err := ph.Endpoint.AppendBody(w.body[:0], turn, history)
	if w.bodyErr = err; err == nil {
		w.body = body
	}
}

// countInput takes the source's count, or keeps the request's text for the sink to count, history included.
func (w *worker) countInput(turn *Turn, history []Message) {
	if len(history) == 0 && turn.Input.Known {
		w.asked.in = turn.Input
		return
	}
	w.input = w.input[:0]
	for _, messages := range [][]Message{history, turn.Messages} {
		for i := range messages {
			w.input = append(append(w.input, ' '), messages[i].Content...)
		}
	}
	if len(w.input) > 0 {
		w.asked.uncounted = w.input[1:]
	}
}

// issue gives the prepared turn its number and all that its call needs. more says that the answer goes into another turn.
func (w *worker) issue(sess *Session, turn *Turn, p permit, more bool) {
	ph, c := w.ph, &w.call
	w.asked.permit = p
	if turn.Timed && ph.Arrivals.Mode == Scheduled {
		w.asked.scheduled = ph.start + int64(turn.At)
	}
	if w.bodyErr != nil {
		return
	}
	c.Target, c.Body, c.Header, c.MaxChunks = ph.plan.Targets[w.target].Wire, w.body, w.header, turn.MaxTokens
	c.Keep, c.CancelAfter, c.Watch = ph.plan.Keep, 0, ph.plan.Watch
	if more {
		c.Keep = max(c.Keep, wire.KeepText)
	}
	if ph.Cancel.cancels(ph.plan.Seed, ph.index, p.seq) {
		c.CancelAfter = max(ph.Cancel.Delay, 1) // 0 would be never
	}
	ph.Sink.Issued(ph.stream, p.seq, sess, w.body)
}

// exchange sends what was issued, waits for its end and hands over its record. It gives the text of the answer, and whether there was one.
func (w *worker) exchange() (output []byte, ok bool) {
	ph, c := w.ph, &w.call
	if w.bodyErr != nil {
		ph.run.prefill.release()
		f := w.record()
		r := &f.Record
		r.Err = &metrics.Error{Type: "ValueError", Message: w.bodyErr.Error()}
		r.Start, r.End = r.Issued, ph.Clock.Now()
		return w.hand(f)
	}
	unproven := !ph.warm[w.target].Load()
	w.prefills = true
	ph.Progress.InFlight.Add(1)
	w.send()
	ready, began, cold, attempts := c.Facts.Ready, start(&c.Facts), c.Facts.Cold, attempted(&c.Facts)
	for sent := 1; w.again(sent, &cold); sent++ {
		w.send()
		cold |= c.Facts.Cold
		attempts += attempted(&c.Facts)
	}
	if w.prefills {
		ph.run.prefill.release()
	}
	ph.Progress.InFlight.Add(-1)
	f := w.record()
	r := &f.Record
	fill(r, c)
	if attempts > 1 {
		r.Attempts = attempts
	}
	if c.Facts.Ready != ready { // its clock runs since it was sent first
		r.Ready, r.Start, r.Cold, r.Waited = ready, began, metrics.Cold(cold), c.Facts.Ready-ready
	}
	if unproven {
		r.Cold |= metrics.ColdFirstInference
	}
	if r.Err == nil {
		ph.warm[w.target].Store(true)
	}
	if ph.plan.Watch {
		r.Exchange = exchange(c)
		f.Body, f.Raw = c.Body, c.Raw
	}
	if len(c.Spec) > 0 {
		r.Spec = ph.Endpoint.SpecDecode(c.Spec)
	}
	if len(c.Usage) > 0 {
		if u, ok := ph.Endpoint.Usage(c.Usage); ok {
			r.Usage = u
		}
	}
	if ph.plan.FirstUsage && len(c.FirstUsage) > 0 {
		if u, ok := ph.Endpoint.Usage(c.FirstUsage); ok {
			r.FirstTokens = u.Completion
		}
	}
	f.Output, f.Reason = texts(c, w.out, w.reason)
	if f.Reason != nil {
		w.out, w.reason = f.Output, f.Reason
	}
	return w.hand(f)
}

// record begins the record of what was asked.
func (w *worker) record() *Finished {
	ph, q := w.ph, &w.asked
	f, _ := ph.records.Get().(*Finished)
	if f == nil {
		f = new(Finished)
	}
	p, r := &q.permit, &f.Record
	r.Seq, r.Intended, r.Issued, r.Scheduled = p.seq, p.at, p.taken, q.scheduled
	r.Session, r.Turn, r.Phase, r.Kind, r.Worker = q.session, q.turn, int32(ph.index), ph.Kind, int32(w.index)
	r.ConversationID, r.RequestID, r.CorrelationID = q.conversation, q.request, q.correlated
	r.Streaming, r.In, r.RequestedOSL = ph.Endpoint.Streaming(), q.in, q.limit
	f.Input = q.uncounted
	return f
}

// send gives the call to the transport and waits for its end.
func (w *worker) send() {
	ph, c := w.ph, &w.call
	began := ph.Clock.Now()
	ph.gauge.add(began, 1)
	if !w.holds {
		ph.ahead.up(w.target)
	}
	w.gen.Store(ph.Transport.Start(c))
	if ph.cut.Load() {
		ph.Transport.Cancel(c, w.gen.Load(), ph.why)
	}
	<-w.done
	if w.holds = c.Lease == wire.Held && c.Facts.Err == nil; !w.holds {
		ph.ahead.down(w.target)
	}
	ended := ph.Clock.Now()
	ph.gauge.add(ended, -1)
	if f := &c.Facts; f.FirstWrite == 0 {
		ph.gauge.wait(began, ended)
	} else {
		ph.gauge.wait(began, f.FirstWrite)
		ph.gauge.wait(f.Over, ended)
	}
}

// hand hands a request over that has ended.
func (w *worker) hand(f *Finished) (output []byte, ok bool) {
	w.ended = f.Record.End
	output, ok = f.Output, f.Record.Err == nil
	w.ph.count(&f.Record)
	w.ph.Sink.Finished(f)
	*f = Finished{}
	w.ph.records.Put(f)
	return output, ok
}
