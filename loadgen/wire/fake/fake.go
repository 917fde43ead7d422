// Package fake is a transport without a network: each call gets a scripted answer, at times that are exact in a synctest bubble.
package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"prefire/loadgen/wire"
)

// Part is some bytes of an answer that arrive together.
type Part struct {
	After time.Duration // since the part before; of the first part, since the first write
	Data  []byte
}

// Text makes a part of an event stream: one event for each of data.
func Text(after time.Duration, data ...string) Part {
	p := Part{After: after}
	for _, d := range data {
		p.Data = append(append(append(p.Data, "data: "...), d...), "\n\n"...)
	}
	return p
}

// Answer is what happens to one call. The zero value is an empty answer of status 200 that ends at once.
type Answer struct {
	Dial        time.Duration // above 0: no ready connection is used, it dials for so long and is cold
	Queue       time.Duration // waits so long for a stream before the first write
	Cold        wire.Cold     // beside Dialled
	Send        time.Duration // between first and last write
	Status      int           // 0 = 200
	ContentType string        // "" = text/event-stream
	Head        time.Duration // from the first write to the head, where it comes before the first part; 0 = with the first part
	Parts       []Part
	End         time.Duration // from the last part (or the first write) to the end of the body
	Late        time.Duration // how long the end of the body waits to be read
	Err         *wire.Error   // the end is this error; with Status < 0 it comes before a head
	Hang        bool          // there is no end
}

// NoHead as an Answer's Status: the answer fails before its head.
const NoHead = -1

// Script says what happens to the call that is the n-th started, from 0.
type Script func(n int64, c *wire.Call) Answer

// Options are what a Transport needs. Clock and Script must be set.
type Options struct {
	Clock  wire.Clock
	Script Script
	// KeepAlive is how long the server leaves a connection idle before it closes it; 0 = for ever. As many as Open was asked for are kept
	// ready all the same, each a new one that has been probed, and a request that finds none ready has to dial, in no time, and is cold.
	KeepAlive time.Duration
	// Open, where it is set, is the outcome of Transport.Open; it may wait by Clock.
	Open func(ctx context.Context, t *wire.Target, n int, p wire.Probe) ([]wire.ConnFacts, error)
}

// Transport implements wire.Transport.
type Transport struct {
	o    Options
	work sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	started int64
	flying  int
	most    int
	active  map[*wire.Call]*running
	idle    []*conn
	held    map[wire.ConnID]*conn // each waits for its session's next call
	nextID  wire.ConnID
	dialled int64
	probes  int64
	open    int
	kept    int // as many are ready or in use
	fell    int64
	unended int64
}

var _ wire.Transport = (*Transport)(nil)

type conn struct {
	facts wire.ConnFacts
	uses  uint32
	since int64 // it has been idle
}

type running struct {
	gen     uint32
	stop    context.CancelFunc
	cause   wire.Cause
	causeAt int64
}

// New makes a transport.
func New(o Options) *Transport {
	return &Transport{o: o, active: map[*wire.Call]*running{}, held: map[wire.ConnID]*conn{}}
}

// Started is how many calls have been started.
func (t *Transport) Started() int64 { t.mu.Lock(); defer t.mu.Unlock(); return t.started }

// InFlight is how many calls are between Start and Done.
func (t *Transport) InFlight() int { t.mu.Lock(); defer t.mu.Unlock(); return t.flying }

// MaxInFlight is the most there were at once.
func (t *Transport) MaxInFlight() int { t.mu.Lock(); defer t.mu.Unlock(); return t.most }

