package procedure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// The rules of the long-context verdict.
const (
	// GrowthLimit is the exponent of TTFT's growth between neighbouring input lengths above which it grows faster than the input: 1 is in
	// line with the input, below 1 a fixed part is shared out, 2 is the square. Attention alone takes a server a little above 1.
	GrowthLimit = 1.35
	// PrefillFallLimit is what share of its prefill throughput a user may lose from one length to the next.
	PrefillFallLimit = 0.25
	// OutputFallLimit is what share of its output throughput a user may lose against the shortest length.
	OutputFallLimit = 0.25
	// LostLimit is what share of the requests of a length may be lost: failed, or cut after they had run for longer than any that was answered.
	LostLimit = 0.01
	// longContextError is the chance that any of all intervals of a verdict misses its true value.
	longContextError = 0.01
	// leastSamples is how many requests a length needs for an interval.
	leastSamples = 4
	// mostBatches is how many runs of neighbouring requests an interval comes from: requests that ran side by side are alike, so their
	// batches' averages, not they themselves, are taken as independent.
	mostBatches = 20
)

// Sample is what one hot request says at one input length. A value of 0 is absent.
type Sample struct {
	Start   int64   // ns; orders the samples
	TTFT    float64 // ms
	Prefill float64 // tokens/sec/user
	Output  float64 // tokens/sec/user
	Server  float64 // the prompt's tokens by the server's count
}

// Length is one input length of the scan.
type Length struct {
	Asked   int // tokens
	Samples []Sample
	// Lost has a value for each request that came to an end, in the order of their starts: 1 where it failed or is overdue.
	Lost []float64
	// Overdue is how many of these were cut after they had run for longer than any that was answered.
	Overdue int
}

// Judgement is what an interval says of a limit.
type Judgement string

const (
	Healthy   Judgement = "healthy"   // the whole interval keeps the limit
	Unhealthy Judgement = "unhealthy" // the whole interval breaks it
	Undecided Judgement = "undecided" // the interval straddles it, or there are too few requests for one
)

// Check is one rule at one length.
type Check struct {
	Rule      string    `json:"rule"` // ttft_growth, prefill_fall, output_fall, error_rate
	Limit     float64   `json:"limit"`
	Value     *float64  `json:"value,omitempty"` // absent where there is nothing to compare
	Low       *float64  `json:"low,omitempty"`   // the interval, absent where there are too few requests
	High      *float64  `json:"high,omitempty"`
	Judgement Judgement `json:"judgement"`
	// Needed is how many requests at each length would decide it, if the figures stay as they are; 0 = decided, or not to be told.
	Needed int `json:"requests_needed,omitempty"`
}

// LengthChecks are the rules at one length. The shortest, which the others are held against, has error_rate alone.
type LengthChecks struct {
	Asked  int     `json:"isl"`
	Checks []Check `json:"checks"`
	// Cut: by the server's own count it did not read the whole prompts of this length, or of the one that it is held against, so that
	// nothing but error_rate is judged.
	Cut bool `json:"prompts_cut,omitempty"`
}

// LongContext is the verdict over all lengths.
type LongContext struct {
	Verdict Judgement      `json:"verdict"`
	From    int            `json:"unhealthy_from,omitempty"` // the first unhealthy length
	Rule    string         `json:"rule,omitempty"`           // the rule that fired there
	Needed  int            `json:"requests_needed,omitempty"`
	CutFrom int            `json:"prompts_cut_from,omitempty"` // the first length of which the server did not read the whole prompts
	Lengths []LengthChecks `json:"lengths"`
}

// Check is the check by a rule; nil = it is not among them.
func (l *LengthChecks) Check(rule string) *Check {
	if i := slices.IndexFunc(l.Checks, func(c Check) bool { return c.Rule == rule }); i >= 0 {
		return &l.Checks[i]
	}
	return nil
}

// Rules are the names of the rules with what they say.
func Rules() [4][2]string {
	return [4][2]string{
		{"ttft_growth", fmt.Sprintf("TTFT grows with an exponent of at most %v from one length to the next (1 = in line with the input)", GrowthLimit)},
		{"prefill_fall", fmt.Sprintf("prefill throughput per user falls by at most %.0f %% from one length to the next", 100*PrefillFallLimit)},
		{"output_fall", fmt.Sprintf("output throughput per user falls by at most %.0f %% against the shortest length", 100*OutputFallLimit)},
		{errorRate, fmt.Sprintf("at most %.0f %% of the requests fail, or hang until they are cut", 100*LostLimit)},
	}
}

