package main

import (
	"fmt"

	"prefire/internal/config"
	"prefire/metrics"
)

// oddAnswers counts the answered requests of the measured phases whose answers were not quite what was asked for, so that some of their
// figures are missing or say less than they seem to.
type oddAnswers struct {
	answered, whole, malformed, strange, contradicted int64
	name                                              string // under which text came that is not read
}

func (o *oddAnswers) add(r *metrics.Record) {
	if r.Kind != metrics.Profiling || !r.Valid() {
		return
	}
	o.answered++
	if r.Whole {
		o.whole++
	}
	if r.Malformed > 0 {
		o.malformed++
	}
	if r.Usage.Contradicts() {
		o.contradicted++
	}
	if r.Strange != "" {
		o.strange++
		o.name = r.Strange
	}
}

func (o *oddAnswers) notices() (out []string) {
	if o.whole > 0 {
		out = append(out, fmt.Sprintf("%d of %d answers were no streams, though streams were asked for: they have no TTFT, and nothing else that needs a first token", o.whole, o.answered))
	}
	if o.malformed > 0 {
		out = append(out, fmt.Sprintf("%d of %d answers had events that could not be read and were left out: tokens may be missing from their counts", o.malformed, o.answered))
	}
	if o.contradicted > 0 {
		out = append(out, fmt.Sprintf("the usage of %d of %d answers contradicts itself: more reasoning tokens than completion tokens, which hold them", o.contradicted, o.answered))
	}
	if o.strange > 0 {
		out = append(out, fmt.Sprintf("%d of %d answers began with text under %q, which is not a name that text is read under: their first token was earlier than TTFT says, and they had more tokens",
			o.strange, o.answered, o.name))
	}
	return out
}

// choicesAsked is the n among the extra fields of the bodies; 0 = none.
func choicesAsked(extra []config.KeyValue) (n int64) {
	for _, kv := range extra {
		if kv.Key == "n" {
			n, _ = kv.Value.(int64) // anything but a number asks for none
		}
	}
	return n
}
