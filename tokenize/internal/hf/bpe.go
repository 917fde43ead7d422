package hf

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"prefire/tokenize/internal/vocab"
)

const none = vocab.None

// short is the longest word that is merged by scanning for the lowest rank; past it a heap is faster.
const short = 64

// bpe is a byte-pair encoding. Its units, which merging begins with, are bytes behind ByteLevel and characters otherwise.
type bpe struct {
	vocab          *vocab.Table
	merges         *table // of a pair of ids: the merge's rank in the high half, the id it makes in the low one
	byteLevel      bool
	ignoreMerges   bool // a word that is in the vocabulary is that token, whatever the merges would make of it
	fuseUnknown    bool
	unknown        int32 // or none: units that the vocabulary lacks are dropped
	bytes          *[256]int32
	prefix, suffix []byte // of units that do not begin a word, and of the one that ends it

	// whole holds two bits a token: whether merging its text gives that token alone has been found out, and what came out. A word in the
	// vocabulary is looked up then, not merged.
	whole []atomic.Uint32

	// pairs holds the neighbouring characters that some merge joins. Between two others no merge ever reaches across, so that text without
	// pre-tokens is merged in pieces. nil: pieces cannot be told.
	pairs *table
	ascii [128][128]bool // the same for characters below 127 and for the block that stands for a space
}

// symbol is a run of the word that has become one token.
type symbol struct {
	id, rank, made int32 // rank and id of the merge with the next symbol; a rank of none if there is none
	prev, next     int32 // neighbours while a heap is used; -1 = none
}

// block stands for a space in models that come from SentencePiece.
const block = '▁'

// small is r's place in bpe.ascii.
func small(r rune) (int, bool) {
	if r == block {
		return 127, true
	}
	return int(r), r < 127
}

func (b *bpe) join(left, right rune) {
	if l, ok := small(left); ok {
		if r, ok := small(right); ok {
			b.ascii[l][r] = true
			return
		}
	}
	b.pairs.set(uint64(left)<<32|uint64(right), 0)
}

func (b *bpe) joined(left, right rune) bool {
	if l, ok := small(left); ok {
		if r, ok := small(right); ok {
			return b.ascii[l][r]
		}
	}
	_, ok := b.pairs.get(uint64(left)<<32 | uint64(right))
	return ok
}

// merge enters the merge of left and right, of that rank. left and right are valid until the next call alone.
func (b *bpe) merge(left, right []byte, rank int, buffer []byte) ([]byte, error) {
	l, r := b.vocab.Find(left, 0, len(left)), b.vocab.Find(right, 0, len(right))
	for _, part := range []struct {
		id   int32
		text []byte
	}{{l, left}, {r, right}} {
		if part.id == none {
			return buffer, fmt.Errorf("merge %d joins %q, which is not in the vocabulary", rank, part.text)
		}
	}
	if len(right) < len(b.prefix) {
		return buffer, fmt.Errorf("merge %d joins %q, which is shorter than continuing_subword_prefix", rank, right)
	}
	buffer = append(append(buffer[:0], left...), right[len(b.prefix):]...)
	made := b.vocab.Find(buffer, 0, len(buffer))
	if made == none {
		return buffer, fmt.Errorf("merge %d makes %q, which is not in the vocabulary", rank, buffer)
	}
	b.merges.set(uint64(l)<<32|uint64(r), uint64(rank)<<32|uint64(made))
	if b.pairs == nil {
		return buffer, nil
	}
	last, _ := utf8.DecodeLastRune(left)
	first, _ := utf8.DecodeRune(right)
	b.join(last, first)
	if l == b.unknown || r == b.unknown || b.isByte(l, left) || b.isByte(r, right) {
		b.pairs = nil // merges reach past characters that are in no token
	}
	return buffer, nil
}

func (b *bpe) isByte(id int32, text []byte) bool {
	return b.bytes != nil && len(text) == len("<0x00>") && slices.Contains(b.bytes[:], id)
}

func (b *bpe) encode(s *scratch, word []byte) {
	if len(word) == 0 {
		return
	}
	if b.pairs == nil {
		b.word(s, word)
		return
	}
	if b.ignoreMerges {
		if id := b.vocab.Find(word, 0, len(word)); id != none {
			s.emit(id)
			return
		}
	}
	from, last, pending := 0, rune(-1), false
	for i := 0; i < len(word); {
		r, n := utf8.DecodeRune(word[i:])
		if last >= 0 && b.joined(last, r) {
			last, i = r, i+n
			continue
		}
		if b.vocab.Find(word, i, i+n) == none {
			b.piece(s, word[from:i])
			pending = b.missing(s, word[i:i+n], pending)
			i += n
			from, last = i, -1
			continue
		}
		if last >= 0 {
			b.piece(s, word[from:i])
			from = i
		}
		if pending {
			s.emit(b.unknown)
			pending = false
		}
		last, i = r, i+n
	}
	b.piece(s, word[from:])
	if pending {
		s.emit(b.unknown)
	}
}

// missing enters a character that the vocabulary lacks: its bytes where there are tokens for them, else the unknown token, which waits until
// it is known whether the next one joins it.
func (b *bpe) missing(s *scratch, char []byte, pending bool) bool {
	if b.fallback(char) {
		for _, c := range char {
			s.emit(b.bytes[c])
		}
		return pending
	}
	if b.unknown == none {
		return false
	}
	if pending && !b.fuseUnknown {
		s.emit(b.unknown)
	}
	return true
}

func (b *bpe) fallback(char []byte) bool {
	if b.bytes == nil {
		return false
	}
	for _, c := range char {
		if b.bytes[c] == none {
			return false
		}
	}
	return true
}

