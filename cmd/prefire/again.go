package main

import (
	"fmt"
	"slices"

	"prefire/internal/export"
	"prefire/metrics"
)

// sentAgain counts the measured requests that were sent more than once, and what their waits do to the latencies: those count from the first
// send, as a user waits, and no server has taken that time for an answer.
type sentAgain struct {
	requests, sends int64
	waited          *metrics.Series // ns; nil = no request waits
	without         []withoutWaits
	includeCold     bool
}

// withoutWaits is a latency of all requests, less their waits.
type withoutWaits struct {
	def    *metrics.Def
	values *metrics.Series
}

// watch has the latencies of a run in which requests wait to be sent again taken without the waits too.
func (a *sentAgain) watch(o metrics.Options) {
	a.waited = metrics.NewSeries(metrics.SeriesOptions{Unit: metrics.Nanoseconds})
	a.includeCold = o.IncludeCold
	defs := o.Table()
	for _, tag := range [...]string{"time_to_first_token", "request_latency"} {
		if i := slices.IndexFunc(defs, func(d *metrics.Def) bool { return d.Tag == tag }); i >= 0 {
			a.without = append(a.without, withoutWaits{defs[i], metrics.NewSeries(metrics.SeriesOptions{Unit: metrics.Nanoseconds})})
		}
	}
}

func (a *sentAgain) add(r *metrics.Record) {
	if r.Kind != metrics.Profiling {
		return
	}
	if r.Attempts > 1 {
		a.requests++
		a.sends += int64(r.Attempts) - 1
	}
	if a.waited == nil || !r.Valid() || r.Cold != 0 && !a.includeCold {
		return
	}
	if r.Waited > 0 {
		a.waited.Add(float64(r.Waited))
	}
	for _, w := range a.without {
		if v, ok := w.def.Value(r); ok {
			w.values.Add(v - float64(r.Waited))
		}
	}
}

// waits reports whether a measured latency holds a wait.
func (a *sentAgain) waits() bool { return a.waited != nil && a.waited.Count() > 0 }

// facts are prefire.sent_again; nil where nothing was.
func (a *sentAgain) facts() any {
	if a.requests == 0 {
		return nil
	}
	o := export.Object{{Key: "requests", Value: a.requests}, {Key: "sends", Value: a.sends}}
	if !a.waits() {
		return o
	}
	without := export.Object{}
	for _, w := range a.without {
		without = append(without, export.Field{Key: w.def.Tag, Value: value(w.values.Spread())})
	}
	return append(o, export.Field{Key: "waited", Value: value(a.waited.Spread())}, export.Field{Key: "without_the_waits", Value: without})
}

// notice says what was sent again and what that does to the figures; "" = nothing was.
func (a *sentAgain) notice(rs []metrics.Result) string {
	if a.requests == 0 {
		return ""
	}
	line := fmt.Sprintf("%d requests were sent again, %d times in all, after 429 or a connection that had closed; their times count from the first send", a.requests, a.sends)
	if !a.waits() || len(a.without) == 0 {
		return line
	}
	w := a.without[0]
	with, less := find(rs, w.def.Tag), w.values.Spread()
	if with == nil {
		return line
	}
	p99, _ := with.Stat("p99")
	return line + fmt.Sprintf(": %d of those measured waited %.1f ms on average, which is in the latencies: %s is %.1f ms on average and %.1f at p99, without the waits %.1f and %.1f",
		a.waited.Count(), a.waited.Spread().Avg, w.def.Header, with.Avg, p99, less.Avg, less.P99)
}
