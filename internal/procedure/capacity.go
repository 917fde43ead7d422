package procedure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// saturatedGain is what share of a load's growth must come back as throughput: below it the server gives no more.
	saturatedGain = 0.1
	// saturatedSteps is how many steps in a row must say so before a ladder ends: one alone may have met a stall.
	saturatedSteps = 2
	// stepTries is how often a load is run whose intervals leave it open whether it keeps the limits.
	stepTries = 2
	// searchResolution is how near, as a share of the load, a search comes to the limit; a number of sessions at once is found to 1 below 200.
	searchResolution = 0.01
	// rateFloor is what share of its first rate a search gives up below.
	rateFloor = 1. / 1024
)

// Ladder is a capacity run over given loads, or a search where it has none.
type Ladder struct {
	Open  bool      `json:"open"`            // loads are rates in requests a second, not sessions at once
	Loads []float64 `json:"loads,omitempty"` // rising; empty = a search
	From  float64   `json:"from,omitempty"`  // a search's first load
	To    float64   `json:"to,omitempty"`    // and its largest
}

// Next is the load to run now, after the steps so far, of which a later one of a load stands in the place of an earlier one; false where
// the run is over. It depends on the steps alone, so that a run that was interrupted goes on where it was.
func (l *Ladder) Next(steps []Step) (load float64, more bool) {
	steps = latest(steps)
	for i := range steps {
		if s := &steps[i]; !s.Sure && s.Tries < stepTries {
			return s.Load, true
		}
	}
	if len(l.Loads) > 0 {
		if StoppedEarly(steps) != "" || len(steps) == len(l.Loads) {
			return 0, false
		}
		return l.Loads[len(steps)], true
	}
	return l.search(steps)
}

// search doubles until a load breaks a limit, or halves until one keeps them, then halves the distance between the two.
func (l *Ladder) search(steps []Step) (float64, bool) {
	if len(steps) == 0 {
		return min(l.From, l.To), true
	}
	kept, broken := bracket(steps)
	switch {
	case broken == 0:
		return min(2*kept, l.To), kept < l.To
	case kept == 0:
		half := l.round(broken / 2)
		return half, half > 0 && (!l.Open || half >= l.From*rateFloor)
	case broken-kept <= l.Resolution(kept):
		return 0, false
	}
	middle := l.round((kept + broken) / 2)
	return middle, middle > kept && middle < broken
}

// Resolution is how near a search comes to the limit at a load.
func (l *Ladder) Resolution(load float64) float64 {
	if l.Open {
		return searchResolution * load
	}
	return max(1, math.Floor(searchResolution*load))
}

// round makes a load one that can be run: whole sessions, or a rate of four digits.
func (l *Ladder) round(load float64) float64 {
	if !l.Open {
		return math.Floor(load)
	}
	unit := math.Pow(10, math.Floor(math.Log10(load))-3)
	// Through its decimal form, which is what the command line of the step has.
	var v float64
	if _, err := fmt.Sscan(fmt.Sprintf("%.*f", max(0, int(math.Round(-math.Log10(unit)))), load), &v); err != nil {
		return load
	}
	return v
}

// latest are the steps by rising load, of each load the last one.
func latest(steps []Step) []Step {
	var out []Step
	for _, s := range steps {
		if i := slices.IndexFunc(out, func(o Step) bool { return o.Load == s.Load }); i >= 0 {
			out[i] = s
		} else {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Step) int { return cmp.Compare(a.Load, b.Load) })
	return out
}

// bracket is the largest load that keeps the limits and the smallest above it that does not, 0 where there is none. A load that breaks them
// by chance, for all that its intervals say, counts for nothing below one that surely keeps them. steps are by rising load.
func bracket(steps []Step) (kept, broken float64) {
	for i := range steps {
		s := &steps[i]
		if !s.Kept && (s.Sure || !slices.ContainsFunc(steps[i+1:], func(o Step) bool { return o.Kept && o.Sure })) {
			return kept, s.Load
		}
		if s.Kept {
			kept = s.Load
		}
	}
	return kept, 0
}

