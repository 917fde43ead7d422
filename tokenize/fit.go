package tokenize

import (
	"bytes"
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
// Text is put together from words that are one token each where the tokenizer has enough of those, so that the length follows from the
// number of words. Where the tokenizer proves that the counts of whole sentences add up (see [Breaker]), most of a long text is sentences
// counted beforehand, and what stands at its edges is counted, and the whole of every sampleEvery-th text; every other text is counted as a
// whole, and words are added and taken away until the count is right.
type Fitter struct {
	tok     Counter
	name    string // of the tokenizer
	key     uint64
	style   style
	words   [256][]string // by slot of a sentence, each with its leading space
	opening [OpeningWords][]string
	units   []string   // words of one token, each with its leading space, whatever their kind
	bank    []sentence // whole sentences whose counts add up; none where that is not proven
}

// Counter counts the tokens of a text; a [Tokenizer] is one.
type Counter interface{ Count(text []byte) int }

// Breaker is a [Tokenizer] that knows places across which no token reaches.
type Breaker interface {
	Tokenizer
	// Breaks reports whether Count(a+b) = Count(a) + Count(b) for every a that ends with before and every b that begins with after.
	Breaks(before, after []byte) bool
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

// openingSlots are the slots of the words that spell a number: "Quiet engineers measured narrow valleys".
const openingSlots = "Jpvjp"

// enough is how many words of one token a slot must have to do without longer words: those that spell numbers must tell many apart.
const (
	enough        = 4
	enoughOpening = 128
)

// NewFitter makes a fitter of prose for t. key orders the words that spell numbers: with another key, the same number begins another text.
func NewFitter(t Tokenizer, key uint64) (*Fitter, error) { return NewCorpusFitter(t, Prose, key) }

// NewCorpusFitter is [NewFitter] for text of another kind.
func NewCorpusFitter(t Tokenizer, c Corpus, key uint64) (*Fitter, error) {
	f := &Fitter{tok: t, name: t.Name(), key: key, style: c.style()}
	if c == Random {
		f.units = vocabularyWords(t)
		f.words['w'] = f.units
		if len(f.units) < enoughOpening {
			return nil, fmt.Errorf("tokenizer %s has %d tokens that are words, and text of random ones needs %d; use another --prompt-corpus", t.Name(),
				len(f.units), enoughOpening)
		}
	} else if err := f.chooseWords(t); err != nil {
		return nil, err
	}
	for slot, text := range f.style.literals {
		f.words[slot] = []string{text}
	}
	for i := range f.opening {
		f.opening[i] = shuffled(f.words[f.style.opening[i]], key, i)
	}
	if c == Prose {
		f.makeBank(t)
	}
	return f, nil
}

// CountedBy is a fitter of the same words whose texts have the length that c counts: of another tokenizer, one that can do no more than
// count, as a server. Each text takes some ten counts.
func (f *Fitter) CountedBy(c Counter) *Fitter {
	g := *f
	g.tok, g.bank = c, nil
	return &g
}

// chooseWords fills the slots for words.
func (f *Fitter) chooseWords(t Tokenizer) error {
	sources := map[byte]string{
		'd': determiners, 'q': pluralDeterminers, 'n': nouns, 'p': nouns, 'v': verbs, 'j': adjectives, 'a': adverbs, 'r': prepositions,
		'c': conjunctions,
	}
	k := chooser{tok: t, word: t.Count([]byte("So")), stop: t.Count([]byte("So."))}
	for _, slot := range []byte("dqnpvjarc") {
		small, capitals := k.list(), k.list()
		for _, w := range strings.Fields(sources[slot]) {
			if slot == 'p' {
				w += "s"
			}
			small.add("So", k.word, " "+w)
			if strings.IndexByte("dqjar", slot) >= 0 {
				capitals.add("So.", k.stop, " "+capital(w))
			}
		}
		f.words[slot], f.words[slot-'a'+'A'] = small.chosen(slot), capitals.chosen(slot-'a'+'A')
		f.units = append(f.units, small.units...)
		if len(f.words[slot]) == 0 {
			return fmt.Errorf("tokenizer %s sees no token in any word for slot %c of a sentence; readable text of an exact length cannot be made",
				t.Name(), slot)
		}
	}
	return nil
}

// chooser picks words by what they cost where they will stand.
type chooser struct {
	tok        Tokenizer
	word, stop int // tokens of the text before a word: another word, or a full stop
	text       []byte
	ids        []int32
}

// wordList holds the words for one slot: those of one token, each with a token of its own, and all of them.
type wordList struct {
	*chooser
	units, all []string
	seen       map[int32]bool
}

func (k *chooser) list() *wordList { return &wordList{chooser: k, seen: map[int32]bool{}} }

// add takes in a word that may follow before, a text of base tokens. A word that may begin a text must be a single token there too, to be
// a unit.
func (l *wordList) add(before string, base int, word string) {
	l.text = append(append(l.text[:0], before...), word...)
	l.ids = l.tok.Append(l.ids[:0], l.text)
	cost := len(l.ids) - base
	if cost < 1 {
		return
	}
	if cost == 1 {
		// Words that are all unknown to a tokenizer are the same token: they tell nothing apart.
		if id := l.ids[len(l.ids)-1]; l.seen[id] {
			return
		} else {
			l.seen[id] = true
		}
		if before == "So" || l.tok.Count(l.text[len(before)+1:]) == 1 {
			l.units = append(l.units, word)
		}
	}
	l.all = append(l.all, word)
}

func (l *wordList) chosen(slot byte) []string {
	need := enough
	if strings.IndexByte(openingSlots, slot) >= 0 {
		need = enoughOpening
	}
	if len(l.units) >= need {
		return l.units
	}
	return l.all
}

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
	dst, _, err := f.FitNumbered(dst, prefix, suffix, n, rng.Uint64N(f.Distinct(OpeningWords)), rng)
	return dst, err
}

// FitNumbered is [Fitter.Fit] with generated text whose first words spell number: two texts that have k of these words each begin with
// different ones, if their numbers differ and are below [Fitter.Distinct](k). A short text has as many of them as there is room for; words
// says how many.
func (f *Fitter) FitNumbered(dst, prefix, suffix []byte, n int, number uint64, rng *rand.Rand) (text []byte, words int, err error) {
	start := len(dst)
	dst = append(dst, prefix...)
	dst = f.spell(dst, prefix, number, OpeningWords)
	if len(f.bank) > 0 {
		if text, err, ok := f.fromBank(dst, start, suffix, n, number, rng); ok {
			return text, OpeningWords, err
		}
	}
	if text, ok := f.grow(dst, start, suffix, n, f.style.afterOpening, rng); ok {
		return text, OpeningWords, nil
	}
	for words := OpeningWords; words >= 0; words-- {
		dst = append(dst[:start], prefix...)
		dst = f.spell(dst, prefix, number, words)
		if text, ok := f.pad(dst, start, suffix, n, number); ok {
			return text, words, nil
		}
	}
	dst = dst[:start]
	fixed := f.fixed(prefix, suffix)
	if fixed > n {
		return dst, 0, &TooShortError{Fixed: fixed, Target: n}
	}
	return dst, 0, &UnfitError{Fixed: fixed, Target: n}
}

// growTries bounds how often a text is counted until its length is right; few is how many missing tokens are filled up one by one.
const (
	growTries = 64
	few       = 6
	// maxWord bounds how many bytes of generated text a token is taken to stand for: where more are added to no avail, the count is not one
	// that follows the text.
	maxWord = 64
)

// grow puts sentences, the first of them of one of patterns, after dst, until the text from start on has n tokens with a full stop and the suffix
// after them. It reports false where there is no room for that, or no such text was found; dst is then unchanged in the part before its
// length.
func (f *Fitter) grow(dst []byte, start int, suffix []byte, n int, patterns []string, rng *rand.Rand) ([]byte, bool) {
	open := len(dst)
	count := func(text []byte) int { return f.tok.Count(append(append(text, f.style.stop...), suffix...)[start:]) }
	bare := count(dst)
	if bare > n {
		return dst[:open], false
	}
	p := prose{f: f, pick: picker{rng: rng}}
	p.pattern = patterns[p.pick.below(len(patterns))]
	dst = p.append(dst, n-bare)
	for range growTries {
		now := count(dst)
		missing, size, gained := n-now, len(dst)-open, max(1, now-bare)
		switch {
		case missing == 0:
			return append(append(dst, f.style.stop...), suffix...), true
		case missing < 0 && size == 0:
			return dst[:open], false
		case missing < 0:
			dst = dst[:shorter(dst, open, -missing*size/gained)]
		case missing > few && size > 0:
			if size > maxWord*(n-bare+few) {
				return dst[:open], false
			}
			for end := len(dst) + min((missing-few)*size/gained+1, maxWord*(n-bare)); len(dst) < end; {
				dst = p.append(dst, 1)
			}
		default:
			if text, ok := f.pad(dst, start, suffix, n, rng.Uint64()); ok {
				return text, true
			}
			if size == 0 {
				return dst[:open], false
			}
			dst = dst[:shorter(dst, open, 1)]
		}
	}
	return dst[:open], false
}

// shorter is where dst ends when its last words are taken off, so many bytes or a little more, down to open at most.
func shorter(dst []byte, open, size int) int {
	end := max(open, len(dst)-size)
	end = max(open, bytes.LastIndexByte(dst[:end], ' '))
	for end > open && (dst[end-1] == '.' || dst[end-1] == ',') {
		end--
	}
	return end
}

// endings end a text or stand in for words where a few tokens are missing, from the best to what is still better than none.
var endings = [...]string{"", ".", ",", "\n", " ", " a", " I", "!", "?", " the", "s", "e", "a", "1", ";", "\n\n", "x", "日"}

// pad puts as few words and marks as it takes after dst, so that the text from start on has n tokens with the suffix after them. number
// chooses the words. It reports false where nothing was found; dst is then unchanged in the part before its length.
func (f *Fitter) pad(dst []byte, start int, suffix []byte, n int, number uint64) ([]byte, bool) {
	bare := len(dst)
	dst = append(dst, suffix...)
	missing := n - f.tok.Count(dst[start:])
	dst = dst[:bare]
	// The last token of all may be an ending; before it stand words, which tell texts apart.
	for step := 0; missing > 1 && step < maxPad; step++ {
		var ok bool
		if dst, missing, ok = f.padOne(dst, start, suffix, n, missing, number); !ok {
			break
		}
		if len(f.units) > 0 {
			number /= uint64(len(f.units))
		}
	}
	if missing > 1 || missing < -maxPad {
		return dst[:bare], false
	}
	if missing == 1 && len(dst) == start && len(f.units) > 0 { // a text of one token
		unit := f.units[number%uint64(len(f.units))][1:]
		if end := append(append(dst, unit...), suffix...); f.tok.Count(end[start:]) == n {
			return end, true
		}
	}
	// An ending alone, and behind one word more where a token takes in parts of two.
	for _, word := range [...]string{"", " the"} {
		end := append(dst, word...)
		for _, e := range endings {
			if end := append(append(end, e...), suffix...); f.tok.Count(end[start:]) == n {
				return end, true
			}
		}
	}
	return dst[:bare], false
}

// maxPad bounds how many tokens are filled up one by one.
const maxPad = 64

// padOne puts one word after dst that leaves fewer tokens missing, and not too few.
func (f *Fitter) padOne(dst []byte, start int, suffix []byte, n, missing int, number uint64) ([]byte, int, bool) {
	bare := len(dst)
	try := func(word string) (int, bool) {
		dst = append(append(dst[:bare], word...), suffix...)
		left := n - f.tok.Count(dst[start:])
		dst = dst[:bare+len(word)]
		return left, left >= 0 && (left < missing || left == missing && len(word) > 1)
	}
	if len(f.units) > 0 {
		unit := f.units[number%uint64(len(f.units))]
		if atStart(dst[start:]) {
			unit = unit[1:]
		}
		if left, ok := try(unit); ok {
			return dst, left, true
		}
	}
	for _, e := range endings[5:] {
		if left, ok := try(e); ok {
			return dst, left, true
		}
	}
	return dst[:bare], missing, false
}

// atStart reports whether a word after text needs no space before it.
func atStart(text []byte) bool {
	last, _ := utf8.DecodeLastRune(text)
	return len(text) == 0 || unicode.IsSpace(last)
}

func (f *Fitter) fixed(prefix, suffix []byte) int {
	return f.tok.Count(append(append([]byte(nil), prefix...), suffix...))
}

// spell appends the first words of number's opening. Each digit of the number picks a word, the lowest digit first; what was spelled
// before shifts the choice, so that neighbouring numbers do not share words.
func (f *Fitter) spell(dst, prefix []byte, number uint64, words int) []byte {
	shift := f.key
	if words > 0 {
		dst = append(dst, f.style.lead...)
	}
	for i := range words {
		list := f.opening[i]
		digit := number % uint64(len(list))
		number /= uint64(len(list))
		word := list[(digit+shift%uint64(len(list)))%uint64(len(list))]
		if i == 0 {
			if f.style.lead == "" && atStart(prefix) {
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

// prose writes sentences, part by part.
type prose struct {
	f       *Fitter
	pick    picker
	pattern string // what is left of the sentence
}

// append appends parts words and marks. The last one is a word, so that a mark can follow.
func (p *prose) append(dst []byte, parts int) []byte {
	for ; parts > 0; parts-- {
		if p.pattern == "" {
			p.pattern = p.f.style.sentences[p.pick.below(len(p.f.style.sentences))]
		}
		slot := p.pattern[0]
		p.pattern = p.pattern[1:]
		if parts == 1 && p.f.style.literals[slot] != "" {
			slot = p.f.style.last
		}
		list := p.f.words[slot]
		dst = append(dst, list[p.pick.below(len(list))]...)
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
