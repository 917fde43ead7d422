package endpoint

import (
	"bytes"
	"cmp"
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
	prompt // the text, or the list of several
	inputs // the list of texts
	model
	limit
)

type field struct {
	key   string
	value []byte
	fill  fill // instead of value
}

// compile lays the fields out in the order in which aiperf's dict has them: a replaced field keeps its place. tools and extra are those of
// one turn, which stand above the endpoint's; ask says that a stream's usage is asked for.
func (e *Endpoint) compile(limited bool, tools []byte, extra []loadgen.Field, ask bool) template {
	fields := slices.Clone(e.fields)
	if tools != nil {
		fields = append(fields, field{key: "tools", value: tools})
	}
	if limited && e.limit != "" {
		fields = append(fields, field{key: e.limit, fill: limit})
	}
	for _, p := range e.extra {
		fields = set(fields, p.Key, p.JSON)
	}
	for _, p := range extra {
		fields = set(fields, p.Key, p.JSON)
	}
	if ask && e.kind.HasTokens() && slices.ContainsFunc(fields, func(f field) bool { return f.key == "stream" && truthy(f.value) }) {
		fields = askForUsage(fields, e.perChunk)
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

// askForUsage adds stream_options.include_usage, without which no server sends its token counts in a stream, and continuous_usage_stats where
// every chunk is to have them. What the user gave stands: a field of any value, and a stream_options that is not an object; null counts as
// not given.
func askForUsage(fields []field, perChunk bool) []field {
	given := []byte("null")
	for _, f := range fields {
		if f.key == "stream_options" {
			given = f.value
		}
	}
	if string(given) == "null" {
		given = []byte("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(given, &object) != nil {
		return fields
	}
	asked := []string{"include_usage"}
	if perChunk {
		asked = append(asked, "continuous_usage_stats")
	}
	merged := append([]byte(nil), given[:len(given)-1]...)
	for _, key := range asked {
		if _, ok := object[key]; ok {
			continue
		}
		if len(merged) > 1 {
			merged = append(merged, ',')
		}
		merged = append(orjson.AppendString(merged, key), ":true"...)
	}
	return set(fields, "stream_options", append(merged, '}'))
}

var (
	errNoMessages = errors.New("a chat request needs at least one message")
	errNoText     = errors.New("the request has no text")
)

// AppendBody appends the body of one request, byte for byte as aiperf 0.13.0 sends it: compact JSON, text as UTF-8, escapes only where
// JSON asks for them. A message without a role is the user's. Endpoints that take texts get those of the turn's own messages that are not
// empty; roles and history are nothing to them. A raw body is what it is.
func (e *Endpoint) AppendBody(dst []byte, t *loadgen.Turn, history []loadgen.Message) ([]byte, error) {
	if t.Raw != nil {
		return append(dst, t.Raw...), nil
	}
	if e.kind.Converses() {
		if len(history)+len(t.Messages) == 0 {
			return dst, errNoMessages
		}
	} else if countTexts(t.Messages) == 0 {
		return dst, errNoText
	}
	amended := e.amended.Load()
	body, limited := e.open, e.limited
	if amended {
		body, limited = e.plain.open, e.plain.limited
	}
	switch {
	case len(t.Extra) > 0 || t.Tools != nil:
		body = e.compile(t.MaxTokens > 0, t.Tools, t.Extra, !amended)
	case t.MaxTokens > 0:
		body = limited
	}
	dst = slices.Grow(dst, body.size()+len(e.model)+textSize(history)+textSize(t.Messages))
	for _, p := range body {
		dst = append(dst, p.fixed...)
		switch p.fill {
		case messages:
			dst = appendMessages(dst, history, t.Messages)
		case prompt:
			dst = appendTexts(dst, t.Messages, countTexts(t.Messages) != 1)
		case inputs:
			dst = appendTexts(dst, t.Messages, true)
		case model:
			dst = orjson.AppendString(dst, cmp.Or(t.Model, e.model))
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
		n += len(`{"role":"","content":""},`) + len("user") + len(list[i].Role) + len(list[i].Content) + len(list[i].JSON) +
			len(list[i].Texts)*len(`{"type":"text","text":""},`)
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
			dst = append(appendContent(dst, &list[i]), '}')
		}
	}
	return append(dst, ']')
}

// appendContent appends a message's content: a string, or the list of its parts.
func appendContent(dst []byte, m *loadgen.Message) []byte {
	if m.Texts == nil {
		return orjson.AppendString(dst, m.Content)
	}
	dst = append(dst, '[')
	for i, text := range m.Texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(orjson.AppendString(append(dst, `{"type":"text","text":`...), text), '}')
	}
	return append(dst, ']')
}

// eachText calls f with the texts of messages that are not empty.
func eachText(list []loadgen.Message, f func(string)) {
	for i := range list {
		if list[i].Texts == nil && list[i].Content != "" {
			f(list[i].Content)
		}
		for _, text := range list[i].Texts {
			if text != "" {
				f(text)
			}
		}
	}
}

func countTexts(list []loadgen.Message) (n int) {
	eachText(list, func(string) { n++ })
	return n
}

// appendTexts appends the texts of messages as a list, or the one text there is as a string.
func appendTexts(dst []byte, from []loadgen.Message, list bool) []byte {
	if list {
		dst = append(dst, '[')
	}
	first := true
	eachText(from, func(text string) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = orjson.AppendString(dst, text)
	})
	if list {
		dst = append(dst, ']')
	}
	return dst
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
