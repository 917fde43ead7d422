package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Objective is a service level objective: a metric of single requests and its limit in the unit in which the metric is shown.
type Objective struct {
	Tag   string
	Limit float64
}

// Objectives decide which requests are good: those that keep all of them.
type Objectives struct {
	list []bound
}

type bound struct {
	def   *Def
	limit float64 // in the metric's own unit
}

// NewObjectives looks the metrics up. A metric that single requests do not have is an error: no request could keep its objective.
func NewObjectives(given []Objective) (*Objectives, error) {
	o := new(Objectives)
	defs := Table()
	for _, g := range given {
		i := slices.IndexFunc(defs, func(d *Def) bool { return d.Tag == g.Tag })
		if i < 0 {
			text := "Unknown metric tag(s) in --goodput: " + g.Tag // aiperf's words
			return nil, errors.New(text + ". Metrics of single requests are " + strings.Join(judged(defs), ", "))
		}
		d := defs[i]
		if !d.judges() {
			return nil, fmt.Errorf("%s is not a metric of single requests, so none can keep an objective on it. Those metrics are %s", g.Tag,
				strings.Join(judged(defs), ", "))
		}
		o.list = append(o.list, bound{d, g.Limit * math.Round(1/d.Factor())})
	}
	return o, nil
}

// judges reports whether valid requests have a single value of this metric that files show.
func (d *Def) judges() bool {
	return d.Shape == PerRecord && d.Flags&(ErrorOnly|NotInRecord|Internal|WithObjectives) == 0
}

// judged are the metrics that can have an objective.
func judged(defs []*Def) []string {
	var tags []string
	for _, d := range defs {
		if d.judges() {
			tags = append(tags, d.Tag)
		}
	}
	return tags
}

// Good reports whether a valid request keeps all objectives. One that lacks a metric does not.
func (o *Objectives) Good(r *Record) bool {
	for _, b := range o.list {
		value := b.def.Value
		if b.def.judge != nil {
			value = b.def.judge
		}
		v, ok := value(r)
		if !ok || b.def.Has(LargerBetter) && v < b.limit || !b.def.Has(LargerBetter) && v > b.limit {
			return false
		}
	}
	return true
}

// goodDefs are what objectives make of a run. Cold requests are in them.
func goodDefs(o *Objectives) []*Def {
	return []*Def{
		row(Def{Tag: "good_request_count", Header: "Good Request Count", Unit: Requests, Shape: Aggregate, Flags: WithObjectives | Integer,
			Value: func(r *Record) (float64, bool) { return oneIf(o != nil && o.Good(r)), true },
			Doc: "Valid requests that keep all service level objectives: at most the limit, or at least it where larger is better. A request " +
				"that lacks one of the metrics is not good. In a record 1 or 0."}),
		row(Def{Tag: "good_request_fraction", Header: "GoodRequestFraction", Unit: Ratio, Shape: Derived, Flags: WithObjectives | LargerBetter,
			Derive: goodShare, Doc: "Good requests / (valid + failed requests), from 0 to 1."}),
		row(Def{Tag: "goodput", Header: "Goodput", Unit: RequestsPerSec, Shape: Derived, Flags: WithObjectives, Group: Main, Order: 1000,
			Derive: rateOf("good_request_count"), Doc: "Good requests / phase duration, per second."}),
	}
}

func goodShare(t *Totals) (float64, bool) {
	all, ok := t.Get("completed_request_count")
	good, _ := t.Get("good_request_count")
	return good / all, ok
}
