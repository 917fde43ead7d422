package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"prefire/internal/orjson"
	"prefire/loadgen"
)

// object reads the fields of one JSON object. The first fault is kept in err, and what is read after it does not count. A field that is null
// is absent, as in aiperf.
type object struct {
	path   string // of the object within its row, with a full stop at its end; "" = the row itself
	fields map[string]json.RawMessage
	known  []string // fields that were asked for
	err    *RowError
}

// parseObject reads a row, or an object in it.
func parseObject(raw []byte, path string) *object {
	o := &object{path: path}
	where := strings.TrimSuffix(path, ".")
	if !utf8.Valid(raw) {
		at := 0
		for rest := raw; ; {
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n <= 1 {
				break
			}
			at, rest = at+n, rest[n:]
		}
		o.err = &RowError{Field: where, Found: fmt.Sprintf("a byte that is not UTF-8 (0x%02x at byte %d)", raw[at], at+1), Want: "UTF-8 text"}
		return o
	}
	if err := json.Unmarshal(raw, &o.fields); err != nil || o.fields == nil {
		o.err = &RowError{Field: where, Found: short(string(bytes.TrimSpace(raw))), Want: "a JSON object"}
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			o.err.Found = fmt.Sprintf("no valid JSON (%v at byte %d): %s", syntax, syntax.Offset, o.err.Found)
		}
	}
	return o
}

func (o *object) fail(field, found, want string) {
	if o.err == nil {
		o.err = &RowError{Field: o.path + field, Found: found, Want: want}
	}
}

// bad refuses a field's value.
func (o *object) bad(field, want string) { o.fail(field, short(string(o.fields[field])), want) }

// get is the value of a field; nil where it is absent.
func (o *object) get(field string) json.RawMessage {
	if !slices.Contains(o.known, field) {
		o.known = append(o.known, field)
	}
	if o.err != nil {
		return nil
	}
	if raw := o.fields[field]; string(raw) != "null" {
		return raw
	}
	return nil
}

func (o *object) has(field string) bool { return o.get(field) != nil }

// unknown lists the fields that nobody asked for.
func (o *object) unknown() []string {
	var out []string
	for key := range o.fields {
		if !slices.Contains(o.known, key) {
			out = append(out, o.path+key)
		}
	}
	slices.Sort(out)
	return out
}

func (o *object) require(field, want string) bool {
	if o.has(field) {
		return true
	}
	o.fail(field, "nothing", want+" (the field is required)")
	return false
}

func (o *object) text(field string) (s string, ok bool) {
	raw := o.get(field)
	if raw == nil {
		return "", false
	}
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		o.bad(field, "a string")
		return "", false
	}
	return s, true
}

// number reads a number, or a string that holds one, as aiperf does.
func (o *object) number(field string, low float64, want string) (v float64, ok bool) {
	raw := o.get(field)
	if raw == nil {
		return 0, false
	}
	v, ok = float(raw)
	if !ok || v < low || math.Abs(v) > 1<<53 {
		o.bad(field, want)
		return 0, false
	}
	return v, true
}

func float(raw json.RawMessage) (v float64, ok bool) {
	text := string(raw)
	if raw[0] == '"' {
		if json.Unmarshal(raw, &text) != nil {
			return 0, false
		}
		text = strings.TrimSpace(text)
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

// whole reads a whole number; 16.0 is one.
func (o *object) whole(field string, low int64, want string) (n int64, ok bool) {
	v, ok := o.number(field, float64(low), want)
	if !ok {
		return 0, false
	}
	if v != math.Trunc(v) {
		o.bad(field, want)
		return 0, false
	}
	return int64(v), true
}

// length reads a number of tokens.
func (o *object) length(field string, low int64) (n int, ok bool) {
	want := fmt.Sprintf("a whole number from %d to %d", low, math.MaxInt32)
	v, ok := o.whole(field, low, want)
	if ok && v > math.MaxInt32 {
		o.bad(field, want)
		return 0, false
	}
	return int(v), ok
}

// milliseconds reads a time of the file.
func (o *object) milliseconds(field string) (ms float64, ok bool) {
	return o.number(field, 0, "a number of milliseconds, 0 or more")
}

// list reads a list without its elements.
func (o *object) list(field, want string) (out []json.RawMessage, ok bool) {
	raw := o.get(field)
	if raw == nil {
		return nil, false
	}
	if raw[0] != '[' || json.Unmarshal(raw, &out) != nil {
		o.bad(field, want)
		return nil, false
	}
	return out, true
}

// extra reads an object of fields for the request's body, in the order of the file.
func (o *object) extra(field string) []loadgen.Field {
	raw := o.get(field)
	if raw == nil {
		return nil
	}
	fields, err := pairs(raw)
	if err != nil {
		o.bad(field, "an object of request fields")
		return nil
	}
	return fields
}

// pairs reads an object in its order; of two fields of the same name the later value stands in the earlier one's place, as in Python.
func pairs(raw []byte) ([]loadgen.Field, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("no object")
	}
	var out []loadgen.Field
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		compact, err := orjson.Compact(value)
		if err != nil {
			return nil, err
		}
		name := key.(string)
		if at := slices.IndexFunc(out, func(f loadgen.Field) bool { return f.Key == name }); at >= 0 {
			out[at].JSON = compact
			continue
		}
		out = append(out, loadgen.Field{Key: name, JSON: compact})
	}
	return out, nil
}

// kind checks the field type, which names the format of a row where it is there.
func (o *object) kind(f Format) {
	if _, there := o.fields["type"]; !there {
		return
	}
	raw := o.get("type")
	var s string
	if raw == nil || json.Unmarshal(raw, &s) != nil || s != string(f) {
		o.bad("type", fmt.Sprintf("%q, the file's own type, or no such field", f))
	}
}
