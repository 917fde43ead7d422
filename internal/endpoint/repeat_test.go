package endpoint

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"prefire/loadgen/wire"
)

// texts are what may stand where a chunk's text stood, as it is written in JSON, and not all of it is a JSON string's inside.
var texts = []string{
	`a`, ` feedforward`, `\n\n`, `\"`, `\\`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, "é", "\xff", "日本", ``, `"`, `\`, `a\`, "\n", "\x00", `\x`,
	`","content":"b`, `"},"finish_reason":"stop","x":{"y":"`, `"}}],"usage":{"total_tokens":1},"z":[{"a":{"b":"`,
	`"},"error":"boom","x":{"y":"`, strings.Repeat("long ", 1000),
}

// What a parser finds in an event does not depend on the events it has read before.
func TestEventAfterEvent(t *testing.T) {
	var list []string
	for _, c := range shapes {
		list = append(list, c.data)
	}
	for _, around := range [][2]string{
		{`{"id":"1","choices":[{"index":0,"delta":{"content":"`, `"},"finish_reason":null}]}`},
		{`{"choices":[{"delta":{"reasoning":"`, `"}}]}`},
		{`{"choices":[{"delta":{"role":"a","reasoning_content":"`, `","content":null}}]}`},
		{`{"choices":[{"delta":{"content":"x","content":"`, `"}}]}`},
		{`{"choices":[{"delta":{"content":"`, `"},"finish_reason":"length"}],"usage":null}`},
		{`{"choices":[{"delta":{"content":"`, `"}}],"usage":{"total_tokens":1}}`},
		{`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"`, `"}}]}}]}`},
		{`{"error":"`, `"}`},
		{`{"object":"`, `","choices":[{"delta":{"content":"a"}}]}`},
	} {
		for _, text := range texts {
			list = append(list, around[0]+text+around[1])
		}
	}
	alone := make([]result, len(list))
	for i, data := range list {
		alone[i] = event("", data)
	}
	for _, first := range list {
		for i, second := range list {
			p := new(parser)
			var d wire.Delta
			p.Event(nil, []byte(first), &d)
			d.Reset()
			if got, want := found(p.Event(nil, []byte(second), &d), &d), alone[i]; got != want {
				t.Fatalf("after %s\n%s\n%+v, want %+v", first, second, got, want)
			}
		}
	}
}

// The chunks of a stream of vLLM's are walked once: from then on only their texts are read.
func TestRepeatedChunksAreNotWalked(t *testing.T) {
	p := new(parser)
	var walked []int
	for i, data := range events(t, "stream.sse") {
		var d wire.Delta
		if _, ok := p.last.read([]byte(data), &d); !ok {
			walked = append(walked, i)
		}
		d.Reset()
		p.Event(nil, []byte(data), &d)
	}
	// The role chunk, the first of the content, the last with its finish reason, the usage and [DONE].
	if want := []int{0, 1, 24, 25, 26}; !slices.Equal(walked, want) {
		t.Errorf("events %v were walked, want %v", walked, want)
	}
}

// FuzzRepeat: an event that follows another is read as encoding/json reads it.
func FuzzRepeat(f *testing.F) {
	for _, c := range shapes {
		f.Add([]byte(c.data), []byte(c.data), 0, 0)
	}
	const chunk = `{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`
	for _, text := range texts {
		f.Add([]byte(chunk), []byte(text), strings.Index(chunk, `a"}`), 1)
	}
	f.Fuzz(func(t *testing.T, first, text []byte, at, size int) {
		first = bytes.TrimSpace(first)
		at = min(max(at, 0), len(first))
		size = min(max(size, 0), len(first)-at)
		second := bytes.TrimSpace(bytes.Join([][]byte{first[:at], text, first[at+size:]}, nil))
		if len(second) == 0 || string(second) == "[DONE]" {
			return
		}
		p := new(parser)
		var d, e wire.Delta
		p.Event(nil, first, &d)
		d.Reset()
		if got, want := found(p.Event(nil, second, &d), &d), found(p.decode(second, false, &e), &e); got != want {
			t.Errorf("after %q\n%q\n%+v, want %+v", first, second, got, want)
		}
	})
}
