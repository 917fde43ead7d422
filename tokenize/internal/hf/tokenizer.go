// Package hf reads the tokenizer.json of Hugging Face's library tokenizers and gives the ids that it gives. A part that is not known is
// refused by name.
//
// Text passes, as there, the added tokens that are found in it as it stands; the normalizer; the added tokens that are found in normalized
// text; the pre-tokenizer; the model. Tokens that the post-processor would put around it (BOS, EOS) are not part of a text's tokens, and
// truncation and padding are none of a text's own.
package hf

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"prefire/tokenize/internal/heap"
	"prefire/tokenize/internal/scan"
	"prefire/tokenize/internal/vocab"
)

// Tokenizer turns text into ids and back as one tokenizer.json says. All methods are safe for concurrent use.
type Tokenizer struct {
	name        string
	classes     *scan.Classes
	added       []added
	addedByID   map[int32]int
	raw         *trie // of added tokens found in text as it stands; nil = none
	normal      *trie // of those found in normalized text
	normalizers []normalizer
	stages      []stage
	model       model
	vocab       *vocab.Table
	units       map[rune]byte    // of a byte-level vocabulary: the byte that each character of its spelling stands for
	odd         map[int32]string // tokens of a byte-level vocabulary that are no bytes, which no text gives
	decoding    decoding
	around      int // tokens that the post-processor puts around a text
	size        int
	breaks      bool          // see Breaks
	scratches   chan *scratch // at rest
}

// model turns a word, which is not empty, into tokens.
type model interface {
	encode(s *scratch, word []byte)
}

// Name is the name that the tokenizer was opened under.
func (t *Tokenizer) Name() string { return t.name }

// VocabSize is the highest id plus one, added tokens counted.
func (t *Tokenizer) VocabSize() int { return t.size }

// Around is the number of tokens, such as BOS, that the tokenizer puts around a text where it is asked to. They are in no count.
func (t *Tokenizer) Around() int { return t.around }

// Count is the number of tokens of text.
func (t *Tokenizer) Count(text []byte) int {
	_, n := t.encode(nil, text, false)
	return n
}

// Breaks reports whether a text that ends with before and one that begins with after have as many tokens together as apart: true where a
// byte-level model's words end with a full stop behind a letter, and begin with a space before one. The patterns that are known have no
// alternative that takes in both, and none of them looks behind.
func (t *Tokenizer) Breaks(before, after []byte) bool {
	return t.breaks && len(before) > 1 && isLetter(before[len(before)-2]) && before[len(before)-1] == '.' && len(after) > 1 && after[0] == ' ' &&
		isLetter(after[1])
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// findBreaks settles what Breaks says.
func (t *Tokenizer) findBreaks() {
	for _, n := range t.normalizers {
		if _, ok := n.(*form); !ok { // which leaves ASCII alone
			return
		}
	}
	for _, a := range t.added {
		if a.LStrip || a.RStrip || a.SingleWord || strings.Contains(a.text, ". ") {
			return
		}
	}
	words := false
	for _, s := range t.stages {
		p, ok := s.(*pattern)
		if !ok || p.behavior != isolated || p.invert {
			return
		}
		words = words || p.words
	}
	t.breaks = words && t.units != nil
}

// Append appends the ids of text's tokens to dst.
func (t *Tokenizer) Append(dst []int32, text []byte) []int32 {
	dst, _ = t.encode(dst, text, true)
	return dst
}

// scratch is the working memory of one call.
type scratch struct {
	dst  []int32
	n    int
	keep bool // ids are wanted, not just their number

	normal    [2][]byte
	letters   []letter
	dropped   bool // the normalizer dropped the beginning of the text
	graphemes *graphemes.Iterator[[]byte]
	buffers   [][]byte // by stage
	symbols   []symbol
	heap      heap.Min
	unit      []byte
	best      []best
	work      int // steps of the models, over the scratch's life
}

func (s *scratch) emit(id int32) {
	s.n++
	if s.keep {
		s.dst = append(s.dst, id)
	}
}

func (t *Tokenizer) encode(dst []int32, text []byte, keep bool) ([]int32, int) {
	if !utf8.Valid(text) {
		text = scan.Repair(text)
	}
	s := t.scratch()
	s.dst, s.n, s.keep = dst, 0, keep
	if len(text) > 0 {
		t.split(s, t.raw, text, true, (*Tokenizer).plain)
	}
	dst, n := s.dst, s.n
	t.rest(s)
	return dst, n
}

// plain encodes text between added tokens that are found in it as it stands.
func (t *Tokenizer) plain(s *scratch, text []byte, first bool) {
	text = t.normalize(s, text)
	if len(text) > 0 {
		t.split(s, t.normal, text, first && !s.dropped, (*Tokenizer).normalized)
	}
}

// normalized encodes text between added tokens that are found in normalized text.
func (t *Tokenizer) normalized(s *scratch, text []byte, first bool) { t.pre(s, 0, text, first) }

// scratch gives working memory for one call. A free list of its own, and not a sync.Pool, which allocates anew whenever it likes.
func (t *Tokenizer) scratch() *scratch {
	select {
	case s := <-t.scratches:
		return s
	default:
		return &scratch{buffers: make([][]byte, len(t.stages)), graphemes: graphemes.FromBytes(nil)}
	}
}

func (t *Tokenizer) rest(s *scratch) {
	s.dst = nil
	const most = 1 << 20 // bytes that one huge text does not make it keep
	held := 16*cap(s.symbols) + 8*cap(s.heap) + 16*cap(s.best) + 8*cap(s.letters) + cap(s.normal[0]) + cap(s.normal[1])
	for _, b := range s.buffers {
		held += cap(b)
	}
	if held > most {
		return
	}
	select {
	case t.scratches <- s:
	default:
	}
}
