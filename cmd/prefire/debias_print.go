package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"prefire/internal/procedure"
	"prefire/metrics"
)

func printDebiased(w io.Writer, r *debiasedRun) {
	d := r.d
	fmt.Fprintf(w, "%s: %s\n", r.name, coldLine(d))
	for _, n := range r.notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	if d.Cold > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		wide := 0
		for _, c := range d.Changes {
			wide = max(wide, len(name(c.Def)))
		}
		fmt.Fprintf(t, "%-*s\tavg before\tafter\tdifference\tp99 before\tafter\tdifference\tvalues\t\n", wide, "metric")
		for i := range d.Changes {
			c := &d.Changes[i]
			fmt.Fprintf(t, "%-*s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", wide, name(c.Def),
				twoPlaces(c.Before.Avg, true), twoPlaces(c.After.Avg, !c.Gone), change(c, avg),
				twoPlaces(c.Before.P[8], true), twoPlaces(c.After.P[8], !c.Gone), change(c, ninetyNinth), fmt.Sprintf("%d → %d", c.Before.Count, c.After.Count))
		}
		t.Flush()
	}
	for _, f := range r.wrote {
		fmt.Fprintf(w, "  written: %s\n", f)
	}
	fmt.Fprintln(w)
}

func coldLine(d *procedure.Debiased) string {
	if d.Requests == 0 {
		return "no answered request in it"
	}
	s := fmt.Sprintf("%d of %d requests were cold (%.1f %%)", d.Cold, d.Requests, 100*float64(d.Cold)/float64(d.Requests))
	if d.Cold == 0 {
		return s
	}
	s += fmt.Sprintf(": new connection %d, name lookup over 500 ms %d, connect over 500 ms %d; severity %s", d.Signs.NewConnection, d.Signs.SlowDNS, d.Signs.SlowConnect, d.Severity)
	if d.Moved != nil {
		s += fmt.Sprintf(", they moved an average by %.1f %% of its hot value", *d.Moved)
	}
	return s
}

// printDebiasedRuns is the table over all runs.
func printDebiasedRuns(w io.Writer, runs []debiasedRun) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	wide := 0
	for i := range runs {
		wide = max(wide, len(runs[i].name))
	}
	fmt.Fprintf(t, "%-*s\trequests\tcold\tTTFT before\tafter\tdifference\tprefill before\tafter\tdifference\tseverity\t\n", wide, "run")
	for i := range runs {
		r := &runs[i]
		fmt.Fprintf(t, "%-*s\t%d\t%d\t", wide, r.name, r.d.Requests, r.d.Cold)
		for _, tag := range [...]string{"time_to_first_token", "prefill_throughput_per_user"} {
			j := slices.IndexFunc(r.d.Changes, func(c procedure.Change) bool { return c.Def.Tag == tag })
			if j < 0 {
				fmt.Fprint(t, "-\t-\t-\t")
				continue
			}
			c := &r.d.Changes[j]
			fmt.Fprintf(t, "%s\t%s\t%s\t", twoPlaces(c.Before.Avg, true), twoPlaces(c.After.Avg, !c.Gone), change(c, avg))
		}
		fmt.Fprintf(t, "%s\t\n", r.d.Severity)
	}
	t.Flush()
	fmt.Fprintln(w, "TTFT in ms, prefill throughput in tokens/sec/user; averages.")
}

func name(d *metrics.Def) string { return fmt.Sprintf("%s (%s)", d.Header, d.Display) }

// twoPlaces is a value, or a dash where there is none.
func twoPlaces(v float64, there bool) string {
	if !there {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func change(c *procedure.Change, of func(*metrics.Result) float64) string {
	v, ok := c.Percent(of)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", v)
}

func ninetyNinth(r *metrics.Result) float64 { return r.P[8] }
