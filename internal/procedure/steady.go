package procedure

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// leastForSteady is how many requests it takes to tell a steady state from a beginning.
	leastForSteady = 50
	// mserBatch is how many neighbouring values of a series MSER takes as one.
	mserBatch = 5
	// flightBins is how many equal parts of the time of sending the requests in flight are averaged in, to find where they are steady.
	flightBins = 100
	// windowBins is how many equal parts of a window its intervals and trends rest on.
	windowBins = 10
	// trendError is the chance that a window without a trend is taken for one with.
	trendError = 0.01
	// trendShare is how much of its mean a figure must gain or lose from one end of a window to the other to matter.
	trendShare = 0.1
	// drainMost is what share of the time of sending may be left out at its end.
	drainMost = 0.25
)

// StepRequest is one request of a step, as its records have it.
type StepRequest struct {
	Start, End int64 // ns
	Failed     bool
	Cold       bool
	// Censored: it was cut while it ran. End is then when that was.
	Censored bool
	// Values are those of the metrics asked for, in their Display units; NaN is absent.
	Values []float64
}

// answered reports whether the request's duration is one that the server took for an answer.
func (r *StepRequest) answered() bool { return !r.Failed && !r.Censored }

// Window is the steady part of a step: the requests that began in [From, To), and the time from From until sending stopped at Sent. The first
// part is where the server and the load come up, by MSER-5 (White 1997: drop the beginning that minimizes the standard error of the rest) on
// request latency in the order of starts, and by the same rule on the requests in flight, neither more than half. At the end, requests that
// began within a median latency of the last start ran while the load went away.
type Window struct {
	Begin          int64 // of the first request
	From, To, Sent int64
	// Steady says that neither request latency nor the requests in flight have a trend in the window: a change of more than 10 % of their mean
	// from end to end that chance gives in less than 1 of 100 windows.
	Steady bool
	// Why says what is not steady.
	Why string
}

// sortByStart puts requests in the order in which they began.
func sortByStart(rs []StepRequest) {
	slices.SortStableFunc(rs, func(a, b StepRequest) int { return cmp.Compare(a.Start, b.Start) })
}

// findWindow finds the steady part of a step; rs are in the order of their starts, one at least.
func findWindow(rs []StepRequest) Window {
	w := Window{Begin: rs[0].Start, Sent: rs[len(rs)-1].Start}
	w.From, w.To = w.Begin, w.Sent+1
	var latencies []float64
	var starts []int64
	for i := range rs {
		if rs[i].answered() {
			latencies, starts = append(latencies, float64(rs[i].End-rs[i].Start)), append(starts, rs[i].Start)
		}
	}
	if len(latencies) < leastForSteady || w.Sent == w.Begin {
		w.Why = "too few requests were answered to tell"
		return w
	}
	// What is longest of both is the time that it took to come up.
	w.From = max(w.From, starts[mserBatch*mser(batched(latencies, mserBatch))])
	bin := (w.Sent - w.Begin) / flightBins
	if bin > 0 {
		flight := inFlight(rs, w.Begin, w.Sent, flightBins, func(*StepRequest) bool { return true })
		w.From = max(w.From, w.Begin+int64(mser(flight))*bin)
	}
	sorted := slices.Clone(latencies)
	slices.Sort(sorted)
	drain := min(int64(sorted[len(sorted)/2]), int64(drainMost*float64(w.Sent-w.Begin)))
	w.To = max(w.From+1, w.Sent-drain+1)
	w.Why = w.trends(rs)
	w.Steady = w.Why == ""
	return w
}

// trends says which figure goes up or down over the window; "" = none does.
func (w *Window) trends(rs []StepRequest) string {
	sums, counts := make([]float64, windowBins), make([]float64, windowBins)
	for i := range rs {
		if r := &rs[i]; w.holds(r) && r.answered() {
			b := int((r.Start - w.From) * windowBins / (w.To - w.From))
			sums[b] += float64(r.End - r.Start)
			counts[b]++
		}
	}
	var means []float64
	for b := range sums {
		if counts[b] > 0 {
			means = append(means, sums[b]/counts[b])
		}
	}
	if len(means) < windowBins/2 {
		return "requests began in too small a part of the window to tell"
	}
	if t := trendOf(means); t.material() {
		return "request latency " + t.way()
	}
	if t := trendOf(w.flight(rs)); t.material() {
		return "the number of requests in flight " + t.way()
	}
	return ""
}

