package endpoint

import "prefire/loadgen/wire"

// maxRepeat bounds the events that are remembered. What is longer carries more than a token, and its cost lies elsewhere.
const maxRepeat = 4096

// repeat remembers the last event that was read whole and held content or reasoning and nothing else, but for its text: a stream's chunks
// differ in their text alone. An event with the same bytes around one JSON string is the same event with that string for its text, and
// needs no walk. Equality is checked byte by byte, so an event of any other kind is never taken for one.
type repeat struct {
	head, tail []byte // up to the text's opening quote and from its closing quote on, both counted; none = nothing is remembered
	class      wire.Class
}

// learn takes in an event that was walked.
func (r *repeat) learn(data []byte, class wire.Class, d *wire.Delta) {
	text := d.Content
	if class == wire.Reasoning {
		text = d.Reasoning
	}
	only := len(d.Content)+len(d.Reasoning) == len(text) && len(d.Tool)+len(d.Usage)+len(d.Finish)+len(d.Spec)+len(d.Strange) == 0
	at := cap(data) - cap(text)
	if !class.Counts() || !only || len(text) == 0 || len(data) > maxRepeat || at < 1 || at+len(text) >= len(data) || &data[at] != &text[0] {
		return // its text was unescaped, or is not all it holds
	}
	r.head = append(r.head[:0], data[:at]...)
	r.tail = append(r.tail[:0], data[at+len(text):]...)
	r.class = class
}

// read reads an event that is like the one remembered.
func (r *repeat) read(data []byte, d *wire.Delta) (class wire.Class, ok bool) {
	at, end := len(r.head), len(data)-len(r.tail)
	if at == 0 || end <= at || string(data[:at]) != string(r.head) || string(data[end:]) != string(r.tail) {
		return 0, false
	}
	if skipString(data, at-1) != end+1 {
		return 0, false
	}
	if r.class == wire.Reasoning {
		d.Reasoning = text(data[at-1:end+1], d)
	} else {
		d.Content = text(data[at-1:end+1], d)
	}
	return r.class, true
}
