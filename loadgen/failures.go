package loadgen

import (
	"fmt"
	"sync"
	"time"
)

// failedGrace is how long requests may still run once too many have failed.
const failedGrace = 10 * time.Second

// failures counts the measured requests of a run that may end it.
type failures struct {
	enough chan struct{} // closed when too many have failed

	mu    sync.Mutex
	n, of int64
	over  bool
}

// book books a returned request, and ends the run where the phase's share of failed ones is passed. It reports whether that is now.
func (f *failures) book(ph *phase, failed bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of++
	if failed {
		f.n++
	}
	if f.over || f.of < int64(max(ph.Concurrency, 10)) || float64(f.n) <= *ph.FailedShare*float64(f.of) {
		return false
	}
	f.over = true
	ph.run.failure = &FailuresError{Phase: ph.Name, Failed: f.n, Of: f.of, Share: *ph.FailedShare}
	ph.failing.Store(true)
	close(f.enough)
	return true
}

// FailuresError ends a run in which a larger share of the requests failed than its plan allows.
type FailuresError struct {
	Phase      string
	Failed, Of int64
	Share      float64 // the plan's
}

func (e *FailuresError) Error() string {
	return fmt.Sprintf("phase %q: %d of %d requests failed, which is more than the share of %v that the run allows: no more requests were sent", e.Phase, e.Failed, e.Of, e.Share)
}
