package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// check reports what is wrong with a value of f; given is the name to say it under.
func (f *Flag) check(given, value string) error {
	bad := func(what string) error { return complain("%s: %s, got '%s'.", given, what, value) }
	if f.Sweep {
		items := listItems(value)
		for _, item := range items[:max(0, len(items)-1)] { // a list is a sweep
			if err := f.check(given, item); err != nil {
				return err
			}
		}
		if len(items) > 0 {
			value = items[len(items)-1]
		}
	}
	switch f.Kind {
	case Bool:
		if _, ok := boolean(value); !ok {
			return bad("Input should be a valid boolean")
		}
	case Int:
		v, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return bad("Input should be a valid integer")
		}
		if what := f.Bound.check(float64(v)); what != "" {
			return bad(what)
		}
	case Number:
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return bad("Input should be a valid number")
		}
		if what := f.Bound.check(v); what != "" {
			return bad(what)
		}
	case Duration:
		v, err := seconds(value)
		if err != nil {
			return complain("%s: %v", given, err)
		}
		if what := checkSeconds(v, f.Bound, f.Inf); what != "" {
			return bad(what)
		}
	case Enum:
		v, ok := choose(value, f.Choices)
		if !ok {
			return bad("Input should be " + oneOf(f.Choices))
		}
		if _, ok := choose(v, f.Usable); f.Usable != nil && !ok {
			return complain("%s %s: not supported yet by this version of prefire, which has %s.", given, value, oneOf(f.Usable))
		}
	case Pairs:
		if _, err := pairs(value); err != nil {
			return complain("%s: %v", given, err)
		}
	case Headers:
		if _, err := headers(value); err != nil {
			return complain("%s: %v", given, err)
		}
	}
	return nil
}

// listItems splits a comma list; empty items are dropped.
func listItems(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// boolean reads what aiperf takes for a truth value.
func boolean(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "true", "t", "yes", "y", "on", "1":
		return true, true
	case "false", "f", "no", "n", "off", "0":
		return false, true
	}
	return false, false
}

const durationForms = "Use number, '30s', '5m', '2h', or 'inf'."

// seconds reads a duration: a number of seconds, or one with a unit, or inf.
func seconds(s string) (float64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	if t == "inf" || t == "infinity" {
		return math.Inf(1), nil
	}
	digits := len(t) - len(strings.TrimLeft(t, "0123456789.-+"))
	v, err := strconv.ParseFloat(t[:digits], 64)
	if err != nil {
		// A number with an exponent has no unit.
		if v, err = strconv.ParseFloat(t, 64); err == nil && !math.IsNaN(v) {
			return v, nil
		}
		return 0, complain("Invalid duration format: '%s'. %s", s, durationForms)
	}
	switch strings.TrimSpace(t[digits:]) {
	case "", "s", "sec":
		return v, nil
	case "m", "min":
		return v * 60, nil
	case "h", "hr", "hour":
		return v * 3600, nil
	}
	if v, err := strconv.ParseFloat(t, 64); err == nil && !math.IsNaN(v) {
		return v, nil
	}
	return 0, complain("Invalid duration format: '%s'. %s", s, durationForms)
}

func checkSeconds(v float64, b *Bound, inf bool) string {
	if math.IsInf(v, 1) {
		if inf {
			return ""
		}
		return "Input should be a finite number"
	}
	if what := b.check(v); what != "" {
		return what
	}
	if v > maxSeconds {
		return fmt.Sprintf("Input should be less than or equal to %s seconds", plain(maxSeconds))
	}
	return ""
}

// duration converts checked seconds.
func duration(sec float64) time.Duration {
	if math.IsInf(sec, 1) {
		return Infinite
	}
	return time.Duration(math.Round(sec * float64(time.Second)))
}

// pairs reads key:value, key:value lists and JSON objects. A comma belongs to the value where no key follows it, or inside brackets and
// quotes, so that lists and sentences need no JSON around them.
func pairs(s string) ([]KeyValue, error) {
	if strings.HasPrefix(strings.TrimSpace(s), "{") {
		return jsonPairs(s)
	}
	var out []KeyValue
	for _, item := range splitPairs(s) {
		key, value, ok := strings.Cut(item, ":")
		if !ok || strings.TrimSpace(key) == "" {
			return nil, complain("'%s': each item must be in 'key:value' format.", s)
		}
		v, err := coerce(strings.TrimSpace(value))
		if err != nil {
			return nil, complain("'%s': %v", s, err)
		}
		out = append(out, KeyValue{strings.TrimSpace(key), v})
	}
	return out, nil
}

