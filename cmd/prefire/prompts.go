package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"prefire/internal/config"
	"prefire/internal/dataset"
	"prefire/internal/export"
	"prefire/metrics"
	"prefire/tokenize"
)

// promptOptions is what a config says of its synthetic prompts.
func (l *load) promptOptions(cfg *config.Config) dataset.Options {
	ds := &cfg.Dataset
	o := dataset.Options{
		Seed: l.seed, RandomIDs: !l.seedGave, Tokenizer: l.tokens, Entries: ds.Entries, Sampling: dataset.Sampling(ds.Sampling), Repeat: ds.Repeat,
		Input: lengthOf(ds.Input), Output: lengthOf(ds.Output), Template: ds.Template,
		Corpus: corpus(ds.Corpus),
		Batch:  ds.Batch, System: ds.System, SharedSystem: ds.SharedSystem, UserContext: ds.UserContext,
		PrefixPool: ds.PrefixPool, PrefixLength: ds.PrefixLength,
		Turns: lengthOf(ds.Turns), Delay: lengthOf(ds.Delay), DelayRatio: ds.DelayRatio,
		CacheBust: dataset.CacheBust(ds.CacheBust),
	}
	for _, m := range ds.Mix {
		o.Mix = append(o.Mix, dataset.Share{Percent: m.Percent, Input: lengthOf(m.Input), Output: lengthOf(m.Output)})
	}
	for _, v := range ds.Variables {
		o.Variables = append(o.Variables, dataset.Variable(v))
	}
	for i := range cfg.Phases {
		o.Phases = append(o.Phases, cfg.Phases[i].Kind)
	}
	return o
}

// lengthOf is a length of the config as the dataset draws it.
func lengthOf(l config.Length) dataset.Length {
	out := dataset.Length{Mean: l.Mean, Stddev: l.Stddev, Low: l.Low, High: l.High}
	if s := l.Shape; s != nil {
		out.Shape = &dataset.Shape{Median: s.Median, Min: s.Min, Max: s.Max}
		for _, p := range s.Parts {
			out.Shape.Parts = append(out.Shape.Parts, dataset.Part{Weight: p.Weight, Length: lengthOf(p.Length)})
		}
	}
	return out
}

// corpus is the kind of text of that name in aiperf.
func corpus(name string) tokenize.Corpus {
	return map[string]tokenize.Corpus{"coding": tokenize.Code, "random": tokenize.Random}[name]
}

// longest is the longest first request that has to be reckoned with, and the longest answer that may be asked for.
func longest(ds *config.Dataset) lengths {
	input, output := lengthOf(ds.Input).Longest(), lengthOf(ds.Output).Longest()
	if len(ds.Mix) > 0 {
		input, output = 0, 0
	}
	for _, m := range ds.Mix {
		input, output = max(input, lengthOf(m.Input).Longest()), max(output, lengthOf(m.Output).Longest())
	}
	return lengths{input: input*max(1, ds.Batch) + ds.SharedSystem + ds.UserContext + ds.PrefixLength, output: output, turns: wholeTurns(ds.Turns.Mean)}
}

// template is what the prewarm finds out about the server's chat template.
type template struct {
	counted  bool                   // the input length is to count it
	count    func(tokens int) error // makes it do so
	measured bool
	tokens   int64 // the server's count of a throwaway's prompt over ours
	checked  bool  // a second throwaway was sent, of the corrected length
	missed   int64 // by how much the server's count of it was off
}

// learn is loadgen.Prewarm.Learn.
func (l *load) learn(ctx context.Context, ours, server metrics.Count) (again bool, err error) {
	if l.server != nil && l.server.counter == nil { // the chat template is in the lengths as they are
		return l.server.learn(ours, server)
	}
	again, err = l.learnTemplate(ours, server)
	if l.server != nil && err == nil && !again {
		err = l.server.makeAhead(ctx, l.plan.Phases)
	}
	return again, err
}

// learnTemplate measures the chat template by the first throwaway, and checks it by the second.
func (l *load) learnTemplate(ours, server metrics.Count) (again bool, err error) {
	t := &l.template
	switch {
	case !ours.Known || !server.Known:
		if t.counted {
			return false, errors.New("its answer has no usage.prompt_tokens, so the chat template's tokens are not known: leave out --apply-chat-template and --isl-counts template")
		}
	case !t.measured:
		t.measured, t.tokens = true, server.N-ours.N
		if !t.counted {
			return false, nil
		}
		if t.tokens < 0 {
			return false, fmt.Errorf("it counts %d tokens of a prompt of %d by our count: its tokenizer is another one than %s, so the chat template cannot be counted in; "+
				"give the model's own with --tokenizer", server.N, ours.N, l.tokens.Name())
		}
		if err := t.count(int(t.tokens)); err != nil {
			return false, err
		}
		return true, nil
	case t.counted:
		t.checked = true
		if off := server.N - ours.N; off != 0 {
			t.missed = off
		}
	}
	return false, nil
}

