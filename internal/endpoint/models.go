package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Model is one model that a server says it serves.
type Model struct {
	ID          string
	MaxModelLen int // tokens of prompt and answer together; 0 = the server does not say (only vLLM and its kin do)
}

// ParseModels reads the body of GET /v1/models.
func ParseModels(body []byte) ([]Model, error) {
	var list struct {
		Data *[]struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("the answer is not a list of models: %w", err)
	}
	if list.Data == nil {
		return nil, errors.New(`the answer is not a list of models: it has no "data"`)
	}
	var models []Model
	for _, m := range *list.Data {
		if m.ID != "" {
			models = append(models, Model{ID: m.ID, MaxModelLen: max(m.MaxModelLen, 0)})
		}
	}
	return models, nil
}
