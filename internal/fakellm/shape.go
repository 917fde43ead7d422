package fakellm

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"prefire/sse"
)

// Finish reasons, and vLLM's name for a request whose client has gone.
const (
	reasonStop   = "stop"
	reasonLength = "length"
	reasonAbort  = "abort"
)

// fingerprint stands where vLLM names its version and configuration.
const fingerprint = "vllm-0.32.0-mock"

// shape writes the parts of one answer, byte for byte as vLLM 0.32 does. Each part is valid until the next is asked for.
type shape struct {
	j      *job
	reason string
	head   []byte // of every chunk, up to its choices
	id     string
	at     int64 // seconds since 1970
	buf    []byte
	out    []byte

	// What a fault makes of it.
	reasoning int    // so many tokens in front are reasoning
	field     string // that they are in; "" = reasoning
	tool      bool   // the answer is a tool call
	pad       int    // bytes of a field that the first content chunk has more
	half      half
}

// half says which part of a token's text a chunk holds.
type half uint8

const (
	wholeText half = iota
	firstHalf
	secondHalf
	noText
)

func newShape(x *exchange, j *job) *shape {
	s := &shape{j: j, reason: reasonLength, at: x.s.clock.Wall(x.begun).Unix()}
	if j.stop {
		s.reason = reasonStop
	}
	s.id = x.r.Header.Get("X-Request-ID")
	if s.id == "" {
		s.id = fmt.Sprintf("%016x", uint64(x.s.clock.Wall(x.begun).UnixNano())^uint64(x.entry.Connection)<<48)
	}
	switch j.api {
	case chats:
		s.id = "chatcmpl-" + s.id
		s.head = s.open(nil, "chat.completion.chunk")
	case completions:
		s.id = "cmpl-" + s.id
		s.head = s.open(nil, "text_completion")
	case embeddings:
		s.id = "embd-" + s.id
	}
	return s
}

func (s *shape) open(dst []byte, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendJSON(dst, s.id)
	dst = append(append(append(dst, `,"object":"`...), object...), `","created":`...)
	dst = strconv.AppendInt(dst, s.at, 10)
	dst = append(dst, `,"model":`...)
	dst = appendJSON(dst, s.j.model)
	return append(dst, `,"choices":[`...)
}

// event makes an event of what has been appended to buf.
func (s *shape) event(data []byte) []byte {
	s.buf = data
	s.out = sse.AppendEvent(s.out[:0], "", data)
	return s.out
}

// role is the first chunk of a stream.
func (s *shape) role() []byte {
	b := append(s.buf[:0], s.head...)
	b = append(b, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	b = s.running(b, 0)
	return s.event(append(b, `,"prompt_token_ids":null,"prompt_text":null}`...))
}

// content is the chunk of n tokens from k on of a prompt's answer. The last one carries the finish reason; an end-of-sequence token in it has
// no text.
func (s *shape) content(words []string, choice, k, n int, last bool) []byte {
	b := append(s.buf[:0], s.head...)
	if s.j.api == completions {
		return s.completed(b, words, choice, k, n, last)
	}
	b = append(b, `{"index":0,"delta":{`...)
	b = s.part(b, words, choice, k, k+n)
	b = append(b, `},"logprobs":null,"finish_reason":`...)
	if !last {
		b = append(b, `null,"token_ids":null}]`...)
		if k == 0 && s.pad > 0 && s.half != secondHalf {
			b = append(append(append(b, `,"pad":"`...), bytes.Repeat([]byte{'x'}, s.pad)...), '"')
		}
		return s.event(append(s.running(b, k+n), '}'))
	}
	b = append(append(append(b, '"'), s.finish()...), `","stop_reason":null,"token_ids":null}]`...)
	b = s.running(b, k+n)
	if !s.j.usage {
		b = append(b, `,"system_fingerprint":"`+fingerprint+`"`...)
	}
	return s.event(append(b, '}'))
}

// completed is content in the shape of a completion.
func (s *shape) completed(b []byte, words []string, choice, k, n int, last bool) []byte {
	b = strconv.AppendInt(append(b, `{"index":`...), int64(choice), 10)
	b = s.text(append(b, `,"text":"`...), words, choice, k, k+n)
	b = append(b, `","logprobs":null,"finish_reason":`...)
	if last {
		b = append(append(append(b, '"'), s.reason...), '"')
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]`...)
	if s.j.continuous {
		b = append(s.count(append(b, `,"usage":`...), k+n), '}')
	}
	if last && !s.j.usage && choice == len(s.j.prompts)-1 {
		b = append(b, `,"system_fingerprint":"`+fingerprint+`"`...)
	}
	return s.event(append(b, '}'))
}

// finish is the finish reason.
func (s *shape) finish() string {
	if s.tool {
		return "tool_calls"
	}
	return s.reason
}

// part appends the fields of a delta with the text of tokens [from, to).
func (s *shape) part(dst []byte, words []string, choice, from, to int) []byte {
	text := func(open, end string) []byte {
		return append(s.text(append(dst, open...), words, choice, from, to), end...)
	}
	switch {
	case s.tool && from == 0:
		dst = append(dst, `"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"`...)
		at := len(dst)
		dst = s.text(dst, words, choice, from, to)
		dst = append(dst[:at], bytes.TrimSpace(dst[at:])...) // a name has no blank in front
		return append(dst, `","arguments":""}}]`...)
	case s.tool:
		return text(`"tool_calls":[{"index":0,"function":{"arguments":"`, `"}}]`)
	case from >= s.reasoning:
		return text(`"content":"`, `"`)
	case s.field == "reasoning_details":
		return text(`"reasoning_details":[{"type":"reasoning.text","text":"`, `"}]`)
	}
	return text(`"`+cmp.Or(s.field, "reasoning")+`":"`, `"`)
}

