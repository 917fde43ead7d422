package endpoint

import (
	"encoding/json"

	"prefire/metrics"
)

// SpecDecode reads metrics.speculative_decoding of an answer, which vLLM sends with --per-request-spec-decode-metrics: on the last chunk of a
// stream, or in the body. What is not wholly of vLLM's shape says nothing.
func (*Endpoint) SpecDecode(raw []byte) *metrics.SpecDecode {
	var m struct {
		Spec *struct {
			MeanLength     *float64 `json:"mean_acceptance_length"`
			AcceptanceRate *float64 `json:"draft_acceptance_rate"`
			Histogram      []int64  `json:"acceptance_histogram"`
			Accepted       *int64   `json:"num_accepted_draft_tokens"`
			Drafted        *int64   `json:"num_draft_tokens"`
			Steps          *int64   `json:"num_spec_steps"`
			Tokens         *int64   `json:"num_spec_tokens"`
			StepAccepted   []int64  `json:"per_step_accepted"`
			StepDrafted    []int64  `json:"per_step_drafted"`
		} `json:"speculative_decoding"`
	}
	if json.Unmarshal(raw, &m) != nil || m.Spec == nil {
		return nil
	}
	s := m.Spec
	if s.MeanLength == nil || s.AcceptanceRate == nil || s.Histogram == nil || s.Accepted == nil || s.Drafted == nil || s.Steps == nil {
		return nil
	}
	// The histogram has a place for every number of accepted tokens, and its counts are the steps and the tokens.
	var steps, accepted int64
	for j, n := range s.Histogram {
		if n < 0 || n > 1<<40 {
			return nil
		}
		steps, accepted = steps+n, accepted+int64(j)*n
	}
	if steps != *s.Steps || accepted != *s.Accepted || *s.Drafted < accepted ||
		s.StepAccepted != nil && int64(len(s.StepAccepted)) != steps || s.StepDrafted != nil && int64(len(s.StepDrafted)) != steps ||
		s.Tokens != nil && int64(len(s.Histogram)) != *s.Tokens+1 {
		return nil
	}
	out := &metrics.SpecDecode{MeanLength: *s.MeanLength, AcceptanceRate: *s.AcceptanceRate, Accepted: accepted, Drafted: *s.Drafted, Steps: steps,
		Histogram: s.Histogram, PerStepAccepted: s.StepAccepted, PerStepDrafted: s.StepDrafted}
	if s.Tokens != nil {
		out.Tokens = metrics.Known(*s.Tokens)
	}
	return out
}
