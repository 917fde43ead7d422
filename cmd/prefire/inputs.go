package main

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"prefire/internal/export"
	"prefire/loadgen"
)

// inputsFile writes inputs.json in the order of phases and request numbers, from what many workers issue at once. Writing is its own
// goroutine's work; past the file's limit nothing is copied any more.
type inputsFile struct {
	out    *export.Inputs
	stream *export.Stream

	mu      sync.Mutex
	cond    *sync.Cond
	pending map[place]input
	next    place
	ended   int   // phases that issue no more
	full    bool  // the file's limit is reached, or it cannot be written
	leftOut int64 // requests not copied any more
	closed  bool
	done    chan struct{}

	err error // the writer's own
}

// place is where a request stands in the file.
type place struct {
	phase int
	seq   int64
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
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		f.leftOut++
		return
	}
	f.pending[place{s.Phase, seq}] = input{session, append([]byte(nil), body...)}
	f.cond.Signal()
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
			delete(f.pending, f.next)
			f.next.seq++
			ready = append(ready, in)
		case f.next.phase < f.ended:
			f.next = place{phase: f.next.phase + 1}
		case f.closed && len(f.pending) > 0: // a request that failed before it was sent left a gap
			f.next = slices.MinFunc(slices.Collect(maps.Keys(f.pending)), func(a, b place) int {
				return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.seq, b.seq))
			})
		default:
			return ready
		}
	}
}

func (f *inputsFile) run() {
	defer close(f.done)
	var ready []input
	for {
		f.mu.Lock()
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
			f.mu.Unlock()
		}
	}
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
