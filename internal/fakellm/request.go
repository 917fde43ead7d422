package fakellm

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// api is a path that takes inferences.
type api uint8

const (
	chats api = iota
	completions
	embeddings
)

// request is what the server reads of a body, of whichever API. Unknown fields are ignored, as vLLM ignores them.
type request struct {
	Messages            *[]message     `json:"messages"`
	Prompt              *texts         `json:"prompt"`
	Input               *texts         `json:"input"`
	Model               string         `json:"model"`
	Stream              bool           `json:"stream"`
	MaxTokens           *int           `json:"max_tokens"`
	MaxCompletionTokens *int           `json:"max_completion_tokens"`
	MinTokens           int            `json:"min_tokens"`
	IgnoreEOS           bool           `json:"ignore_eos"`
	StreamOptions       *streamOptions `json:"stream_options"`
}

// completionTokens is the limit of a completion that asks for none, which is the API's.
const completionTokens = 16

type streamOptions struct {
	IncludeUsage         bool `json:"include_usage"`
	ContinuousUsageStats bool `json:"continuous_usage_stats"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a message's text: a string, or a list of parts whose texts are joined by newlines, as vLLM joins them.
type content string

func (c *content) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(c))
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

// texts is a text, or a list of them.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = make(texts, 1)
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// job is a request that the server has accepted.
type job struct {
	api        api
	model      string
	stream     bool
	usage      bool   // a usage chunk at the end
	continuous bool   // usage in every chunk
	null       bool   // usage is null in every chunk, as a fault
	claim      string // of usage, as a fault: wrong, zero, text
	prompts    []int  // tokens of each prompt, a chat template's included; a chat has one
	output     int    // tokens of text, for each prompt
	stop       bool   // the answer ends by itself after them; otherwise it has reached its limit
	hash       [sha256.Size]byte
}

// prompt is the tokens of all prompts.
func (j *job) prompt() (n int) {
	for _, tokens := range j.prompts {
		n += tokens
	}
	return n
}

// tokens is what usage counts of a prompt's answer: an end-of-sequence token counts, though it has no text.
func (j *job) tokens() int {
	if j.stop && j.api != embeddings {
		return j.output + 1
	}
	return j.output
}

// decodeBody reads the JSON of a request's body into q.
func decodeBody(contentType string, body []byte, q any) *apiError {
	media, _, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return invalid("", "Unsupported Media Type: Only 'application/json' is allowed")
	}
	if len(body) == 0 {
		return invalid("body", "{'type': 'missing', 'loc': 'body', 'msg': 'Field required', 'input': 'None'}")
	}
	if err := json.Unmarshal(body, q); err != nil {
		return undecodable(err)
	}
	return nil
}

// accept reads and checks a body in vLLM's order, with vLLM's words.
func (s *Server) accept(a api, contentType string, body []byte) (*job, *apiError) {
	var q request
	if bad := decodeBody(contentType, body, &q); bad != nil {
		return nil, bad
	}
	unserved := s.serves(q.Model)
	if unserved != nil && a == embeddings {
		unserved.param, unserved.message = "", "The model `"+q.Model+"` does not exist."
	}
	switch {
	case a == chats && q.Messages == nil:
		return nil, missing(countKeys(body), "body.messages")
	case a == embeddings && q.Input == nil: // of each kind of request that the path takes
		return nil, missing(countKeys(body), "body.input", "body.messages", "body.messages", "body.messages", "body.input", "body.messages", "body.input")
	case a == completions && q.Prompt == nil:
		return nil, refused("prompt", "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)")
	case a != embeddings && q.StreamOptions != nil && !q.Stream:
		return nil, refused("stream_options", "Stream options can only be defined when `stream=True`. (parameter=stream_options)")
	case unserved != nil:
		return nil, unserved
	case a == chats && len(*q.Messages) == 0:
		return nil, refused("", "Cannot apply chat template to an empty conversation. Provide at least one message.")
	case a == completions && len(*q.Prompt) == 0, a == embeddings && len(*q.Input) == 0:
		return nil, refused("", "You must pass at least one prompt")
	}
	return s.plan(a, &q)
}

// read counts the tokens of a request's prompts and hashes them.
func (s *Server) read(j *job, q *request) {
	h := sha256.New()
	switch {
	case j.api == chats:
		n := s.o.UsageExtra
		for _, m := range *q.Messages {
			n += s.o.Counter.Count([]byte(m.Content))
			h.Write([]byte(m.Role + "\x00" + string(m.Content) + "\x00"))
		}
		j.prompts = []int{n}
	default:
		list := q.Prompt
		if j.api == embeddings {
			list = q.Input
		}
		for _, text := range *list {
			j.prompts = append(j.prompts, s.o.Counter.Count([]byte(text)))
			h.Write([]byte(text + "\x00"))
		}
	}
	h.Sum(j.hash[:0])
}

// plan decides how long the answer will be.
func (s *Server) plan(a api, q *request) (*job, *apiError) {
	j := &job{api: a, model: s.modelName(q.Model), stream: q.Stream && a != embeddings}
	if o := q.StreamOptions; o != nil && o.IncludeUsage {
		j.usage, j.continuous = true, o.ContinuousUsageStats
	}
	limit, param := q.MaxTokens, "max_tokens"
	switch {
	case a == embeddings:
		limit = new(int) // nothing is generated
	case a == completions && limit == nil:
		limit = new(int)
		*limit = completionTokens
	case a == chats && q.MaxCompletionTokens != nil:
		limit, param = q.MaxCompletionTokens, "max_completion_tokens"
	}
	length := s.o.MaxModelLen
	if limit != nil && *limit > length {
		return nil, refused(param, "%s=%d cannot be greater than max_model_len=%d. Please request fewer output tokens. (parameter=%s, value=%d)",
			param, *limit, length, param, *limit)
	}
	s.read(j, q)
	longest := slices.Max(j.prompts)
	if longest > length {
		// vLLM stops to tokenize one past the limit, and so does not know the whole length.
		return nil, refused("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, "+
			"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "+
			"(parameter=input_tokens, value=%d)", length, length+1, length+1)
	}
	// A limit beyond what the context leaves is cut without a word, as vLLM cuts it.
	most := length - longest
	if limit != nil {
		most = min(most, *limit)
	}
	if a == embeddings {
		j.stop = true
		return j, nil
	}
	if most < 1 {
		return nil, refused("max_tokens", "max_tokens must be at least 1, got %d. (parameter=max_tokens, value=%d)", most, most)
	}
	j.output = most
	natural := s.o.OutputTokens
	if natural == 0 && limit == nil {
		natural = DefaultOutputTokens
	}
	if natural > 0 && !q.IgnoreEOS {
		if natural = max(natural, q.MinTokens); natural < most {
			j.output, j.stop = natural, true
		}
	}
	return j, nil
}

// undecodable turns encoding/json's error into pydantic's form.
func undecodable(err error) *apiError {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at := "body." + strconv.FormatInt(syntax.Offset, 10)
		return invalid(at, "{'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': '%s'}}",
			at, syntax.Error())
	case errors.As(err, &kind) && kind.Field == "":
		return invalid("body", "{'type': 'model_attributes_type', 'loc': 'body', "+
			"'msg': 'Input should be a valid dictionary or object to extract fields from', 'input': '<%s>'}", kind.Value)
	case errors.As(err, &kind):
		at := "body." + kind.Field
		want := kind.Type.Kind()
		return invalid(at, "{'type': '%s_type', 'loc': '%s', 'msg': 'Input should be a valid %s', 'input': '<%s>'}", want, at, want, kind.Value)
	}
	return invalid("body", "%v", err)
}

// countKeys is the number of keys of the object in body, which is known to be valid.
func countKeys(body []byte) int {
	var keys map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader(body)).Decode(&keys) != nil {
		return 0
	}
	return len(keys)
}
