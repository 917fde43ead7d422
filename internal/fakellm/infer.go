package fakellm

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
)

// infer answers an inference.
func (s *Server) infer(x *exchange, a api) {
	j, bad := s.accept(a, x.r.Header.Get("Content-Type"), x.body)
	x.body = nil
	if bad != nil {
		x.fail(bad)
		return
	}
	e := &x.entry
	e.Model, e.PromptTokens, e.PromptSHA256 = j.model, j.prompt(), hex.EncodeToString(j.hash[:])
	ticket, inFlight, most := s.load.enter(s.o.Refuse != 0)
	if ticket == nil {
		s.stats.rejected()
		x.fail(busy(s.o.Refuse))
		return
	}
	defer s.load.leave(ticket)
	e.InFlight, e.MaxInFlight = inFlight, most

	script := newScript(x.fault)
	script.apply(j)
	shape := newShape(x, j)
	shape.reasoning, shape.field, shape.tool, shape.pad = script.reasoning, script.field, script.tool, script.pad
	g := generation{x: x, j: j, shape: shape, ticket: ticket, script: script}
	defer func() { e.OutputTokens = g.tokens * len(j.prompts) }()
	if j.stream {
		// vLLM sends the head when it has taken the request in, long before the first token, and before the request has a slot.
		h := x.w.Header()
		h.Set("Content-Type", cmp.Or(script.contentType, "text/event-stream; charset=utf-8"))
		if script.place < 0 && script.run(&g, -1) != nil {
			g.broken()
			return
		}
		e.Status = http.StatusOK
		x.write(WriteHead, s.clock.Now(), func() error {
			x.w.WriteHeader(http.StatusOK)
			return nil
		})
		x.direct = s.direct(x)
		x.entry.Writes = slices.Grow(x.entry.Writes, j.tokens()/s.o.TokensPerChunk*len(j.prompts)+4)
		if script.earlyRole && j.api == chats {
			_ = g.emit(WriteRole, s.clock.Now(), shape.role())
		}
	}
	p, err := s.schedule(x, j, ticket)
	if err != nil {
		s.finished(reasonAbort, j, 0, 0)
		return
	}
	e.TTFTNS = p.first - x.begun
	g.p = p
	switch {
	case j.api == embeddings:
		err = g.vectors()
	case j.stream:
		err = g.stream()
	default:
		err = g.whole()
	}
	reason := shape.reason
	if errors.Is(err, errFault) {
		g.broken()
		return
	}
	if err == nil {
		x.complete()
	} else {
		reason = reasonAbort
	}
	s.finished(reason, j, g.tokens, float64(s.clock.Now()-x.begun)/1e9)
}

// finished counts the end of a request: to vLLM's engine each of its prompts is one.
func (s *Server) finished(reason string, j *job, tokens int, seconds float64) {
	for _, prompt := range j.prompts {
		s.stats.finished(reason, prompt, tokens, seconds)
	}
}

// busy is the answer where there is no slot. 503 has vLLM's words; vLLM itself never answers 429, but gateways before it do.
func busy(status int) *apiError {
	return &apiError{status, http.StatusText(status), "",
		"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."}
}

// pace is when the tokens of one answer are due.
type pace struct {
	first   int64
	itl     float64 // ns
	jitter  float64
	rng     *rand.Rand
	spread  float64 // sum of the gaps' jitter so far, in ITLs
	passed  int     // tokens that spread covers
	stall   int64   // after stallAt tokens
	stallAt int
}

// at is when token k, from 0, is due. It is called with growing k.
func (p *pace) at(k int) int64 {
	for ; p.passed < k && p.jitter > 0; p.passed++ {
		p.spread += p.jitter * (2*p.rng.Float64() - 1)
	}
	at := p.first + int64((float64(k)+p.spread)*p.itl)
	if k >= p.stallAt {
		at += p.stall
	}
	return at
}

