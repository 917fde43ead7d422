package fakellm

import (
	"errors"
	"strings"
)

// candidates are plain words. Each is a token of its own with the space before it, in every vocabulary that splits before spaces.
const candidates = `the model answers with plain words that are one token each so that a client which counts them finds as many as were sent
a server can take time to read long text and then write its reply at an even pace while people wait and look at the screen
we test how fast it goes where the load is high and what happens when more work comes in than one machine can do
every number should be true or else it does not help anyone to know it better is a clear no than a false yes`

// singleTokens are the words of which any row counts as many tokens as it has words.
func singleTokens(c Counter) ([]string, error) {
	var words []string
	for w := range strings.FieldsSeq(candidates) {
		if w = " " + w; c.Count([]byte(w)) == 1 {
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return nil, errors.New("fakellm: the tokenizer has no token for any of the server's words")
	}
	row := strings.Repeat(strings.Join(words, ""), 2)
	if got, want := c.Count([]byte(row)), 2*len(words); got != want {
		return nil, errors.New("fakellm: the tokenizer joins the server's words into longer tokens")
	}
	return words, nil
}
