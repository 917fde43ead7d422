package endpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"os"
	"strings"
	"testing"

	"prefire/internal/orjson"
	"prefire/loadgen"
)

func user(text string) *loadgen.Turn {
	return &loadgen.Turn{Messages: []loadgen.Message{{Role: "user", Content: text}}}
}

func limited(text string, n int) *loadgen.Turn {
	t := user(text)
	t.MaxTokens = n
	return t
}

func chat(t testing.TB, o Options) *Endpoint {
	t.Helper()
	o.Type, o.Model = cmp.Or(o.Type, Chat), cmp.Or(o.Model, "m")
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func body(t testing.TB, c *Endpoint, turn *loadgen.Turn, history ...loadgen.Message) string {
	t.Helper()
	b, err := c.AppendBody([]byte("before"), turn, history)
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := bytes.CutPrefix(b, []byte("before"))
	if !ok {
		t.Fatalf("AppendBody does not append: %q", b)
	}
	return string(rest)
}

// The bodies that aiperf 0.13.0 sent to a server that writes down what it gets: aiperf profile --model m --tokenizer builtin --ui none
// --request-count 1 --isl 5 with the flags beside each line's options.
func TestBodyIsAiperfs(t *testing.T) {
	f, err := os.Open("testdata/aiperf-0.13.0/bodies.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases := []struct {
		flags  string
		o      Options
		osl    int
		prompt string
	}{
		{"--streaming --osl 16", Options{Streaming: true}, 16, " curse awhile YORK Curse mis"},
		{"--osl 16", Options{}, 16, " which more enriched Shall be"},
		{`--streaming --osl 16 --extra-inputs '{"max_tokens":0,"temperature":0.5,…}'`, Options{Streaming: true, Extra: []Pair{
			{"max_tokens", []byte("0")}, {"temperature", []byte("0.5")}, {"ignore_eos", []byte("true")},
			{"stream_options", []byte(`{ "x": "\u00e9<>&\u2028\u0001\ud83d\ude00" }`)},
			{"n", []byte("1.0")}, {"e", []byte("1e-7")}, {"big", []byte("1e+22")},
		}}, 16, " our everlasting farewell take For"},
		{`--streaming --extra-inputs '{"stream":false}' --use-legacy-max-tokens --osl 3`, Options{Streaming: true, LegacyMaxTokens: true,
			Extra: []Pair{{"stream", []byte("false")}}}, 3, " crooked knife 101 O"},
		{`--streaming --osl 16 --extra-inputs '{"model":"other",…}'`, Options{Streaming: true, Extra: []Pair{
			{"model", []byte(`"other"`)}, {"max_completion_tokens", []byte("7")}, {"stream_options", []byte("null")},
			{"z", []byte(`[1, {"a": null}]`)},
		}}, 16, " lack his right And thou"},
		{`--streaming --osl 16 --extra-inputs '{"stream_options":{"include_usage":false,"y":1},"min_tokens":16}'`, Options{Streaming: true,
			Extra: []Pair{{"stream_options", []byte(`{"include_usage":false,"y":1}`)}, {"min_tokens", []byte("16")}}}, 16, " An open place by the"},
		{`--osl 16 --extra-inputs '{"stream":true}' --use-legacy-max-tokens`, Options{LegacyMaxTokens: true,
			Extra: []Pair{{"stream", []byte("true")}}}, 16, "Y I take my leave"},
		{`--streaming --extra-inputs '{"max_completion_tokens":9,"stream_options":"x"}'`, Options{Streaming: true,
			Extra: []Pair{{"max_completion_tokens", []byte("9")}, {"stream_options", []byte(`"x"`)}}}, 0, " I SECOND GUARD Nor"},
	}
	lines := bufio.NewScanner(f)
	for _, c := range cases {
		if !lines.Scan() {
			t.Fatalf("no line for %s", c.flags)
		}
		if got := body(t, chat(t, c.o), limited(c.prompt, c.osl)); got != lines.Text() {
			t.Errorf("%s:\ngot  %s\nwant %s", c.flags, got, lines.Text())
		}
	}
	if lines.Scan() {
		t.Errorf("a line without a case: %s", lines.Text())
	}
}

func TestBodyHistory(t *testing.T) {
	c := chat(t, Options{Streaming: true})
	turn := limited("and then?", 8)
	got := body(t, c, turn, loadgen.Message{Role: "system", Content: "SYS"}, loadgen.Message{Role: "user", Content: "hello"},
		loadgen.Message{Role: "assistant", Content: ""})
	want := `{"messages":[{"role":"system","content":"SYS"},{"role":"user","content":"hello"},{"role":"assistant","content":""},` +
		`{"role":"user","content":"and then?"}],"model":"m","stream":true,"max_completion_tokens":8,"stream_options":{"include_usage":true}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBodyRules(t *testing.T) {
	hi := `{"messages":[{"role":"user","content":"hi"}],"model":"m",`
	cases := []struct {
		name string
		o    Options
		max  int
		want string
	}{
		{"no limit", Options{Streaming: true}, 0, hi + `"stream":true,"stream_options":{"include_usage":true}}`},
		{"plain", Options{}, 0, hi + `"stream":false}`},
		{"legacy limit", Options{LegacyMaxTokens: true}, 5, hi + `"stream":false,"max_tokens":5}`},
		{"both limits stay", Options{Extra: []Pair{{"max_tokens", []byte("9")}}}, 5,
			hi + `"stream":false,"max_completion_tokens":5,"max_tokens":9}`},
		{"a limit among the extras is in the extras' place where the turn has none",
			Options{Extra: []Pair{{"a", []byte("1")}, {"max_completion_tokens", []byte("9")}}}, 0,
			hi + `"stream":false,"a":1,"max_completion_tokens":9}`},
		{"and in the limit's where it has one",
			Options{Extra: []Pair{{"a", []byte("1")}, {"max_completion_tokens", []byte("9")}}}, 5,
			hi + `"stream":false,"max_completion_tokens":9,"a":1}`},
		{"messages replaced", Options{Extra: []Pair{{"messages", []byte("[ ]")}}}, 0, `{"messages":[],"model":"m","stream":false}`},
		{"the last of two", Options{Extra: []Pair{{"a", []byte("1")}, {"b", []byte("2")}, {"a", []byte("3")}}}, 0,
			hi + `"stream":false,"a":3,"b":2}`},
		{"stream as a number is kept and is true", Options{Extra: []Pair{{"stream", []byte("1")}}}, 0,
			hi + `"stream":1,"stream_options":{"include_usage":true}}`},
		{"empty stream_options", Options{Streaming: true, Extra: []Pair{{"stream_options", []byte("{ }")}}}, 0,
			hi + `"stream":true,"stream_options":{"include_usage":true}}`},
		{"include_usage null stands", Options{Streaming: true, Extra: []Pair{{"stream_options", []byte(`{"include_usage":null}`)}}}, 0,
			hi + `"stream":true,"stream_options":{"include_usage":null}}`},
		{"stream_options as given where nothing streams", Options{Extra: []Pair{{"stream_options", []byte(`{"a":1}`)}}}, 0,
			hi + `"stream":false,"stream_options":{"a":1}}`},
		{"white space inside strings stays", Options{Extra: []Pair{{"k \"", []byte(` [ "a b\/\u0041" , { "c" : 1 } ] `)}}}, 0,
			hi + `"stream":false,"k \"":["a b/A",{"c":1}]}`},
	}
	for _, c := range cases {
		if got := body(t, chat(t, c.o), limited("hi", c.max)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// What a row of a file brings stands above the endpoint's own, in the order in which aiperf merges it.
func TestBodyOfATurnWithFieldsOfItsOwn(t *testing.T) {
	tools := []byte(`[{"type":"function","function":{"name":"f"}}]`)
	messages := func(j string) []loadgen.Message {
		return []loadgen.Message{{Role: "user", Content: "hi", JSON: []byte(j)}}
	}
	parts := `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`
	hi := `{"messages":[{"role":"user","content":"hi"}],"model":"m",`
	c := chat(t, Options{Streaming: true, Extra: []Pair{{"temperature", []byte("1")}, {"z", []byte("0")}}})
	for _, tc := range []struct {
		name string
		turn loadgen.Turn
		want string
	}{
		{"extra", loadgen.Turn{Messages: limited("hi", 0).Messages, MaxTokens: 3, Extra: []loadgen.Field{
			{Key: "temperature", JSON: []byte("0")}, {Key: "min_tokens", JSON: []byte("3")}}},
			hi + `"stream":true,"max_completion_tokens":3,"temperature":0,"z":0,"min_tokens":3,"stream_options":{"include_usage":true}}`},
		{"extra that turns the stream off", loadgen.Turn{Messages: limited("hi", 0).Messages, Extra: []loadgen.Field{{Key: "stream", JSON: []byte("false")}}},
			hi + `"stream":false,"temperature":1,"z":0}`},
		{"tools", loadgen.Turn{Messages: limited("hi", 0).Messages, MaxTokens: 3, Tools: tools},
			hi + `"stream":true,"tools":` + string(tools) + `,"max_completion_tokens":3,"temperature":1,"z":0,"stream_options":{"include_usage":true}}`},
		{"content in parts", loadgen.Turn{Messages: messages(parts)},
			`{"messages":[` + parts + `],"model":"m","stream":true,"temperature":1,"z":0,"stream_options":{"include_usage":true}}`},
		{"raw", loadgen.Turn{Raw: []byte(`{"prompt":"x"}`), MaxTokens: 3, Extra: []loadgen.Field{{Key: "a", JSON: []byte("1")}}}, `{"prompt":"x"}`},
	} {
		if got := body(t, c, &tc.turn); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestStreamingIsOneDecision(t *testing.T) {
	for _, c := range []struct {
		given  bool
		stream string // among the extras; "" = none
		want   bool
	}{
		{true, "", true}, {false, "", false}, {true, "false", false}, {false, "true", true}, {true, "null", false}, {true, "0", false},
		{true, "0.0", false}, {true, "-0e5", false}, {false, "0.1", true}, {true, `""`, false}, {false, `"no"`, true}, {true, "[ ]", false},
		{true, "{}", false}, {false, "[0]", true},
	} {
		o := Options{Model: "m", Streaming: c.given}
		if c.stream != "" {
			o.Extra = []Pair{{"stream", []byte(c.stream)}}
		}
		ep := chat(t, o)
		if ep.Streaming() != c.want {
			t.Errorf("Streaming %v, extra %q: %v", c.given, c.stream, ep.Streaming())
		}
		h, err := ep.Header(HeaderOptions{UserAgent: "prefire/1"})
		if err != nil {
			t.Fatal(err)
		}
		want := "application/json"
		if c.want {
			want = "text/event-stream"
		}
		if got := h.Fixed[find(h.Fixed, "Accept")].Value; got != want {
			t.Errorf("Streaming %v, extra %q: Accept %q, want %q", c.given, c.stream, got, want)
		}
		if got := strings.Contains(body(t, ep, user("hi")), "include_usage"); got != c.want {
			t.Errorf("Streaming %v, extra %q: asks for usage: %v", c.given, c.stream, got)
		}
	}
}

func TestNewErrors(t *testing.T) {
	if _, err := New(Options{Type: Chat}); err == nil || err.Error() != "an endpoint of type chat needs the name of a model" {
		t.Errorf("no model: %v", err)
	}
	if _, err := New(Options{Type: "rankings", Model: "m"}); err == nil || err.Error() != `"rankings" is no type of endpoint` {
		t.Errorf("no such type: %v", err)
	}
	_, err := New(Options{Type: Chat, Model: "m", Extra: []Pair{{"temperature", []byte("0.")}}})
	if err == nil || !strings.HasPrefix(err.Error(), `extra field "temperature" is not JSON: `) {
		t.Errorf("bad extra: %v", err)
	}
	b, err := chat(t, Options{}).AppendBody(nil, &loadgen.Turn{}, nil)
	if err != errNoMessages || len(b) != 0 {
		t.Errorf("no messages: %q, %v", b, err)
	}
}

// The strings are those of orjson 3.11.9: orjson.dumps of all characters below U+0020 and some others.
func TestStringIsOrjsons(t *testing.T) {
	var in []byte
	for c := range 0x20 {
		in = append(in, byte(c))
	}
	in = append(in, "\"\\/\x7f\u0080\u2028\ufeff😀<>&"...)
	want := `"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017` +
		`\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f\"\\/` + "\x7f\xc2\x80\xe2\x80\xa8\xef\xbb\xbf\xf0\x9f\x98\x80<>&\""
	if got := string(orjson.AppendString(nil, string(in))); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestBodyAllocatesNothing(t *testing.T) {
	c := chat(t, Options{Streaming: true, Extra: []Pair{{"ignore_eos", []byte("true")}}})
	turn := limited(strings.Repeat("a prompt with \"quotes\" and ünïcode\n", 500), 128)
	var buf []byte
	if n := testing.AllocsPerRun(100, func() { buf, _ = c.AppendBody(buf[:0], turn, nil) }); n != 0 {
		t.Errorf("%v allocations a body", n)
	}
}

func BenchmarkBody(b *testing.B) {
	c := chat(b, Options{Streaming: true})
	turn := limited(strings.Repeat("some words of a prompt ", 900), 128)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = c.AppendBody(buf[:0], turn, nil)
	}
	b.SetBytes(int64(len(buf)))
}
