package metrics

import (
	"fmt"
	"math"
)

// usageField is one count of the server's usage object, with the sum over the run that belongs to it.
type usageField struct {
	tag, header       string
	order, totalOrder int
	flags             Flags
	count             func(*Usage) Count
	doc               string
}

func usageFields() []usageField {
	return []usageField{
		{"usage_prompt_tokens", "Usage Prompt Tokens", 1000, 2000, LargerBetter,
			func(u *Usage) Count { return u.Prompt }, "prompt tokens, chat template and cached ones counted"},
		{"usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens", 1010, 2010, LargerBetter,
			func(u *Usage) Count { return u.CacheRead }, "prompt tokens that came from the server's prefix cache"},
		{"usage_prompt_cache_write_tokens", "Usage Prompt Cache Write Tokens", 1015, 2015, 0,
			func(u *Usage) Count { return u.CacheWrite }, "prompt tokens written to the server's cache"},
		{"usage_prompt_cache_miss_tokens", "Usage Prompt Cache Miss Tokens", 1017, 2017, 0,
			func(u *Usage) Count { return u.CacheMiss }, "prompt tokens that were not in the server's cache"},
		{"usage_prompt_audio_tokens", "Usage Prompt Audio Tokens", 1020, 2020, LargerBetter,
			func(u *Usage) Count { return u.PromptAudio }, "prompt tokens of audio"},
		{"usage_tool_use_prompt_tokens", "Usage Tool Use Prompt Tokens", 1030, 2030, 0,
			func(u *Usage) Count { return u.ToolUsePrompt }, "prompt tokens of tool use"},
		{"usage_completion_tokens", "Usage Completion Tokens", 1100, 2100, LargerBetter | Produced,
			func(u *Usage) Count { return u.Completion }, "tokens of the answer, reasoning counted"},
		{"usage_reasoning_tokens", "Usage Reasoning Tokens", 1110, 2110, LargerBetter | Produced,
			func(u *Usage) Count { return u.Reasoning }, "tokens of the answer's reasoning"},
		{"usage_completion_audio_tokens", "Usage Completion Audio Tokens", 1120, 2120, LargerBetter | Produced,
			func(u *Usage) Count { return u.CompletionAudio }, "tokens of audio in the answer"},
		{"usage_accepted_prediction_tokens", "Usage Accepted Prediction Tokens", 1130, 2130, LargerBetter | Produced,
			func(u *Usage) Count { return u.AcceptedPrediction }, "predicted tokens that the server took"},
		{"usage_rejected_prediction_tokens", "Usage Rejected Prediction Tokens", 1140, 2140, Produced,
			func(u *Usage) Count { return u.RejectedPredict }, "predicted tokens that the server did not take"},
		{"usage_total_tokens", "Usage Total Tokens", 1200, 2200, LargerBetter | Produced,
			func(u *Usage) Count { return u.Total }, "tokens of prompt and answer together"},
	}
}

// usageDefs are the server's own token counts, and how far the client's are from them.
func usageDefs(l Limits) []*Def {
	var defs []*Def
	for _, f := range usageFields() {
		defs = append(defs, row(Def{Tag: f.tag, Header: f.header, Unit: Tokens, Flags: f.flags | Integer, Group: UsageTable, Order: f.order,
			Value: func(r *Record) (float64, bool) { return known(f.count(&r.Usage)) },
			Doc:   "What the server's usage says: " + f.doc + ". Absent where it does not say."}))
	}
	diff := func(tag, header, what string, f Flags, value func(*Record) (float64, bool)) *Def {
		return row(Def{Tag: tag, Header: header, Unit: Percent, Flags: UsageDiff | f, Value: value,
			Doc: "100 · |server's − client's| / client's count of " + what + ", in %; absent where the client counts 0."})
	}
	return append(defs,
		diff("usage_prompt_tokens_diff_pct", "Usage Prompt Diff %", "prompt tokens", 0, promptDiff),
		diff("usage_completion_tokens_diff_pct", "Usage Completion Diff %", "output tokens, reasoning included,", Produced, completionDiff),
		diff("usage_reasoning_tokens_diff_pct", "Usage Reasoning Diff %", "reasoning tokens", Produced, reasoningDiff),
		row(Def{Tag: "usage_discrepancy_count", Header: "Usage Discrepancy Count", Unit: Requests, Shape: Aggregate,
			Flags: UsageDiff | NotInRecord | Produced, Value: l.discrepant,
			Doc: fmt.Sprintf("Requests where the server's and the client's count of prompt, output or reasoning tokens differ by more than %g %%.",
				l.UsagePercent)}))
}

// usageTotalDefs are the sums of the server's counts over the run.
func usageTotalDefs() []*Def {
	var defs []*Def
	for _, f := range usageFields() {
		defs = append(defs, row(Def{Tag: "total_" + f.tag, Header: "Total " + f.header, Unit: Tokens, Shape: Derived,
			Flags: f.flags | Integer, Group: UsageTable, Order: f.totalOrder, Derive: sumOf(f.tag),
			Doc: "Sum over all valid requests of the server's count of " + f.doc + "."}))
	}
	return append(defs, row(Def{Tag: "overall_usage_prompt_cache_read_pct", Header: "Overall Usage Prompt Cache Read %", Unit: Percent,
		Shape: Derived, Flags: LargerBetter, Group: UsageTable, Order: 2012, Derive: cacheShare,
		Doc: "100 · total cache read tokens / total prompt tokens, in %: the share of all prompt tokens that the server took from its cache."}))
}

func cacheShare(t *Totals) (float64, bool) {
	read, ok := t.Get("usage_prompt_cache_read_tokens")
	prompt, ok2 := t.Get("usage_prompt_tokens")
	if !ok || !ok2 || prompt == 0 {
		return 0, false
	}
	return read / prompt * 100, true
}

func promptDiff(r *Record) (float64, bool) {
	n, ok := known(r.In)
	return diffPercent(r.Usage.Prompt, n, ok)
}

func completionDiff(r *Record) (float64, bool) {
	n, ok := osl(r)
	return diffPercent(r.Usage.Completion, n, ok)
}

func reasoningDiff(r *Record) (float64, bool) {
	n, ok := known(r.Reasoning)
	return diffPercent(r.Usage.Reasoning, n, ok)
}

func diffPercent(server Count, client float64, ok bool) (float64, bool) {
	if !ok || !server.Known || client == 0 {
		return 0, false
	}
	return math.Abs(float64(server.N)-client) / client * 100, true
}

// discrepant needs both the prompt's and the output's difference; the reasoning's counts where it is there.
func (l Limits) discrepant(r *Record) (float64, bool) {
	p, ok := promptDiff(r)
	c, ok2 := completionDiff(r)
	if !ok || !ok2 {
		return 0, false
	}
	t, _ := reasoningDiff(r)
	return oneIf(max(p, c, t) > l.UsagePercent), true
}
