package procedure

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"prefire/metrics"
)

// CapacityError is the chance that an interval of a capacity run misses its true value.
const CapacityError = 0.05

const (
	// unservedLimit is what share of the arrivals of an open loop may stay in flight for good: surely above it the server falls behind.
	unservedLimit = 0.01
	// leastBatches and mostStepBatches bound the runs of neighbouring requests that an interval comes from.
	leastBatches, mostStepBatches = 5, 20
)

// StepTags are the metrics that the table of a capacity run shows, beside those of its limits.
func StepTags(slo []Clause) []string {
	tags := []string{"time_to_first_token", "inter_token_latency", "request_latency", "output_sequence_length"}
	for _, c := range slo {
		if c.Tag != errorRate && !slices.Contains(tags, c.Tag) {
			tags = append(tags, c.Tag)
		}
	}
	return tags
}

// Interval is a figure with its 95 % interval; Low and High are absent where there is too little to rest one on.
type Interval struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// Finding is what a step says of one limit.
type Finding struct {
	Limit string `json:"limit"`
	// Value is the figure, with the interval of an average; absent where no request has it, or where the percentile is among the failed ones.
	Value *Interval `json:"figure,omitempty"`
	// Beyond is the share of the requests beyond the limit, failed ones among them, for a percentile; its interval decides.
	Beyond *Interval `json:"beyond,omitempty"`
	Kept   bool      `json:"kept"`
	Sure   bool      `json:"sure"` // the whole interval is on one side
}

