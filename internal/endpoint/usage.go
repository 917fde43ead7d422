package endpoint

import (
	"encoding/json"
	"math"

	"prefire/metrics"
)

// usage is a decoded usage object, with the envelopes of some servers opened.
type usage map[string]any

// Usage reads the raw usage object of an answer: the names that OpenAI, vLLM, Anthropic, Gemini, Bedrock, Cohere, DeepSeek and watsonx
// give their counts. Of several names for one count the first in the order below that is there wins, also where its value is null. A
// count that is not a whole number from 0 is absent. It reports false where raw holds no count.
func (*Endpoint) Usage(raw []byte) (metrics.Usage, bool) {
	out, ok := walkUsage(raw)
	if !ok {
		out, ok = decodeUsage(raw)
	}
	return out, ok && out != metrics.Usage{}
}

// decodeUsage reads a usage object with encoding/json: whatever walkUsage leaves, and the judge of what walkUsage reads.
func decodeUsage(raw []byte) (metrics.Usage, bool) {
	var u usage
	if json.Unmarshal(raw, &u) != nil {
		return metrics.Usage{}, false
	}
	u.open()
	prompt := []string{"prompt_tokens_details", "input_tokens_details"}
	completion := []string{"completion_tokens_details", "output_tokens_details"}
	return metrics.Usage{
		Prompt:     u.prompt(),
		Completion: u.first("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens", "generated_token_count"),
		Total:      u.first("total_tokens", "totalTokenCount", "totalTokens"),
		Reasoning:  u.nested(completion, "reasoning_tokens", "thoughtsTokenCount"),
		CacheRead: u.nested(prompt, "cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens", "cachedContentTokenCount",
			"cacheReadInputTokens", "cached_tokens"),
		CacheWrite:         u.first("cache_creation_input_tokens", "cacheWriteInputTokens"),
		CacheMiss:          u.first("prompt_cache_miss_tokens"),
		AcceptedPrediction: u.nested(completion, "accepted_prediction_tokens"),
		RejectedPredict:    u.nested(completion, "rejected_prediction_tokens"),
		PromptAudio:        u.nested(prompt, "audio_tokens"),
		CompletionAudio:    u.nested(completion, "audio_tokens"),
		ToolUsePrompt:      u.first("toolUsePromptTokenCount"),
	}, true
}

// open lifts what lies in the envelopes usageMetadata (Gemini), meta (Cohere v1) and tokens (Cohere v2) to the top. What is there already
// stands. billed_units stays where it is: it is an account, not what the model did.
func (u usage) open() {
	u.lift(u["usageMetadata"])
	if meta, ok := u["meta"].(map[string]any); ok {
		u.lift(meta["tokens"])
		if v, ok := meta["cached_tokens"]; ok {
			u.lift(map[string]any{"cached_tokens": v})
		}
	}
	u.lift(u["tokens"])
}

func (u usage) lift(envelope any) {
	fields, _ := envelope.(map[string]any)
	for k, v := range fields {
		if _, ok := u[k]; !ok {
			u[k] = v
		}
	}
}

// prompt is the number of tokens that the server took as input. Anthropic and Bedrock count only what came neither from their cache nor
// went into it, and name the rest apart: it is added back, so that the count means the same for every server.
func (u usage) prompt() metrics.Count {
	for _, key := range []string{"prompt_tokens", "input_tokens", "promptTokenCount", "inputTokens", "input_token_count"} {
		v, ok := u[key]
		if !ok {
			continue
		}
		n := count(v)
		if n.Known && (key == "input_tokens" || key == "inputTokens") {
			for _, cache := range []string{"cache_read_input_tokens", "cache_creation_input_tokens", "cacheReadInputTokens",
				"cacheWriteInputTokens"} {
				n.N += count(u[cache]).N
			}
		}
		return n
	}
	return metrics.Count{}
}

func (u usage) first(keys ...string) metrics.Count {
	for _, key := range keys {
		if v, ok := u[key]; ok {
			return count(v)
		}
	}
	return metrics.Count{}
}

// nested is a count inside the first details object that has it; where that is null or there is none, the first of the top-level keys.
func (u usage) nested(details []string, key string, top ...string) metrics.Count {
	for _, name := range details {
		fields, _ := u[name].(map[string]any)
		if v, ok := fields[key]; ok {
			if v != nil {
				return count(v)
			}
			break
		}
	}
	return u.first(top...)
}

func count(v any) metrics.Count {
	n, ok := v.(float64)
	if !ok || n < 0 || n > 1<<53 || n != math.Trunc(n) {
		return metrics.Count{}
	}
	return metrics.Known(int64(n))
}
