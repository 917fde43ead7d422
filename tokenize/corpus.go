package tokenize

import (
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Corpus is what a [Fitter] makes text of.
type Corpus uint8

const (
	Prose  Corpus = iota // English sentences
	Code                 // a program of short functions
	Random               // words of the vocabulary, of any language, one after another
)

// style is how the texts of a corpus are built. A pattern is a row of slots; each names a list of words.
type style struct {
	lead         string // before the words that spell a number
	opening      string // their slots
	afterOpening []string
	sentences    []string
	last         byte   // slot of the last word, where the pattern would end with a mark
	stop         string // ends the text
	literals     map[byte]string
}

func (c Corpus) style() style {
	switch c {
	case Code:
		return style{
			lead: "#", opening: openingSlots, last: 'n', stop: "\n",
			afterOpening: []string{"\n", "rdjn\n", "avdn\n"},
			sentences: []string{
				"Fn(n,p)In=n+p\nIRn\n", "Fv(p)IBninp:In+=n\nIRp\n", "n=n(n,n)\n", "Fn(n)Ifn<n:IIRn\nIRn*n\n", "#Jnvdn\n", "p=[n,n,n]\n",
				"Ifninp:I;n(p)\n", "Fj(n,n)IRn[n]+n\n",
			},
			literals: map[byte]string{
				'F': "\ndef", '(': " (", ')': " ):", 'I': "\n   ", '=': " =", '+': " +", '\n': "\n", 'R': " return", 'B': " for", 'i': " in", 'f': " if",
				'<': " <", ':': ":", '*': " *", '#': "\n#", '[': " [", ']': " ]", ',': ",", ';': "   ",
			},
		}
	case Random:
		return style{opening: "wwwww", afterOpening: []string{"wwwwwwww"}, sentences: []string{"wwwwwwww"}, last: 'w'}
	}
	return style{
		opening: openingSlots, afterOpening: afterOpening[:], sentences: sentences[:], last: 'p', stop: ".",
		literals: map[byte]string{',': ",", '.': "."},
	}
}

// vocabularyWords lists the tokens that are a space and letters, so that text put together from them falls into the same tokens again.
func vocabularyWords(t Tokenizer) []string {
	var out []string
	var text []byte
	so := []byte("So")
	base := t.Count(so)
	for id := range t.VocabSize() {
		one := [1]int32{int32(id)}
		var err error
		if text, err = t.Decode(text[:0], one[:]); err != nil {
			continue
		}
		word := string(text)
		if !strings.HasPrefix(word, " ") { // some tokenizers write none for a token alone, some none at all
			word = " " + word
		}
		if !letters3(word[1:]) || t.Count(append(so[:2:2], word...)) != base+1 || t.Count([]byte(word[1:])) != 1 {
			continue
		}
		out = append(out, word)
	}
	return out
}

// letters3 reports whether s is three letters or more, of one alphabet as far as upper and lower case go: no mark that joins what stands
// before.
func letters3(s string) bool {
	n := 0
	for _, r := range s {
		if !unicode.IsLetter(r) || r == utf8.RuneError {
			return false
		}
		n++
	}
	return n >= 3
}

// shuffled is a copy of list in an order that follows from key and i.
func shuffled(list []string, key uint64, i int) []string {
	out := append([]string(nil), list...)
	rng := rand.New(rand.NewPCG(key, uint64(i)))
	rng.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out
}