// JudgeLongContext judges a scan: healthy where every interval keeps its limit, unhealthy from the first length where an interval breaks
// one, else undecided. The lengths may come in any order; the shortest is what the others are held against.
func JudgeLongContext(lengths []Length) LongContext {
	ls := slices.Clone(lengths)
	slices.SortStableFunc(ls, func(a, b Length) int { return cmp.Compare(a.Asked, b.Asked) })
	v := LongContext{Verdict: Healthy}
	if len(ls) < 2 {
		v.Verdict = Undecided
	}
	// All intervals together miss with longContextError at most (Bonferroni): four rules a length, one at the shortest.
	each := longContextError / float64(max(1, 4*len(ls)-3))
	cuts := make([]bool, len(ls))
	for i := range ls {
		now := &ls[i]
		checks := LengthChecks{Asked: now.Asked}
		if i == 0 {
			cuts[0] = now.cut(nil)
			checks.Cut = cuts[0]
		} else {
			first, before := &ls[0], &ls[i-1]
			cuts[i] = now.cut(before)
			checks.Cut = cuts[0] || cuts[i-1] || cuts[i]
			span := math.Log(float64(now.Asked) / float64(before.Asked))
			checks.Checks = []Check{
				judge("ttft_growth", GrowthLimit, ratio(before, now, ttft, each), func(log float64) float64 { return log / span }),
				judge("prefill_fall", PrefillFallLimit, ratio(before, now, prefill, each), fall),
				judge("output_fall", OutputFallLimit, ratio(first, now, output, each), fall),
			}
		}
		if cuts[i] && v.CutFrom == 0 {
			v.CutFrom = now.Asked
		}
		if checks.Cut {
			for k := range checks.Checks {
				checks.Checks[k].Judgement, checks.Checks[k].Needed = Undecided, 0
			}
		}
		checks.Checks = append(checks.Checks, judgeLost(now.Lost, each))
		v.Lengths = append(v.Lengths, checks)
		for _, c := range checks.Checks {
			switch {
			case c.Judgement == Unhealthy && v.Verdict != Unhealthy:
				v.Verdict, v.From, v.Rule = Unhealthy, now.Asked, c.Rule
			case c.Judgement == Undecided && v.Verdict == Healthy:
				v.Verdict = Undecided
			}
			v.Needed = max(v.Needed, c.Needed)
		}
	}
	if v.Verdict != Undecided {
		v.Needed = 0
	}
	return v
}

// judgeLost holds the share of lost requests against its limit: above it for sure where the whole interval is, undecided where the share alone is. A
// share within the limit is healthy whatever its interval, whose far end hundreds of answers without a failure would not bring below the limit.
func judgeLost(lost []float64, alpha float64) Check {
	c := Check{Rule: errorRate, Limit: LostLimit, Judgement: Undecided}
	if len(lost) == 0 {
		return c
	}
	share := shareOf(lost, alpha)
	c.Value, c.Low, c.High = &share.Value, share.Low, share.High
	switch {
	case *share.Low > LostLimit:
		c.Judgement = Unhealthy
	case share.Value <= LostLimit:
		c.Judgement = Healthy
	default:
		z := distuv.UnitNormal.Quantile(1 - alpha/2)
		if n := z * z * share.Value * (1 - share.Value) / math.Pow(share.Value-LostLimit, 2); n < mostNeeded {
			c.Needed = max(len(lost)+1, int(math.Ceil(n)))
		}
	}
	return c
}

const (
	// leastCounts is how many prompts of different texts have one and the same count only where the server stops counting there.
	leastCounts = 8
	// longEnough is the length from which texts of one length by our count differ by the server's, where its tokenizer is another one.
	longEnough = 128
	// templateVaries is by how much a count may be off ours for what is put around a prompt.
	templateVaries = 4
	// leastGrowth is what share of the tokens added to a prompt any tokenizer finds in them.
	leastGrowth = 0.25
)

// Counted is the average of the server's counts of the prompts; 0 = it gave none.
func (l *Length) Counted() float64 {
	return averageOf(l, func(s *Sample) float64 { return s.Server }).mean
}

