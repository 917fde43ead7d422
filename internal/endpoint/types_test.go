package endpoint

import (
	"strings"
	"testing"

	"prefire/loadgen"
	"prefire/loadgen/wire"
)

// The bodies are those that aiperf 0.13.0 sends to these endpoints, with two texts in the second column.
func TestBodiesOfTexts(t *testing.T) {
	one := &loadgen.Turn{Messages: []loadgen.Message{{Content: "hello"}}, MaxTokens: 16}
	two := &loadgen.Turn{Messages: []loadgen.Message{{Role: "system", Content: "a b", Texts: []string{"a", "", "b"}}}}
	extra := []Pair{{"temperature", []byte("0")}}
	for _, c := range []struct {
		o                 Options
		wantOne, wantMany string
	}{
		{Options{Type: Completions},
			`{"prompt":"hello","model":"m","stream":false,"max_tokens":16}`, `{"prompt":["a","b"],"model":"m","stream":false}`},
		{Options{Type: Completions, Streaming: true, Extra: extra},
			`{"prompt":"hello","model":"m","stream":true,"max_tokens":16,"temperature":0,"stream_options":{"include_usage":true}}`,
			`{"prompt":["a","b"],"model":"m","stream":true,"temperature":0,"stream_options":{"include_usage":true}}`},
		{Options{Type: Completions, Streaming: true, Extra: []Pair{{"stream", []byte("false")}}},
			`{"prompt":"hello","model":"m","stream":false,"max_tokens":16}`, `{"prompt":["a","b"],"model":"m","stream":false}`},
		{Options{Type: Embeddings, Streaming: true}, `{"model":"m","input":["hello"]}`, `{"model":"m","input":["a","b"]}`},
		{Options{Type: Embeddings, Extra: append(extra, Pair{"stream", []byte("true")})},
			`{"model":"m","input":["hello"],"temperature":0,"stream":true}`, `{"model":"m","input":["a","b"],"temperature":0,"stream":true}`},
	} {
		e := chat(t, c.o)
		if got := body(t, e, one); got != c.wantOne {
			t.Errorf("%s, one text:\n%s, want\n%s", c.o.Type, got, c.wantOne)
		}
		if got := body(t, e, two); got != c.wantMany {
			t.Errorf("%s, two texts:\n%s, want\n%s", c.o.Type, got, c.wantMany)
		}
		if b, err := e.AppendBody(nil, &loadgen.Turn{Messages: []loadgen.Message{{Role: "user"}}}, nil); err != errNoText || len(b) != 0 {
			t.Errorf("%s, no text: %q, %v", c.o.Type, b, err)
		}
		if e.kind == Embeddings && e.Streaming() {
			t.Error("embeddings stream")
		}
	}
}

