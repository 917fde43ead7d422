package export

import (
	"encoding/csv"
	"io"
	"strconv"

	"prefire/metrics"
)

// Slice is a slice of the run. Start and End are Unix times in ns.
type Slice struct {
	Start, End int64
	Complete   bool
	Results    []metrics.Result
}

// SlicesJSON writes profile_export_aiperf_timeslices.json.
func SlicesJSON(w io.Writer, r *Run) error {
	list := make([]Object, 0, len(r.Slices))
	for i := range r.Slices {
		s := &r.Slices[i]
		o := Object{{"start_ns", s.Start}, {"end_ns", s.End}}
		if !s.Complete {
			o = append(o, Field{"is_complete", false})
		}
		list = append(list, append(o, byTag(s.Results, nil)...))
	}
	top := Object{{"timeslices", list}}
	if r.InputConfig != nil {
		top = append(top, Field{"input_config", r.InputConfig})
	}
	out, err := appendObject(nil, "the slices", top, 0)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// SlicesCSV writes profile_export_aiperf_timeslices.csv: one row for each figure of each metric of each slice.
func SlicesCSV(w io.Writer, r *Run) error {
	c := csv.NewWriter(w)
	c.UseCRLF = true
	// A csv.Writer keeps its first error and reports it at the end.
	_ = c.Write([]string{"Timeslice", "Start_NS", "End_NS", "Metric", "Unit", "Stat", "Value"})
	for i := range r.Slices {
		s := &r.Slices[i]
		var shown []*metrics.Result
		for k := range s.Results {
			if m := &s.Results[k]; !hidden(m) {
				shown = append(shown, m)
			}
		}
		sortByTag(shown)
		for _, m := range shown {
			for _, stat := range figureNames() {
				if v, ok := m.Stat(stat); ok {
					_ = c.Write([]string{strconv.Itoa(i), strconv.FormatInt(s.Start, 10), strconv.FormatInt(s.End, 10), m.Def.Header, string(m.Def.Display), stat, two(v)})
				}
			}
		}
	}
	c.Flush()
	return c.Error()
}
