package parity

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// isSeries reports whether a run's folder is that of a sweep or of repeats.
func isSeries(out string) bool {
	for _, name := range []string{"aggregate", "sweep_aggregate"} {
		if _, err := os.Stat(filepath.Join(out, name)); err == nil {
			return true
		}
	}
	return false
}

// readSeries takes the files that say what several runs show together: everything but the figures.
func readSeries(f *facts, name string, b []byte) error {
	if strings.HasSuffix(name, ".csv") {
		return readSeriesCSV(f, "csv:"+name, b)
	}
	n, err := parseTree(b)
	if err != nil {
		return err
	}
	at := "json:" + name
	f.order(at, n.keys)
	f.set(at+"/ends with a newline", fmt.Sprint(bytes.HasSuffix(b, []byte("\n"))))
	f.set(at+"/indent", string(b[:min(5, len(b))]))
	for i, k := range n.keys {
		switch v := n.vals[i]; k {
		case "prefire":
			f.set(at+"/prefire", "there")
		case "metrics":
			readFigures(f, at, v)
		case "per_combination_metrics":
			f.set(at+"/combinations", fmt.Sprint(len(v.vals)))
			for j, c := range v.vals {
				cell := fmt.Sprintf("%s/combination %d", at, j)
				f.order(cell, c.keys)
				c.get("parameters").flatten(f, cell+"/parameters")
				readFigures(f, cell, c.get("metrics"))
			}
		case "best_configurations":
			f.set(at+"/"+k, strings.Join(v.keys, ","))
		case "pareto_optimal":
			f.set(at+"/"+k, fmt.Sprint(len(v.vals) > 0))
		default:
			v.flatten(f, at+"/"+k)
		}
	}
	return nil
}

// readFigures takes the names, units and statistics of figures over runs; aiperf's order changes from run to run.
func readFigures(f *facts, at string, n node) {
	for i, tag := range n.keys {
		f.set(at+"/metric/"+tag, n.vals[i].get("unit").raw+" "+strings.Join(n.vals[i].keys, ","))
	}
}

// readSeriesCSV takes the columns of the first section, and the rows of the others whole, but for those that rank.
func readSeriesCSV(f *facts, at string, b []byte) error {
	f.set(at+"/every line ends with CRLF", fmt.Sprint(bytes.Count(b, []byte("\n")) == bytes.Count(b, []byte("\r\n")) && bytes.HasSuffix(b, []byte("\n"))))
	for i, part := range strings.Split(string(b), "\r\n\r\n") {
		r := csv.NewReader(strings.NewReader(part))
		r.FieldsPerRecord = -1
		rows, err := r.ReadAll()
		if err != nil || len(rows) == 0 {
			return fmt.Errorf("section %d: %w", i, err)
		}
		section := fmt.Sprintf("%s/section %d", at, i)
		switch {
		case i == 0 && len(rows[0]) > 11: // a sweep's: a row for each variation
			for _, column := range rows[0] {
				f.set(section+"/column/"+column, "there")
			}
			f.set(section+"/rows", fmt.Sprint(len(rows)-1))
		case i == 0:
			f.set(section+"/columns", strings.Join(rows[0], ","))
			for _, row := range rows[1:] {
				f.set(section+"/row/"+row[0], fmt.Sprint(len(row)))
			}
		case slices.Contains([]string{"Best Configurations", "Pareto Optimal Points"}, rows[0][0]):
			f.set(section, fmt.Sprint(rows[0], len(rows) > 1))
		default:
			for _, row := range rows {
				f.set(section+"/"+row[0], strings.Join(row[1:], ","))
			}
		}
	}
	return nil
}
