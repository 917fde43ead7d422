package loadgen

import (
	"sync"

	"prefire/metrics"
)

// LateAfter is the lateness, in ns, from which a request counts as sent late.
const LateAfter = 10_000_000

// LoadReport holds what a phase's load was asked to be against what it was.
type LoadReport struct {
	// Due is how many requests the schedule asked for by the end of sending; 0 in a closed loop. Due = sent + Dropped + Idle + Missed, but
	// for turns that wait for a place.
	Due int64
	// Dropped arrivals of a paced phase found no free place under its limits.
	Dropped int64
	// Idle arrivals found nothing to send: no session may start, and no turn of a started one was due.
	Idle int64
	// Missed arrivals had come due when the time of sending ran out, and were not sent: this side was behind.
	Missed int64
	// Late requests were sent more than LateAfter after their time.
	Late int64
	// Burst is the most arrivals in a row whose time had passed when they were handed out, because this side was behind.
	Burst int64
	// Lateness is how long after its intended time each request began: its first write, or its being ready to go where it had to dial.
	Lateness metrics.Spread
	// Ran is how long the censored requests had run when they were cut.
	Ran metrics.Spread
	// Window is how many content events arrived between the phase's start and its end of sending, those of cut and failed requests too.
	Window int64
	// Seconds counts over time from the phase's start.
	Seconds Timeline
}

// Timeline counts events in buckets of equal width from the phase's start.
type Timeline struct {
	Width   int64 // ns
	Due     []int64
	Sent    []int64
	Ended   []int64 // answered
	Dropped []int64
}

// buckets bounds a timeline: a longer phase gets wider buckets.
const buckets = 1024

// timeline grows by doubling the width of its buckets, so that an endless phase takes no more memory than a long one.
type timeline struct {
	width                     int64
	due, sent, ended, dropped []int64
}

func (t *timeline) add(at int64, which *[]int64) {
	for at/t.width >= buckets {
		t.width *= 2
		for _, s := range [...]*[]int64{&t.due, &t.sent, &t.ended, &t.dropped} {
			*s = halve(*s)
		}
	}
	i := int(max(at, 0) / t.width)
	for len(*which) <= i {
		*which = append(*which, 0)
	}
	(*which)[i]++
}

func halve(s []int64) []int64 {
	for i := range s {
		v := s[i]
		s[i] = 0
		s[i/2] += v
	}
	return s[:(len(s)+1)/2]
}

// ledger keeps the books of a phase's load.
type ledger struct {
	mu       sync.Mutex
	start    int64
	due      int64
	dropped  int64
	idle     int64
	lost     int64
	late     int64
	burst    int64
	window   int64
	run      int64 // arrivals handed out since one was last waited for
	line     timeline
	lateness *metrics.Series
	ran      *metrics.Series
}

// exactLoad bounds what the ledger's distributions keep exactly.
const exactLoad = 20_000

func newLedger(start int64) *ledger {
	s := func() *metrics.Series {
		return metrics.NewSeries(metrics.SeriesOptions{Unit: metrics.Nanoseconds, Cap: exactLoad})
	}
	return &ledger{start: start, line: timeline{width: 1_000_000_000}, lateness: s(), ran: s()}
}

// arrival books a request that is due; waited says that the schedule was ahead of the clock.
func (l *ledger) arrival(at int64, waited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due++
	if l.run++; waited {
		l.run = 0
	}
	l.burst = max(l.burst, l.run)
	l.line.add(at-l.start, &l.line.due)
}

func (l *ledger) drop(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped++
	l.line.add(at-l.start, &l.line.dropped)
}

func (l *ledger) missed(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due++
	l.lost++
	l.line.add(at-l.start, &l.line.due)
}

func (l *ledger) unused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle++
}

// arrived is how many of a request's content events came up to a time; 0 = all.
func arrived(r *metrics.Record, until int64) int64 {
	if until == 0 || r.Last <= until {
		return int64(r.Chunks)
	}
	n, at := int64(0), r.First
	for i := 0; at <= until; i++ {
		n++
		if i == len(r.Gaps) {
			break
		}
		at += max(int64(r.Gaps[i]), 0)
	}
	return n
}

// returned books a request that is over; sendEnd is when the phase stopped sending, 0 = it sends still.
func (l *ledger) returned(r *metrics.Record, sendEnd int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window += arrived(r, sendEnd)
	late := max(r.Start-r.Intended, 0)
	l.lateness.Add(float64(late))
	if late > LateAfter {
		l.late++
	}
	l.line.add(r.Start-l.start, &l.line.sent)
	switch {
	case r.Censored:
		l.ran.Add(float64(max(r.End-r.Start, 0)))
	case r.Valid():
		l.line.add(r.End-l.start, &l.line.ended)
	}
}

func (l *ledger) report() LoadReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LoadReport{Due: l.due, Dropped: l.dropped, Idle: l.idle, Missed: l.lost, Late: l.late, Burst: l.burst, Window: l.window,
		Lateness: l.lateness.Spread(), Ran: l.ran.Spread(),
		Seconds: Timeline{Width: l.line.width, Due: l.line.due, Sent: l.line.sent, Ended: l.line.ended, Dropped: l.line.dropped}}
}
