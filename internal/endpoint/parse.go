package endpoint

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"prefire/loadgen/wire"
)

// parser reads the answers of chats and completions. An event that is like the one before it is read by comparing; the usual shapes are
// walked, without allocating; everything else goes to encoding/json. All three give the same result for any input.
//
// An answer whose object is missing or empty is read, for servers that leave it out; another object than the endpoint's own is Malformed: it
// is another API's answer, whose text would be guessed at. A usage object counts in both cases. Of several choices all are read: n asks for
// them, a completion's prompts have one each, and usage counts their tokens.
type parser struct {
	kind Type
	last repeat
}

// Event reads one event of a stream. An event named error is a Fault whatever it holds.
func (p *parser) Event(name, data []byte, d *wire.Delta) wire.Class {
	data = bytes.TrimSpace(data)
	if len(name) > 0 && bytes.EqualFold(bytes.TrimSpace(name), []byte("error")) {
		return errorEvent(data, d)
	}
	switch {
	case len(data) == 0:
		return wire.Other
	case string(data) == "[DONE]":
		return wire.Done
	}
	if class, ok := p.last.read(data, d); ok {
		return class
	}
	class, ok := p.walk(data, false, d)
	if !ok {
		d.Reset()
		return p.decode(data, false, d)
	}
	p.last.learn(data, class, d)
	return class
}

// Body reads a whole answer.
func (p *parser) Body(data []byte, d *wire.Delta) wire.Class {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if len(data) == 0 {
		return wire.Other
	}
	if class, ok := p.walk(data, true, d); ok {
		return class
	}
	d.Reset()
	return p.decode(data, true, d)
}

// answer holds the raw values of one answer; nil = not there. A later value of a key replaces an earlier one.
type answer struct {
	kind                                                Type
	object, fault, named, message, code, usage, metrics []byte
	detail                                              []byte // an error as FastAPI writes it
	choices                                             []byte // raw where it is not an array with an object in front, else nil
	chosen, several                                     bool   // there is a key choices; there are several of them
	finish, delta, whole, text                          []byte // of the first choice
}

// walk reads an answer of the usual shape. ok is false where encoding/json has to.
func (p *parser) walk(data []byte, whole bool, d *wire.Delta) (class wire.Class, ok bool) {
	a := answer{kind: p.kind}
	s := scan{p: data}
	s.enter('{')
	for first := true; !s.bad; {
		key, more := s.key(&first)
		if !more {
			break
		}
		switch string(key) {
		case "object":
			a.object = s.value()
		case "choices":
			s.choices(&a)
		case "usage":
			a.usage = s.value()
		case "metrics":
			a.metrics = s.value()
		case "error":
			a.fault = s.value()
		case "type":
			a.named = s.value()
		case "message":
			a.message = s.value()
		case "code":
			a.code = s.value()
		case "detail":
			a.detail = s.value()
		default:
			s.value()
		}
	}
	if s.bad || s.peek() != 0 || s.i < len(s.p) {
		return wire.Other, false
	}
	return a.read(data, whole, d)
}

// choices takes the value of choices: the first one's fields, and nothing of the others.
func (s *scan) choices(a *answer) {
	a.choices, a.finish, a.delta, a.whole, a.text, a.several, a.chosen = nil, nil, nil, nil, nil, false, true
	if s.peek() != '[' {
		a.choices = s.value()
		return
	}
	s.i++
	for n, first := 0, true; s.more(']', &first); n++ {
		if n > 0 || s.peek() != '{' {
			a.several = a.several || n > 0
			if v := s.value(); n == 0 {
				a.choices = v
			}
			if s.bad {
				return
			}
			continue
		}
		s.i++
		for first := true; !s.bad; {
			key, more := s.key(&first)
			if !more {
				break
			}
			switch string(key) {
			case "delta":
				a.delta = s.value()
			case "message":
				a.whole = s.value()
			case "text":
				a.text = s.value()
			case "finish_reason":
				a.finish = s.value()
			default:
				s.value()
			}
		}
	}
}

