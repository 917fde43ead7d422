package procedure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"prefire/metrics"
)

// slowConnect is the lookup or connect time in ms above which a request counts as cold.
const slowConnect = 500

// Signs are how many cold requests show each sign. A request may show several.
type Signs struct {
	NewConnection int `json:"new_connection"` // http_req_connection_reused is 0
	SlowDNS       int `json:"slow_dns"`       // http_req_dns_lookup above 500 ms
	SlowConnect   int `json:"slow_connect"`   // http_req_connecting above 500 ms
}

// Change is one metric with the cold requests in it and without them.
type Change struct {
	Def           *metrics.Def
	Before, After metrics.Result
	// Gone says that no hot request has a value: there is no After.
	Gone bool
}

// Percent is how much a statistic moved, in % of what it was; false where there is nothing to compare.
func (c *Change) Percent(of func(*metrics.Result) float64) (float64, bool) {
	was := of(&c.Before)
	if c.Gone || was == 0 {
		return 0, false
	}
	return 100 * (of(&c.After) - was) / was, true
}

// Debiased is what a run's records say once its cold requests are told apart.
type Debiased struct {
	Requests int // answered requests of profiling
	Failed   int // failed or cancelled ones, in no latency metric anyway
	Cold     int
	Signs    Signs
	Untold   int      // of Requests, those without any connection facts: whether they were cold cannot be told, and they are taken as hot
	Changes  []Change // each metric that leaves cold requests out and that these records have, in the table's order
	Severity metrics.Severity
	// Moved is the largest relative change, in % of the hot average, that the cold requests made to TTFT or prefill throughput per user
	// (without streaming: to request latency or e2e output throughput); nil where no request was hot, or none cold.
	Moved *float64
	// Odd are the metrics that could not be read, with the reason; they stay as they are.
	Odd map[string]string
	// CutLine says that the last line was broken off and is left out.
	CutLine bool
}

// Debias reads the records of a run, profile_export.jsonl of aiperf 0.9 to 0.13 or of prefire, and tells its cold requests by their
// connection facts. An error names the line.
func Debias(records io.Reader) (*Debiased, error) {
	d := &Debiased{Odd: map[string]string{}}
	var with, hot []series
	for _, def := range metrics.Table() {
		if def.ColdOut {
			with, hot = append(with, newSeries(def)), append(hot, newSeries(def))
		}
	}
	cut, err := eachRecord(records, func(l *recordLine) { d.take(l, with, hot) })
	if err != nil {
		return nil, err
	}
	d.CutLine = cut
	d.compare(with, hot)
	return d, nil
}

// take adds one record of profiling to all metrics, and to the hot ones where it was not cold.
func (d *Debiased) take(l *recordLine, with, hot []series) {
	if !l.answered() {
		d.Failed++
		return
	}
	d.Requests++
	cold := d.signs(l)
	for i := range with {
		err := with[i].add(l)
		if err == nil && !cold {
			err = hot[i].add(l)
		}
		if err != nil {
			d.Odd[with[i].def.Tag] = err.Error()
		}
	}
}

// signs reports whether a request was cold.
func (d *Debiased) signs(l *recordLine) bool {
	s := tellCold(l.number)
	if !s.told {
		d.Untold++
		return false
	}
	for _, c := range [...]struct {
		is bool
		n  *int
	}{{s.newConnection, &d.Signs.NewConnection}, {s.slowDNS, &d.Signs.SlowDNS}, {s.slowConnect, &d.Signs.SlowConnect}} {
		if c.is {
			*c.n++
		}
	}
	if s.cold() {
		d.Cold++
	}
	return s.cold()
}

// coldSigns are the signs of one request.
type coldSigns struct {
	told                                bool // the record has connection facts
	newConnection, slowDNS, slowConnect bool
}

func (s *coldSigns) cold() bool { return s.newConnection || s.slowDNS || s.slowConnect }

// tellCold finds the signs in a record's metrics, times in ms.
func tellCold(number func(tag string) (float64, bool)) coldSigns {
	reused, a := number("http_req_connection_reused")
	dns, b := number("http_req_dns_lookup")
	connect, c := number("http_req_connecting")
	return coldSigns{a || b || c, a && reused == 0, b && dns > slowConnect, c && connect > slowConnect}
}

func (d *Debiased) compare(with, hot []series) {
	streaming := false
	for i := range with {
		streaming = streaming || with[i].def.Tag == "time_to_first_token" && with[i].values.Count() > 0
	}
	worst, known := 0., false
	for i := range with {
		def := with[i].def
		before, ok := with[i].values.Result(with[i].display())
		if _, odd := d.Odd[def.Tag]; odd || !ok {
			continue
		}
		c := Change{Def: def, Before: before}
		after, ok := hot[i].values.Result(hot[i].display())
		c.After, c.Gone = after, !ok
		c.Before.Def, c.After.Def = def, def
		d.Changes = append(d.Changes, c)
		if metrics.JudgesCold(def.Tag, streaming) && ok && after.Avg != 0 {
			worst, known = max(worst, 100*math.Abs(before.Avg-after.Avg)/after.Avg), true
		}
	}
	switch {
	case d.Cold == 0:
		d.Severity = metrics.SeverityNone
	case !known:
		d.Severity = metrics.SeverityHigh
	default:
		d.Severity, d.Moved = metrics.SeverityOf(worst), &worst
	}
}

// series are the values of one metric as the records have them, in the definition's Display unit.
type series struct {
	def    *metrics.Def
	values *metrics.Series
}

func newSeries(def *metrics.Def) series {
	return series{def, metrics.NewSeries(metrics.SeriesOptions{Unit: def.Display, Cap: math.MaxInt})}
}

// display is the definition for values that are in the Display unit already.
func (s *series) display() *metrics.Def {
	d := *s.def
	d.Unit = d.Display
	return &d
}

func (s *series) add(l *recordLine) error {
	m, ok := l.Metrics[s.def.Tag]
	if !ok {
		return nil
	}
	if m.Unit != s.def.Display {
		return fmt.Errorf("its unit is %q in the records, %q is known", m.Unit, s.def.Display)
	}
	if s.def.Shape == metrics.PerGap {
		var list []float64
		if err := json.Unmarshal(m.Value, &list); err != nil {
			return errors.New("its value is no list of numbers")
		}
		for _, v := range list {
			s.values.Add(v)
		}
		return nil
	}
	var v float64
	if err := json.Unmarshal(m.Value, &v); err != nil {
		return errors.New("its value is no number")
	}
	s.values.Add(v)
	return nil
}
