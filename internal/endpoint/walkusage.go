package endpoint

import (
	"strconv"

	"prefire/metrics"
)

// walkUsage reads a usage object that holds OpenAI's names and no others, as vLLM's does, without allocating. ok is false where
// encoding/json has to.
func walkUsage(raw []byte) (out metrics.Usage, ok bool) {
	s := scan{p: raw}
	s.enter('{')
	for first := true; !s.bad; {
		key, more := s.key(&first)
		if !more {
			break
		}
		v := s.value()
		var d details
		switch string(key) {
		case "prompt_tokens":
			out.Prompt, ok = plainCount(v)
		case "completion_tokens":
			out.Completion, ok = plainCount(v)
		case "total_tokens":
			out.Total, ok = plainCount(v)
		case "prompt_tokens_details":
			d, ok = walkDetails(v)
			out.CacheRead, out.PromptAudio = d.cached, d.audio
		case "completion_tokens_details":
			d, ok = walkDetails(v)
			out.Reasoning, out.CompletionAudio, out.AcceptedPrediction, out.RejectedPredict = d.reasoning, d.audio, d.accepted, d.rejected
		default:
			ok = false
		}
		if !ok {
			return out, false
		}
	}
	return out, !s.bad && s.peek() == 0 && s.i == len(s.p)
}

type details struct{ cached, reasoning, audio, accepted, rejected metrics.Count }

// walkDetails reads the object that splits a count up. Where it is null, there are none.
func walkDetails(raw []byte) (d details, ok bool) {
	if absent(raw) {
		return d, true
	}
	s := scan{p: raw}
	s.enter('{')
	for first := true; !s.bad; {
		key, more := s.key(&first)
		if !more {
			break
		}
		v := s.value()
		ok := true
		switch string(key) {
		case "cached_tokens":
			d.cached, ok = plainCount(v)
		case "reasoning_tokens":
			d.reasoning, ok = plainCount(v)
		case "audio_tokens":
			d.audio, ok = plainCount(v)
		case "accepted_prediction_tokens":
			d.accepted, ok = plainCount(v)
		case "rejected_prediction_tokens":
			d.rejected, ok = plainCount(v)
		}
		if !ok {
			return d, false
		}
	}
	return d, !s.bad
}

// plainCount reads a count that is written in digits, or null.
func plainCount(raw []byte) (n metrics.Count, ok bool) {
	if string(raw) == "null" {
		return n, true
	}
	if len(raw) == 0 || len(raw) > 15 || raw[0] < '0' || raw[0] > '9' {
		return n, false
	}
	v, err := strconv.Atoi(string(raw))
	return metrics.Known(int64(v)), err == nil
}