// Figures are a metric's in the window.
type Figures struct {
	Count int     `json:"count"`
	Avg   float64 `json:"avg"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
}

// Step is what came of one load. All of it is from the steady window, but for Sent.
type Step struct {
	Load float64 `json:"load"` // sessions at once, or requests a second
	// Tries is how many runs the figures are from.
	Tries    int `json:"tries"`
	Sent     int `json:"sent"`     // whole runs
	Requests int `json:"requests"` // those that began in the window
	Failed   int `json:"failed"`   // of these
	Censored int `json:"censored"` // of these: cut by the end of the grace; in no figure but the percentiles whose limit they have passed
	// From, To and Length are the window of the last run in s from its first request, and the time to its last one.
	From   float64 `json:"window_from_s"`
	To     float64 `json:"window_to_s"`
	Length float64 `json:"sending_s"`
	Steady bool    `json:"steady"`
	Why    string  `json:"not_steady_because,omitempty"`

	// Throughput is answers a second: a request across an edge of the window counts by the share of its time inside.
	Throughput Interval           `json:"request_throughput"`
	Tokens     float64            `json:"output_token_throughput"` // likewise, in tokens a second
	InFlight   float64            `json:"in_flight_mean"`
	ErrorRate  float64            `json:"error_rate"`
	Metrics    map[string]Figures `json:"metrics"`

	// Unserved is the share of the arrivals that the server falls behind by, for a rate.
	Unserved *Interval `json:"unserved,omitempty"`
	Findings []Finding `json:"limits"`
	// Aborted: so many requests failed that the run was ended.
	Aborted bool `json:"aborted,omitempty"`
	Kept    bool `json:"kept"` // all limits, and the server does not fall behind
	Sure    bool `json:"sure"` // that it keeps them all, or that it breaks one
	// Client are the claims that the client was not fit to make.
	Client []string `json:"client_unfit_for,omitempty"`
}

// StepOptions say how a step is judged.
type StepOptions struct {
	Load float64
	// Open: the load is a rate.
	Open bool
	SLO  []Clause
	// Tags are those of StepRequest.Values.
	Tags []string
	// Aborted: the run was ended for its failures.
	Aborted bool
}

// JudgeStep judges one load by the requests of its runs, of which each has its own steady window.
func JudgeStep(o StepOptions, runs ...[]StepRequest) Step {
	s := Step{Load: o.Load, Tries: len(runs), Metrics: map[string]Figures{}, Aborted: o.Aborted, Steady: true}
	var in []StepRequest
	var rates, flights []float64
	var behind []growth
	tokens := slices.Index(o.Tags, "output_sequence_length")
	seconds, made := 0., 0.
	for _, rs := range runs {
		s.Sent += len(rs)
		if len(rs) == 0 {
			s.Steady, s.Why = false, "no request came back"
			continue
		}
		sortByStart(rs)
		w := findWindow(rs)
		at := func(t int64) float64 { return float64(t-w.Begin) / 1e9 }
		s.From, s.To, s.Length = at(w.From), at(w.To), at(w.Sent)
		if !w.Steady && s.Steady {
			s.Steady, s.Why = false, w.Why
		}
		for i := range rs {
			if w.holds(&rs[i]) {
				in = append(in, rs[i])
			}
		}
		if w.Sent <= w.From {
			continue
		}
		rates = append(rates, spread(rs, w.From, w.Sent, windowBins, func(r *StepRequest) float64 {
			if r.answered() {
				return 1e9
			}
			return 0
		})...)
		if tokens >= 0 {
			for _, v := range spread(rs, w.From, w.Sent, windowBins, func(r *StepRequest) float64 {
				if n := r.Values[tokens]; r.answered() && !math.IsNaN(n) {
					return n * 1e9
				}
				return 0
			}) {
				made += v / windowBins
			}
			seconds++
		}
		flights = append(flights, w.flight(rs)...)
		if g, ok := unserved(rs); ok && o.Open {
			behind = append(behind, g)
		}
	}
	if seconds > 0 {
		s.Tokens = made / seconds
	}
	s.Requests = len(in)
	for i := range in {
		switch {
		case in[i].Failed:
			s.Failed++
		case in[i].Censored:
			s.Censored++
		}
	}
	if told := s.Requests - s.Censored; told > 0 {
		s.ErrorRate = float64(s.Failed) / float64(told)
	}
	s.Throughput = meanOf(rates, len(rates))
	s.InFlight = meanOf(flights, 0).Value
	for i, tag := range o.Tags {
		if v := values(in, i); len(v) > 0 {
			avg := meanOf(v, 0).Value
			slices.Sort(v)
			s.Metrics[tag] = Figures{Count: len(v), Avg: avg, P50: quantile(v, 50), P99: quantile(v, 99)}
		}
	}
	s.judge(o, in, behind)
	return s
}

// growth is by how much the number in flight grew while requests were sent, as a share of the arrivals.
type growth struct{ share, half float64 }

// unserved is the growth of the number in flight, with half the width of its interval; rs are in the order of their starts. It is seen from when
// the first requests' answers are there, the 95th in 100 of them, until sending ends: a server that falls behind has no steady window.
//
// The number in flight goes up and down by chance, more slowly the longer a request takes, so that the spread of its parts need not show it. Of
// arrivals at random it is Poisson's where the server takes all: between two moments it differs with twice its mean for variance at most.
func unserved(rs []StepRequest) (g growth, ok bool) {
	begin, sent := rs[0].Start, rs[len(rs)-1].Start
	var took []float64
	for i := range rs {
		if r := &rs[i]; r.Start-begin <= (sent-begin)/4 && !r.Failed {
			took = append(took, float64(r.End-r.Start))
		}
	}
	if len(took) == 0 {
		return g, false
	}
	slices.Sort(took)
	from := begin + min(int64(quantile(took, 95)), (sent-begin)/2)
	arrived := 0
	for i := range rs {
		if rs[i].Start >= from {
			arrived++
		}
	}
	if sent <= from || arrived < 2 {
		return g, false
	}
	t := trendOf(inFlight(rs, from, sent, windowBins, func(*StepRequest) bool { return true }))
	// From the middle of the first part to that of the last.
	n := float64(arrived) * (windowBins - 1) / windowBins
	half := max(studentT(t.n-2, CapacityError)*t.se, distuv.UnitNormal.Quantile(1-CapacityError/2)*math.Sqrt(2*t.mean))
	return growth{t.change / n, half / n}, true
}

// judge says which limits are kept.
func (s *Step) judge(o StepOptions, in []StepRequest, behind []growth) {
	s.Kept, s.Sure = true, true
	broken := false // for sure
	take := func(kept, sure bool) {
		s.Kept = s.Kept && kept
		s.Sure = s.Sure && sure
		broken = broken || !kept && sure
	}
	for _, c := range o.SLO {
		f := c.judge(in, slices.Index(o.Tags, c.Tag))
		s.Findings = append(s.Findings, f)
		take(f.Kept, f.Sure)
	}
	if n := float64(len(behind)); n > 0 {
		var all growth
		for _, g := range behind {
			all.share += g.share / n
			all.half = math.Hypot(all.half, g.half/n)
		}
		low, high := all.share-all.half, all.share+all.half
		s.Unserved = &Interval{all.share, &low, &high}
		take(low <= unservedLimit, low > unservedLimit || high <= unservedLimit)
	}
	if s.Aborted || len(in) == s.Failed+s.Censored {
		s.Kept, broken = false, true
	}
	s.Sure = s.Sure || broken
}

// values are those of a metric, of the requests that have it.
func values(in []StepRequest, i int) []float64 {
	var out []float64
	for j := range in {
		if v := in[j].Values[i]; in[j].answered() && !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// judge holds the requests of the window against the limit. i is the metric's index.
func (c *Clause) judge(in []StepRequest, i int) Finding {
	f := Finding{Limit: c.Text}
	switch {
	case c.Tag == errorRate:
		var failed []float64
		for j := range in {
			if !in[j].Censored {
				failed = append(failed, indicator(in[j].Failed))
			}
		}
		if len(failed) == 0 {
			return f
		}
		share := shareOf(failed, CapacityError)
		f.Value = &share
		f.Kept, f.Sure = share.Value < c.Limit, share.decides(c.Limit)
	case c.Percentile == 0:
		v := values(in, i)
		if len(v) == 0 {
			return f
		}
		mean := meanOf(v, 0)
		f.Value = &mean
		f.Kept, f.Sure = mean.Value < c.Limit != c.AtLeast, mean.decides(c.Limit)
	default:
		c.judgePercentile(&f, in, i)
	}
	return f
}

// judgePercentile judges by the share of the requests beyond the limit, which has an interval where a percentile of correlated values has none:
// failed requests are beyond every limit, and so is one that was cut after it had run for longer than a limit on time.
func (c *Clause) judgePercentile(f *Finding, in []StepRequest, i int) {
	var beyond, v []float64
	failed := 0
	for j := range in {
		switch r := &in[j]; {
		case r.Failed:
			failed++
			beyond = append(beyond, 1)
		case r.Censored:
			if c.Unit == metrics.Milliseconds && !c.AtLeast && float64(r.End-r.Start)/1e6 >= c.Limit && c.Tag != "inter_token_latency" {
				failed++
				beyond = append(beyond, 1)
			}
		case !math.IsNaN(r.Values[i]):
			v = append(v, r.Values[i])
			beyond = append(beyond, indicator(r.Values[i] < c.Limit == c.AtLeast))
		}
	}
	if len(beyond) == 0 {
		return
	}
	share := shareOf(beyond, CapacityError)
	f.Beyond = &share
	// A failed request stands at the bad end of the order.
	bad := math.Inf(1)
	allowed := 1 - c.Percentile/100
	if c.AtLeast {
		bad, allowed = math.Inf(-1), c.Percentile/100
	}
	for range failed {
		v = append(v, bad)
	}
	slices.Sort(v)
	p := quantile(v, c.Percentile)
	if !math.IsInf(p, 0) && !math.IsNaN(p) {
		f.Value = &Interval{Value: p}
		f.Kept = p < c.Limit != c.AtLeast
	}
	f.Sure = share.decides(allowed) && (share.Value < allowed) == f.Kept
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// decides reports whether the interval lies on one side of a limit.
func (i *Interval) decides(limit float64) bool {
	return i.Low != nil && (*i.High < limit || *i.Low >= limit)
}

// quantile is linear between order statistics; sorted has one value at least.
func quantile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) || sorted[i] == sorted[i+1] {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// meanOf is the mean with an interval from the means of batches of neighbours and Student's t; batches 0 takes as many as there are, up to
// mostStepBatches. Fewer than leastBatches values give none.
func meanOf(v []float64, batches int) Interval {
	var m Interval
	if len(v) == 0 {
		return m
	}
	for _, x := range v {
		m.Value += x
	}
	m.Value /= float64(len(v))
	if batches == 0 {
		batches = min(len(v), mostStepBatches)
	}
	if batches < leastBatches {
		return m
	}
	half := studentT(batches-1, CapacityError) * math.Sqrt(batchSquare(v, m.Value, batches)/float64(batches))
	low, high := m.Value-half, m.Value+half
	m.Low, m.High = &low, &high
	return m
}

// batchSquare is the variance of the means of batches of neighbours, which differ in size by one at most.
func batchSquare(v []float64, mean float64, batches int) float64 {
	square := 0.
	for b := range batches {
		batch := v[b*len(v)/batches : (b+1)*len(v)/batches]
		s := 0.
		for _, x := range batch {
			s += x
		}
		d := s/float64(len(batch)) - mean
		square += d * d
	}
	return square / float64(batches-1)
}

// shareOf is the share of ones, with the exact binomial interval (Clopper and Pearson) of as many independent values as the batches of
// neighbours are worth, which misses with a chance of alpha at most.
func shareOf(v []float64, alpha float64) Interval {
	s := meanOf(v, 1)
	n := worth(v, s.Value)
	k := s.Value * n
	low, high := 0., 1.
	if k > 0 {
		low = distuv.Beta{Alpha: k, Beta: n - k + 1}.Quantile(alpha / 2)
	}
	if k < n {
		high = distuv.Beta{Alpha: k + 1, Beta: n - k}.Quantile(1 - alpha/2)
	}
	s.Low, s.High = &low, &high
	return s
}

// worth is how many independent values of 0 and 1 say as much about their share as these, by the spread of their batches.
func worth(v []float64, share float64) float64 {
	n := float64(len(v))
	batches := min(len(v), mostStepBatches)
	if batches < leastBatches || share <= 0 || share >= 1 {
		return n
	}
	size := n / float64(batches)
	return n / min(size, max(1, size*batchSquare(v, share, batches)/(share*(1-share))))
}
