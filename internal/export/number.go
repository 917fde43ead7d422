package export

import (
	"bytes"
	"math"
	"strconv"
)

// appendFloat appends v as orjson does: the shortest digits that read back as v, always with a point or an exponent, plain notation for
// magnitudes from 1e-5 up to 1e16. v is finite.
func appendFloat(dst []byte, v float64) []byte {
	if a := math.Abs(v); a == 0 || a >= 1e-5 && a < 1e16 {
		at := len(dst)
		dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
		if bytes.IndexByte(dst[at:], '.') < 0 {
			dst = append(dst, '.', '0')
		}
		return dst
	}
	at := len(dst)
	dst = strconv.AppendFloat(dst, v, 'e', -1, 64)
	// Go writes at least two exponent digits, orjson as few as it can.
	if i := at + bytes.IndexByte(dst[at:], 'e') + 2; i < len(dst)-1 && dst[i] == '0' {
		dst = append(dst[:i], dst[i+1:]...)
	}
	return dst
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// grouped is Python's format(v, ",.2f").
func grouped(v float64) string { return group(strconv.FormatFloat(v, 'f', 2, 64)) }

// groupedInt is Python's format(n, ",").
func groupedInt(n int64) string { return group(strconv.FormatInt(n, 10)) }

// group puts commas into the whole part of a decimal number.
func group(s string) string {
	whole, rest := s, ""
	for i := range s {
		if s[i] == '.' {
			whole, rest = s[:i], s[i:]
			break
		}
	}
	first := 0
	if whole[0] == '-' {
		first = 1
	}
	out := make([]byte, 0, len(s)+len(whole)/3)
	for i := range whole {
		if i > first && (len(whole)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, whole[i])
	}
	return string(append(out, rest...))
}
