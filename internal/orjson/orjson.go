// Package orjson writes JSON strings as orjson does, which aiperf's bodies and files are written with.
package orjson

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string: UTF-8 as it is, the short escapes, other controls as \u00xx. Each byte that is not UTF-8 becomes
// U+FFFD, for what is written has to stay readable.
func AppendString[S string | []byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[done:i]...), "\uFFFD"...)
				done = i + 1
			}
			i += n
			continue
		}
		dst = append(append(dst, s[done:i]...), '\\')
		switch c {
		case '"', '\\':
			dst = append(dst, c)
		case '\b':
			dst = append(dst, 'b')
		case '\t':
			dst = append(dst, 't')
		case '\n':
			dst = append(dst, 'n')
		case '\f':
			dst = append(dst, 'f')
		case '\r':
			dst = append(dst, 'r')
		default:
			dst = append(dst, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		done = i
	}
	return append(append(dst, s[done:]...), '"')
}
