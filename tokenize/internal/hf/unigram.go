package hf

import (
	"unicode/utf8"

	"prefire/tokenize/internal/vocab"
)

// unknownPenalty is what a character outside the vocabulary costs beyond the least likely token. The sum of the two is taken once: where
// ways tie, rounding decides.
const unknownPenalty = 10.0

// unigram is a language model of independent tokens: a word is cut into those whose scores (log probabilities) have the greatest sum.
type unigram struct {
	vocab   *vocab.Table
	scores  []float64 // by id
	trie    *trie
	strange float64 // the score of a character outside the vocabulary
	unknown int32   // or none, where every character must be in the vocabulary
	bytes   *[256]int32
}

// best is the best way to reach a place of a word: the last token on it and where that begins, -1 if nothing has come here yet.
type best struct {
	score float64
	from  int32
	id    int32
}

func (u *unigram) encode(s *scratch, word []byte) {
	s.best = s.best[:0]
	for range len(word) + 1 {
		s.best = append(s.best, best{from: -1})
	}
	for at := 0; at < len(word); {
		_, n := utf8.DecodeRune(word[at:])
		here, single := s.best[at].score, false
		node := uint64(0)
		for i := at; i < len(word); i++ {
			next, ok := u.trie.edges.get(node<<8 | uint64(word[i]))
			if !ok {
				break
			}
			s.work++
			node = next
			if id := u.trie.ends[node]; id >= 0 {
				s.better(i+1, best{here + u.scores[id], int32(at), id})
				single = single || i+1 == at+n
			}
		}
		if !single {
			s.better(at+n, best{here + u.strange, int32(at), u.unknown})
		}
		at += n
	}
	// Backwards to where each token begins; then forwards, with neighbouring unknown characters as one token.
	next := int32(-1)
	for end := int32(len(word)); end > 0; {
		b := &s.best[end]
		from := b.from
		b.from = next // from here on, the end of the token behind it
		next = end
		end = from
	}
	for from, end := int32(0), next; end > 0; {
		id, after := s.best[end].id, s.best[end].from
		for id == u.unknown && after > 0 && s.best[after].id == u.unknown {
			end, after = after, s.best[after].from
		}
		if id == u.unknown {
			u.missing(s, word[from:end])
		} else {
			s.emit(id)
		}
		from, end = end, after
	}
}

func (s *scratch) better(at int, b best) {
	if old := &s.best[at]; old.from < 0 || b.score > old.score {
		*old = b
	}
}

// missing enters text that no token spells: joined it may be one after all; else its bytes, where there are tokens for all of them.
func (u *unigram) missing(s *scratch, text []byte) {
	if id := u.vocab.Find(text, 0, len(text)); id != none {
		s.emit(id)
		return
	}
	if u.bytes != nil {
		all := true
		for _, c := range text {
			all = all && u.bytes[c] != none
		}
		if all {
			for _, c := range text {
				s.emit(u.bytes[c])
			}
			return
		}
	}
	if u.unknown != none {
		s.emit(u.unknown)
	}
}