// cut reports whether the server did not read the whole prompts, by its own count: it counts the same number of tokens in all of them, and fewer
// than there are, or the count does not grow with the prompts. before is the next shorter length; nil = none.
func (l *Length) cut(before *Length) bool {
	n, least, most := 0, math.Inf(1), 0.
	for i := range l.Samples {
		if s := l.Samples[i].Server; s > 0 {
			n, least, most = n+1, min(least, s), max(most, s)
		}
	}
	if n == 0 {
		return false
	}
	if n >= leastCounts && least == most && l.Asked >= longEnough && most < float64(l.Asked-templateVaries) {
		return true
	}
	if before == nil || l.Asked < longEnough {
		return false
	}
	was := before.Counted()
	return was > 0 && l.Counted()-was < leastGrowth*float64(l.Asked-before.Asked)
}

func ttft(s *Sample) float64    { return s.TTFT }
func prefill(s *Sample) float64 { return s.Prefill }
func output(s *Sample) float64  { return s.Output }

// fall is the share that is lost, from the logarithm of what is left.
func fall(log float64) float64 { return 1 - math.Exp(log) }

// logRatio is the logarithm of the ratio of two averages with the half-width of its interval.
type logRatio struct {
	ok, bounded bool
	log, half   float64
	n           int // requests at the length that has fewer
}

// ratio compares the averages of a figure at two lengths. The interval is the delta method's: the variances of the averages, each as a share
// of its own average squared, add up; they come from batches of neighbouring requests, with the t distribution of the fewer batches.
func ratio(a, b *Length, of func(*Sample) float64, alpha float64) logRatio {
	x, y := averageOf(a, of), averageOf(b, of)
	if x.mean <= 0 || y.mean <= 0 {
		return logRatio{}
	}
	r := logRatio{ok: true, log: math.Log(y.mean / x.mean), n: min(x.n, y.n)}
	if r.n < leastSamples {
		return r
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(min(x.batches, y.batches) - 1)}.Quantile(1 - alpha/2)
	r.bounded, r.half = true, t*math.Hypot(x.se/x.mean, y.se/y.mean)
	return r
}

type average struct {
	n, batches int
	mean, se   float64
}

func averageOf(l *Length, of func(*Sample) float64) average {
	ordered := slices.Clone(l.Samples)
	slices.SortStableFunc(ordered, func(a, b Sample) int { return cmp.Compare(a.Start, b.Start) })
	var values []float64
	sum := 0.
	for i := range ordered {
		if v := of(&ordered[i]); v > 0 {
			values = append(values, v)
			sum += v
		}
	}
	a := average{n: len(values), batches: min(len(values), mostBatches)}
	if a.n == 0 {
		return a
	}
	a.mean = sum / float64(a.n)
	if a.batches < 2 {
		return a
	}
	// Batches differ in size by one request at most.
	square := 0.
	for i := range a.batches {
		batch := values[i*a.n/a.batches : (i+1)*a.n/a.batches]
		s := 0.
		for _, v := range batch {
			s += v
		}
		d := s/float64(len(batch)) - a.mean
		square += d * d
	}
	a.se = math.Sqrt(square / float64(a.batches) / float64(a.batches-1))
	return a
}

// judge holds a ratio against a limit. scale turns its logarithm into the rule's figure, whether it grows or falls with it.
func judge(rule string, limit float64, r logRatio, scale func(log float64) float64) Check {
	c := Check{Rule: rule, Limit: limit, Judgement: Undecided}
	if !r.ok {
		return c
	}
	value := scale(r.log)
	c.Value = &value
	if !r.bounded {
		return c
	}
	low, high := scale(r.log-r.half), scale(r.log+r.half)
	low, high = min(low, high), max(low, high)
	c.Low, c.High = &low, &high
	switch {
	case low > limit:
		c.Judgement = Unhealthy
	case high <= limit:
		c.Judgement = Healthy
	default:
		// The half-width shrinks with the root of the number of requests; the far end of the interval must come to the limit.
		far := high
		if value > limit {
			far = low
		}
		if gap := math.Abs(value - limit); gap > 0 {
			if n := float64(r.n) * math.Pow(math.Abs(far-value)/gap, 2); n < mostNeeded {
				c.Needed = int(math.Ceil(n))
			}
		}
	}
	return c
}

// mostNeeded is the number of requests above which none is named: the figure is at its limit, and no run will tell.
const mostNeeded = 1e6
