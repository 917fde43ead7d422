package metrics

import "math"

// Severity says how far the cold requests would have moved the result.
type Severity string

const (
	SeverityNone   Severity = "none" // no cold requests
	SeverityLow    Severity = "low"
	SeverityMedium Severity = "medium"
	SeverityHigh   Severity = "high"
)

// SeverityOf is the severity of a change in %: high over 10, medium from 2.
func SeverityOf(percent float64) Severity {
	switch {
	case percent > 10:
		return SeverityHigh
	case percent >= 2:
		return SeverityMedium
	}
	return SeverityLow
}

// ColdReason is how many cold requests had one reason. A request may have several.
type ColdReason struct {
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// ColdReport is what there is to say on cold requests.
type ColdReport struct {
	Count    int64        `json:"count"`    // valid requests that were cold
	Of       int64        `json:"of"`       // valid requests
	Share    float64      `json:"share"`    // Count / Of; 0 where there are none
	Reasons  []ColdReason `json:"reasons"`  // those that occurred, in the order of the Cold bits
	Included bool         `json:"included"` // they are in the latency sets all the same
	Severity Severity     `json:"severity"`
	// Change is the largest relative change, in %, that the cold requests make to the average of time to first token or of prefill
	// throughput per user (of request latency and e2e output throughput in a run without streaming), against the hot ones alone. It is
	// absent where no request was hot, which is of high severity.
	Change *float64 `json:"change_percent,omitempty"`
	// With is each ColdOut metric with the cold requests in it; empty where there are none.
	With []Result `json:"-"`
}

// Cold reports on the cold requests so far.
func (a *Accumulator) Cold() ColdReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := ColdReport{Count: a.coldSeen.n, Of: a.counts.OK, Included: a.o.IncludeCold, Severity: SeverityNone}
	if r.Count == 0 {
		return r
	}
	r.Share = float64(r.Count) / float64(r.Of)
	for i, n := range a.coldSeen.by {
		if n > 0 {
			r.Reasons = append(r.Reasons, ColdReason{Cold(1 << i).Names()[0], n})
		}
	}
	worst, known := 0., false
	for i, d := range a.defs {
		if !d.ColdOut {
			continue
		}
		all := a.withCold(i)
		res, ok := all.Result(d)
		if !ok {
			continue
		}
		r.With = append(r.With, res)
		if hot := a.hot[i]; JudgesCold(d.Tag, a.o.Streaming) && hot.n > 0 && hot.mean() != 0 {
			worst, known = max(worst, 100*math.Abs(all.mean()-hot.mean())/hot.mean()), true
		}
	}
	if !known {
		r.Severity = SeverityHigh
		return r
	}
	r.Severity, r.Change = SeverityOf(worst), &worst
	return r
}

// JudgesCold reports whether a metric's average decides how severe the cold requests of a run are.
func JudgesCold(tag string, streaming bool) bool {
	if streaming {
		return tag == tagTTFT || tag == "prefill_throughput_per_user"
	}
	return tag == "request_latency" || tag == "e2e_output_token_throughput"
}

// coldCount counts cold requests and their reasons.
type coldCount struct {
	n  int64
	by [4]int64 // by bit of Cold
}

func (c *coldCount) add(bits Cold) {
	c.n++
	for i := range c.by {
		if bits&(1<<i) != 0 {
			c.by[i]++
		}
	}
}

func (c *coldCount) merge(o *coldCount) {
	c.n += o.n
	for i := range c.by {
		c.by[i] += o.by[i]
	}
}
