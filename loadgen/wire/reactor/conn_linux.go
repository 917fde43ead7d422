//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"context"
	"io"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/http1"
	"prefire/loadgen/wire/pooling"
	"prefire/loadgen/wire/stamp"
)

// conn is one connection, from its dial on.
type conn struct {
	l     *loop
	pool  *pool
	fd    int // -1 = none
	state connState
	facts wire.ConnFacts
	uses  uint32
	timer timer // of a connect, a background probe, a write after its answer, a body that goes on after [DONE]

	lastUsed int64
	hold     pooling.Hold
	fresh    bool     // not ready yet since its dial
	owner    *request // waits for it to be ready
	opening  *opening // that it belongs to
	refused  bool     // the answer to the opening's probe closed it
	limit    timer    // of all that the opening has it do

	host  string
	port  uint16
	addrs []netip.Addr // still to try, the one at hand first
	stop  context.CancelFunc

	reads   uint64
	empty   int64 // when the connection was last seen empty; 0 = never
	order   int64 // what the next read's stamp is held against
	unread  bool  // in the loop's list of those to read
	unsent  bool  // in the loop's list of those to write
	hungUp  bool  // the other side has closed: what is left is read up to the end, for no event will tell of it
	blocked bool  // the socket takes no more until it says so

	// The exchange at hand.
	req      *request // nil for a probe
	out      []byte   // the head of the request, until it is sent
	head     int      // its length
	body     []byte
	sent     int // bytes of both
	writes   int
	first    int64 // right before the first write
	writeErr error
	resp     http1.Response
	status   int // of a probe
	end      wire.Stamp
	spoiled  bool // more came than the answer
}

type connState uint8

const (
	dialling   connState = iota // no socket yet
	connecting                  // the socket is not connected yet
	idle                        // nothing is asked
	asking                      // a request is under way
	answered                    // its answer is here, and the request is not all sent
	closed
)

func newConn(p *pool, id wire.ConnID) *conn {
	c := &conn{l: p.l, pool: p, fd: -1, fresh: true}
	c.facts.ID = id
	c.timer.fire = c.late
	return c
}

// event is told by epoll.
func (c *conn) event(mask uint32) {
	if c.state == connecting {
		c.connectEvent(mask)
		// The same event may tell of bytes, or of the end, and will not be repeated.
		if mask&(unix.EPOLLIN|unix.EPOLLRDHUP) != 0 && c.state != closed {
			c.l.readLater(c)
		}
		return
	}
	if mask&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.hungUp = true
	}
	if mask&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		// Who waits for a first token goes before all others: a token read together with the next has no exact time.
		if c.req == nil || len(c.req.call.Chunks) == 0 {
			c.read()
		} else {
			c.l.readLater(c)
		}
	}
	if mask&unix.EPOLLOUT != 0 && c.blocked {
		c.blocked = false
		c.write()
	}
}

// ask begins an exchange: r's, or (nil) a probe.
func (c *conn) ask(r *request) {
	method, path, header := "GET", c.pool.probe.Path, c.pool.probe.Header
	c.req, c.body = r, nil
	if r != nil {
		method, path = pooling.Line(r.call)
		header, c.body = r.call.Header, r.call.Body
	} else if c.opening != nil {
		path, header = c.opening.probe.Path, c.opening.probe.Header
	}
	c.state = asking
	c.head, c.sent, c.writes, c.first, c.writeErr, c.status, c.end, c.spoiled = 0, 0, 0, 0, nil, 0, wire.Stamp{}, false
	c.resp.Begin(method)
	var err error
	if c.out == nil {
		c.out = c.l.lendHead()
	}
	if c.out, err = http1.AppendHead(c.out[:0], c.pool.target, method, path, header, len(c.body)); err != nil {
		c.over(&wire.Error{Type: "ValueError", Message: err.Error()}, true)
		return
	}
	c.head = len(c.out)
	c.write()
}

