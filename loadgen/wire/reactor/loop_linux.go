//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/stamp"
)

// Bounds of one turn of the loop.
const (
	readSize  = 64 << 10  // what one connection may read in a turn
	writeSize = 64 << 10  // what one connection may write in a turn
	turnSize  = 256 << 10 // what all connections may write in a turn, and what is begun in it
	dialCost  = 8 << 10   // what a dial takes of that: it is as much work
	batch     = 64        // events taken at once
	readBatch = 32        // connections read in a turn, beside those that wait for their first token
)

// op is what another goroutine wants done on the loop.
type op struct {
	kind opKind
	call *wire.Call
	gen  uint32
	why  wire.Cause
	seat bool   // of a start: a ready connection is promised
	hops int    // of a start, how often it was passed on; of a cancel, how many loops it was given to
	at   int64  // of a cancel: when it was asked for
	do   func() // of opDo
}

type opKind uint8

const (
	opDo opKind = iota
	opStart
	opCancel
)

// loop is one goroutine with its connections. It is not bound to a thread, and does not wait in epoll_wait itself: a goroutine that blocks
// there has its processor taken away each time, by a runtime thread that for this wakes every 20 µs. Parked in Go's poller, a chunk that
// comes alone costs a third less.
type loop struct {
	o       Options
	hub     *hub
	index   int             // among the hub's
	ctx     context.Context // of the helpers
	stop    context.CancelFunc
	helpers sync.WaitGroup // goroutines that look names up, or dial
	gone    chan struct{}  // closed when the loop has ended

	mu     sync.Mutex
	posted []op
	asleep bool // the loop is parked, or about to be, and must be woken
	prod   bool // it was woken by others, and its deadline is still past
	ended  bool // nothing more is taken

	count  struct{ open, dialled, probes, fell, plain, unended atomic.Int64 }
	flight atomic.Int64 // calls given to it that are not over

	// The rest is the loop's own.
	ep, alarm      int // epoll, timerfd
	epFile         *os.File
	parker         syscall.RawConn // of epFile
	turnsFunc      func(uintptr) bool
	parkedAt       int64 // when the loop was last about to be parked; 0 = it was not
	n              int   // events taken
	quiet          int   // a socket that has the kernel stamp arrivals as long as it is open: it begins late and ends with the last one
	rx             stamp.Receiver
	tx             sender
	buf            []byte
	events         [batch]unix.EpollEvent
	byFD           []*conn // the open connections, by descriptor
	unread, unsent queue   // what the bounds of a turn left over
	ops            []op    // taken from posted
	nextOp         int
	budget         int // of this turn
	timers         timers
	armed          int64 // what the timerfd is set to; 0 = nothing
	pools          map[*wire.Target]*pool
	active         map[*wire.Call]*request
	openings       map[*opening]struct{}
	spare          []*request
	heads          [][]byte // to render the heads of requests into
	keeper         timer
	load           load
	closed         bool
}

func newLoop(h *hub, index int) (*loop, error) {
	o := h.o
	l := &loop{o: o, hub: h, index: index, gone: make(chan struct{}), buf: make([]byte, readSize), ep: -1, alarm: -1, quiet: -1,
		pools: map[*wire.Target]*pool{}, active: map[*wire.Call]*request{}, openings: map[*opening]struct{}{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.keeper.fire = l.keepReady
	l.rx.Init(o.Clock)
	l.tx.init()
	l.turnsFunc = func(uintptr) bool { return l.turns() }
	if err := l.descriptors(); err != nil {
		l.closeAll()
		return nil, err
	}
	return l, nil
}

func (l *loop) descriptors() (err error) {
	if l.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(l.ep, true); err != nil { // which is how os.NewFile knows that it is one to poll
		return os.NewSyscallError("fcntl", err)
	}
	l.epFile = os.NewFile(uintptr(l.ep), "epoll")
	if err := l.epFile.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("an epoll descriptor cannot be waited for: %w", err)
	}
	if l.parker, err = l.epFile.SyscallConn(); err != nil {
		return err
	}
	if l.alarm, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	// Where this one is refused, the connections' own sockets do the same, only later.
	if l.quiet, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		_ = stamp.Ask(l.quiet)
	}
	// Edge-triggered, each expiry is one event, and the descriptor never has to be read.
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(l.alarm)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, l.alarm, &ev))
}

