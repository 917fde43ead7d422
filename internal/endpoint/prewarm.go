package endpoint

import "prefire/loadgen"

// Prewarm is what a prewarm must know of how an OpenAI server speaks; the rest of it is the run's own.
func Prewarm() loadgen.Prewarm {
	return loadgen.Prewarm{
		Models: func(body []byte) ([]loadgen.Model, error) {
			list, err := ParseModels(body)
			models := make([]loadgen.Model, len(list))
			for i, m := range list {
				models[i] = loadgen.Model{ID: m.ID, MaxLen: m.MaxModelLen}
			}
			return models, err
		},
		ErrorText:      ErrorText,
		ContextFigures: ContextFigures,
	}
}