// Open makes n ready connections.
func (t *Transport) Open(ctx context.Context, target *wire.Target, n int, p wire.Probe) ([]wire.ConnFacts, error) {
	var facts []wire.ConnFacts
	if t.o.Open != nil {
		var err error
		if facts, err = t.o.Open(ctx, target, n, p); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.o.Clock.Now()
	t.kept += n
	for i := range n {
		if i == len(facts) {
			facts = append(facts, probedAt(now))
		}
		facts[i] = t.ready(facts[i], now)
	}
	return facts, nil
}

func probedAt(now int64) wire.ConnFacts {
	return wire.ConnFacts{DialStart: now, DialEnd: now, ProbeStart: now, ProbeEnd: now, ProbeStatus: 200}
}

// ready makes a connection with the given facts, completed, that has been probed. The lock is held.
func (t *Transport) ready(f wire.ConnFacts, now int64) wire.ConnFacts {
	c := t.newConn(f)
	c.uses, c.since = 1, now
	t.probes++
	t.idle = append(t.idle, c)
	return c.facts
}

// replace closes what the server does not keep, and makes others ready in its place. The lock is held.
func (t *Transport) replace(now int64) {
	if t.o.KeepAlive == 0 {
		return
	}
	t.idle = slices.DeleteFunc(t.idle, func(c *conn) bool {
		over := time.Duration(now-c.since) >= t.o.KeepAlive
		if over {
			t.open--
		}
		return over
	})
	for t.open < t.kept {
		t.ready(probedAt(now), now)
	}
}

// newConn makes a connection with the given facts, completed. The lock is held.
func (t *Transport) newConn(f wire.ConnFacts) *conn {
	t.nextID++
	t.dialled++
	t.open++
	f.ID, f.KernelStamps = t.nextID, true
	if f.Protocol == "" {
		f.Protocol = "HTTP/1.1"
	}
	if f.Remote == "" {
		f.Local, f.Remote = fmt.Sprintf("192.0.2.1:%d", 10000+t.nextID), "192.0.2.2:80"
	}
	return &conn{facts: f}
}

// Start plays the next answer of the script.
func (t *Transport) Start(c *wire.Call) uint32 {
	gen := c.Begin(t.o.Clock.Now())
	ctx, stop := context.WithCancel(context.Background())
	r := &running{gen: gen, stop: stop}
	t.mu.Lock()
	n := t.started
	t.started++
	t.flying++
	t.most = max(t.most, t.flying)
	if t.closed {
		r.cause, r.causeAt = wire.ByUser, t.o.Clock.Now()
		stop()
	}
	t.active[c] = r
	t.work.Add(1)
	t.mu.Unlock()
	go func() {
		defer t.work.Done()
		defer stop()
		t.play(ctx, c, r, t.o.Script(n, c))
	}()
	return gen
}

// Cancel ends c if it is still in generation gen.
func (t *Transport) Cancel(c *wire.Call, gen uint32, why wire.Cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.active[c]; r != nil && r.gen == gen && r.cause == wire.NotCancelled {
		r.cause, r.causeAt = why, t.o.Clock.Now()
		r.stop()
	}
}

// Release closes a connection that is held for a session without another turn.
func (t *Transport) Release(_ *wire.Target, id wire.ConnID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[id] != nil {
		delete(t.held, id)
		t.open--
	}
}

// Health is what the transport says of itself.
func (t *Transport) Health() wire.Health {
	t.mu.Lock()
	defer t.mu.Unlock()
	return wire.Health{Client: "fake", KernelStamps: t.dialled > 0, Open: t.open, Dialled: t.dialled, Probes: t.probes, StampFell: t.fell, Unended: t.unended}
}

// Close ends all calls and waits for them.
func (t *Transport) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	for _, r := range t.active {
		if r.cause == wire.NotCancelled {
			r.cause, r.causeAt = wire.ByUser, t.o.Clock.Now()
			r.stop()
		}
	}
	t.open, t.idle = 0, nil
	clear(t.held)
	t.mu.Unlock()
	done := make(chan struct{})
	go func() { t.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take gives a call its connection: the one it names, else the one used last, else (or where it dials) a new one. missing says that it was to
// dial for want of a connection that the server had kept.
func (t *Transport) take(id wire.ConnID, dialled bool, facts wire.ConnFacts) (c *conn, missing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replace(t.o.Clock.Now())
	if c := t.held[id]; c != nil && !dialled {
		delete(t.held, id)
		return c, false
	}
	if i := len(t.idle) - 1; i >= 0 && !dialled {
		for j, c := range t.idle {
			if c.facts.ID == id {
				i = j
			}
		}
		c := t.idle[i]
		t.idle = append(t.idle[:i:i], t.idle[i+1:]...)
		return c, false
	}
	return t.newConn(facts), t.o.KeepAlive > 0
}

var errDeadline = errors.New("the call's own time ran out")

// player walks through one answer.
type player struct {
	t       *Transport
	ctx     context.Context
	c       *wire.Call
	at      int64 // the script's time
	late    int64 // how long the end waited to be read
	expires int64 // 0 = never
	cause   wire.Cause
}

// to goes on to time at, or stops at the call's own limit or its cancelling.
func (p *player) to(at int64) error {
	if p.expires != 0 && at > p.expires {
		if err := p.t.o.Clock.Until(p.ctx, p.expires); err != nil {
			return err
		}
		p.at = p.expires
		return errDeadline
	}
	if err := p.t.o.Clock.Until(p.ctx, at); err != nil {
		return err
	}
	p.at = at
	return nil
}

// limit adds a time at which the call ends by itself.
func (p *player) limit(at int64, why wire.Cause) {
	if p.expires == 0 || at < p.expires {
		p.expires, p.cause = at, why
	}
}

func (t *Transport) play(ctx context.Context, c *wire.Call, r *running, a Answer) {
	f := &c.Facts
	p := &player{t: t, ctx: ctx, c: c, at: f.Ready}
	if c.Timeout > 0 {
		p.limit(f.Ready+int64(c.Timeout), wire.ByTimeout)
	}
	cn, err := p.connect(a)
	if err == nil {
		err = p.answer(a)
	}
	var e *wire.Error
	t.mu.Lock()
	cause, at := r.cause, r.causeAt
	delete(t.active, c)
	t.mu.Unlock()
	switch {
	case errors.Is(err, errDeadline):
		cause, at = p.cause, p.at
		e = wire.Cancelled(cause, c.CancelAfter)
	case err != nil && cause != wire.NotCancelled:
		e = wire.Cancelled(cause, c.CancelAfter)
	case err != nil:
		errors.As(err, &e)
	}
	late := p.late
	if e != nil && cause != wire.NotCancelled {
		f.Cause, f.CancelledAt = cause, at
		p.at = at
	}
	c.End(wire.Stamp{At: p.at - late, User: p.at}, e)
	t.mu.Lock()
	t.flying--
	t.fell += int64(f.StampsFell)
	if f.Unended {
		t.unended++
	}
	switch {
	case cn == nil || t.closed:
	case f.Unended:
		t.open--
	case err == nil && c.Lease == wire.Held:
		t.held[cn.facts.ID] = cn
	case err == nil && c.Lease == wire.Pooled:
		cn.since = t.o.Clock.Now()
		t.idle = append(t.idle, cn)
	default:
		t.open--
	}
	t.mu.Unlock()
	if c.Obs != nil {
		c.Obs.Done(c)
	}
}

// connect takes the call to its last write.
func (p *player) connect(a Answer) (*conn, error) {
	c, f := p.c, &p.c.Facts
	f.Attempts, f.Cold = 1, a.Cold
	single := c.Lease == wire.Single
	if a.Cold&wire.Resent != 0 {
		f.Attempts = 2
	}
	facts := wire.ConnFacts{DialStart: p.at}
	if a.Dial > 0 {
		if !single {
			f.Cold |= wire.Dialled
		}
		if err := p.to(p.at + int64(a.Dial)); err != nil {
			return nil, err
		}
	}
	facts.DialEnd = p.at
	if a.Queue > 0 {
		if err := p.to(p.at + int64(a.Queue)); err != nil {
			return nil, err
		}
		f.Queued = int64(a.Queue)
	}
	cn, missing := p.t.take(c.Conn, a.Dial > 0 || single, facts)
	if missing && !single {
		f.Cold |= wire.Dialled
	}
	cn.uses++
	f.Acquired, f.FirstWrite = p.at, p.at
	f.Conn, f.ConnUse, f.Reused = cn.facts, cn.uses, a.Dial == 0 && !missing && !single
	if a.Send > 0 {
		if err := p.to(p.at + int64(a.Send)); err != nil {
			return cn, err
		}
	}
	f.LastWrite, f.Sent = p.at, int64(len(c.Body))
	if c.CancelAfter > 0 {
		p.limit(p.at+int64(c.CancelAfter), wire.ByPlan)
	}
	return cn, nil
}

// answer plays the answer.
func (p *player) answer(a Answer) error {
	from := p.c.Facts.FirstWrite
	if a.Status == 0 {
		a.Status = 200
	}
	if a.ContentType == "" {
		a.ContentType = "text/event-stream"
	}
	headed := a.Status == NoHead
	head := func(s wire.Stamp) {
		if !headed {
			headed = true
			p.c.Head(a.Status, "", a.ContentType, s)
		}
	}
	stamp := func(read uint64) wire.Stamp {
		return wire.Stamp{At: p.at, User: p.at, Empty: from, Read: read, Kernel: true}
	}
	if a.Head > 0 {
		if err := p.to(from + int64(a.Head)); err != nil {
			return err
		}
		head(stamp(0))
	}
	next := from
	for i, part := range a.Parts {
		next += int64(part.After)
		if err := p.to(max(next, p.at)); err != nil {
			return err
		}
		s := stamp(uint64(i + 1))
		head(s)
		if err := p.c.Data(part.Data, s, true); err != nil {
			return err
		}
		from = p.at
	}
	if a.Hang && p.c.Facts.SawDone {
		done := p.at
		_ = p.to(done + int64(wire.DoneWait)) // whatever ends the wait, the answer is complete
		p.at = done
		p.c.Facts.Unended = true
		return nil
	}
	if a.Hang {
		if p.expires != 0 {
			return p.to(p.expires + 1)
		}
		<-p.ctx.Done()
		return p.ctx.Err()
	}
	if err := p.to(p.at + int64(a.End)); err != nil {
		return err
	}
	if err := p.to(p.at + int64(a.Late)); err != nil {
		return err
	}
	p.late = int64(a.Late)
	if a.Err != nil {
		return a.Err
	}
	head(stamp(0))
	return nil
}
