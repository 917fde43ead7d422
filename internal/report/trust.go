package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"prefire/internal/report/digest"
	"prefire/metrics"
)

// state is what a verdict comes to.
type state string

const (
	good    state = "good"
	bad     state = "bad"
	warn    state = "warn"
	unknown state = "unknown"
)

// word is the state for people who do not see its colour.
func (s state) word() string {
	return map[state]string{good: "✓ fit", bad: "✗ not fit", warn: "! mind", unknown: "? not told"}[s]
}

// judged is one verdict.
type judged struct {
	State state
	Claim string
	Text  string
	own   string // in the place of the state's word
}

func say(s state, claim, text string) judged { return judged{State: s, Claim: claim, Text: text} }

// Word is the verdict in a word.
func (j judged) Word() string {
	if j.own != "" {
		return j.own
	}
	return j.State.word()
}

// few is how many values a 99th percentile needs to be more than about the maximum.
const few = 100

// trust is how far the run's numbers can be trusted, claim by claim.
func (r *run) trust() []judged {
	var out []judged
	own := r.own()
	switch {
	case own == nil:
		out = append(out, say(unknown, "Client", "aiperf does not judge its own client: whether it, and not the server, was the limit cannot be told from its files."))
	default:
		for _, v := range own.Client.Verdicts {
			st := good
			if !v.Good {
				st = bad
			}
			out = append(out, say(st, v.Claim, v.Why))
		}
	}
	out = append(out, r.coldTrust())
	if own != nil {
		out = append(out, own.warmth()...)
	}
	return append(out, r.whole()...)
}

func (r *run) own() *ownFacts {
	if r.summary == nil {
		return nil
	}
	return r.summary.facts.Prefire
}

// coldTrust says whether cold requests moved the figures.
func (r *run) coldTrust() judged {
	if own := r.own(); own != nil {
		c := &own.Cold
		switch {
		case c.Of == "0":
			return say(unknown, "Cold requests", "no request was answered.")
		case c.Count == "0":
			return say(good, "Cold requests", fmt.Sprintf("none of %s answered requests was cold.", c.Of))
		case !c.Included:
			return say(good, "Cold requests", fmt.Sprintf("%s of %s answered requests were cold and are left out of all latencies; with them the result would be another by %s severity.", c.Count, c.Of, c.Severity))
		}
		return say(severe(c.Severity), "Cold requests", fmt.Sprintf("%s of %s answered requests were cold and are part of all latencies, as --include-cold asks: severity %s.", c.Count, c.Of, c.Severity))
	}
	if r.digest == nil {
		return say(unknown, "Cold requests", "there are no records to tell them by.")
	}
	n := r.digest.Counts()
	switch {
	case n.OK == 0:
		return say(unknown, "Cold requests", "no request was answered.")
	case n.Untold == n.OK:
		return say(unknown, "Cold requests", "the records hold no connection facts: which requests were cold cannot be told.")
	case n.Cold == 0:
		return say(good, "Cold requests", fmt.Sprintf("none of %d answered requests was cold.", n.OK))
	}
	severity, text := r.coldEffect()
	return say(severe(string(severity)), "Cold requests", fmt.Sprintf("%d of %d answered requests were cold and are part of all figures, as aiperf has them: severity %s%s. prefire debias takes them out.",
		n.Cold, n.OK, severity, text))
}

func severe(severity string) state {
	switch severity {
	case "high":
		return bad
	case "medium":
		return warn
	}
	return good
}

// coldEffect is the severity of the cold requests that the records show, by the averages with them and without.
func (r *run) coldEffect() (metrics.Severity, string) {
	judges := []followed{ttft(), prefill()}
	if hot, all := r.digest.Means(digest.TTFT); hot.N+all.N == 0 {
		judges = []followed{latency()}
	}
	worst, text, known := 0., "", false
	for _, f := range judges {
		hot, all := r.digest.Means(f.figure)
		if hot.N == 0 || hot.Sum == 0 {
			continue
		}
		worst, known = max(worst, 100*math.Abs(all.Value()-hot.Value())/hot.Value()), true
		text += fmt.Sprintf("; %s %s %s on average, %s without them", strings.ToLower(f.word), readable(all.Value()), f.unit, readable(hot.Value()))
	}
	if !known {
		return metrics.SeverityHigh, ": no request was hot"
	}
	return metrics.SeverityOf(worst), text
}

// warmth says what was not warm when the clock started.
func (o *ownFacts) warmth() []judged {
	if o.Prewarm.On == nil {
		return []judged{say(unknown, "Prewarm", "the file does not say whether the server and the connections were warm before the clock started.")}
	}
	if !*o.Prewarm.On {
		return []judged{say(warn, "Prewarm", "off: no connection was opened and no inference sent before the clock started.")}
	}
	var out []judged
	for _, t := range o.Prewarm.Targets {
		if !t.Proven {
			out = append(out, say(warn, "Prewarm", t.URL+" was not proven warm before the clock started."))
		}
	}
	return out
}

// outcomes are what became of a run's requests.
type outcomes struct{ sent, failed, cut int64 }

// counts are the summary's own, where it has them: not every run has records beside it, and none of those that were cut in them.
func (r *run) counts() (o outcomes, known bool) {
	if own := r.own(); own != nil && own.Counts.Sent != "" {
		number := func(n json.Number) int64 { v, _ := n.Int64(); return v }
		c := &own.Counts
		return outcomes{number(c.Sent), number(c.Failed) + number(c.Cancelled), number(c.Censored)}, true
	}
	if r.digest == nil {
		return o, false
	}
	n := r.digest.Counts()
	return outcomes{int64(n.OK + n.Failed + n.Censored), int64(n.Failed), int64(n.Censored)}, true
}

// whole says whether the result is all of the run, and whether there is enough of it.
func (r *run) whole() []judged {
	var out []judged
	if r.summary == nil {
		out = append(out, say(bad, "Completeness", "there is no summary beside the records: the run did not come to its end."))
	} else {
		f := &r.summary.facts
		switch {
		case f.Incomplete != "":
			out = append(out, say(warn, "Completeness", "the result covers a part of the run alone: "+f.Incomplete+"."))
		case f.Cancelled:
			out = append(out, say(warn, "Completeness", "the run was cancelled early."))
		}
	}
	if r.cut {
		out = append(out, say(warn, "Completeness", "the last record is broken off and left out."))
	}
	if n, known := r.counts(); known {
		if n.failed > 0 {
			st := warn
			if 10*n.failed >= n.sent-n.cut {
				st = bad
			}
			out = append(out, say(st, "Failures", fmt.Sprintf("%d of %d requests failed: the latencies are those of the others.", n.failed, n.sent-n.cut)))
		}
		if n.cut > 0 {
			st := warn
			if 10*n.cut >= n.sent {
				st = bad
			}
			out = append(out, say(st, "Cut requests", fmt.Sprintf("%d of %d requests were cut while they ran and are in no metric.", n.cut, n.sent)))
		}
	}
	tag := "time_to_first_token"
	if r.summary.metric(tag) == nil {
		tag = "request_latency"
	}
	if n := r.summary.metric(tag).number("count"); n < few {
		out = append(out, say(warn, "Few values", fmt.Sprintf("the 99th percentiles rest on %.0f values: under %d they are little more than the maximum.", n, few)))
	}
	return out
}
