package main

import (
	"fmt"

	"prefire/internal/export"
	"prefire/metrics"
)

// told is what a reader of the figures must know of the answers: how they came, and what of them was counted by whom.
type told struct {
	together  metrics.Part // streamed answers of 2 tokens and more that came whole in one read
	reasoning metrics.Part // streamed answers without a token after their reasoning
	usage     metrics.Part // answers with the server's own count of their tokens
	unended   int64        // answers whose body went on after [DONE]
}

func answersOf(rs []metrics.Result, c *metrics.ClientReport, ok, unended int64) told {
	a := told{together: c.ITLMissing, unended: unended}
	if first, out := find(rs, "time_to_first_token"), find(rs, "time_to_first_output_token"); first != nil {
		n := first.Count
		if out != nil {
			n -= out.Count
		}
		a.reasoning = metrics.PartOf(n, first.Count)
	}
	if u := find(rs, "usage_completion_tokens"); u != nil {
		a.usage = metrics.PartOf(u.Count, ok)
	}
	return a
}

// facts are absent where there is nothing to say.
func (a *told) facts() export.Object {
	var o export.Object
	for _, p := range [...]struct {
		key  string
		part metrics.Part
	}{{"whole_in_one_read", a.together}, {"reasoning_alone", a.reasoning}, {"with_usage", a.usage}} {
		if p.part.Of > 0 {
			o = append(o, export.Field{Key: p.key, Value: value(p.part)})
		}
	}
	return append(o, export.Field{Key: "unended_after_done", Value: a.unended})
}

// The shares of answers from which on they are worth a notice.
const (
	togetherShare  = 0.5
	reasoningShare = 0.1
)

func (a *told) notices() (out []string) {
	if p := a.together; p.Of > 0 && p.Share >= togetherShare {
		out = append(out, fmt.Sprintf("the stream is not real: %d of %d answers came whole in one event or one read, so their TTFT is the time of the whole answer and they have no ITL; the server, or a "+
			"proxy before it, holds the tokens back, or makes them faster than they can be told apart", p.N, p.Of))
	}
	if p := a.reasoning; p.Of > 0 && p.Share >= reasoningShare {
		out = append(out, fmt.Sprintf("%d of %d answers are reasoning alone: their limit was reached before a token of the answer itself, so TTFT and ITL are those of reasoning; a higher limit (--osl) "+
			"lets them go on", p.N, p.Of))
	}
	if p := a.usage; p.Of > 0 && p.N < p.Of {
		out = append(out, fmt.Sprintf("the server counted the tokens (usage) of %d of %d answers: the usage_ metrics are of these alone, and no length mixes its counts with the client's", p.N, p.Of))
	}
	if a.unended > 0 {
		out = append(out, fmt.Sprintf("%d answers went on after [DONE] without an end: each was taken as complete after half a second, and its connection (over HTTP/2 its stream) given up; the server, or a "+
			"proxy before it, does not end its answers", a.unended))
	}
	return out
}
