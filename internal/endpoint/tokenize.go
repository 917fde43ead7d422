package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"

	"prefire/internal/orjson"
)

// TokenizePath is where vLLM and its kin count the tokens of a text; it is not below /v1.
const TokenizePath = "/tokenize"

// AppendTokenize appends the body of a question for the tokens of a text, without those that the server puts around a prompt (BOS).
func AppendTokenize(dst []byte, model string, text []byte) []byte {
	dst = orjson.AppendString(append(dst, `{"model":`...), model)
	dst = orjson.AppendString(append(dst, `,"prompt":`...), text)
	return append(dst, `,"add_special_tokens":false}`...)
}

// ParseTokenize reads the number of tokens out of the answer.
func ParseTokenize(body []byte) (int, error) {
	var a struct {
		Count *int `json:"count"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return 0, fmt.Errorf("the answer is not JSON: %w", err)
	}
	if a.Count == nil || *a.Count < 0 {
		return 0, errors.New(`the answer has no "count" of tokens`)
	}
	return *a.Count, nil
}
