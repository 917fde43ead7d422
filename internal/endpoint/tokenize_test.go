package endpoint

import "testing"

func TestTokenizeBody(t *testing.T) {
	const want = `{"model":"a/\"b\"","prompt":"line\none ü","add_special_tokens":false}`
	if got := string(AppendTokenize(nil, `a/"b"`, []byte("line\none ü"))); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestTokenizeAnswer(t *testing.T) {
	for _, c := range []struct {
		body string
		want int
		fail string
	}{
		{`{"count":3,"max_model_len":8192,"tokens":[1,2,3],"token_strs":null}`, 3, ""},
		{`{"count":0,"tokens":[]}`, 0, ""},
		{`{"tokens":[1]}`, 0, `the answer has no "count" of tokens`},
		{`{"count":-1}`, 0, `the answer has no "count" of tokens`},
		{`not`, 0, "the answer is not JSON: invalid character 'o' in literal null (expecting 'u')"},
	} {
		got, err := ParseTokenize([]byte(c.body))
		if got != c.want || (err == nil) != (c.fail == "") || err != nil && err.Error() != c.fail {
			t.Errorf("%s: %d, %v; want %d, %s", c.body, got, err, c.want, c.fail)
		}
	}
}
