package fakellm

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// vocabulary is a [Counter] that has the tokens themselves, which /tokenize and /detokenize answer with. A server whose counter is none
// has no such paths.
type vocabulary interface {
	Append(dst []int32, text []byte) []int32
	Decode(dst []byte, ids []int32) ([]byte, error)
}

// vocabulary is the counter's, nil where the server is to have no /tokenize.
func (s *Server) vocabulary() vocabulary {
	v, ok := s.o.Counter.(vocabulary)
	if !ok || s.o.NoTokenize {
		return nil
	}
	return v
}

// tokenizeRequest is what the server reads of a body of /tokenize: a prompt, or else the messages of a chat.
type tokenizeRequest struct {
	Model     string     `json:"model"`
	Prompt    *string    `json:"prompt"`
	Messages  *[]message `json:"messages"`
	TokenStrs bool       `json:"return_token_strs"`
}

type tokenizeAnswer struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []int32  `json:"tokens"`
	TokenStrs   []string `json:"token_strs"`
}

// tokenize answers with the tokens of a text. Those that the options add to a prompt are a chat template's, and so in chats alone; their id
// is 0. Tokens are told as the text they stand for.
func (s *Server) tokenize(x *exchange, v vocabulary) {
	var q tokenizeRequest
	if bad := decodeBody(x.r.Header.Get("Content-Type"), x.body, &q); bad != nil {
		x.fail(bad)
		return
	}
	a := tokenizeAnswer{MaxModelLen: s.o.MaxModelLen, Tokens: []int32{}}
	switch bad := s.serves(q.Model); {
	case q.Prompt == nil && q.Messages == nil:
		x.fail(missing(countKeys(x.body), "body.TokenizeCompletionRequest.prompt", "body.TokenizeChatRequest.messages"))
		return
	case bad != nil:
		x.fail(bad)
		return
	case q.Prompt != nil:
		a.Tokens = v.Append(a.Tokens, []byte(*q.Prompt))
	default:
		a.Tokens = make([]int32, s.o.UsageExtra)
		for _, m := range *q.Messages {
			a.Tokens = v.Append(a.Tokens, []byte(m.Content))
		}
	}
	a.Count = len(a.Tokens)
	if q.TokenStrs {
		a.TokenStrs = []string{}
		for i := range a.Tokens {
			text, _ := v.Decode(nil, a.Tokens[i:i+1]) // ids of its own
			a.TokenStrs = append(a.TokenStrs, string(text))
		}
	}
	x.entry.Model = s.modelName(q.Model)
	x.answer(http.StatusOK, appendJSON(nil, a))
}

// detokenize answers with the text of tokens.
func (s *Server) detokenize(x *exchange, v vocabulary) {
	var q struct {
		Model  string   `json:"model"`
		Tokens *[]int32 `json:"tokens"`
	}
	if bad := decodeBody(x.r.Header.Get("Content-Type"), x.body, &q); bad != nil {
		x.fail(bad)
		return
	}
	if q.Tokens == nil {
		x.fail(missing(countKeys(x.body), "body.tokens"))
		return
	}
	if bad := s.serves(q.Model); bad != nil {
		x.fail(bad)
		return
	}
	text, err := v.Decode(nil, *q.Tokens)
	if err != nil {
		x.fail(refused("tokens", "%v", err))
		return
	}
	x.entry.Model = s.modelName(q.Model)
	x.answer(http.StatusOK, appendJSON(nil, struct {
		Prompt string `json:"prompt"`
	}{string(text)}))
}

// missing is what pydantic yields for an object of so many keys that lacks the field at each of these places.
func missing(keys int, places ...string) *apiError {
	var list []string
	for _, at := range places {
		list = append(list, fmt.Sprintf("  {'type': 'missing', 'loc': '%s', 'msg': 'Field required', 'input': '<dict of %d items>'}", at, keys))
	}
	many := ""
	if len(places) > 1 {
		many = "s"
	}
	return &apiError{http.StatusBadRequest, "Bad Request", places[0],
		fmt.Sprintf("%d validation error%s:\n%s", len(places), many, strings.Join(list, "\n"))}
}

// serves is the refusal of a model that the server does not have, nil for one that it has.
func (s *Server) serves(model string) *apiError {
	if model == "" || len(s.o.Models) == 0 || slices.Contains(s.o.Models, model) {
		return nil
	}
	return &apiError{http.StatusNotFound, "NotFoundError", "model",
		"The model `" + model + "` does not exist. Valid aliases: " + strings.Join(s.o.Models, ", ") + "."}
}
