package main

import (
	"fmt"
	"strings"

	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/metrics"
)

// The limits of the verdicts; docs/trust.md has the reasons.
const (
	ttftBoundShare = 0.01 // TTFT: what the error bound's p99 may be, as a share of the average TTFT,
	ttftBoundMS    = 1.0  // or in ms where that is more,
	ttftBoundMost  = 0.1  // but never more than this share; the time to write a small request may be as much
	itlBoundShare  = 0.02 // ITL: what the bound of a request's mean may be on average, as a share of the average ITL,
	itlBoundMost   = 0.1  // and at p99,
	itlMissing     = 0.05 // and what share of answers may have none, because all of it came in one read
	gapsLostShare  = 0.05 // ICL: what share of gaps may lie within one read or have an end that is not exact
	// load: what share of the asked sessions must be with the server on average while sending, and what share of the due requests must
	// find a place; where the plan asks for times, p99 of the lateness may be loadgen.LateAfter.
	inFlightShare = 0.95
)

// promptRead is how soon after its arrival, in ms at p99, a first token is read by a client that is not late.
const promptRead = 1.0

// verdict is a judgement with the figures it rests on.
type verdict struct {
	export.Verdict
	figures export.Object
	limited bool // not good, but for nothing that the client did: arrivals found a limit of the plan's
}

// verdicts say, claim by claim, whether the client was fit to make it.
func verdicts(rs []metrics.Result, phases []loadgen.PhaseSummary, c *metrics.ClientReport) []verdict {
	var out []verdict
	if ttft := find(rs, "time_to_first_token"); ttft != nil && c.TTFTSlack.Count > 0 {
		out = append(out, judgeTTFT(ttft.Avg, c))
	}
	if c.ITLSlack.Count > 0 || c.ITLMissing.N > 0 {
		itl := 0.
		if r := find(rs, "inter_token_latency"); r != nil {
			itl = r.Avg
		}
		out = append(out, judgeITL(itl, c))
	}
	if c.GapsShared.Of > 0 {
		out = append(out, judgeGaps(c))
	}
	for i := range phases {
		if s := &phases[i]; s.Phase.Kind == metrics.Profiling && s.Sent > 0 {
			out = append(out, judgeLoad(s))
		}
	}
	return out
}

// ttftLimit is what the p99 of TTFT's error bound may be at most for a fit client, in ms; avg is the average TTFT in ms.
func ttftLimit(avg float64) float64 {
	return max(ttftBoundShare*avg, min(ttftBoundMS, ttftBoundMost*avg))
}

func judgeTTFT(avg float64, c *metrics.ClientReport) verdict {
	limit := ttftLimit(avg)
	v := verdict{Verdict: export.Verdict{Claim: "TTFT", Good: c.TTFTSlack.P99 <= limit && c.WriteTime.P99 <= limit},
		figures: export.Object{{Key: "error_bound_p99_ms", Value: c.TTFTSlack.P99}, {Key: "error_bound_max_ms", Value: c.TTFTSlack.Max}, {Key: "limit_ms", Value: limit}}}
	why := []string{fmt.Sprintf("error bound p99 %.3f ms (at most %.3f), max %.3f ms", c.TTFTSlack.P99, limit, c.TTFTSlack.Max),
		fmt.Sprintf("%.1f %% of first tokens exact", 100*c.TTFTExact.Share), stampKind(c)}
	if c.Strange > 0 {
		v.Good = false
		why = append(why, fmt.Sprintf("%d answers began with text under a name that is not read, so that their first token was earlier", c.Strange))
	}
	if c.WriteTime.P99 > limit {
		why = append(why, fmt.Sprintf("the client took %.3f ms at p99 to write a request, which TTFT holds", c.WriteTime.P99))
	}
	v.Why = strings.Join(why, "; ")
	return v
}

// itlFits reports whether bounds of requests' means, on average and at p99, are small enough beside the average ITL; all in ms.
func itlFits(average, p99, itl float64) bool {
	return average <= itlBoundShare*itl && p99 <= itlBoundMost*itl
}

