package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"prefire/internal/export"
	"prefire/internal/procedure"
)

func printComparedJSON(w io.Writer, pairs []comparedPair) error {
	rows := make([]export.Object, len(pairs))
	for i := range pairs {
		rows[i] = pairs[i].fields()
	}
	return export.Document(w, export.Object{{Key: "schema_version", Value: 1}, {Key: "prefire_version", Value: version()}, {Key: "pairs", Value: rows}})
}

// rows are a pair's table: one row a metric, with the change of its average and of its 99th percentile.
func (c *comparedPair) rows() [][]string {
	out := [][]string{{"metric", "unit", "A avg", "B avg", "change", "95 % interval", "p", "p99 change", "95 % interval", "verdict"}}
	for i := range c.metrics {
		m := &c.metrics[i]
		row := []string{m.Tag, string(m.Unit), "-", "-", "-", "-", "-", "-", "-", string(m.Outcome)}
		sign := "%"
		if m.Tag == "error_rate" {
			sign = "points"
		}
		for _, d := range m.Differences {
			change, interval := fmt.Sprintf("%+.2f %s", d.Change, sign), fmt.Sprintf("%+.2f to %+.2f", d.Low, d.High)
			switch d.Stat {
			case "avg":
				row[2], row[3], row[4], row[5] = fmt.Sprintf("%.4g", d.A), fmt.Sprintf("%.4g", d.B), change, interval
			case "p99":
				row[7], row[8] = change, interval
			}
		}
		if m.P != nil {
			row[6] = fmt.Sprintf("%.2g", *m.P)
		}
		out = append(out, row)
	}
	return out
}

// errors is the verdict on failed requests, which comes before all others where there is one; "" = none.
func (c *comparedPair) errors() string {
	for i := range c.metrics {
		if m := &c.metrics[i]; m.Tag == "error_rate" && (m.Outcome == procedure.Better || m.Outcome == procedure.Worse) {
			d := m.Differences[0]
			return fmt.Sprintf("errors: %s: %.1f %% of A's requests failed and %.1f %% of B's", m.Outcome, d.A, d.B)
		}
	}
	return ""
}

// reasons are why metrics are not comparable, and what is to be known of verdicts, each once, with the metrics it is for.
func (c *comparedPair) reasons() []string {
	var order []string
	of := map[string][]string{}
	for i := range c.metrics {
		m := &c.metrics[i]
		line := m.Note
		if m.Outcome == procedure.NotComparable {
			line = "not comparable: " + m.Why
		}
		if line == "" {
			continue
		}
		if of[line] == nil {
			order = append(order, line)
		}
		of[line] = append(of[line], m.Tag)
	}
	var out []string
	for _, line := range order {
		out = append(out, fmt.Sprintf("%s (%s)", line, strings.Join(of[line], ", ")))
	}
	return out
}

// said are the lines on --fail-on.
func (c *comparedPair) said() []string {
	var out []string
	for _, k := range c.checks {
		switch {
		case k.Why != "":
			out = append(out, fmt.Sprintf("%s: cannot be judged: %s", k.Limit, k.Why))
		case k.Broken:
			out = append(out, k.Limit+": broken")
		default:
			out = append(out, k.Limit+": kept")
		}
	}
	return out
}

func (c *comparedPair) title() string {
	return fmt.Sprintf("%s (B) against %s (A): %s", c.b, c.a, c.overall())
}

func printCompared(w io.Writer, pairs []comparedPair) error {
	for i := range pairs {
		c := &pairs[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, c.title())
		if line := c.errors(); line != "" {
			fmt.Fprintln(w, line)
		}
		fmt.Fprintln(w)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, row := range c.rows() {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, line := range append(c.reasons(), c.said()...) {
			fmt.Fprintln(w, line)
		}
	}
	return nil
}

func printComparedMarkdown(w io.Writer, pairs []comparedPair) error {
	var b strings.Builder
	for i := range pairs {
		c := &pairs[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "### %s\n\n", c.title())
		if line := c.errors(); line != "" {
			fmt.Fprintf(&b, "%s\n\n", line)
		}
		for j, row := range c.rows() {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			if j == 0 {
				b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
			}
		}
		lines := append(c.reasons(), c.said()...)
		if len(lines) > 0 {
			b.WriteByte('\n')
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
