package files

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"prefire/internal/dataset"
	"prefire/internal/orjson"
	"prefire/loadgen"
	"prefire/metrics"
)

// systemJoin stands between the run's system prompt and a file's own, as in aiperf.
const systemJoin = "\n\n"

// withSystem puts the run's system prompt before a conversation: into its system message, where it begins with one.
func withSystem(messages []loadgen.Message, system string) ([]loadgen.Message, error) {
	if len(messages) == 0 || messages[0].Role != "system" {
		return append([]loadgen.Message{{Role: "system", Content: system}}, messages...), nil
	}
	joined, err := edit(messages[0], dataset.Marker{Before: system + systemJoin})
	return append([]loadgen.Message{joined}, messages[1:]...), err
}

// edit puts a marker around a message's text: of several texts before the first or behind the last. Where the content is JSON in parts, it
// becomes a part of its own, without the blanks at its ends.
func edit(m loadgen.Message, mark dataset.Marker) (loadgen.Message, error) {
	if m.JSON == nil {
		m.Content = mark.Around(m.Content)
		if n := len(m.Texts); n > 0 {
			m.Texts = slices.Clone(m.Texts)
			m.Texts[0] = mark.Before + m.Texts[0]
			m.Texts[n-1] += mark.After
		}
		return m, nil
	}
	at, value, err := content(m.JSON)
	if err != nil {
		return m, err
	}
	var edited []byte
	switch value[0] {
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return m, err
		}
		edited = orjson.AppendString(nil, mark.Around(text))
		m.Content = mark.Around(m.Content)
	case '[':
		part := append(orjson.AppendString([]byte(`{"type":"text","text":`), strings.TrimSpace(mark.Around(""))), '}')
		inner := bytes.TrimSpace(value[1 : len(value)-1])
		before, after := part, inner
		m.Content = joinTexts(strings.TrimSpace(mark.Before), m.Content, strings.TrimSpace(mark.After))
		if mark.After != "" {
			before, after = inner, part
		}
		if len(inner) == 0 {
			before, after = part, nil
		}
		edited = append(append([]byte{'['}, before...), bytes.Repeat([]byte{','}, min(1, len(after)))...)
		edited = append(append(edited, after...), ']')
	default:
		return m, fmt.Errorf("a message whose content is %s has no text for a marker or a system prompt", short(string(value)))
	}
	m.JSON = slices.Concat(m.JSON[:at], edited, m.JSON[at+len(value):])
	return m, nil
}

func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), " ")
}

// content is the value of a message's content and where it begins.
func content(message []byte) (at int, value []byte, err error) {
	d := json.NewDecoder(bytes.NewReader(message))
	if _, err := d.Token(); err != nil {
		return 0, nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return 0, nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return 0, nil, err
		}
		if key == "content" {
			return int(d.InputOffset()) - len(raw), raw, nil
		}
	}
	return 0, nil, fmt.Errorf("a message without content has no text for a marker or a system prompt: %s", short(string(message)))
}

// mark puts the markers of the n-th session that its queue hands out into it. Where turns are whole conversations each of them has them.
func (s *Source) mark(b *built, warms bool, n int64) error {
	id := func() uint64 {
		var key [32]byte
		binary.LittleEndian.PutUint64(key[:], s.prompts.key)
		binary.LittleEndian.PutUint64(key[8:], uint64(n))
		return rand.NewChaCha8(key).Uint64() >> 16
	}
	turns := b.session.Turns
	hasSystem := len(turns[0].Messages) > 0 && turns[0].Messages[0].Role == "system"
	system, first := s.o.CacheBust.Markers(id, warms, hasSystem)
	if !b.session.Complete {
		turns = turns[:1]
	}
	for i := range turns {
		messages := turns[i].Messages
		for k := range messages {
			var err error
			switch {
			case k == 0 && messages[k].Role == "system":
				if system == (dataset.Marker{}) {
					continue
				}
				messages[k], err = edit(messages[k], system)
			case messages[k].Role == "user" && first != (dataset.Marker{}):
				messages[k], err = edit(messages[k], first)
				first = dataset.Marker{}
			default:
				continue
			}
			if err != nil {
				return err
			}
		}
		_, first = s.o.CacheBust.Markers(id, warms, hasSystem)
		turns[i].Input = s.count(messages, b.counting[i])
	}
	return nil
}

// count is the number of tokens of a turn's own messages and of what is counted beside them, as tools.
func (s *Source) count(messages []loadgen.Message, beside string) metrics.Count {
	texts := make([]string, len(messages))
	for i := range messages {
		texts[i] = messages[i].Content
	}
	text := strings.Join(texts, " ")
	if beside != "" {
		text += " " + beside
	}
	return metrics.Known(int64(s.o.Tokenizer.Count([]byte(text))))
}
