package report

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// document is a JSON file whose figures the page names by their paths.
type document struct{ v any }

func readDocument(data []byte) (d document, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&d.v)
	return d, err
}

// number is the number at a path such as steps.0.figures.load; "" where there is none.
func (d document) number(path string) json.Number {
	n, _ := d.at(path).(json.Number)
	return n
}

// text is the text at a path; "" where there is none.
func (d document) text(path string) string {
	s, _ := d.at(path).(string)
	return s
}

// at is what stands at a path; nil where nothing does.
func (d document) at(path string) any {
	v := d.v
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// figure is the number at a path for the page; the zero figure where there is none.
func (d document) figure(path string) figure { return newFigure(path, d.number(path)) }

// share is the ratio at a path, shown in per cent.
func (d document) share(path string) figure {
	f := d.figure(path)
	if v, err := d.number(path).Float64(); err == nil {
		f.Shown = readable(100 * v)
	}
	return f
}
