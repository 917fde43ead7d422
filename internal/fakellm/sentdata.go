package fakellm

import (
	"context"
	"encoding/binary"
	"slices"

	"golang.org/x/net/http2"
)

// sentData follows the server's side of an HTTP/2 connection and notes when the kernel had how much of a stream's data. net/http hands the
// frames of all streams to the socket together, some time after a handler's write has returned. On HTTP/1.1 it does nothing.
type sentData struct {
	off     bool // not HTTP/2
	begun   bool
	buf     []byte // the part of a frame's head that has come so far
	head    http2.FrameHeader
	left    int // payload bytes of the current frame to come
	streams map[uint32][]sentMark
	moved   chan struct{} // closed at the next mark; nil = nobody waits
}

// sentMark says that so many bytes of a stream's data had been handed to the kernel at a time, and whether it held any back.
type sentMark struct {
	bytes, at int64
	held      bool
}

// follow begins to keep a stream's marks, until drop.
func (d *sentData) follow(stream uint32) {
	if d.streams == nil {
		d.streams = map[uint32][]sentMark{}
	}
	d.streams[stream] = nil
}

func (d *sentData) drop(stream uint32) { delete(d.streams, stream) }

// feed takes bytes that one write has handed to the kernel, at the time after it.
func (d *sentData) feed(p []byte, at int64, held bool) {
	for len(p) > 0 && !d.off {
		if d.left > 0 {
			n := min(d.left, len(p))
			p, d.left = p[n:], d.left-n
			d.data(int64(n), at, held)
			continue
		}
		n := min(frameHeadSize-len(d.buf), len(p))
		d.buf, p = append(d.buf, p[:n]...), p[n:]
		if len(d.buf) < frameHeadSize {
			return
		}
		d.head = http2.FrameHeader{
			Length:   uint32(d.buf[0])<<16 | uint32(d.buf[1])<<8 | uint32(d.buf[2]),
			Type:     http2.FrameType(d.buf[3]),
			StreamID: binary.BigEndian.Uint32(d.buf[5:]) & (1<<31 - 1),
		}
		d.buf, d.left = d.buf[:0], int(d.head.Length)
		// A server's first frame is SETTINGS; an answer of HTTP/1.1 looks otherwise.
		if d.head.Type == http2.FrameHeaders {
			d.headers(at, held)
		}
		d.off = !d.begun && (d.head.Type != http2.FrameSettings || d.head.StreamID != 0)
		d.begun = true
	}
}

// headers marks that a stream's head is the kernel's, or as good as: what is left of it goes in front of all else.
func (d *sentData) headers(at int64, held bool) {
	if marks, ok := d.streams[d.head.StreamID]; ok && len(marks) == 0 {
		d.streams[d.head.StreamID] = []sentMark{{0, at, held}}
		d.tell()
	}
}

func (d *sentData) tell() {
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
}

// data marks n bytes of the current frame's payload. net/http's DATA frames have no padding.
func (d *sentData) data(n, at int64, held bool) {
	marks, ok := d.streams[d.head.StreamID]
	if d.head.Type != http2.FrameData || !ok {
		return
	}
	switch last := len(marks) - 1; {
	case last >= 0 && marks[last].at == at:
		marks[last].bytes += n
	case last >= 0:
		marks = append(marks, sentMark{marks[last].bytes + n, at, held})
	default:
		marks = append(marks, sentMark{n, at, held})
	}
	d.streams[d.head.StreamID] = marks
	d.tell()
}

// sent waits until the kernel has a stream's head and n bytes of its data, or ctx is done, and returns the stream's marks.
func (c *conn) sent(ctx context.Context, stream uint32, n int64) []sentMark {
	for {
		c.mu.Lock()
		marks := slices.Clone(c.out.streams[stream])
		if len(marks) > 0 && marks[len(marks)-1].bytes >= n {
			c.mu.Unlock()
			return marks
		}
		if c.out.moved == nil {
			c.out.moved = make(chan struct{})
		}
		moved := c.out.moved
		c.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return marks
		}
	}
}

// Write hands bytes to the kernel, and notes when it had them, and whether it has sent them.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if len(c.waiting) > 0 {
		c.mu.Lock()
		border := c.out.split(p)
		c.mu.Unlock()
		if border >= 0 {
			n, err := c.write(p[:border])
			if err == nil {
				_, err = c.Conn.Write(c.waiting)
				c.waiting = nil
			}
			if err != nil {
				return n, err
			}
			m, err := c.write(p[border:])
			return n + m, err
		}
	}
	n, err := c.write(p)
	if err == nil && len(c.waiting) > 0 && c.between() {
		_, err = c.Conn.Write(c.waiting)
		c.waiting = nil
	}
	return n, err
}

// between reports whether what was written last ended with the end of a frame.
func (c *conn) between() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.left == 0 && len(c.out.buf) == 0
}

func (c *conn) write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	at := c.s.clock.Now()
	held := unsent(c.stamped.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	c.out.feed(p[:n], at, held)
	return n, err
}

// holds reports whether the kernel held back any of the last write.
func (c *conn) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}