// headers reads Name:value in the same forms; values stay text.
func headers(s string) ([]KeyValue, error) {
	var out []KeyValue
	if strings.HasPrefix(strings.TrimSpace(s), "{") {
		list, err := jsonPairs(s)
		if err != nil {
			return nil, err
		}
		for _, kv := range list {
			text, ok := kv.Value.(string)
			if !ok {
				b, _ := json.Marshal(kv.Value) //nolint:errcheck // the value came out of JSON
				text = string(b)
			}
			out = append(out, KeyValue{kv.Key, text})
		}
	} else {
		for _, item := range splitPairs(s) {
			key, value, ok := strings.Cut(item, ":")
			if !ok {
				return nil, complain("each item must be in 'key:value' format: write Name:value.")
			}
			out = append(out, KeyValue{strings.TrimSpace(key), strings.TrimSpace(value)})
		}
	}
	for _, kv := range out {
		if what := headerFault(kv.Key, kv.Value.(string)); what != "" {
			return nil, complain("%s", what)
		}
	}
	return out, nil
}

// headerFault says why a header cannot be sent. It never shows the value: it may be a key.
func headerFault(key, value string) string {
	if !isToken(key) {
		return fmt.Sprintf("'%s' is not a header name: letters, digits and - are allowed.", key)
	}
	if strings.ContainsAny(value, "\r\n\x00") {
		return fmt.Sprintf("the value of header %s has a line end or a null byte in it.", key)
	}
	return ""
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// splitPairs cuts s at the commas that a key follows.
func splitPairs(s string) []string {
	var out []string
	depth, quoted, start := 0, false, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth <= 0:
			key, rest, ok := strings.Cut(s[i+1:], ":")
			if ok && isToken(strings.TrimSpace(key)) && !strings.HasPrefix(rest, "//") {
				out = append(out, s[start:i])
				start = i + 1
			}
		}
	}
	return append(out, s[start:])
}

// coerce gives a value of --extra-inputs its type, as aiperf does; a JSON list, object or string is read as JSON.
func coerce(s string) (any, error) {
	switch strings.ToLower(s) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "none", "null":
		return nil, nil
	}
	digits := strings.TrimPrefix(s, "-")
	whole, frac, point := strings.Cut(digits, ".")
	switch {
	case !point && isDigits(whole) && (whole == "0" || whole[0] != '0'):
		if v, err := strconv.ParseInt(s, 10, 64); err == nil {
			return v, nil
		}
		v, err := strconv.ParseFloat(s, 64)
		return v, err
	case point && isDigits(whole+frac):
		v, err := strconv.ParseFloat(s, 64)
		return v, err
	case s != "" && strings.IndexByte(`[{"`, s[0]) >= 0:
		return fromJSON(s)
	}
	return s, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func jsonPairs(s string) ([]KeyValue, error) {
	v, err := fromJSON(s)
	if err != nil {
		return nil, err
	}
	m, ok := v.(Map)
	if !ok {
		return nil, complain("must be a valid JSON string: an object {\"key\": value}.")
	}
	return m, nil
}

// fromJSON reads one JSON value and keeps the order of objects.
func fromJSON(s string) (any, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	v, err := jsonValue(d)
	if err == nil {
		_, err = d.Token()
		if err == io.EOF {
			return v, nil
		}
		err = complain("text after the value")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = complain("it ends too early")
	}
	return nil, complain("must be a valid JSON string: %v.", err)
}

func jsonValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		if v, err := t.Int64(); err == nil {
			return v, nil
		}
		return t.Float64()
	case json.Delim:
		if t == '[' {
			list := []any{}
			for d.More() {
				v, err := jsonValue(d)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, err
		}
		m := Map{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := jsonValue(d)
			if err != nil {
				return nil, err
			}
			m = m.set(key.(string), v)
		}
		_, err := d.Token()
		return m, err
	}
	return t, nil
}

// set replaces the value of key, or appends it.
func (m Map) set(key string, value any) Map {
	for i := range m {
		if m[i].Key == key {
			m[i].Value = value
			return m
		}
	}
	return append(m, KeyValue{key, value})
}

// MarshalJSON writes m as an object in its order. Floats are written as Python writes them, a whole one with its .0, so that a reader tells
// them from integers.
func (m Map) MarshalJSON() ([]byte, error) { return appendJSON(nil, m) }

func appendJSON(b []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case Map:
		b = append(b, '{')
		for i, kv := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, kv.Key); err != nil {
				return nil, err
			}
			if b, err = appendJSON(append(b, ':'), kv.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", kv.Key, err)
			}
		}
		return append(b, '}'), nil
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return append(b, "null"...), nil
		}
		text, err := json.Marshal(v)
		b = append(b, text...)
		if !bytes.ContainsAny(text, ".e") {
			b = append(b, ".0"...)
		}
		return b, err
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false) // <redacted> stays readable
	err = e.Encode(v)
	return append(b, bytes.TrimRight(buf.Bytes(), "\n")...), err
}

// pyString writes s as Python's repr does, for messages that scripts know from aiperf.
func pyString(s string) string {
	q := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = `"`
	}
	return q + strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + q
}
