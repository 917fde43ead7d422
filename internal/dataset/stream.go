package dataset

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrClosed is what Next gives after Close.
var ErrClosed = errors.New("dataset: closed")

// aheadBytes and aheadPrompts bound the prompts that a stream holds made.
const (
	aheadBytes   = 8 << 20
	aheadPrompts = 256
)

// stream makes the prompts of one stream ahead of need, and hands them out in order. How far ahead grows by one with every prompt taken, up
// to the size of the ring, so that a stream of which one prompt is wanted makes two more, not hundreds.
type stream struct {
	source *Source
	ring   []chan prompt // prompt i comes through ring[i%len(ring)]
	room   chan struct{} // a token for every prompt that may be begun
	begun  atomic.Int64  // prompts begun
	turn   chan struct{} // held by the caller whose prompt is next
	head   int64         // the next prompt; with turn
	ahead  int           // tokens in use and in room; with turn
	closed chan struct{}
}

func newStream(s *Source, number, workers int) *stream {
	const bytesPerToken = 6 // of English text, a little over
	size := int(aheadBytes / (bytesPerToken * max(s.middle(), 1)))
	size = min(max(size, workers), aheadPrompts)
	t := &stream{
		source: s, ring: make([]chan prompt, size), room: make(chan struct{}, size), turn: make(chan struct{}, 1), ahead: 1, closed: s.closed,
	}
	for i := range t.ring {
		t.ring[i] = make(chan prompt, 1)
	}
	t.room <- struct{}{}
	t.turn <- struct{}{}
	for range workers {
		s.workers.Go(func() { t.work(number) })
	}
	return t
}

// work makes prompts while there is room for them. The place in the ring is always free: a token comes back only when the prompt before
// in that place, and all prompts before that one, were taken.
func (t *stream) work(number int) {
	m := t.source.newMaker()
	for {
		select {
		case <-t.closed:
			return
		case <-t.room:
		}
		i := t.begun.Add(1) - 1
		t.ring[i%int64(len(t.ring))] <- m.make(number, i)
	}
}

func (t *stream) next(ctx context.Context) (prompt, error) {
	select {
	case <-t.closed:
		return prompt{}, ErrClosed
	case <-ctx.Done():
		return prompt{}, ctx.Err()
	case <-t.turn:
	}
	defer func() { t.turn <- struct{}{} }()
	select {
	case <-t.closed:
		return prompt{}, ErrClosed
	case <-ctx.Done():
		return prompt{}, ctx.Err()
	case p := <-t.ring[t.head%int64(len(t.ring))]:
		t.head++
		t.room <- struct{}{}
		if t.ahead < len(t.ring) {
			t.ahead++
			t.room <- struct{}{}
		}
		return p, p.err
	}
}
