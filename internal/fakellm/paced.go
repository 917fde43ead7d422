package fakellm

import (
	"cmp"
	"runtime"
	"strconv"

	"prefire/loadgen/wire"
)

// The usual stream, HTTP/1.1 in the clear without a fault, goes past net/http, which has written its head and will write the end of its
// body: the chunks between are written to the socket directly, and once its next token lies ahead, by a goroutine that serves many streams.
// So a chunk wakes nobody. What the log has is the same in both ways.

// paceGrain is how long a pacer sleeps at least: less than what a timer wakes late, and at a hundred thousand chunks a second enough for
// one wake to serve several.
const paceGrain = 50_000 // ns

// newPacers makes one for every two cores, for the client has the others.
func newPacers(c wire.Clock) []*alarm {
	pacers := make([]*alarm, max(1, runtime.GOMAXPROCS(0)/2))
	for i := range pacers {
		pacers[i] = newAlarm(c, paceGrain)
		pacers[i].nap = newNap()
	}
	return pacers
}

// direct is an exchange's way past net/http.
type direct struct {
	out    *sender
	pacer  *alarm
	paced  bool   // the pacer writes: it must not wait for the client
	frame  []byte // of the chunked body
	unsent []byte // what the kernel did not take at once
	from   int    // the first of entry.Writes that unsent holds some of
}

// direct is nil where the answer takes net/http's way.
func (s *Server) direct(x *exchange) *direct {
	c := x.conn
	if c.direct == nil || x.fault != nil || x.r.ProtoMajor != 1 || x.r.ProtoMinor < 1 {
		return nil
	}
	return &direct{out: c.direct, pacer: s.pacers[c.id%int64(len(s.pacers))]}
}

// send writes one event as a chunk of the body.
func (x *exchange) send(kind string, due int64, data []byte) {
	d, s := x.direct, x.s
	before := s.clock.Now()
	held := false
	if x.err == nil {
		d.frame = append(strconv.AppendUint(d.frame[:0], uint64(len(data)), 16), "\r\n"...)
		d.frame = append(append(d.frame, data...), "\r\n"...)
		held, x.err = x.push(d.frame)
		x.entry.Bytes += int64(len(data))
	}
	x.note(kind, due, before, held)
}

// push hands p to the kernel. What the kernel does not take at once waits in unsent while the pacer writes.
func (x *exchange) push(p []byte) (held bool, err error) {
	d := x.direct
	if len(d.unsent) > 0 {
		d.unsent = append(d.unsent, p...)
		return true, nil
	}
	n, held, err := d.out.now(p)
	switch {
	case err != nil || n == len(p):
		return held, err
	case d.paced:
		d.unsent, d.from = append(d.unsent, p[n:]...), len(x.entry.Writes)
		return true, nil
	}
	_, err = x.conn.Write(p[n:])
	return x.conn.holds(), err
}

// drain writes what the pacer could not, and waits for the client to take it.
func (x *exchange) drain() {
	d := x.direct
	if len(d.unsent) == 0 || x.err != nil {
		return
	}
	_, x.err = x.conn.Write(d.unsent)
	d.unsent = d.unsent[:0]
	after, held := x.s.wall(x.s.clock.Now()), x.conn.holds()
	for i := d.from; i < len(x.entry.Writes); i++ {
		x.entry.Writes[i].AfterNS, x.entry.Writes[i].Held = after, held
	}
}

// paced lets the pacer write the stream, from the token on that is due at due, until its end or until the client does not take what is
// written.
func (g *generation) paced(due int64) error {
	x, d := g.x, g.x.direct
	g.due, d.paced = due, true
	err := d.pacer.serve(x.r.Context(), newWaiter(g.turn), due)
	d.paced = false
	if g.err == nil && err == nil {
		x.drain()
	}
	return cmp.Or(g.err, err, x.err)
}

// turn is what the pacer does when the stream is due. It returns when that is again; 0 = not by the pacer.
func (g *generation) turn() int64 {
	g.err = g.chunk(g.due)
	switch {
	case g.err != nil || len(g.x.direct.unsent) > 0:
	case g.k < g.j.tokens():
		g.due = g.p.at(g.k)
		return g.due
	default:
		g.err = g.finish()
	}
	return 0
}
