package endpoint

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// IsContextOverflow reports whether an error's text says that a request did not fit the model's context, by the list of words that aiperf
// 0.13.0 counts context_overflow_count by. The text may be a whole JSON error body.
func IsContextOverflow(text string) bool {
	if saysOverflow(text) {
		return true
	}
	// In a JSON body the words may be written with escapes.
	root, ok := object([]byte(text))
	if !ok {
		return false
	}
	message, ok := str(root["error"])
	if !ok {
		fields, _ := object(root["error"])
		message, _ = str(fields["message"])
	}
	return saysOverflow(message)
}

func saysOverflow(text string) bool {
	text = strings.ToLower(text)
	for _, words := range []string{"context length", "maximum context", "context_length_exceeded", "prompt is too long"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

var (
	contextLimit = regexp.MustCompile(`(?:maximum context length (?:is|of) |max_model_len ?= ?)(\d+)`)
	askedTotal   = regexp.MustCompile(`(?:for a total of (?:at least )?|you requested |messages resulted in )(\d+)(?: tokens|\.|$)`)
	askedInput   = regexp.MustCompile(`(?:your prompt contains (?:at least )?|your request has )(\d+) input tokens`)
	askedOutput  = regexp.MustCompile(`(?:you requested |is too large: |max_(?:completion_)?tokens=)(\d+)`)
)

// ContextFigures takes the figures out of the error texts that vLLM and OpenAI have for a request that does not fit: the model's context
// in tokens, and how many tokens were asked for, prompt and answer together as far as the text names them. asked is 0 where the text does
// not say it in tokens; it is a lower bound where vLLM stopped counting. ok is false where the text names no context.
func ContextFigures(text string) (limit, asked int, ok bool) {
	limit, ok = figure(contextLimit, text)
	if !ok {
		return 0, 0, false
	}
	if total, ok := figure(askedTotal, text); ok {
		return limit, total, true
	}
	input, _ := figure(askedInput, text)
	output, _ := figure(askedOutput, text)
	return limit, input + output, true
}

func figure(re *regexp.Regexp, text string) (int, bool) {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// ErrorText is the server's own words in an error body: the message of a JSON error of any shape, else the body itself.
func ErrorText(body string) string {
	if root, ok := object([]byte(body)); ok {
		if message, _, ok := faultOf([]byte(body), root); ok {
			return message
		}
		for _, key := range []string{"message", "detail"} {
			if text, _ := str(json.RawMessage(root[key])); text != "" {
				return text
			}
		}
	}
	return strings.TrimSpace(body)
}
