package metrics

import "math"

// adjustedDefs are latencies with every failed request in them as one that took for ever. A percentile that reaches the failures has no
// value, and neither has anything else that they decide.
func adjustedDefs() []*Def {
	var defs []*Def
	for _, of := range [...]struct{ tag, header string }{
		{"request_latency", "Request Latency"}, {"time_to_first_token", "Time to First Token"}, {"decode_duration", "Decode Duration"},
		{"inter_token_latency", "Inter Token Latency"},
	} {
		var f Flags
		if of.tag != "request_latency" {
			f = StreamOnly
		}
		defs = append(defs, row(Def{Tag: "adj_" + of.tag, Header: of.header + " (error-adjusted)", Unit: Nanoseconds, Display: Milliseconds,
			Shape: Restated, Flags: f | NotInRecord, Group: Main, Of: of.tag, Restate: withFailures,
			Doc: of.header + " with each failed request as one that took for ever, in ms; only in runs with failures. Percentiles are the " +
				"nearest value, and absent from the one on that reaches the failures."}))
	}
	return defs
}

func withFailures(s *Series, d *Def, t *Totals) (Result, bool) {
	failed, ok := t.Get("error_request_count")
	if !ok || failed == 0 || s.n == 0 {
		return Result{}, false
	}
	n := s.n + int64(failed)
	r := Result{Count: n, Min: s.min * d.Factor(), Approx: s.spilled, OutOfRange: s.above + s.below,
		Absent: StatAvg | StatMax | StatStd | StatSum}
	at := s.ranks()
	for i, p := range Percentiles {
		rank := int64(math.RoundToEven(p / 100 * float64(n-1)))
		if rank >= s.n {
			r.Absent |= percentileStats(i)
			break
		}
		r.P[i] = at(rank) * d.Factor()
	}
	return r, true
}

// networkDefs are latencies without the network's round trip. Gaps between tokens are the same with and without it.
func networkDefs() []*Def {
	adjusted := func(order int, tag, header string, f Flags) *Def {
		return row(Def{Tag: "network_adjusted_" + tag, Header: "Network-Adjusted " + header, Unit: Nanoseconds, Display: Milliseconds,
			Shape: Restated, Flags: f | Network | NotInRecord, Group: Main, Order: order, Of: tag, Restate: withoutNetwork,
			Doc: header + " less the network's round trip, in ms, and 0 where that would be less than nothing."})
	}
	return []*Def{
		adjusted(101, "time_to_first_token", "Time to First Token", StreamOnly),
		adjusted(211, "time_to_first_output_token", "Time to First Output Token", StreamOnly),
		adjusted(301, "request_latency", "Request Latency", 0),
		row(Def{Tag: "network_rtt", Header: "Network RTT", Unit: Nanoseconds, Display: Milliseconds, Shape: Restated, Flags: Network | NotInRecord,
			Group: Main, Order: 305, Restate: networkAlone,
			Doc: "The network's round trip that the adjusted latencies leave out, in ms: given, or the mean time of TCP handshakes during the run."}),
	}
}

func networkAlone(_ *Series, d *Def, t *Totals) (Result, bool) {
	v := t.network * d.Factor()
	r := Result{Avg: v, Min: v, Max: v, Sum: v, Absent: StatCount}
	for i := range r.P {
		r.P[i] = v
	}
	return r, t.network > 0
}

func withoutNetwork(s *Series, d *Def, t *Totals) (Result, bool) {
	if t.network <= 0 || s.n == 0 {
		return Result{}, false
	}
	f, at := d.Factor(), s.ranks()
	left := func(rank int64) float64 { return max(at(rank)-t.network, 0) }
	r := Result{Count: s.n, Min: max(s.min-t.network, 0) * f, Max: max(s.max-t.network, 0) * f, Approx: s.spilled, OutOfRange: s.above + s.below,
		Absent: StatCount}
	for i, p := range Percentiles {
		r.P[i] = percentile(p, s.n, left) * f
	}
	n := float64(s.n)
	if s.min >= t.network {
		r.Sum, r.Avg, r.Std = (s.Sum()-n*t.network)*f, (s.mean()-t.network)*f, s.std()*f
		return r, true
	}
	var sum, square dd
	for rank := range s.n {
		sum, square = sum.add(left(rank)), square.addSquare(left(rank))
	}
	r.Sum, r.Avg = sum.float()*f, sum.float()/n*f
	r.Std = math.Sqrt(max(square.minus(sum.square().over(n)).over(n).float(), 0)) * f
	return r, true
}

// replayDegraded is the p99 of the lag, in ms, past which a replay no longer follows its schedule (aiperf's).
const replayDegraded = 500

// replayDefs say how far a replay fell behind the schedule of its file, against the request that was least behind.
func replayDefs() []*Def {
	lag := func(p float64, name string) *Def {
		return row(Def{Tag: "replay_sched_lag_" + name, Header: "Replay Schedule Lag " + name, Unit: Milliseconds, Shape: Restated,
			Flags: Scheduled | NotInRecord | RunOnly, Of: "replay_send_schedule_offset",
			Restate: func(s *Series, _ *Def, _ *Totals) (Result, bool) { return lagOf(s, p) },
			Doc: "The " + name + " of how much later requests were sent than the file's times say, in ms, counted from the request that was " +
				"least late. A turn that had to wait for the answer before it is late by that."})
	}
	return []*Def{
		row(Def{Tag: "replay_send_schedule_offset", Header: "Replay Send Schedule Offset", Unit: Nanoseconds,
			Flags: Scheduled | Internal | NotInRecord, Value: func(r *Record) (float64, bool) { return float64(r.Start - r.Scheduled), r.Scheduled != 0 },
			Doc: "Start less the time that the file has for the request, in ns."}),
		lag(50, "p50"), lag(90, "p90"), lag(99, "p99"),
		row(Def{Tag: "replay_sched_degraded", Header: "Replay Schedule Degraded", Unit: CountUnit, Shape: Restated,
			Flags: Scheduled | NotInRecord | RunOnly, Of: "replay_send_schedule_offset",
			Restate: func(s *Series, _ *Def, _ *Totals) (Result, bool) {
				r, ok := lagOf(s, 99)
				r.Avg = oneIf(r.Avg > replayDegraded)
				return r, ok
			},
			Doc: "1 where the replay's lag has a p99 over 500 ms, else 0."}),
	}
}

func lagOf(s *Series, p float64) (Result, bool) {
	v, ok := s.Quantile(p)
	return Result{Scalar: true, Avg: (v - s.min) / 1e6, Approx: s.spilled}, ok
}