// write sends what the turn allows.
func (c *conn) write() {
	all := c.head + len(c.body)
	if c.state != asking && c.state != answered || c.blocked || c.writeErr != nil || c.sent == all {
		return
	}
	l, room := c.l, writeSize
	for c.sent < all {
		if room == 0 || l.budget <= 0 {
			l.writeLater(c)
			return
		}
		var head, body []byte
		if c.sent < c.head {
			head = c.out[c.sent:]
			head = head[:min(len(head), room)]
		}
		body = c.body[max(c.sent-c.head, 0):]
		body = body[:min(len(body), room-len(head))]
		if c.first == 0 {
			c.first = l.now()
			if c.req != nil {
				c.req.call.Facts.FirstWrite = c.first
			}
		}
		n, errno := l.tx.send(c.fd, head, body)
		if errno == syscall.EAGAIN {
			c.blocked = true
			return
		}
		if errno != 0 {
			// There may be an answer to read all the same: a server that refuses a request can close before it has read all of it.
			c.writeErr = errno
			if c.state == answered {
				c.over(nil, false)
				return
			}
			c.hungUp = true
			l.readLater(c)
			return
		}
		c.sent += n
		c.writes++
		room -= n
		l.budget -= n
		if c.out != nil && c.sent >= c.head {
			l.takeHead(c.out)
			c.out = nil
		}
	}
	if r := c.req; r != nil {
		r.sent(l.now())
	}
	if c.state == answered {
		c.over(nil, true)
	}
}

// read is one read, of all there is or what the turn allows.
func (c *conn) read() {
	if c.state != idle && c.state != asking && c.state != answered {
		return
	}
	l := c.l
	n, before, s, errno := l.rx.Recv(uintptr(c.fd), l.buf)
	switch {
	case errno == syscall.EAGAIN:
		c.empty = before
		c.hungUp = false
		if c.state == asking && c.writeErr != nil { // the server waits for the rest of the request, and for ever
			c.lost(c.writeErr)
		}
		return
	case errno != 0:
		c.lost(errno)
		return
	case n == 0:
		c.lost(io.EOF)
		return
	}
	c.reads++
	s.Empty, s.Read = c.empty, c.reads
	c.order = stamp.Order(&s, c.order)
	drained := n < len(l.buf)
	if drained {
		// That was after before, so before never makes a later event's bound too narrow.
		c.empty = before
	}
	c.took(l.buf[:n], s, drained)
	if (!drained || c.hungUp) && c.state != closed {
		l.readLater(c)
	}
}

// took takes the bytes of one read.
func (c *conn) took(p []byte, s wire.Stamp, drained bool) {
	switch c.state {
	case idle: // nobody asked for them
		c.pool.gone(c)
		return
	case answered:
		c.over(nil, false)
		return
	}
	used, done, err := c.resp.Read(p, s, drained, c)
	c.end = s
	switch {
	case err != nil:
		c.over(err, false)
	case done:
		c.spoiled = used < len(p)
		c.answer()
	case c.req != nil && c.req.call.Facts.SawDone && c.timer.rank == 0:
		c.l.timers.set(&c.timer, c.l.now()+int64(wire.DoneWait))
	}
}

// lost takes the end of the connection: err is io.EOF or what broke it.
func (c *conn) lost(err error) {
	switch c.state {
	case idle:
		c.pool.gone(c)
	case answered:
		c.over(nil, false)
	default:
		if err = c.resp.End(err); err == nil {
			c.answer()
			return
		}
		c.over(err, false)
	}
}

// answer goes on after the whole answer has come. A server can answer before it has read the request: if it reads the rest soon, the
// connection can be kept.
func (c *conn) answer() {
	keeps := c.resp.KeepAlive() && !c.spoiled && c.writeErr == nil
	if keeps && c.sent < c.head+len(c.body) {
		c.state = answered
		c.l.timers.set(&c.timer, c.l.now()+int64(pooling.EarlyWait))
		return
	}
	c.over(nil, keeps)
}

// over ends the exchange. err is nil where the whole answer has come; keeps says that the connection can be used again.
func (c *conn) over(err error, keeps bool) {
	c.l.timers.unset(&c.timer)
	e, caught := c.resp.Failed(err, c.writeErr)
	r := c.req
	c.req, c.body, c.blocked = nil, nil, false
	c.state = idle
	if r == nil {
		c.pool.probed(c, e, keeps)
		return
	}
	r.answered(c, e, caught, keeps)
}

// unended ends an answer that is complete by its [DONE] while its body goes on.
func (c *conn) unended() {
	c.req.call.Facts.Unended = true
	c.l.count.unended.Add(1)
	c.over(nil, false)
}

