package tokenize

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"prefire/tokenize/internal/scan"
	"prefire/tokenize/internal/vocab"
)

// special is a token that is written out in the text and never merged.
type special struct {
	text string
	id   int32
}

// bpe is a byte-pair encoding whose ids are the ranks of its merges.
type bpe struct {
	name     string
	split    scan.Splitter
	classes  *scan.Classes
	vocab    *vocab.Table
	specials []special
	special  map[string]special // by text
	longest  int                // of a special token's text
	size     int
	mergers  chan *merger // at rest
}

func newBPE(name string, source decoder, split scan.Splitter, specials []special) (*bpe, error) {
	ranks, err := ranked(source, specials)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	b := &bpe{
		name: name, split: split, classes: scan.New(), vocab: ranks, specials: specials, special: map[string]special{}, size: ranks.Len(),
		mergers: make(chan *merger, 64),
	}
	for _, s := range specials {
		b.special[s.text], b.longest = s, max(b.longest, len(s.text))
		b.size = max(b.size, int(s.id)+1)
	}
	return b, nil
}

func (b *bpe) Name() string   { return b.name }
func (b *bpe) VocabSize() int { return b.size }

func (b *bpe) Count(text []byte) int {
	_, n := b.encode(nil, text, false)
	return n
}

func (b *bpe) Append(dst []int32, text []byte) []int32 {
	dst, _ = b.encode(dst, text, true)
	return dst
}

func (b *bpe) Decode(dst []byte, ids []int32) ([]byte, error) {
next:
	for i, id := range ids {
		if id >= 0 {
			if token := b.vocab.Token(id); len(token) > 0 {
				dst = append(dst, token...)
				continue
			}
		}
		for _, s := range b.specials {
			if s.id == id {
				dst = append(dst, s.text...)
				continue next
			}
		}
		return dst, fmt.Errorf("token %d (number %d of %d) is not in the vocabulary of %s, whose ids are below %d", id, i, len(ids), b.name, b.size)
	}
	return dst, nil
}

// encode appends text's ids to dst if keep is set, and counts them in any case.
func (b *bpe) encode(dst []int32, text []byte, keep bool) ([]int32, int) {
	if !utf8.Valid(text) {
		text = scan.Repair(text)
	}
	m := b.merger()
	n, from, seek := 0, 0, 0
	for {
		i := bytes.Index(text[seek:], []byte("<|"))
		if i < 0 {
			break
		}
		seek += i
		s, ok := b.specialAt(text[seek:])
		if !ok {
			seek += 2
			continue
		}
		var k int
		dst, k = b.segment(dst, text[from:seek], keep, m)
		n += k + 1
		if keep {
			dst = append(dst, s.id)
		}
		seek += len(s.text)
		from = seek
	}
	dst, k := b.segment(dst, text[from:], keep, m)
	b.rest(m)
	return dst, n + k
}

// Breaks implements [Breaker]. All patterns split behind a full stop that a space follows: no alternative of theirs has the one before the
// other, none looks behind, and no special token has a full stop.
func (b *bpe) Breaks(before, after []byte) bool {
	return len(before) > 1 && isASCIILetter(before[len(before)-2]) && before[len(before)-1] == '.' &&
		len(after) > 1 && after[0] == ' ' && isASCIILetter(after[1])
}

func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// merger gives working memory for one call. A free list of its own, and not a sync.Pool, which allocates anew whenever it likes.
func (b *bpe) merger() *merger {
	select {
	case m := <-b.mergers:
		return m
	default:
		return new(merger)
	}
}

func (b *bpe) rest(m *merger) {
	if cap(m.parts) > 1<<16 {
		return // one huge piece does not keep its megabytes
	}
	select {
	case b.mergers <- m:
	default:
	}
}

// specialAt is the special token that text begins with, which is written <|name|>.
func (b *bpe) specialAt(text []byte) (special, bool) {
	end := bytes.Index(text[:min(len(text), b.longest)], []byte("|>"))
	if end < 0 {
		return special{}, false
	}
	s, ok := b.special[string(text[:end+2])]
	return s, ok
}

// segment encodes text that holds no special token.
func (b *bpe) segment(dst []int32, text []byte, keep bool, m *merger) ([]int32, int) {
	n := 0
	for at := 0; at < len(text); {
		end := b.split(b.classes, text, at)
		id := b.vocab.Find(text, at, end)
		if id != vocab.None {
			at = end
			n++
			if keep {
				dst = append(dst, id)
			}
			continue
		}
		ids := m.merge(b.vocab, text[at:end])
		at = end
		n += len(ids)
		if keep {
			dst = append(dst, ids...)
		}
	}
	return dst, n
}