func (l *loop) closeAll() {
	if l.epFile != nil {
		_ = l.epFile.Close()
		l.ep = -1
	}
	for _, fd := range []int{l.ep, l.alarm, l.quiet} {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written that could be lost
		}
	}
}

func (l *loop) now() int64 { return l.o.Clock.Now() }

// past is a deadline that has gone by.
var past = time.Unix(1, 0)

// post hands o to the loop and wakes it where it sleeps; false means that the loop has ended. It is woken by a deadline of what it is
// parked on: Go's scheduler then runs it next, on the processor of the one who posts, where a descriptor would first have to come to
// the notice of whoever polls.
func (l *loop) post(o op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.posted = append(l.posted, o)
	if l.asleep {
		l.asleep, l.prod = false, true
		_ = l.epFile.SetReadDeadline(past) // it fails only for a closed file, which a loop that has not ended has not
	}
	return true
}

// run is the loop. It ends when the transport is closed. All turns are within one read of the epoll descriptor in Go's poller, of which it is
// one that becomes readable: what becomes ready while a turn works is remembered there, so that a turn that has found all there was need not
// look again before it parks. A read begins anew only where others have woken the loop by its deadline.
func (l *loop) run() {
	defer close(l.gone)
	for l.parker.Read(l.turnsFunc) != nil {
		l.mu.Lock()
		l.unprod()
		l.mu.Unlock()
	}
	l.closeAll() // nobody posts any more
}

// turns does turns while there is work. It reports false where the loop is to be parked, and true where it has ended.
func (l *loop) turns() (ended bool) {
	if l.parkedAt != 0 {
		l.load.parked += l.now() - l.parkedAt
		l.parkedAt = 0
	}
	for {
		l.turn()
		if l.finished() {
			return true
		}
		if l.n < batch && l.unread.len() == 0 && l.unsent.len() == 0 && l.nextOp == len(l.ops) && l.sleep() {
			l.parkedAt = l.now()
			return false
		}
	}
}

// sleep has those who post wake the loop from now on; false where something is posted already.
func (l *loop) sleep() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.posted) > 0 {
		return false
	}
	l.unprod()
	l.asleep = true
	return true
}

// unprod takes back the deadline by which others have woken the loop; mu is held.
func (l *loop) unprod() {
	if l.prod {
		l.prod = false
		_ = l.epFile.SetReadDeadline(time.Time{})
	}
}

// turn is one round: what has come, what was left over, what others want, what is due.
func (l *loop) turn() {
	l.poll()
	l.budget = turnSize
	for i := range l.n {
		l.event(&l.events[i])
	}
	l.readOn()
	l.writeOn()
	l.take()
	now := l.now()
	for t := l.timers.due(now); t != nil; t = l.timers.due(now) {
		t.fire()
	}
	l.arm(now)
	if l.load.turn(now) && l.hub.lighter(l) == nil {
		// Where the system refuses another, there are as many as there can be.
		_ = l.hub.grow()
	}
}

// poll takes the events there are without waiting.
func (l *loop) poll() {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.ep), uintptr(unsafe.Pointer(&l.events[0])), batch, 0, 0, 0)
		if l.n = int(n); errno != syscall.EINTR { // nothing else can happen to a valid descriptor
			return
		}
	}
}

func (l *loop) event(ev *unix.EpollEvent) {
	fd := int(ev.Fd)
	if fd >= len(l.byFD) {
		return
	}
	// A descriptor closed earlier in the turn may be in use again: the connection's number tells the old one's event.
	if c := l.byFD[fd]; c != nil && ev.Pad == int32(uint32(c.facts.ID)) {
		c.event(ev.Events)
	}
}

// readLater has c read in its turn.
func (l *loop) readLater(c *conn) {
	if !c.unread {
		c.unread = true
		l.unread.push(c)
	}
}

// writeLater has c write in its turn.
func (l *loop) writeLater(c *conn) {
	if !c.unsent {
		c.unsent = true
		l.unsent.push(c)
	}
}

// readOn reads as many connections as a turn may.
func (l *loop) readOn() {
	for range min(l.unread.len(), readBatch) {
		c := l.unread.pop()
		c.unread = false
		c.read()
	}
}

// writeOn writes as far as the turn's budget goes, to each connection once.
func (l *loop) writeOn() {
	for n := l.unsent.len(); n > 0 && l.budget > 0; n-- {
		c := l.unsent.pop()
		c.unsent = false
		c.write()
	}
}

