package endpoint

import (
	"testing"

	"prefire/metrics"
)

func k(n int64) metrics.Count { return metrics.Known(n) }

// The vendors' shapes and what aiperf 0.13.0's Usage class reads in them.
var usages = []struct {
	name, raw string
	want      metrics.Usage
	ok        bool
}{
	{"vLLM", `{"prompt_tokens":17,"total_tokens":41,"completion_tokens":24,"completion_tokens_details":null}`,
		metrics.Usage{Prompt: k(17), Total: k(41), Completion: k(24)}, true},
	{"OpenAI", `{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,` +
		`"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":1},"completion_tokens_details":{"reasoning_tokens":5,` +
		`"audio_tokens":2,"accepted_prediction_tokens":3,"rejected_prediction_tokens":0}}`,
		metrics.Usage{Prompt: k(19), Completion: k(10), Total: k(29), CacheRead: k(4), PromptAudio: k(1), Reasoning: k(5),
			CompletionAudio: k(2), AcceptedPrediction: k(3), RejectedPredict: k(0)}, true},
	{"OpenAI responses", `{"input_tokens":36,"input_tokens_details":{"cached_tokens":8},"output_tokens":87,` +
		`"output_tokens_details":{"reasoning_tokens":7},"total_tokens":123}`,
		metrics.Usage{Prompt: k(36), Completion: k(87), Total: k(123), CacheRead: k(8), Reasoning: k(7)}, true},
	{"DeepSeek", `{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25,"prompt_cache_hit_tokens":12,"prompt_cache_miss_tokens":8}`,
		metrics.Usage{Prompt: k(20), Completion: k(5), Total: k(25), CacheRead: k(12), CacheMiss: k(8)}, true},
	{"Anthropic counts its cache apart", `{"input_tokens":3,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":9}`,
		metrics.Usage{Prompt: k(123), Completion: k(9), CacheRead: k(100), CacheWrite: k(20)}, true},
	{"Bedrock too", `{"inputTokens":3,"outputTokens":9,"totalTokens":12,"cacheReadInputTokens":100,"cacheWriteInputTokens":20}`,
		metrics.Usage{Prompt: k(123), Completion: k(9), Total: k(12), CacheRead: k(100), CacheWrite: k(20)}, true},
	{"prompt_tokens has it all", `{"prompt_tokens":130,"cache_read_input_tokens":100}`,
		metrics.Usage{Prompt: k(130), CacheRead: k(100)}, true},
	{"Gemini", `{"usageMetadata":{"promptTokenCount":6,"candidatesTokenCount":7,"totalTokenCount":20,"thoughtsTokenCount":2,` +
		`"cachedContentTokenCount":1,"toolUsePromptTokenCount":5}}`,
		metrics.Usage{Prompt: k(6), Completion: k(7), Total: k(20), Reasoning: k(2), CacheRead: k(1), ToolUsePrompt: k(5)}, true},
	{"Cohere v1", `{"meta":{"billed_units":{"input_tokens":1},"tokens":{"input_tokens":70,"output_tokens":8},"cached_tokens":3}}`,
		metrics.Usage{Prompt: k(70), Completion: k(8), CacheRead: k(3)}, true},
	{"Cohere v2", `{"billed_units":{"input_tokens":1},"tokens":{"input_tokens":70,"output_tokens":8}}`,
		metrics.Usage{Prompt: k(70), Completion: k(8)}, true},
	{"an envelope does not replace", `{"prompt_tokens":1,"tokens":{"prompt_tokens":2}}`, metrics.Usage{Prompt: k(1)}, true},
	{"watsonx", `{"input_token_count":4,"generated_token_count":5}`, metrics.Usage{Prompt: k(4), Completion: k(5)}, true},
	{"the first name wins, null or not", `{"prompt_tokens":null,"input_tokens":5,"completion_tokens":1}`,
		metrics.Usage{Completion: k(1)}, true},
	{"a null detail gives way to the top level", `{"prompt_tokens_details":{"cached_tokens":null},"prompt_cache_hit_tokens":2}`,
		metrics.Usage{CacheRead: k(2)}, true},
	{"zero is a count", `{"prompt_tokens":0}`, metrics.Usage{Prompt: k(0)}, true},
	{"whole floats are counts", `{"prompt_tokens":5.0,"completion_tokens":5.5,"total_tokens":-1}`, metrics.Usage{Prompt: k(5)}, true},
	{"strings are not", `{"prompt_tokens":"5","completion_tokens":true,"total_tokens":1e300}`, metrics.Usage{}, false},
	{"unknown names", `{"cost":5}`, metrics.Usage{}, false},
	{"not an object", `[1]`, metrics.Usage{}, false},
	{"nothing", ``, metrics.Usage{}, false},
	{"null", `null`, metrics.Usage{}, false},
}

func TestUsage(t *testing.T) {
	for _, c := range usages {
		got, ok := chat(t, Options{}).Usage([]byte(c.raw))
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %s\ngot  %+v, %v\nwant %+v, %v", c.name, c.raw, got, ok, c.want, c.ok)
		}
	}
}

// OpenAI's and vLLM's shapes cost no allocation.
func TestUsageAllocatesNothing(t *testing.T) {
	c := chat(t, Options{})
	for _, u := range usages[:2] {
		raw := []byte(u.raw)
		if n := testing.AllocsPerRun(100, func() { c.Usage(raw) }); n != 0 {
			t.Errorf("%s: %v allocations", u.name, n)
		}
	}
}

func FuzzUsage(f *testing.F) {
	f.Add([]byte(`{"usageMetadata":{"promptTokenCount":6},"meta":{"tokens":{"input_tokens":70}},"tokens":{"output_tokens":8}}`))
	f.Add([]byte(`null`))
	for _, c := range usages {
		f.Add([]byte(c.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if walked, ok := walkUsage(raw); ok {
			if decoded, ok := decodeUsage(raw); walked != decoded || !ok {
				t.Errorf("%q:\nwalk   %+v\ndecode %+v, %v", raw, walked, decoded, ok)
			}
		}
		u, ok := (&Endpoint{}).Usage(raw)
		if ok == (u == metrics.Usage{}) {
			t.Errorf("%q: %+v, %v", raw, u, ok)
		}
		for _, n := range []metrics.Count{u.Prompt, u.Completion, u.Total, u.Reasoning, u.CacheRead, u.CacheWrite, u.CacheMiss} {
			if n.N < 0 || !n.Known && n.N != 0 {
				t.Errorf("%q: %+v", raw, u)
			}
		}
	})
}
