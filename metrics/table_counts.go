package metrics

// countDefs are the counts of requests, the run's duration and the rates over the run. Cold requests are in all of them.
func countDefs() []*Def {
	requests := func(d Def) *Def {
		d.Unit = Requests
		d.Flags |= NotInRecord
		return row(d)
	}
	rate := func(d Def) *Def {
		d.Shape = Derived
		d.Flags |= LargerBetter
		return row(d)
	}
	stamp := func(d Def) *Def {
		d.Unit, d.Shape = Nanoseconds, Aggregate
		d.Flags |= Internal | NotInRecord
		return row(d)
	}
	return []*Def{
		requests(Def{Tag: "request_count", Header: "Request Count", Shape: Aggregate, Flags: LargerBetter, Group: Main, Order: 1100,
			Value: always, Doc: "Valid requests, cold ones counted; absent if there are none."}),
		requests(Def{Tag: "error_request_count", Header: "Error Request Count", Shape: Aggregate, Flags: ErrorOnly, Value: always,
			Doc: "Requests that failed, those cancelled by plan counted; absent if there are none."}),
		requests(Def{Tag: "completed_request_count", Header: "Completed Requests (Success + Error)", Shape: Derived, Group: Main,
			Order: 1075, Derive: completed, Doc: "Valid and failed requests together. Censored requests are not in it."}),
		row(Def{Tag: "request_error_rate", Header: "Request Error Rate", Unit: Percent, Shape: Derived, Flags: NotInRecord, Group: Main,
			Order: 1080, Derive: errorRate, Doc: "100 · failed / completed requests, in %; 0 in a clean run."}),
		requests(Def{Tag: "context_overflow_count", Header: "Context Overflow Count", Shape: Aggregate, Flags: ErrorOnly,
			Value: func(r *Record) (float64, bool) { return oneIf(r.ContextOverflow), true },
			Doc:   "Failed requests that the server refused because its context is too small; absent in a run without failures."}),
		stamp(Def{Tag: "min_request_timestamp", Header: "Minimum Request Timestamp", Fold: FoldMin,
			Value: func(r *Record) (float64, bool) { return float64(r.Start), r.Start != 0 },
			Doc:   "Start of the first valid request, in ns of the run."}),
		stamp(Def{Tag: "max_response_timestamp", Header: "Maximum Response Timestamp", Fold: FoldMax,
			Value: func(r *Record) (float64, bool) {
				_, ok := latency(r)
				return float64(r.Last), ok
			},
			Doc: "Last content event of any valid request, in ns of the run."}),
		row(Def{Tag: "benchmark_duration", Header: "Benchmark Duration", Unit: Nanoseconds, Display: Seconds, Shape: Derived,
			Derive: benchmarkDuration,
			Doc: "From the start of the first valid request to the last content event of any, in seconds; with several phases the sum of " +
				"their durations. The rates do not divide by it: they divide by the phase's own duration."}),
		rate(Def{Tag: "request_throughput", Header: "Request Throughput", Unit: RequestsPerSec, Group: Main, Order: 900,
			Derive: rateOf("request_count"), Doc: "Valid requests / phase duration, per second."}),
		rate(Def{Tag: "output_token_throughput", Header: "Output Token Throughput", Unit: TokensPerSec, Flags: Produced, Group: Main, Order: 800,
			Derive: rateOf("total_osl"), Doc: "Total output sequence length / phase duration, in tokens per second."}),
		rate(Def{Tag: "input_token_throughput", Header: "Input Token Throughput", Unit: TokensPerSec, Group: Main, Order: 805,
			Derive: rateOf("total_isl"), Doc: "Total input sequence length / phase duration, in tokens per second."}),
		rate(Def{Tag: "total_token_throughput", Header: "Total Token Throughput", Unit: TokensPerSec, Flags: Produced, Derive: totalRate,
			Doc: "Total input and output sequence lengths / phase duration, in tokens per second."}),
	}
}

// completed is absent in a run where nothing was completed.
func completed(t *Totals) (float64, bool) {
	ok, _ := t.Get("request_count")
	failed, _ := t.Get("error_request_count")
	return ok + failed, ok+failed > 0
}

func errorRate(t *Totals) (float64, bool) {
	all, ok := t.Get("completed_request_count")
	if !ok {
		return 0, false
	}
	failed, _ := t.Get("error_request_count")
	return 100 * failed / all, true
}

func benchmarkDuration(t *Totals) (float64, bool) {
	if t.phases > 0 {
		return t.phases, true
	}
	from, ok := t.Get("min_request_timestamp")
	to, ok2 := t.Get("max_response_timestamp")
	return to - from, ok && ok2 && from < to
}

func totalRate(t *Totals) (float64, bool) {
	in, ok := t.Get("total_isl")
	out, ok2 := t.Get("total_osl")
	if !ok || !ok2 || t.seconds <= 0 {
		return 0, false
	}
	return (in + out) / t.seconds, true
}
