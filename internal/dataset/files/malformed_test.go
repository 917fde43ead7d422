package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every fault is said with the file, the line and the field, what was found and what is allowed.
func TestMalformedFiles(t *testing.T) {
	ok := `{"text":"a"}` + "\n"
	moon := `{"input_length":20}` + "\n"
	for _, c := range []struct {
		format Format
		text   string
		line   int
		field  string
		words  string // in the message behind the field
	}{
		{SingleTurn, "", 0, "", "found no rows; allowed: at least one row of single_turn"},
		{SingleTurn, "\n\n  \n", 0, "", "found no rows"},
		{"", "", 0, "", "found an empty file"},
		{SingleTurn, ok + "not json", 2, "", "no valid JSON"},
		{SingleTurn, ok + `{"text":"a"`, 2, "", "no valid JSON (unexpected end of JSON input at byte 11)"},
		{SingleTurn, ok + "\n" + `{"text":"a"}}`, 3, "", "no valid JSON"},
		{SingleTurn, ok + `["a"]`, 2, "", `found ["a"]; allowed: a JSON object`},
		{SingleTurn, ok + `null`, 2, "", `found null; allowed: a JSON object`},
		{SingleTurn, ok + "{\"text\":\"\xff\"}", 2, "", "a byte that is not UTF-8 (0xff at byte 10)"},
		{SingleTurn, ok + `{"prompt":"a"}`, 2, "text", "found no text; allowed: text, or texts with at least one string"},
		{SingleTurn, ok + `{"text":""}`, 2, "text", "found no text"},
		{SingleTurn, ok + `{"texts":[]}`, 2, "text", "found no text"},
		{SingleTurn, ok + `{"text":5}`, 2, "text", "found 5; allowed: a string"},
		{SingleTurn, ok + `{"text":"a","texts":["b"]}`, 2, "texts", "found both text and texts; allowed: one of them"},
		{SingleTurn, ok + `{"texts":"a"}`, 2, "texts", `found "a"; allowed: a list of strings`},
		{SingleTurn, ok + `{"texts":["a",1]}`, 2, "texts[1]", "found 1; allowed: a string"},
		{SingleTurn, ok + `{"texts":[{"name":"q"}]}`, 2, "texts[0].contents", "found nothing; allowed: a list of strings"},
		{SingleTurn, ok + `{"texts":[{"contents":[1]}]}`, 2, "texts[0].contents[0]", "found 1; allowed: a string"},
		{SingleTurn, ok + `{"texts":[{"name":1,"contents":["a"]}]}`, 2, "texts[0].name", "found 1; allowed: a string"},
		{SingleTurn, ok + `{"texts":["a",{"contents":["b"]}]}`, 2, "texts", "found strings and objects in one list"},
		{SingleTurn, ok + `{"text":"a","image":"x.png"}`, 2, "image", `found "x.png"; allowed: no such field: prefire sends text only`},
		{SingleTurn, ok + `{"images":["x.png"]}`, 2, "images", "prefire sends text only"},
		{SingleTurn, ok + `{"text":"a","image_uuids":["1"]}`, 2, "image_uuids", "prefire sends text only"},
		{SingleTurn, ok + `{"text":"a","audio":"wav,aa"}`, 2, "audio", "prefire sends text only"},
		{SingleTurn, ok + `{"text":"a","videos":["x"]}`, 2, "videos", "prefire sends text only"},
		{"", `{"image":"x.png"}`, 1, "image", "prefire sends text only"},
		{SingleTurn, ok + `{"text":"a","output_length":0}`, 2, "output_length", "found 0; allowed: a whole number from 1 to 2147483647"},
		{SingleTurn, ok + `{"text":"a","output_length":1.5}`, 2, "output_length", "found 1.5; allowed: a whole number"},
		{SingleTurn, ok + `{"text":"a","output_length":"many"}`, 2, "output_length", `found "many"; allowed: a whole number`},
		{SingleTurn, ok + `{"text":"a","output_length":99999999999}`, 2, "output_length", "found 99999999999; allowed: a whole number"},
		{SingleTurn, ok + `{"text":"a","timestamp":-1}`, 2, "timestamp", "found -1; allowed: a number of milliseconds, 0 or more"},
		{SingleTurn, ok + `{"text":"a","timestamp":1e300}`, 2, "timestamp", "found 1e300; allowed: a number of milliseconds"},
		{SingleTurn, ok + `{"text":"a","delay":[1]}`, 2, "delay", "found [1]; allowed: a number of milliseconds"},
		{SingleTurn, ok + `{"text":"a","timestamp":1,"delay":1}`, 2, "delay", "found both timestamp and delay"},
		{SingleTurn, ok + `{"text":"a","session_id":7}`, 2, "session_id", "found 7; allowed: a string"},
		{SingleTurn, ok + `{"text":"a","role":["user"]}`, 2, "role", `found ["user"]; allowed: a string`},
		{SingleTurn, ok + `{"text":"a","extra":[1]}`, 2, "extra", "found [1]; allowed: an object of request fields"},
		{SingleTurn, ok + `{"text":"a","type":"multi_turn"}`, 2, "type", `found "multi_turn"; allowed: "single_turn"`},
		{MultiTurn, `{"session_id":"s"}`, 1, "turns", "found nothing; allowed: a list of turns, at least one"},
		{MultiTurn, `{"turns":[]}`, 1, "turns", "found []; allowed: a list of turns, at least one"},
		{MultiTurn, `{"turns":{"text":"a"}}`, 1, "turns", `allowed: a list of turns`},
		{MultiTurn, `{"turns":[{"text":"a"},{"text":"b","delay":-5}]}`, 1, "turns[1].delay", "found -5"},
		{MultiTurn, `{"turns":[{"text":"a"},{}]}`, 1, "turns[1].text", "found no text"},
		{MultiTurn, `{"turns":["a"]}`, 1, "turns[0]", `found "a"; allowed: a JSON object`},
		{RandomPool, ok + `{"image":"x"}`, 2, "image", "prefire sends text only"},
		{RandomPool, ok + `{"texts":[3]}`, 2, "texts[0]", "found 3"},
		{Mooncake, moon + `{"timestamp":1}`, 2, "", "found none of input_length, text_input, messages and payload"},
		{Mooncake, moon + `{"input_length":5,"text_input":"a"}`, 2, "", "found input_length and text_input; allowed: one of"},
		{Mooncake, moon + `{"text_input":"a","hash_ids":[1]}`, 2, "hash_ids", "found hash_ids beside text_input"},
		{Mooncake, moon + `{"input_length":5,"tools":[{}]}`, 2, "tools", "found tools beside input_length"},
		{Mooncake, moon + `{"input_length":-5}`, 2, "input_length", "found -5; allowed: a whole number from 0"},
		{Mooncake, moon + `{"input_length":0,"hash_ids":[1]}`, 2, "input_length", "found 0; allowed: 1 token or more beside hash_ids"},
		{Mooncake, moon + `{"input_length":100,"hash_ids":[1,2,3]}`, 2, "hash_ids", "found 3 ids beside an input_length of 100; allowed: at most 1 ids of 512"},
		{Mooncake, moon + `{"input_length":100,"hash_ids":[1]}` + "\n" + `{"input_length":600,"hash_ids":[1,2]}`, 3, "hash_ids[0]", "found id 1 for 512 tokens, which stood for 100 before"},
		{Mooncake, moon + `{"input_length":600,"hash_ids":["a",2]}`, 2, "hash_ids[0]", `found "a"; allowed: a whole number`},
		{Mooncake, moon + `{"messages":[]}`, 2, "messages", "found []; allowed: a list of messages, at least one"},
		{Mooncake, moon + `{"messages":[{"role":"user"},{"content":"a"}]}`, 2, "messages[1]", "allowed: an object with a role"},
		{Mooncake, moon + `{"messages":[{"role":"user"}],"tools":[]}`, 2, "tools", "found []; allowed: a list of tools"},
		{Mooncake, moon + `{"payload":{}}`, 2, "payload", "found {}; allowed: a request body"},
		{Mooncake, moon + `{"payload":"x"}`, 2, "payload", `found "x"; allowed: a request body`},
		{Mooncake, `{"session_id":"s","messages":[{"role":"user"}]}` + "\n" + `{"session_id":"s","payload":{"a":1}}`, 2, "session_id", "mix messages, payload and prompts"},
		{Mooncake, `{"session_id":"s","input_length":9}` + "\n" + `{"session_id":"s","payload":{"a":1}}`, 2, "session_id", "mix messages, payload and prompts"},
		{Bailian, `{"timestamp":1,"input_length":5,"output_length":1}`, 1, "chat_id", "found nothing; allowed: a whole number (the field is required)"},
		{Bailian, `{"chat_id":1,"input_length":5,"output_length":1}`, 1, "timestamp", "found nothing; allowed: a number of seconds"},
		{Bailian, `{"chat_id":1,"timestamp":1,"output_length":1}`, 1, "input_length", "found nothing"},
		{Bailian, `{"chat_id":1,"timestamp":1,"input_length":5}`, 1, "output_length", "found nothing"},
		{Bailian, `{"chat_id":1.5,"timestamp":1,"input_length":5,"output_length":1}`, 1, "chat_id", "found 1.5"},
		{BurstGPT, "Timestamp,Model,Request tokens\n1,a,5\n", 1, "Response tokens", "found no such column in Timestamp,Model,Request tokens; allowed: a header with"},
		{BurstGPT, "Timestamp,Request tokens,Response tokens\nx,5,5\n", 2, "Timestamp", `found "x"; allowed: a number of seconds`},
		{BurstGPT, "Timestamp,Request tokens,Response tokens\n1,5.5,5\n", 2, "Request tokens", `found "5.5"; allowed: a whole number of tokens`},
		{BurstGPT, "Timestamp,Request tokens,Response tokens\n1,5\n", 2, "Response tokens", `found ""`},
		{BurstGPT, "Timestamp,Request tokens,Response tokens\n1,\"5,5\n", 2, "", "a row that is no CSV"},
		{RawPayload, `{"messages":[]}` + "\n" + `{"prompt":"a"}`, 2, "messages", "found nothing; allowed: a list of messages"},
		{RawPayload, `{"messages":"a"}`, 1, "messages", `found "a"; allowed: a list of messages`},
		{InputsJSON, `[]`, 1, "data", `allowed: a JSON object with a list under "data"`},
		{InputsJSON, "{\n\"data\": 5\n}", 2, "data", `allowed: a JSON object with a list under "data"`},
		{InputsJSON, "{\n\"sessions\": []\n}", 3, "data", `allowed: a JSON object with a list under "data"`},
		{InputsJSON, "{\"data\": [\n{\"session_id\":\"a\",\"payloads\":[{}]},\n{\"payloads\":[{}]}]}", 3, "data[1].session_id", "found nothing; allowed: a string"},
		{InputsJSON, "{\"data\": [\n{\"session_id\":\"a\"}]}", 2, "data[0].payloads", "found nothing"},
		{InputsJSON, "{\"data\": [\n{\"session_id\":\"a\",\"payloads\":[]}]}", 2, "data[0].payloads", "found []"},
		{InputsJSON, "{\"data\": [\n{\"session_id\":\"a\",\"payloads\":[{},5]}]}", 2, "data[0].payloads[1]", "found 5; allowed: a request body"},
		{InputsJSON, "{\"data\": [\n{\"session_id\":\"a\",\"payloads\":[{}]},\n\n{\"session_id\":\"a\",\"payloads\":[{}]}]}", 4, "data[1].session_id", `found "a" a second time`},
		{InputsJSON, "{\"data\": [\n5]}", 2, "data[0]", "found 5; allowed: a JSON object"},
		{InputsJSON, "{\"data\": [\n{\"session_id\":\"a\",\"payloads\":[{}]}", 2, "data", "found the end of the file"},
		{ShareGPT, "{}", 1, "", "allowed: a JSON array"},
		{ShareGPT, "[\n{\"id\":1}]", 2, "[0].conversations", "found nothing; allowed: a list of messages"},
		{ShareGPT, "[\n{\"conversations\":[5]}]", 2, "[0].conversations[0]", "found 5; allowed: an object with from and value"},
		{ShareGPT, "[\n\n}]", 3, "", "no valid JSON"},
	} {
		path := filepath.Join(t.TempDir(), "d")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := options(path)
		o.Format = c.format
		s, err := Open(o)
		if err == nil {
			s.Close()
			t.Errorf("%s %q is taken", c.format, c.text)
			continue
		}
		var fault *RowError
		if !errors.As(err, &fault) {
			t.Errorf("%s %q: %v, which names no row", c.format, c.text, err)
			continue
		}
		if fault.File != path || fault.Line != c.line || fault.Field != c.field || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s %q: %v\nwant line %d, field %q: %s", c.format, c.text, err, c.line, c.field, c.words)
		}
	}
	for _, c := range []struct{ text, words string }{
		{`{"what":1}`, ":1: the row is of none of the formats that prefire knows"},
		{"one,two\n1,2\n", ":1: the row is of none of the formats that prefire knows"},
		{`{"text":"a","input_length":5}`, "can be read as mooncake_trace and as single_turn"},
	} {
		path := filepath.Join(t.TempDir(), "d")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(options(path)); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q: %v, want %q", c.text, err, c.words)
		}
	}
	if _, err := Open(options(filepath.Join(t.TempDir(), "none"))); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open(options(t.TempDir())); err == nil || !strings.Contains(err.Error(), "the dataset folder has no files") {
		t.Errorf("an empty folder: %v", err)
	}
}

