package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
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

// compile lays the fields out in the order in which aiperf's dict has them: a replaced field keeps its place. limitKey is the name of the
// output limit; "" = none.
func compile(o Options, limitKey string, extra []Pair, streaming bool) template {
	fields := []field{
		{key: "messages", fill: messages},
		{key: "model", value: orjson.AppendString(nil, o.Model)},
		{key: "stream", value: strconv.AppendBool(nil, o.Streaming)},
	}
	if limitKey != "" {
		fields = append(fields, field{key: limitKey, fill: limit})
	}
	for _, p := range extra {
		fields = set(fields, p.Key, p.JSON)
	}
	if streaming {
		fields = askForUsage(fields)
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
// JSON asks for them. A message without a role is the user's.
func (c *Chat) AppendBody(dst []byte, t *loadgen.Turn, history []loadgen.Message) ([]byte, error) {
	if len(history)+len(t.Messages) == 0 {
		return dst, errNoMessages
	}
	body := c.open
	if t.MaxTokens > 0 {
		body = c.limited
	}
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

func appendMessages(dst []byte, lists ...[]loadgen.Message) []byte {
	dst = append(dst, '[')
	first := true
	for _, list := range lists {
		for i := range list {
			if !first {
				dst = append(dst, ',')
			}
			first = false
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

// canonical rewrites one JSON value as the bodies have it: no white space, strings as orjson.AppendString writes them, numbers as given.
func canonical(raw []byte) ([]byte, error) {
	var v json.RawMessage
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	var out []byte
	for i := 0; i < len(v); {
		switch c := v[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
		case '"':
			end := skipString(v, i)
			out = orjson.AppendString(out, string(appendUnescaped(nil, v[i+1:end-1])))
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out, nil
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
