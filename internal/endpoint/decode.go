package endpoint

import (
	"bytes"
	"encoding/json"

	"prefire/internal/orjson"
	"prefire/loadgen/wire"
)

// decode reads an answer with encoding/json: whatever walk leaves, and the judge of what walk reads.
func (p *parser) decode(data []byte, whole bool, d *wire.Delta) wire.Class {
	root, ok := object(data)
	if !ok && bytes.IndexByte(data, '\n') >= 0 {
		root, ok = object(escapeNewlines(data))
	}
	if !ok {
		return wire.Malformed
	}
	if usage, ok := object(root["usage"]); ok && len(usage) > 0 {
		d.Usage = root["usage"]
	}
	if m := root["metrics"]; len(m) > 2 && m[0] == '{' {
		d.Spec = m
	}
	if message, code, ok := faultOf(data, root); ok {
		d.Message, d.Code = []byte(message), code
		return wire.Fault
	}
	if p.kind == Completions {
		return decodeCompletion(root, d)
	}
	part := "delta"
	either := false
	switch name, isString := str(root["object"]); {
	case isNull(root["object"]) || isString && name == "":
		either = true
	case name == "chat.completion.chunk":
	case name == "chat.completion":
		part = "message"
	default:
		return wire.Malformed
	}
	var list []json.RawMessage
	if json.Unmarshal(root["choices"], &list) != nil && !isNull(root["choices"]) {
		return wire.Malformed
	}
	for i, raw := range list {
		if isNull(raw) {
			continue
		}
		choice, ok := object(raw)
		if !ok && i == 0 {
			return wire.Malformed
		}
		part := part
		if either && (isNull(choice["delta"]) || whole && !isNull(choice["message"])) {
			part = "message"
		}
		if raw := choice[part]; !isNull(raw) {
			fields, ok := object(raw)
			if !ok && i == 0 {
				return wire.Malformed
			}
			decodePart(fields, d)
		}
		d.Finish = firstFinish(d.Finish, choice)
	}
	return classOf(d)
}

// firstFinish is the first reason to finish that choices give.
func firstFinish(before []byte, choice map[string]json.RawMessage) []byte {
	if finish, _ := str(choice["finish_reason"]); len(before) == 0 && finish != "" {
		return []byte(finish)
	}
	return before
}

// decodeCompletion reads the choices of a completion.
func decodeCompletion(root map[string]json.RawMessage, d *wire.Delta) wire.Class {
	switch name, isString := str(root["object"]); {
	case isNull(root["object"]) || isString && (name == "" || name == "text_completion" || name == "completion"):
	default:
		return wire.Malformed
	}
	var list []json.RawMessage
	if json.Unmarshal(root["choices"], &list) != nil && !isNull(root["choices"]) {
		return wire.Malformed
	}
	for i, raw := range list {
		if isNull(raw) {
			continue
		}
		choice, ok := object(raw)
		if !ok && i == 0 {
			return wire.Malformed
		}
		d.Content = append(d.Content, textOf(choice["text"])...)
		d.Finish = firstFinish(d.Finish, choice)
	}
	return classOf(d)
}

// errorEvent reads an event named error: the error's own words where it has any, else all of its data.
func errorEvent(data []byte, d *wire.Delta) wire.Class {
	d.Message = data
	root, ok := object(data)
	if !ok {
		return wire.Fault
	}
	if message, code, ok := faultOf(data, root); ok {
		d.Message, d.Code = []byte(message), code
	} else if message, _ := str(root["message"]); message != "" {
		d.Message, d.Code = []byte(message), codeOf(root["code"])
	}
	return wire.Fault
}

