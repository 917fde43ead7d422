package main

import (
	"fmt"

	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/metrics"
)

// loadFacts are what each phase's load was asked to be, and what it was.
func loadFacts(sum *loadgen.Summary) []any {
	var out []any
	for i := range sum.Phases {
		s := &sum.Phases[i]
		l := &s.Load
		o := export.Object{{Key: "phase", Value: s.Phase.Name}}
		if open := s.Phase.Arrivals.Mode != loadgen.Closed; open {
			o = append(o, export.Field{Key: "due", Value: l.Due}, export.Field{Key: "due_per_second", Value: perSecond(l.Due, s)})
		}
		o = append(o,
			export.Field{Key: "sent", Value: s.Sent}, export.Field{Key: "sent_per_second", Value: perSecond(s.Sent, s)},
			export.Field{Key: "dropped_at_a_limit", Value: l.Dropped}, export.Field{Key: "nothing_to_send", Value: l.Idle},
			export.Field{Key: "due_and_not_sent", Value: l.Missed},
			export.Field{Key: "late", Value: l.Late}, export.Field{Key: "late_means_over_ms", Value: ms(loadgen.LateAfter)},
			export.Field{Key: "longest_row_of_late_arrivals", Value: l.Burst},
			export.Field{Key: "sessions", Value: s.Sessions},
			export.Field{Key: "in_flight_max", Value: s.InFlight.Max}, export.Field{Key: "in_flight_mean_while_sending", Value: s.InFlight.Mean},
			export.Field{Key: "content_events_while_sending", Value: l.Window}, export.Field{Key: "content_events_per_second_while_sending", Value: perSecond(l.Window, s)},
		)
		for _, d := range [...]struct {
			key string
			s   metrics.Spread
		}{{"send_lateness", l.Lateness}, {"censored_had_run", l.Ran}} {
			if d.s.Count > 0 {
				o = append(o, export.Field{Key: d.key, Value: value(d.s)})
			}
		}
		t := &l.Seconds
		time := export.Object{{Key: "bucket_s", Value: float64(t.Width) / 1e9}}
		for _, c := range [...]struct {
			key    string
			counts []int64
		}{{"due", t.Due}, {"sent", t.Sent}, {"answered", t.Ended}, {"dropped_at_a_limit", t.Dropped}} {
			if len(c.counts) > 0 {
				time = append(time, export.Field{Key: c.key, Value: value(c.counts)})
			}
		}
		out = append(out, append(o, export.Field{Key: "over_time", Value: time}))
	}
	return out
}

// perSecond is n over the time of sending; nil, which export leaves out, where that has no length.
func perSecond(n int64, s *loadgen.PhaseSummary) any {
	if s.SendEnd <= s.Start {
		return nil
	}
	return float64(n) / (float64(s.SendEnd-s.Start) / 1e9)
}

// loadLines say on the screen what became of the arrivals of each measured phase that does not wait for answers.
func loadLines(sum *loadgen.Summary) []string {
	var out []string
	for i := range sum.Phases {
		s := &sum.Phases[i]
		if s.Phase.Kind != metrics.Profiling || s.Phase.Arrivals.Mode == loadgen.Closed || s.SendEnd <= s.Start {
			continue
		}
		l := &s.Load
		seconds := float64(s.SendEnd-s.Start) / 1e9
		line := fmt.Sprintf("%s: %d requests due in %.1f s (%.4g/s), %d sent (%.4g/s)", s.Phase.Name, l.Due, seconds, float64(l.Due)/seconds,
			s.Sent, float64(s.Sent)/seconds)
		if l.Dropped > 0 {
			line += fmt.Sprintf(", %d DROPPED at a limit on requests in flight", l.Dropped)
		}
		if l.Missed > 0 {
			line += fmt.Sprintf(", %d NOT SENT since this side was behind at the end", l.Missed)
		}
		if l.Idle > 0 {
			line += fmt.Sprintf(", for %d there was nothing to send", l.Idle)
		}
		line += fmt.Sprintf("; sent late by %.3f ms p50, %.3f p99, %.3f max", l.Lateness.P50, l.Lateness.P99, l.Lateness.Max)
		if l.Late > 0 {
			line += fmt.Sprintf(", %d by more than %g ms", l.Late, ms(loadgen.LateAfter))
		}
		out = append(out, line+fmt.Sprintf("; %.2f in flight on average, %d at most", s.InFlight.Mean, s.InFlight.Max))
	}
	return out
}
