package metrics

// latencyDefs are the latencies and the per-user rates. A cold request stays out of all of them, so that their counts agree.
func latencyDefs() []*Def {
	ms := func(d Def) *Def {
		d.Unit, d.Display, d.ColdOut = Nanoseconds, Milliseconds, true
		return row(d)
	}
	perUser := func(d Def) *Def {
		d.Unit, d.ColdOut = TokensPerSecUser, true
		d.Flags |= LargerBetter
		return row(d)
	}
	return []*Def{
		ms(Def{Tag: "time_to_first_token", Header: "Time to First Token", Flags: StreamOnly, Group: Main, Order: 100, Value: ttft,
			Doc: "From the start of the request to the arrival of the first event with content, reasoning or a tool call, in ms."}),
		ms(Def{Tag: "time_to_first_token_from_intended", Header: "TTFT from Intended Time", Flags: StreamOnly | OpenLoop, Group: Main,
			Order: 110, Value: func(r *Record) (float64, bool) { return between(r.Intended, r.First) },
			Doc: "From the time the schedule wanted the request sent to the first content event, in ms: a late send is in it, as in what a " +
				"user waits (no coordinated omission). Time to first token is the server's share of it."}),
		ms(Def{Tag: "time_to_second_token", Header: "Time to Second Token", Flags: StreamOnly, Group: Main, Order: 200,
			Value: func(r *Record) (float64, bool) { return between(r.First, r.Second) },
			Doc:   "From the first content event to the second, in ms; absent where there is no second, or where both came in one read."}),
		ms(Def{Tag: "time_to_first_output_token", Header: "Time to First Output Token", Flags: StreamOnly, Group: Main, Order: 210,
			Value: func(r *Record) (float64, bool) { return between(r.Start, r.FirstOut) },
			Doc: "From the start of the request to the first content event that is not reasoning, in ms; absent where all of it is " +
				"reasoning."}),
		ms(Def{Tag: "request_latency", Header: "Request Latency", Group: Main, Order: 300, Value: latency,
			Doc: "From the start of the request to its last content event, in ms: what follows it in the stream (finish reason, usage, " +
				"[DONE]) is not counted. Without streaming: to the end of the answer's body."}),
		ms(Def{Tag: "request_latency_from_intended", Header: "Latency from Intended Time", Flags: OpenLoop, Group: Main, Order: 310,
			Value: func(r *Record) (float64, bool) { return between(r.Intended, r.Last) },
			Doc:   "From the time the schedule wanted the request sent to its last content event, in ms: request latency with the lateness of the send."}),
		ms(Def{Tag: "decode_duration", Header: "Decode Duration", Flags: StreamOnly, Group: Main, Order: 350,
			Value: func(r *Record) (float64, bool) { return between(r.First, r.Last) },
			Doc:   "From the first content event to the last, in ms: request latency less time to first token; 0 for a single event."}),
		ms(Def{Tag: "inter_token_latency", Header: "Inter Token Latency", Flags: StreamOnly, Group: Main, Order: 400, Value: itl, judge: itlAtOnce,
			Doc: "(Request latency − time to first token) / (output sequence length − tokens of the first event), in ms a token: the average gap of one request. " +
				"The first event's tokens count as 1, unless --per-chunk-usage makes the server say how many they are. " +
				"Absent below 2 tokens, and where all tokens came in one event or one read, for then no gap was measured."}),
		ms(Def{Tag: "inter_chunk_latency", Header: "Inter Chunk Latency", Shape: PerGap, Flags: StreamOnly, List: gaps,
			Doc: "The gaps between consecutive content events, in ms; the statistics are over the gaps of all requests. A gap between two " +
				"events of one read is left out."}),
		perUser(Def{Tag: "output_token_throughput_per_user", Header: "Output Token Throughput Per User", Flags: StreamOnly, Group: Main,
			Order: 500, Value: outputPerUser,
			Doc: "1 / inter token latency, in tokens per second: how fast one request's tokens come once the first is there."}),
		perUser(Def{Tag: "e2e_output_token_throughput", Header: "E2E Output Token Throughput", Flags: Produced, Group: Main, Order: 510, Value: e2eOutput,
			Doc: "Output sequence length / request latency, in tokens per second: one request's tokens over its whole time, prefill counted."}),
		perUser(Def{Tag: "prefill_throughput_per_user", Header: "Prefill Throughput Per User", Flags: StreamOnly, Value: prefill,
			Doc: "Input sequence length / time to first token, in tokens per second: how fast one request's prompt was taken in, queueing " +
				"and network counted."}),
	}
}

func ttft(r *Record) (float64, bool)    { return between(r.Start, r.First) }
func latency(r *Record) (float64, bool) { return between(r.Start, r.Last) }

func itl(r *Record) (float64, bool) {
	n, ok := osl(r)
	d, ok2 := between(r.First, r.Last)
	if !ok || !ok2 || n < 2 || d == 0 {
		return 0, false
	}
	first, _ := r.FirstChunk()
	return d / (n - float64(first)), true
}

// FirstChunk is how many of the answer's tokens came in its first content event: what the server said of it, else 1. It reports false where
// what the server said cannot be: none, or all of an answer.
func (r *Record) FirstChunk() (tokens int64, ok bool) {
	n, _ := osl(r)
	switch k := r.FirstTokens; {
	case !k.Known:
		return 1, true
	case k.N < 1 || float64(k.N) >= n:
		return 1, false
	default:
		return k.N, true
	}
}

// itlAtOnce is itl, and 0 where all tokens came at once: no objective asks for more.
func itlAtOnce(r *Record) (float64, bool) {
	if n, ok := osl(r); ok && n >= 2 && r.First != 0 && r.Last == r.First {
		return 0, true
	}
	return itl(r)
}

func outputPerUser(r *Record) (float64, bool) {
	v, ok := itl(r)
	if !ok {
		return 0, false
	}
	return 1e9 / v, true
}

func e2eOutput(r *Record) (float64, bool) {
	n, ok := osl(r)
	d, ok2 := latency(r)
	return perSecond(n, d, ok && ok2)
}

func prefill(r *Record) (float64, bool) {
	n, ok := known(r.In)
	d, ok2 := ttft(r)
	return perSecond(n, d, ok && ok2)
}

// perSecond is n in d nanoseconds as a rate.
func perSecond(n, d float64, ok bool) (float64, bool) {
	if !ok || d == 0 {
		return 0, false
	}
	return n * 1e9 / d, true
}

func gaps(r *Record, dst []float64) []float64 {
	for _, g := range r.Gaps {
		if g != Shared {
			dst = append(dst, float64(g))
		}
	}
	return dst
}
