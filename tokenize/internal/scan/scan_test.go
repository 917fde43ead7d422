package scan

import (
	"bytes"
	"testing"
)

func TestClasses(t *testing.T) {
	k := New()
	for _, c := range []struct {
		r    rune
		want uint8
	}{
		{0, 0}, {'A', upper | letter}, {'z', lower | letter}, {'5', number}, {' ', space}, {'\n', space | newline}, {'\r', space | newline},
		{'\v', space}, {0x85, space}, {0x7f, 0}, {'!', 0}, {'_', 0}, {0xaa, upper | lower | letter}, {0x100, upper | letter},
		{0x101, lower | letter}, {0x139, upper | letter}, {0x13a, lower | letter}, {0x1c5, upper | letter}, {0x2b0, upper | lower | letter},
		{0x301, upper | lower}, {0x0661, number}, {0x4e2d, upper | lower | letter}, {0x3000, space}, {0x200b, 0}, {0x1f44d, 0},
		{0x1c89, upper | letter}, {0x1c8a, lower | letter}, {0x10ffff, 0}, {0xe0100, upper | lower}, {0xe000, 0},
		{0x378, 0}, {0x16d70, number},
	} {
		if got := k.of[c.r]; got != c.want {
			t.Errorf("class of %U is %06b, want %06b", c.r, got, c.want)
		}
	}
	letters := 0
	for _, c := range k.of {
		if c&letter != 0 {
			letters++
		}
	}
	if letters != 141028 {
		t.Errorf("%d letters, want Unicode 16's 141028", letters)
	}
}

// The splitters look at every character a bounded number of times: a quadratic one would need 10^11 steps for each text and not end.
func TestSplitEnds(t *testing.T) {
	k := New()
	for name, split := range map[string]Splitter{"o200k": O200k, "cl100k": CL100k} {
		for _, s := range []string{" \n", "\n ", "\u0301A", "AB\u02b0", "!/", "'s", " ", "\u0301", "a\u0301B", "A", "1", "!", "/\n"} {
			text := bytes.Repeat([]byte(s), 1<<19/len(s))
			for at := 0; at < len(text); {
				end := split(k, text, at)
				if end <= at || end > len(text) {
					t.Fatalf("%s: the piece of %q at %d ends at %d", name, s, at, end)
				}
				at = end
			}
		}
	}
}

func TestRepair(t *testing.T) {
	for in, want := range map[string]string{
		"\xff": "�", "a\xffb": "a�b", "\xe2\x82": "�", "\xe2\x82x": "�x", "\xf0\x9f\x91": "�", "\xc0\xaf": "��", "\xed\xa0\x80": "���",
		"\xf4\x90\x80\x80": "����", "\xe0\x80": "��", "\xf0\x9f\x91\xf0\x9f\x91\x8d": "�👍", "\xc2\x41": "�A", "\xf4\x8f\xbf": "�", "ok �": "ok �",
	} {
		if got := string(Repair([]byte(in))); got != want {
			t.Errorf("Repair(%q) = %q, want %q", in, got, want)
		}
	}
}
