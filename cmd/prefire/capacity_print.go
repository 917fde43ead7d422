package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/internal/report"
)

// capacityTTFT is the metric whose latencies the table and the plot have, where there is a stream; capacityLatency else.
const (
	capacityTTFT    = "time_to_first_token"
	capacityLatency = "request_latency"
)

// named is a load with its unit.
func (c *capacityRun) named(load float64) string {
	if c.Ladder.Open {
		return c.text(load) + " requests/s"
	}
	return c.text(load) + " in flight"
}

// outcomeOf is a step's result in a word.
func outcomeOf(s *procedure.Step) string {
	var broken []string
	for _, f := range s.Findings {
		if !f.Kept {
			broken = append(broken, f.Limit)
		}
	}
	word := "within the limits"
	switch {
	case s.Aborted:
		word = "ended early: more than half of the requests failed"
	case !s.Kept && len(broken) > 0:
		word = "breaks " + strings.Join(broken, ", ")
	case !s.Kept && s.Unserved != nil:
		word = procedure.Falling
	case !s.Kept:
		word = "nothing was answered"
	}
	if !s.Sure {
		word += ", not for sure"
	}
	return word
}

// conclude prints the table and what was found, and writes both.
func (c *capacityRun) conclude(finished bool) error {
	found, steps := c.Ladder.JudgeCapacity(c.results())
	fmt.Fprintln(c.stdout)
	if err := c.table(steps); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "\n%s\n", c.foundText(&found, finished))
	if err := c.write("capacity.json", func(w io.Writer) error { return export.Document(w, c.document(&found, steps, finished)) }); err != nil {
		return err
	}
	if err := c.write("capacity.svg", func(w io.Writer) error { return report.Capacity(w, c.plot(&found, steps)) }); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "\nThe run: %s and %s\nEach step's files, as aiperf writes them, are in a folder of their own beside them.\n",
		filepath.Join(c.dir, "capacity.json"), filepath.Join(c.dir, "capacity.svg"))
	if !c.report {
		return nil
	}
	page := filepath.Join(c.dir, reportFile)
	if err := writeReport(c.dir, page, nil); err != nil {
		return fmt.Errorf("the report could not be made: %w", err)
	}
	fmt.Fprintf(c.stdout, "Report: %s\n", page)
	return nil
}

// table prints one row for each load.
func (c *capacityRun) table(steps []procedure.Step) error {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	load := "sessions"
	if c.Ladder.Open {
		load = "requests/s"
	}
	fmt.Fprintf(w, "%s\twindow\trequests\tfailed\tanswers\t95 %%\toutput\tin flight\tTTFT avg\tp99\tITL avg\tlatency avg\tp99\tsteady\tlimits\t\n", load)
	fmt.Fprintln(w, "\ts\tin it\t%\t/s\t±\ttokens/s\tavg\tms\tms\tms\tms\tms\t\t\t")
	for i := range steps {
		s := &steps[i]
		cells := []string{c.text(s.Load), fmt.Sprintf("%.1f-%.1f", s.From, s.To), fmt.Sprint(s.Requests), fmt.Sprintf("%.2f", 100*s.ErrorRate),
			fmt.Sprintf("%.4g", s.Throughput.Value), "-", fmt.Sprintf("%.4g", s.Tokens), fmt.Sprintf("%.2f", s.InFlight)}
		if s.Throughput.High != nil {
			cells[5] = fmt.Sprintf("%.2g", *s.Throughput.High-s.Throughput.Value)
		}
		for _, f := range [...]struct {
			tag  string
			tail bool
		}{{capacityTTFT, true}, {"inter_token_latency", false}, {capacityLatency, true}} {
			m, ok := s.Metrics[f.tag]
			for j, v := range [...]float64{m.Avg, m.P99} {
				switch {
				case j == 1 && !f.tail:
				case !ok:
					cells = append(cells, "-")
				default:
					cells = append(cells, fmt.Sprintf("%.2f", v))
				}
			}
		}
		steady, kept := "yes", "kept"
		if !s.Steady {
			steady = "no"
		}
		if !s.Kept {
			kept = "broken"
		}
		if !s.Sure {
			kept += "?"
		}
		fmt.Fprintln(w, strings.Join(append(cells, steady, kept), "\t")+"\t")
	}
	return w.Flush()
}

