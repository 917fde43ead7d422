package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Mode says what makes a request due.
type Mode uint8

const (
	Closed    Mode = iota // the end of the session before it in its slot
	Paced                 // a rate: independent gaps, whatever the server does
	Scheduled             // Turn.At, counted from the phase's start
	Users                 // so many users, each with a fixed gap between its turns
)

// Pattern is the distribution of a paced phase's gaps.
type Pattern uint8

const (
	Poisson  Pattern = iota // exponential gaps
	Constant                // equal gaps
	Gamma                   // gaps of a gamma distribution with shape Smoothness
)

// Arrivals is how the requests of a phase become due.
type Arrivals struct {
	Mode       Mode
	Pattern    Pattern     // Paced
	Rate       float64     // Paced and Users: requests a second; not used where there is a Series
	Smoothness float64     // Gamma: above 1 is more even than Poisson, below 1 comes in clusters
	Ramp       Ramp        // Paced: from Rate × 0.1 s / Ramp.Duration (or the first rate of Series) up to it
	Series     []RatePoint // Paced: the rate over time, linear between points, constant before the first and after the last; counted from the ramp's end
	Users      int         // Users
	Turns      int         // Users: the turns of an average session
}

// RatePoint is a rate at a time.
type RatePoint struct {
	At   float64 // s
	Rate float64 // requests a second
}

// Curve is the course of a ramp.
type Curve uint8

const (
	Linear      Curve = iota
	Exponential       // slow first: the share of the way is the square of the share of the time
	Stochastic        // equal steps at the times of a Poisson process
)

// Ramp brings a value up over time. The zero value is none.
type Ramp struct {
	Duration time.Duration
	Curve    Curve
}

func (a *Arrivals) validate() error {
	switch a.Mode {
	case Paced:
		if len(a.Series) == 0 && !(a.Rate > 0 && !math.IsInf(a.Rate, 1)) {
			return fmt.Errorf("the rate is %v requests a second, it must be above 0", a.Rate)
		}
		for i, p := range a.Series {
			if !(p.Rate > 0) || i > 0 && p.At <= a.Series[i-1].At || p.At < 0 {
				return fmt.Errorf("point %d of the rate series (%v s, %v requests a second) does not fit: times rise from 0 on, rates are above 0", i, p.At, p.Rate)
			}
		}
		if a.Pattern == Gamma && !(a.Smoothness > 0) {
			return fmt.Errorf("smoothness is %v, it must be above 0", a.Smoothness)
		}
	case Users:
		switch {
		case a.Users < 1:
			return errors.New("it has no users, it needs at least 1")
		case !(a.Rate > 0 && !math.IsInf(a.Rate, 1)):
			return fmt.Errorf("the rate is %v requests a second, it must be above 0", a.Rate)
		}
	}
	return nil
}

// peak is the highest rate.
func (a *Arrivals) peak() float64 {
	if len(a.Series) == 0 {
		return a.Rate
	}
	return slices.MaxFunc(a.Series, func(x, y RatePoint) int { return cmp.Compare(x.Rate, y.Rate) }).Rate
}

// purpose names a stream of random numbers, so that what draws from one never moves another.
type purpose uint64

const (
	forGaps purpose = iota + 1
	forRateRamp
	forSessionRamp
	forPrefillRamp
	forCancelling
)

// stream is a stream of random numbers of its own for a purpose in a phase.
func stream(seed uint64, phase int, p purpose) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(phase+1)<<8|uint64(p))) //nolint:gosec // arrivals are to be repeatable, not secret
}

// process is the renewal process of a paced phase: the sum of independent gaps of mean 1, brought to time through the integral of the rate,
// so that a changing rate bends the schedule and nothing else. It depends on seed and phase alone.
type process struct {
	gap   func() float64
	sum   float64
	rates integral
}

func newProcess(a *Arrivals, seed uint64, phase int) *process {
	p := &process{rates: integral{knots: a.knots(stream(seed, phase, forRateRamp))}}
	rng := stream(seed, phase, forGaps)
	switch a.Pattern {
	case Constant:
		p.gap = func() float64 { return 1 }
	case Gamma:
		p.gap = func() float64 { return gamma(rng, a.Smoothness) / a.Smoothness }
	default:
		p.gap = rng.ExpFloat64
	}
	return p
}

// next is the time of the next arrival, in ns from the phase's start. The first comes one gap after it.
func (p *process) next() int64 {
	p.sum += p.gap()
	return int64(math.Round(min(p.rates.at(p.sum)*1e9, math.MaxInt64/4)))
}

