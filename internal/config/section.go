package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxProblems bounds how many faults of one file are listed.
const maxProblems = 50

// decoder collects what is wrong with a file, so that all of it is said at once.
type decoder struct {
	file     string
	dialect  Dialect
	why      string // how the dialect was recognised
	problems []string
	notices  []string
}

func (d *decoder) place(line, col int, path string) string {
	return fmt.Sprintf("%s:%d:%d: %s", d.file, line, col, path)
}

func (d *decoder) fail(line, col int, path, format string, args ...any) {
	d.problem(d.place(line, col, path), format, args...)
}

func (d *decoder) problem(place, format string, args ...any) {
	d.problems = append(d.problems, place+": "+fmt.Sprintf(format, args...))
}

// err is all problems as one message; nil where there are none.
func (d *decoder) err() error {
	switch n := len(d.problems); {
	case n == 0:
		return nil
	case n == 1:
		return &Error{Title: titleConfig, Msg: d.problems[0], Invalid: true}
	default:
		shown := d.problems[:min(n, maxProblems)]
		msg := fmt.Sprintf("%d validation errors in the configuration:\n%s", n, strings.Join(shown, "\n"))
		if len(shown) < n {
			msg += fmt.Sprintf("\n... and %d more", n-len(shown))
		}
		return &Error{Title: titleConfig, Msg: msg, Invalid: true}
	}
}

// keys says what a mapping may hold. All names are in snake case; camel case is read as well.
type keys struct {
	known []string
	idle  map[string]string   // keys of aiperf without a meaning here, and why
	later map[string][]string // keys of aiperf that are not supported, with the values that ask for what prefire does anyway
	other func(key string) string
}

// section is a mapping whose keys have been checked.
type section struct {
	*decoder
	path    string
	n       *node
	entries map[string]*entry
}

// section checks the keys of n. What is not a mapping gives an empty section and a problem.
func (d *decoder) section(n *node, path string, k keys) *section {
	s := &section{decoder: d, path: path, n: n, entries: map[string]*entry{}}
	if n.shape != isMap {
		d.fail(n.line, n.col, path, "Input should be a valid dictionary: a mapping with the keys %s; found %s.", strings.Join(k.known,
			", "), n.found())
		return s
	}
	for _, e := range n.entries {
		key, where := snake(e.key), join(path, e.key)
		if first := s.entries[key]; first != nil {
			d.fail(e.line, e.col, where, "Extra inputs are not permitted: the key is given twice, as %s in line %d.", first.key, first.line)
			continue
		}
		if e.value.shape == isNull && d.dialect == Schema20 && k.solid(path, key) {
			d.fail(e.line, e.col, where, "Input should be a valid value; found nothing (null). Give it one, or leave the key out.")
			continue
		}
		if slices.Contains(k.known, key) {
			s.entries[key] = e
			continue
		}
		if reason, ok := k.idle[key]; ok {
			d.notices = append(d.notices, fmt.Sprintf("%s has no effect: %s.", d.place(e.line, e.col, where), reason))
			continue
		}
		if same, ok := k.later[key]; ok {
			if !sameValue(e.value, same) {
				d.fail(e.line, e.col, where, "known to aiperf, not supported by this version of prefire; found %s.", e.value.found())
			}
			continue
		}
		d.unknown(e, where, k)
	}
	return s
}

func (d *decoder) unknown(e *entry, where string, k keys) {
	msg := fmt.Sprintf("Extra inputs are not permitted: unknown key '%s'", e.key)
	if k.other != nil {
		if hint := k.other(snake(e.key)); hint != "" {
			d.fail(e.line, e.col, where, "%s. %s", msg, hint)
			return
		}
	}
	candidates := slices.Clone(k.known)
	for key := range k.later {
		candidates = append(candidates, key)
	}
	slices.Sort(candidates)
	if near := nearest(snake(e.key), candidates); near != "" {
		msg += fmt.Sprintf(" (did you mean '%s'?)", near)
	}
	d.fail(e.line, e.col, where, "%s. Allowed here: %s.", msg, strings.Join(k.known, ", "))
}

// sameValue reports whether v is nothing, or one of the values that change nothing.
func sameValue(v *node, same []string) bool {
	var text string
	switch v.shape {
	case isNull:
		return true
	case isBool:
		text = strconv.FormatBool(v.b)
	case isInt:
		text = strconv.FormatInt(v.i, 10)
	case isFloat:
		text = plain(v.f)
	case isString:
		text = v.s
	case isList:
		if len(v.list) == 1 && v.list[0].shape == isString {
			text = v.list[0].s
		}
	case isMap:
		if e := v.get("enabled"); len(v.entries) == 1 && e != nil && e.value.shape == isBool {
			text = map[bool]string{true: "enabled", false: "disabled"}[e.value.b]
		}
	}
	_, ok := choose(text, same)
	return ok
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// snake turns camel case into snake case: apiKey is api_key.
func snake(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c |= 0x20
		}
		b.WriteByte(c)
	}
	return b.String()
}