// promptGap compares the server's count of prompts with ours, over the first turns of all sessions.
type promptGap struct {
	n                    int64
	least, most          int64 // server's count - ours
	ours, server         int64 // sums
	shortest, longest    int64 // by our count
	serverMin, serverMax int64
	cached, cachedOf     int64 // tokens that the server took from its cache, and the prompts' that it said so of
	saidCached           bool
}

func (g *promptGap) add(r *metrics.Record) {
	if r.Turn > 0 || !r.Usage.Prompt.Known {
		return
	}
	server := r.Usage.Prompt.N
	if r.Usage.CacheRead.Known {
		g.saidCached = true
		g.cached += r.Usage.CacheRead.N
	}
	g.cachedOf += server
	if !r.In.Known {
		return
	}
	ours := r.In.N
	if gap := server - ours; g.n == 0 {
		g.least, g.most, g.shortest, g.longest, g.serverMin, g.serverMax = gap, gap, ours, ours, server, server
	} else {
		g.least, g.most = min(g.least, gap), max(g.most, gap)
		g.shortest, g.longest = min(g.shortest, ours), max(g.longest, ours)
		g.serverMin, g.serverMax = min(g.serverMin, server), max(g.serverMax, server)
	}
	g.n++
	g.ours += ours
	g.server += server
}

// ratio is the server's tokens for one of ours.
func (g *promptGap) ratio() float64 { return float64(g.server) / float64(max(1, g.ours)) }

// steady is how much a gap may vary and still be the same words around every prompt: where they meet the text, a token may be joined.
const steady = 4

// isTemplate reports whether the gap is that of words around every prompt.
func (g *promptGap) isTemplate() bool { return g.n > 0 && g.least >= 0 && g.most-g.least <= steady }

// cause says what the gap most likely comes from; "" where there is none.
func (g *promptGap) cause(counted, chat bool) string {
	tokens := fmt.Sprintf("%d tokens", g.least)
	if g.most != g.least {
		tokens = fmt.Sprintf("%d to %d tokens", g.least, g.most)
	}
	switch {
	case g.n == 0 || g.least == 0 && g.most == 0:
		return ""
	case g.serverMin == g.serverMax && g.longest > g.serverMax && (g.longest-g.shortest > steady || g.n >= cutCounts && g.shortest >= cutLength && g.most < -steady):
		return fmt.Sprintf("the server counts %d tokens of every prompt, also of those of %d: it cuts them there", g.serverMax, g.longest)
	case g.isTemplate() && counted:
		return fmt.Sprintf("the server counts %s more of a prompt than were asked for, though its chat template as measured is in the length: the template differs "+
			"from request to request, or the server's tokenizer is another one", tokens)
	case g.least == 1 && g.most == 1:
		return "the server counts 1 token more of every prompt: most likely a token that begins each text (BOS); --apply-chat-template has it in the input length"
	case g.isTemplate() && !chat:
		return fmt.Sprintf("the server counts %s more of a request than ours: most likely what its tokenizer puts around a text (BOS, EOS)", tokens)
	case g.isTemplate():
		return fmt.Sprintf("the server counts %s more of a prompt than ours: most likely its chat template; --apply-chat-template has them in the input length", tokens)
	default:
		return fmt.Sprintf("the server counts %.3f tokens for each of ours (%s of a prompt): its tokenizer is another one, and lengths are what the client's "+
			"makes them; give the model's own with --tokenizer", g.ratio(), lessToMore(g.least, g.most))
	}
}

// cutCounts prompts of different texts, cutLength tokens or longer, have one and the same count only where the server stops counting there.
const cutCounts, cutLength = 8, 128

// lessToMore says between what two differences are; a negative one is less.
func lessToMore(least, most int64) string {
	switch {
	case most <= 0:
		return fmt.Sprintf("%d to %d less", -most, -least)
	case least >= 0:
		return fmt.Sprintf("%d to %d more", least, most)
	}
	return fmt.Sprintf("%d less to %d more", -least, most)
}