// read fills d from the raw values. ok is false where a value has an unusual type.
func (a *answer) read(data []byte, whole bool, d *wire.Delta) (class wire.Class, ok bool) {
	if len(a.usage) > 2 && a.usage[0] == '{' && !emptyObject(a.usage) {
		d.Usage = a.usage
	}
	if len(a.metrics) > 2 && a.metrics[0] == '{' {
		d.Spec = a.metrics
	}
	if isFault, ok := a.readFault(data, d); !ok || isFault {
		return wire.Fault, ok
	}
	if a.kind == Completions {
		return a.completion(d)
	}
	part := a.delta
	switch {
	case absent(a.object) || string(a.object) == `""`:
		if absent(part) || whole && !absent(a.whole) {
			part = a.whole
		}
	case string(a.object) == `"chat.completion.chunk"`:
	case string(a.object) == `"chat.completion"`:
		part = a.whole
	default:
		return wire.Malformed, true
	}
	if a.several {
		return 0, false
	}
	if !absent(a.choices) {
		return wire.Malformed, true
	}
	if !absent(part) {
		if part[0] != '{' {
			return wire.Malformed, true
		}
		if !readPart(part, d) {
			return 0, false
		}
	}
	if len(a.finish) > 2 && a.finish[0] == '"' {
		d.Finish = text(a.finish, d)
	}
	return classOf(d), true
}

// completion is read for the answer of a completion.
func (a *answer) completion(d *wire.Delta) (class wire.Class, ok bool) {
	switch string(a.object) {
	case "", "null", `""`, `"text_completion"`, `"completion"`:
	default:
		return wire.Malformed, true
	}
	switch {
	case a.several:
		return 0, false
	case !absent(a.choices):
		return wire.Malformed, true
	case !absent(a.text) && a.text[0] != '"':
		return 0, false
	}
	if isText(a.text) {
		d.Content = text(a.text, d)
	}
	if len(a.finish) > 2 && a.finish[0] == '"' {
		d.Finish = text(a.finish, d)
	}
	return classOf(d), true
}

func classOf(d *wire.Delta) wire.Class {
	switch {
	case len(d.Content) > 0:
		return wire.Content
	case len(d.Reasoning) > 0:
		return wire.Reasoning
	case len(d.Tool) > 0:
		return wire.Tool
	case len(d.Usage) > 0:
		return wire.UsageOnly
	case len(d.Finish) > 0:
		return wire.Finish
	}
	return wire.Other
}

// readFault reads an error of any shape: {"error":{…}}, {"error":"text"}, {"object":"error",…}, {"type":"error",…}, and {"detail":…} where
// nothing of an answer is beside it. An error that is null or empty is none: some servers send the key in every chunk.
func (a *answer) readFault(data []byte, d *wire.Delta) (isFault, ok bool) {
	switch string(a.fault) {
	case "", "null", "false", `""`, "[]", "{}":
	default:
		switch {
		case a.fault[0] == '"':
			d.Message = text(a.fault, d)
		case a.fault[0] == '{' && !emptyObject(a.fault):
			return true, readError(a.fault, d)
		case a.fault[0] == '{':
			return a.namedError(data, d)
		default:
			return true, false
		}
		return true, true
	}
	return a.namedError(data, d)
}

func (a *answer) namedError(data []byte, d *wire.Delta) (isFault, ok bool) {
	if bytes.IndexByte(a.object, '\\') >= 0 || bytes.IndexByte(a.named, '\\') >= 0 {
		return false, false
	}
	if string(a.object) != `"error"` && string(a.named) != `"error"` {
		if absent(a.detail) || !absent(a.object) || a.chosen || !absent(a.usage) {
			return false, true
		}
		if d.Message = data; isText(a.detail) {
			d.Message = text(a.detail, d)
		}
		return true, true
	}
	if d.Message = data; isText(a.message) {
		d.Message = text(a.message, d)
	}
	d.Code = code(a.code, d)
	return true, true
}

// readError reads the error object.
func readError(raw []byte, d *wire.Delta) bool {
	var message, number []byte
	s := scan{p: raw}
	s.enter('{')
	for first := true; !s.bad; {
		key, more := s.key(&first)
		if !more {
			break
		}
		switch string(key) {
		case "message":
			message = s.value()
		case "code":
			number = s.value()
		default:
			s.value()
		}
	}
	if s.bad {
		return false
	}
	if d.Message = raw; isText(message) {
		d.Message = text(message, d)
	}
	d.Code = code(number, d)
	return true
}

// code is a whole number, or a string that is one. Any other code is 0: some servers put a name there.
func code(raw []byte, d *wire.Delta) int {
	if isText(raw) {
		mark := len(d.Scratch)
		raw = text(raw, d)
		d.Scratch = d.Scratch[:mark]
	}
	return number(raw)
}

