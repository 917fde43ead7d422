package scan

import "unicode/utf8"

// Repair replaces each maximal ill-formed part of text by U+FFFD, as the Unicode standard recommends (chapter 3, "U+FFFD Substitution of
// Maximal Subparts") and Python does.
func Repair(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/2)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r != utf8.RuneError || size != 1 {
			out = append(out, text[:size]...)
			text = text[size:]
			continue
		}
		out = utf8.AppendRune(out, utf8.RuneError)
		text = text[illFormed(text):]
	}
	return out
}

// illFormed is the length of the maximal ill-formed part that text begins with: the longest start of a well-formed sequence, or one byte.
func illFormed(text []byte) int {
	// The second byte's range depends on the first; all later ones are 80 to BF.
	low, high, length := byte(0x80), byte(0xBF), 1
	switch c := text[0]; {
	case c == 0xE0:
		low, length = 0xA0, 3
	case c == 0xED:
		high, length = 0x9F, 3
	case c >= 0xE1 && c <= 0xEF:
		length = 3
	case c == 0xF0:
		low, length = 0x90, 4
	case c == 0xF4:
		high, length = 0x8F, 4
	case c >= 0xF1 && c <= 0xF3:
		length = 4
	}
	n := 1
	for n < length && n < len(text) && text[n] >= low && text[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}
