// Package scan splits text into the pieces that tokenizers merge within: character classes at the Unicode version of Python's tiktoken and
// tokenizers, and hand-written scanners in place of their regular expressions. No scanner takes quadratic time.
package scan

import "unicode/utf8"

// Class bits of a code point, as tiktoken's two patterns need them. Capitals are Lu and Lt, small letters Ll; Lm, Lo and M are both.
const (
	upper   = 1 << iota // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lower               // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	letter              // \p{L}
	number              // \p{N}
	space               // \s
	newline             // [\r\n]

	// Of classRanges only.
	alternate // a run of pairs, a capital and then its small letter
	odd       // of an alternate run: it begins at an odd code point
)

// notSymbol is what [^\s\p{L}\p{N}] leaves out.
const notSymbol = letter | number | space

// Splitter finds the end of the piece that begins at text[at]; merges never cross the ends of pieces. text is valid UTF-8, at < len(text).
type Splitter func(k *Classes, text []byte, at int) int

// Classes gives the class bits of every code point.
type Classes struct {
	of    []uint8
	props []uint8 // of a Full table
}

// New makes the table of classes, of about 1 MiB.
func New() *Classes {
	k := &Classes{of: make([]uint8, utf8.MaxRune+1)}
	for i, entry := range classRanges {
		end := uint32(utf8.MaxRune + 1)
		if i+1 < len(classRanges) {
			end = classRanges[i+1] >> 8
		}
		bits := uint8(entry)
		if bits == 0 {
			continue // untouched memory stays unmapped
		}
		for c := entry >> 8; c < end; c++ {
			k.of[c] = bits
			if bits&alternate != 0 {
				k.of[c] = lower | letter
				if (c%2 == 1) == (bits&odd != 0) {
					k.of[c] = upper | letter
				}
			}
		}
	}
	return k
}

// at is the class and the length of the character at text[i]; past the end both are 0.
func (k *Classes) at(text []byte, i int) (uint8, int) {
	if i < len(text) && text[i] < utf8.RuneSelf {
		return k.of[text[i]], 1
	}
	return k.wide(text, i)
}

func (k *Classes) wide(text []byte, i int) (uint8, int) {
	if i >= len(text) {
		return 0, 0
	}
	r, n := utf8.DecodeRune(text[i:])
	return k.of[r], n
}

// run is the end of the longest run, from text[i] on, of characters that have any of the bits in want.
func (k *Classes) run(text []byte, i int, want uint8) int {
	for {
		c, n := k.at(text, i)
		if c&want == 0 {
			return i
		}
		i += n
	}
}

// O200k is the pattern of o200k_base:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func O200k(k *Classes, text []byte, at int) int { return k.cased(text, at, 3, true) }

// cased is O200k with so many digits to a number, and contractions part of a word or not.
func (k *Classes) cased(text []byte, at, digits int, contracted bool) int {
	c, n := k.at(text, at)
	switch {
	case c&letter != 0:
		small, capital := k.word(text, at)
		return tail(text, max(small, capital), contracted)
	case c&number != 0:
		return k.numbers(text, at, digits)
	case c&newline == 0:
		// One character before the word. Backtracking tries the first alternative with and without it, then the second.
		small, capital := k.word(text, at+n)
		if small < 0 && c&lower != 0 {
			small, _ = k.word(text, at)
		}
		if small < 0 {
			small = capital
		}
		if small >= 0 {
			return tail(text, small, contracted)
		}
		if end, ok := k.symbols(text, at); ok {
			for end < len(text) && (text[end] == '\r' || text[end] == '\n' || text[end] == '/') {
				end++
			}
			return end
		}
	}
	return k.blank(text, at, false)
}

func tail(text []byte, end int, contracted bool) int {
	if contracted {
		return contraction(text, end)
	}
	return end
}

// word matches the letters of o200k's first two alternatives at text[i]: the end of capitals* small+, or -1; and the end of capitals+, or
// -1, which is what the second alternative matches wherever the first one does not. Characters that are both kinds let the first
// alternative give back what follows the last of them.
func (k *Classes) word(text []byte, i int) (small, capital int) {
	start, both := i, -1
	if end := small26(text, i); end > i {
		return k.run(text, end, lower), -1
	}
	for {
		c, n := k.at(text, i)
		if c&upper == 0 {
			if c&lower != 0 {
				return k.run(text, small26(text, i), lower), -1
			}
			break
		}
		i += n
		if c&lower != 0 {
			both = i
		}
	}
	if both >= 0 {
		return both, -1
	}
	if i > start {
		return -1, i
	}
	return -1, -1
}

// small26 is the end of the letters a to z at text[i]: most text, at a fraction of the cost of looking up classes.
func small26(text []byte, i int) int {
	for i < len(text) && text[i]-'a' < 26 {
		i++
	}
	return i
}

// contraction is the end of (?i:'s|'t|'re|'ve|'m|'ll|'d)? at text[i].
func contraction(text []byte, i int) int {
	if i+1 >= len(text) || text[i] != '\'' {
		return i
	}
	switch text[i+1] | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	}
	if i+2 >= len(text) {
		return i
	}
	if text[i+1] == 0xC5 && text[i+2] == 0xBF { // U+017F, which folds to s
		return i + 3
	}
	switch [2]byte{text[i+1] | 0x20, text[i+2] | 0x20} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return i + 3
	}
	return i
}

// CL100k is the pattern of cl100k_base:
//
//	'(?i:[sdmt]|ll|ve|re)
//	[^\r\n\p{L}\p{N}]?+\p{L}++
//	\p{N}{1,3}+
//	 ?[^\s\p{L}\p{N}]++[\r\n]*+
//	\s++$
//	\s*[\r\n]
//	\s+(?!\S)
//	\s
func CL100k(k *Classes, text []byte, at int) int {
	if end := contraction(text, at); end > at {
		return end
	}
	c, n := k.at(text, at)
	switch {
	case c&letter != 0:
		return k.run(text, at, letter)
	case c&number != 0:
		return k.numbers(text, at, 3)
	case c&newline == 0:
		if end := k.run(text, at+n, letter); end > at+n {
			return end
		}
		if end, ok := k.symbols(text, at); ok {
			return lineEnds(text, end)
		}
	}
	return k.blank(text, at, true)
}

// symbols is the end of " ?[^\s\p{L}\p{N}]+" at text[i].
func (k *Classes) symbols(text []byte, i int) (int, bool) {
	if text[i] == ' ' {
		i++
	}
	start := i
	for i < len(text) {
		c, n := k.at(text, i)
		if c&notSymbol != 0 {
			break
		}
		i += n
	}
	return i, i > start
}

// blank is the end of the piece of white space at text[i]: up to the last line break of the run; else all but the last character of it,
// which goes with what follows. With toEnd, a run that reaches the end of the text is one piece.
func (k *Classes) blank(text []byte, i int, toEnd bool) int {
	start, line, last := i, -1, i
	for {
		c, n := k.at(text, i)
		if c&space == 0 {
			break
		}
		last = i
		i += n
		if c&newline != 0 {
			line = i
		}
	}
	switch {
	case toEnd && i == len(text):
		return i
	case line >= 0:
		return line
	case i == len(text) || last == start:
		return i
	}
	return last
}
