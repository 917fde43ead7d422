package files

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"prefire/internal/orjson"
)

// parseMooncake reads a row of a Mooncake trace.
func parseMooncake(o *object) row {
	o.kind(Mooncake)
	r := row{}
	t := turn{}
	var modes []string
	for _, field := range [...]string{"input_length", "text_input", "messages", "payload"} {
		if o.has(field) {
			modes = append(modes, field)
		}
	}
	if len(modes) != 1 {
		found := "none of input_length, text_input, messages and payload"
		if len(modes) > 1 {
			found = strings.Join(modes, " and ")
		}
		o.fail("", found, "one of input_length, text_input, messages and payload")
		return r
	}
	if o.has("hash_ids") && modes[0] != "input_length" {
		o.fail("hash_ids", "hash_ids beside "+modes[0], "hash_ids beside input_length alone")
	}
	if o.has("tools") && modes[0] != "messages" {
		o.fail("tools", "tools beside "+modes[0], "tools beside messages alone")
	}
	switch modes[0] {
	case "input_length":
		o.synthesized(&t)
	case "text_input":
		s, _ := o.text("text_input")
		t.contents = []string{s}
	case "messages":
		t.messages = o.chatMessages("messages")
		if list, ok := o.list("tools", "a list of tools, at least one"); ok {
			if len(list) == 0 {
				o.bad("tools", "a list of tools, at least one")
			} else if compact, err := orjson.Compact(o.get("tools")); err == nil {
				t.tools, t.counting = compact, strings.Join(toolTexts(compact), " ")
			}
		}
	case "payload":
		raw := o.get("payload")
		if fields, err := pairs(raw); err != nil || len(fields) == 0 {
			o.bad("payload", "a request body: an object with at least one field")
		} else if b, err := body(raw); err == nil {
			t.raw, t.counted = b.raw, b.counted
		}
	}
	t.output = o.traceOutput(false)
	t.extra = o.extra("extra")
	t.at, t.hasAt = o.milliseconds("timestamp")
	t.delay, t.hasDelay = o.milliseconds("delay")
	r.session, _ = o.text("session_id")
	r.turns, r.ignored = []turn{t}, o.unknown()
	return r
}

// synthesized reads the length of a prompt that is to be made, and the ids of its blocks.
func (o *object) synthesized(t *turn) {
	if !o.require("input_length", "a number of tokens") {
		return
	}
	t.made = true
	t.input, _ = o.length("input_length", 0)
	o.hashIDs(t)
	if len(t.blocks) > 0 && t.input == 0 {
		o.bad("input_length", "1 token or more beside hash_ids")
	}
	t.input = max(t.input, 1)
}

// hashIDs reads the ids of a row's blocks.
func (o *object) hashIDs(t *turn) {
	list, _ := o.list("hash_ids", "a list of whole numbers")
	for i, raw := range list {
		id, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			o.fail(fmt.Sprintf("hash_ids[%d]", i), short(string(raw)), "a whole number from -2^63 to 2^63-1")
			return
		}
		t.blocks = append(t.blocks, id)
	}
}

// traceOutput reads the output length of a trace's row: a server is asked for 1 token at least, as aiperf asks it.
func (o *object) traceOutput(required bool) int {
	if required && !o.require("output_length", "a number of tokens") {
		return 0
	}
	n, ok := o.length("output_length", 0)
	if !ok {
		return 0
	}
	return max(n, 1)
}

// parseBailian reads a row of a Bailian trace, whose times are seconds. Its type is the kind of request.
func parseBailian(o *object) row {
	r := row{parent: -1, order: 1}
	t := turn{}
	if o.require("chat_id", "a whole number") {
		r.chat, _ = o.whole("chat_id", math.MinInt64, "a whole number")
	}
	if v, ok := o.whole("parent_chat_id", math.MinInt64, "a whole number; -1 = none"); ok {
		r.parent = v
	}
	if v, ok := o.whole("turn", math.MinInt64, "a whole number"); ok {
		r.order = v
	}
	if o.require("timestamp", "a number of seconds, 0 or more") {
		t.at, t.hasAt = o.number("timestamp", 0, "a number of seconds, 0 or more")
		t.at *= 1000
	}
	o.text("type")
	o.synthesized(&t)
	t.output = o.traceOutput(true)
	r.turns, r.ignored = []turn{t}, o.unknown()
	return r
}