// knots is the rate over time from the phase's start: ramp, then series or a constant.
func (a *Arrivals) knots(rng *rand.Rand) []RatePoint {
	series := a.Series
	if len(series) == 0 {
		series = []RatePoint{{0, a.Rate}}
	}
	ramp := a.Ramp.Duration.Seconds()
	var out []RatePoint
	if ramp > 0 {
		to := series[0].Rate
		out = a.Ramp.knots(to*min(rampStep/ramp, 1), to, rng)
	} else {
		out = []RatePoint{{0, series[0].Rate}}
	}
	for _, p := range series {
		if at := ramp + p.At; at > out[len(out)-1].At {
			out = append(out, RatePoint{at, p.Rate})
		}
	}
	return out
}

// rampStep is the step of aiperf's rate ramps, in s. Its share of a ramp's duration is where the ramp begins.
const rampStep = 0.1

// knots is the ramp between two rates as straight pieces.
func (r Ramp) knots(from, to float64, rng *rand.Rand) []RatePoint {
	d := r.Duration.Seconds()
	switch r.Curve {
	case Exponential:
		const pieces = 200 // closer to the curve than 1 % of the rate at its end
		out := make([]RatePoint, 0, pieces+1)
		for i := range pieces + 1 {
			x := float64(i) / pieces
			out = append(out, RatePoint{x * d, from + (to-from)*x*x})
		}
		return out
	case Stochastic:
		out := []RatePoint{{0, from}}
		for _, s := range r.steps(from, to, rng) {
			out = append(out, RatePoint{s.At, out[len(out)-1].Rate}, s)
		}
		return out
	}
	return []RatePoint{{0, from}, {d, to}}
}

// steps are the jumps of a stochastic ramp: the events of a Poisson process, squeezed so that the last is at the ramp's end.
func (r Ramp) steps(from, to float64, rng *rand.Rand) []RatePoint {
	d := r.Duration.Seconds()
	if to == from {
		return []RatePoint{{d, to}}
	}
	var out []RatePoint
	at := 0.0
	for at < d {
		at += rng.ExpFloat64() * d / math.Abs(to-from)
		out = append(out, RatePoint{At: at})
	}
	for i := range out {
		out[i].At *= d / at
		out[i].Rate = from + (to-from)*float64(i+1)/float64(len(out))
	}
	out[len(out)-1] = RatePoint{d, to}
	return out
}

// limits are the moments at which a ramp changes a limit, from 1 to to, in ns from the phase's start.
func (r Ramp) limits(to int, rng *rand.Rand) []limitAt {
	var out []limitAt
	d := float64(r.Duration)
	if r.Curve == Stochastic {
		for _, s := range r.steps(1, float64(to), rng) {
			out = append(out, limitAt{int64(s.At * 1e9), int(s.Rate)})
		}
		return out
	}
	for n := 2; n <= to; n++ {
		x := float64(n-1) / float64(to-1)
		if r.Curve == Exponential {
			x = math.Sqrt(x)
		}
		out = append(out, limitAt{int64(x * d), n})
	}
	return out
}

type limitAt struct {
	at    int64
	limit int
}

// integral is the area below a rate that is linear between knots and constant after the last. Two knots at one time are a jump.
type integral struct {
	knots []RatePoint
	piece int
	base  float64 // area up to the piece
}

// at is the time at which the area reaches u, in s. u must not fall from call to call.
func (f *integral) at(u float64) float64 {
	slope := 0.0
	for ; f.piece+1 < len(f.knots); f.piece++ {
		a, b := f.knots[f.piece], f.knots[f.piece+1]
		area := (a.Rate + b.Rate) / 2 * (b.At - a.At)
		if u < f.base+area {
			slope = (b.Rate - a.Rate) / (b.At - a.At)
			break
		}
		f.base += area
	}
	a, left := f.knots[f.piece], u-f.base
	// The root of slope/2·x² + rate·x = left, in the form that does not cancel where slope is small.
	return a.At + 2*left/(a.Rate+math.Sqrt(max(a.Rate*a.Rate+2*slope*left, 0)))
}

// gamma draws from a gamma distribution with the given shape and scale 1 (Marsaglia and Tsang, A Simple Method for Generating Gamma
// Variables, 2000; shapes below 1 by its note at the end of section 6).
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(rng, shape+1) * math.Pow(1-rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// cancels says whether the request with this number of the phase is to be cancelled. It depends on nothing but seed, phase and number, so
// that the same requests are cut whatever the order in which they are sent.
func (c Cancellation) cancels(seed uint64, phase int, seq int64) bool {
	if c.Share <= 0 {
		return false
	}
	return rand.New(rand.NewPCG(seed^uint64(seq)*0x9E3779B97F4A7C15, uint64(phase+1)<<8|uint64(forCancelling))).Float64() < c.Share //nolint:gosec // as above
}
