package metrics

// curveDefs are the run over time: every request that was completed is in them, cold or failed ones too, and each value counts for as
// long as it held. The effective ones take all of the phase's time, the active ones the time when something of the kind was going on.
func curveDefs() []*Def {
	curve := func(d Def) *Def {
		d.Shape, d.Flags = Curve, d.Flags|NotInRecord
		if d.Group == FileOnly {
			d.Group = EffectiveTable
		}
		return row(d)
	}
	// all is a quantity over the whole time, and each one a request that is in who; active is either while there is one in who.
	all := func(q quantity) func(*stretch) (float64, bool) {
		return func(s *stretch) (float64, bool) { return s.v[q], true }
	}
	each := func(q, who quantity) func(*stretch) (float64, bool) {
		return func(s *stretch) (float64, bool) {
			if s.v[who] <= 0 {
				return 0, true
			}
			return s.v[q] / s.v[who], true
		}
	}
	active := func(who quantity, over func(*stretch) (float64, bool)) func(*stretch) (float64, bool) {
		return func(s *stretch) (float64, bool) {
			v, _ := over(s)
			return v, s.v[who] > 0
		}
	}
	const whole = " over the phase's time"
	const busy = " over the time when there was any"
	return []*Def{
		curve(Def{Tag: "effective_concurrency", Header: "Effective Concurrency", Unit: Requests, part: inFlight, over: all(inFlight),
			Doc: "Requests in flight, from start to end of the stream," + whole + ". Censored requests are not in it."}),
		curve(Def{Tag: "effective_decode_throughput", Header: "Effective Decode Throughput", Unit: TokensPerSec, Flags: StreamOnly,
			part: decodeRate, over: all(decodeRate),
			Doc: "Output tokens a second," + whole + ": each answer's tokens but the first, shared out evenly among the gaps between its events."}),
		curve(Def{Tag: "effective_prefill_throughput", Header: "Effective Prefill Throughput", Unit: TokensPerSec, Flags: StreamOnly,
			part: prefillRate, over: all(prefillRate),
			Doc: "Input tokens a second," + whole + ": each prompt's tokens spread evenly from the start to the first token."}),
		curve(Def{Tag: "effective_decode_concurrency", Header: "Effective Decode Concurrency", Unit: Requests, Flags: StreamOnly,
			part: inDecode, over: all(inDecode), Doc: "Requests between first token and end," + whole + "."}),
		curve(Def{Tag: "effective_prefill_concurrency", Header: "Effective Prefill Concurrency", Unit: Requests, Flags: StreamOnly,
			part: inPrefill, over: all(inPrefill), Doc: "Requests between start and first token," + whole + "."}),
		curve(Def{Tag: "effective_total_throughput", Header: "Effective Total Throughput", Unit: TokensPerSec, Flags: StreamOnly,
			part: bothRates, over: all(bothRates),
			Doc: "Input and output tokens a second," + whole + "; output tokens spread evenly from the first token to the end."}),
		curve(Def{Tag: "effective_decode_throughput_per_user", Header: "Effective Decode Throughput Per User", Unit: TokensPerSecUser,
			Flags: StreamOnly, part: decodeRate, over: each(decodeRate, inDecode),
			Doc: "Effective decode throughput / effective decode concurrency at each moment; 0 while there is none."}),
		curve(Def{Tag: "effective_prefill_throughput_per_user", Header: "Effective Prefill Throughput Per User", Unit: TokensPerSecUser,
			Flags: StreamOnly, part: prefillRate, over: each(prefillRate, inPrefill),
			Doc: "Effective prefill throughput / effective prefill concurrency at each moment; 0 while there is none."}),
		curve(Def{Tag: "tokens_in_flight", Header: "Tokens In Flight", Unit: Tokens, Flags: StreamOnly, part: heldTokens, over: all(heldTokens),
			Doc: "Tokens of the requests in flight," + whole + ": the input from the start on, output tokens as their events come, all until " +
				"the end of the stream. It follows the load on the server's KV cache."}),
		curve(Def{Tag: "active_decode_throughput", Header: "Active Decode Throughput", Unit: TokensPerSec, Flags: StreamOnly, Group: ActiveTable,
			part: decodeRate, over: active(inDecode, all(decodeRate)), Doc: "Effective decode throughput" + busy + " in decode."}),
		curve(Def{Tag: "active_prefill_throughput", Header: "Active Prefill Throughput", Unit: TokensPerSec, Flags: StreamOnly,
			Group: ActiveTable, part: prefillRate, over: active(inPrefill, all(prefillRate)),
			Doc: "Effective prefill throughput" + busy + " in prefill."}),
		curve(Def{Tag: "active_decode_throughput_per_user", Header: "Active Decode Throughput Per User", Unit: TokensPerSecUser,
			Flags: StreamOnly, Group: ActiveTable, part: decodeRate, over: active(inDecode, each(decodeRate, inDecode)),
			Doc: "Effective decode throughput per user" + busy + " in decode."}),
		curve(Def{Tag: "active_prefill_throughput_per_user", Header: "Active Prefill Throughput Per User", Unit: TokensPerSecUser,
			Flags: StreamOnly, Group: ActiveTable, part: prefillRate, over: active(inPrefill, each(prefillRate, inPrefill)),
			Doc: "Effective prefill throughput per user" + busy + " in prefill."}),
		curve(Def{Tag: "active_total_throughput", Header: "Active Total Throughput", Unit: TokensPerSec, Flags: StreamOnly, Group: ActiveTable,
			part: bothRates, over: active(inFlight, all(bothRates)), Doc: "Effective total throughput" + busy + " in flight."}),
	}
}

// queueDefs are times from the moment when a request had its slots. Cold and failed requests are in them.
func queueDefs() []*Def {
	ms := func(d Def) *Def {
		d.Unit, d.Display, d.Flags = Nanoseconds, Milliseconds, Completed|NotInRecord|RunOnly
		return row(d)
	}
	return []*Def{
		ms(Def{Tag: "credit_to_start_latency", Header: "Credit-to-Start Latency",
			Value: func(r *Record) (float64, bool) { return between(r.Issued, r.Start) },
			Doc:   "From the moment when a request had its slots to its start, in ms: this side's own delay. Requests that failed are in it."}),
		ms(Def{Tag: "effective_latency", Header: "Effective Latency (CO-aware)", Group: EffectiveTable,
			Value: func(r *Record) (float64, bool) { return between(r.Issued, r.End) },
			Doc: "From the moment when a request had its slots to its last event or its failure, in ms. Requests that failed are in it. " +
				"Waiting for a slot is not: latency from the intended time has that."}),
	}
}