// judgeITL allows single requests a wider bound than their average: a last token that shares its read with the end of the stream has a gap's
// length to have come in, which in a short answer is a large share of the mean.
func judgeITL(avg float64, c *metrics.ClientReport) verdict {
	limit := itlBoundMost * avg
	v := verdict{Verdict: export.Verdict{Claim: "ITL", Good: itlFits(c.ITLSlack.Avg, c.ITLSlack.P99, avg) && c.ITLMissing.Share <= itlMissing},
		figures: export.Object{{Key: "missing_share", Value: c.ITLMissing.Share}}}
	if c.ITLSlack.Count > 0 {
		v.Why = fmt.Sprintf("error bound of a request's mean %.3f ms on average (at most %.3f), p99 %.3f (at most %.3f), max %.3f", c.ITLSlack.Avg,
			itlBoundShare*avg, c.ITLSlack.P99, limit, c.ITLSlack.Max)
		v.figures = append(v.figures, export.Object{
			{Key: "error_bound_avg_ms", Value: c.ITLSlack.Avg}, {Key: "limit_avg_ms", Value: itlBoundShare * avg},
			{Key: "error_bound_p99_ms", Value: c.ITLSlack.P99}, {Key: "error_bound_max_ms", Value: c.ITLSlack.Max}, {Key: "limit_ms", Value: limit},
		}...)
	}
	if m := c.ITLMissing; m.N > 0 {
		v.Why = strings.TrimPrefix(fmt.Sprintf("%s; %d of %d answers came whole in one read and have none", v.Why, m.N, m.Of), "; ")
	}
	return v
}

// judgeGaps judges the gaps one by one. A request's mean rests on its first and last event alone, so that lost gaps spoil their own
// distribution long before they spoil the mean.
func judgeGaps(c *metrics.ClientReport) verdict {
	all := c.GapsShared.Of
	inexact := all - c.GapsShared.N - c.GapsExact.N
	unsound := float64(c.GapsShared.N+inexact) / float64(all)
	v := verdict{Verdict: export.Verdict{Claim: "ICL", Good: unsound <= gapsLostShare},
		figures: export.Object{{Key: "unsound_share", Value: unsound}, {Key: "limit_share", Value: gapsLostShare}}}
	if c.GapSlack.Count > 0 {
		v.figures = append(v.figures, export.Field{Key: "error_bound_max_ms", Value: c.GapSlack.Max})
	}
	v.Why = fmt.Sprintf("%d of %d gaps lay within one read and are no measurement, %d more have an end that is not exact (bound max %.3f ms); %.1f events a read",
		c.GapsShared.N, all, inexact, c.GapSlack.Max, c.EventsARead)
	if v.Good {
		return v
	}
	v.Why = "gaps between tokens are not trustworthy: " + v.Why
	switch {
	case c.KernelStamps.N < c.KernelStamps.Of: // how late the reader was is not known
	case c.ReceiveDelayFirst.P99 <= promptRead:
		v.Why += fmt.Sprintf("; the client was not late (first tokens read %.3f ms after their arrival at p99): they were sent or delivered together", c.ReceiveDelayFirst.P99)
	default:
		v.Why += fmt.Sprintf("; the client was late (first tokens read %.3f ms after their arrival at p99)", c.ReceiveDelayFirst.P99)
	}
	return v
}

