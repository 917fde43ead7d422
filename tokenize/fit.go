package tokenize

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OpeningWords is how many words of generated text, from its beginning, spell a number (see [Fitter.FitNumbered]). Each is one token.
const OpeningWords = 5

// Fitter makes readable texts of an exact number of tokens. It is safe for concurrent use as long as each caller brings its own source of
// randomness.
//
// Text is put together from words and marks that are one token each wherever they stand, so that the length follows from the number of
// parts; the finished text is counted all the same.
type Fitter struct {
	tok     Tokenizer
	key     uint64
	words   [256][]string // by slot of a sentence, each with its leading space
	opening [OpeningWords][]string
}

// TooShortError is a target that the fixed words alone are longer than.
type TooShortError struct{ Fixed, Target int } // tokens

func (e *TooShortError) Error() string {
	return fmt.Sprintf("the fixed words alone are %d tokens, and the whole text is to have %d", e.Fixed, e.Target)
}

// UnfitError is a target that no generated text meets between these fixed words, because their own tokens change with what stands
// beside them.
type UnfitError struct{ Fixed, Target int } // tokens

func (e *UnfitError) Error() string {
	return fmt.Sprintf("no text was found that makes the fixed words (%d tokens) a text of exactly %d tokens; a target a few tokens away, or "+
		"fixed words that end with a space, will do", e.Fixed, e.Target)
}

// Slots of a sentence: d and q are determiners before one thing and several, n and p nouns, v verb, j adjective, a adverb, r preposition,
// c conjunction; a capital begins a sentence.
var (
	afterOpening = [...]string{"rdjn.", "rdn.", "rqjp.", "a.", ",cdnvdjn.", "rdjnrdn."}
	sentences    = [...]string{
		"Djnvdn.", "Qpvdjnrdn.", "Rdjn,qpvdn.", "Djnavqp.", "A,dnvqjprdn.", "Dnrdjnvqp,cdnvdjn.", "Jpvdn,cqjpvqp.", "Dnvdn,cdnvdn.",
		"Qjprdnvdjnrdn.", "Rdn,dnvqjp.", "Qpavdjn,cdnvqprdn.", "Djnrqpvdn.", "A,qjpvdn.",
	}
)

// marks are the slots that stand for themselves; they never stand beside each other.
const marks = ",."

// openingSlots are the slots of the words that spell a number: "Quiet engineers measured narrow valleys".
const openingSlots = "Jpvjp"

// NewFitter makes a fitter for t. key orders the words that spell numbers: with another key, the same number begins another text.
func NewFitter(t Tokenizer, key uint64) (*Fitter, error) {
	f := &Fitter{tok: t, key: key}
	sources := map[byte]string{
		'd': determiners, 'q': pluralDeterminers, 'n': nouns, 'p': nouns, 'v': verbs, 'j': adjectives, 'a': adverbs, 'r': prepositions,
		'c': conjunctions,
	}
	for _, slot := range []byte("dqnpvjarc") {
		for _, w := range strings.Fields(sources[slot]) {
			if slot == 'p' {
				w += "s"
			}
			if f.whole(" " + w) {
				f.words[slot] = append(f.words[slot], " "+w)
			}
			// Without the space as well: a text may begin with it.
			if w = capital(w); f.whole(w) && f.whole(" "+w) {
				f.words[slot-'a'+'A'] = append(f.words[slot-'a'+'A'], " "+w)
			}
		}
	}
	for _, slot := range []byte("dqnpvjarcDQARJ") {
		if len(f.words[slot]) == 0 {
			return nil, fmt.Errorf("tokenizer %s has no word of one token for slot %c of a sentence; readable text of an exact length cannot be made",
				t.Name(), slot)
		}
	}
	for _, mark := range marks {
		if !f.whole(string(mark)) {
			return nil, fmt.Errorf("tokenizer %s does not have %q as one token; readable text of an exact length cannot be made", t.Name(), mark)
		}
		f.words[mark] = []string{string(mark)}
	}
	for i := range f.opening {
		f.opening[i] = append([]string(nil), f.words[openingSlots[i]]...)
		rng := rand.New(rand.NewPCG(key, uint64(i)))
		rng.Shuffle(len(f.opening[i]), func(a, b int) { f.opening[i][a], f.opening[i][b] = f.opening[i][b], f.opening[i][a] })
	}
	return f, nil
}

func (f *Fitter) whole(s string) bool { return f.tok.Count([]byte(s)) == 1 }

func capital(w string) string { return strings.ToUpper(w[:1]) + w[1:] }

// Distinct is how many numbers the first words of an opening tell apart: numbers 0 to Distinct(k)-1 all begin with different k words.
func (f *Fitter) Distinct(words int) uint64 {
	n := uint64(1)
	for i := range min(max(words, 0), OpeningWords) {
		n *= uint64(len(f.opening[i]))
	}
	return n
}

