package fakellm

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"prefire/tokenize"
)

// post sends a JSON body and gives the answer's status and body.
func post(t *testing.T, s *Server, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("POST", s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, text := roundTrip(t, http.DefaultTransport, req)
	return resp.StatusCode, text
}

func TestTokenize(t *testing.T) {
	counter, err := tokenize.Open("builtin")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Counter: counter, Models: []string{"tiny"}, MaxModelLen: 8192, UsageExtra: 2, APIKey: "k"}) // the key is /v1's alone
	ids, err := json.Marshal(counter.Append(nil, []byte("hello there")))
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Trim(string(ids), "[]")
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/tokenize", `{"model":"tiny","prompt":"hello there","add_special_tokens":false}`, 200,
			`{"count":2,"max_model_len":8192,"tokens":[` + list + `],"token_strs":null}`},
		{"/tokenize", `{"prompt":"hello there","return_token_strs":true}`, 200,
			`{"count":2,"max_model_len":8192,"tokens":[` + list + `],"token_strs":["hello"," there"]}`},
		{"/tokenize", `{"prompt":""}`, 200, `{"count":0,"max_model_len":8192,"tokens":[],"token_strs":null}`},
		{"/tokenize", `{` + hello + `}`, 200, `{"count":4,"max_model_len":8192,"tokens":[0,0,` + list + `],"token_strs":null}`},
		{"/detokenize", `{"model":"tiny","tokens":[` + list + `]}`, 200, `{"prompt":"hello there"}`},
	} {
		if status, body := post(t, s, c.path, c.body); status != c.status || body != c.want {
			t.Errorf("%s %s: %d %s\nwant %d %s", c.path, c.body, status, body, c.status, c.want)
		}
	}
	for _, c := range []struct {
		path, body string
		status     int
		param      any
	}{
		{"/tokenize", `{"model":"other","prompt":"x"}`, 404, "model"},
		{"/tokenize", `{"model":"tiny"}`, 400, "body.TokenizeCompletionRequest.prompt"},
		{"/tokenize", ``, 400, "body"},
		{"/tokenize", `{"prompt":7}`, 400, "body.prompt"},
		{"/detokenize", `{"model":"other","tokens":[1]}`, 404, "model"},
		{"/detokenize", `{}`, 400, "body.tokens"},
		{"/detokenize", `{"tokens":[999999]}`, 400, "tokens"},
	} {
		status, body := post(t, s, c.path, c.body)
		var e struct {
			Error struct {
				Param any
				Code  int
			}
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil || status != c.status || e.Error.Code != c.status || !reflect.DeepEqual(e.Error.Param, c.param) {
			t.Errorf("%s %s: %d %s (%v), want %d for %v", c.path, c.body, status, body, err, c.status, c.param)
		}
	}
}

// A server without ids, and one that is to be another than vLLM, have no such paths.
func TestNoTokenize(t *testing.T) {
	counter, err := tokenize.Open("builtin")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {Counter: counter, NoTokenize: true}} {
		s := start(t, o)
		for _, path := range []string{"/tokenize", "/detokenize"} {
			if status, body := post(t, s, path, `{"prompt":"x"}`); status != 404 || body != `{"detail":"Not Found"}` {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	}
}
