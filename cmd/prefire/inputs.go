package main

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"prefire/internal/export"
	"prefire/loadgen"
)

// Bounds of what inputs.json holds in memory.
const (
	// outOfOrder is how many bytes may wait for a request that stands before them; then they go into the file before it.
	outOfOrder = 32 << 20
	// sparePieces and spareSize are how many copies of bodies are kept for the next ones, and how long one may be.
	sparePieces, spareSize = 64, 64 << 10
)

// inputsFile writes inputs.json in the order of phases and request numbers, from what many workers issue at once. Writing is its own
// goroutine's work; past the file's limit nothing is copied any more.
type inputsFile struct {
	out    *export.Inputs
	stream *export.Stream

	mu      sync.Mutex
	cond    *sync.Cond
	pending map[place]input
	waiting int // bytes in pending
	next    place
	ended   int   // phases that issue no more
	copied  int64 // bytes of all bodies so far
	full    bool  // the file's limit is reached, or it cannot be written
	leftOut int64 // requests not copied any more
	closed  bool
	spare   [][]byte // to be copied into
	done    chan struct{}

	err error // the writer's own
}

// place is where a request stands in the file.
type place struct {
	phase int
	seq   int64
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.phase, q.phase), cmp.Compare(p.seq, q.seq))
}

type input struct {
	session string
	body    []byte
}

func newInputs(s *export.Stream) *inputsFile {
	f := &inputsFile{out: export.NewInputs(s, 0), stream: s, pending: map[place]input{}, done: make(chan struct{})}
	f.cond = sync.NewCond(&f.mu)
	go f.run()
	return f
}

// add takes a request that is about to be sent.
func (f *inputsFile) add(s loadgen.Stream, seq int64, session string, body []byte) {
	into, ok := f.room(len(body))
	if !ok {
		return
	}
	into = append(into, body...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		f.leftOut++
		return
	}
	f.pending[place{s.Phase, seq}] = input{session, into}
	f.waiting += len(into)
	f.cond.Signal()
}

// room gives memory to copy a body into. It reports false where the file has no room for the body: it holds the bodies and more.
func (f *inputsFile) room(size int) (into []byte, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.copied += int64(size)
	if f.full = f.full || f.copied > export.InputsLimit; f.full {
		f.leftOut++
		return nil, false
	}
	if n := len(f.spare); n > 0 {
		into, f.spare = f.spare[n-1], f.spare[:n-1]
	}
	return into[:0], true
}

// phaseDone says that a phase has issued its last request, so that the next phase's follow.
func (f *inputsFile) phaseDone(phase int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = phase + 1
	f.cond.Signal()
}

// take moves what stands next in order out of pending; mu is held.
func (f *inputsFile) take(ready []input) []input {
	for {
		in, ok := f.pending[f.next]
		switch {
		case ok:
			ready = f.move(ready, f.next, in)
			f.next.seq++
		case f.next.phase < f.ended:
			ready = f.takeAll(ready, func(p place) bool { return p.phase <= f.next.phase })
			f.next = place{phase: f.next.phase + 1}
		case f.closed || f.waiting > outOfOrder:
			return f.takeAll(ready, func(place) bool { return true })
		default:
			return ready
		}
	}
}

// takeAll moves the requests of these places out of pending, in order, though some before them are missing: those failed before they were
// sent, or have not come yet. mu is held.
func (f *inputsFile) takeAll(ready []input, of func(place) bool) []input {
	for _, p := range slices.SortedFunc(maps.Keys(f.pending), place.compare) {
		if of(p) {
			ready = f.move(ready, p, f.pending[p])
			f.next = place{p.phase, p.seq + 1}
		}
	}
	return ready
}

func (f *inputsFile) move(ready []input, p place, in input) []input {
	delete(f.pending, p)
	f.waiting -= len(in.body)
	return append(ready, in)
}

func (f *inputsFile) run() {
	defer close(f.done)
	var ready []input
	for {
		f.mu.Lock()
		f.reuse(ready)
		ready = f.take(ready[:0])
		for len(ready) == 0 && !f.closed {
			f.cond.Wait()
			ready = f.take(ready)
		}
		f.mu.Unlock()
		if len(ready) == 0 {
			return
		}
		for _, in := range ready {
			if err := f.out.Add(in.session, in.body); err != nil && f.err == nil {
				f.err = err
			}
		}
		if f.err != nil || f.out.Truncated() > 0 {
			f.mu.Lock()
			f.full = true
			f.leftOut += int64(len(f.pending))
			clear(f.pending)
			f.waiting, f.spare = 0, nil
			f.mu.Unlock()
		}
	}
}

// reuse keeps the memory of bodies that are written; mu is held.
func (f *inputsFile) reuse(written []input) {
	for i := range written {
		if body := written[i].body; !f.full && len(f.spare) < sparePieces && cap(body) <= spareSize {
			f.spare = append(f.spare, body)
		}
	}
	clear(written)
}

// close writes the end of the file and puts it in its place.
func (f *inputsFile) close() error {
	f.mu.Lock()
	f.closed = true
	f.cond.Signal()
	f.mu.Unlock()
	<-f.done
	f.out.LeaveOut(f.leftOut)
	if err := f.out.Close(); err != nil && f.err == nil {
		f.err = err
	}
	if err := f.stream.Close(); err != nil && f.err == nil {
		f.err = err
	}
	return f.err
}
