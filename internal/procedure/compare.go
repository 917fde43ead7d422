package procedure

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"prefire/metrics"
)

const (
	// CompareError is the chance that two runs of the same truth are found to differ in any metric, and that an interval misses its truth.
	CompareError = 0.05
	// compareResamples is how often each run is drawn anew.
	compareResamples = 500
	// resampledMost bounds the values drawn in all for a metric's percentiles: long runs are drawn anew less often, but leastResamples times.
	resampledMost, leastResamples = 50_000_000, 200
	// leastCompared is how many requests of a run a metric needs to be compared.
	leastCompared = 20
	// lengthsApart is how far the average lengths of two runs may be apart, as a share: more is another load, and no difference of the server.
	lengthsApart = 0.02
	// coldApart is how far their shares of cold requests may be apart.
	coldApart = 0.05
	// failedApart is how far their shares of failed requests may be apart: those that succeed under a server that refuses many are its lighter load.
	failedApart = 0.1
	// hungMost is what share of a run's requests may have hung until they were cut: with more, its 99th percentile is among them.
	hungMost = 0.01
	// rateBins is how many equal parts of a run its rates are compared by.
	rateBins = 50
)

// Side is one of two runs that are compared.
type Side struct {
	// Requests have the metrics of CompareTags.
	Requests []StepRequest
	// Unfit are the claims that the client was not fit to make in this run: TTFT, ITL, ICL, load.
	Unfit []string
	// Load says what load the run was under, where that is known; two different ones are not comparable.
	Load string
}

// Outcome is what a comparison says of a metric.
type Outcome string

const (
	Better        Outcome = "better"
	Worse         Outcome = "worse"
	NoDifference  Outcome = "no difference"
	NotComparable Outcome = "not comparable"
)

// Difference is a figure of B against that of A.
type Difference struct {
	Stat string  `json:"statistic"` // avg, p50, p90, p95, p99
	A    float64 `json:"a"`
	B    float64 `json:"b"`
	// Change is of B against A in %, of an error rate in percentage points; of an average at equal lengths, where the lengths vary.
	Change float64 `json:"change"`
	Low    float64 `json:"low"` // its interval, by itself
	High   float64 `json:"high"`
	P      float64 `json:"-"` // by itself
}

// Compared is one metric of two runs.
type Compared struct {
	Tag     string       `json:"metric"`
	Unit    metrics.Unit `json:"unit"`
	Larger  bool         `json:"larger_is_better"`
	Outcome Outcome      `json:"verdict"`
	Why     string       `json:"reason,omitempty"` // of NotComparable
	// Note says of which requests the verdict is, where the error rates of the runs differ.
	Note string `json:"note,omitempty"`
	// P is the average's, adjusted over all metrics by Holm's procedure; absent where the metric is not comparable.
	P           *float64     `json:"p_adjusted,omitempty"`
	Differences []Difference `json:"differences,omitempty"` // the average first
}

// find is the difference of a statistic.
func (c *Compared) find(stat string) *Difference {
	if i := slices.IndexFunc(c.Differences, func(d Difference) bool { return d.Stat == stat }); i >= 0 {
		return &c.Differences[i]
	}
	return nil
}

const (
	tagInput, tagOutput       = "input_sequence_length", "output_sequence_length"
	tagRequests, tagOutTokens = "request_throughput", "output_token_throughput"
)

// compareDefs are the metrics that two runs are compared by, one value a request each.
func compareDefs() []*metrics.Def {
	return slices.DeleteFunc(metrics.Table(), func(d *metrics.Def) bool {
		return d.Shape != metrics.PerRecord || !d.ColdOut || d.Has(metrics.NotInRecord) || d.Has(metrics.Internal)
	})
}

// CompareTags are the metrics that Side.Requests have: those compared, and the lengths.
func CompareTags() []string {
	var tags []string
	for _, d := range compareDefs() {
		tags = append(tags, d.Tag)
	}
	return append(tags, tagInput, tagOutput)
}

// CompareOptions say what a comparison computes.
type CompareOptions struct {
	Percentiles []float64
	Seed        uint64 // of the resampling
}

