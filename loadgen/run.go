package loadgen

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"prefire/loadgen/wire"
)

// Deps are the ports a run works through.
type Deps struct {
	Clock     wire.Clock
	Transport wire.Transport
	Source    Source
	Endpoint  Endpoint
	Sink      Sink
	// NewID returns a new unique id, for requests and for sessions.
	NewID func() string
	// Header appends the fields that name one request.
	Header func(dst []wire.Field, requestID, correlationID string) []wire.Field
	// Progress is kept up to date for a live view.
	Progress *Progress
	// Stop is closed when the user asks the run to end: sending stops, what is in flight may finish within the grace.
	Stop <-chan struct{}
	// Before, where it is not nil, is called before a phase. Its error ends the run without that phase; after the user's stop it is none.
	Before func(ctx context.Context, phase int) error
	// OnPhase, where it is not nil, is told right before a phase begins (over is nil) and after its last request has returned. What over
	// points to stays as it is.
	OnPhase func(phase int, over *PhaseSummary)
}

// Summary is what the engine itself knows of a run.
type Summary struct {
	Prewarm PrewarmReport
	Phases  []PhaseSummary // of those that started
	Stopped bool           // the user ended the run
}

// PhaseSummary is what became of one phase. Sent = OK + Failed + Cancelled + Censored.
type PhaseSummary struct {
	Phase   Phase
	Index   int
	Start   int64 // right before its first request
	SendEnd int64 // when it stopped sending
	End     int64 // when its last request had returned
	Sent    int64
	OK      int64
	Failed  int64
	// Cancelled by plan; Censored: cut by the end of the grace or by the user.
	Cancelled, Censored int64
	Sessions            int64 // started
	Stopped             bool  // the user ended it
	Thought             bool  // a session thought between its turns
	InFlight            InFlight
	Load                LoadReport
}

// Run makes the plan's targets warm, runs its phases one after another, and returns when every request it sent has been handed to the sink.
// Cancelling ctx cuts what is in flight at once. An error means that the plan could not be run (a *PrewarmError before any load), or that
// the source failed in the middle; the summary holds what happened until then.
func Run(ctx context.Context, p *Plan, d Deps) (*Summary, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if d.Progress == nil {
		d.Progress = new(Progress)
	}
	d.Progress.Phase.Store(-1)
	sum := new(Summary)
	r := &run{plan: p, Deps: d, warm: make([]atomic.Bool, len(p.Targets)), slots: &limiter{limit: unlimited}, prefill: &limiter{limit: unlimited},
		failed: failures{enough: make(chan struct{})}}
	r.ahead = newAhead(r)
	defer r.ahead.stop()
	if p.Prewarm.On {
		err := r.prewarm(ctx, &sum.Prewarm)
		if sum.Stopped = stopped(d.Stop); err != nil || sum.Stopped {
			return sum, err
		}
	}
	return sum, r.phases(ctx, sum)
}

// phases runs the plan's phases one after another, a seamless one from the end of the sending before it.
func (r *run) phases(ctx context.Context, sum *Summary) error {
	var over sync.WaitGroup
	sum.Phases = make([]PhaseSummary, 0, len(r.plan.Phases)) // phases that end beside each other write to their own places
	errs := make([]error, len(r.plan.Phases))
	for i := range r.plan.Phases {
		if r.Before != nil {
			if errs[i] = r.Before(ctx, i); errs[i] != nil {
				if stopped(r.Stop) || ctx.Err() != nil {
					errs[i] = nil
				}
				break
			}
		}
		ph := r.begin(ctx, i)
		sum.Phases = append(sum.Phases, PhaseSummary{})
		s := &sum.Phases[i]
		finish := func() {
			*s, errs[i] = ph.finish()
			s.Stopped = stopped(r.Stop) || ctx.Err() != nil
			r.tell(i, s)
		}
		if i+1 < len(r.plan.Phases) && r.plan.Phases[i+1].Seamless {
			over.Go(finish)
			<-ph.issue.Done()
			ph.sending.Wait()
		} else {
			finish()
			over.Wait()
		}
		if stopped(r.Stop) || ctx.Err() != nil || ph.broken() || r.failing.Load() {
			break
		}
	}
	over.Wait()
	sum.Stopped = stopped(r.Stop) || ctx.Err() != nil
	return errors.Join(append(errs, r.failure)...)
}

// tell tells of a phase's begin or end, of one at a time.
func (r *run) tell(phase int, over *PhaseSummary) {
	if r.OnPhase != nil {
		r.telling.Lock()
		defer r.telling.Unlock()
		r.OnPhase(phase, over)
	}
}

func stopped(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

type run struct {
	Deps
	plan *Plan
	warm []atomic.Bool // by target: an inference has succeeded on it
	next atomic.Int64  // target of the next session
	// slots are the places of sessions, prefill those of requests without a first token. They are the run's, so that phases that overlap
	// keep within the limits of the one that sends.
	slots, prefill *limiter
	ahead          *ahead
	records        sync.Pool // *Finished, for requests that have ended until they are handed over
	telling        sync.Mutex

	failing atomic.Bool // too many requests have failed
	failed  failures
	failure error // why, once failing is set and the phases are over
}
