package config

import (
	"fmt"
	"slices"
)

// distribution reads a length that is a mapping, in one of aiperf's five forms: a value; a mean, perhaps with a stddev; a mean and a median;
// peaks, each a length with a weight; points, each a value with a weight. All take min and max.
func (d *decoder) distribution(v *node, where string, k keys, least float64) (out lengthDraft) {
	m := d.section(v, where, k)
	has := func(key string) bool { return m.entries[key] != nil }
	only := func(form string, with ...string) {
		for _, e := range v.entries {
			key := fold(e.key)
			if key != form && !slices.Contains(with, key) && !slices.Contains([]string{"min", "max", "type", "weight"}, key) && has(key) {
				d.fail(e.line, e.col, join(where, e.key), "a length with %s has no %s.", form, e.key)
			}
		}
	}
	number := func(key string, b *Bound) (n opt[float64]) {
		if val, at, ok := m.value(key); ok {
			n = m.number(val, at, b)
		}
		return n
	}
	var shape LengthShape
	var form []any // of the parts
	kind := ""
	switch {
	case has("peaks"):
		only("peaks")
		kind = "multimodal"
		shape.Parts, form, out.mean = d.peaks(m, least)
	case has("points"):
		only("points")
		kind = "empirical"
		shape.Parts, form, out.mean = d.points(m, least)
	case has("median"):
		only("median", "mean")
		kind = "lognormal"
		out.mean, shape.Median = number("mean", above(0)), number("median", above(0)).v
		if !out.mean.ok && !has("mean") {
			d.fail(v.line, v.col, join(where, "mean"), "Field required: a median stands beside a mean.")
		} else if out.mean.ok && shape.Median > out.mean.v {
			d.fail(v.line, v.col, where, "Log-normal median (%s) must be <= mean (%s).", pyFloat(shape.Median), pyFloat(out.mean.v))
		}
	case has("value"):
		only("value")
		kind = "fixed"
		out.mean, out.fixed = number("value", atLeast(least)), true
	default:
		only("mean", "stddev")
		kind = "normal"
		out.mean, out.stddev = number("mean", atLeast(least)), number("stddev", atLeast(0))
		if !has("mean") {
			d.fail(v.line, v.col, join(where, "mean"), "Field required.")
		}
	}
	if val, at, ok := m.value("type"); ok {
		if text, _ := val.text(); fold(text) != kind {
			d.fail(val.line, val.col, at, "its keys make it %s; found %s.", kind, val.found())
		}
	}
	low, high := number("min", nil), number("max", nil)
	if low.ok && high.ok && low.v > high.v {
		d.fail(v.line, v.col, where, "Distribution bounds invalid: min=%s > max=%s; swap them or remove one.", pyFloat(low.v), pyFloat(high.v))
	}
	for _, b := range []struct {
		of opt[float64]
		to **float64
	}{{low, &shape.Min}, {high, &shape.Max}} {
		if b.of.ok {
			*b.to = &b.of.v
		}
	}
	if shape.Median == 0 && shape.Min == nil && shape.Max == nil && shape.Parts == nil {
		return out
	}
	out.shape, out.form = &shape, put(put(Map{}, "min", low), "max", high)
	switch kind {
	case "multimodal":
		out.form = append(out.form, KeyValue{"peaks", form})
	case "empirical":
		out.form = append(out.form, KeyValue{"points", form})
	case "lognormal":
		out.form = append(put(out.form, "mean", out.mean), KeyValue{"median", shape.Median})
	case "fixed":
		out.form = put(out.form, "value", out.mean)
	default:
		out.form = put(put(out.form, "mean", out.mean), "stddev", out.stddev)
	}
	return out
}

// peaks reads the parts of a mixture of lengths.
func (d *decoder) peaks(m *section, least float64) (parts []LengthPart, form []any, mean opt[float64]) {
	v, where, ok := m.value("peaks")
	if !ok || !d.isListOf(v, where, 2) {
		return nil, nil, mean
	}
	k := lengthKeys()
	k.known = append(k.known, "weight")
	for i, item := range v.list {
		at := fmt.Sprintf("%s[%d]", where, i)
		if item.shape != isMap {
			d.fail(item.line, item.col, at, "Input should be a valid dictionary; found %s.", item.found())
			return nil, nil, mean
		}
		l := d.distribution(item, at, k, least)
		part := LengthPart{d.weight(item, at, atLeast(0)), l.length()}
		inner, _ := l.echo()
		parts, form = append(parts, part), append(form, Map{{"distribution", inner}, {"weight", part.Weight}})
	}
	return parts, form, d.expected(parts, v, where)
}

// points reads weighted values.
func (d *decoder) points(m *section, least float64) (parts []LengthPart, form []any, mean opt[float64]) {
	v, where, ok := m.value("points")
	if !ok || !d.isListOf(v, where, 1) {
		return nil, nil, mean
	}
	k := keys{known: []string{"value", "weight"}}
	for i, item := range v.list {
		at := fmt.Sprintf("%s[%d]", where, i)
		s := d.section(item, at, k)
		if item.shape != isMap {
			return nil, nil, mean
		}
		val, place, ok := s.value("value")
		if !ok {
			d.fail(item.line, item.col, join(at, "value"), "Field required.")
			return nil, nil, mean
		}
		part := LengthPart{d.weight(item, at, above(0)), Length{Mean: s.number(val, place, atLeast(least)).v}}
		point := Map{{"value", part.Mean}}
		if item.get("weight") != nil {
			point = append(point, KeyValue{"weight", part.Weight})
		}
		parts, form = append(parts, part), append(form, point)
	}
	return parts, form, d.expected(parts, v, where)
}

func (d *decoder) isListOf(v *node, where string, least int) bool {
	switch {
	case v.shape != isList:
		d.fail(v.line, v.col, where, "Input should be a valid list; found %s.", v.found())
	case len(v.list) < least:
		d.fail(v.line, v.col, where, "List should have at least %d items after validation, not %d.", least, len(v.list))
	default:
		return true
	}
	return false
}

// weight is a part's, 1 where none is given.
func (d *decoder) weight(item *node, at string, b *Bound) float64 {
	e := item.get("weight")
	if e == nil {
		return 1
	}
	s := &section{decoder: d, n: item, path: at, entries: map[string]*entry{"weight": e}}
	return s.number(e.value, join(at, "weight"), b).or(1)
}

// expected is the mean of a mixture.
func (d *decoder) expected(parts []LengthPart, v *node, where string) opt[float64] {
	sum, weights := 0.0, 0.0
	for _, p := range parts {
		sum, weights = sum+p.Weight*p.Mean, weights+p.Weight
	}
	if weights == 0 {
		d.fail(v.line, v.col, where, "all weights are 0.")
		return opt[float64]{}
	}
	return given(sum/weights, d.place(v.line, v.col, where))
}
