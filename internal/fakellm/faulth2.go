package fakellm

import (
	"bytes"
	"fmt"

	"golang.org/x/net/http2"
)

// code is HTTP/2's code of that name.
func errorCode(name string) http2.ErrCode {
	for c := http2.ErrCodeNo; c <= http2.ErrCodeHTTP11Required; c++ {
		if c.String() == name {
			return c
		}
	}
	return http2.ErrCodeInternal
}

func errorCodes() (names []string) {
	for c := http2.ErrCodeNo; c <= http2.ErrCodeHTTP11Required; c++ {
		names = append(names, c.String())
	}
	return names
}

// inject puts frames between those of net/http, after all that the request's answer has written so far.
func (x *exchange) inject(write func(*http2.Framer) error) error {
	if x.stream == 0 {
		return fmt.Errorf("the request has no X-Request-ID of its own by which its stream could be found")
	}
	x.handed()
	var b bytes.Buffer
	if err := write(http2.NewFramer(&b, nil)); err != nil {
		return err
	}
	return x.conn.insert(b.Bytes())
}

// handed waits until the kernel has what the answer has written so far.
func (x *exchange) handed() {
	if x.stream != 0 && len(x.entry.Writes) > 0 {
		x.conn.sent(x.r.Context(), x.stream, x.entry.Bytes)
	}
}

// insert writes frames at the next border between two frames.
func (c *conn) insert(frames []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.between() {
		c.waiting = append(c.waiting, frames...)
		return nil
	}
	_, err := c.Conn.Write(frames)
	return err
}

// split is the length of the part of p that goes before what waits to be inserted; -1 where no frame ends in p.
func (d *sentData) split(p []byte) int {
	if d.left > 0 && d.left <= len(p) {
		return d.left
	}
	return -1
}

// reset is a script that resets the stream.
func scriptReset(f *Fault, s *script) {
	s.at(f.at, func(g *generation) error {
		if err := g.x.inject(func(w *http2.Framer) error { return w.WriteRSTStream(g.x.stream, errorCode(f.how)) }); err != nil {
			return err
		}
		return errFault
	})
}

// scriptGoAway ends the connection for new requests. Before the head it refuses this one too.
func scriptGoAway(f *Fault, s *script) {
	s.at(f.at, func(g *generation) error {
		last := g.x.stream
		if f.at < 0 {
			last = 0
		}
		if err := g.x.inject(func(w *http2.Framer) error { return w.WriteGoAway(last, errorCode(f.how), []byte("fault")) }); err != nil || f.at >= 0 {
			return err
		}
		return errFault
	})
}

func scriptBreach(f *Fault, s *script) {
	s.at(-1, func(g *generation) error {
		err := g.x.inject(func(w *http2.Framer) error {
			switch f.how {
			case "push":
				return w.WritePushPromise(http2.PushPromiseParam{StreamID: g.x.stream, PromiseID: 2, EndHeaders: true})
			case "garbage":
				return w.WriteRawFrame(http2.FrameSettings, 0, 0, []byte("xyz"))
			}
			return w.WriteData(g.x.stream, false, []byte("data: [DONE]\n\n"))
		})
		if err != nil {
			return err
		}
		return errFault
	})
}
