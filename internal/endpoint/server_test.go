package endpoint

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseModels(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []Model
		err        string
	}{
		{"vLLM 0.32", read32(t, "models.json"), []Model{{"tiny", 512}}, ""},
		{"OpenAI", `{"object":"list","data":[{"id":"a","object":"model"},{"id":"b"}]}`, []Model{{"a", 0}, {"b", 0}}, ""},
		{"null length", `{"data":[{"id":"a","max_model_len":null},{"max_model_len":5}]}`, []Model{{"a", 0}}, ""},
		{"no models", `{"data":[]}`, nil, ""},
		{"an error", `{"error":{"message":"no"}}`, nil, `the answer is not a list of models: it has no "data"`},
		{"not JSON", `<html>`, nil, "the answer is not a list of models: invalid character"},
		{"wrong type", `{"data":[{"id":5}]}`, nil, "the answer is not a list of models: json: cannot unmarshal number"},
	} {
		got, err := ParseModels([]byte(c.body))
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.err)
		}
	}
}

func TestIsContextOverflow(t *testing.T) {
	for text, want := range map[string]bool{
		read32(t, "long-prompt.json"):                          true,
		"This model's MAXIMUM CONTEXT is 5":                    true,
		`{"error":{"code":"context_length_exceeded"}}`:         true,
		`{"error":{"message":"the \u0043ontext\u0020length"}}`: true,
		`{"error":"prompt\u0020is too long"}`:                  true,
		`{"detail":"your prompt is too long for it"}`:          true,
		"":                              false,
		"the prompt is long":            false,
		read32(t, "unknown-model.json"): false,
		`{"error":{"message":5}}`:       false,
		read32(t, "long-output.json"):   false, // aiperf's words do not hold this one either
	} {
		if got := IsContextOverflow(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestContextFigures(t *testing.T) {
	for _, c := range []struct {
		text         string
		limit, asked int
		ok           bool
	}{
		{read32(t, "long-prompt.json"), 512, 513, true},
		{read32(t, "long-output.json"), 512, 20000, true},
		{"This model's maximum context length is 512 tokens. However, you requested 16 output tokens and your prompt contains at least 497 " +
			"input tokens, for a total of at least 513 tokens. Please reduce the length", 512, 513, true},
		{"This model's maximum context length is 512 tokens. However, you requested 16 output tokens and your prompt contains 500 input tokens.",
			512, 516, true},
		{"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8500 in the messages, 500 in the completion).",
			8192, 9000, true},
		{"This model's maximum context length is 4097 tokens. However, your messages resulted in 5000 tokens.", 4097, 5000, true},
		{"'max_tokens' or 'max_completion_tokens' is too large: 600. This model's maximum context length is 512 tokens and your request has " +
			"6 input tokens (600 > 512 - 6).", 512, 606, true},
		{"This model's maximum context length is 512 tokens. However, your prompt contains 200000 characters (more than 100 characters, which " +
			"is the upper bound for 512 input tokens).", 512, 0, true},
		{"Rate limit reached", 0, 0, false},
		{"maximum context length is 99999999999999999999 tokens", 0, 0, false},
	} {
		limit, asked, ok := ContextFigures(c.text)
		if limit != c.limit || asked != c.asked || ok != c.ok {
			t.Errorf("%q: %d, %d, %v; want %d, %d, %v", c.text, limit, asked, ok, c.limit, c.asked, c.ok)
		}
	}
}

func TestErrorText(t *testing.T) {
	for body, want := range map[string]string{
		read32(t, "unknown-model.json"):    "The model `nope` does not exist. Valid aliases: tiny.",
		`{"object":"error","message":"m"}`: "m",
		`{"error":"m"}`:                    "m",
		`{"message":"m"}`:                  "m",
		`{"detail":"Not Found"}`:           "Not Found",
		`{"detail":[{"loc":["body"]}]}`:    `{"detail":[{"loc":["body"]}]}`,
		" Unauthorized\n":                  "Unauthorized",
		"":                                 "",
	} {
		if got := ErrorText(body); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}
