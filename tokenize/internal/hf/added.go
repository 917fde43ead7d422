package hf

import (
	"unicode/utf8"

	"prefire/tokenize/internal/scan"
)

// added is a token that is found in the text before the model sees it.
type added struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`

	text string // Content as it is found: normalized where it is to be
}

// split cuts text at the added tokens in found, of which the longest counts wherever several begin, and hands what lies between to next.
// The first of it is at the beginning of everything if first is set.
func (t *Tokenizer) split(s *scratch, found *trie, text []byte, first bool, next func(t *Tokenizer, s *scratch, text []byte, first bool)) {
	if found == nil {
		next(t, s, text, first)
		return
	}
	from := 0
	for at := 0; at < len(text); {
		if !found.first[text[at]] {
			at++
			continue
		}
		what, end := found.longest(text, at)
		if what < 0 {
			at++
			continue
		}
		start, stop := at, end
		at = end
		token := &t.added[what]
		if token.SingleWord && (t.wordEnds(text[:start]) || t.wordBegins(text[stop:])) {
			continue
		}
		if token.LStrip {
			start = max(spaceBefore(t.classes, text, start), from)
		}
		if token.RStrip {
			stop = spaceBehind(t.classes, text, stop)
		}
		if from < start {
			next(t, s, text[from:start], first && from == 0)
		}
		s.emit(token.ID)
		from = stop // what it stripped may hold another added token, which counts all the same
	}
	if from < len(text) {
		next(t, s, text[from:], first && from == 0)
	}
}

func (t *Tokenizer) wordEnds(text []byte) bool {
	r, n := utf8.DecodeLastRune(text)
	return n > 0 && t.classes.Word(r)
}

func (t *Tokenizer) wordBegins(text []byte) bool {
	r, n := utf8.DecodeRune(text)
	return n > 0 && t.classes.Word(r)
}

// spaceBefore is where the white space that ends at text[i] begins.
func spaceBefore(k *scan.Classes, text []byte, i int) int {
	for i > 0 {
		r, n := utf8.DecodeLastRune(text[:i])
		if !k.Space(r) {
			break
		}
		i -= n
	}
	return i
}

// spaceBehind is where the white space that begins at text[i] ends.
func spaceBehind(k *scan.Classes, text []byte, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRune(text[i:])
		if !k.Space(r) {
			break
		}
		i += n
	}
	return i
}
