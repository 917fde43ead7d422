package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"prefire/internal/orjson"
	"prefire/loadgen"
)

// template is a body with its fixed bytes written out: only what changes from turn to turn is left to fill in.
type template []piece

type piece struct {
	fixed []byte
	fill  fill // what follows fixed
}

type fill uint8

const (
	nothing fill = iota
	messages
	limit
)

type field struct {
	key   string
	value []byte
	fill  fill // instead of value
}

// compile lays the fields out in the order in which aiperf's dict has them: a replaced field keeps its place. tools and extra are those of
// one turn, which stand above the endpoint's.
func (c *Chat) compile(limited bool, tools []byte, extra []loadgen.Field) template {
	fields := slices.Clone(c.fields)
	if tools != nil {
		fields = append(fields, field{key: "tools", value: tools})
	}
	if limited {
		fields = append(fields, field{key: c.limit, fill: limit})
	}
	for _, p := range c.extra {
		fields = set(fields, p.Key, p.JSON)
	}
	for _, p := range extra {
		fields = set(fields, p.Key, p.JSON)
	}
	for _, f := range fields {
		if f.key == "stream" && truthy(f.value) {
			fields = askForUsage(fields)
			break
		}
	}
	var t template
	text := []byte{'{'}
	for i, f := range fields {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(orjson.AppendString(text, f.key), ':')
		if f.fill == nothing {
			text = append(text, f.value...)
			continue
		}
		t = append(t, piece{text, f.fill})
		text = nil
	}
	return append(t, piece{fixed: append(text, '}')})
}

func set(fields []field, key string, value []byte) []field {
	for i := range fields {
		if fields[i].key == key {
			fields[i] = field{key: key, value: value}
			return fields
		}
	}
	return append(fields, field{key: key, value: value})
}

// askForUsage adds stream_options.include_usage, without which no server sends its token counts in a stream. What the user gave stands:
// an include_usage of any value, and a stream_options that is not an object; null counts as not given.
func askForUsage(fields []field) []field {
	given := []byte("null")
	for _, f := range fields {
		if f.key == "stream_options" {
			given = f.value
		}
	}
	if string(given) == "null" {
		return set(fields, "stream_options", []byte(`{"include_usage":true}`))
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(given, &object) != nil {
		return fields
	}
	if _, ok := object["include_usage"]; ok {
		return fields
	}
	merged := append([]byte(nil), given[:len(given)-1]...)
	if len(object) > 0 {
		merged = append(merged, ',')
	}
	return set(fields, "stream_options", append(merged, `"include_usage":true}`...))
}

var errNoMessages = errors.New("a chat request needs at least one message")

// AppendBody appends the body of one request, byte for byte as aiperf 0.13.0 sends it: compact JSON, text as UTF-8, escapes only where
// JSON asks for them. A message without a role is the user's. A raw body is what it is.
func (c *Chat) AppendBody(dst []byte, t *loadgen.Turn, history []loadgen.Message) ([]byte, error) {
	if t.Raw != nil {
		return append(dst, t.Raw...), nil
	}
	if len(history)+len(t.Messages) == 0 {
		return dst, errNoMessages
	}
	body := c.open
	switch {
	case len(t.Extra) > 0 || t.Tools != nil:
		body = c.compile(t.MaxTokens > 0, t.Tools, t.Extra)
	case t.MaxTokens > 0:
		body = c.limited
	}
	dst = slices.Grow(dst, body.size()+textSize(history)+textSize(t.Messages))
	for _, p := range body {
		dst = append(dst, p.fixed...)
		switch p.fill {
		case messages:
			dst = appendMessages(dst, history, t.Messages)
		case limit:
			dst = strconv.AppendInt(dst, int64(t.MaxTokens), 10)
		}
	}
	return dst, nil
}

// size and textSize are how long a body is, but for escapes: thousands of bodies at once would else be as much again in what they grew by.
func (t template) size() int {
	n := 0
	for _, p := range t {
		n += len(p.fixed) + len("1000000")
	}
	return n
}

func textSize(list []loadgen.Message) int {
	n := 0
	for i := range list {
		n += len(`{"role":"","content":""},`) + len("user") + len(list[i].Role) + len(list[i].Content) + len(list[i].JSON)
	}
	return n
}

func appendMessages(dst []byte, lists ...[]loadgen.Message) []byte {
	dst = append(dst, '[')
	first := true
	for _, list := range lists {
		for i := range list {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			if list[i].JSON != nil {
				dst = append(dst, list[i].JSON...)
				continue
			}
			dst = append(dst, `{"role":`...)
			if list[i].Role == "" {
				dst = append(dst, `"user"`...)
			} else {
				dst = orjson.AppendString(dst, list[i].Role)
			}
			dst = append(dst, `,"content":`...)
			dst = append(orjson.AppendString(dst, list[i].Content), '}')
		}
	}
	return append(dst, ']')
}

// truthy is Python's truth of a canonical JSON value.
func truthy(v []byte) bool {
	switch string(v) {
	case "", "null", "false", `""`, "[]", "{}":
		return false
	}
	if v[0] == '-' || v[0] >= '0' && v[0] <= '9' {
		return bytes.ContainsAny(significand(v), "123456789")
	}
	return true
}

// significand is a JSON number without its exponent.
func significand(number []byte) []byte {
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		return number[:i]
	}
	return number
}