// Compare holds run b against run a, metric by metric. The average's interval and probability come from a moving block bootstrap: neighbouring
// requests, which ran side by side, are drawn together, in blocks as long as twice the correlation time and the cube root of the number of
// requests at least; the logarithm of the ratio is taken against Student's t with as many degrees as there are blocks. What the lengths of the
// prompts and answers explain of a metric's spread (one straight line for both runs) is taken out of its average. Holm's procedure keeps the
// chance of any false finding over all metrics at 5 %.
func Compare(a, b Side, o CompareOptions) []Compared {
	for _, s := range []*Side{&a, &b} {
		sortByStart(s.Requests)
	}
	tags := CompareTags()
	input, output := len(tags)-2, len(tags)-1
	apart := whyApart(&a, &b, input, output)
	var out []Compared
	for i, d := range compareDefs() {
		c := Compared{Tag: d.Tag, Unit: d.Display, Larger: d.Has(metrics.LargerBetter)}
		x, y := a.column(i, input, output), b.column(i, input, output)
		if len(x.values) == 0 && len(y.values) == 0 {
			continue
		}
		if c.Why = cmp.Or(apart(d.Tag), x.few(&y)); c.Why == "" {
			c.compare(x, y, o)
		}
		out = append(out, c)
	}
	for _, r := range [...]struct {
		tag    string
		unit   metrics.Unit
		weight func(*StepRequest) float64
	}{
		{tagRequests, metrics.RequestsPerSec, func(*StepRequest) float64 { return 1 }},
		{tagOutTokens, metrics.TokensPerSec, func(r *StepRequest) float64 { return r.Values[output] }},
	} {
		c := Compared{Tag: r.tag, Unit: r.unit, Larger: true}
		x, y := a.rates(r.weight), b.rates(r.weight)
		if c.Why = cmp.Or(apart(r.tag), tooFew(a.answers(), b.answers()), x.few(&y)); c.Why == "" {
			c.compare(x, y, CompareOptions{Seed: o.Seed})
		}
		out = append(out, c)
	}
	failures := Compared{Tag: errorRate, Unit: metrics.Percent}
	if failures.Why = apart(errorRate); failures.Why == "" {
		failures.compareFailures(&a, &b)
	}
	out = append(out, failures)
	holm(out)
	if failures = out[len(out)-1]; failures.Outcome == Better || failures.Outcome == Worse {
		rate := failures.find("avg")
		for i := range out[:len(out)-1] {
			if out[i].Outcome != NotComparable {
				out[i].Note = fmt.Sprintf("of the requests that succeeded: %s of A's and %s of B's", share(1-rate.A/100), share(1-rate.B/100))
			}
		}
	}
	return out
}

