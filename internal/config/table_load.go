package config

// loadFlags shape the load: arrivals, ramps, limits, cancellations.
func loadFlags() []Flag {
	ramp := func(field, group, help string, name string) Flag {
		return Flag{Field: field, Names: []string{name}, Group: group, Kind: Duration, Bound: above(0), Help: help}
	}
	return []Flag{
		{Field: "prefill_concurrency", Names: []string{"--prefill-concurrency"}, Group: gLoad, Kind: Int, Bound: between(1, maxSessions), Sweep: true,
			Help: "At most so many requests wait for their first token at once. Needs --streaming."},
		{Field: "request_rate", Names: []string{"--request-rate"}, Group: gLoad, Kind: Number, Bound: above(0), Sweep: true,
			Help: "Requests a second, whether or not the server keeps up. With --concurrency, an arrival that finds no free session is dropped, " +
				"and counted."},
		{Field: "arrival_pattern", Names: []string{"--arrival-pattern", "--request-rate-mode"}, Group: gLoad, Kind: Enum,
			Choices: []string{"concurrency_burst", "constant", "gamma", "poisson"}, Usable: []string{"constant", "gamma", "poisson"}, Default: "poisson",
			Help: "How the gaps of --request-rate are drawn: all equal, gamma or exponential."},
		{Field: "arrival_smoothness", Names: []string{"--arrival-smoothness", "--vllm-burstiness"}, Group: gLoad, Kind: Number, Bound: above(0),
			Help: "Shape of the gamma distribution of gaps: 1 is Poisson, less comes in clusters, more is more even. Without --arrival-pattern " +
				"it chooses gamma."},
		ramp("concurrency_ramp_duration", gLoad, "Bring the sessions up from 1 to --concurrency in this time. Seconds, or with a unit.",
			"--concurrency-ramp-duration"),
		ramp("prefill_concurrency_ramp_duration", gLoad, "Bring --prefill-concurrency up from 1 in this time.", "--prefill-concurrency-ramp-duration"),
		ramp("request_rate_ramp_duration", gLoad, "Bring the request rate up in this time, from rate × 0.1 s / this time.", "--request-rate-ramp-duration"),
		{Field: "request_rate_series", Names: []string{"--request-rate-series"}, Group: gLoad, Kind: Text,
			Help: "JSON file with the request rate over time: {\"points\": [{\"time_s\": 0, \"qps\": 5}, ...]} or the list alone; linear between " +
				"points, counted from the end of the ramp. In place of --request-rate."},
		{Field: "failed_request_threshold", Names: []string{"--failed-request-threshold"}, Group: gLoad, Kind: Number, Bound: between(0, 1),
			Help: "End the run, with an exit code that is not 0, when a larger share of the measured requests has failed; counted from " +
				"max(concurrency, 10) requests on."},

		{Field: "warmup_prefill_concurrency", Names: []string{"--warmup-prefill-concurrency"}, Group: gWarmup, Kind: Int, Bound: between(1, maxSessions),
			Help: "Requests of the warm-up phase that wait for their first token at once. Not given: as --prefill-concurrency."},
		{Field: "warmup_request_rate", Names: []string{"--warmup-request-rate"}, Group: gWarmup, Kind: Number, Bound: above(0),
			Help: "Request rate of the warm-up phase. Not given: as --request-rate."},
		{Field: "warmup_arrival_pattern", Names: []string{"--warmup-arrival-pattern"}, Group: gWarmup, Kind: Enum,
			Choices: []string{"concurrency_burst", "constant", "gamma", "poisson"}, Usable: []string{"constant", "gamma", "poisson"},
			Help: "Arrival pattern of the warm-up phase. Not given: as --arrival-pattern."},
		ramp("warmup_concurrency_ramp_duration", gWarmup, "Not given: as --concurrency-ramp-duration.", "--warmup-concurrency-ramp-duration"),
		ramp("warmup_prefill_concurrency_ramp_duration", gWarmup, "Not given: as --prefill-concurrency-ramp-duration.",
			"--warmup-prefill-concurrency-ramp-duration"),
		ramp("warmup_request_rate_ramp_duration", gWarmup, "Not given: as --request-rate-ramp-duration.", "--warmup-request-rate-ramp-duration"),

		{Field: "user_centric_rate", Names: []string{"--user-centric-rate"}, Group: gUsers, Kind: Number, Bound: above(0),
			Help: "Requests a second of --num-users users together: each sends its next turn users / rate after the one before, or once that is " +
				"answered. Users come and go, and from the start on stand at different points of their sessions. Needs --session-turns-mean of 2 or more."},
		{Field: "num_users", Names: []string{"--num-users"}, Group: gUsers, Kind: Int, Bound: between(1, maxSessions), Sweep: true,
			Help: "Users of --user-centric-rate at any time."},

		{Field: "request_cancellation_rate", Names: []string{"--request-cancellation-rate"}, Group: gCancel, Kind: Number,
			Bound: &Bound{Low: 0, Open: true, High: 100}, Help: "Per cent of the requests, drawn by the seed, that are cancelled. None in warm-up."},
		{Field: "request_cancellation_delay", Names: []string{"--request-cancellation-delay"}, Group: gCancel, Kind: Duration, Bound: atLeast(0),
			Default: "0", Help: "When a request is cancelled, counted from its last byte written. Needs --request-cancellation-rate."},
	}
}
