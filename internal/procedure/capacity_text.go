package procedure

import (
	"fmt"
	"strconv"
	"strings"
)

// LoadText is a load as flags, folders and screens have it.
func LoadText(load float64) string { return strconv.FormatFloat(load, 'f', -1, 64) }

// Named is a load with its unit.
func (l *Ladder) Named(load float64) string {
	if l.Open {
		return LoadText(load) + " requests/s"
	}
	return LoadText(load) + " in flight"
}

// Says is what came of the step, in words.
func (s *Step) Says() string {
	word := "within the limits"
	switch broken := s.Broken(); {
	case s.Aborted:
		word = "ended early: more than half of the requests failed"
	case !s.Kept && len(broken) > 0:
		word = "breaks " + strings.Join(broken, ", ")
	case !s.Kept:
		word = "nothing was answered"
	}
	if !s.Sure {
		word += ", not for sure"
	}
	return word
}

// Says is what was found and how sure it is: first the best load and what limits it, then the knee, why a ladder ended early, and what the
// figures at the best load cannot be trusted for. limits are the texts of the SLO, steps those that JudgeCapacity gave.
func (c *Capacity) Says(l *Ladder, limits []string, steps []Step) (best string, more []string) {
	var b strings.Builder
	switch {
	case c.Best == 0 && len(c.Broken) == 1 && c.Broken[0] == Falling:
		b.WriteString("The server kept up with the arrivals at no load that was tried.")
	case c.Best == 0:
		fmt.Fprintf(&b, "No load that was tried keeps %s.", strings.Join(limits, ", "))
	default:
		fmt.Fprintf(&b, "Best: %s keeps %s", l.Named(c.Best), strings.Join(limits, ", "))
		switch {
		case c.BestSure:
			b.WriteString(", by whole 95 % intervals.")
		case c.AtLeast > 0:
			fmt.Fprintf(&b, " by its figures; by whole 95 %% intervals %s do.", l.Named(c.AtLeast))
		default:
			b.WriteString(" by its figures; no load does by whole 95 % intervals: longer steps would tell.")
		}
	}
	switch {
	case c.Below > 0 && len(c.Broken) > 0:
		fmt.Fprintf(&b, " Limited by %s; %s is surely too much.", strings.Join(c.Broken, ", "), l.Named(c.Below))
	case len(c.Broken) > 0:
		fmt.Fprintf(&b, " Limited by %s.", strings.Join(c.Broken, ", "))
	case c.Best > 0 && c.Stopped == "":
		b.WriteString(" No load that was tried breaks them: the server may carry more.")
	}
	if c.Knee > 0 {
		more = append(more, fmt.Sprintf("Knee: %s; beyond it latency grows faster than throughput.", l.Named(c.Knee)))
	}
	if c.Stopped != "" {
		more = append(more, fmt.Sprintf("Ended early: %s.", c.Stopped))
	}
	for i := range steps {
		switch s := &steps[i]; {
		case s.Load != c.Best:
		case len(s.Client) > 0:
			more = append(more, fmt.Sprintf("At %s the client was not fit to claim %s: see docs/trust.md.", l.Named(s.Load), strings.Join(s.Client, ", ")))
		case !s.Steady:
			more = append(more, fmt.Sprintf("At %s no steady state was found (%s): longer steps may give other figures.", l.Named(s.Load), s.Why))
		}
	}
	return b.String(), more
}