// share is a share in percent, as people read it.
func share(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// whyApart says why a metric of two runs cannot be held against each other; "" = it can.
func whyApart(a, b *Side, input, output int) func(tag string) string {
	var all, latencies string
	if a.Load != "" && b.Load != "" && a.Load != b.Load {
		all = fmt.Sprintf("other load: %s and %s", a.Load, b.Load)
	}
	if slices.Contains(a.Unfit, "load") || slices.Contains(b.Unfit, "load") {
		all = cmp.Or(all, "the client was the limit: it did not deliver the load asked for")
	}
	inputs, outputs := lengthsDiffer(a, b, input, "input"), lengthsDiffer(a, b, output, "output")
	all = cmp.Or(all, inputs)
	if x, y := a.coldShare(), b.coldShare(); math.Abs(x-y) > coldApart {
		latencies = fmt.Sprintf("other cold share: %s and %s", share(x), share(y))
	}
	if x, y := a.failedShare(), b.failedShare(); math.Abs(x-y) > failedApart {
		latencies = fmt.Sprintf("other share of failed requests: %s and %s; the latencies are those of the requests that were served", share(x), share(y))
	}
	hung := ""
	if x, y := a.hungShare(), b.hungShare(); max(x, y) > hungMost {
		hung = fmt.Sprintf("requests hung until they were cut: %s of A's and %s of B's, after longer than any that was answered; they are in no latency", share(x), share(y))
		latencies = hung
	}
	unfit := func(claim string) string {
		if slices.Contains(a.Unfit, claim) || slices.Contains(b.Unfit, claim) {
			return "the client was the limit: it was not fit to claim " + claim
		}
		return ""
	}
	return func(tag string) string {
		switch tag {
		case errorRate:
			return all
		case tagRequests, tagOutTokens:
			return cmp.Or(all, hung, outputs)
		case "time_to_first_token", "time_to_second_token", "time_to_first_output_token", "prefill_throughput_per_user":
			return cmp.Or(all, latencies, unfit("TTFT"))
		case "inter_token_latency", "output_token_throughput_per_user":
			return cmp.Or(all, latencies, unfit("ITL"))
		}
		return cmp.Or(all, latencies, outputs)
	}
}

// lengthsDiffer says that the average lengths are apart, and by more than chance.
func lengthsDiffer(a, b *Side, i int, what string) string {
	x, y := meanOf(values(a.Requests, i), 0), meanOf(values(b.Requests, i), 0)
	if x.Low == nil || y.Low == nil || x.Value <= 0 {
		return ""
	}
	if math.Abs(y.Value/x.Value-1) <= lengthsApart || *x.High >= *y.Low && *y.High >= *x.Low {
		return ""
	}
	return fmt.Sprintf("other %s lengths: %.4g and %.4g tokens on average", what, x.Value, y.Value)
}

func (s *Side) coldShare() float64 {
	n := 0
	for i := range s.Requests {
		if s.Requests[i].Cold {
			n++
		}
	}
	return float64(n) / float64(max(1, len(s.Requests)))
}

// failures are the requests that came to an end, 1 for each that failed or hung until it was cut.
func (s *Side) failures() []float64 { return lost(s.Requests) }

// hungShare is what share of the requests hung until they were cut.
func (s *Side) hungShare() float64 {
	o := overdueOf(s.Requests)
	return float64(o.Count()) / float64(max(1, len(s.Requests)))
}

func (s *Side) failedShare() float64 {
	if failed := s.failures(); len(failed) > 0 {
		return mean(failed)
	}
	return 0
}

// column is one metric of a run: its values in the order of the requests' starts, with what explains them, each nil where it does not vary.
type column struct {
	values  []float64
	explain [][]float64
}

// column takes the hot answered requests.
func (s *Side) column(i, input, output int) column {
	c := column{explain: make([][]float64, 2)}
	for j := range s.Requests {
		r := &s.Requests[j]
		if !r.answered() || r.Cold || math.IsNaN(r.Values[i]) {
			continue
		}
		c.values = append(c.values, r.Values[i])
		for k, length := range [...]int{input, output} {
			c.explain[k] = append(c.explain[k], r.Values[length])
		}
	}
	return c
}

// rates are what is answered a second, in equal parts of the time of sending.
func (s *Side) rates(weight func(*StepRequest) float64) column {
	rs := s.Requests
	if len(rs) < 2 || rs[0].Start == rs[len(rs)-1].Start {
		return column{}
	}
	return column{values: spread(rs, rs[0].Start, rs[len(rs)-1].Start, rateBins, func(r *StepRequest) float64 {
		if w := weight(r); r.answered() && !math.IsNaN(w) {
			return w * 1e9
		}
		return 0
	})}
}

// answers is how many requests were answered.
func (s *Side) answers() (n int) {
	for i := range s.Requests {
		if s.Requests[i].answered() {
			n++
		}
	}
	return n
}

// tooFew says that n and m values are too few to be held against each other; "" = they are not.
func tooFew(n, m int) string {
	switch {
	case n == 0:
		return "A has no values"
	case m == 0:
		return "B has no values"
	case n < leastCompared || m < leastCompared:
		return fmt.Sprintf("too few values: %d and %d, it takes %d", n, m, leastCompared)
	}
	return ""
}

func (c *column) few(o *column) string {
	why := tooFew(len(c.values), len(o.values))
	switch {
	case why != "":
		return why
	case mean(c.values) <= 0 || mean(o.values) <= 0:
		return "an average is 0"
	}
	return ""
}

func mean(v []float64) float64 {
	s := 0.
	for _, x := range v {
		s += x
	}
	return s / float64(len(v))
}

// compare compares the average, at equal lengths, and percentiles.
func (c *Compared) compare(x, y column, o CompareOptions) {
	a, b := atEqualLengths(x, y)
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	ra, rb := newResampler(a, x.values, o.Percentiles), newResampler(b, y.values, o.Percentiles)
	n := compareResamples
	if len(o.Percentiles) > 0 {
		n = max(leastResamples, min(n, resampledMost/(len(a)+len(b))))
	}
	logs := make([][]float64, 1+len(o.Percentiles))
	for range n {
		fa, fb := ra.draw(rng), rb.draw(rng)
		for k := range logs {
			if fa[k] > 0 && fb[k] > 0 {
				logs[k] = append(logs[k], math.Log(fb[k]/fa[k]))
			}
		}
	}
	freedom := max(1, min(ra.blocks(), rb.blocks())-1)
	sortedA, sortedB := slices.Sorted(slices.Values(x.values)), slices.Sorted(slices.Values(y.values))
	for k, l := range logs {
		d := Difference{Stat: "avg", A: mean(x.values), B: mean(y.values)}
		ratio := math.Log(mean(b) / mean(a))
		if k > 0 {
			p := o.Percentiles[k-1]
			d = Difference{Stat: percentileName(p), A: quantile(sortedA, p), B: quantile(sortedB, p)}
			ratio = math.Log(d.B / d.A)
		}
		// A resample of k blocks spreads by a factor of (k-1)/k too little.
		se := deviation(l) * math.Sqrt(float64(freedom+1)/float64(freedom))
		half := studentT(freedom, CompareError) * se
		d.Change, d.Low, d.High = percentOf(ratio), percentOf(ratio-half), percentOf(ratio+half)
		switch {
		case math.IsNaN(ratio) || math.IsInf(ratio, 0):
			continue // a percentile is 0
		case se > 0:
			d.P = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(freedom)}.CDF(-math.Abs(ratio)/se)
		case ratio == 0:
			d.P = 1
		}
		c.Differences = append(c.Differences, d)
	}
}

