package main

import (
	"fmt"
	"time"

	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/metrics"
)

// The limits of the verdicts; docs/trust.md has the reasons.
const (
	ttftBoundShare = 0.01 // TTFT: what the error bound's p99 may be, as a share of the average TTFT,
	ttftBoundMS    = 1.0  // or in ms where that is more,
	ttftBoundMost  = 0.1  // but never more than this share
	gapsLostShare  = 0.05 // ITL: what share of gaps may lie within one read
	itlBoundShare  = 0.02 // and what the bound of a request's mean may be at p99, as a share of the average ITL
	inFlightShare  = 0.95 // load: what share of the asked sessions must be in flight on average while sending,
	waitingShare   = 0.01 // what share of those in flight may wait on this side,
	sendLateShare  = 0.02 // and how late the p99 of sends may be, as a share of the average request latency
)

// ttftLimit is what the p99 of TTFT's error bound may be at most for a fit client, in ms; avg is the average TTFT in ms.
func ttftLimit(avg float64) float64 {
	return max(ttftBoundShare*avg, min(ttftBoundMS, ttftBoundMost*avg))
}

// verdicts say, claim by claim, whether the client was fit to make it.
func verdicts(rs []metrics.Result, phases []loadgen.PhaseSummary, c metrics.ClientReport, u used) []export.Verdict {
	var out []export.Verdict
	if ttft := find(rs, "time_to_first_token"); ttft != nil && c.TTFTSlack.Count > 0 {
		out = append(out, export.Verdict{Claim: "TTFT", Good: c.TTFTSlack.P99 <= ttftLimit(ttft.Avg), Why: fmt.Sprintf(
			"%s; %.1f %% of first tokens exact, error bound p99 %.3f ms, max %.3f ms", stampKind(c), 100*c.TTFTExact.Share, c.TTFTSlack.P99, c.TTFTSlack.Max)})
	}
	if itl := find(rs, "inter_token_latency"); itl != nil && c.GapsShared.Of > 0 {
		out = append(out, export.Verdict{Claim: "ITL", Good: c.GapsShared.Share <= gapsLostShare && c.ITLSlack.P99 <= itlBoundShare*itl.Avg, Why: fmt.Sprintf(
			"%d of %d gaps lay within one read and are no measurement; error bound of a request's mean p99 %.3f ms",
			c.GapsShared.N, c.GapsShared.Of, c.ITLSlack.P99)})
	}
	for i := range phases {
		s := &phases[i]
		if s.Phase.Kind != metrics.Profiling || s.Sent == 0 {
			continue
		}
		v := export.Verdict{Claim: "load", Good: s.InFlight.Max == min(int64(s.Phase.Concurrency), s.Sent), Why: fmt.Sprintf(
			"phase %s: %d in flight asked, %d at most and %.2f on average while sending", s.Phase.Name, s.Phase.Concurrency, s.InFlight.Max, s.InFlight.Mean)}
		if s.Sent > int64(s.Phase.Concurrency) && s.InFlight.Mean < inFlightShare*float64(s.Phase.Concurrency) {
			v.Good = false
		}
		if s.InFlight.Waiting > waitingShare*s.InFlight.Mean {
			v.Good = false
			v.Why += fmt.Sprintf(", of whom %.2f waited on this side for a connection or a stream and were no load on the server", s.InFlight.Waiting)
		}
		if latency := find(rs, "request_latency"); latency != nil && c.SendLate.Count > 0 {
			v.Good = v.Good && c.SendLate.P99 <= sendLateShare*latency.Avg
			v.Why += fmt.Sprintf("; requests ready to go %.3f ms after their turn at p99", c.SendLate.P99)
		}
		if u.cpu.ok && u.busy.ok && u.wall >= time.Second { // the machine counts in steps of 10 ms
			v.Why += fmt.Sprintf("; this process used %.0f %% of the cores' time, the machine %.0f %%", 100*u.ofCores(u.cpu.v), 100*u.ofCores(u.busy.v))
		}
		out = append(out, v)
	}
	return out
}

func stampKind(c metrics.ClientReport) string {
	switch {
	case c.KernelStamps.Of == 0 || c.KernelStamps.N == 0:
		return "arrival stamped by the client's own clock after the read"
	case c.KernelStamps.N < c.KernelStamps.Of:
		return fmt.Sprintf("kernel stamps in %d of %d requests", c.KernelStamps.N, c.KernelStamps.Of)
	}
	return "kernel stamps"
}
