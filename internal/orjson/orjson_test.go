package orjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\x00\x1f\"\\/", "é\xff\xc3", "\xe2\x80", "\u2028😀", "a\"b\\c\n\x7f", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := AppendString(nil, s)
		if b := AppendString(nil, []byte(s)); !bytes.Equal(b, out) {
			t.Fatalf("string %q, bytes %q", out, b)
		}
		var back string
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if want := strings.Map(func(r rune) rune { return r }, s); back != want { // Map makes U+FFFD of each bad byte
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}
