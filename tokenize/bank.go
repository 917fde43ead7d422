package tokenize

import (
	"fmt"
	"math/rand/v2"
)

// sentence is a sentence from its leading space to its full stop.
type sentence struct {
	text   string
	tokens int
}

const (
	bankSize = 1024
	// minTail is how many tokens at the end of a text are written word by word, at least.
	minTail = 16
	// sampleEvery is how often a text from the bank is counted as a whole, as a check on what the tokenizer says of itself.
	sampleEvery = 64
)

// makeBank fills the bank where the tokenizer knows that nothing reaches from a full stop behind a letter across the space before the next
// sentence. Its sentences do not depend on the key: how they are drawn does.
func (f *Fitter) makeBank(t Tokenizer) {
	if b, ok := t.(Breaker); !ok || !b.Breaks([]byte("o."), []byte(" S")) {
		return
	}
	p := prose{f: f, pick: picker{rng: rand.New(rand.NewPCG(bankSize, minTail))}}
	f.bank = make([]sentence, bankSize)
	var text []byte
	for i := range f.bank {
		p.pattern = f.style.sentences[i%len(f.style.sentences)]
		text = append(p.append(text[:0], len(p.pattern)-1), '.')
		f.bank[i] = sentence{string(text), t.Count(text)}
	}
}

// contradiction is a tokenizer whose Breaks is not true.
func (f *Fitter) contradiction(got, want int) error {
	return fmt.Errorf("tokenizer %s contradicts itself: a text of sentences with %d tokens in all is %d as a whole; please report this",
		f.name, want, got)
}

// fromBank is [Fitter.grow] for texts that have room for sentences of the bank. ok is false where there is none.
func (f *Fitter) fromBank(dst []byte, start int, suffix []byte, n int, number uint64, rng *rand.Rand) (text []byte, err error, ok bool) {
	open := len(dst)
	dst = append(dst, '.')
	left := n - f.tok.Count(dst[start:])
	if left < 4*minTail {
		return dst[:open], nil, false
	}
	p := prose{f: f, pick: picker{rng: rng}}
	for {
		s := &f.bank[p.pick.below(len(f.bank))]
		if left-s.tokens < minTail {
			break
		}
		dst = append(dst, s.text...)
		left -= s.tokens
	}
	// The tail's own full stop and the suffix are the rest.
	tail := len(dst)
	if dst, ok = f.grow(dst, tail, suffix, left, f.style.sentences, rng); !ok || dst[tail] != ' ' || !isASCIILetter(dst[tail+1]) {
		return dst[:open], nil, false
	}
	if number%sampleEvery == 0 {
		if got := f.tok.Count(dst[start:]); got != n {
			return dst[:start], f.contradiction(got, n), true
		}
	}
	return dst, nil, true
}
