package files

import (
	"encoding/json"
	"fmt"
	"strings"

	"prefire/internal/orjson"
	"prefire/loadgen"
)

// parseRaw reads a raw_payload row, which is a whole request.
func parseRaw(o *object) row {
	if list, ok := o.list("messages", "a list of messages"); !ok && list == nil {
		o.require("messages", "a list of messages: a raw_payload row is a whole chat request")
	}
	return row{turns: []turn{{}}}
}

// body makes a turn of a whole request.
func body(raw []byte) (turn, error) {
	compact, err := orjson.Compact(raw)
	return turn{raw: compact, counted: inputText(compact)}, err
}

// parseInputs reads one session of an inputs.json.
func parseInputs(o *object) row {
	r := row{}
	if o.require("session_id", "a string") {
		r.session, _ = o.text("session_id")
	}
	const want = "a list of request bodies, at least one"
	list, ok := o.list("payloads", want)
	switch {
	case !ok:
		o.require("payloads", want)
	case len(list) == 0:
		o.bad("payloads", want)
	}
	for i, raw := range list {
		t, err := body(raw)
		if err != nil || raw[0] != '{' {
			o.fail(fmt.Sprintf("payloads[%d]", i), short(string(raw)), "a request body, a JSON object")
		}
		r.turns = append(r.turns, t)
	}
	return r
}

// chatMessages reads a list of whole messages.
func (o *object) chatMessages(field string) []loadgen.Message {
	const want = "a list of messages, at least one, each an object with a role"
	list, ok := o.list(field, want)
	if !ok {
		return nil
	}
	if len(list) == 0 {
		o.bad(field, want)
	}
	var out []loadgen.Message
	for i, raw := range list {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil || m["role"] == nil {
			o.fail(fmt.Sprintf("%s[%d]", field, i), short(string(raw)), "an object with a role")
			return nil
		}
		compact, err := orjson.Compact(raw)
		if err != nil {
			o.bad(field, want)
		}
		var role string
		_ = json.Unmarshal(m["role"], &role) // what is no string is sent as it is
		out = append(out, loadgen.Message{Role: role, Content: strings.Join(messageTexts(nil, raw), " "), JSON: compact})
	}
	return out
}

// inputText is the text of a request body whose tokens make its input length, as aiperf counts it: texts of messages, names and arguments of
// tool calls, tools; one space between them.
func inputText(body []byte) string {
	var b struct {
		Messages []json.RawMessage
		Input    json.RawMessage
		Prompt   json.RawMessage
		Tools    json.RawMessage
	}
	_ = json.Unmarshal(body, &b) // a field of another kind than expected has no text
	var texts []string
	for _, m := range b.Messages {
		texts = messageTexts(texts, m)
	}
	if len(b.Messages) == 0 {
		texts = append(texts, flatTexts(b.Prompt)...)
		texts = append(texts, flatTexts(b.Input)...)
	}
	return strings.Join(append(texts, toolTexts(b.Tools)...), " ")
}

// flatTexts are the texts of a field that is a string or a list of strings.
func flatTexts(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	return nil
}

// messageTexts appends the texts of one message.
func messageTexts(dst []string, raw []byte) []string {
	var m struct {
		Content   json.RawMessage
		ToolCalls []struct{ Function named } `json:"tool_calls"`
	}
	_ = json.Unmarshal(raw, &m)
	var one string
	var parts []struct{ Type, Text string }
	switch {
	case json.Unmarshal(m.Content, &one) == nil:
		if string(m.Content) != "null" {
			dst = append(dst, one)
		}
	case json.Unmarshal(m.Content, &parts) == nil:
		for _, p := range parts {
			if p.Type == "text" {
				dst = append(dst, p.Text)
			}
		}
	}
	for _, c := range m.ToolCalls {
		dst = appendFilled(dst, c.Function.Name, c.Function.Arguments)
	}
	return dst
}

type named struct {
	Name, Description, Arguments string
	Parameters                   json.RawMessage
}

// toolTexts are the texts of a list of tools.
func toolTexts(raw []byte) []string {
	var tools []struct {
		named
		Function named
	}
	if json.Unmarshal(raw, &tools) != nil {
		return nil
	}
	var out []string
	for _, t := range tools {
		for _, n := range []named{t.Function, t.named} {
			out = appendFilled(out, n.Name, n.Description)
			if len(n.Parameters) > 0 && n.Parameters[0] == '{' {
				if compact, err := orjson.Compact(n.Parameters); err == nil {
					out = append(out, string(compact))
				}
			}
		}
	}
	return out
}

func appendFilled(dst []string, texts ...string) []string {
	for _, s := range texts {
		if s != "" {
			dst = append(dst, s)
		}
	}
	return dst
}
