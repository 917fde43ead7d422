package files

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"prefire/loadgen"
)

// row is one row of a file as it was read.
type row struct {
	session string // "" = none of its own
	turns   []turn
	chat    int64 // bailian: of this request, and of the one before it in its conversation
	parent  int64
	order   int64 // bailian: where it stands in its conversation
	ignored []string
}

// turn is one request of a row before its prompt is made. Exactly one of contents, messages, raw and input says what is sent.
type turn struct {
	role     string
	system   string   // a system message before the turn's own
	contents []string // texts; with several the content is sent in parts
	messages []loadgen.Message
	tools    []byte
	raw      []byte
	made     bool // a prompt of input tokens is to be made
	input    int
	blocks   []int64 // hash ids

	output            int // tokens; 0 = none given
	extra             []loadgen.Field
	at, delay         float64 // ms
	hasAt, hasDelay   bool
	counted, counting string // text of messages and raw by which tokens are counted, and of tools
}

// media are the fields of aiperf's rows that prefire does not send.
var media = [...]string{"image", "images", "image_uuids", "audio", "audios", "video", "videos"}

// texts reads what single_turn, multi_turn and random_pool rows have in common: the text, and no media.
func (o *object) texts() []string {
	for _, field := range media {
		if raw := o.get(field); raw != nil && string(raw) != `""` && string(raw) != "[]" {
			o.bad(field, "no such field: prefire sends text only")
		}
	}
	one, _ := o.text("text")
	list, _ := o.list("texts", `a list of strings, or of {"name": ..., "contents": [...]}`)
	if one != "" && len(list) > 0 {
		o.fail("texts", "both text and texts", "one of them")
	}
	if one == "" && len(list) == 0 {
		o.fail("text", "no text", `text, or texts with at least one string`)
	}
	if one != "" || len(list) == 0 {
		return []string{one}
	}
	var out []string
	objects := 0
	for i, raw := range list {
		at := fmt.Sprintf("%stexts[%d]", o.path, i)
		var s string
		if raw[0] == '{' {
			objects++
			inner := parseObject(raw, at+".")
			inner.text("name")
			contents, ok := inner.list("contents", "a list of strings")
			if !ok {
				inner.require("contents", "a list of strings")
			}
			for k, c := range contents {
				if c[0] != '"' || json.Unmarshal(c, &s) != nil {
					inner.fail(fmt.Sprintf("contents[%d]", k), short(string(c)), "a string")
				}
				out = append(out, s)
			}
			o.take(inner)
			continue
		}
		if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
			o.take(&object{err: &RowError{Field: at, Found: short(string(raw)), Want: "a string"}})
		}
		out = append(out, s)
	}
	if objects > 0 && objects < len(list) {
		o.fail("texts", "strings and objects in one list", "strings alone, or objects alone")
	}
	return out
}

// take passes on an inner object's fault.
func (o *object) take(inner *object) {
	if o.err == nil && inner.err != nil {
		o.err = inner.err
	}
}

// singleTurn reads a single_turn row, or a turn of a multi_turn row.
func (o *object) singleTurn() turn {
	o.kind(SingleTurn)
	t := turn{contents: o.texts()}
	t.role, _ = o.text("role")
	t.output, _ = o.length("output_length", 1)
	t.extra = o.extra("extra")
	t.at, t.hasAt = o.milliseconds("timestamp")
	t.delay, t.hasDelay = o.milliseconds("delay")
	if t.at != 0 && t.delay != 0 {
		o.fail("delay", "both timestamp and delay", "one of them")
	}
	return t
}

func parseSingleTurn(o *object) row {
	r := row{}
	r.session, _ = o.text("session_id")
	r.turns = []turn{o.singleTurn()}
	r.ignored = o.unknown()
	return r
}

func parseMultiTurn(o *object) row {
	o.kind(MultiTurn)
	r := row{}
	r.session, _ = o.text("session_id")
	const want = "a list of turns, at least one"
	list, ok := o.list("turns", want)
	if !ok {
		o.require("turns", want)
	} else if len(list) == 0 {
		o.bad("turns", want)
	}
	for i, raw := range list {
		inner := parseObject(raw, fmt.Sprintf("%sturns[%d].", o.path, i))
		r.turns = append(r.turns, inner.singleTurn())
		inner.text("session_id")
		o.take(inner)
		r.ignored = append(r.ignored, inner.unknown()...)
	}
	r.ignored = append(r.ignored, o.unknown()...)
	return r
}

func parseRandomPool(o *object) row {
	o.kind(RandomPool)
	r := row{turns: []turn{{contents: o.texts()}}}
	r.ignored = o.unknown()
	return r
}

// isSystem says that a turn is a text-only system message without anything of its own, which goes before every turn of its conversation.
func (t *turn) isSystem() bool {
	return t.role == "system" && !t.hasAt && !t.hasDelay && t.output == 0 && t.extra == nil && strings.Join(t.contents, "\n") != ""
}

// hoist makes a leading system turn of a conversation part of its next turn. It stays a turn of its own where nothing follows it, or
// another system turn.
func hoist(turns []turn) []turn {
	if len(turns) < 2 || !turns[0].isSystem() || turns[1].role == "system" {
		return turns
	}
	turns[1].system = strings.Join(turns[0].contents, "\n")
	return turns[1:]
}

// message is the chat message of a turn's texts: a string where there is one, parts where there are several.
func message(role string, contents []string) loadgen.Message {
	m := loadgen.Message{Role: role, Content: strings.Join(contents, " ")}
	if m.Role == "" {
		m.Role = "user"
	}
	if len(contents) == 1 {
		return m
	}
	parts := slices.DeleteFunc(slices.Clone(contents), func(s string) bool { return s == "" })
	m.Content = strings.Join(parts, " ")
	if len(parts) > 0 {
		m.Texts = parts
	}
	return m
}

const oneText = "one text: this endpoint takes no conversation (--endpoint-type chat does)"

// textsOnly refuses what an endpoint that takes texts cannot be sent.
func (r *row) textsOnly() *RowError {
	for i := range r.turns {
		switch t := &r.turns[i]; {
		case t.messages != nil:
			return &RowError{Field: "messages", Found: fmt.Sprintf("%d messages", len(t.messages)), Want: oneText}
		case t.tools != nil:
			return &RowError{Field: "tools", Found: "tools", Want: oneText}
		case t.raw == nil && len(r.turns) > 1:
			return &RowError{Field: "turns", Found: fmt.Sprintf("%d turns", len(r.turns)), Want: oneText}
		}
	}
	return nil
}
