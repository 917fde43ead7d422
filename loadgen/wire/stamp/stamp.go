// Package stamp holds connections that know when what they read arrived. On Linux the time is the kernel's own stamp of the last packet in
// a read (SO_TIMESTAMPNS), so that it does not move when the reader is late; elsewhere it is the time after the read.
package stamp

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"prefire/loadgen/wire"
)

// Source is a stamped connection as a protocol reads it: over TLS its bytes are the plain ones.
type Source interface {
	net.Conn
	// Last is the stamp of the last raw read of the connection. It belongs to the bytes that the last Read returned.
	Last() wire.Stamp
	// Drained reports whether Read has returned all bytes of the last raw read, and that raw read emptied the connection. While it is
	// false, the stamp may be that of bytes which the reader has not seen yet.
	Drained() bool
	// Mark begins a new request: the write stamps start anew.
	Mark()
	// FirstWrite is the time right before the first write since Mark; 0 = none yet.
	FirstWrite() int64
	// LastWrite is the time after the last write since Mark; 0 = none yet.
	LastWrite() int64
	// Stale reports, without blocking and without taking bytes, that the other side has closed the connection or has sent bytes that
	// nobody asked for. It is false where that cannot be told.
	Stale() bool
	// KernelStamps reports whether the socket has the kernel's arrival stamps.
	KernelStamps() bool
	// Abort closes the connection at once, without a farewell. Any goroutine may call it.
	Abort()
}

// Conn is a stamped connection in the clear. One goroutine reads and one writes at a time.
type Conn struct {
	net.Conn
	clock wire.Clock
	raw   raw
	last  wire.Stamp
	order int64 // what the next stamp is held against
	reads uint64
	empty int64 // when the connection was last seen empty; 0 = never
	full  bool  // the last read filled its buffer: more may have been there

	firstWrite, lastWrite atomic.Int64
}

var _ Source = (*Conn)(nil)

// New wraps nc. A TCP connection gets kernel stamps where the system has them, TCP_NODELAY, and keep-alive probes after 60 s idle.
func New(nc net.Conn, clock wire.Clock) *Conn {
	c := &Conn{Conn: nc, clock: clock}
	if tcp, ok := nc.(*net.TCPConn); ok {
		// An error here means that the socket is closed already, which the first read or write says better.
		_ = tcp.SetNoDelay(true)
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second})
		c.raw.open(c, tcp)
	}
	return c
}

// Read reads and stamps.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.raw.ok {
		return c.raw.read(p)
	}
	before := c.clock.Now()
	n, err := c.Conn.Read(p)
	if n > 0 {
		at := c.clock.Now()
		c.took(n, len(p), before, wire.Stamp{At: at, User: at})
	}
	return n, err
}

// took records a read of n bytes into a buffer of room bytes, begun at before. A read that did not fill its buffer left the connection
// empty; that was after before, so before never makes a later event's bound too narrow.
func (c *Conn) took(n, room int, before int64, s wire.Stamp) {
	c.reads++
	s.Empty, s.Read = c.empty, c.reads
	c.order = Order(&s, c.order)
	c.last = s
	c.full = n == room
	if !c.full {
		c.empty = before
	}
}

// Order holds the stamp of a read against last, that of the reads before, and returns what the next one is held against. A connection's bytes
// arrive in order: a stamp before the last one is moved up to it, be it that the conversion to the run's clock moved by microseconds, or
// that the bytes had to wait for lost ones before them. A stamp after its read shows that the wall clock was set; it is left to [wire.Call],
// which takes the time of the read in its place, and binds none that follow.
func Order(s *wire.Stamp, last int64) int64 {
	if !s.Kernel || s.At > s.User {
		return last
	}
	s.At = max(s.At, last)
	return s.At
}

// Write writes, and stamps the time before the first write since Mark and after the last.
func (c *Conn) Write(p []byte) (int, error) {
	if c.firstWrite.Load() == 0 {
		c.firstWrite.Store(c.clock.Now())
	}
	n, err := c.Conn.Write(p)
	c.lastWrite.Store(c.clock.Now())
	return n, err
}

// Last is the stamp of the last read.
func (c *Conn) Last() wire.Stamp { return c.last }