// promptFacts is prefire.prompts of the summary.
func (b *bench) promptFacts(s dataset.Stats) export.Object {
	o := export.Object{
		{Key: "distinct", Value: s.Distinct},
		{Key: "repeated", Value: s.Repeated},
		{Key: "tokenizer", Value: b.load.tokens.Name()},
	}
	if s := b.load.server; s != nil {
		o[len(o)-1].Value = serverTokenizer
		o = append(o, s.facts()...)
	}
	t, g := &b.load.template, &b.sink.gap
	o = append(o, export.Field{Key: "template_counted", Value: t.counted && t.measured})
	switch {
	case !b.load.kind.Converses(): // there is no template
	case t.counted && t.measured:
		o = append(o, export.Field{Key: "template_tokens", Value: t.tokens}, export.Field{Key: "template_source", Value: "the server's count of the prewarm's inference"})
	case g.isTemplate():
		o = append(o, export.Field{Key: "template_tokens", Value: g.least}, export.Field{Key: "template_source", Value: "the server's count of all requests"})
	case g.n == 0 && t.measured && t.tokens >= 0:
		o = append(o, export.Field{Key: "template_tokens", Value: t.tokens}, export.Field{Key: "template_source", Value: "the server's count of the prewarm's inference"})
	}
	if g.n > 0 {
		o = append(o, export.Field{Key: "server_count", Value: export.Object{
			{Key: "compared", Value: g.n}, {Key: "more_min", Value: g.least}, {Key: "more_max", Value: g.most}, {Key: "ratio", Value: g.ratio()},
		}})
	}
	reuse := export.Object{}
	if s.Tokens > 0 { // what a file's prompts share is not known
		reuse = append(reuse, export.Field{Key: "asked_share", Value: portion(s.Shared, s.Tokens)})
	}
	if g.saidCached {
		reuse = append(reuse, export.Field{Key: "cached_tokens", Value: g.cached}, export.Field{Key: "cached_share", Value: portion(g.cached, g.cachedOf)})
	}
	return append(o, export.Field{Key: "reuse", Value: reuse})
}

func portion(part, of int64) float64 { return float64(part) / float64(max(1, of)) }

// reuseTolerance is by how much the server's share of cached tokens may differ from what the run asks for: it caches whole blocks, and what
// begins every prompt.
const reuseTolerance = 0.05

// promptNotices says what of the prompts is not as a reader would take it to be.
func (b *bench) promptNotices(s dataset.Stats) []string {
	var out []string
	if n := b.sink.misjudged; n > 0 {
		out = append(out, fmt.Sprintf("in %d answers the usage of the first chunk is none of its tokens, or all of the answer's: their ITL divides by all tokens but one, as without "+
			"--per-chunk-usage", n))
	}
	if s.Repeated > 0 {
		out = append(out, fmt.Sprintf("%d prompts were sent before in this run: the server may have answered them from its prefix cache", s.Repeated))
	}
	if notice := b.load.server.notice(); notice != "" {
		out = append(out, notice)
	}
	t, g := &b.load.template, &b.sink.gap
	if cause := g.cause(t.counted, b.load.kind.Converses()); cause != "" {
		out = append(out, cause)
	} else if t.missed != 0 {
		out = append(out, fmt.Sprintf("the prewarm's second prompt was %+d tokens off by the server's count, though its chat template was in the length", t.missed))
	}
	asked, cached := portion(s.Shared, s.Tokens), portion(g.cached, g.cachedOf)
	switch {
	case !g.saidCached, s.Tokens == 0:
	case cached > asked+reuseTolerance:
		out = append(out, fmt.Sprintf("the server took %.0f %% of the prompts' tokens from its prefix cache, and this run's prompts share %.0f %%: an earlier run with the same seed, "+
			"or a long chat template, may have filled it", 100*cached, 100*asked))
	case cached < asked/2-reuseTolerance:
		out = append(out, fmt.Sprintf("this run's prompts share %.0f %% of their tokens, and the server took %.0f %% from its prefix cache: is it switched on, and large enough?",
			100*asked, 100*cached))
	}
	for _, l := range []struct {
		name string
		config.Length
	}{{"input", b.cfg.Dataset.Input}, {"output", b.cfg.Dataset.Output}} {
		if mean := truncated(l.Length); len(b.cfg.Dataset.Mix) == 0 && math.Abs(mean-l.Mean) > 0.02*l.Mean {
			out = append(out, fmt.Sprintf("%s lengths are rounded up, and drawn again below 1, as in aiperf: their mean comes to %.1f tokens where %.1f were asked for", l.name, mean, l.Mean))
		}
	}
	return out
}

// truncated is the mean of a normal distribution that is cut at 0 and rounded up.
func truncated(l config.Length) float64 {
	if l.Stddev == 0 || l.Mean == 0 || l.Shape != nil {
		return l.Mean
	}
	a := -l.Mean / l.Stddev
	density := math.Exp(-a*a/2) / math.Sqrt(2*math.Pi)
	return l.Mean + l.Stddev*density/(0.5*math.Erfc(a/math.Sqrt2)) + 0.5
}
