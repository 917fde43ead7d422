// Package wiretest is what every transport has to do, as tests: one suite that any transport passes, and one for those that speak HTTP to
// a server.
package wiretest

import (
	"bytes"
	"strconv"
	"sync"
	"testing"
	"time"

	"prefire/loadgen/wire"
)

// Parser reads the toy answers of these tests: each event's data is a letter, a colon and a text. c content, r reasoning, t tool, f finish
// reason, u usage, e error; anything else but an empty text is malformed. "r:think|c:say" has two parts.
type Parser struct{}

// Event reads one event.
func (Parser) Event(name, data []byte, d *wire.Delta) wire.Class {
	if bytes.EqualFold(name, []byte("error")) {
		d.Message = data
		return wire.Fault
	}
	class := wire.Other
	for len(data) > 0 {
		part, rest, _ := bytes.Cut(data, []byte("|"))
		data = rest
		if len(part) < 2 || part[1] != ':' {
			return wire.Malformed
		}
		text := part[2:]
		switch part[0] {
		case 'c':
			d.Content = text
			if len(text) > 0 {
				class = wire.Content
			}
		case 'r':
			d.Reasoning = text
			if class == wire.Other {
				class = wire.Reasoning
			}
		case 't':
			d.Tool = text
			class = wire.Tool
		case 'f':
			d.Finish = text
			if class == wire.Other {
				class = wire.Finish
			}
		case 'u':
			d.Usage = text
			if class == wire.Other {
				class = wire.UsageOnly
			}
		case 'e':
			d.Message = text
			return wire.Fault
		default:
			return wire.Malformed
		}
	}
	return class
}

// Body reads a whole answer: the same letters.
func (p Parser) Body(data []byte, d *wire.Delta) wire.Class { return p.Event(nil, data, d) }

// Watch is an Observer that keeps the order of what it is told, and fails the test where the rules of wire.Observer are broken.
type Watch struct {
	T     *testing.T
	Seen  chan *wire.Call // each First
	Ended chan *wire.Call // each Done

	mu    sync.Mutex
	state map[*wire.Call]string
}

// NewWatch makes a Watch with room for n calls, each used some times.
func NewWatch(t *testing.T, n int) *Watch {
	return &Watch{T: t, Seen: make(chan *wire.Call, n+64), Ended: make(chan *wire.Call, n+64), state: map[*wire.Call]string{}}
}

// First notes the first content.
func (w *Watch) First(c *wire.Call) {
	w.mu.Lock()
	if s := w.state[c]; s != "" {
		w.T.Errorf("First is called after %q", s)
	}
	w.state[c] = "first"
	w.mu.Unlock()
	if len(c.Chunks) == 0 || c.Facts.Status < 200 || c.Facts.Status > 299 {
		w.T.Errorf("First is called with status %d and %d chunks", c.Facts.Status, len(c.Chunks))
	}
	w.Seen <- c
}

// Done notes the end; the call may be started again afterwards.
func (w *Watch) Done(c *wire.Call) {
	w.mu.Lock()
	first := w.state[c] == "first"
	delete(w.state, c)
	w.mu.Unlock()
	// After a call was sent again without an answer its chunks begin anew, so First and chunks always go together.
	if first != (len(c.Chunks) > 0) {
		w.T.Errorf("at Done there are %d chunks, and First was called: %v", len(c.Chunks), first)
	}
	w.Ended <- c
}

// Patience is how long a test waits for what must come; it only bounds a broken transport.
const Patience = 20 * time.Second

// Wait takes one value from ch.
func Wait[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// NewCall makes a call of the toy protocol.
func NewCall(target *wire.Target, w *Watch, body string) *wire.Call {
	return &wire.Call{Target: target, Body: []byte(body), Parser: Parser{}, Obs: w, Keep: wire.KeepText}
}

// Event is a toy event as it stands on the wire.
func Event(data string) string { return "data: " + data + "\n\n" }

// Events are n content events a, b, c…, the finish and [DONE], each a part of its own.
func Events(n int) []string {
	var out []string
	for i := range n {
		out = append(out, Event("c:"+strconv.Itoa(i)+" "))
	}
	return append(out, Event("f:stop"), Event("[DONE]"))
}
