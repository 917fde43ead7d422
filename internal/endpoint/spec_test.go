package endpoint

import (
	"reflect"
	"testing"

	"prefire/loadgen/wire"
	"prefire/metrics"
)

const drafts = `{"speculative_decoding":{"mean_acceptance_length":2.5,"draft_acceptance_rate":0.75,"acceptance_histogram":[1,0,3],"num_accepted_draft_tokens":6,` +
	`"num_draft_tokens":8,"num_spec_steps":4,"num_spec_tokens":2},"other":1}`

func TestSpecDecode(t *testing.T) {
	want := &metrics.SpecDecode{MeanLength: 2.5, AcceptanceRate: 0.75, Accepted: 6, Drafted: 8, Steps: 4, Histogram: []int64{1, 0, 3}, Tokens: metrics.Known(2)}
	e := new(Endpoint)
	if got := e.SpecDecode([]byte(drafts)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	detailed := `{"speculative_decoding":{"mean_acceptance_length":2,"draft_acceptance_rate":0.5,"acceptance_histogram":[0,2],"num_accepted_draft_tokens":2,` +
		`"num_draft_tokens":4,"num_spec_steps":2,"per_step_accepted":[1,1],"per_step_drafted":[2,2]}}`
	want = &metrics.SpecDecode{MeanLength: 2, AcceptanceRate: 0.5, Accepted: 2, Drafted: 4, Steps: 2, Histogram: []int64{0, 2}, PerStepAccepted: []int64{1, 1},
		PerStepDrafted: []int64{2, 2}}
	if got := e.SpecDecode([]byte(detailed)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, raw := range []string{
		``, `{}`, `[]`, `{"speculative_decoding":null}`, `{"speculative_decoding":{}}`, `{"speculative_decoding":7}`,
		// The steps, the accepted tokens, the drafted ones or the length of the histogram do not fit together.
		`{"speculative_decoding":{"mean_acceptance_length":2.5,"draft_acceptance_rate":0.75,"acceptance_histogram":[1,0,3],"num_accepted_draft_tokens":6,"num_draft_tokens":8,"num_spec_steps":5}}`,
		`{"speculative_decoding":{"mean_acceptance_length":2.5,"draft_acceptance_rate":0.75,"acceptance_histogram":[1,0,3],"num_accepted_draft_tokens":5,"num_draft_tokens":8,"num_spec_steps":4}}`,
		`{"speculative_decoding":{"mean_acceptance_length":2.5,"draft_acceptance_rate":0.75,"acceptance_histogram":[1,0,3],"num_accepted_draft_tokens":6,"num_draft_tokens":5,"num_spec_steps":4}}`,
		`{"speculative_decoding":{"mean_acceptance_length":2.5,"draft_acceptance_rate":0.75,"acceptance_histogram":[1,0,3],"num_accepted_draft_tokens":6,"num_draft_tokens":8,"num_spec_steps":4,"num_spec_tokens":3}}`,
		`{"speculative_decoding":{"mean_acceptance_length":2.5,"draft_acceptance_rate":0.75,"acceptance_histogram":[2,-1,3],"num_accepted_draft_tokens":5,"num_draft_tokens":8,"num_spec_steps":4}}`,
		`{"speculative_decoding":{"mean_acceptance_length":2.5,"draft_acceptance_rate":0.75,"acceptance_histogram":[1,0,3],"num_accepted_draft_tokens":6,"num_draft_tokens":8,"num_spec_steps":4,"per_step_accepted":[2]}}`,
		`{"speculative_decoding":{"mean_acceptance_length":"x","draft_acceptance_rate":0.75,"acceptance_histogram":[1,0,3],"num_accepted_draft_tokens":6,"num_draft_tokens":8,"num_spec_steps":4}}`,
	} {
		if got := e.SpecDecode([]byte(raw)); got != nil {
			t.Errorf("%s says %+v", raw, got)
		}
	}
}

// The object is found on the last chunk of a stream, by both ways of reading, and beside content.
func TestSpecDecodeIsFound(t *testing.T) {
	p := &parser{kind: Chat}
	for _, data := range []string{
		`{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":3},"metrics":` + drafts + `}`,
		`{"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}],"metrics":` + drafts + `}`,
	} {
		for name, read := range map[string]func(d *wire.Delta){
			"walked": func(d *wire.Delta) {
				if _, ok := p.walk([]byte(data), false, d); !ok {
					t.Errorf("%s is not walked", data)
				}
			},
			"decoded": func(d *wire.Delta) { p.decode([]byte(data), false, d) },
		} {
			var d wire.Delta
			if read(&d); string(d.Spec) != drafts {
				t.Errorf("%s, %s: found %q", data, name, d.Spec)
			}
		}
	}
}
