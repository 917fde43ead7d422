// Package orjson writes JSON strings as orjson does, which aiperf's bodies and files are written with.
package orjson

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// stride is how much text is copied before it is looked at: what must be escaped is taken back.
const stride = 128

// AppendString appends s as a JSON string: UTF-8 as it is, the short escapes, other controls as \u00xx. Each byte that is not UTF-8 becomes
// U+FFFD, for what is written has to stay readable.
func AppendString[S string | []byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		at := len(dst)
		dst = append(dst, s[i:min(i+stride, len(s))]...)
		n := plain(dst[at:])
		dst = dst[:at+n]
		for i += n; i < len(s) && !isPlain(s[i]); {
			if s[i] < utf8.RuneSelf {
				dst = appendEscaped(dst, s[i])
				i++
				continue
			}
			n := wide(s[i:])
			if dst = append(dst, s[i:i+n]...); n == 0 {
				dst = append(dst, "\uFFFD"...)
				n = 1
			}
			i += n
		}
	}
	return append(dst, '"')
}

func isPlain(c byte) bool { return c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf }

// plain is the length of the ASCII text at the front of p that needs no escape.
func plain(p []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(p); n += 8 {
		w := binary.LittleEndian.Uint64(p[n:])
		quote, slash := w^ones*'"', w^ones*'\\'
		// A byte's top bit is set where it is special. A borrow can set bits above a special byte, never below one.
		if found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w | w) & tops; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(p) && isPlain(p[n]) {
		n++
	}
	return n
}

// wide is the length of the characters beyond ASCII at the front of s.
func wide[S string | []byte](s S) int {
	n := 0
	for n < len(s) && s[n] >= utf8.RuneSelf {
		r, size := utf8.DecodeRuneInString(string(s[n:min(n+utf8.UTFMax, len(s))]))
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
