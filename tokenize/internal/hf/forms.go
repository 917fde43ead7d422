package hf

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// form is one of Unicode's four normal forms, as tokenizers has it: its tables are those of Unicode 9, and runs of marks have no limit. The
// data come from golang.org/x/text, whose own forms cut runs of more than 30 marks and follow a later Unicode.
type form struct {
	data    norm.Form
	compose *table // of a pair of characters: what they make together; nil to leave them apart
}

func newForm(f norm.Form) *form {
	n := &form{data: norm.NFD}
	if f == norm.NFKC || f == norm.NFKD {
		n.data = norm.NFKD
	}
	if f == norm.NFC || f == norm.NFKC {
		n.compose = compositions()
	}
	return n
}

// compositions reads the pairs off the decompositions, all of whose characters lie below U+3100 or from U+11000 to U+16FFF.
func compositions() *table {
	t := newTable(1 << 10)
	for r := rune(0xC0); r < 0x17000; r++ {
		if r == 0x3100 {
			r = 0x11000
		}
		s := string(r)
		whole := norm.NFD.PropertiesString(s).Decomposition()
		if later(r) || len(whole) == 0 || norm.NFC.String(s) != s {
			continue
		}
		last, n := utf8.DecodeLastRune(whole)
		first, size := utf8.DecodeRune(norm.NFC.Bytes(whole[:len(whole)-n]))
		if size > 0 {
			t.set(uint64(first)<<32|uint64(last), uint64(r))
		}
	}
	return t
}

// letter is a decomposed character with its canonical combining class: 0 begins anew, others are marks in that order.
type letter struct {
	r     rune
	class uint8
}

func (f *form) apply(dst, src []byte, s *scratch) []byte {
	if f.settled(src) {
		return append(dst, src...)
	}
	s.letters = s.letters[:0]
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		f.decompose(s, r, src[i:i+n])
		i += n
	}
	for i := 0; i < len(s.letters); i++ {
		from := i
		for i < len(s.letters) && s.letters[i].class != 0 {
			i++
		}
		if i-from > 1 {
			slices.SortStableFunc(s.letters[from:i], func(a, b letter) int { return int(a.class) - int(b.class) })
		}
	}
	if f.compose != nil {
		f.composeAll(s)
	}
	for _, l := range s.letters {
		dst = utf8.AppendRune(dst, l.r)
	}
	return dst
}

// settled reports that src is in the form, as far as that can be told fast.
func (f *form) settled(src []byte) bool {
	switch {
	case f.compose == nil:
		return isASCII(src)
	case f.data == norm.NFD:
		return norm.NFC.QuickSpan(src) == len(src)
	}
	return norm.NFKC.QuickSpan(src) == len(src)
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Hangul syllables are made of their parts by rule.
const (
	hangul       = 0xAC00
	leads        = 0x1100
	vowels       = 0x1161
	trails       = 0x11A7 // one before the first
	vowelCount   = 21
	trailCount   = 28
	leadCount    = 19
	hangulsCount = leadCount * vowelCount * trailCount
)

func (f *form) decompose(s *scratch, r rune, text []byte) {
	if n := r - hangul; n >= 0 && n < hangulsCount {
		s.letters = append(s.letters, letter{leads + n/(vowelCount*trailCount), 0}, letter{vowels + n/trailCount%vowelCount, 0})
		if n%trailCount > 0 {
			s.letters = append(s.letters, letter{trails + n%trailCount, 0})
		}
		return
	}
	if r < 0xA0 || later(r) {
		s.letters = append(s.letters, letter{r, 0})
		return
	}
	p := f.data.Properties(text)
	parts := p.Decomposition()
	if len(parts) == 0 {
		s.letters = append(s.letters, letter{r, p.CCC()})
		return
	}
	for len(parts) > 0 {
		r, n := utf8.DecodeRune(parts)
		s.letters = append(s.letters, letter{r, f.data.Properties(parts).CCC()})
		parts = parts[n:]
	}
}

func (f *form) composeAll(s *scratch) {
	kept, base := 0, -1 // letters kept, and the last of them that a mark can join
	between := false    // marks stand behind base already; class is the last one's
	class := uint8(0)
	for _, l := range s.letters {
		if base >= 0 && (!between || class < l.class) {
			if r, ok := f.pair(s.letters[base].r, l.r); ok {
				s.letters[base].r = r
				continue
			}
		}
		if l.class == 0 {
			base, between = kept, false
		} else {
			between, class = true, l.class
		}
		s.letters[kept] = l
		kept++
	}
	s.letters = s.letters[:kept]
}

func (f *form) pair(a, b rune) (rune, bool) {
	if l, v := a-leads, b-vowels; l >= 0 && l < leadCount && v >= 0 && v < vowelCount {
		return hangul + (l*vowelCount+v)*trailCount, true
	}
	if n, t := a-hangul, b-trails; n >= 0 && n < hangulsCount && n%trailCount == 0 && t > 0 && t < trailCount {
		return a + t, true
	}
	r, ok := f.compose.get(uint64(a)<<32 | uint64(b))
	return rune(r), ok
}
