package metrics

import "slices"

// Table is the table of metric definitions, in the order in which results and records list them. Every call makes a new one, so that a
// caller may change its own.
func Table() []*Def { return table(DefaultLimits(), nil) }

func table(l Limits, o *Objectives) []*Def {
	return slices.Concat(latencyDefs(), lengthDefs(l), countDefs(), httpDefs(), usageDefs(l), usageTotalDefs(), specDefs(),
		goodDefs(o), curveDefs(), queueDefs(), replayDefs(), networkDefs(), adjustedDefs())
}

// row fills in what most definitions share: a metric is shown in the unit it is computed in.
func row(d Def) *Def {
	if d.Display == "" {
		d.Display = d.Unit
	}
	return &d
}

// sumOf is the Derive of a metric that is the sum of another one's values.
func sumOf(tag string) func(*Totals) (float64, bool) {
	return func(t *Totals) (float64, bool) { return t.Get(tag) }
}

// rateOf is the Derive of a metric that is another one's total per second of the observed duration.
func rateOf(tag string) func(*Totals) (float64, bool) {
	return func(t *Totals) (float64, bool) { return t.Rate(tag) }
}

// between is the time from one stamp to another; absent where a stamp is, or where they are in the wrong order.
func between(from, to int64) (float64, bool) {
	if from == 0 || to == 0 || to < from {
		return 0, false
	}
	return float64(to - from), true
}

// known is a count's value.
func known(c Count) (float64, bool) { return float64(c.N), c.Known }

// always counts every record that a metric is taken from.
func always(*Record) (float64, bool) { return 1, true }

// oneIf is 1 or 0.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
