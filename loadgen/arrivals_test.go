package loadgen

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
)

func exponential(rate float64) func(float64) float64 {
	return func(x float64) float64 { return 1 - math.Exp(-rate*x) }
}

// gammaCDF is the regularised lower incomplete gamma function, by its power series.
func gammaCDF(shape, rate float64) func(float64) float64 {
	lg, _ := math.Lgamma(shape)
	return func(x float64) float64 {
		x *= rate
		term := 1 / shape
		sum := term
		for n := 1.0; term > 1e-16*sum; n++ {
			term *= x / (shape + n)
			sum += term
		}
		return sum * math.Exp(shape*math.Log(x)-x-lg)
	}
}

// ks is the Kolmogorov-Smirnov distance of a sample from a distribution.
func ks(sample []float64, cdf func(float64) float64) float64 {
	slices.Sort(sample)
	d, n := 0.0, float64(len(sample))
	for i, x := range sample {
		f := cdf(x)
		d = max(d, math.Abs(f-float64(i)/n), math.Abs(float64(i+1)/n-f))
	}
	return d
}

// limit1 is the distance that a sample of n keeps within in 99 of 100 cases.
func limit1(n int) float64 { return 1.628 / math.Sqrt(float64(n)) }

func TestGapsHaveTheDistributionAskedFor(t *testing.T) {
	const n, rate = 20_000, 200.0
	for _, c := range []struct {
		name string
		a    Arrivals
		cdf  func(float64) float64
	}{
		{"poisson", Arrivals{Mode: Paced, Rate: rate}, exponential(rate)},
		{"gamma, even", Arrivals{Mode: Paced, Rate: rate, Pattern: Gamma, Smoothness: 4}, gammaCDF(4, 4*rate)},
		{"gamma, in clusters", Arrivals{Mode: Paced, Rate: rate, Pattern: Gamma, Smoothness: 0.3}, gammaCDF(0.3, 0.3*rate)},
		{"gamma of 1 is poisson", Arrivals{Mode: Paced, Rate: rate, Pattern: Gamma, Smoothness: 1}, exponential(rate)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProcess(&c.a, 11, 0)
			gaps := make([]float64, n)
			last, total := int64(0), 0.0
			for i := range gaps {
				at := p.next()
				gaps[i] = float64(at-last) / 1e9
				total += gaps[i]
				last = at
			}
			if d := ks(gaps, c.cdf); d > limit1(n) {
				t.Errorf("the gaps lie %.4f from their distribution, the limit at 1 %% is %.4f", d, limit1(n))
			}
			// The schedule is the sum of its gaps, so that its mean does not drift: 4 standard errors of the mean gap.
			if got, want := total/n, 1/rate; math.Abs(got-want) > 4*want/math.Sqrt(n*min(1, max(c.a.Smoothness, 0.1))) {
				t.Errorf("mean gap %v s, want %v", got, want)
			}
		})
	}
}

func TestArrivalsOfAWholeRunAreUniformOverIt(t *testing.T) {
	for _, rate := range []float64{200, 2000, 5000} {
		p := newProcess(&Arrivals{Mode: Paced, Rate: rate}, 3, 1)
		var times []float64
		for at := p.next(); at < 30e9; at = p.next() {
			times = append(times, float64(at))
		}
		if n := float64(len(times)); math.Abs(n-30*rate) > 4*math.Sqrt(30*rate) {
			t.Errorf("%v a second for 30 s: %v arrivals, want %v ± %v", rate, n, 30*rate, 4*math.Sqrt(30*rate))
		}
		if d := ks(times, func(x float64) float64 { return x / 30e9 }); d > limit1(len(times)) {
			t.Errorf("%v a second: the times lie %.4f from uniform, the limit at 1 %% is %.4f", rate, d, limit1(len(times)))
		}
	}
}

func TestAConstantRateIsExactForAsLongAsItLasts(t *testing.T) {
	for _, rate := range []float64{0.5, 3, 200, 5000} {
		p := newProcess(&Arrivals{Mode: Paced, Rate: rate, Pattern: Constant}, 1, 0)
		for i := range 1_000_000 {
			if got, want := p.next(), int64(math.Round(float64(i+1)/rate*1e9)); got != want {
				t.Fatalf("arrival %d at %v a second is at %d ns, want %d", i, rate, got, want)
			}
		}
	}
}

