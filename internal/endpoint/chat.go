// Package endpoint makes request bodies and headers, and reads answers, for each type of inference endpoint. It opens nothing, and what it
// gives for one request does not depend on any other.
package endpoint

import (
	"fmt"
	"strconv"

	"prefire/internal/orjson"
	"prefire/loadgen"
	"prefire/loadgen/wire"
)

// ChatPath is the chat endpoint's path on an OpenAI server.
const ChatPath = "/v1/chat/completions"

// Pair is one field that every body gets: its key and its value as JSON.
type Pair struct {
	Key  string
	JSON []byte
}

// Options say how a chat endpoint's bodies look.
type Options struct {
	Model     string
	Streaming bool // ask for an event stream; a stream among Extra stands above it
	// LegacyMaxTokens writes the output limit as max_tokens instead of max_completion_tokens.
	LegacyMaxTokens bool
	// Extra fields replace fields of the same name where those stand, and follow the others in their order where there are none. A later
	// Pair of the same key replaces an earlier one. Values are replaced whole.
	Extra []Pair
}

// Chat is the OpenAI chat completions endpoint. It is safe for concurrent use.
type Chat struct {
	streaming bool
	limited   template // of a turn with an output limit
	open      template // of a turn without one
	fields    []field  // before the limit
	limit     string   // name of the output limit
	extra     []Pair
}

var _ loadgen.Endpoint = (*Chat)(nil)

// NewChat returns the endpoint for o. It fails where the model has no name or an extra field is not JSON.
//
// Whether requests stream is one decision, taken from Options.Streaming or, where Extra holds stream, from that value by Python's rules
// of truth: the body, the Accept header, [Chat.Streaming] and stream_options all follow it.
func NewChat(o Options) (*Chat, error) {
	if o.Model == "" {
		return nil, fmt.Errorf("a chat endpoint needs the name of a model")
	}
	extra := make([]Pair, len(o.Extra))
	streaming := o.Streaming
	for i, p := range o.Extra {
		v, err := orjson.Compact(p.JSON)
		if err != nil {
			return nil, fmt.Errorf("extra field %q is not JSON: %w", p.Key, err)
		}
		extra[i] = Pair{p.Key, v}
		if p.Key == "stream" {
			streaming = truthy(v)
		}
	}
	limit := "max_completion_tokens"
	if o.LegacyMaxTokens {
		limit = "max_tokens"
	}
	c := &Chat{streaming: streaming, limit: limit, extra: extra, fields: []field{
		{key: "messages", fill: messages},
		{key: "model", value: orjson.AppendString(nil, o.Model)},
		{key: "stream", value: strconv.AppendBool(nil, o.Streaming)},
	}}
	c.limited, c.open = c.compile(true, nil, nil), c.compile(false, nil, nil)
	return c, nil
}

// Streaming says whether requests ask for an event stream.
func (c *Chat) Streaming() bool { return c.streaming }

// Parser returns a parser of chat answers, streamed and whole.
func (c *Chat) Parser() wire.Parser { return new(parser) }