func percentileName(p float64) string { return "p" + strings.TrimSuffix(fmt.Sprintf("%g", p), ".0") }

func percentOf(log float64) float64 { return 100 * (math.Exp(log) - 1) }

func deviation(v []float64) float64 {
	m, s := mean(v), 0.
	for _, x := range v {
		s += (x - m) * (x - m)
	}
	return math.Sqrt(s / float64(max(1, len(v)-1)))
}

// atEqualLengths takes out of the values what the lengths explain: the least squares slopes within the runs, common to both.
func atEqualLengths(x, y column) (a, b []float64) {
	a, b = slices.Clone(x.values), slices.Clone(y.values)
	// One after another: the second explains what the first leaves of the values and of it (Frisch and Waugh).
	var done [][2][]float64
	for k := range x.explain {
		p, q := slices.Clone(x.explain[k]), slices.Clone(y.explain[k])
		if slices.ContainsFunc(p, math.IsNaN) || slices.ContainsFunc(q, math.IsNaN) {
			continue
		}
		center := (mean(p) + mean(q)) / 2
		for _, v := range [...][]float64{p, q} {
			for i := range v {
				v[i] -= center
			}
		}
		before := within(p, p) + within(q, q)
		for _, d := range done {
			remove(p, q, d[0], d[1])
		}
		if left := within(p, p) + within(q, q); left <= 1e-9*before || left == 0 {
			continue
		}
		remove(a, b, p, q)
		done = append(done, [2][]float64{p, q})
	}
	return a, b
}

// remove takes out of a and b what p and q explain.
func remove(a, b, p, q []float64) {
	slope := (within(a, p) + within(b, q)) / (within(p, p) + within(q, q))
	for i := range a {
		a[i] -= slope * p[i]
	}
	for i := range b {
		b[i] -= slope * q[i]
	}
}

// within is the sum of products of the deviations of two series.
func within(u, v []float64) float64 {
	mu, mv, s := mean(u), mean(v), 0.
	for i := range u {
		s += (u[i] - mu) * (v[i] - mv)
	}
	return s
}

// resampler draws a series anew in blocks of neighbours.
type resampler struct {
	block  int
	sums   []float64 // of the first so many values
	order  []int     // of the raw values, by size
	raw    []float64
	ranks  []float64
	counts []int32
	out    []float64
}

// newResampler prepares a series; averages are of series, percentiles of raw.
func newResampler(series, raw []float64, ranks []float64) *resampler {
	n := len(series)
	r := &resampler{block: blockLength(series), sums: make([]float64, n+1), raw: raw, ranks: ranks, out: make([]float64, 1+len(ranks))}
	for i, v := range series {
		r.sums[i+1] = r.sums[i] + v
	}
	if len(ranks) > 0 {
		r.order, r.counts = make([]int, n), make([]int32, n+1)
		for i := range r.order {
			r.order[i] = i
		}
		slices.SortFunc(r.order, func(i, j int) int { return cmp.Compare(raw[i], raw[j]) })
	}
	return r
}

