// Package endpoint makes request bodies and headers, and reads answers, for each type of inference endpoint. It opens nothing, and what it
// gives for one request depends on no other, but where a server has refused a part of the body ([Endpoint.Amend]).
package endpoint

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"prefire/internal/orjson"
	"prefire/loadgen"
	"prefire/loadgen/wire"
)

// Type is a kind of API, by aiperf's name for it.
type Type string

const (
	Chat        Type = "chat"        // OpenAI chat completions
	Completions Type = "completions" // OpenAI completions: a text goes on
	Embeddings  Type = "embeddings"  // OpenAI embeddings: texts become vectors
)

// Path is the API's path on an OpenAI server.
func (t Type) Path() string {
	switch t {
	case Completions:
		return "/v1/completions"
	case Embeddings:
		return "/v1/embeddings"
	}
	return "/v1/chat/completions"
}

// HasTokens says whether answers consist of tokens, which can be limited, counted and streamed.
func (t Type) HasTokens() bool { return t != Embeddings }

// Converses says whether requests are conversations: messages with roles, the answers before them included. The others are texts.
func (t Type) Converses() bool { return t == Chat }

// Pair is one field that every body gets: its key and its value as JSON.
type Pair struct {
	Key  string
	JSON []byte
}

// Options say how an endpoint's bodies look.
type Options struct {
	Type      Type
	Model     string // of turns that name none
	Streaming bool   // ask for an event stream; a stream among Extra stands above it
	// LegacyMaxTokens writes the output limit of a chat as max_tokens instead of max_completion_tokens; completions always have max_tokens.
	LegacyMaxTokens bool
	// PerChunkUsage asks for the token counts so far in every chunk of a stream.
	PerChunkUsage bool
	// Extra fields replace fields of the same name where those stand, and follow the others in their order where there are none. A later
	// Pair of the same key replaces an earlier one. Values are replaced whole.
	Extra []Pair
}

// Endpoint is one endpoint of a server. It is safe for concurrent use.
type Endpoint struct {
	kind      Type
	streaming bool
	perChunk  bool
	model     string
	limited   template // of a turn with an output limit
	open      template // of a turn without one
	asked     []byte   // what the bodies have to be sent the usage; nil = nothing of ours
	plain     struct{ limited, open template }
	amended   atomic.Bool
	fields    []field // before the limit
	limit     string  // name of the output limit; "" = there is none
	extra     []Pair
	choices   int // asked for by n; 0 = it does not say
}

var _ loadgen.Endpoint = (*Endpoint)(nil)

// New returns the endpoint for o. It fails where the model has no name or an extra field is not JSON.
//
// Whether requests stream is one decision, taken from Options.Streaming or, where Extra holds stream, from that value by Python's rules
// of truth: the body, the Accept header, [Endpoint.Streaming] and stream_options all follow it. Embeddings never stream.
func New(o Options) (*Endpoint, error) {
	if o.Model == "" {
		return nil, fmt.Errorf("an endpoint of type %s needs the name of a model", o.Type)
	}
	e := &Endpoint{kind: o.Type, streaming: o.Streaming, perChunk: o.PerChunkUsage, model: o.Model, extra: make([]Pair, len(o.Extra))}
	for i, p := range o.Extra {
		v, err := orjson.Compact(p.JSON)
		if err != nil {
			return nil, fmt.Errorf("extra field %q is not JSON: %w", p.Key, err)
		}
		e.extra[i] = Pair{p.Key, v}
		switch p.Key {
		case "stream":
			e.streaming = truthy(v)
		case "n":
			e.choices, _ = strconv.Atoi(string(v)) // what is no number the server refuses
		}
	}
	stream := field{key: "stream", value: strconv.AppendBool(nil, o.Streaming)}
	switch o.Type {
	case Chat:
		e.fields, e.limit = []field{{key: "messages", fill: messages}, {key: "model", fill: model}, stream}, "max_completion_tokens"
		if o.LegacyMaxTokens {
			e.limit = "max_tokens"
		}
	case Completions:
		e.fields, e.limit = []field{{key: "prompt", fill: prompt}, {key: "model", fill: model}, stream}, "max_tokens"
	case Embeddings:
		e.fields, e.streaming = []field{{key: "model", fill: model}, {key: "input", fill: inputs}}, false
	default:
		return nil, fmt.Errorf("%q is no type of endpoint", o.Type)
	}
	e.limited, e.open = e.compile(true, nil, nil, true), e.compile(false, nil, nil, true)
	e.plain.limited, e.plain.open = e.compile(true, nil, nil, false), e.compile(false, nil, nil, false)
	e.asked = e.askedByUs()
	return e, nil
}

// Streaming says whether requests ask for an event stream.
func (e *Endpoint) Streaming() bool { return e.streaming }

// Answers is how many answers a request of the turn asks for.
func (e *Endpoint) Answers(t *loadgen.Turn) int {
	n := max(1, e.choices)
	if e.kind == Completions {
		n *= max(1, countTexts(t.Messages))
	}
	return n
}

// Parser returns a parser of the endpoint's answers, streamed and whole.
func (e *Endpoint) Parser() wire.Parser {
	if e.kind == Embeddings {
		return vectors{}
	}
	return &parser{kind: e.kind}
}