// StoppedEarly says why a ladder ends before its last load; "" = it does not. Two steps in a row must be saturated for sure: their throughput is
// above that of the step below by less than a tenth of what the load grew by, at the upper end of the interval, or hardly anything was answered.
func StoppedEarly(steps []Step) string {
	steps = latest(steps)
	if len(steps) <= saturatedSteps-1 {
		return ""
	}
	for i := len(steps) - saturatedSteps; i < len(steps); i++ {
		s := &steps[i]
		if s.Aborted || s.Throughput.Value == 0 {
			continue
		}
		if i == 0 || !saturated(&steps[i-1], s) {
			return ""
		}
	}
	return fmt.Sprintf("the server is saturated: at the last %d loads more load gave no more answers", saturatedSteps)
}

// saturated reports whether throughput surely grew by less than saturatedGain of the load's growth from one step to the next.
func saturated(below, s *Step) bool {
	x, y := &below.Throughput, &s.Throughput
	if x.Low == nil || y.High == nil || x.Value <= 0 {
		return false
	}
	spread := math.Hypot((*x.High-x.Value)/x.Value, (*y.High-y.Value)/max(y.Value, math.SmallestNonzeroFloat64))
	gain := y.Value/x.Value*(1+spread) - 1
	return gain < saturatedGain*(s.Load/below.Load-1)
}

// Capacity is what a capacity run found.
type Capacity struct {
	// Best is the largest load that keeps the limits, below the smallest that breaks them; 0 = none does.
	Best float64 `json:"best,omitempty"`
	// BestSure says that all of its intervals keep them.
	BestSure bool `json:"best_sure,omitempty"`
	// AtLeast is the largest load up to Best whose intervals all keep the limits, Below the smallest above it of which one surely breaks one;
	// 0 = none.
	AtLeast float64 `json:"at_least,omitempty"`
	Below   float64 `json:"below,omitempty"`
	// Broken are the limits that the smallest load above Best breaks.
	Broken []string `json:"limited_by,omitempty"`
	// Knee is the load with the most power, throughput divided by request latency (Kleinrock 1979): beyond it latency grows faster than
	// throughput. 0 where fewer than three loads were run that answer their requests.
	Knee float64 `json:"knee,omitempty"`
	// Stopped says why a ladder ended before its last load.
	Stopped string `json:"stopped_early,omitempty"`
}

// Falling is the name of the limit that a rate breaks which the server does not serve.
const Falling = "the server falls behind"

// JudgeCapacity concludes from the steps, and gives those that count, by rising load.
func (l *Ladder) JudgeCapacity(all []Step) (Capacity, []Step) {
	steps := latest(all)
	var c Capacity
	kept, broken := bracket(steps)
	c.Best = kept
	power, with := 0., 0
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Load <= kept && s.Kept && s.Sure:
			c.AtLeast, c.BestSure = s.Load, s.Load == kept
		case s.Load > kept && !s.Kept && s.Sure && c.Below == 0:
			c.Below = s.Load
		}
		if s.Load == broken {
			c.Broken = s.Broken()
		}
		if latency := s.Metrics["request_latency"].Avg; latency > 0 && !s.failing() {
			with++
			if p := s.Throughput.Value / latency; p > power {
				power, c.Knee = p, s.Load
			}
		}
	}
	if with < 3 {
		c.Knee = 0
	}
	if len(l.Loads) > len(steps) {
		c.Stopped = StoppedEarly(steps)
	}
	return c, steps
}

// failing reports whether so many of a step's requests failed that the times of the others say nothing of its load.
func (s *Step) failing() bool {
	return s.Aborted || slices.ContainsFunc(s.Findings, func(f Finding) bool { return !f.Kept && strings.HasPrefix(f.Limit, errorRate) })
}

// Broken names what the step breaks.
func (s *Step) Broken() []string {
	var out []string
	for _, f := range s.Findings {
		if !f.Kept {
			out = append(out, f.Limit)
		}
	}
	if s.Unserved != nil && *s.Unserved.Low > unservedLimit {
		out = append(out, Falling)
	}
	return out
}
