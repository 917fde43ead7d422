package metrics

// SpecDecode is what the server said of one answer's speculative decoding: vLLM's metrics.speculative_decoding.
type SpecDecode struct {
	MeanLength     float64 // tokens a step, the one that the step itself brings counted
	AcceptanceRate float64 // accepted / drafted, from 0 to 1
	Accepted       int64   // draft tokens that were taken
	Drafted        int64   // draft tokens that were proposed
	Steps          int64
	// Histogram[j] is how many steps took j draft tokens.
	Histogram []int64
	Tokens    Count // draft tokens a step at most
	// PerStepAccepted and PerStepDrafted are each step's own, where the server was asked for details.
	PerStepAccepted, PerStepDrafted []int64
}

// specDefs are the figures of speculative decoding, where the server gives them. Cold requests are in them.
func specDefs() []*Def {
	of := func(order int, tag, header string, u Unit, f Flags, g Group, value func(*SpecDecode) (float64, bool), doc string) *Def {
		return row(Def{Tag: tag, Header: header, Unit: u, Flags: f, Group: g, Order: order, Doc: doc,
			Value: func(r *Record) (float64, bool) {
				if r.Spec == nil {
					return 0, false
				}
				return value(r.Spec)
			}})
	}
	derived := func(order int, tag, header string, u Unit, f Flags, g Group, derive func(*Totals) (float64, bool), doc string) *Def {
		return row(Def{Tag: tag, Header: header, Unit: u, Shape: Derived, Flags: f, Group: g, Order: order, Derive: derive, Doc: doc})
	}
	ratio := func(over, under string, with func(part, of float64) float64) func(*Totals) (float64, bool) {
		return func(t *Totals) (float64, bool) {
			a, ok := t.Get(over)
			b, ok2 := t.Get(under)
			return with(a, b), ok && ok2 && b != 0
		}
	}
	const accepted, drafted, steps = "total_accepted_draft_tokens", "total_draft_tokens", "total_spec_decode_steps"
	return []*Def{
		of(5000, "spec_decode_acceptance_length", "Acceptance Length", Ratio, LargerBetter, SpecTable,
			func(s *SpecDecode) (float64, bool) { return s.MeanLength, true },
			"Tokens that a step of speculative decoding brought on average, its own token counted, of one request."),
		of(5020, "spec_decode_draft_acceptance_rate", "Draft Acceptance Rate", Percent, LargerBetter, SpecTable,
			func(s *SpecDecode) (float64, bool) { return s.AcceptanceRate * 100, true },
			"100 · accepted / proposed draft tokens of one request, in %."),
		of(5030, "spec_decode_accepted_per_verified", "Accepted per Verified", Ratio, LargerBetter, SpecTable,
			func(s *SpecDecode) (float64, bool) {
				return float64(s.Accepted+s.Steps) / float64(s.Drafted+s.Steps), s.Drafted+s.Steps != 0
			}, "(Accepted draft tokens + steps) / (proposed draft tokens + steps) of one request, from 0 to 1."),
		of(5040, "spec_decode_steps", "Spec Decode Steps", CountUnit, Integer, SpecTable,
			func(s *SpecDecode) (float64, bool) { return float64(s.Steps), true }, "Steps of speculative decoding of one request."),
		of(0, "spec_decode_accepted_draft_tokens", "Accepted Draft Tokens", Tokens, Integer, FileOnly,
			func(s *SpecDecode) (float64, bool) { return float64(s.Accepted), true }, "Draft tokens of one request that were taken."),
		of(0, "spec_decode_draft_tokens", "Draft Tokens", Tokens, Integer, FileOnly,
			func(s *SpecDecode) (float64, bool) { return float64(s.Drafted), true }, "Draft tokens of one request that were proposed."),
		derived(0, steps, "Total Spec Decode Steps", CountUnit, 0, FileOnly, sumOf("spec_decode_steps"), "Sum of the steps of all requests."),
		derived(0, accepted, "Total Accepted Draft Tokens", Tokens, 0, FileOnly, sumOf("spec_decode_accepted_draft_tokens"),
			"Sum of the accepted draft tokens."),
		derived(0, drafted, "Total Draft Tokens", Tokens, 0, FileOnly, sumOf("spec_decode_draft_tokens"), "Sum of the proposed draft tokens."),
		derived(5010, "spec_decode_token_weighted_acceptance_length", "Token-Weighted Acceptance Length", Ratio, LargerBetter, SpecTable,
			ratio(accepted, steps, func(a, n float64) float64 { return 1 + a/n }), "1 + all accepted draft tokens / all steps."),
		derived(5025, "spec_decode_overall_draft_acceptance_rate", "Overall Draft Acceptance Rate", Percent, LargerBetter, SpecTable,
			ratio(accepted, drafted, func(a, d float64) float64 { return a / d * 100 }), "100 · all accepted / all proposed draft tokens, in %."),
	}
}