// Fit appends prefix, generated text and suffix to dst, n tokens as a whole. The text follows from rng alone. Where there is no such text
// the error is a [TooShortError] or an [UnfitError], and dst comes back as it was.
func (f *Fitter) Fit(dst, prefix, suffix []byte, n int, rng *rand.Rand) ([]byte, error) {
	return f.FitNumbered(dst, prefix, suffix, n, rng.Uint64N(f.Distinct(OpeningWords)), rng)
}

// FitNumbered is [Fitter.Fit] with generated text whose first words spell number: two texts that have k of these words each begin with
// different ones, if their numbers differ and are below [Fitter.Distinct](k). A short text has as many of them as there is room for.
func (f *Fitter) FitNumbered(dst, prefix, suffix []byte, n int, number uint64, rng *rand.Rand) ([]byte, error) {
	start := len(dst)
	dst = append(dst, prefix...)
	dst = f.spell(dst, prefix, number, OpeningWords)
	open := len(dst)
	dst = append(append(dst, '.'), suffix...)
	// What stands between the opening and its full stop adds a token a part, and changes nothing at the edges.
	parts := n - f.tok.Count(dst[start:])
	for range 8 {
		if parts < 0 {
			return f.fitShort(dst[:start], prefix, suffix, n, number)
		}
		dst = f.prose(dst[:open], parts, rng)
		dst = append(append(dst, '.'), suffix...)
		count := f.tok.Count(dst[start:])
		if count == n {
			return dst, nil
		}
		parts += n - count // the tokenizer joins across parts after all
	}
	return dst[:start], &UnfitError{Fixed: f.fixed(prefix, suffix), Target: n}
}

// fitShort finds a text that has room for part of an opening at most.
func (f *Fitter) fitShort(dst, prefix, suffix []byte, n int, number uint64) ([]byte, error) {
	start := len(dst)
	for words := OpeningWords; words >= 0; words-- {
		for _, end := range []string{"", ".", ",", "\n", " "} {
			dst = append(dst[:start], prefix...)
			dst = f.spell(dst, prefix, number, words)
			dst = append(append(dst, end...), suffix...)
			if f.tok.Count(dst[start:]) == n {
				return dst, nil
			}
		}
	}
	dst = dst[:start]
	fixed := f.fixed(prefix, suffix)
	if fixed > n {
		return dst, &TooShortError{Fixed: fixed, Target: n}
	}
	return dst, &UnfitError{Fixed: fixed, Target: n}
}

func (f *Fitter) fixed(prefix, suffix []byte) int {
	return f.tok.Count(append(append([]byte(nil), prefix...), suffix...))
}

// spell appends the first words of number's opening. Each digit of the number picks a word, the lowest digit first; what was spelled
// before shifts the choice, so that neighbouring numbers do not share words.
func (f *Fitter) spell(dst, prefix []byte, number uint64, words int) []byte {
	shift := f.key
	for i := range words {
		list := f.opening[i]
		digit := number % uint64(len(list))
		number /= uint64(len(list))
		word := list[(digit+shift%uint64(len(list)))%uint64(len(list))]
		if i == 0 {
			if last, _ := utf8.DecodeLastRune(prefix); len(prefix) == 0 || unicode.IsSpace(last) {
				word = word[1:]
			}
		}
		dst = append(dst, word...)
		shift = mix(shift ^ digit)
	}
	return dst
}

// mix is the finalizer of SplitMix64: a bijection whose every output bit depends on every input bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// prose appends parts words and marks. The last one is a word, so that a mark can follow.
func (f *Fitter) prose(dst []byte, parts int, rng *rand.Rand) []byte {
	p := picker{rng: rng}
	pattern := afterOpening[p.below(len(afterOpening))]
	for ; parts > 0; parts-- {
		if pattern == "" {
			pattern = sentences[p.below(len(sentences))]
		}
		slot := pattern[0]
		pattern = pattern[1:]
		if parts == 1 && (slot == '.' || slot == ',') {
			slot = 'p'
		}
		list := f.words[slot]
		dst = append(dst, list[p.below(len(list))]...)
	}
	return dst
}

// picker makes small choices out of few random numbers.
type picker struct {
	rng  *rand.Rand
	bits uint64
	left int // choices in bits
}

// below is a number from 0 to n-1, n at most 65536; which of them come up a little more often does not matter for prose.
func (p *picker) below(n int) int {
	if p.left == 0 {
		p.bits, p.left = p.rng.Uint64(), 4
	}
	choice := int(uint16(p.bits)) * n >> 16
	p.bits >>= 16
	p.left--
	return choice
}