func faultOf(data []byte, root map[string]json.RawMessage) (message string, code int, ok bool) {
	if raw := root["error"]; len(raw) > 0 && !falsy(raw) {
		if text, ok := str(raw); ok {
			return text, 0, true
		}
		fields, _ := object(raw)
		if text, _ := str(fields["message"]); text != "" {
			return text, codeOf(fields["code"]), true
		}
		return string(raw), codeOf(fields["code"]), true
	}
	kind, _ := str(root["type"])
	if name, _ := str(root["object"]); name != "error" && kind != "error" {
		detail := root["detail"]
		if _, chosen := root["choices"]; isNull(detail) || chosen || !isNull(root["object"]) || !isNull(root["usage"]) {
			return "", 0, false
		}
		if text, _ := str(detail); text != "" {
			return text, 0, true
		}
		return string(data), 0, true
	}
	if text, _ := str(root["message"]); text != "" {
		return text, codeOf(root["code"]), true
	}
	return string(data), codeOf(root["code"]), true
}

func decodePart(fields map[string]json.RawMessage, d *wire.Delta) {
	d.Content = append(d.Content, textOf(fields["content"])...)
	for _, key := range []string{"reasoning_content", "reasoning", "thinking", "reasoning_details"} {
		if text := textOf(fields[key]); len(text) > 0 {
			d.Reasoning = append(d.Reasoning, text...)
			break
		}
	}
	for key, raw := range fields {
		if text, _ := str(raw); text != "" && !known(key) && !annotates([]byte(key)) && (d.Strange == nil || key < string(d.Strange)) {
			d.Strange = []byte(key)
		}
	}
	tools := len(d.Tool)
	var calls []json.RawMessage
	if json.Unmarshal(fields["tool_calls"], &calls) == nil {
		for _, raw := range calls {
			if call, ok := object(raw); ok {
				d.Tool = appendFunction(d.Tool, call["function"])
			}
		}
	}
	if len(d.Tool) == tools {
		d.Tool = appendFunction(d.Tool, fields["function_call"])
	}
}

// known reports whether a delta's member of this name is read.
func known(key string) bool {
	switch key {
	case "content", "reasoning_content", "reasoning", "thinking", "reasoning_details", "tool_calls", "function_call":
		return true
	}
	return false
}

// appendFunction appends a function's name and arguments. Arguments that are not a string (some servers send the object itself) count as
// their JSON text.
func appendFunction(dst []byte, raw json.RawMessage) []byte {
	fields, _ := object(raw)
	name, _ := str(fields["name"])
	dst = append(dst, name...)
	if arguments, ok := str(fields["arguments"]); ok {
		return append(dst, arguments...)
	}
	if raw := fields["arguments"]; len(raw) > 0 && !falsy(raw) {
		dst = append(dst, raw...)
	}
	return dst
}

// textOf is the text of a string, or of a list of parts: strings, and objects with a text.
func textOf(raw json.RawMessage) []byte {
	if text, ok := str(raw); ok {
		return []byte(text)
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return nil
	}
	var out []byte
	for _, part := range parts {
		text, ok := str(part)
		if !ok {
			fields, _ := object(part)
			text, _ = str(fields["text"])
		}
		out = append(out, text...)
	}
	return out
}

// escapeNewlines writes line feeds inside strings as \n, for servers that put them there as they are.
func escapeNewlines(data []byte) []byte {
	out := make([]byte, 0, len(data)+16)
	inside := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			inside = !inside
		case c == '\\' && inside && i+1 < len(data):
			out = append(out, c)
			i++
		case c == '\n' && inside:
			out = append(out, `\n`...)
			continue
		}
		out = append(out, data[i])
	}
	return out
}

// object decodes a JSON object; ok is false for any other value, null included.
func object(raw []byte) (fields map[string]json.RawMessage, ok bool) {
	return fields, json.Unmarshal(raw, &fields) == nil && fields != nil
}

// str decodes a JSON string; ok is false for any other value, null included.
func str(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// falsy is Python's falsehood of a JSON value.
func falsy(raw json.RawMessage) bool {
	value, err := orjson.Compact(raw)
	return err != nil || !truthy(value)
}

func codeOf(raw json.RawMessage) int {
	if text, ok := str(raw); ok {
		return number([]byte(text))
	}
	return number(raw)
}
