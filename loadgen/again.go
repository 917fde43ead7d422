package loadgen

import (
	"net/http"
	"strconv"
	"time"

	"prefire/loadgen/wire"
)

// Waits before a request that was answered 429 is sent again.
const (
	firstWait = time.Second      // where the answer asks for none; doubled with each further one
	mostWait  = 60 * time.Second // of those
	mostAsked = time.Hour        // that an answer may ask for; a request that is told to wait for longer has failed
)

// attempted is how often one call was sent.
func attempted(f *wire.Facts) int32 { return max(int32(f.Attempts), 1) }

// again makes the call ready to be sent once more, after sent sends, and adds what makes it cold. It waits where the answer asks for that.
func (w *worker) again(sent int, cold *wire.Cold) bool {
	ph, c := w.ph, &w.call
	f := &c.Facts
	if f.Err == nil || f.Cause != wire.NotCancelled || ph.repeat.Err() != nil {
		return false
	}
	if a, ok := ph.Endpoint.(Amender); ok && !w.raw && sent == 1 {
		if body, ok := a.Amend(w.spare[:0], c.Body, f.Status, f.Err.Message); ok {
			w.body, w.spare = body, w.body
			c.Body = body
			*cold |= wire.Resent // nothing of the refusal is the answer's time
			return true
		}
	}
	if f.Status != http.StatusTooManyRequests || sent > ph.plan.Retries {
		return false
	}
	now := ph.Clock.Now()
	wait, ok := retryWait(f.RetryAfter, ph.Clock.Wall(now), sent)
	return ok && ph.Clock.Until(ph.repeat, now+int64(wait)) == nil
}

// retryWait is how long to wait before the next send; ok is false where the server asks for too long.
func retryWait(asked string, now time.Time, sent int) (wait time.Duration, ok bool) {
	if seconds, err := strconv.ParseFloat(asked, 64); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, 2*mostAsked.Seconds()) * 1e9), seconds <= mostAsked.Seconds()
	}
	if at, err := http.ParseTime(asked); err == nil {
		wait = max(at.Sub(now), 0)
		return wait, wait <= mostAsked
	}
	return min(firstWait<<min(sent-1, 10), mostWait), true
}
