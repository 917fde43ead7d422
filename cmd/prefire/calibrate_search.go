package main

import (
	"math"
)

// search looks for the largest number of streams that holds, in [1, most]: it doubles (or halves) from a first guess until one number holds
// and a larger one does not, then halves that ratio until it is at most searchRatio.
type search struct {
	most        int
	held, broke int // the largest that held, the smallest that did not; 0 = none yet
}

const (
	searchStart = 500
	searchRatio = 1.1
)

// next is the number to try now; false where there is nothing left to try.
func (s *search) next() (int, bool) {
	switch {
	case s.held == 0 && s.broke == 0:
		return min(searchStart, s.most), true
	case s.held == 0:
		return s.broke / 2, s.broke > 1
	case s.broke == 0:
		return min(2*s.held, s.most), s.held < s.most
	case float64(s.broke) <= searchRatio*float64(s.held):
		return 0, false
	}
	n := twoDigits(math.Sqrt(float64(s.held) * float64(s.broke)))
	return n, n > s.held && n < s.broke
}

// tell takes what came of n streams.
func (s *search) tell(n int, held bool) {
	if held {
		s.held = n
	} else {
		s.broke = n
	}
}

// twoDigits rounds to two significant digits: more would claim what a search to 10 % does not know.
func twoDigits(v float64) int {
	unit := math.Pow(10, max(0, math.Floor(math.Log10(v))-1))
	return int(math.Round(v/unit) * unit)
}