func TestChatRendersTextsAsParts(t *testing.T) {
	turn := &loadgen.Turn{Messages: []loadgen.Message{{Role: "user", Content: `a "b"`, Texts: []string{"a", `"b"`}}}}
	const want = `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"\"b\""}]}],"model":"m","stream":false}`
	if got := body(t, chat(t, Options{}), turn); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

func TestATurnsModelStandsAboveTheEndpoints(t *testing.T) {
	turn := user("hi")
	turn.Model = `other "one"`
	if got, want := body(t, chat(t, Options{Type: Completions}), turn), `{"prompt":"hi","model":"other \"one\"","stream":false}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestUsageInEveryChunkIsAskedFor(t *testing.T) {
	for given, want := range map[string]string{
		"": `{"include_usage":true,"continuous_usage_stats":true}`, "null": `{"include_usage":true,"continuous_usage_stats":true}`,
		`{"a":1}`:                          `{"a":1,"include_usage":true,"continuous_usage_stats":true}`,
		`{"continuous_usage_stats":false}`: `{"continuous_usage_stats":false,"include_usage":true}`,
		`{"include_usage":false}`:          `{"include_usage":false,"continuous_usage_stats":true}`,
		"7":                                "7",
	} {
		o := Options{Streaming: true, PerChunkUsage: true}
		if given != "" {
			o.Extra = []Pair{{"stream_options", []byte(given)}}
		}
		_, got, _ := strings.Cut(body(t, chat(t, o), user("hi")), `"stream_options":`)
		if got != want+"}" {
			t.Errorf("given %q: %s, want %s", given, got, want)
		}
	}
}

func TestCompletionsOfVLLM(t *testing.T) {
	e := chat(t, Options{Type: Completions})
	read := func(file string) (out []result) {
		p := e.Parser()
		for _, data := range events(t, file) {
			var d wire.Delta
			out = append(out, found(p.Event(nil, []byte(data), &d), &d))
		}
		return out
	}
	list := read("completions.sse")
	for i, want := range map[int]result{
		0: {class: wire.Content, content: ".meshgrid"}, 1: {class: wire.Content, content: " had"},
		6: {class: wire.UsageOnly, usage: `{"prompt_tokens":10,"total_tokens":16,"completion_tokens":6}`}, 7: {class: wire.Done},
	} {
		if len(list) != 8 || list[i] != want {
			t.Errorf("event %d of %d: %+v, want %+v", i, len(list), list[i], want)
		}
	}
	if last := list[5]; last.class != wire.Content || last.finish != "length" {
		t.Errorf("the last with text: %+v", last)
	}
	if got, want := read("completions-continuous.sse")[0], (result{class: wire.Content, content: " calling",
		usage: `{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1}`}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	const usage = `{"prompt_tokens":6,"total_tokens":12,"completion_tokens":6,"prompt_tokens_details":null,"completion_tokens_details":null}`
	var d wire.Delta
	got := found(e.Parser().Body([]byte(read32(t, "completions-batch.json")), &d), &d)
	// A prompt's choice each: all that the server made is the answer.
	if want := (result{class: wire.Content, content: " dependen `\"</ attentions_promptVisionWindowsetdefault", finish: "length", usage: usage}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	var text strings.Builder
	for _, r := range read("completions-batch.sse") {
		text.WriteString(r.content)
	}
	if !strings.HasPrefix(text.String(), "sapiens Word JetMoeParallelKOSMOSnAudioConfig") {
		t.Errorf("text of two prompts %q", text.String())
	}
}