// schedule waits for a slot and fixes when the first token is due.
func (s *Server) schedule(x *exchange, j *job, t *ticket) (*pace, error) {
	granted, err := s.load.await(x.r.Context(), t)
	if err != nil {
		return nil, err
	}
	// Where a slot was free, TTFT counts from arrival all the same: reading the request and counting its tokens are part of it.
	start := x.base
	if t.waited {
		start = max(start, granted)
	}
	x.entry.QueuedNS = start - x.base
	start = s.cold.after(start, int64(s.o.ColdInference))
	x.entry.StartNS = s.wall(start)
	rng := rand.New(rand.NewPCG(s.o.Seed, binary.LittleEndian.Uint64(j.hash[:])))
	ttft := float64(s.o.TTFT) + float64(j.prompt())*float64(s.o.PrefillPerToken)
	if s.o.Knee > 0 && j.prompt() >= s.o.Knee {
		ttft *= s.o.KneeFactor
	}
	if s.o.Jitter > 0 {
		ttft *= 1 + s.o.Jitter*(2*rng.Float64()-1)
	}
	return &pace{first: start + int64(ttft), itl: float64(s.o.ITL), jitter: s.o.Jitter, rng: rng,
		stall: int64(s.o.Stall), stallAt: s.o.StallAfter}, nil
}

// coldStart holds all inferences until the first one's extra time is over.
type coldStart struct {
	mu    sync.Mutex
	until int64
}

