package metrics

import (
	"fmt"
	"math"
)

// Limits are what counts as too far off.
type Limits struct {
	UsagePercent float64 // a server's token count is discrepant where it differs from the client's by more than so many percent
	// An output is of the wrong length past so many percent of the tokens asked for or so many tokens, whichever is less.
	OSLPercent float64
	OSLTokens  int64
}

// DefaultLimits are aiperf's.
func DefaultLimits() Limits { return Limits{UsagePercent: 10, OSLPercent: 5, OSLTokens: 50} }

// lengthDefs are the token counts: the client's own, or the server's where the run uses them.
func lengthDefs(l Limits) []*Def {
	tokens := func(d Def) *Def {
		d.Unit = Tokens
		d.Flags |= LargerBetter | Integer
		return row(d)
	}
	total := func(tag, header, of string, f Flags, doc string) *Def {
		return tokens(Def{Tag: tag, Header: header, Shape: Derived, Flags: f, Derive: sumOf(of), Doc: doc})
	}
	return []*Def{
		tokens(Def{Tag: "input_sequence_length", Header: "Input Sequence Length", Group: Main, Order: 700,
			Value: func(r *Record) (float64, bool) { return known(r.In) },
			Doc: "Tokens of the request's text: the client's count, without the words of the server's chat template, or the server's " +
				"prompt tokens where its counts are used."}),
		tokens(Def{Tag: "output_sequence_length", Header: "Output Sequence Length", Flags: Produced, Group: Main, Order: 600, Value: osl,
			Doc: "Tokens of the answer, reasoning counted."}),
		tokens(Def{Tag: "output_token_count", Header: "Output Token Count", Flags: Produced, Value: outputTokens,
			Doc: "Tokens of the answer, reasoning not counted; absent where there are none, as in aiperf, so that zeros do not enter the " +
				"average."}),
		tokens(Def{Tag: "reasoning_token_count", Header: "Reasoning Token Count", Flags: Produced,
			Value: func(r *Record) (float64, bool) { return known(r.Reasoning) },
			Doc:   "Tokens of the answer's reasoning; absent where it has none."}),
		row(Def{Tag: "osl_mismatch_diff_pct", Header: "OSL Mismatch Diff %", Unit: Percent, Flags: Produced, Value: oslDiff,
			Doc: "100 · (output sequence length − tokens asked for) / tokens asked for, in %: below 0 the server stopped early, above 0 it " +
				"wrote more. Absent where no length was asked for."}),
		row(Def{Tag: "osl_mismatch_count", Header: "OSL Mismatch Count", Unit: Requests, Shape: Aggregate, Flags: NotInRecord | Produced,
			Value: l.oslMismatch,
			Doc: fmt.Sprintf("Requests whose output length is off the length asked for by more than %g %% or %d tokens, whichever is less. "+
				"Shorter and longer outputs count alike.", l.OSLPercent, l.OSLTokens)}),
		total("total_isl", "Total Input Sequence Length", "input_sequence_length", 0, "Sum of the input sequence lengths of valid requests."),
		total("total_osl", "Total Output Sequence Length", "output_sequence_length", Produced, "Sum of the output sequence lengths."),
		total("total_output_tokens", "Total Output Tokens", "output_token_count", Produced, "Sum of the output token counts."),
		total("total_reasoning_tokens", "Total Reasoning Tokens", "reasoning_token_count", Produced, "Sum of the reasoning token counts."),
		tokens(Def{Tag: "error_isl", Header: "Error Input Sequence Length", Flags: ErrorOnly, Order: 700,
			Value: func(r *Record) (float64, bool) { return known(r.In) },
			Doc:   "Tokens of the request's text, of the requests that failed; always the client's count."}),
		total("total_error_isl", "Total Error Input Sequence Length", "error_isl", ErrorOnly,
			"Sum of the input sequence lengths of the requests that failed."),
	}
}

func osl(r *Record) (float64, bool) {
	return float64(r.Out.N + r.Reasoning.N), r.Out.Known || r.Reasoning.Known
}

func outputTokens(r *Record) (float64, bool) {
	return float64(r.Out.N), r.Out.Known && r.Out.N != 0
}

func oslDiff(r *Record) (float64, bool) {
	n, ok := osl(r)
	want, asked := known(r.RequestedOSL)
	if !ok || !asked || want == 0 {
		return 0, false
	}
	return (n - want) / want * 100, true
}

func (l Limits) oslMismatch(r *Record) (float64, bool) {
	if _, ok := oslDiff(r); !ok {
		return 0, false
	}
	n, _ := osl(r)
	want, _ := known(r.RequestedOSL)
	return oneIf(math.Abs(n-want) > min(want*(l.OSLPercent/100), float64(l.OSLTokens))), true
}