// holds reports whether a request began in the window.
func (w *Window) holds(r *StepRequest) bool { return r.Start >= w.From && r.Start < w.To }

// flight are the mean numbers of requests in flight in the parts of the window.
func (w *Window) flight(rs []StepRequest) []float64 {
	return inFlight(rs, w.From, w.To, windowBins, func(*StepRequest) bool { return true })
}

// inFlight is the mean number of requests in flight in each of n equal parts of [from, to).
func inFlight(rs []StepRequest, from, to int64, n int, which func(*StepRequest) bool) []float64 {
	return spread(rs, from, to, n, func(r *StepRequest) float64 {
		if !which(r) {
			return 0
		}
		return float64(r.End - r.Start)
	})
}

// spread deals a weight of each request evenly over its time, and gives what falls into each of n equal parts of [from, to), divided by the
// part's length. With a request's duration in ns as its weight that is the number in flight.
func spread(rs []StepRequest, from, to int64, n int, weight func(*StepRequest) float64) []float64 {
	out := make([]float64, n)
	width := float64(to-from) / float64(n)
	for i := range rs {
		r := &rs[i]
		total := weight(r)
		if r.End <= r.Start { // it took no time
			if r.Start >= from && r.Start < to {
				out[min(n-1, int(float64(r.Start-from)/width))] += total / width
			}
			continue
		}
		if total == 0 || r.End <= from || r.Start >= to {
			continue
		}
		begin, end := float64(max(r.Start, from)-from), float64(min(r.End, to)-from)
		density := total / float64(r.End-r.Start)
		for b := max(0, int(begin/width)); b < n && float64(b)*width < end; b++ {
			part := min(end, float64(b+1)*width) - max(begin, float64(b)*width)
			out[b] += max(0, part) * density / width
		}
	}
	return out
}

// batched are the means of batches of k neighbours; a rest that fills none is left out.
func batched(values []float64, k int) []float64 {
	out := make([]float64, len(values)/k)
	for i := range out {
		for _, v := range values[i*k : (i+1)*k] {
			out[i] += v / float64(k)
		}
	}
	return out
}

// mser is how many values at the beginning of a series to leave out: what is left then has the least squared standard error of its mean. It is
// half of them at most.
func mser(values []float64) int {
	n := len(values)
	best, at := math.Inf(1), 0
	// From the end on, the mean and the sum of squared deviations of what is left grow value by value (Welford).
	mean, square := 0., 0.
	for d := n - 1; d >= 0; d-- {
		left := float64(n - d)
		delta := values[d] - mean
		mean += delta / left
		square += delta * (values[d] - mean)
		// Of equal ones, the one that leaves out least; rounding is no difference.
		if se := square / (left * left); d <= n/2 && se <= best+1e-12*mean*mean/left {
			best, at = min(best, se), d
		}
	}
	return at
}

// trend is a straight line through equally spaced values.
type trend struct {
	mean, change float64 // change from the first to the last value
	se           float64 // of change
	n            int
}

func trendOf(values []float64) trend {
	n := float64(len(values))
	t := trend{n: len(values)}
	for _, v := range values {
		t.mean += v / n
	}
	if len(values) < 3 {
		return t
	}
	xx, xy := 0., 0.
	for i, v := range values {
		x := float64(i) - (n-1)/2
		xx += x * x
		xy += x * (v - t.mean)
	}
	slope, rest := xy/xx, 0.
	for i, v := range values {
		d := v - t.mean - slope*(float64(i)-(n-1)/2)
		rest += d * d
	}
	t.change, t.se = slope*(n-1), math.Sqrt(rest/(n-2)/xx)*(n-1)
	return t
}

// low is how large the change is at least, whichever way it goes, but for trendError of such windows.
func (t trend) low() float64 {
	if t.n < 3 {
		return 0
	}
	return max(0, math.Abs(t.change)-studentT(t.n-2, trendError)*t.se)
}

func (t trend) material() bool {
	return t.low() > 0 && math.Abs(t.change) > trendShare*math.Abs(t.mean)
}

func (t trend) way() string {
	if t.change > 0 {
		return "goes up"
	}
	return "goes down"
}

// studentT is the two-sided critical value of Student's t distribution.
func studentT(freedom int, alpha float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(freedom)}.Quantile(1 - alpha/2)
}
