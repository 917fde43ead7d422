package endpoint

import (
	"testing"

	"prefire/loadgen"
)

func TestARefusedFieldIsLeftOutFromThenOn(t *testing.T) {
	turn := &loadgen.Turn{MaxTokens: 5, Messages: []loadgen.Message{{Content: `say ,"stream_options":{"include_usage":true} twice`}}}
	const refused = `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`
	for _, c := range []struct {
		name   string
		o      Options
		status int
		text   string
		again  bool
	}{
		{"refused", Options{}, 400, refused, true},
		{"unprocessable", Options{}, 422, `{"detail":[{"loc":["body","stream_options"],"msg":"extra fields not permitted"}]}`, true},
		{"by the part for every chunk", Options{PerChunkUsage: true}, 400, "unknown field continuous_usage_stats", true},
		{"a completion", Options{Type: Completions}, 400, refused, true},
		{"something else", Options{}, 400, "no such model", false},
		{"another status", Options{}, 503, refused, false},
		{"the user's own", Options{Extra: []Pair{{"stream_options", []byte(`{"include_usage":true}`)}}}, 400, refused, false},
	} {
		if c.o.Type == "" {
			c.o.Type = Chat
		}
		c.o.Model, c.o.Streaming = "m", true
		e, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		body, err := e.AppendBody(nil, turn, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := e.Amend(nil, body, c.status, c.text)
		if ok != c.again || e.Amended() != c.again {
			t.Errorf("%s: sent again %v, without it from then on %v; want %v", c.name, ok, e.Amended(), c.again)
		}
		want := map[Type]string{
			Chat:        `{"messages":[{"role":"user","content":"say ,\"stream_options\":{\"include_usage\":true} twice"}],"model":"m","stream":true,"max_completion_tokens":5}`,
			Completions: `{"prompt":"say ,\"stream_options\":{\"include_usage\":true} twice","model":"m","stream":true,"max_tokens":5}`,
		}[c.o.Type]
		if !c.again {
			want = string(body)
		} else if string(got) != want {
			t.Errorf("%s: sent again as %s, want %s", c.name, got, want)
		}
		if next, err := e.AppendBody(nil, turn, nil); err != nil || string(next) != want {
			t.Errorf("%s: the next body is %s (%v), want %s", c.name, next, err, want)
		}
	}
}