// take does what others have asked for, as far as the turn's budget goes.
func (l *loop) take() {
	if l.nextOp == len(l.ops) {
		clear(l.ops)
		l.ops, l.nextOp = l.ops[:0], 0
		l.mu.Lock()
		l.ops, l.posted = l.posted, l.ops
		l.asleep = false
		l.mu.Unlock()
	}
	for l.nextOp < len(l.ops) && l.budget > 0 {
		o := &l.ops[l.nextOp]
		l.nextOp++
		switch o.kind {
		case opStart:
			l.start(o)
		case opCancel:
			if r := l.active[o.call]; r != nil && r.gen == o.gen {
				r.cancel(o.why, o.at)
			} else {
				l.hub.cancel(*o)
			}
		default:
			o.do()
		}
	}
}

// arm sets the timerfd to the earliest timer, where it is not set to that or an earlier time already. A time that has gone by meanwhile
// costs one turn for nothing.
func (l *loop) arm(now int64) {
	next := l.timers.next()
	if next == 0 {
		return
	}
	if now >= l.armed {
		l.armed = 0
	}
	if l.armed != 0 && l.armed <= next {
		return
	}
	l.armed = next
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(next-now, 1))}
	_ = unix.TimerfdSettime(l.alarm, 0, &spec, nil) // it cannot fail: the descriptor and the time are valid
}

// start begins a call: on a ready connection of this loop's, else on another loop's, else on one that is made ready.
func (l *loop) start(o *op) {
	c := o.call
	if l.closed {
		l.flight.Add(-1)
		l.refuse(c)
		return
	}
	if !Serves(c.Target) {
		l.begin(c, o.gen).fail(notServed(c.Target))
		return
	}
	p := l.pool(c.Target)
	if c.Lease == wire.Single || p.proving(c.Conn) != nil {
		p.begin(l.begin(c, o.gen), nil)
		return
	}
	ready := p.take(c.Conn, o.seat)
	switch {
	case ready != nil && ready.facts.ID != c.Conn && !ready.unread && !ready.unsent:
		if to := l.hub.lighter(l); to != nil {
			ready.move(to, o)
			return
		}
	case ready == nil && o.hops == 0 && len(l.hub.loops()) > 1:
		if to := l.hub.promised(c.Target, l); to != nil {
			l.flight.Add(-1)
			l.hub.start(to, c, o.gen, true, 1)
			return
		}
	}
	p.begin(l.begin(c, o.gen), ready)
}

// begin makes a request of a call.
func (l *loop) begin(c *wire.Call, gen uint32) *request {
	var r *request
	if n := len(l.spare); n > 0 {
		r, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		r = newRequest(l)
	}
	r.call, r.gen = c, gen
	l.active[c] = r
	return r
}

// refuse ends a call that came after Close.
func (l *loop) refuse(c *wire.Call) {
	now := l.now()
	c.End(wire.Stamp{At: now, User: now}, closedError())
	if c.Obs != nil {
		c.Obs.Done(c)
	}
}

// lendHead gives memory to render the head of a request into.
func (l *loop) lendHead() (head []byte) {
	if n := len(l.heads); n > 0 {
		head, l.heads = l.heads[n-1], l.heads[:n-1]
	}
	return head
}

// takeHead takes it back once the head is sent: while thousands of connections wait for answers they hold none.
func (l *loop) takeHead(head []byte) { l.heads = append(l.heads, head[:0]) }

func (l *loop) pool(target *wire.Target) *pool {
	p := l.pools[target]
	if p == nil {
		p = &pool{l: l, target: target, free: &l.hub.seats(target)[l.index], conns: map[wire.ConnID]*conn{}}
		l.pools[target] = p
	}
	return p
}

// shut ends everything there is.
func (l *loop) shut() {
	l.closed = true
	now := l.now()
	for _, r := range l.active {
		r.cancel(wire.ByUser, now)
	}
	for o := range l.openings {
		o.fail(errClosed)
	}
	for _, p := range l.pools {
		p.shut()
	}
	l.timers.unset(&l.keeper)
}

// finished reports, once, that the loop is shut and has nothing left to do; after it post takes nothing.
func (l *loop) finished() bool {
	if !l.closed || l.nextOp < len(l.ops) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.posted) > 0 {
		return false
	}
	l.ended = true
	return true
}
