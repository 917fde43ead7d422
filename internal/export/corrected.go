package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"prefire/metrics"
)

// Corrected writes a summary, of any version, again with the values of rs in the place of its own, without the metrics of gone, and with
// facts under a last key. All else stays as it is, in its order.
func Corrected(w io.Writer, summary []byte, rs []metrics.Result, gone []string, key string, facts Object) error {
	top, err := objectOf(summary)
	if err != nil {
		return err
	}
	top = slices.DeleteFunc(top, func(f Field) bool { return f.Key == key || slices.Contains(gone, f.Key) })
	for i := range top {
		if m := result(rs, top[i].Key); m != nil {
			top[i].Value = metricObject(m)
		}
	}
	out, err := appendObject(nil, "the corrected summary", append(top, Field{key, facts}), 0)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// objectOf is a JSON object with its keys in order and its values as they stand.
func objectOf(data []byte) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, fmt.Errorf("it starts with %v where an object is expected", t)
	}
	var o Object
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		o = append(o, Field{key.(string), v})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the object")
	}
	return o, nil
}

// CorrectedCSV writes profile_export_aiperf.csv again with the values of rs in their rows, without the rows of gone. Columns go by their
// names; those that are not known stay as they are.
func CorrectedCSV(w io.Writer, old io.Reader, rs []metrics.Result, gone []*metrics.Def) error {
	in := csv.NewReader(old)
	in.FieldsPerRecord = -1
	out := csv.NewWriter(w)
	out.UseCRLF = true
	var header []string
	line := 0
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if now, _ := in.FieldPos(0); header != nil && now > line+1 {
			_ = out.Write(nil) // a csv.Reader passes over the empty line between the two tables
		}
		line, _ = in.FieldPos(0)
		if row[0] == "Metric" {
			header = row
		}
		if slices.ContainsFunc(gone, func(d *metrics.Def) bool { return nameAndUnit(d) == row[0] }) {
			continue
		}
		if i := slices.IndexFunc(rs, func(r metrics.Result) bool { return nameAndUnit(r.Def) == row[0] }); i >= 0 {
			correctRow(row, header, &rs[i])
		}
		_ = out.Write(row) // a csv.Writer keeps its first error and reports it at the end
	}
	out.Flush()
	return out.Error()
}

func correctRow(row, header []string, m *metrics.Result) {
	values := map[string]float64{"avg": m.Avg, "min": m.Min, "max": m.Max, "sum": m.Sum, "std": m.Std}
	for i, name := range percentileNames() {
		values[name] = m.P[i]
	}
	for i := 1; i < min(len(row), len(header)); i++ {
		if v, ok := values[header[i]]; ok {
			row[i] = two(v)
		}
	}
}

// Document writes an object as the summary is laid out, with a final newline.
func Document(w io.Writer, o Object) error {
	out, err := appendObject(nil, "the document", o, 0)
	if err != nil {
		return err
	}
	_, err = w.Write(append(out, '\n'))
	return err
}