// blocks is how many blocks a resample is put together from.
func (r *resampler) blocks() int { return (len(r.sums) - 1) / r.block }

// blockLength is twice the correlation time of a series (Geyer's initial positive sequence), the cube root of its length at least, a tenth at
// most.
func blockLength(v []float64) int {
	n := len(v)
	m := mean(v)
	at := func(lag int) float64 {
		s := 0.
		for i := lag; i < n; i++ {
			s += (v[i] - m) * (v[i-lag] - m)
		}
		return s
	}
	variance, tau := at(0), 1.
	most := n / 10
	for lag := 1; lag+1 < most && variance > 0; lag += 2 {
		pair := (at(lag) + at(lag+1)) / variance
		if pair <= 0 {
			break
		}
		tau += 2 * pair
	}
	return max(1, min(most, max(int(math.Ceil(2*tau)), int(math.Ceil(math.Cbrt(float64(n)))))))
}

// draw gives the average and the percentiles of one resample. What it returns is used again by the next.
func (r *resampler) draw(rng *rand.Rand) []float64 {
	n, blocks := len(r.sums)-1, r.blocks()
	sum := 0.
	if r.counts != nil {
		clear(r.counts)
	}
	for range blocks {
		at := rng.IntN(n - r.block + 1)
		sum += r.sums[at+r.block] - r.sums[at]
		if r.counts != nil { // a block counts from here, and no more from there
			r.counts[at]++
			r.counts[at+r.block]--
		}
	}
	total := blocks * r.block
	r.out[0] = sum / float64(total)
	if r.counts == nil {
		return r.out
	}
	for i := 1; i < n; i++ {
		r.counts[i] += r.counts[i-1]
	}
	for k, p := range r.ranks {
		r.out[k+1] = r.percentile(p, total)
	}
	return r.out
}

// percentile is linear between order statistics of the resample.
func (r *resampler) percentile(p float64, total int) float64 {
	at := p / 100 * float64(total-1)
	lower := int(at)
	seen, low := 0, math.NaN()
	for _, i := range r.order {
		seen += int(r.counts[i])
		if math.IsNaN(low) && seen > lower {
			low = r.raw[i]
		}
		if seen > lower+1 || seen == total && !math.IsNaN(low) {
			return low + (at-float64(lower))*(r.raw[i]-low)
		}
	}
	return low
}

// compareFailures compares the shares of failed requests, in percentage points, by the worth of their batches in independent requests and with
// one failure and one success more on each side (Agresti and Caffo 2000).
func (c *Compared) compareFailures(a, b *Side) {
	var rate, variance [2]float64
	for k, s := range [...]*Side{a, b} {
		failed := s.failures()
		if len(failed) == 0 {
			c.Why = "no request ended"
			return
		}
		rate[k] = mean(failed)
		n := worth(failed, rate[k])
		p := (rate[k]*n + 1) / (n + 2)
		variance[k] = p * (1 - p) / (n + 2)
	}
	d, se := rate[1]-rate[0], math.Sqrt(variance[0]+variance[1])
	z := distuv.UnitNormal.Quantile(1 - CompareError/2)
	c.Differences = []Difference{{Stat: "avg", A: 100 * rate[0], B: 100 * rate[1], Change: 100 * d, Low: 100 * (d - z*se), High: 100 * (d + z*se),
		P: 2 * distuv.UnitNormal.CDF(-math.Abs(d)/se)}}
}

// holm adjusts the averages' probabilities over all metrics that can be compared, and gives each its verdict.
func holm(cs []Compared) {
	var order []int
	for i := range cs {
		if cs[i].Why != "" || cs[i].find("avg") == nil {
			cs[i].Outcome = NotComparable
			continue
		}
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(cs[i].find("avg").P, cs[j].find("avg").P) })
	least := 0.
	for k, i := range order {
		c := &cs[i]
		d := c.find("avg")
		least = max(least, min(1, d.P*float64(len(order)-k)))
		adjusted := least
		c.P = &adjusted
		switch {
		case adjusted >= CompareError:
			c.Outcome = NoDifference
		case d.Change > 0 == c.Larger:
			c.Outcome = Better
		default:
			c.Outcome = Worse
		}
	}
}
