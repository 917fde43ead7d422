package config

import (
	"fmt"
	"math"
	"strings"
)

// Types of endpoint that requests can go to.
const (
	kindChat        = "chat"
	kindCompletions = "completions"
	kindEmbeddings  = "embeddings"
)

func usableEndpoints() []string { return []string{kindChat, kindCompletions, kindEmbeddings} }

// Ways in which the models of a run are shared out among its sessions.
const (
	RoundRobin   = "round_robin"
	RandomModel  = "random"
	WeightedPick = "weighted"
)

func modelStrategies() []string { return []string{RoundRobin, RandomModel, WeightedPick} }

// modelDraft is a model as it was given.
type modelDraft struct {
	name   string
	weight opt[float64]
}

type modelsDraft struct {
	list     []modelDraft
	from     string // where they were given
	strategy opt[string]
}

func (m *modelsDraft) names() []string {
	out := make([]string, len(m.list))
	for i := range m.list {
		out[i] = m.list[i].name
	}
	return out
}

// set replaces the models by names without weights.
func (m *modelsDraft) set(names []string, from string) {
	m.list, m.from = nil, from
	for _, name := range names {
		m.list = append(m.list, modelDraft{name: name})
	}
}

// resolveModels checks the models and how they are chosen, in aiperf's words.
func (r *decoder) resolveModels(m *modelsDraft) (strategy string, weights []float64) {
	if len(m.list) == 0 {
		r.problem("benchmark.models.items", "List should have at least 1 item after validation, not 0. Name the model with --model, or "+
			"under models in the config file.")
	}
	if m.strategy.v != RoundRobin {
		strategy = m.strategy.v
	}
	sum, all := 0.0, true
	for _, d := range m.list {
		if strings.TrimSpace(d.name) == "" {
			r.problem(m.from, "a model's name is empty.")
		}
		sum, all = sum+d.weight.v, all && d.weight.ok
		weights = append(weights, d.weight.v)
	}
	switch {
	case strategy != WeightedPick:
		return strategy, nil
	case len(m.list) == 0:
	case !all:
		r.problem(m.strategy.from, "All models must have weights specified when using weighted strategy: give each of models.items in the config file its weight, "+
			"from 0 to 1.")
	case math.Abs(sum-1) > 0.01+1e-9:
		r.problem(m.strategy.from, "Model weights must sum to 1.0, got %s.", plain(sum))
	}
	return strategy, weights
}

// echo is the models as input_config has them.
func (m *modelsDraft) echo() Map {
	items := make([]any, len(m.list))
	for i, d := range m.list {
		items[i] = put(Map{{"name", d.name}}, "weight", d.weight)
	}
	return append(put(Map{}, "strategy", m.strategy), KeyValue{"items", items})
}

// settleKind makes what was given agree with the kind of endpoint, and says what has no effect there.
func (r *decoder) settleKind(d *draft) {
	e := &d.endpoint
	kind := e.kind.or(kindChat)
	idle := func(g interface{ place() string }, why string) {
		if at := g.place(); at != "" {
			r.notices = append(r.notices, fmt.Sprintf("%s has no effect: %s.", at, why))
		}
	}
	if kind == kindEmbeddings {
		if e.streaming.v {
			r.notices = append(r.notices, fmt.Sprintf("%s: Streaming is not supported for endpoint type 'embeddings'. Streaming will be disabled.", e.streaming.from))
			e.streaming.v = false
		}
		idle(d.dataset.osl.mean, "an embedding has no output tokens that could be limited")
	}
	if kind != kindChat && e.legacy.v {
		idle(e.legacy, "the "+kind+" endpoint has one name for the output limit or none")
	}
	switch {
	case !e.perChunk.v:
	case !e.serverCounts.v:
		r.problem(e.perChunk.from, "--per-chunk-usage requires --use-server-token-count (the first-chunk token count comes from server-reported per-chunk usage).")
	case kind != kindChat:
		r.problem(e.perChunk.from, "--per-chunk-usage requires endpoint type 'chat' (continuous_usage_stats is only injected on the chat endpoint).")
	case !e.streaming.v:
		r.problem(e.perChunk.from, "--per-chunk-usage requires --streaming (continuous_usage_stats and inter-token latency apply only to streaming responses).")
	}
	if e.contentType.ok && e.contentType.v != jsonContent {
		r.problem(e.contentType.from, "request_content_type=%s is only supported for endpoint types that accept form-data (e.g. image_edit, video_generation); endpoint "+
			"type %s does not.", e.contentType.v, kind)
	}
	if kind != kindChat {
		r.textsOnly(d, kind)
	}
}

const jsonContent = "application/json"

// textsOnly refuses what only a conversation has.
func (r *decoder) textsOnly(d *draft, kind string) {
	p := &d.dataset.prompts
	for _, from := range []string{p.system.place(), p.systemFile.place()} {
		if from != "" {
			r.problem(from, "--system-prompt/--system-prompt-file is not supported by endpoint type '%s' (no system role), so the text would never reach the wire. "+
				"Supported endpoint types: chat.", kind)
			break
		}
	}
	for _, g := range []struct{ from, what string }{
		{p.sharedSystem.place(), "a system message"}, {p.userContext.place(), "a message before the first turn"},
	} {
		if g.from != "" {
			r.problem(g.from, "endpoint type '%s' takes texts and no messages, so %s would never reach the wire. Leave it out, or use --endpoint-type chat.", kind, g.what)
		}
	}
	if p.bust.v != "" && p.bust.v != "none" {
		r.problem(p.bust.from, "cache-bust markers go into the messages of a conversation; endpoint type '%s' takes texts. Use --endpoint-type chat.", kind)
	}
	if p.turns.mean.or(1) > 1 || p.turns.stddev.v > 0 {
		from := p.turns.mean.place()
		if from == "" {
			from = p.turns.stddev.place()
		}
		r.problem(from, "%s endpoint only supports one turn, as it has no history. Leave the turns out, or use --endpoint-type chat.", strings.ToUpper(kind[:1])+kind[1:])
	}
}
