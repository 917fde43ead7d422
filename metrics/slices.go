package metrics

import (
	"errors"
	"math"
	"sync"
)

// Bounds of what slices hold in memory.
const (
	maxHeld   = 4096   // records that wait until it is known where the first slice begins
	maxSlices = 10_000 // slices, each about 10 KiB
)

// Slice is a slice of a run: the requests that started in it, and the curves while it lasted.
type Slice struct {
	Window
	Complete bool // the run went on until its end
	Results  []Result
}

// Slices divides the measured requests of a run by the time of their start, into slices of one width from the first start on. One goroutine
// adds. A slice's values are given up for its results as soon as no request that started in it can be in flight any more.
type Slices struct {
	mu    sync.Mutex
	o     Options
	defs  []*Def
	most  int // slices
	width int64
	held  []Record // until the origin is known
	from  int64    // where the first slice begins; 0 = not known yet
	end   int64    // of the last request
	open  map[int64]*Accumulator
	shut  map[int64][]Result
	left  int64 // records for which there was no room
	seen  watermark
}

// NewSlices returns slices of so many ns, at least 1.
func NewSlices(o Options, width int64) *Slices {
	o.HDR = false
	return &Slices{o: o, defs: o.Table(), most: maxSlices, width: max(width, 1), open: map[int64]*Accumulator{}, shut: map[int64][]Result{}}
}

// Add takes one record. A censored one is in no slice.
func (s *Slices) Add(r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.done(r)
	if r.Censored || r.Start == 0 {
		return
	}
	s.end = max(s.end, r.Start, r.End)
	if s.from != 0 {
		s.take(r)
		return
	}
	s.held = append(s.held, *r)
	if r.Seq == 0 || len(s.held) == maxHeld {
		s.begin()
	}
}

// begin puts the first slice where the first of the held requests started.
func (s *Slices) begin() {
	for i := range s.held {
		if at := s.held[i].Start; s.from == 0 || at < s.from {
			s.from = at
		}
	}
	for i := range s.held {
		s.take(&s.held[i])
	}
	s.held = nil
}

func (s *Slices) take(r *Record) {
	k := max(r.Start-s.from, 0) / s.width
	a := s.open[k]
	switch {
	case a != nil:
	case s.shut[k] != nil, len(s.open)+len(s.shut) == s.most:
		s.left++
		return
	default:
		a = newAccumulator(s.o, s.defs)
		s.open[k] = a
	}
	a.Add(r)
	// What the network takes is known at the end of the run alone.
	if low := s.seen.low; low != 0 && !s.o.Network {
		for k, a := range s.open {
			if s.window(k).End <= low {
				s.shut[k] = s.results(k, a)
				delete(s.open, k)
			}
		}
	}
}

func (s *Slices) window(k int64) Window { return Window{s.from + k*s.width, s.from + (k+1)*s.width} }

// results are those of one slice, but for the curves.
func (s *Slices) results(k int64, a *Accumulator) []Result {
	w := s.window(k)
	w.End = min(w.End, max(s.end, w.Start+1))
	var out []Result
	for _, r := range a.results([]Window{w}, func(*Def) (Result, bool) { return Result{}, false }) {
		if !r.Def.Has(RunOnly) {
			out = append(out, r)
		}
	}
	return out
}

// Results are the slices in which a request started, in order, where whole has taken the same records: the curves are its. No record may be
// added afterwards.
func (s *Slices) Results(whole *Accumulator) ([]Slice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole.mu.Lock()
	defer whole.mu.Unlock()
	if whole.curves == nil {
		return nil, errors.New("metrics: the accumulator beside the slices has no curves")
	}
	s.begin()
	for k, a := range s.open {
		a.network = whole.network
		s.shut[k] = s.results(k, a)
	}
	clear(s.open)
	all := whole.curves.stretches()
	var out []Slice
	for k := int64(0); len(s.shut) > 0; k++ {
		results, ok := s.shut[k]
		if !ok {
			continue
		}
		delete(s.shut, k)
		one := Slice{Window: s.window(k), Complete: s.window(k).End <= s.end, Results: results}
		one.End = min(one.End, s.end)
		for _, d := range whole.defs {
			if d.Shape == Curve {
				if r, ok := whole.curves.result(d, all, one.Window); ok {
					one.Results = append(one.Results, r)
				}
			}
		}
		out = append(out, one)
	}
	whole.curves.parts = nil
	return out, nil
}

// Left is how many requests are in no slice, since there were too many slices.
func (s *Slices) Left() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// watermark knows the time before which all requests of a phase that were issued have ended: numbers are given in the order of issue. A
// second phase ends what it knows.
type watermark struct {
	low   int64 // 0 = not known
	next  int64
	phase int32
	begun bool
	ahead map[int64]int64 // issue times of those that have ended, from next on
}

func (w *watermark) done(r *Record) {
	switch {
	case !w.begun:
		w.begun, w.phase, w.ahead = true, r.Phase, map[int64]int64{}
	case w.phase != r.Phase:
		w.next, w.ahead, w.low = math.MaxInt64, nil, 0
	}
	if r.Seq < w.next || w.ahead == nil {
		return
	}
	w.ahead[r.Seq] = r.Issued
	for {
		at, ok := w.ahead[w.next]
		if !ok {
			return
		}
		delete(w.ahead, w.next)
		w.next, w.low = w.next+1, at
	}
}
