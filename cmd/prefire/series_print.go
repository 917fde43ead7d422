package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"prefire/internal/sweep"
)

// label names a run: its variation, by the short names of what it sets, and its repeat where there are any.
func (s *series) label(v *sweep.Variation, trial int) string {
	var parts []string
	if s.plan.Layout.Swept {
		parts = append(parts, s.short(v))
	}
	if s.plan.Layout.Runs > 1 {
		parts = append(parts, sweep.RunLabel(trial))
	}
	return strings.Join(parts, ", ")
}

// short is a variation as people name it: concurrency=10, or the name that it was given.
func (s *series) short(v *sweep.Variation) string {
	if v.Named() {
		return v.Label
	}
	names := sweep.Names(s.variations())
	parts := make([]string, len(v.Values))
	for i, set := range v.Values {
		parts[i] = names[set.Path] + "=" + sweep.Text(set.Value)
	}
	return strings.Join(parts, ", ")
}

func (s *series) variations() []sweep.Variation {
	out := make([]sweep.Variation, len(s.plan.Steps))
	for i := range s.plan.Steps {
		out[i] = s.plan.Steps[i].Variation
	}
	return out
}

// failures says which runs do not count, and what follows where too few do.
func (s *series) failures(ok int) {
	total := len(s.plan.Steps) * s.plan.Layout.Runs
	if s.stopped {
		fmt.Fprintf(s.stderr, "%s: stopped after %d of %d runs; the files hold what the %d complete ones show\n", s.name(), len(s.runs), total, ok)
	}
	for _, r := range s.runs {
		if !r.OK() {
			fmt.Fprintf(s.stderr, "%s: %s does not count: %s\n", s.name(), s.label(r.Variation, r.Trial), r.Failure)
		}
	}
	switch {
	case ok >= 2:
	case ok == 0 && !s.stopped:
		fmt.Fprintln(s.stderr, "All runs failed - cannot compute aggregate statistics. Please check the error messages above.")
	case s.plan.Layout.Swept:
		fmt.Fprintf(s.stderr, "Only %d variation succeeded - cannot compute sweep aggregate statistics. At least 2 successful variations are required.\n", ok)
	default:
		fmt.Fprintf(s.stderr, "Only %d successful run - cannot compute confidence statistics. At least 2 successful runs are required.\n", ok)
	}
}

// show prints what the runs show together. Errors of the screen are none: the files hold all of it.
func (s *series) show(cells []sweep.Cell, sum *sweep.Summary) {
	if s.plan.Layout.Swept {
		if !s.plan.NoTable {
			s.print(cells)
		}
		s.best(sum)
		return
	}
	fmt.Fprintf(s.stdout, "\n%d of %d runs count. Figures over runs, with the %s interval of their mean:\n\n", cells[0].OK(), len(cells[0].Runs), inPercent(s.plan.Confidence))
	rows := [][]string{{"metric", "mean", "interval", "std", "CV", "unit"}}
	for _, h := range headlines() {
		a, ok := cells[0].Figure(h.tag, h.stat)
		if !ok {
			continue
		}
		rows = append(rows, []string{h.tag + " " + h.stat, two(a.Mean), two(a.Low) + " to " + two(a.High), two(a.Std), inPercent(a.CV), a.Unit})
	}
	writeTable(s.stdout, rows)
	if lost := cells[0].Lost(); lost > sweep.MostErrors {
		fmt.Fprintf(s.stdout, "\n%.2f %% of the requests failed or hung until they were cut: the latencies are those of the others\n", lost)
	}
	fmt.Fprintf(s.stdout, "\nAll figures: %s\n", filepath.Join(s.dir.Path, s.plan.Layout.Aggregate(cells[0].Variation)))
}

// headline is a figure that the tables show.
type headline struct{ tag, stat string }

// headlines are those of aiperf's tables.
func headlines() []headline {
	return []headline{{"output_token_throughput", "avg"}, {"request_throughput", "avg"}, {"time_to_first_token", "avg"}, {"time_to_first_token", "p99"},
		{"inter_token_latency", "avg"}, {"inter_token_latency", "p99"}, {"request_latency", "p95"}}
}

// table prints the sweep's table of the runs so far.
func (s *series) table() { s.print(sweep.Cells(s.runs, s.plan.Confidence)) }