// foundText says what was found and how sure it is.
func (c *capacityRun) foundText(f *procedure.Capacity, finished bool) string {
	var limits []string
	for _, l := range c.slo {
		limits = append(limits, l.Text)
	}
	var b strings.Builder
	if !finished {
		b.WriteString("Not finished: what follows is from the steps so far.\n")
	}
	if f.Best == 0 {
		fmt.Fprintf(&b, "No load that was tried keeps %s.", strings.Join(limits, ", "))
	} else {
		fmt.Fprintf(&b, "Best: %s keeps %s", c.named(f.Best), strings.Join(limits, ", "))
		switch {
		case f.BestSure:
			b.WriteString(", by whole 95 % intervals.")
		case f.AtLeast > 0:
			fmt.Fprintf(&b, " by its figures; by whole 95 %% intervals %s do.", c.named(f.AtLeast))
		default:
			b.WriteString(" by its figures; no load does by whole 95 % intervals: longer steps would tell.")
		}
	}
	switch {
	case f.Below > 0 && len(f.Broken) > 0:
		fmt.Fprintf(&b, " Limited by %s; %s is surely too much.", strings.Join(f.Broken, ", "), c.named(f.Below))
	case len(f.Broken) > 0:
		fmt.Fprintf(&b, " Limited by %s.", strings.Join(f.Broken, ", "))
	case f.Best > 0 && f.Stopped == "":
		b.WriteString(" No load that was tried breaks them: the server may carry more.")
	}
	if f.Knee > 0 {
		fmt.Fprintf(&b, "\nKnee: %s; beyond it latency grows faster than throughput.", c.named(f.Knee))
	}
	if f.Stopped != "" {
		fmt.Fprintf(&b, "\nEnded early: %s.", f.Stopped)
	}
	for i := range c.done {
		switch s := &c.done[i]; {
		case s.Load != f.Best || c.later(i):
		case len(s.Client) > 0:
			fmt.Fprintf(&b, "\nAt %s the client was not fit to claim %s: see docs/trust.md.", c.named(s.Load), strings.Join(s.Client, ", "))
		case !s.Steady:
			fmt.Fprintf(&b, "\nAt %s no steady state was found (%s): longer steps may give other figures.", c.named(s.Load), s.Why)
		}
	}
	return b.String()
}

// later reports whether a load was run again after its i-th step.
func (c *capacityRun) later(i int) bool {
	for _, s := range c.done[i+1:] {
		if s.Load == c.done[i].Load {
			return true
		}
	}
	return false
}

// document is capacity.json.
func (c *capacityRun) document(f *procedure.Capacity, steps []procedure.Step, finished bool) export.Object {
	load := "concurrency"
	if c.Ladder.Open {
		load = "request_rate"
	}
	o := export.Object{{Key: "schema_version", Value: 1}, {Key: "prefire_version", Value: version()}, {Key: "command", Value: c.Command},
		{Key: "load", Value: load}, {Key: "finished", Value: finished}}
	var limits []string
	for _, l := range c.slo {
		limits = append(limits, l.Text)
	}
	o = append(o, export.Field{Key: "slo", Value: limits}, export.Field{Key: "result", Value: value(f)})
	rows := make([]export.Object, len(steps))
	for i := range steps {
		rows[i] = export.Object{{Key: "artifact_dirs", Value: c.folders(steps[i].Load)}, {Key: "figures", Value: value(&steps[i])}}
	}
	return append(o, export.Field{Key: "steps", Value: rows})
}

func (c *capacityRun) plot(f *procedure.Capacity, steps []procedure.Step) report.CapacityPlot {
	p := report.CapacityPlot{Title: "Load and what came of it", LoadName: "sessions at once", Latency: "time to first token", Best: f.Best}
	if c.Ladder.Open {
		p.LoadName = "requests/s asked"
	}
	tag := capacityLatency
	for i := range steps {
		if _, ok := steps[i].Metrics[capacityTTFT]; ok {
			tag = capacityTTFT
		}
	}
	if tag == capacityLatency {
		p.Latency = "request latency"
	}
	for i := range steps {
		s := &steps[i]
		point := report.CapacityPoint{Load: s.Load, Throughput: s.Throughput.Value, Low: s.Throughput.Value, High: s.Throughput.Value,
			Latency: math.NaN(), LatencyTail: math.NaN(), Kept: s.Kept}
		if s.Throughput.High != nil {
			point.Low, point.High = *s.Throughput.Low, *s.Throughput.High
		}
		if m, ok := s.Metrics[tag]; ok {
			point.Latency, point.LatencyTail = m.Avg, m.P99
		}
		p.Points = append(p.Points, point)
	}
	return p
}