func (b *bpe) piece(s *scratch, piece []byte) {
	if len(piece) > 0 {
		b.word(s, piece)
	}
}

// word encodes what merges within itself alone.
func (b *bpe) word(s *scratch, word []byte) {
	id := none
	if len(b.prefix) == 0 && len(b.suffix) == 0 || b.ignoreMerges {
		id = b.vocab.Find(word, 0, len(word))
	}
	if id != none {
		if b.ignoreMerges {
			s.emit(id)
			return
		}
		switch shift := id % 16 * 2; b.whole[id/16].Load() >> shift & 3 {
		case 1:
			s.emit(id)
			return
		case 0:
			b.symbols(s, word)
			b.mergeAll(s)
			state := uint32(2)
			if len(s.symbols) == 1 && s.symbols[0].id == id {
				state = 1
			}
			b.whole[id/16].Or(state << shift)
			s.emitSymbols()
			return
		}
	}
	b.symbols(s, word)
	b.mergeAll(s)
	s.emitSymbols()
}

// symbols lays out the units that merging begins with.
func (b *bpe) symbols(s *scratch, word []byte) {
	s.symbols = s.symbols[:0]
	pending := false
	for i := 0; i < len(word); {
		n := 1
		if !b.byteLevel {
			_, n = utf8.DecodeRune(word[i:])
		}
		id := b.unit(s, word, i, i+n)
		if id != none {
			if pending {
				s.symbol(b.unknown)
				pending = false
			}
			s.symbol(id)
			i += n
			continue
		}
		char := s.unit // with prefix and suffix, whose bytes fall back as well
		i += n
		switch {
		case b.fallback(char):
			for _, c := range char {
				s.symbol(b.bytes[c])
			}
		case b.unknown != none:
			if pending && !b.fuseUnknown {
				s.symbol(b.unknown)
			}
			pending = true
		}
	}
	if pending {
		s.symbol(b.unknown)
	}
}

// unit is the id of the unit word[at:end], or none; s.unit is its text then.
func (b *bpe) unit(s *scratch, word []byte, at, end int) int32 {
	if id := none; len(b.prefix) == 0 && len(b.suffix) == 0 {
		if id = b.vocab.Find(word, at, end); id == none {
			s.unit = append(s.unit[:0], word[at:end]...)
		}
		return id
	}
	s.unit = s.unit[:0]
	if at > 0 {
		s.unit = append(s.unit, b.prefix...)
	}
	s.unit = append(s.unit, word[at:end]...)
	if end == len(word) {
		s.unit = append(s.unit, b.suffix...)
	}
	return b.vocab.Find(s.unit, 0, len(s.unit))
}

func (s *scratch) symbol(id int32) { s.symbols = append(s.symbols, symbol{id: id, rank: none}) }

func (s *scratch) emitSymbols() {
	for i := range s.symbols {
		s.emit(s.symbols[i].id)
	}
}

// rank looks up the merge of symbol i and its neighbour j.
func (b *bpe) rank(s *scratch, i, j int) {
	p := &s.symbols[i]
	s.work++
	p.rank = none
	if v, ok := b.merges.get(uint64(p.id)<<32 | uint64(s.symbols[j].id)); ok {
		p.rank, p.made = int32(v>>32), int32(uint32(v))
	}
}

// mergeAll joins, of all neighbouring symbols that have a merge, those of the lowest rank, the leftmost first, until there are none.
func (b *bpe) mergeAll(s *scratch) {
	for i := range len(s.symbols) - 1 {
		b.rank(s, i, i+1)
	}
	if len(s.symbols) <= short {
		b.scan(s)
	} else {
		b.queue(s)
	}
}

func (b *bpe) scan(s *scratch) {
	for {
		at := -1
		for i := range s.symbols {
			if r := s.symbols[i].rank; r != none && (at < 0 || r < s.symbols[at].rank) {
				at = i
			}
		}
		if at < 0 {
			return
		}
		s.symbols[at].id = s.symbols[at].made
		s.symbols = append(s.symbols[:at+1], s.symbols[at+2:]...)
		s.symbols[at].rank = none
		if at+1 < len(s.symbols) {
			b.rank(s, at, at+1)
		}
		if at > 0 {
			b.rank(s, at-1, at)
		}
	}
}

// queue does what scan does with a heap of rank and place. An entry is stale if its symbol has another merge by now: a pair that grows can
// never come back to the same text.
func (b *bpe) queue(s *scratch) {
	s.heap = s.heap[:0]
	for i := range s.symbols {
		s.symbols[i].prev, s.symbols[i].next = int32(i-1), int32(i+1)
		s.push(i)
	}
	s.symbols[len(s.symbols)-1].next = -1
	for len(s.heap) > 0 {
		top := s.heap.Pop(&s.work)
		i := int(uint32(top))
		p := &s.symbols[i]
		if p.rank == none || p.rank != int32(top>>32) {
			continue
		}
		gone := &s.symbols[p.next]
		p.id, p.next = p.made, gone.next
		gone.rank = none
		p.rank = none
		if p.next >= 0 {
			s.symbols[p.next].prev = int32(i)
			b.rank(s, i, int(p.next))
			s.push(i)
		}
		if p.prev >= 0 {
			b.rank(s, int(p.prev), i)
			s.push(int(p.prev))
		}
	}
	kept := 0
	for i := int32(0); i >= 0; {
		next := s.symbols[i].next
		s.symbols[kept].id = s.symbols[i].id // kept is at most i
		kept++
		i = next
	}
	s.symbols = s.symbols[:kept]
}

// push enters the pair that begins at symbol i, if it has a merge.
func (s *scratch) push(i int) {
	if r := s.symbols[i].rank; r != none {
		s.heap.Push(uint64(r)<<32|uint64(i), &s.work)
	}
}
