package scan

import "unicode/utf8"

// Properties of a code point beyond its class, each as one part of Python's tokenizers sees it: their Unicode versions differ.
const (
	word       = 1 << iota // \w
	numeric                // a number, to Digits
	punct                  // punctuation, to Punctuation and BertPreTokenizer
	other                  // control, format, unassigned or private, to BertNormalizer
	nonspacing             // a mark that BertNormalizer drops with accents
	mark                   // a mark that StripAccents drops
	symbol                 // [\p{P}\p{S}]
)

// Full makes the table of classes with the properties that only the parts of a tokenizer.json need, of about 2 MiB.
func Full() *Classes {
	k := New()
	k.props = make([]uint8, utf8.MaxRune+1)
	for i, entry := range propRanges {
		end := uint32(utf8.MaxRune + 1)
		if i+1 < len(propRanges) {
			end = propRanges[i+1] >> 8
		}
		if bits := uint8(entry); bits != 0 {
			for c := entry >> 8; c < end; c++ {
				k.props[c] = bits
			}
		}
	}
	return k
}

// prop is the properties and the length of the character at text[i]; past the end both are 0.
func (k *Classes) prop(text []byte, i int) (uint8, int) {
	if i >= len(text) {
		return 0, 0
	}
	r, n := utf8.DecodeRune(text[i:])
	return k.props[r], n
}

// Space reports whether r is white space.
func (k *Classes) Space(r rune) bool { return k.of[r]&space != 0 }

// Word reports whether r is part of a word: \w.
func (k *Classes) Word(r rune) bool { return k.props[r]&word != 0 }

// Control reports whether BertNormalizer takes r for a control character: control, format, private and unassigned code points.
func (k *Classes) Control(r rune) bool { return k.props[r]&other != 0 }

// Nonspacing reports whether r is a mark that BertNormalizer drops with the accents.
func (k *Classes) Nonspacing(r rune) bool { return k.props[r]&nonspacing != 0 }

// Mark reports whether r is a mark that StripAccents drops.
func (k *Classes) Mark(r rune) bool { return k.props[r]&mark != 0 }
