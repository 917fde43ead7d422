package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Length is a distribution of whole numbers, of tokens as a rule. Without High it is normal, drawn again below 0, rounded up, 1 at least;
// without a deviation it is the mean, rounded half to even. With High it is uniform: every number from Low to High is as likely.
type Length struct {
	Mean, Stddev float64
	Low, High    int
	Shape        *Shape // nil = none of its own
}

// Shape is a distribution of another kind; every draw is rounded up, and at least 1. Mean is then what is to be expected.
type Shape struct {
	Median   float64  // of a log-normal distribution with the length's Mean; 0 = it is none
	Min, Max *float64 // draws beyond are these; nil = no bound
	Parts    []Part   // a mixture of these; nil = it is none
}

// Part is one part of a mixture, and its weight beside those of the others.
type Part struct {
	Weight float64
	Length
}

// Share is one pair of lengths of a mix, and how much of the mix it is, in percent.
type Share struct {
	Percent       float64
	Input, Output Length
}

// given reports whether there is such a length at all.
func (l Length) given() bool { return l.Mean > 0 || l.High > 0 }

// fixed is the length without its deviation.
func (l Length) fixed() int { return max(1, int(math.RoundToEven(l.Mean))) }

// Longest is the longest length that has to be reckoned with: the upper end, or the mean of a normal distribution.
func (l Length) Longest() int {
	switch s := l.Shape; {
	case l.High > 0:
		return l.High
	case s != nil && s.Max != nil:
		return int(math.Ceil(*s.Max))
	case s != nil:
		longest := int(math.Ceil(l.Mean))
		for _, p := range s.Parts {
			longest = max(longest, p.Longest())
		}
		return longest
	}
	return int(l.Mean)
}

// middle is the mean.
func (l Length) middle() float64 {
	if l.High > 0 {
		return float64(l.Low+l.High) / 2
	}
	return l.Mean
}

// varies reports whether two draws may differ.
func (l Length) varies() bool { return (l.Stddev > 0 || l.Shape != nil) && l.High == 0 }

// draw draws a length of at least least.
func (l Length) draw(rng *rand.Rand, least int) int {
	switch {
	case l.High > 0:
		return max(least, l.Low+rng.IntN(l.High-l.Low+1))
	case l.Shape == nil && l.Stddev == 0:
		return max(least, l.fixed())
	}
	for range 1000 {
		x := l.sample(rng)
		if x < 0 || x > math.MaxInt32 {
			continue
		}
		if n := max(1, int(math.Ceil(x))); n >= least {
			return n
		}
	}
	return least
}

// sample is one draw before it is made a whole number.
func (l Length) sample(rng *rand.Rand) float64 {
	s := l.Shape
	if s == nil {
		return l.Mean + l.Stddev*rng.NormFloat64()
	}
	var x float64
	switch {
	case s.Parts != nil:
		x = s.pick(rng).draws(rng)
	case s.Median > 0:
		x = s.Median * math.Exp(rng.NormFloat64()*math.Sqrt(2*math.Log(l.Mean/s.Median)))
	default:
		x = Length{Mean: l.Mean, Stddev: l.Stddev}.draws(rng)
	}
	if s.Min != nil {
		x = max(x, *s.Min)
	}
	if s.Max != nil {
		x = min(x, *s.Max)
	}
	return x
}

// draws is a sample that is not negative: a normal distribution is cut there.
func (l Length) draws(rng *rand.Rand) float64 {
	for range 1000 {
		if x := l.sample(rng); x >= 0 {
			return x
		}
	}
	return l.Mean
}

func (s *Shape) pick(rng *rand.Rand) *Part {
	sum := 0.0
	for i := range s.Parts {
		sum += s.Parts[i].Weight
	}
	x := rng.Float64() * sum
	for i := range s.Parts {
		if x -= s.Parts[i].Weight; x < 0 {
			return &s.Parts[i]
		}
	}
	return &s.Parts[len(s.Parts)-1]
}

func (l Length) check(name string, least float64) error {
	switch {
	case l.High > 0:
		if float64(l.Low) < least || l.Low > l.High || l.High > math.MaxInt32 {
			return fmt.Errorf("the %s length is between %d and %d tokens; allowed: a range from %v on, to %d", name, l.Low, l.High, least, math.MaxInt32)
		}
	case !(l.Mean >= least) || l.Mean > math.MaxInt32:
		return fmt.Errorf("the mean %s length is %v tokens; allowed: %v to %d", name, l.Mean, least, math.MaxInt32)
	case !(l.Stddev >= 0) || l.Stddev > math.MaxInt32:
		return fmt.Errorf("the standard deviation of the %s length is %v tokens; allowed: 0 to %d", name, l.Stddev, math.MaxInt32)
	}
	return nil
}

// mix gives the pairs of lengths and adds their percentages up.
func (o *Options) mix() []Share {
	if len(o.Mix) > 0 {
		return o.Mix
	}
	return []Share{{Percent: 100, Input: o.Input, Output: o.Output}}
}

// pick draws one pair of the mix.
func pick(mix []Share, rng *rand.Rand) *Share {
	if len(mix) == 1 {
		return &mix[0]
	}
	x := rng.Float64() * 100
	for i := range mix {
		if x -= mix[i].Percent; x < 0 {
			return &mix[i]
		}
	}
	return &mix[len(mix)-1]
}
