package endpoint

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep the scanner follows nested values. What lies deeper is left to encoding/json.
const maxDepth = 64

// special marks the bytes that end a run of plain characters in a JSON string.
var special = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// scan walks JSON text once, front to back, without allocating. It takes exactly the grammar that encoding/json takes, but gives up (bad)
// on keys with escapes and on deep nesting as it does on an error: the caller then asks encoding/json.
type scan struct {
	p   []byte
	i   int
	bad bool
}

func (s *scan) fail() { s.bad, s.i = true, len(s.p) }

// peek skips white space and returns the next byte; 0 at the end.
func (s *scan) peek() byte {
	if s.i < len(s.p) && s.p[s.i] > ' ' {
		return s.p[s.i] // the usual case: no white space
	}
	return s.peekPast()
}

func (s *scan) peekPast() byte {
	for ; s.i < len(s.p); s.i++ {
		switch c := s.p[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// enter takes the opening bracket of an object or array.
func (s *scan) enter(open byte) {
	if s.peek() != open {
		s.fail()
		return
	}
	s.i++
}

// more reports whether another member or element follows, past its comma, and takes the closing bracket where none does.
func (s *scan) more(closing byte, first *bool) bool {
	c := s.peek()
	switch {
	case c == closing:
		s.i++
		return false
	case *first:
		*first = false
		if c != 0 {
			return true
		}
	case c == ',':
		s.i++
		if s.peek() != closing {
			return true
		}
	}
	s.fail()
	return false
}

// key takes the next member's key and colon of the object that was entered; ok is false at its end.
func (s *scan) key(first *bool) (key []byte, ok bool) {
	if !s.more('}', first) {
		return nil, false
	}
	if s.peek() != '"' {
		s.fail()
		return nil, false
	}
	end := skipString(s.p, s.i)
	if end < 0 {
		s.fail()
		return nil, false
	}
	key = s.p[s.i+1 : end-1]
	s.i = end
	if bytes.IndexByte(key, '\\') >= 0 || s.peek() != ':' {
		s.fail()
		return nil, false
	}
	s.i++
	return key, true
}

// value takes one value and returns its text.
func (s *scan) value() []byte {
	s.peek()
	from := s.i
	s.skip(0)
	if s.bad {
		return nil
	}
	return s.p[from:s.i]
}

func (s *scan) skip(depth int) {
	if depth > maxDepth {
		s.fail()
		return
	}
	switch c := s.peek(); {
	case c == '"':
		if end := skipString(s.p, s.i); end >= 0 {
			s.i = end
			return
		}
		s.fail()
	case c == '{':
		s.i++
		for first := true; ; {
			// Keys with escapes are passed over here: only the keys of the objects that are looked into matter.
			if !s.more('}', &first) {
				return
			}
			end := -1
			if s.peek() == '"' {
				end = skipString(s.p, s.i)
			}
			if end < 0 {
				s.fail()
				return
			}
			s.i = end
			if s.peek() != ':' {
				s.fail()
				return
			}
			s.i++
			if s.skip(depth + 1); s.bad {
				return
			}
		}
	case c == '[':
		s.i++
		for first := true; s.more(']', &first); {
			if s.skip(depth + 1); s.bad {
				return
			}
		}
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.number()
	}
}

func (s *scan) word(w string) {
	if len(s.p)-s.i < len(w) || string(s.p[s.i:s.i+len(w)]) != w {
		s.fail()
		return
	}
	s.i += len(w)
}

func (s *scan) number() {
	if s.i < len(s.p) && s.p[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.p) && s.p[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return
	}
	if s.i < len(s.p) && s.p[s.i] == '.' {
		s.i++
		if !s.digits() {
			return
		}
	}
	if s.i < len(s.p) && (s.p[s.i] == 'e' || s.p[s.i] == 'E') {
		s.i++
		if s.i < len(s.p) && (s.p[s.i] == '+' || s.p[s.i] == '-') {
			s.i++
		}
		s.digits()
	}
}

// digits takes one or more digits; it fails where there are none.
func (s *scan) digits() bool {
	from := s.i
	for s.i < len(s.p) && s.p[s.i] >= '0' && s.p[s.i] <= '9' {
		s.i++
	}
	if s.i == from {
		s.fail()
		return false
	}
	return true
}

// skipString returns the index after the string whose opening quote is at p[i]; -1 where it is not a JSON string.
func skipString(p []byte, i int) int {
	for i++; i < len(p); i++ {
		for i+8 <= len(p) {
			if n := plain(binary.LittleEndian.Uint64(p[i:])); n < 8 {
				i += n
				break
			}
			i += 8
		}
		if i >= len(p) {
			return -1
		}
		c := p[i]
		if !special[c] {
			continue
		}
		if c == '"' {
			return i + 1
		}
		if c != '\\' {
			return -1
		}
		if i++; i >= len(p) {
			return -1
		}
		switch p[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if hex4(p[i+1:]) < 0 {
				return -1
			}
			i += 4
		default:
			return -1
		}
	}
	return -1
}

// plain is how many of the eight bytes in w, from the lowest, come before the first special one.
func plain(w uint64) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^ones*'"', w^ones*'\\'
	// A byte's top bit is set where it is special. A borrow can set bits above a special byte, never below one.
	found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & tops
	return bits.TrailingZeros64(found) / 8
}

// hex4 is the value of the four hexadecimal digits that p begins with; -1 where it does not.
func hex4(p []byte) rune {
	if len(p) < 4 {
		return -1
	}
	var r rune
	for _, c := range p[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendUnescaped appends the text of a JSON string's inside, which skipString has passed. As encoding/json does, it writes U+FFFD for
// half a surrogate pair and for each byte that is not UTF-8.
func appendUnescaped(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\\':
			i++
			switch s[i] {
			case 'b':
				dst = append(dst, '\b')
			case 'f':
				dst = append(dst, '\f')
			case 'n':
				dst = append(dst, '\n')
			case 'r':
				dst = append(dst, '\r')
			case 't':
				dst = append(dst, '\t')
			case 'u':
				r := hex4(s[i+1:])
				i += 4
				if utf16.IsSurrogate(r) {
					low := rune(-1)
					if i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
						low = hex4(s[i+3:])
					}
					if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
						i += 6
					}
				}
				dst = utf8.AppendRune(dst, r)
			default:
				dst = append(dst, s[i])
			}
			i++
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRune(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}
