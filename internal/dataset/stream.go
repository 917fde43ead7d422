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
	closed chan struct{}

	// With turn:
	head  int64 // the next prompt
	asked int64 // tokens that were ever in room
	ahead int   // how many prompts may be begun from head on
	most  int   // how many that may become
	total int64 // how many will be taken; 0 = not known
}

func newStream(s *Source, number, workers int) *stream {
	const bytesPerToken = 6 // of English text, a little over
	room, most := float64(aheadBytes), aheadPrompts
	if s.o.Count != nil {
		workers, room, most = countedWorkers, countedBytes, countedPrompts
	}
	size := int(room / (bytesPerToken * max(s.middle(), 1)))
	size = min(max(size, workers), most)
	t := &stream{
		source: s, ring: make([]chan prompt, size), room: make(chan struct{}, size), turn: make(chan struct{}, 1), closed: s.closed, ahead: 1, most: size,
	}
	for i := range t.ring {
		t.ring[i] = make(chan prompt, 1)
	}
	if number == 0 && s.o.Count != nil {
		t.ahead, t.most = 0, 0 // of the prewarm: nothing is counted beside a load that will not be needed
	}
	t.ask(0)
	t.turn <- struct{}{}
	for range workers {
		s.workers.Go(func() { t.work(number) })
	}
	return t
}

// ask lets the prompts that are to be ahead be begun, and the next least ones though they are beyond the total. Room has space for them: no
// more than a ring of them are ever between head and asked.
func (t *stream) ask(least int64) {
	until := t.head + int64(t.ahead)
	if t.total > 0 {
		until = min(until, t.total)
	}
	for until = max(until, t.head+least); t.asked < until; t.asked++ {
		t.room <- struct{}{}
	}
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

// lock waits for turn.
func (t *stream) lock(ctx context.Context) error {
	select {
	case <-t.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case <-t.turn:
		return nil
	}
}

// wait waits for the i-th prompt from head on; it takes it out of its place. With turn.
func (t *stream) wait(ctx context.Context, i int) (prompt, error) {
	select {
	case <-t.closed:
		return prompt{}, ErrClosed
	case <-ctx.Done():
		return prompt{}, ctx.Err()
	case p := <-t.place(i):
		return p, nil
	}
}

func (t *stream) place(i int) chan prompt { return t.ring[(t.head+int64(i))%int64(len(t.ring))] }

func (t *stream) next(ctx context.Context) (prompt, error) {
	if err := t.lock(ctx); err != nil {
		return prompt{}, err
	}
	defer func() { t.turn <- struct{}{} }()
	t.ask(1)
	p, err := t.wait(ctx, 0)
	if err != nil {
		return p, err
	}
	t.head++
	t.ahead = min(t.ahead+1, t.most)
	t.ask(0)
	return p, p.err
}

// fill is [Source.Ahead].
func (t *stream) fill(ctx context.Context, total int64) (int, error) {
	if err := t.lock(ctx); err != nil {
		return 0, err
	}
	defer func() { t.turn <- struct{}{} }()
	t.total = total
	t.most = min(len(t.ring), aheadPrompts)
	if total > 0 {
		t.most = int(min(int64(len(t.ring)), total))
	}
	t.ahead = t.most
	t.ask(0)
	ready := int(t.asked - t.head)
	for i := range ready {
		p, err := t.wait(ctx, i)
		if err != nil {
			return i, err
		}
		t.place(i) <- p // nothing is begun for a place before its prompt is taken
		if p.err != nil {
			return i, p.err
		}
	}
	return ready, nil
}
