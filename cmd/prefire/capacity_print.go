package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/internal/report"
)

// conclude prints the table and what was found, and writes both.
func (c *capacityRun) conclude(finished bool) error {
	found, steps := c.Ladder.JudgeCapacity(c.results())
	fmt.Fprintln(c.stdout)
	if err := c.table(steps); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "\n%s\n", c.foundText(&found, steps, finished))
	var result bytes.Buffer
	if err := export.Document(&result, c.document(&found, steps, finished)); err != nil {
		return err
	}
	if err := c.write("capacity.json", func(w io.Writer) error { _, err := w.Write(result.Bytes()); return err }); err != nil {
		return err
	}
	if err := c.write("capacity.svg", func(w io.Writer) error { return report.CapacitySVG(w, result.Bytes()) }); err != nil {
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
		cells := []string{procedure.LoadText(s.Load), fmt.Sprintf("%.1f-%.1f", s.From, s.To), fmt.Sprint(s.Requests), fmt.Sprintf("%.2f", 100*s.ErrorRate),
			fmt.Sprintf("%.4g", s.Throughput.Value), "-", fmt.Sprintf("%.4g", s.Tokens), fmt.Sprintf("%.2f", s.InFlight)}
		if s.Throughput.High != nil {
			cells[5] = fmt.Sprintf("%.2g", *s.Throughput.High-s.Throughput.Value)
		}
		for _, f := range [...]struct {
			tag  string
			tail bool
		}{{"time_to_first_token", true}, {"inter_token_latency", false}, {"request_latency", true}} {
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
func (c *capacityRun) foundText(f *procedure.Capacity, steps []procedure.Step, finished bool) string {
	best, more := f.Says(&c.Ladder, c.limits(), steps)
	lines := append([]string{best}, more...)
	if !finished {
		lines = slices.Insert(lines, 0, "Not finished: what follows is from the steps so far.")
	}
	return strings.Join(lines, "\n")
}

// limits are those of the SLO, as they were given.
func (c *capacityRun) limits() []string {
	out := make([]string, len(c.slo))
	for i := range c.slo {
		out[i] = c.slo[i].Text
	}
	return out
}

// document is capacity.json.
func (c *capacityRun) document(f *procedure.Capacity, steps []procedure.Step, finished bool) export.Object {
	load := "concurrency"
	if c.Ladder.Open {
		load = "request_rate"
	}
	o := export.Object{{Key: "schema_version", Value: 1}, {Key: "prefire_version", Value: version()}, {Key: "command", Value: c.Command},
		{Key: "load", Value: load}, {Key: "finished", Value: finished}}
	o = append(o, export.Field{Key: "slo", Value: c.limits()}, export.Field{Key: "result", Value: value(f)})
	rows := make([]export.Object, len(steps))
	for i := range steps {
		rows[i] = export.Object{{Key: "artifact_dirs", Value: c.folders(steps[i].Load)}, {Key: "figures", Value: value(&steps[i])}}
	}
	return append(o, export.Field{Key: "steps", Value: rows})
}
