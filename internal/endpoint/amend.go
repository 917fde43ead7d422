package endpoint

import (
	"bytes"
	"strings"
)

// askedByUs is the field, with the comma before it, by which streams are asked for their usage; nil where the user gave stream_options, or
// nothing is asked for.
func (e *Endpoint) askedByUs() []byte {
	for _, p := range e.extra {
		if p.Key == "stream_options" {
			return nil
		}
	}
	with, without := e.open[len(e.open)-1].fixed, e.plain.open[len(e.plain.open)-1].fixed
	if len(with) <= len(without) {
		return nil
	}
	return with[len(without)-1 : len(with)-1] // it is the last field
}

// Amend appends a refused body without the field that the server refused, stream_options, which not all servers know. From then on all
// bodies are made without it, so that a run has usage for all requests or for none. It reports false where something else was refused, or
// where the user asked for the field.
func (e *Endpoint) Amend(dst, body []byte, status int, text string) ([]byte, bool) {
	if status != 400 && status != 422 || e.asked == nil {
		return dst, false
	}
	if !strings.Contains(text, "stream_options") && !strings.Contains(text, "include_usage") && !strings.Contains(text, "continuous_usage_stats") {
		return dst, false
	}
	i := bytes.LastIndex(body, e.asked)
	if i < 0 {
		return dst, false
	}
	e.amended.Store(true)
	return append(append(dst, body[:i]...), body[i+len(e.asked):]...), true
}

// Amended reports whether a server refused stream_options, so that bodies are made without it.
func (e *Endpoint) Amended() bool { return e.amended.Load() }