// FuzzFiles: whatever a file holds, it is refused, or all of it can be played.
func FuzzFiles(f *testing.F) {
	for i, text := range []string{
		`{"text":"a","session_id":"s"}` + "\n" + `{"texts":["b","c"],"delay":5}`, `{"turns":[{"role":"system","text":"x"},{"text":"y"}]}`, `{"texts":[{"contents":["a"]}]}`,
		`{"input_length":40,"hash_ids":[1,2,3],"timestamp":5}` + "\n" + `{"messages":[{"role":"user"}],"tools":[{}]}`,
		`{"chat_id":1,"parent_chat_id":2,"timestamp":1,"input_length":5,"output_length":0,"hash_ids":[4]}`,
		"Timestamp,Request tokens,Response tokens\n1,5,5\n2,\"6\",7\n", `{"messages":[{"content":[{"type":"text","text":"a"}]}]}`,
		`{"data":[{"session_id":"a","payloads":[{"prompt":"x"}]}]}`, `[{"conversations":[{"from":"human","value":"a b c d"},{"from":"gpt","value":"a b c d"}]}]`,
	} {
		f.Add(i, []byte(text))
	}
	f.Add(99, []byte(`{"text":"a"}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, format int, text []byte) {
		path := filepath.Join(dir, "fuzz")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		o := options(path)
		o.Block, o.Entries = 16, 3
		if all := Formats(); format >= 0 && format < len(all) {
			o.Format = all[format]
		}
		if o.Format.Trace() {
			o.MaxInput = 2000
		}
		s, err := Open(o)
		if err != nil {
			return
		}
		defer s.Close()
		if in, _ := s.Longest(); in > 2000 {
			return // the format was found out, and its prompts would take too long
		}
		for _, session := range take(t, s, profiling, s.Conversations()) {
			if len(session.Turns) == 0 {
				t.Fatalf("%q: a session without turns", text)
			}
			for _, turn := range session.Turns {
				if turn.Raw == nil && len(turn.Messages) == 0 || !turn.Input.Known || turn.Delay < 0 {
					t.Fatalf("%q: turn %+v", text, turn)
				}
			}
		}
	})
}