func (c *coldStart) after(at, delay int64) int64 {
	if delay == 0 {
		return at
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == 0 {
		c.until = at + delay
	}
	return max(at, c.until)
}

// generation is the making of one answer.
type generation struct {
	x      *exchange
	j      *job
	p      *pace
	shape  *shape
	ticket *ticket
	script *script
	tokens int // that have been sent for each prompt, an end-of-sequence token counted
	last   int64

	// Of a stream.
	k      int   // the next token
	chunks int   // that have been sent
	due    int64 // when the last chunk was due, or the next one while the pacer has the stream
	ended  bool
	err    error // of the pacer
}

// next waits until token k is due, and returns when that was.
func (g *generation) next(ctx context.Context, k int) (int64, error) {
	due := g.p.at(k)
	return due, g.x.s.alarm.wait(ctx, due)
}

// stream sends the answer as events: a chat's role with the first token, a chunk for each step of each prompt, the last of which carries the
// finish reason, usage where it is asked for, and [DONE].
func (g *generation) stream() error {
	for !g.ended {
		if err := g.advance(); err != nil {
			return err
		}
	}
	return g.x.err
}

// advance waits for what comes next, and sends it.
func (g *generation) advance() error {
	if g.k == g.j.tokens() {
		return g.finish()
	}
	if g.x.direct != nil {
		// A stream that has fallen behind lets others go before it; one that has no gaps is its own goroutine's.
		if due := g.p.at(g.k); due > g.x.s.clock.Now() || g.k > 0 && g.p.itl > 0 {
			return g.paced(due)
		}
	}
	due, err := g.await(g.k)
	if err != nil {
		return err
	}
	return g.chunk(due)
}

// chunk sends the next step of each prompt.
func (g *generation) chunk(due int64) error {
	s, sc, k := g.x.s, g.script, g.k
	g.shape.half = wholeText
	n := sc.step(s.o.TokensPerChunk, g.j.tokens()-k)
	if err := sc.run(g, g.chunks); err != nil {
		return err
	}
	if sc.hook != nil { // it may have moved what is still due
		var err error
		if due, err = g.await(k); err != nil {
			return err
		}
	}
	g.due = due
	last := k+n == g.j.tokens()
	if last {
		// The engine is done with the request when it has its last token, before the front has written it.
		s.load.leave(g.ticket)
	}
	if k == 0 && g.j.api == chats && !sc.earlyRole {
		if err := g.emit(WriteRole, due, g.shape.role()); err != nil {
			return err
		}
	}
	if sc.noTokens {
		n = g.j.tokens()
		last = true
		s.load.leave(g.ticket)
	} else {
		g.step(k, n)
	}
	kind := WriteContent
	if last {
		kind = WriteFinish
	}
	if sc.tokens == "halves" && n == 1 {
		g.shape.half = firstHalf
		if err := g.contents(WriteContent, due, k, n, false); err != nil {
			return err
		}
		g.shape.half = secondHalf
	}
	if sc.noTokens {
		g.shape.half = noText
	}
	if err := g.contents(kind, due, k, n, last && !sc.noFinish); err != nil {
		return err
	}
	g.k, g.chunks = k+n, g.chunks+1
	return nil
}

// contents sends the chunk of n tokens from k on of each prompt.
func (g *generation) contents(kind string, due int64, k, n int, last bool) error {
	for choice := range g.j.prompts {
		if err := g.emit(kind, due, g.shape.content(g.x.s.words, choice, k, n, last)); err != nil {
			return err
		}
	}
	return nil
}

// finish sends what follows the last token.
func (g *generation) finish() error {
	x, sc, due := g.x, g.script, g.due
	g.ended = true
	if sc.tail > 0 {
		due += int64(sc.tail)
		if err := x.s.alarm.wait(x.r.Context(), due); err != nil {
			return err
		}
	}
	var parts []string
	if g.j.usage && sc.usage != "late" {
		parts = append(parts, WriteUsage)
	}
	if !sc.noDone {
		parts = append(parts, WriteDone)
	}
	if g.j.usage && sc.usage == "late" {
		parts = append(parts, WriteUsage)
	}
	for _, kind := range parts {
		event := g.shape.done
		if kind == WriteUsage {
			event = func() []byte { return g.shape.usage(g.tokens * len(g.j.prompts)) }
			if sc.usage == "twice" {
				if err := g.emit(kind, due, g.shape.usage(g.tokens*len(g.j.prompts)/2)); err != nil {
					return err
				}
			}
		}
		if err := g.emit(kind, due, event()); err != nil {
			return err
		}
	}
	if err := g.flushHeld(); err != nil {
		return err
	}
	if sc.after != nil {
		sc.after(x)
	}
	return x.err
}

// broken notes that a fault ended the answer.
func (g *generation) broken() {
	x := g.x
	x.entry.Ended = EndedFault
	x.abort = x.abort || !g.script.done && !x.hijacked
	x.s.finished(reasonAbort, g.j, g.tokens, 0)
}

// step notes that n tokens from k on have been made.
func (g *generation) step(k, n int) {
	now := g.x.s.clock.Now()
	for _, prompt := range g.j.prompts {
		if k == 0 {
			g.x.s.stats.first(float64(now-g.x.begun)/1e9, prompt, n)
		} else {
			g.x.s.stats.next(float64(now-g.last)/1e9, n)
		}
	}
	g.last, g.tokens = now, k+n
}

// whole sends the answer in one piece when its last token is due.
func (g *generation) whole() error {
	x, s := g.x, g.x.s
	step := s.o.TokensPerChunk
	for k := 0; k < g.j.tokens(); k += step {
		due, err := g.next(x.r.Context(), k)
		if err != nil {
			return err
		}
		n := min(step, g.j.tokens()-k)
		g.step(k, n)
		if k+n == g.j.tokens() {
			s.load.leave(g.ticket)
			x.whole(due, g.shape.whole(s.words))
		}
	}
	return x.err
}

// vectors sends the embeddings of all texts, when the prompt has been taken in.
func (g *generation) vectors() error {
	x, s := g.x, g.x.s
	due, err := g.next(x.r.Context(), 0)
	if err != nil {
		return err
	}
	g.step(0, 0)
	s.load.leave(g.ticket)
	x.whole(due, g.shape.vectors())
	return x.err
}

// event writes one event of a stream.
func (x *exchange) event(kind string, due int64, data []byte) {
	if x.direct != nil {
		x.send(kind, due, data)
		return
	}
	x.write(kind, due, func() error {
		n, err := x.w.Write(data)
		x.entry.Bytes += int64(n)
		return err
	})
}

func (x *exchange) whole(due int64, body []byte) {
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", fmt.Sprint(len(body)))
	x.entry.Status = http.StatusOK
	x.event(WriteAnswer, due, body)
}
