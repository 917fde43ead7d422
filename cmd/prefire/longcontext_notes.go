package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"prefire/internal/export"
	"prefire/metrics"
)

// unmeasured says why a run has no figures; "" = requests were answered.
func unmeasured(r *export.Run) string {
	c := &r.Screen.Counts
	if c.OK > 0 {
		return ""
	}
	var parts []string
	for _, p := range [...]struct {
		n    int64
		what string
	}{{c.Failed, "failed"}, {c.Censored, "were cut while they ran"}, {c.Cancelled, "were cancelled by plan"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "no request was sent"
	}
	why := fmt.Sprintf("no request of %d was answered: %s", c.Sent, strings.Join(parts, ", "))
	if len(r.Errors) > 0 {
		most := slices.MaxFunc(r.Errors, func(a, b metrics.ErrorCount) int { return cmp.Compare(a.Count, b.Count) })
		why += fmt.Sprintf(", most often with %s: %s", most.Error.Type, most.Error.Message)
	}
	return why
}

// lengthNotes are what the runs of a scan say of their prompts and of the client, each once with the lengths that it holds for: the verdict rests
// on both.
type lengthNotes struct {
	texts   []string
	lengths map[string][]string
}

func (n *lengthNotes) add(isl int, out *outcome) {
	for _, notice := range out.prompts {
		n.say(isl, notice)
	}
	for _, v := range out.run.Screen.Client {
		if !v.Good && slices.Contains([]string{"TTFT", "load"}, v.Claim) {
			n.say(isl, "the client was not fit to claim "+v.Claim+" (each length's console file says why)")
		}
	}
}

func (n *lengthNotes) say(isl int, text string) {
	if n.lengths == nil {
		n.lengths = map[string][]string{}
	}
	if n.lengths[text] == nil {
		n.texts = append(n.texts, text)
	}
	if at := strconv.Itoa(isl); !slices.Contains(n.lengths[text], at) { // a claim is judged once a phase
		n.lengths[text] = append(n.lengths[text], at)
	}
}

func (n *lengthNotes) lines() []string {
	out := make([]string, len(n.texts))
	for i, text := range n.texts {
		out[i] = fmt.Sprintf("Note: at %s tokens: %s", strings.Join(n.lengths[text], ", "), text)
	}
	return out
}