// print prints a row for each variation: its values, the means of the headlines over its repeats, with half the width of the interval where
// there is one, the share of requests that hung, where any did, and how many repeats count.
func (s *series) print(cells []sweep.Cell) {
	variations := s.variations()
	names := sweep.Names(variations)
	byLabel := slices.ContainsFunc(variations, func(v sweep.Variation) bool { return v.Named() })
	var header []string
	var columns []headline
	for _, h := range headlines() {
		if slices.ContainsFunc(cells, func(c sweep.Cell) bool { _, ok := c.Figure(h.tag, h.stat); return ok }) {
			columns = append(columns, h)
		}
	}
	errors := headline{"request_error_rate", "avg"}
	if slices.ContainsFunc(cells, func(c sweep.Cell) bool { a, ok := c.Figure(errors.tag, errors.stat); return ok && a.Mean > 0 }) {
		columns = append(columns, errors)
	}
	var paths []string
	for i := range variations {
		for _, set := range variations[i].Values {
			if !byLabel && !slices.Contains(paths, set.Path) {
				paths = append(paths, set.Path)
				header = append(header, names[set.Path])
			}
		}
	}
	if byLabel {
		header = append(header, "variation")
	}
	units := make([]string, len(header))
	for _, h := range columns {
		header = append(header, shortTag(h.tag)+" "+h.stat)
		units = append(units, unitOf(cells, h))
	}
	hung := slices.ContainsFunc(cells, func(c sweep.Cell) bool { return c.Hung() > 0 })
	if hung {
		header, units = append(header, "hung"), append(units, "%")
	}
	rows := [][]string{append(header, "runs"), append(units, "")}
	for i := range cells {
		c := &cells[i]
		row := []string{s.short(c.Variation)}
		if !byLabel {
			row = row[:0]
			for _, path := range paths {
				at := slices.IndexFunc(c.Variation.Values, func(set sweep.Setting) bool { return set.Path == path })
				text := ""
				if at >= 0 {
					text = sweep.Text(c.Variation.Values[at].Value)
				}
				row = append(row, text)
			}
		}
		for _, h := range columns {
			text := "-"
			if a, ok := c.Figure(h.tag, h.stat); ok {
				text = two(a.Mean)
				if a.Runs > 1 {
					text += " ±" + two(a.High-a.Mean)
				}
			}
			row = append(row, text)
		}
		if hung {
			row = append(row, two(c.Hung()))
		}
		rows = append(rows, append(row, fmt.Sprintf("%d/%d", c.OK(), len(c.Runs))))
	}
	fmt.Fprintln(s.stdout)
	writeTable(s.stdout, rows)
}

func unitOf(cells []sweep.Cell, h headline) string {
	for i := range cells {
		if a, ok := cells[i].Figure(h.tag, h.stat); ok {
			return a.Unit
		}
	}
	return ""
}

// shortTag is a tag as a column's head.
func shortTag(tag string) string {
	for long, short := range map[string]string{"output_token_throughput": "output", "request_throughput": "requests", "time_to_first_token": "TTFT",
		"inter_token_latency": "ITL", "request_latency": "latency", "request_error_rate": "errors"} {
		if tag == long {
			return short
		}
	}
	return tag
}

// best prints the best variations.
func (s *series) best(sum *sweep.Summary) {
	fmt.Fprintln(s.stdout)
	for _, b := range []struct {
		what string
		*sweep.Best
	}{{"Best throughput", sum.Throughput}, {"Best latency (p99)", sum.Latency}} {
		if b.Best != nil {
			fmt.Fprintf(s.stdout, "%s: %s (%s %s)\n", b.what, s.short(b.Cell.Variation), two(b.Metric), b.Unit)
		}
	}
	if n := len(sum.Failing); n > 0 {
		names := make([]string, n)
		for i, c := range sum.Failing {
			names[i] = s.short(c.Variation)
		}
		fmt.Fprintf(s.stdout, "Not among the best, since more than %g %% of their requests failed or hung until they were cut: %s\n", sweep.MostErrors, strings.Join(names, "; "))
	}
	if len(s.plan.Limits) > 0 {
		fmt.Fprintf(s.stdout, "%d of %d variations keep the limits", sum.Feasible, len(sum.Cells))
		if sum.Feasible == 0 {
			fmt.Fprint(s.stdout, ": the best are those of all that answer")
		}
		fmt.Fprintln(s.stdout)
	}
	fmt.Fprintf(s.stdout, "All figures: %s\n", filepath.Join(s.dir.Path, s.plan.Layout.Summary()))
}

// writeTable aligns rows to the right.
func writeTable(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	_ = t.Flush() // a screen that cannot be written to is no error: the files hold all of it
}

func two(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// inPercent is a ratio in per cent.
func inPercent(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v*100, 'f', 2, 64), "0"), ".") + "%"
}