// burstColumns are the columns of a BurstGPT file that are read.
var burstColumns = [...]string{"Timestamp", "Request tokens", "Response tokens"}

// burstHeader finds the columns in a file's first record.
func burstHeader(record []string) (at [len(burstColumns)]int, missing []string) {
	for i, name := range burstColumns {
		if at[i] = slices.IndexFunc(record, func(s string) bool { return strings.TrimPrefix(s, "\ufeff") == name }); at[i] < 0 {
			missing = append(missing, name)
		}
	}
	return at, missing
}

// parseBurst reads a row of a BurstGPT file, whose times are seconds.
func parseBurst(data []byte, columns [len(burstColumns)]int) (row, *RowError) {
	r := csv.NewReader(strings.NewReader(string(data)))
	r.FieldsPerRecord = -1
	record, err := r.Read()
	if err != nil {
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			err = syntax.Err
		}
		return row{}, &RowError{Found: fmt.Sprintf("a row that is no CSV (%v): %s", err, short(string(data))), Want: "a row of CSV"}
	}
	var v [len(burstColumns)]float64
	for i, at := range columns {
		field := ""
		if at < len(record) {
			field = strings.TrimSpace(record[at])
		}
		n, err := strconv.ParseFloat(field, 64)
		want := "a number of seconds, 0 or more"
		if i > 0 {
			want = fmt.Sprintf("a whole number of tokens from 0 to %d", math.MaxInt32)
			if _, e := strconv.ParseInt(field, 10, 64); e != nil || n > math.MaxInt32 {
				err = strconv.ErrSyntax
			}
		}
		if err != nil || !(n >= 0) || n > 1<<53 {
			return row{}, &RowError{Field: burstColumns[i], Found: strconv.Quote(short(field)), Want: want}
		}
		v[i] = n
	}
	return row{turns: []turn{{
		at: v[0] * 1000, hasAt: true, made: true, input: max(int(v[1]), 1), output: max(int(v[2]), 1),
	}}}, nil
}

// parseShareGPT reads one conversation of a ShareGPT file: each question that an answer follows is a turn, the answer's length its limit. Where
// nobody is called human or gpt, the first two texts are one turn.
func parseShareGPT(o *object) row {
	r := row{}
	const want = "a list of messages"
	list, ok := o.list("conversations", want)
	if !ok {
		o.require("conversations", want)
	}
	type said struct{ from, value string }
	var all, named []said
	for i, raw := range list {
		var m struct{ From, Value json.RawMessage }
		if json.Unmarshal(raw, &m) != nil {
			o.fail(fmt.Sprintf("conversations[%d]", i), short(string(raw)), `an object with from and value`)
		}
		var s said
		_ = json.Unmarshal(m.From, &s.from) // what is no string is nobody's, and no text
		_ = json.Unmarshal(m.Value, &s.value)
		all = append(all, s)
		if s.from == "human" || s.from == "gpt" {
			named = append(named, s)
		}
	}
	add := func(prompt, answer said) {
		if prompt.value != "" && answer.value != "" {
			r.turns = append(r.turns, turn{contents: []string{prompt.value}, counted: answer.value})
		}
	}
	if len(named) == 0 {
		if len(all) >= 2 {
			add(all[0], all[1])
		}
		return r
	}
	for i := 0; i+1 < len(named); i++ {
		if named[i].from == "human" && named[i+1].from == "gpt" {
			add(named[i], named[i+1])
			i++
		}
	}
	return r
}

// Limits of a ShareGPT turn, in tokens: those of vLLM's benchmark, which aiperf takes too.
const (
	shareLeast  = 4
	sharePrompt = 1024
	shareTotal  = 2048
)

// csvRecords gives each record of a CSV file with its place.
func csvRecords(r io.Reader, each func(at int64, size, line int, record []string, err error) error) error {
	c := csv.NewReader(r)
	c.FieldsPerRecord, c.ReuseRecord = -1, true
	for {
		from := c.InputOffset()
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line := 0
		var syntax *csv.ParseError
		switch {
		case errors.As(err, &syntax):
			line = syntax.StartLine
		case err != nil:
			return err
		default:
			line, _ = c.FieldPos(0)
		}
		if err := each(from, int(c.InputOffset()-from), line, record, err); err != nil {
			return err
		}
	}
}