// value is the entry under key where it is there and not null.
func (s *section) value(key string) (v *node, where string, ok bool) {
	e := s.entries[key]
	if e == nil || e.value.shape == isNull {
		return nil, "", false
	}
	return e.value, join(s.path, e.key), true
}

func (s *section) bad(v *node, where, what string) {
	s.fail(v.line, v.col, where, "%s; found %s.", what, v.found())
}

func (s *section) text(key string) opt[string] {
	v, where, ok := s.value(key)
	if !ok {
		return opt[string]{}
	}
	text, isText := v.text()
	switch {
	case isText:
		return given(text, s.place(v.line, v.col, where))
	case key == "api_key": // what was found is most likely the key
		s.fail(v.line, v.col, where, "Input should be a valid string: put the key in quotes.")
	default:
		s.bad(v, where, "Input should be a valid string")
	}
	return opt[string]{}
}

func (s *section) truth(key string) opt[bool] {
	v, where, ok := s.value(key)
	if !ok {
		return opt[bool]{}
	}
	b, valid := v.b, v.shape == isBool
	switch v.shape {
	case isString:
		b, valid = boolean(v.s)
	case isInt:
		b, valid = v.i == 1, v.i == 0 || v.i == 1
	}
	if !valid {
		s.bad(v, where, "Input should be a valid boolean")
		return opt[bool]{}
	}
	return given(b, s.place(v.line, v.col, where))
}

func (s *section) whole(key string, bound *Bound) opt[int64] {
	v, where, ok := s.value(key)
	if !ok {
		return opt[int64]{}
	}
	n, valid := v.i, v.shape == isInt
	switch v.shape {
	case isFloat:
		n, valid = int64(v.f), v.f == math.Trunc(v.f) && math.Abs(v.f) < 1<<53
	case isString:
		parsed, err := strconv.ParseInt(strings.TrimSpace(v.s), 10, 64)
		n, valid = parsed, err == nil
	}
	if !valid {
		s.bad(v, where, "Input should be a valid integer")
		return opt[int64]{}
	}
	if what := bound.check(float64(n)); what != "" {
		s.bad(v, where, what)
		return opt[int64]{}
	}
	return given(n, s.place(v.line, v.col, where))
}

// number reads a scalar as a number.
func (s *section) number(v *node, where string, bound *Bound) opt[float64] {
	f, valid := v.f, v.shape == isFloat
	switch v.shape {
	case isInt:
		f, valid = float64(v.i), true
	case isString:
		parsed, err := strconv.ParseFloat(strings.TrimSpace(v.s), 64)
		f, valid = parsed, err == nil
	}
	if !valid || math.IsInf(f, 0) || math.IsNaN(f) {
		s.bad(v, where, "Input should be a valid number")
		return opt[float64]{}
	}
	if what := bound.check(f); what != "" {
		s.bad(v, where, what)
		return opt[float64]{}
	}
	return given(f, s.place(v.line, v.col, where))
}

func (s *section) seconds(key string, bound *Bound, inf bool) opt[float64] {
	v, where, ok := s.value(key)
	if !ok {
		return opt[float64]{}
	}
	var sec float64
	switch v.shape {
	case isInt:
		sec = float64(v.i)
	case isFloat:
		sec = v.f
	case isString:
		parsed, err := seconds(v.s)
		if err != nil {
			s.fail(v.line, v.col, where, "%v", err)
			return opt[float64]{}
		}
		sec = parsed
	default:
		s.bad(v, where, "Input should be a duration: "+durationForms)
		return opt[float64]{}
	}
	if what := checkSeconds(sec, bound, inf); what != "" {
		s.bad(v, where, what)
		return opt[float64]{}
	}
	return given(sec, s.place(v.line, v.col, where))
}

func (s *section) choice(key string, choices, usable []string) opt[string] {
	v, where, ok := s.value(key)
	if !ok {
		return opt[string]{}
	}
	picked, valid := "", false
	if v.shape == isString {
		picked, valid = choose(v.s, choices)
	}
	if !valid {
		s.bad(v, where, "Input should be "+oneOf(choices))
		return opt[string]{}
	}
	if _, ok := choose(picked, usable); usable != nil && !ok {
		s.fail(v.line, v.col, where, "'%s' is known to aiperf, not supported by this version of prefire, which has %s.", picked,
			oneOf(usable))
		return opt[string]{}
	}
	return given(picked, s.place(v.line, v.col, where))
}

// texts reads a list of strings, or one string.
func (s *section) texts(key string) opt[[]string] {
	v, where, ok := s.value(key)
	if !ok {
		return opt[[]string]{}
	}
	list := []*node{v}
	if v.shape == isList {
		list = v.list
		if len(list) == 0 {
			s.fail(v.line, v.col, where, "List should have at least 1 item after validation, not 0.")
			return opt[[]string]{}
		}
	}
	var out []string
	for i, item := range list {
		text, isText := item.text()
		if !isText {
			s.bad(item, fmt.Sprintf("%s.%d", where, i), "Input should be a valid string")
			return opt[[]string]{}
		}
		out = append(out, text)
	}
	return given(out, s.place(v.line, v.col, where))
}
