package endpoint

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"prefire/loadgen/wire"
	"prefire/sse"
)

// result is what a parser found, in a form that can be compared.
type result struct {
	class                                            wire.Class
	content, reasoning, tool, usage, finish, message string
	code                                             int
	strange                                          string
}

func found(class wire.Class, d *wire.Delta) result {
	return result{class, string(d.Content), string(d.Reasoning), string(d.Tool), string(d.Usage), string(d.Finish), string(d.Message), d.Code, string(d.Strange)}
}

func event(name, data string) result {
	var d wire.Delta
	return found(new(parser).Event([]byte(name), []byte(data), &d), &d)
}

func whole(data string) result {
	var d wire.Delta
	return found(new(parser).Body([]byte(data), &d), &d)
}

// events decodes a recorded stream.
func events(t testing.TB, file string) (list []string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/vllm-0.32.0/" + file)
	if err != nil {
		t.Fatal(err)
	}
	d := sse.NewDecoder(0)
	d.Feed(raw)
	for {
		var ev sse.Event
		ok, err := d.Next(&ev)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return list
		}
		list = append(list, string(ev.Data))
	}
}

func read32(t testing.TB, file string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/vllm-0.32.0/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The streams and answers under testdata/vllm-0.32.0 are what vLLM 0.32.0 answered to curl, with a tiny model of random weights and
// --max-model-len 512.
func TestVLLMStream(t *testing.T) {
	list := events(t, "stream.sse")
	if len(list) != 27 {
		t.Fatalf("%d events", len(list))
	}
	const usage = `{"prompt_tokens":17,"total_tokens":41,"completion_tokens":24}`
	for i, want := range map[int]result{
		0:  {class: wire.Other},
		1:  {class: wire.Content, content: ".meshgrid"},
		2:  {class: wire.Content, content: " had"},
		24: {class: wire.Content, content: "setdefault", finish: "length"},
		25: {class: wire.UsageOnly, usage: usage},
		26: {class: wire.Done},
	} {
		if got := event("", list[i]); got != want {
			t.Errorf("event %d: %+v, want %+v\n%s", i, got, want, list[i])
		}
	}
	var text strings.Builder
	for _, data := range list {
		text.WriteString(event("", data).content)
	}
	const head, in = ".meshgrid hadcy188henomdetocabROUN prous subse feedforward", " `\"</"
	if s := text.String(); !strings.HasPrefix(s, head) || !strings.Contains(s, in) {
		t.Errorf("text %q", s)
	}
}

func TestVLLMUsageInEveryChunk(t *testing.T) {
	list := events(t, "continuous-usage.sse")
	for i, want := range []result{
		{class: wire.UsageOnly, usage: `{"prompt_tokens":13,"total_tokens":13,"completion_tokens":0,"completion_tokens_details":null}`},
		{class: wire.Content, content: "(indices",
			usage: `{"prompt_tokens":13,"total_tokens":14,"completion_tokens":1,"completion_tokens_details":null}`},
	} {
		if got := event("", list[i]); got != want {
			t.Errorf("event %d: %+v, want %+v", i, got, want)
		}
	}
	if got := event("", list[4]); got.content != "\n\n" || got.finish != "length" || got.class != wire.Content {
		t.Errorf("last content: %+v", got)
	}
}

func TestVLLMWholeAnswers(t *testing.T) {
	for file, want := range map[string]result{
		"plain.json": {class: wire.Content, content: " calling EleutherAIlv}). Fol]\nForEmbeddingsV", finish: "length",
			usage: `{"prompt_tokens":13,"total_tokens":21,"completion_tokens":8,"prompt_tokens_details":null,"completion_tokens_details":null}`},
		"unknown-model.json": {class: wire.Fault, message: "The model `nope` does not exist. Valid aliases: tiny.", code: 404},
		"long-output.json": {class: wire.Fault, code: 400, message: "max_completion_tokens=20000 cannot be greater than max_model_len=512. " +
			"Please request fewer output tokens. (parameter=max_completion_tokens, value=20000)"},
	} {
		if got := whole(read32(t, file)); got != want {
			t.Errorf("%s: %+v, want %+v", file, got, want)
		}
	}
}

// delta is a chunk with one choice that has this delta.
func delta(d string) string {
	return `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}

// shapes are answers of all kinds, each with what it means as an event of a stream and where scanned says so without encoding/json.
var shapes = []struct {
	name, data string
	scanned    bool
	want       result
}{
	{"role only", delta(`{"role":"assistant","content":""}`), true, result{class: wire.Other}},
	{"empty delta", delta(`{}`), true, result{class: wire.Other}},
	{"delta null", delta(`null`), true, result{class: wire.Other}},
	{"content null", delta(`{"content":null}`), true, result{class: wire.Other}},
	{"white space is content", delta(`{"content":" "}`), true, result{class: wire.Content, content: " "}},
	{"escapes", delta(`{"content":"\"\\\/\b\f\n\r\t\u00e9\u2028\ud83d\ude00"}`), true,
		result{class: wire.Content, content: "\"\\/\b\f\n\r\té\u2028😀"}},
	{"half a pair", delta(`{"content":"\ud83d!\ude00\ud83d\u0041"}`), true,
		result{class: wire.Content, content: "\uFFFD!\uFFFD\uFFFDA"}},
	{"bytes that are not UTF-8", delta("{\"content\":\"a\xff\xe2\x82z\"}"), true,
		result{class: wire.Content, content: "a\uFFFD\uFFFD\uFFFDz"}},
	{"reasoning_content", delta(`{"reasoning_content":"hm"}`), true, result{class: wire.Reasoning, reasoning: "hm"}},
	{"reasoning", delta(`{"reasoning":"hm"}`), true, result{class: wire.Reasoning, reasoning: "hm"}},
	{"reasoning_content above reasoning", delta(`{"reasoning":"b","reasoning_content":"a"}`), true,
		result{class: wire.Reasoning, reasoning: "a"}},
	{"empty reasoning_content gives way", delta(`{"reasoning_content":"","reasoning":"b"}`), true,
		result{class: wire.Reasoning, reasoning: "b"}},
	{"reasoning_details", delta(`{"content":"","reasoning_details":[{"type":"reasoning.text","text":"h"},{"text":"m"}]}`), false,
		result{class: wire.Reasoning, reasoning: "hm"}},
	{"reasoning_details beside reasoning", delta(`{"reasoning":"hm","reasoning_details":[{"text":"hm"}]}`), true,
		result{class: wire.Reasoning, reasoning: "hm"}},
	{"reasoning and content", delta(`{"reasoning":"a","content":"b"}`), true,
		result{class: wire.Content, reasoning: "a", content: "b"}},
	{"tool name", delta(`{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"get_weather","arguments":""}}]}`), true,
		result{class: wire.Tool, tool: "get_weather"}},
	{"tool arguments", delta(`{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"{\"city\": \"Oslo\"}"}}]}`), true,
		result{class: wire.Tool, tool: `{"city": "Oslo"}`}},
	{"two tools", delta(`{"tool_calls":[{"function":{"arguments":"1","name":"f"}},{"function":{"name":"g","arguments":"2"}}]}`), true,
		result{class: wire.Tool, tool: "f1g2"}},
	{"tool and content", delta(`{"content":"say","tool_calls":[{"function":{"name":"f"}}]}`), true,
		result{class: wire.Content, content: "say", tool: "f"}},
	{"tool, escaped content and reasoning share the scratch",
		delta(`{"tool_calls":[{"function":{"name":"\t"}}],"content":"\n","reasoning":"\\"}`), true,
		result{class: wire.Content, content: "\n", reasoning: `\`, tool: "\t"}},
	{"function null", delta(`{"tool_calls":[{"index":0,"function":null}]}`), true, result{class: wire.Other}},
	{"tool call null", delta(`{"tool_calls":[null,{"function":{"name":"f"}}]}`), false, result{class: wire.Tool, tool: "f"}},
	{"tool_calls null", delta(`{"tool_calls":null,"content":"x"}`), true, result{class: wire.Content, content: "x"}},
	{"tool_calls empty", delta(`{"content":"x","tool_calls":[]}`), true, result{class: wire.Content, content: "x"}},
	{"arguments as an object", delta(`{"tool_calls":[{"function":{"name":"f","arguments":{"a": 1}}}]}`), false,
		result{class: wire.Tool, tool: `f{"a": 1}`}},
	{"arguments as an empty object", delta(`{"tool_calls":[{"function":{"name":"f","arguments":{ }}}]}`), false,
		result{class: wire.Tool, tool: "f"}},
	{"function_call", delta(`{"function_call":{"name":"f","arguments":"{}"}}`), true, result{class: wire.Tool, tool: "f{}"}},
	{"function_call beside tool_calls", delta(`{"function_call":{"name":"f"},"tool_calls":[{"function":{"name":"f"}}]}`), true,
		result{class: wire.Tool, tool: "f"}},
	{"content as parts", delta(`{"content":[{"type":"text","text":"a"},"b",{"type":"image_url"},null,{"text":"c"}]}`), false,
		result{class: wire.Content, content: "abc"}},
	{"content as a number", delta(`{"content":5}`), false, result{class: wire.Other}},
	{"delta is a string", delta(`"x"`), true, result{class: wire.Malformed}},
	{"duplicate keys: the last one", `{"choices":[{"delta":{"content":"x"}}],"choices":[{"delta":{"content":"a","content":"b"}}]}`, true,
		result{class: wire.Content, content: "b"}},
	{"a key with escapes", `{"choices":[{"delta":{"c\u006fntent":"b"}}]}`, false, result{class: wire.Content, content: "b"}},
	{"finish", `{"object":"chat.completion.chunk","choices":[{"delta":{},"finish_reason":"stop"}]}`, true,
		result{class: wire.Finish, finish: "stop"}},
	{"finish with content", `{"choices":[{"finish_reason":"length","delta":{"content":"x"}}]}`, true,
		result{class: wire.Content, content: "x", finish: "length"}},
	{"finish with usage", `{"choices":[{"finish_reason":"length","delta":{}}],"usage":{"total_tokens":1}}`, true,
		result{class: wire.UsageOnly, finish: "length", usage: `{"total_tokens":1}`}},
	{"finish empty", `{"choices":[{"finish_reason":"","delta":{"content":"x"}}]}`, true, result{class: wire.Content, content: "x"}},
	{"finish is a number", `{"choices":[{"finish_reason":5,"delta":{"content":"x"}}]}`, true, result{class: wire.Content, content: "x"}},
	{"usage null", `{"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}],"usage":null}`, true,
		result{class: wire.Content, content: "x"}},
	{"usage empty", `{"choices":[],"usage":{ }}`, true, result{class: wire.Other}},
	{"usage is a number", `{"choices":[],"usage":5}`, true, result{class: wire.Other}},
	{"usage with choices null", `{"choices":null,"usage": {"a" :1} }`, true, result{class: wire.UsageOnly, usage: `{"a" :1}`}},
	{"all choices", `{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"},"finish_reason":"stop"}]}`, false,
		result{class: wire.Content, content: "ab", finish: "stop"}},
	{"the first choice is empty", `{"choices":[{"delta":{"content":""}},{"delta":{"content":"b"}}]}`, false, result{class: wire.Content, content: "b"}},
	{"choices of all kinds", `{"choices":[{"delta":{"reasoning":"r"},"finish_reason":"length"},{"delta":{"tool_calls":[{"function":{"name":"f"}}]}},{"delta":{"content":"b"},"finish_reason":"stop"}]}`,
		false, result{class: wire.Content, content: "b", reasoning: "r", tool: "f", finish: "length"}},
	{"an error as FastAPI writes it", `{"detail":"no"}`, true, result{class: wire.Fault, message: "no"}},
	{"a list of them", `{"detail":[{"msg":"no"}]}`, true, result{class: wire.Fault, message: `{"detail":[{"msg":"no"}]}`}},
	{"detail beside choices", `{"detail":"no","choices":[]}`, true, result{class: wire.Other}},
	{"detail beside usage", `{"usage":{"a":1},"detail":"no"}`, true, result{class: wire.UsageOnly, usage: `{"a":1}`}},
	{"detail null", `{"detail":null}`, true, result{class: wire.Other}},
	{"thinking", delta(`{"thinking":"a"}`), true, result{class: wire.Reasoning, reasoning: "a"}},
	{"thinking after reasoning", delta(`{"thinking":"a","reasoning":"b"}`), true, result{class: wire.Reasoning, reasoning: "b"}},
	{"text under another name", delta(`{"role":"assistant","speech":"a","refusal":"b"}`), true, result{class: wire.Other, strange: "refusal"}},
	{"text under another name beside content", delta(`{"content":"x","speech":"a"}`), true, result{class: wire.Content, content: "x", strange: "speech"}},
	{"the later value of another name", delta(`{"speech":"a","speech":null}`), false, result{class: wire.Other}},
	{"no text under another name", delta(`{"content":"x","speech":null,"refusal":"","score":1}`), true, result{class: wire.Content, content: "x"}},
	{"choice null", `{"choices":[null]}`, true, result{class: wire.Other}},
	{"choice is a number", `{"choices":[5]}`, true, result{class: wire.Malformed}},
	{"choices is an object", `{"choices":{"0":{"delta":{"content":"a"}}}}`, true, result{class: wire.Malformed}},
	{"no choices", `{"object":"chat.completion.chunk"}`, true, result{class: wire.Other}},
	{"ping", `{"type":"ping"}`, true, result{class: wire.Other}},
	{"no object", `{"choices":[{"delta":{"content":"a"}}]}`, true, result{class: wire.Content, content: "a"}},
	{"object null", `{"object":null,"choices":[{"delta":{"content":"a"}}]}`, true, result{class: wire.Content, content: "a"}},
	{"object empty", `{"object":"","choices":[{"message":{"content":"a"}}]}`, true, result{class: wire.Content, content: "a"}},
	{"object of another API, its usage", `{"object":"text_completion","choices":[{"text":"a"}],"usage":{"total_tokens":1}}`, true,
		result{class: wire.Malformed, usage: `{"total_tokens":1}`}},
	{"object is a number", `{"object":5,"choices":[{"delta":{"content":"a"}}]}`, true, result{class: wire.Malformed}},
	{"object with escapes", `{"object":"chat.complet\u0069on.chunk","choices":[{"delta":{"content":"a"}}]}`, false,
		result{class: wire.Content, content: "a"}},
	{"a whole answer as an event", `{"object":"chat.completion","choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, true,
		result{class: wire.Content, content: "a", finish: "stop"}},
	{"a chunk's message is not read", `{"object":"chat.completion.chunk","choices":[{"message":{"content":"a"}}]}`, true,
		result{class: wire.Other}},
	{"spread over lines", "{\n \"choices\" : [ { \"delta\" : { \"content\" : \"a\" } } ]\n}", true, result{class: wire.Content, content: "a"}},
	{"a line feed inside a string", "{\"choices\":[{\"delta\":{\"content\":\"a\nb \\\" \n\"}}]}", false,
		result{class: wire.Content, content: "a\nb \" \n"}},
	{"error object", `{"error": {"message":"it \"broke\"","type":"InternalServerError","param":null,"code":500}}`, true,
		result{class: wire.Fault, message: `it "broke"`, code: 500}},
	{"error with a code in words", `{"error":{"message":"m","code":"context_length_exceeded"}}`, true,
		result{class: wire.Fault, message: "m"}},
	{"error with a code in a string", `{"error":{"message":"m","code":"429"}}`, true, result{class: wire.Fault, message: "m", code: 429}},
	{"error without a message", `{"error":{"type":"x", "code":7}}`, true,
		result{class: wire.Fault, message: `{"type":"x", "code":7}`, code: 7}},
	{"error text", `{"error":"no\tgood","code":5}`, true, result{class: wire.Fault, message: "no\tgood"}},
	{"error true", `{"error":true}`, false, result{class: wire.Fault, message: "true"}},
	{"error list", `{"error":["a"]}`, false, result{class: wire.Fault, message: `["a"]`}},
	{"error null is none", `{"error":null,"choices":[{"delta":{"content":"a"}}]}`, true, result{class: wire.Content, content: "a"}},
	{"error empty is none", `{"error":{ },"choices":[{"delta":{"content":"a"}}]}`, true, result{class: wire.Content, content: "a"}},
	{"error zero is none", `{"error":0.0,"choices":[{"delta":{"content":"a"}}]}`, false, result{class: wire.Content, content: "a"}},
	{"error with content and usage",
		`{"error":{"message":"m"},"choices":[{"delta":{"content":"a"},"finish_reason":"error"}],"usage":{"total_tokens":1}}`, true,
		result{class: wire.Fault, message: "m", usage: `{"total_tokens":1}`}},
	{"object error", `{"object":"error","message":"The model ` + "`x`" + ` does not exist","type":"NotFoundError","code":404}`, true,
		result{class: wire.Fault, message: "The model `x` does not exist", code: 404}},
	{"object error without a message", `{"object":"error","code":404}`, true,
		result{class: wire.Fault, message: `{"object":"error","code":404}`, code: 404}},
	{"type error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, true,
		result{class: wire.Fault, message: "Overloaded"}},
	{"type error alone", `{"type":"error","code":"500","message":"boom"}`, true, result{class: wire.Fault, message: "boom", code: 500}},
	{"type error with escapes", `{"type":"err\u006fr","message":"boom"}`, false, result{class: wire.Fault, message: "boom"}},
	{"not JSON", `{"choices":[{"delta":{"content":"a"`, false, result{class: wire.Malformed}},
	{"trailing bytes", `{"choices":[]}x`, false, result{class: wire.Malformed}},
	{"trailing comma", `{"choices":[],}`, false, result{class: wire.Malformed}},
	{"a list", `[{"choices":[]}]`, false, result{class: wire.Malformed}},
	{"null", `null`, false, result{class: wire.Malformed}},
	{"a bare word", `ping`, false, result{class: wire.Malformed}},
	{"a number with a leading zero", `{"created":01}`, false, result{class: wire.Malformed}},
	{"deep", `{"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `,"choices":[{"delta":{"content":"a"}}]}`, false,
		result{class: wire.Content, content: "a"}},
}

func TestEvent(t *testing.T) {
	for _, c := range shapes {
		if got := event("", c.data); got != c.want {
			t.Errorf("%s:\n%s\ngot  %+v\nwant %+v", c.name, c.data, got, c.want)
		}
		var d wire.Delta
		if _, ok := new(parser).walk([]byte(c.data), false, &d); ok != c.scanned {
			t.Errorf("%s: scanned without encoding/json: %v", c.name, ok)
		}
	}
}

func TestEventNamesAndEmptyData(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       result
	}{
		{"", "", result{class: wire.Other}},
		{"", " \n ", result{class: wire.Other}},
		{"", " [DONE] ", result{class: wire.Done}},
		{"", "[done]", result{class: wire.Malformed}},
		{"message", delta(`{"content":"x"}`), result{class: wire.Content, content: "x"}},
		{"error", "", result{class: wire.Fault}},
		{" Error ", "it broke\n", result{class: wire.Fault, message: "it broke"}},
		{"ERROR", `{"error":{"message":"m","code":503}}`, result{class: wire.Fault, message: "m", code: 503}},
		{"error", `{"message":"m","code":503}`, result{class: wire.Fault, message: "m", code: 503}},
		{"error", `{"detail":"m"}`, result{class: wire.Fault, message: "m"}},
		{"error", delta(`{"content":"x"}`), result{class: wire.Fault, message: delta(`{"content":"x"}`)}},
		{"errors", delta(`{"content":"x"}`), result{class: wire.Content, content: "x"}},
	} {
		if got := event(c.name, c.data); got != c.want {
			t.Errorf("event %q, data %q:\ngot  %+v\nwant %+v", c.name, c.data, got, c.want)
		}
	}
}

func TestBodyOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		data string
		want result
	}{
		{"", result{class: wire.Other}},
		{" \r\n", result{class: wire.Other}},
		{"\xef\xbb\xbf" + `{"choices":[{"message":{"content":"a"}}]}`, result{class: wire.Content, content: "a"}},
		{`{"object":"chat.completion","choices":[{"message":{"content":"b","reasoning":"a","tool_calls":[{"function":{"name":"f"}}]},` +
			`"finish_reason":"tool_calls"}],"usage":{"total_tokens":3}}`,
			result{class: wire.Content, content: "b", reasoning: "a", tool: "f", finish: "tool_calls", usage: `{"total_tokens":3}`}},
		{`{"choices":[{"delta":{"content":"d"},"message":{"content":"m"}}]}`, result{class: wire.Content, content: "m"}},
		{`{"choices":[{"delta":{"content":"d"},"message":null}]}`, result{class: wire.Content, content: "d"}},
		{`{"object":"error","message":"m","code":400}`, result{class: wire.Fault, message: "m", code: 400}},
		{`{"error":{"message":"m"}}`, result{class: wire.Fault, message: "m"}},
		{`<html>proxy</html>`, result{class: wire.Malformed}},
		{`{"object":"list","data":[]}`, result{class: wire.Malformed}},
	} {
		if got := whole(c.data); got != c.want {
			t.Errorf("%q:\ngot  %+v\nwant %+v", c.data, got, c.want)
		}
	}
}

// A parser that has read an event with escapes must not leave any of it to the next.
func TestScratchIsReused(t *testing.T) {
	var d wire.Delta
	p := new(parser)
	p.Event(nil, []byte(delta(`{"content":"\n\n\n","tool_calls":[{"function":{"name":"\t"}}]}`)), &d)
	d.Reset()
	class := p.Event(nil, []byte(delta(`{"content":"\\"}`)), &d)
	if got, want := found(class, &d), (result{class: wire.Content, content: `\`}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestChunkAllocatesNothing(t *testing.T) {
	var d wire.Delta
	p := chat(t, Options{}).Parser()
	list := events(t, "stream.sse")
	list = append(list, events(t, "continuous-usage.sse")...)
	for _, c := range shapes {
		if c.scanned {
			list = append(list, c.data)
		}
	}
	for _, text := range list {
		data := []byte(text)
		if n := testing.AllocsPerRun(100, func() {
			d.Reset()
			p.Event(nil, data, &d)
		}); n != 0 {
			t.Errorf("%v allocations for %s", n, text)
		}
	}
}

// FuzzWalk: what the walker reads is what encoding/json reads.
func FuzzWalk(f *testing.F) {
	// What the mock's faults send.
	for _, data := range []string{
		`{"error":{"message":"the engine died","code":"503"},"choices":[]}`,
		`{"type":"error","error":{"type":"overloaded_error","message":"the engine died"}}`,
		`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" ha`,
		`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":" a"}]}}],"usage":null}`,
		`{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":"5","total_tokens":"13","completion_tokens":"8"}}`,
	} {
		f.Add([]byte(data), false)
	}
	for _, c := range shapes {
		f.Add([]byte(c.data), false)
		f.Add([]byte(c.data), true)
	}
	for _, data := range append(events(f, "stream.sse"), read32(f, "plain.json"), read32(f, "unknown-model.json")) {
		f.Add([]byte(data), true)
	}
	for _, data := range append(events(f, "completions-batch.sse"), read32(f, "completions.json"), read32(f, "completions-batch.json")) {
		f.Add([]byte(data), false)
		f.Add([]byte(data), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		data = bytes.TrimSpace(data)
		before := bytes.Clone(data)
		for _, kind := range []Type{Chat, Completions} {
			var d, e, again wire.Delta
			p := &parser{kind: kind}
			class, ok := p.walk(data, whole, &d)
			want := found(p.decode(data, whole, &e), &e)
			if ok && found(class, &d) != want {
				t.Errorf("%s: %q (whole %v):\nwalk   %+v\ndecode %+v", kind, data, whole, found(class, &d), want)
			}
			got := found(p.Event(nil, data, &again), &again)
			if whole {
				again = wire.Delta{}
				got = found(p.Body(data, &again), &again)
			}
			if bom := bytes.HasPrefix(data, []byte("\xef\xbb\xbf")); len(data) > 0 && string(data) != "[DONE]" && !bom && got != want {
				t.Errorf("%s: %q (whole %v):\nparser %+v\ndecode %+v", kind, data, whole, got, want)
			}
		}
		if !bytes.Equal(data, before) {
			t.Errorf("the data was changed: %q to %q", before, data)
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	for _, c := range []struct{ name, data string }{
		{"content", `{"id":"chatcmpl-948de6b95a66eaad","object":"chat.completion.chunk","created":1796058515,"model":"tiny","choices":[{"index":0,` +
			`"delta":{"content":" feedforward"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`},
		{"escaped", `{"id":"chatcmpl-948de6b95a66eaad","object":"chat.completion.chunk","created":1796058515,"model":"tiny","choices":[{"index":0,` +
			`"delta":{"content":" \"a\"\n\u00e9"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`},
		{"usage", `{"id":"chatcmpl-948de6b95a66eaad","object":"chat.completion.chunk","created":1796058515,"model":"tiny","choices":[],` +
			`"usage":{"prompt_tokens":17,"total_tokens":41,"completion_tokens":24},"system_fingerprint":"vllm-0.32.0-f843b8cc"}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var d wire.Delta
			p := new(parser)
			data := []byte(c.data)
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				d.Reset()
				p.Event(nil, data, &d)
			}
		})
	}
}