func number(digits []byte) int {
	if len(digits) == 0 || len(digits) > 9 {
		return 0
	}
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		return 0
	}
	return n
}

// readPart reads a delta or message. It reports false where a value has an unusual type.
func readPart(raw []byte, d *wire.Delta) bool {
	var content, reasoning, reasoning2, thinking, details, tools, function []byte
	s := scan{p: raw}
	s.enter('{')
	for first := true; !s.bad; {
		key, more := s.key(&first)
		if !more {
			break
		}
		switch string(key) {
		case "content":
			content = s.value()
		case "reasoning_content":
			reasoning = s.value()
		case "reasoning":
			reasoning2 = s.value()
		case "thinking":
			thinking = s.value()
		case "reasoning_details":
			details = s.value()
		case "tool_calls":
			tools = s.value()
		case "function_call":
			function = s.value()
		default:
			switch v := s.value(); {
			case !isText(v) && len(key) > 0 && string(key) == string(d.Strange): // its later value holds
				return false
			case isText(v) && !utf8.Valid(key): // as encoding/json reads it
				return false
			case isText(v) && !annotates(key) && (d.Strange == nil || bytes.Compare(key, d.Strange) < 0):
				d.Strange = key
			}
		}
	}
	if s.bad {
		return false
	}
	for _, v := range [...][]byte{content, reasoning, reasoning2, thinking} {
		if !absent(v) && v[0] != '"' {
			return false
		}
	}
	if !absent(details) && string(details) != "[]" && !isText(reasoning) && !isText(reasoning2) && !isText(thinking) {
		return false
	}
	if isText(content) {
		d.Content = text(content, d)
	}
	if isText(reasoning) {
		d.Reasoning = text(reasoning, d)
	} else if isText(reasoning2) {
		d.Reasoning = text(reasoning2, d)
	} else if isText(thinking) {
		d.Reasoning = text(thinking, d)
	}
	mark := len(d.Scratch)
	if !absent(tools) {
		s := scan{p: tools}
		s.enter('[')
		for first := true; !s.bad && s.more(']', &first); {
			if v := s.value(); s.bad || v[0] != '{' || !readTool(v, d) {
				return false
			}
		}
		if s.bad {
			return false
		}
	}
	if len(d.Scratch) == mark && !absent(function) && !readFunction(function, d) {
		return false
	}
	d.Tool = d.Scratch[mark:len(d.Scratch):len(d.Scratch)]
	return true
}

// annotates reports whether a delta's member of this name is no part of the answer's text.
func annotates(key []byte) bool {
	switch string(key) {
	case "role", "name", "id", "type", "object", "model", "signature", "thought_signature", "encrypted_content", "stop_reason", "finish_reason":
		return true
	}
	return false
}

// readTool appends the name and arguments of one tool call to the scratch.
func readTool(raw []byte, d *wire.Delta) bool {
	s := scan{p: raw}
	s.enter('{')
	var function []byte
	for first := true; !s.bad; {
		key, more := s.key(&first)
		if !more {
			break
		}
		if v := s.value(); string(key) == "function" {
			function = v
		}
	}
	return !s.bad && (absent(function) || readFunction(function, d))
}

func readFunction(raw []byte, d *wire.Delta) bool {
	s := scan{p: raw}
	s.enter('{')
	var name, arguments []byte
	for first := true; !s.bad; {
		key, more := s.key(&first)
		if !more {
			break
		}
		switch v := s.value(); string(key) {
		case "name":
			name = v
		case "arguments":
			arguments = v
		}
	}
	if s.bad {
		return false
	}
	for _, v := range [...][]byte{name, arguments} {
		switch {
		case absent(v):
		case v[0] == '"':
			d.Scratch = appendUnescaped(d.Scratch, v[1:len(v)-1])
		default:
			return false
		}
	}
	return true
}

// text is the text of a raw JSON string: a part of the answer itself where nothing in it is escaped, else a part of the scratch.
func text(raw []byte, d *wire.Delta) []byte {
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in) {
		return in
	}
	mark := len(d.Scratch)
	d.Scratch = appendUnescaped(d.Scratch, in)
	return d.Scratch[mark:len(d.Scratch):len(d.Scratch)]
}

func absent(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// isText reports whether raw is a JSON string that is not empty.
func isText(raw []byte) bool { return len(raw) > 2 && raw[0] == '"' }

func emptyObject(raw []byte) bool { return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 }
