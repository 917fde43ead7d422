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

// Every character at every place of a long text, alone and beside another.
func TestStringAtEveryPlace(t *testing.T) {
	long := strings.Repeat("abcdefgh", 2*stride/8)
	for _, s := range []string{"\"", "\\", "\x00", "\x1f", " ", "\x7f", "\x80", "\xff", "é", "😀", "\n\n", "é\xffé", "\"a\""} {
		for at := range stride + 20 {
			in := long[:at] + s + long[at:]
			var back string
			if out := AppendString(nil, in); json.Unmarshal(out, &back) != nil || back != strings.ToValidUTF8(in, "\uFFFD") {
				t.Fatalf("%q at %d: %s", s, at, out)
			}
		}
	}
}

func BenchmarkString(b *testing.B) {
	prose := strings.Repeat("The old boat went over the quiet lake. ", 64)
	for name, s := range map[string]string{"prose": prose, "lines": strings.ReplaceAll(prose, ".", ".\n"), "wide": strings.Repeat("日本語の文章", 100)} {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				dst = AppendString(dst[:0], s)
			}
		})
	}
}