// judgeLoad asks whether the load was the one that the plan wants. Only a closed loop without ramps, prefill limit and think times has a
// number that must be in flight all the time; elsewhere what is asked is times, and the requests must be on time.
func judgeLoad(s *loadgen.PhaseSummary) verdict {
	ph, f, l := &s.Phase, &s.InFlight, &s.Load
	with := f.Mean - f.Waiting
	v := verdict{Verdict: export.Verdict{Claim: "load", Good: true}, figures: export.Object{{Key: "phase", Value: ph.Name}}}
	why := []string{"phase " + ph.Name}
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	figure := func(key string, value any) { v.figures = append(v.figures, export.Field{Key: key, Value: value}) }
	if ph.Arrivals.Mode == loadgen.Closed && ph.ConcurrencyRamp.Duration == 0 && ph.Prefill == 0 && !ph.Seamless && !s.Thought {
		asked := min(int64(ph.Concurrency), s.Sent, s.Sessions)
		say("%d in flight asked, %d at most", ph.Concurrency, f.Max)
		figure("asked_in_flight", asked)
		v.Good = f.Max == asked
		// Sessions of several turns end one by one, and the last of them are alone.
		if s.Sent > int64(ph.Concurrency) && s.Sent <= s.Sessions { // else all are sent at once, and there is no time of sending to speak of
			share := with / float64(asked)
			v.Good = v.Good && share >= inFlightShare
			say("%.2f on average with the server while sending (%.1f %%)", with, 100*share)
			figure("delivered_share", share)
		}
	} else {
		say("%.2f in flight on average with the server while sending", with)
		v.Good = l.Lateness.P99 <= float64(loadgen.LateAfter)/1e6
	}
	figure("in_flight_mean_with_server", with)
	if l.Due > 0 {
		seconds := float64(s.SendEnd-s.Start) / 1e9
		say("%d requests due by the plan in %.3g s, %d sent", l.Due, seconds, s.Sent)
		figure("due", l.Due)
		figure("delivered_share", float64(s.Sent)/float64(l.Due))
		if l.Dropped > 0 {
			v.limited = float64(l.Dropped) > (1-inFlightShare)*float64(l.Due)
			say("%d found no place under the limits and were dropped", l.Dropped)
		}
	}
	if s.Sent > int64(ph.Concurrency) && f.Waiting > (1-inFlightShare)*f.Mean {
		v.Good = false
		say("%.2f more waited on this side, to be sent or with their answer there and not read, and were no load on the server", f.Waiting)
	}
	if l.Lateness.Count > 0 {
		say("sent %.3f ms after their time at p99", l.Lateness.P99)
		figure("lateness_p99_ms", l.Lateness.P99)
	}
	v.limited, v.Good = v.Good && v.limited, v.Good && !v.limited
	v.Why = why[0] + ": " + strings.Join(why[1:], "; ")
	if !v.Good {
		v.Why = "the load was not the one asked: " + v.Why
	}
	return v
}

func stampKind(c *metrics.ClientReport) string {
	switch {
	case c.KernelStamps.Of == 0 || c.KernelStamps.N == 0:
		return "arrival stamped by the client's own clock after the read"
	case c.KernelStamps.N < c.KernelStamps.Of:
		return fmt.Sprintf("kernel stamps in %d of %d requests", c.KernelStamps.N, c.KernelStamps.Of)
	}
	return "kernel stamps"
}

// clientLine is the client's own part in one line.
func clientLine(transport string, c *metrics.ClientReport, u *used) string {
	parts := []string{transport}
	if u.cpu.ok && u.wall > 0 {
		s := fmt.Sprintf("%.0f %% of %d cores", 100*u.ofCores(u.cpu.v), u.cores)
		if u.busy.ok && u.wall >= leastWall {
			s += fmt.Sprintf(", the machine %.0f %%", 100*u.ofCores(u.busy.v))
		}
		if u.stolen.ok && u.ofCores(u.stolen.v) >= 0.01 {
			s += fmt.Sprintf(", %.0f %% stolen by its host", 100*u.ofCores(u.stolen.v))
		}
		parts = append(parts, s)
	}
	if u.waited.ok {
		parts = append(parts, fmt.Sprintf("run-queue wait %.3g s", u.waited.v.Seconds()))
	}
	if c.ReceiveDelayFirst.Count > 0 {
		parts = append(parts, fmt.Sprintf("receive delay p99 %.3f ms", c.ReceiveDelayFirst.P99))
	}
	if c.SendLate.Count > 0 {
		parts = append(parts, fmt.Sprintf("send lateness p99 %.3f ms", c.SendLate.P99))
	}
	if c.EventsARead > 0 {
		parts = append(parts, fmt.Sprintf("%.1f events a read", c.EventsARead))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d GCs, %.2g ms paused", u.cycles, 1e3*u.stopped)), "; ")
}

// starved says that the process had to wait for cores, where that may be why it was not fit.
func starved(u *used) string {
	if !u.waited.ok || !u.cpu.ok || u.waited.v < u.cpu.v/4 {
		return ""
	}
	s := fmt.Sprintf("the client's threads waited %.3g s for a core beside %.3g s at work", u.waited.v.Seconds(), u.cpu.v.Seconds())
	if u.busy.ok && u.wall >= leastWall {
		s += fmt.Sprintf("; the machine was %.0f %% busy", 100*u.ofCores(u.busy.v))
	}
	return s
}