// Drained reports whether the last read left the connection empty.
func (c *Conn) Drained() bool { return !c.full }

// Mark makes the write stamps start anew.
func (c *Conn) Mark() { c.firstWrite.Store(0); c.lastWrite.Store(0) }

// FirstWrite is the time right before the first write since Mark; 0 = none yet.
func (c *Conn) FirstWrite() int64 { return c.firstWrite.Load() }

// LastWrite is the time after the last write since Mark; 0 = none yet.
func (c *Conn) LastWrite() int64 { return c.lastWrite.Load() }

// Reads is how many reads brought bytes.
func (c *Conn) Reads() uint64 { return c.reads }

// KernelStamps reports whether the socket has the kernel's arrival stamps.
func (c *Conn) KernelStamps() bool { return c.raw.ok }

// Stale reports that the other side has closed, or has sent something, while nobody was reading.
func (c *Conn) Stale() bool { return c.raw.ok && c.raw.readable() }

// Abort closes the connection.
func (c *Conn) Abort() { _ = c.Close() }

// TLS is a stamped connection over TLS. Its records are handed to crypto/tls one at a time, so that it is known which bytes of a raw read
// have been opened.
type TLS struct {
	*tls.Conn
	raw  *Conn
	feed feeder
	rest bool // the last Read filled its buffer: the record may have more
}

var _ Source = (*TLS)(nil)

// Client makes a TLS client over c. The caller runs the handshake.
func Client(c *Conn, cfg *tls.Config) *TLS {
	t := &TLS{raw: c}
	t.feed.Conn = c
	t.Conn = tls.Client(&t.feed, cfg)
	return t
}

// Read reads plain bytes, of at most one record.
func (t *TLS) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.rest = n > 0 && n == len(p)
	return n, err
}

// Last is the stamp of the raw read that completed the record of the last Read.
func (t *TLS) Last() wire.Stamp { return t.raw.Last() }

// Drained reports whether all of the last raw read has been opened and returned.
func (t *TLS) Drained() bool { return !t.rest && len(t.feed.in) == 0 && t.raw.Drained() }

// Mark makes the write stamps start anew.
func (t *TLS) Mark() { t.raw.Mark() }

// FirstWrite is the time right before the first raw write since Mark.
func (t *TLS) FirstWrite() int64 { return t.raw.FirstWrite() }

// LastWrite is the time after the last raw write since Mark.
func (t *TLS) LastWrite() int64 { return t.raw.LastWrite() }

// KernelStamps reports whether the socket has the kernel's arrival stamps.
func (t *TLS) KernelStamps() bool { return t.raw.KernelStamps() }

// Stale reports that something came while nobody was reading: after an answer has been read that can only be the other side's farewell.
func (t *TLS) Stale() bool { return len(t.feed.in) > 0 || t.raw.Stale() }

// Abort closes the connection without TLS's farewell, which could block behind a write.
func (t *TLS) Abort() { t.raw.Abort() }

const (
	recordHeader = 5
	feedSize     = 16<<10 + 256 + recordHeader // the longest record
)

// feeder stands between crypto/tls and the raw connection and hands over the bytes of at most one record at a time.
type feeder struct {
	*Conn
	buf   []byte
	in    []byte // unread part of the last raw read
	head  [recordHeader]byte
	headN int // bytes of the current record's head handed over so far
	left  int // bytes of the current record's body not handed over yet
}

// Read returns the next bytes, up to the end of a record's head or body.
func (f *feeder) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(f.in) == 0 {
		if f.buf == nil {
			f.buf = make([]byte, feedSize)
		}
		n, err := f.Conn.Read(f.buf)
		if n == 0 {
			return 0, err
		}
		f.in = f.buf[:n]
	}
	n := min(len(p), len(f.in))
	if f.left > 0 {
		n = min(n, f.left)
		f.left -= n
	} else {
		n = min(n, recordHeader-f.headN)
		copy(f.head[f.headN:], f.in[:n])
		if f.headN += n; f.headN == recordHeader {
			f.headN, f.left = 0, int(f.head[3])<<8|int(f.head[4])
		}
	}
	copy(p, f.in[:n])
	f.in = f.in[n:]
	return n, nil
}
