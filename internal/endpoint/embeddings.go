package endpoint

import (
	"bytes"

	"prefire/loadgen/wire"
)

// vectors reads the answers of an embeddings endpoint. The content is the list of vectors as it stands, whose numbers nobody reads.
type vectors struct{}

// Event reads an event as a whole answer: no server streams embeddings.
func (v vectors) Event(name, data []byte, d *wire.Delta) wire.Class {
	if bytes.EqualFold(bytes.TrimSpace(name), []byte("error")) {
		return errorEvent(bytes.TrimSpace(data), d)
	}
	return v.Body(data, d)
}

// Body reads a whole answer. As in aiperf every element of its data must be an embedding, and one of them at least must have a vector.
func (vectors) Body(data []byte, d *wire.Delta) wire.Class {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if len(data) == 0 {
		return wire.Other
	}
	var list []byte
	var a answer
	s := scan{p: data}
	s.enter('{')
	for first := true; !s.bad; {
		key, more := s.key(&first)
		if !more {
			break
		}
		switch string(key) {
		case "data":
			list = s.value()
		case "usage":
			a.usage = s.value()
		case "object":
			a.object = s.value()
		case "error":
			a.fault = s.value()
		case "type":
			a.named = s.value()
		case "message":
			a.message = s.value()
		case "code":
			a.code = s.value()
		default:
			s.value()
		}
	}
	if s.bad || s.peek() != 0 || s.i < len(s.p) {
		return wire.Malformed
	}
	if len(a.usage) > 2 && a.usage[0] == '{' && !emptyObject(a.usage) {
		d.Usage = a.usage
	}
	fault, ok := a.readFault(data, d)
	if !ok { // of an unusual shape
		d.Scratch = d.Scratch[:0]
		d.Message, d.Code = nil, 0
		root, _ := object(data)
		if message, code, ok := faultOf(data, root); ok {
			d.Message, d.Code, fault = []byte(message), code, true
		}
	}
	switch {
	case fault:
		return wire.Fault
	case absent(list) || string(list) == "[]":
		return classOf(d)
	}
	any, ok := allEmbeddings(list)
	if !ok {
		return wire.Malformed
	}
	if any {
		d.Content = list
	}
	return classOf(d)
}

// allEmbeddings reports whether each element of a list is an embedding object, and whether any of them has its vector.
func allEmbeddings(list []byte) (any, ok bool) {
	s := scan{p: list}
	s.enter('[')
	for first := true; !s.bad && s.more(']', &first); {
		var name, vector []byte
		s.enter('{')
		for first := true; !s.bad; {
			key, more := s.key(&first)
			if !more {
				break
			}
			switch v := s.value(); string(key) {
			case "object":
				name = v
			case "embedding":
				vector = v
			}
		}
		if string(name) != `"embedding"` {
			return any, false
		}
		any = any || !absent(vector)
	}
	return any, !s.bad
}