func TestCompletionShapes(t *testing.T) {
	for _, c := range []struct {
		name, data string
		whole      bool
		want       result
	}{
		{"no object", `{"choices":[{"text":"a"}]}`, false, result{class: wire.Content, content: "a"}},
		{"other name", `{"object":"completion","choices":[{"text":"a"}]}`, true, result{class: wire.Content, content: "a"}},
		{"a chat's", `{"object":"chat.completion.chunk","choices":[{"delta":{"content":"a"}}]}`, false, result{class: wire.Malformed}},
		{"escapes", `{"object":"text_completion","choices":[{"text":"\u00e9\n"}]}`, false, result{class: wire.Content, content: "é\n"}},
		{"no text", `{"object":"text_completion","choices":[{"text":"","finish_reason":"stop"}]}`, false, result{class: wire.Finish, finish: "stop"}},
		{"null text", `{"object":"text_completion","choices":[{"text":null}]}`, false, result{class: wire.Other}},
		{"no choices", `{"object":"text_completion"}`, false, result{class: wire.Other}},
		{"choices of another kind", `{"object":"text_completion","choices":{"text":"a"}}`, false, result{class: wire.Malformed}},
		{"an error", `{"error":{"message":"too long","code":400}}`, true, result{class: wire.Fault, message: "too long", code: 400}},
		{"two in an event", `{"choices":[{"text":"a"},{"text":"b"}]}`, false, result{class: wire.Content, content: "ab"}},
		{"two in an answer", `{"choices":[{"text":"a"},{"text":"b","finish_reason":"stop"}]}`, true, result{class: wire.Content, content: "ab", finish: "stop"}},
	} {
		var d wire.Delta
		p := &parser{kind: Completions}
		class := wire.Other
		if c.whole {
			class = p.Body([]byte(c.data), &d)
		} else {
			class = p.Event(nil, []byte(c.data), &d)
		}
		if got := found(class, &d); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestEmbeddingAnswers(t *testing.T) {
	const two = `[{"object":"embedding","index":0,"embedding":[0.5,-1e-3]},{"index":1,"object":"embedding","embedding":"AAA="}]`
	for _, c := range []struct {
		name, data string
		want       result
	}{
		{"two", `{"object":"list","data":` + two + `,"model":"m","usage":{"prompt_tokens":8,"total_tokens":8}}`,
			result{class: wire.Content, content: two, usage: `{"prompt_tokens":8,"total_tokens":8}`}},
		{"no vector", `{"data":[{"object":"embedding","embedding":null}]}`, result{class: wire.Other}},
		{"none", `{"data":[]}`, result{class: wire.Other}},
		{"no data", `{"object":"list"}`, result{class: wire.Other}},
		{"empty", ` `, result{class: wire.Other}},
		{"another object", `{"data":[{"object":"embedding","embedding":[1]},{"object":"rank"}]}`, result{class: wire.Malformed}},
		{"no list", `{"data":{"object":"embedding"}}`, result{class: wire.Malformed}},
		{"a string in it", `{"data":["embedding"]}`, result{class: wire.Malformed}},
		{"not JSON", `{"data":[{"object":"embedding","embedding":[1]}]`, result{class: wire.Malformed}},
		{"an error", `{"object":"error","message":"no","code":404}`, result{class: wire.Fault, message: "no", code: 404}},
		{"an unusual error", `{"error":["no"]}`, result{class: wire.Fault, message: `["no"]`}},
	} {
		var d wire.Delta
		if got := found(vectors{}.Body([]byte(c.data), &d), &d); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	var d wire.Delta
	if got, want := found(vectors{}.Event([]byte("error"), []byte(`{"message":"gone"}`), &d), &d), (result{class: wire.Fault, message: "gone"}); got != want {
		t.Errorf("an error event: %+v, want %+v", got, want)
	}
	data := []byte(`{"data":[{"object":"embedding","embedding":[` + strings.Repeat("0.0123456789,", 1023) + `1]}]}`)
	if n := testing.AllocsPerRun(20, func() { d.Reset(); vectors{}.Body(data, &d) }); n != 0 {
		t.Errorf("%v allocations an answer", n)
	}
}

func TestPathsAndKinds(t *testing.T) {
	for kind, want := range map[Type]string{Chat: "/v1/chat/completions", Completions: "/v1/completions", Embeddings: "/v1/embeddings"} {
		if got := kind.Path(); got != want || kind.HasTokens() != (kind != Embeddings) || kind.Converses() != (kind == Chat) {
			t.Errorf("%s: path %s", kind, got)
		}
	}
}

func TestAnswersAskedFor(t *testing.T) {
	texts := func(list ...string) *loadgen.Turn {
		turn := new(loadgen.Turn)
		for _, s := range list {
			turn.Messages = append(turn.Messages, loadgen.Message{Content: s})
		}
		return turn
	}
	for _, c := range []struct {
		kind Type
		n    string
		turn *loadgen.Turn
		want int
	}{
		{Chat, "", texts("a"), 1}, {Chat, "", texts("a", "b"), 1}, {Chat, "3", texts("a"), 3}, {Chat, `"x"`, texts("a"), 1},
		{Completions, "", texts("a"), 1}, {Completions, "", texts("a", "b", ""), 2}, {Completions, "2", texts("a", "b", "c"), 6}, {Embeddings, "", texts("a", "b"), 1},
	} {
		o := Options{Type: c.kind, Model: "m"}
		if c.n != "" {
			o.Extra = []Pair{{"n", []byte(c.n)}}
		}
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Answers(c.turn); got != c.want {
			t.Errorf("%s with n %q and %d texts: %d, want %d", c.kind, c.n, len(c.turn.Messages), got, c.want)
		}
	}
}
