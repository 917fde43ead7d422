package export

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"prefire/metrics"
)

// CSV writes profile_export_aiperf.csv: the metrics with a distribution, an empty line, the single values; each sorted by tag, two
// decimals, CRLF.
func CSV(w io.Writer, r *Run) error {
	var many, one []*metrics.Result
	for i := range r.Results {
		switch m := &r.Results[i]; {
		case hidden(m):
		case m.Scalar:
			one = append(one, m)
		default:
			many = append(many, m)
		}
	}
	sortByTag(many)
	sortByTag(one)

	c := csv.NewWriter(w)
	c.UseCRLF = true
	// A csv.Writer keeps its first error and reports it at the end.
	if len(many) > 0 {
		stats := figureNames()
		_ = c.Write(append([]string{"Metric"}, stats...))
		for _, m := range many {
			row := []string{nameAndUnit(m.Def)}
			for _, name := range stats {
				cell := ""
				if v, ok := m.Stat(name); ok {
					cell = two(v)
				}
				row = append(row, cell)
			}
			_ = c.Write(row)
		}
		if len(one) > 0 {
			_ = c.Write(nil)
		}
	}
	if len(one) > 0 {
		_ = c.Write([]string{"Metric", "Value"})
		for _, m := range one {
			_ = c.Write([]string{nameAndUnit(m.Def), two(m.Avg)})
		}
	}
	c.Flush()
	return c.Error()
}

// figureNames are the figures of a metric with a distribution, in the order of aiperf's CSV files.
func figureNames() []string {
	names := percentileNames()
	return slices.Concat([]string{"avg", "min", "max", "sum"}, names[:], []string{"std"})
}

func sortByTag(rs []*metrics.Result) {
	slices.SortFunc(rs, func(a, b *metrics.Result) int { return strings.Compare(a.Def.Tag, b.Def.Tag) })
}

// nameAndUnit is the header with the unit behind it, but for units that only say "a number of".
func nameAndUnit(d *metrics.Def) string {
	if d.Display == "" || d.Display == metrics.CountUnit || d.Display == metrics.Requests {
		return d.Header
	}
	return d.Header + " (" + string(d.Display) + ")"
}

func two(v float64) string {
	if !finite(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
