package fakellm

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func ask(t *testing.T, s *Server, path, body string) string {
	t.Helper()
	req, err := http.NewRequest("POST", s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, text := roundTrip(t, http.DefaultTransport, req)
	if resp.StatusCode != 200 {
		t.Fatalf("%d: %s", resp.StatusCode, text)
	}
	return text
}

// Prompts of one request are answered side by side: at each step a chunk of each, in their order.
func TestACompletionAnswersEachPrompt(t *testing.T) {
	s := start(t, Options{ITL: 2 * time.Millisecond})
	text := ask(t, s, completionsPath, `{"prompt":["a b c","d"],"stream":true,"max_tokens":3,"stream_options":{"include_usage":true}}`)
	var order []int
	words := map[int]int{}
	for _, line := range strings.Split(text, "\n\n") {
		var c struct {
			Choices []struct {
				Index int
				Text  string
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &c) == nil && len(c.Choices) == 1 {
			order = append(order, c.Choices[0].Index)
			words[c.Choices[0].Index] += len(strings.Fields(c.Choices[0].Text))
		}
	}
	if want := []int{0, 1, 0, 1, 0, 1}; !slices.Equal(order, want) || words[0] != 3 || words[1] != 3 {
		t.Errorf("chunks of prompts %v, words %v", order, words)
	}
	if !strings.Contains(text, `"usage":{"prompt_tokens":4,"total_tokens":10,"completion_tokens":6}`) {
		t.Errorf("usage: %s", text)
	}
	log, err := s.Wait(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if e := log[0]; e.PromptTokens != 4 || e.OutputTokens != 6 || e.Path != completionsPath || e.Ended != EndedFinished || len(e.Writes) != 9 {
		t.Errorf("log %+v", e)
	}
	// To vLLM's engine each prompt is a request.
	metrics := string(s.stats.appendText(nil, 0, 0))
	for _, want := range []string{`finished_reason="length",model_name="mock-model"} 2.0`, `prompt_tokens_total{engine="0",model_name="mock-model"} 4.0`,
		`generation_tokens_total{engine="0",model_name="mock-model"} 6.0`, `time_to_first_token_seconds_count{engine="0",model_name="mock-model"} 2.0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestAnEmbeddingIsAVectorOfItsText(t *testing.T) {
	s := start(t, Options{})
	vectors := func(input string) (v [][]float64) {
		var a struct {
			Data  []struct{ Embedding []float64 }
			Usage struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(ask(t, s, embeddingsPath, `{"input":`+input+`}`)), &a); err != nil {
			t.Fatal(err)
		}
		if a.Usage.Prompt != 3 || a.Usage.Completion != 0 {
			t.Errorf("usage %+v", a.Usage)
		}
		for _, d := range a.Data {
			v = append(v, d.Embedding)
		}
		return v
	}
	one, again, two := vectors(`"a b c"`), vectors(`["a b c"]`), vectors(`["a b","c"]`)
	if len(one) != 1 || len(two) != 2 || !slices.Equal(one[0], again[0]) || slices.Equal(two[0], two[1]) {
		t.Fatalf("%v\n%v\n%v", one, again, two)
	}
	for _, v := range two {
		sum := 0.0
		for _, x := range v {
			sum += x * x
		}
		if len(v) != dimensions || math.Abs(sum-1) > 1e-12 {
			t.Errorf("%d numbers of length %v", len(v), sum)
		}
	}
	log, err := s.Wait(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log {
		if e.PromptTokens != 3 || e.OutputTokens != 0 || len(e.Writes) != 1 || e.Writes[0].Kind != WriteAnswer {
			t.Errorf("log %+v", e)
		}
	}
	if got := string(s.stats.appendText(nil, 0, 0)); !strings.Contains(got, `finished_reason="stop",model_name="mock-model"} 4.0`) ||
		!strings.Contains(got, `generation_tokens_total{engine="0",model_name="mock-model"} 0.0`) {
		t.Errorf("metrics:\n%s", got)
	}
}
