package metrics

import "math"

// dd is a sum kept to about 32 digits as an unevaluated hi + lo (Knuth's two-sum). With it the variance can be taken from the sum of
// squares without cancellation, and sums merge to the same result in any order.
type dd struct{ hi, lo float64 }

func (a dd) add(x float64) dd {
	s := a.hi + x
	b := s - a.hi
	e := (a.hi - (s - b)) + (x - b) + a.lo
	hi := s + e
	return dd{hi, e - (hi - s)}
}

func (a dd) plus(b dd) dd { return a.add(b.lo).add(b.hi) }

// addSquare adds x².
func (a dd) addSquare(x float64) dd {
	p := float64(x * x)
	return a.add(math.FMA(x, x, -p)).add(p)
}

// square is a², to about 32 digits.
func (a dd) square() dd {
	p := float64(a.hi * a.hi)
	return dd{}.add(float64(2*a.hi*a.lo) + math.FMA(a.hi, a.hi, -p)).add(p)
}

// over is a / n.
func (a dd) over(n float64) dd {
	q := a.hi / n
	rest := math.FMA(-q, n, a.hi) + a.lo
	return dd{}.add(rest / n).add(q)
}

func (a dd) minus(b dd) dd { return a.plus(dd{-b.hi, -b.lo}) }

func (a dd) float() float64 { return a.hi + a.lo }