// text appends the words of tokens [from, to) that have a text. Words need no escaping.
func (s *shape) text(dst []byte, words []string, choice, from, to int) []byte {
	for k := from; k < min(to, s.j.output); k++ {
		// The prompt's hash lets answers differ.
		word := words[(k+choice+int(s.j.hash[8]))%len(words)]
		switch s.half {
		case firstHalf:
			word = word[:len(word)/2]
		case secondHalf:
			word = word[len(word)/2:]
		case noText:
			word = ""
		}
		dst = append(dst, word...)
	}
	return dst
}

// running appends the usage so far where every chunk carries it.
func (s *shape) running(dst []byte, tokens int) []byte {
	switch {
	case s.j.null:
		return append(dst, `,"usage":null`...)
	case !s.j.continuous:
		return dst
	}
	return append(s.count(append(dst, `,"usage":`...), tokens), `,"completion_tokens_details":null}`...)
}

// count appends a usage object, left open.
func (s *shape) count(dst []byte, tokens int) []byte {
	prompt := s.j.prompt()
	switch s.j.claim {
	case "text":
		return fmt.Appendf(dst, `{"prompt_tokens":"%d","total_tokens":"%d","completion_tokens":"%d"`, prompt, prompt+tokens, tokens)
	case "wrong":
		tokens += tokens / 4
	case "zero":
		tokens = 0
	}
	dst = strconv.AppendInt(append(dst, `{"prompt_tokens":`...), int64(prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(prompt+tokens), 10)
	return strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(tokens), 10)
}

// usage is the chunk after the last token.
func (s *shape) usage(tokens int) []byte {
	b := append(append(s.buf[:0], s.head...), `],"usage":`...)
	return s.event(append(s.count(b, tokens), `},"system_fingerprint":"`+fingerprint+`"}`...))
}

func (s *shape) done() []byte { return s.event(append(s.buf[:0], "[DONE]"...)) }

// whole is the answer that is not streamed.
func (s *shape) whole(words []string) []byte {
	if s.j.api == completions {
		return s.completion(words)
	}
	b := append(s.open(s.buf[:0], "chat.completion"), `{"index":0,"message":{"role":"assistant","content":"`...)
	b = s.text(b, words, 0, s.reasoning, s.j.output)
	b = append(b, `","refusal":null,"annotations":null,"audio":null,"function_call":null`...)
	if s.reasoning > 0 {
		b = append(s.part(append(b, ','), words, 0, 0, min(s.reasoning, s.j.output)), `},"logprobs":null,"finish_reason":"`...)
	} else {
		b = append(b, `,"reasoning":null},"logprobs":null,"finish_reason":"`...)
	}
	b = append(b, s.reason...)
	b = append(b, `","stop_reason":null,"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"`+fingerprint+`","usage":`...)
	b = append(s.count(b, s.j.tokens()), `,"prompt_tokens_details":null,"completion_tokens_details":null}`...)
	b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null`...)
	return append(b, `,"ec_transfer_params":null,"metrics":null}`...)
}

// completion is a completion that is not streamed.
func (s *shape) completion(words []string) []byte {
	b := s.open(s.buf[:0], "text_completion")
	for choice := range s.j.prompts {
		if choice > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"index":`...), int64(choice), 10)
		b = s.text(append(b, `,"text":"`...), words, choice, 0, s.j.output)
		b = append(append(b, `","logprobs":null,"finish_reason":"`...), s.reason...)
		b = append(b, `","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}`...)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":"`+fingerprint+`","usage":`...)
	b = append(s.count(b, s.j.tokens()*len(s.j.prompts)), `,"prompt_tokens_details":null,"completion_tokens_details":null}`...)
	return append(b, `,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`...)
}

// dimensions is how many numbers a vector has.
const dimensions = 64

// vectors is the answer with an embedding for each text, of length 1. A request's texts decide its numbers.
func (s *shape) vectors() []byte {
	b := appendJSON(append(s.buf[:0], `{"id":`...), s.id)
	b = strconv.AppendInt(append(b, `,"object":"list","created":`...), s.at, 10)
	b = append(appendJSON(append(b, `,"model":`...), s.j.model), `,"data":[`...)
	rng := rand.New(rand.NewChaCha8(s.j.hash))
	var v [dimensions]float64
	for i := range s.j.prompts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(append(b, `{"index":`...), int64(i), 10), `,"object":"embedding","embedding":[`...)
		sum := 0.0
		for k := range v {
			v[k] = rng.NormFloat64()
			sum += v[k] * v[k]
		}
		for k := range v {
			if k > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendFloat(b, v[k]/math.Sqrt(sum), 'g', -1, 64)
		}
		b = append(b, "]}"...)
	}
	b = s.count(append(b, `],"usage":`...), 0)
	return append(b, `,"prompt_tokens_details":null,"completion_tokens_details":null}}`...)
}
