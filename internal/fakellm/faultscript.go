package fakellm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"prefire/sse"
)

// errFault ends an answer as its fault asks.
var errFault = errors.New("ended by a fault")

// script is what a stream does otherwise than it should. The zero value is the usual stream.
type script struct {
	place int                       // content chunks before hook; below 0: before the head
	hook  func(g *generation) error // errFault ends the answer

	earlyRole                  bool
	noDone, noFinish, noTokens bool
	tail                       time.Duration // before usage and [DONE]
	ping                       time.Duration // between comments before the first token
	after                      func(x *exchange)
	edits                      []func(first bool, event []byte) []byte
	contentType                string
	split, together, pad       int
	length                     int    // of the answer, in tokens; 0 = as asked
	tokens                     string // "", varying, all, halves
	reasoning                  int    // tokens of it in front
	field                      string // of reasoning
	tool                       bool
	usage                      string
	started, placed, done      bool // done: the body ends properly, however short the answer is

	held []heldEvent // written together
	rng  *rand.Rand
}

type heldEvent struct {
	kind string
	due  int64
	data []byte
}

func newScript(f *Fault) *script {
	s := &script{place: math.MaxInt}
	if f != nil && f.kind.script != nil {
		f.kind.script(f, s)
	}
	return s
}

// at has hook run before content chunk number place, from 0; below 0: before the head.
func (s *script) at(place int, hook func(g *generation) error) { s.place, s.hook = place, hook }

// run runs the hook where this is its place.
func (s *script) run(g *generation, chunk int) error {
	if s.hook == nil || s.placed || chunk < s.place {
		return nil
	}
	s.placed = true
	if err := g.flushHeld(); err != nil {
		return err
	}
	return s.hook(g)
}

// apply changes what was asked for.
func (s *script) apply(j *job) {
	s.rng = rand.New(rand.NewPCG(0x70ce, binary.LittleEndian.Uint64(j.hash[:])))
	if s.length > 0 {
		j.output = s.length
	}
	switch s.usage {
	case "none", "null":
		j.usage, j.continuous, j.null = false, false, s.usage == "null"
	case "cumulative":
		j.usage, j.continuous = true, true
	default:
		j.claim = s.usage
	}
}

// step is how many tokens the next chunk holds.
func (s *script) step(usual, left int) int {
	switch s.tokens {
	case "all":
		return left
	case "varying":
		return min(1+s.rng.IntN(5), left)
	}
	return min(usual, left)
}

func errorShapes() []string {
	return []string{"openai", "string", "object", "type", "numbered", "event", "event-text", "event-empty"}
}

// errorEvent is an error in a stream, of one of the shapes in use.
func errorEvent(shape string) []byte {
	event := func(name, data string) []byte { return sse.AppendEvent(nil, name, []byte(data)) }
	switch shape {
	case "string":
		return event("", `{"error":"the engine died"}`)
	case "object":
		return event("", `{"object":"error","message":"the engine died","type":"InternalServerError","param":null,"code":500}`)
	case "type":
		return event("", `{"type":"error","error":{"type":"overloaded_error","message":"the engine died"}}`)
	case "numbered":
		return event("", `{"error":{"message":"the engine died","code":"503"},"choices":[]}`)
	case "event":
		return event("error", `{"message":"the engine died","code":500}`)
	case "event-text":
		return event("error", "the engine died")
	case "event-empty":
		return []byte("event: error\n: the engine died\n\n")
	}
	return event("", `{"error":{"message":"the engine died","type":"InternalServerError","param":null,"code":500}}`)
}

func scriptError(f *Fault, s *script) {
	s.at(max(f.at, 0), func(g *generation) error {
		x := g.x
		x.event(WriteError, x.s.clock.Now(), errorEvent(f.how))
		x.event(WriteDone, x.s.clock.Now(), g.shape.done())
		x.entry.Ended = EndedFault
		g.script.done = true
		return errFault
	})
}

func scriptCut(f *Fault, s *script) {
	s.at(max(f.at, 0), func(g *generation) error {
		x := g.x
		if f.how == "half" || f.how == "half-fin" {
			x.event(WriteContent, x.s.clock.Now(), []byte(`data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" ha`))
		}
		x.entry.Ended = EndedFault
		x.handed()
		switch f.how {
		case "fin", "half-fin", "rst", "shut":
			x.lose(f.how)
		case "stall":
			blackHole(x)
		default:
			g.script.done = true
		}
		return errFault
	})
}

func scriptMalformed(f *Fault, s *script) {
	s.at(max(f.at, 0), func(g *generation) error {
		data := map[string]string{"text": "no JSON at all", "json": `{"object":"chat.completion.chunk","choices":[`, "shape": `{"object":"list","data":[]}`}[f.how]
		g.x.event(WriteComment, g.x.s.clock.Now(), sse.AppendEvent(nil, "", []byte(data)))
		return g.x.err
	})
}

