package hf

import (
	"unicode/utf8"

	"prefire/tokenize/internal/vocab"
)

// wordPiece takes the longest token that a word begins with, then the longest that goes on with it, and so forth. A word that this does not
// cover is one unknown token.
type wordPiece struct {
	vocab   *vocab.Table
	prefix  []byte // of tokens that do not begin a word
	unknown int32
	most    int // characters of a word; longer ones are unknown
	long    int // bytes of the longest token
}

func (w *wordPiece) encode(s *scratch, word []byte) {
	if utf8.RuneCount(word) > w.most {
		s.emit(w.unknown)
		return
	}
	kept, count := len(s.dst), s.n
	for at := 0; at < len(word); {
		id, end := w.longest(s, word, at)
		if id == none {
			s.dst, s.n = s.dst[:kept], count
			s.emit(w.unknown)
			return
		}
		s.emit(id)
		at = end
	}
}

// longest is the longest token at word[at], and its end.
func (w *wordPiece) longest(s *scratch, word []byte, at int) (id int32, end int) {
	end = min(len(word), at+w.long)
	for end < len(word) && !utf8.RuneStart(word[end]) {
		end--
	}
	s.unit = s.unit[:0]
	if at > 0 {
		s.unit = append(s.unit, w.prefix...)
	}
	s.unit = append(s.unit, word[at:end]...)
	for end > at {
		s.work++
		if id = w.vocab.Find(s.unit, 0, len(s.unit)); id != none {
			return id, end
		}
		_, n := utf8.DecodeLastRune(s.unit)
		s.unit = s.unit[:len(s.unit)-n]
		end -= n
	}
	return none, end
}

// wordLevel knows whole words alone.
type wordLevel struct {
	vocab   *vocab.Table
	unknown int32
}

func (w *wordLevel) encode(s *scratch, word []byte) {
	if id := w.vocab.Find(word, 0, len(word)); id != none {
		s.emit(id)
	} else if w.unknown != none {
		s.emit(w.unknown)
	}
}