// With a constant pattern the n-th arrival is where the integral of the rate reaches n.
func TestAChangingRateSpreadsArrivalsByItsIntegral(t *testing.T) {
	for _, c := range []struct {
		name  string
		a     Arrivals
		until time.Duration
		want  float64 // the integral until then
	}{
		// From 10 to 100 a second in 1 s (the ramp starts at rate × 0.1 s / duration), then 100 a second.
		{"linear ramp", Arrivals{Rate: 100, Ramp: Ramp{Duration: time.Second}}, 3 * time.Second, 55 + 200},
		// 10 + 90·x² over 1 s is 10 + 30.
		{"exponential ramp", Arrivals{Rate: 100, Ramp: Ramp{Duration: time.Second, Curve: Exponential}}, 2 * time.Second, 40 + 100},
		{"ramp shorter than a step", Arrivals{Rate: 100, Ramp: Ramp{Duration: 50 * time.Millisecond}}, time.Second, 100},
		{"series", Arrivals{Series: []RatePoint{{0, 10}, {10, 30}, {20, 30}, {30, 5}}}, 40 * time.Second, 200 + 300 + 175 + 50},
		{"series that begins later", Arrivals{Series: []RatePoint{{5, 10}, {10, 20}}}, 10 * time.Second, 50 + 75},
		{"series after a ramp", Arrivals{Series: []RatePoint{{0, 10}, {10, 30}}, Ramp: Ramp{Duration: 10 * time.Second}}, 20 * time.Second, 50.5 + 200},
	} {
		c.a.Mode, c.a.Pattern = Paced, Constant
		p := newProcess(&c.a, 1, 0)
		n := 0
		for p.next() <= int64(c.until) {
			n++
		}
		if math.Abs(float64(n)-c.want) > 1 {
			t.Errorf("%s: %d arrivals in %v, want %v", c.name, n, c.until, c.want)
		}
	}
}

func TestAStochasticRampEndsWhereItIsTo(t *testing.T) {
	r := Ramp{Duration: 10 * time.Second, Curve: Stochastic}
	steps := r.limits(100, stream(1, 0, forSessionRamp))
	if last := steps[len(steps)-1]; last != (limitAt{10e9, 100}) {
		t.Errorf("the last step is %+v, want 100 at 10 s", last)
	}
	for i := 1; i < len(steps); i++ {
		if steps[i].at < steps[i-1].at || steps[i].limit < steps[i-1].limit {
			t.Fatalf("step %d, %+v, lies before the one ahead of it, %+v", i, steps[i], steps[i-1])
		}
	}
}

func TestRampsOfALimitFollowTheirCurve(t *testing.T) {
	for _, c := range []struct {
		curve Curve
		want  []limitAt
	}{
		{Linear, []limitAt{{1e9, 2}, {2e9, 3}, {3e9, 4}, {4e9, 5}}},
		{Exponential, []limitAt{{2e9, 2}, {2828427124, 3}, {3464101615, 4}, {4e9, 5}}},
	} {
		if got := (Ramp{4 * time.Second, c.curve}).limits(5, nil); !slices.Equal(got, c.want) {
			t.Errorf("curve %d: %v, want %v", c.curve, got, c.want)
		}
	}
}

func TestTheScheduleDependsOnSeedAndPhaseAlone(t *testing.T) {
	draw := func(seed uint64, phase int) string {
		p := newProcess(&Arrivals{Mode: Paced, Rate: 50}, seed, phase)
		s := ""
		for range 20 {
			s += fmt.Sprint(p.next(), " ")
		}
		return s
	}
	first := draw(5, 1)
	for _, n := range []int{1, 2, 8} {
		old := runtime.GOMAXPROCS(n)
		if got := draw(5, 1); got != first {
			t.Errorf("on %d cores another schedule: %s, want %s", n, got, first)
		}
		runtime.GOMAXPROCS(old)
	}
	if draw(6, 1) == first || draw(5, 2) == first {
		t.Error("another seed or phase has the same schedule")
	}
}

func TestTheAskedShareOfRequestsIsCancelled(t *testing.T) {
	const n = 20_000
	for _, share := range []float64{0, 0.005, 0.3, 1} {
		hits := 0.0
		for seq := range int64(n) {
			if (Cancellation{Share: share}).cancels(9, 0, seq) {
				hits++
			}
		}
		if math.Abs(hits-n*share) > 4*math.Sqrt(n*share*(1-share)) {
			t.Errorf("a share of %v: %v of %d, want %v", share, hits, n, n*share)
		}
	}
}

func TestATimelineKeepsAllCountsAndItsBound(t *testing.T) {
	l := newLedger(0)
	for i := range int64(5000) {
		l.arrival(i*1e9, true)
	}
	s := l.report().Seconds
	total := int64(0)
	for _, n := range s.Due {
		total += n
	}
	if total != 5000 || s.Width != 8e9 || len(s.Due) != 625 || s.Due[0] != 8 {
		t.Errorf("%d arrivals in %d buckets of %d ns, %d in the first; want 5000 in 625 of 8 s, 8 in the first", total, len(s.Due), s.Width, s.Due[0])
	}
}