// late is the end of the time of a connect, of a background probe, of a write after its answer, or of a body that goes on after [DONE].
func (c *conn) late() {
	switch c.state {
	case connecting:
		c.connectDone(context.DeadlineExceeded)
	case answered:
		c.over(nil, false)
	case asking:
		if c.req != nil {
			c.unended()
			return
		}
		c.over(&wire.Error{Type: "ServerDisconnectedError", Message: "the probe got no answer in time"}, false)
	}
}

// Field takes a header field of the answer.
func (c *conn) Field(name, value []byte) {
	if c.req != nil {
		c.req.call.Field(name, value)
	}
}

// Head takes the head of the answer.
func (c *conn) Head(status int, reason, mediaType string, s wire.Stamp) {
	if c.req != nil {
		f := &c.req.call.Facts
		f.Encoding, f.RetryAfter = c.resp.Encoding(), c.resp.RetryAfter()
		c.req.call.Head(status, reason, mediaType, s)
		return
	}
	c.status = status
}

// Data takes bytes of the body.
func (c *conn) Data(p []byte, s wire.Stamp, last bool) error {
	if c.req != nil {
		return c.req.call.Data(p, s, last)
	}
	return nil
}

// stale reports that the other side has closed an idle connection, or has sent what nobody asked for. An event may say so only later.
func (c *conn) stale() bool {
	_, before, _, errno := c.l.rx.Recv(uintptr(c.fd), c.l.buf[:1])
	if errno == syscall.EAGAIN {
		c.empty = before
		return false
	}
	return true
}

// move gives an idle connection to another loop, and the call that it was taken for.
func (c *conn) move(to *loop, o *op) {
	l, p, call, gen := c.l, c.pool, o.call, o.gen
	c.deregister()
	delete(p.conns, c.facts.ID)
	kept, needed := p.keep > 0, p.upkeep.Kept > 0
	if kept {
		p.keep--
	}
	if needed {
		p.upkeep.Kept--
	}
	l.count.open.Add(-1)
	l.flight.Add(-1)
	to.flight.Add(1)
	probe := p.probe
	if !to.post(op{do: func() { to.adopt(c, kept, needed, probe, call, gen) }}) {
		to.flight.Add(-1)
		c.release()
		l.hub.leave(c.facts.ID)
		l.refuse(call)
	}
}

// adopt takes a connection of another loop, and begins the call on it.
func (l *loop) adopt(c *conn, kept, needed bool, probe wire.Probe, call *wire.Call, gen uint32) {
	p := l.pool(call.Target)
	c.l, c.pool = l, p
	l.count.open.Add(1)
	if kept {
		p.keep++
		p.probe = probe
		l.keepLooking()
	}
	if needed {
		p.upkeep.Kept++
	}
	p.conns[c.facts.ID] = c
	l.hub.settle(c.facts.ID, l)
	if c.register() != nil { // the system has no room for another watch
		p.drop(c)
		c = nil
	}
	if l.closed {
		if c != nil {
			p.drop(c)
		}
		l.flight.Add(-1)
		l.refuse(call)
		return
	}
	p.begin(l.begin(call, gen), c)
}

// deregister ends what register began.
func (c *conn) deregister() {
	if c.fd < len(c.l.byFD) && c.l.byFD[c.fd] == c {
		c.l.byFD[c.fd] = nil
		_ = unix.EpollCtl(c.l.ep, unix.EPOLL_CTL_DEL, c.fd, nil) // it is in there
	}
}

// release gives the socket back to the system.
func (c *conn) release() {
	if c.fd >= 0 {
		if c.fd < len(c.l.byFD) && c.l.byFD[c.fd] == c {
			c.l.byFD[c.fd] = nil
		}
		_ = unix.Close(c.fd) // what was not sent is not to be sent
		c.fd = -1
	}
}

// close ends the connection, whatever it is doing.
func (c *conn) close() {
	if c.state == closed {
		return
	}
	if c.state != dialling && c.state != connecting {
		c.l.count.open.Add(-1)
		c.l.hub.leave(c.facts.ID)
	}
	c.letGo()
	c.l.timers.unset(&c.timer)
	c.l.timers.unset(&c.limit)
	c.state, c.req, c.body = closed, nil, nil
	c.release()
}
