// Package dashboard shows a run in a terminal while it goes on. It draws what it is given and asks nobody: the state comes as a snapshot.
package dashboard

import (
	"math"

	"prefire/metrics"
)

// State is a run at one moment.
type State struct {
	Title string // model and address
	Phase string // "" before the first one
	// Index and Phases say which phase of how many this is, from 1.
	Index, Phases int
	At            float64 // s since the program's start
	Elapsed       float64 // s since the phase's start
	// The phase ends at Requests, or after Seconds; 0 = by something else.
	Requests int64
	Seconds  float64
	Returned int64
	InFlight int64
	Asked    int // sessions at once; 0 = not asked for
	Draining bool

	metrics.Snapshot
	Errors []metrics.ErrorCount
	Client Client
}

// Client is the client's own part. A share of -1 is not known.
type Client struct {
	Transport      string
	Cores          int
	Share, Machine float64 // of all cores, 0 to 1
	Connections    int
}

// sample is one second of the run, for the small curves. NaN = nothing to say.
type sample struct{ requests, output, input, inFlight, ttft, itl, latency float64 }

// samples is how many seconds the curves go back.
const samples = 240

// history is what the curves are made of.
type history struct {
	list []sample
	last State
	now  sample // the last whole second's
}

// observe takes a state. What lies between two states at least a second apart is one sample.
func (h *history) observe(s *State) {
	if s.Phase != h.last.Phase || s.Index != h.last.Index {
		h.list, h.last = nil, State{Phase: s.Phase, Index: s.Index, At: s.At - s.Elapsed}
		h.now = sample{}
	}
	seconds := s.At - h.last.At
	if s.Phase == "" || seconds < 1 {
		return
	}
	mean := func(now, before *metrics.Watched) float64 {
		if now.Count == before.Count {
			return math.NaN()
		}
		return (now.Sum - before.Sum) / float64(now.Count-before.Count)
	}
	b := &h.last
	done := func(s *State) float64 { return float64(s.OK + s.Failed + s.Cancelled) }
	h.now = sample{
		requests: (done(s) - done(b)) / seconds, output: (s.Output - b.Output) / seconds, input: (s.Input - b.Input) / seconds, inFlight: float64(s.InFlight),
		ttft: mean(&s.TTFT, &b.TTFT), itl: mean(&s.ITL, &b.ITL), latency: mean(&s.Latency, &b.Latency),
	}
	if len(h.list) == samples {
		h.list = append(h.list[:0], h.list[1:]...)
	}
	h.list, h.last = append(h.list, h.now), *s
}

// curve is one figure of the samples.
func (h *history) curve(of func(*sample) float64) []float64 {
	out := make([]float64, len(h.list))
	for i := range h.list {
		out[i] = of(&h.list[i])
	}
	return out
}