func scriptStall(f *Fault, s *script) {
	s.at(max(f.at, 1), func(g *generation) error {
		g.p.first += int64(f.dur) // all that is still due comes so much later
		return nil
	})
}

// holdOpen keeps the body open until the client leaves.
func holdOpen(x *exchange) {
	blackHole(x)
	x.err = nil
	x.entry.Ended = EndedFault
}

// closeQuietly closes the connection, or (shut) the server's half of it, after an answer that promised to keep it.
func closeQuietly(how string) func(x *exchange) {
	return func(x *exchange) {
		c := x.hijackAfter()
		if c == nil {
			return
		}
		_, _ = c.Write([]byte("0\r\n\r\n")) // the last chunk of net/http's chunked body
		if how != "shut" {
			_ = c.Close()
			return
		}
		x.conn.shut()
		x.s.wg.Go(func() { // the answer is over, and its line of the log is due
			defer c.Close()
			defer context.AfterFunc(x.s.ctx, func() { _ = c.Close() })()
			_, _ = io.Copy(io.Discard, c) // until the client closes its half, or the server all
		})
	}
}

// hijackAfter takes the connection while the answer's body is still open.
func (x *exchange) hijackAfter() io.ReadWriteCloser {
	c, _, err := x.flush.Hijack()
	if err != nil {
		return nil
	}
	x.hijacked = true
	return c
}

// emit writes one event of the stream, or holds it to be written together with others.
func (g *generation) emit(kind string, due int64, event []byte) error {
	s := g.script
	for _, edit := range s.edits {
		event = edit(!s.started, event)
	}
	s.started = true
	if s.together > 0 {
		s.held = append(s.held, heldEvent{kind, due, slices.Clone(event)})
		if len(s.held) < s.together && kind != WriteDone && kind != WriteFinish {
			return g.x.err
		}
		return g.flushHeld()
	}
	g.write(kind, due, event)
	return g.x.err
}

// write writes an event, in pieces where it is split.
func (g *generation) write(kind string, due int64, event []byte) {
	x, n := g.x, g.script.split
	if n == 0 || n >= len(event) {
		x.event(kind, due, event)
		return
	}
	x.write(kind, due, func() error {
		for piece := range slices.Chunk(event, n) {
			sent, err := x.w.Write(piece)
			x.entry.Bytes += int64(sent)
			if err == nil {
				err = x.flush.Flush()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// flushHeld writes what is held in one write, which the log has for each of its events.
func (g *generation) flushHeld() error {
	s, x := g.script, g.x
	if len(s.held) == 0 {
		return x.err
	}
	var all []byte
	for i := range s.held {
		all = append(all, s.held[i].data...)
	}
	g.write(s.held[0].kind, s.held[0].due, all)
	first := x.entry.Writes[len(x.entry.Writes)-1]
	for _, h := range s.held[1:] {
		first.Kind, first.DueNS = h.kind, x.s.wall(h.due)
		x.entry.Writes = append(x.entry.Writes, first)
		if x.stream != 0 {
			x.upTo = append(x.upTo, x.entry.Bytes)
		}
	}
	s.held = s.held[:0]
	return x.err
}

// await waits for a token, with comments meanwhile where the script has them.
func (g *generation) await(k int) (due int64, err error) {
	x, s := g.x, g.script
	for s.ping > 0 && k == 0 {
		next := x.s.clock.Now() + int64(s.ping)
		if due = g.p.at(0); next >= due {
			break
		}
		if err := x.s.alarm.wait(x.r.Context(), next); err != nil {
			return due, err
		}
		x.event(WriteComment, next, []byte(": still here\n\n"))
	}
	return g.next(x.r.Context(), k)
}

// lineEnds writes events with other line ends.
func lineEnds(how string) func(bool, []byte) []byte {
	n := 0
	return func(_ bool, event []byte) []byte {
		var out []byte
		for _, c := range event {
			if c != '\n' {
				out = append(out, c)
				continue
			}
			end := how
			if how == "mixed" {
				end = [...]string{"crlf", "lf", "cr"}[n%3]
				// A CR before an LF would be one line end.
				if n++; end == "lf" && len(out) > 0 && out[len(out)-1] == '\r' {
					end = "cr"
				}
			}
			out = append(out, map[string]string{"lf": "\n", "crlf": "\r\n", "cr": "\r"}[end]...)
		}
		return out
	}
}

func noSpace(_ bool, event []byte) []byte {
	return bytes.ReplaceAll(event, []byte("data: "), []byte("data:"))
}

// twoDataLines breaks JSON after its first brace.
func twoDataLines(_ bool, event []byte) []byte {
	return bytes.Replace(event, []byte("data: {"), []byte("data: {\ndata: "), 1)
}

func moreFields(_ bool, event []byte) []byte {
	return append([]byte(": a comment\nid: 7\nretry: 1000\nevent: message\nunknown: field\n"), event...)
}

func mark(first bool, event []byte) []byte {
	if first {
		return append([]byte("\xef\xbb\xbf"), event...)
	}
	return event
}
