package sweep

import (
	"fmt"
	"path/filepath"
)

// Order is how a sweep's variations and repeats follow each other.
type Order string

const (
	Repeated    Order = "repeated"    // all variations once, then all again
	Independent Order = "independent" // all repeats of a variation, then the next
)

// Layout is where the files of a series of runs go, as aiperf lays them out below its folder.
type Layout struct {
	Swept bool // there is more than the base variation
	Runs  int  // repeats that were asked for; 1 = none
	Order Order
}

// Many reports whether there is more than one run to make.
func (l Layout) Many() bool { return l.Swept || l.Runs > 1 }

// Run is the folder of one run, below the series' own.
func (l Layout) Run(v *Variation, trial int) string {
	switch {
	case !l.Many():
		return ""
	case !l.Swept:
		return filepath.Join("profile_runs", RunLabel(trial))
	case l.Runs <= 1:
		return v.Folder()
	case l.Order == Independent:
		return filepath.Join(v.Folder(), "profile_runs", fmt.Sprintf("trial_%04d", trial+1))
	}
	return filepath.Join("profile_runs", fmt.Sprintf("trial_%04d", trial+1), v.Folder())
}

// Aggregate is the folder of what the repeats of one variation show.
func (l Layout) Aggregate(v *Variation) string {
	switch {
	case !l.Swept:
		return "aggregate"
	case l.Order == Independent:
		return filepath.Join(v.Folder(), "aggregate")
	}
	return filepath.Join("aggregate", v.Folder())
}

// Summary is the folder of what a sweep shows.
func (l Layout) Summary() string {
	if l.Runs > 1 && l.Order != Independent {
		return filepath.Join("aggregate", "sweep_aggregate")
	}
	return "sweep_aggregate"
}

// RunLabel names a repeat.
func RunLabel(trial int) string { return fmt.Sprintf("run_%04d", trial+1) }

// Place is one run of a series.
type Place struct{ Variation, Trial int }

// Places are the runs of a series in their order.
func (l Layout) Places(variations int) []Place {
	out := make([]Place, 0, variations*l.Runs)
	outer, inner := l.Runs, variations
	if l.Order == Independent {
		outer, inner = inner, outer
	}
	for i := range outer {
		for j := range inner {
			p := Place{Variation: j, Trial: i}
			if l.Order == Independent {
				p = Place{Variation: i, Trial: j}
			}
			out = append(out, p)
		}
	}
	return out
}
