package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// reader walks JSON. Vocabularies and merges have hundreds of thousands of strings, which encoding/json would make as many values of.
type reader struct {
	data []byte
	at   int
}

var errJSON = errors.New("is not valid JSON")

// fail says where the text stops being what it should be.
func (r *reader) fail(want string) error {
	found := "the end of the file"
	if r.at < len(r.data) {
		found = strconv.QuoteRune(rune(r.data[r.at]))
	}
	return fmt.Errorf("%w: byte %d is %s, expected %s", errJSON, r.at, found, want)
}

// peek is the next byte that is no white space; 0 at the end.
func (r *reader) peek() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *reader) take(c byte) error {
	if r.peek() != c {
		return r.fail(strconv.QuoteRune(rune(c)))
	}
	r.at++
	return nil
}

// more steps to the next element of a list or an object that ends with end, whose opening bracket has been read.
func (r *reader) more(first bool, end byte) (bool, error) {
	c := r.peek()
	if c == end {
		r.at++
		return false, nil
	}
	if first {
		return true, nil
	}
	if c != ',' {
		return false, r.fail("',' or '" + string(end) + "'")
	}
	r.at++
	return true, nil
}

// each walks an object and calls value at the beginning of each value, which it must read. key is valid until then.
func (r *reader) each(value func(key []byte) error) error {
	if err := r.take('{'); err != nil {
		return err
	}
	var key []byte
	for first := true; ; first = false {
		ok, err := r.more(first, '}')
		if !ok {
			return err
		}
		if key, err = r.text(key[:0]); err != nil {
			return err
		}
		if err = r.take(':'); err != nil {
			return err
		}
		if err = value(key); err != nil {
			return err
		}
	}
}

// list walks a list and calls value at the beginning of each element, which it must read.
func (r *reader) list(value func() error) error {
	if err := r.take('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		ok, err := r.more(first, ']')
		if !ok {
			return err
		}
		if err = value(); err != nil {
			return err
		}
	}
}

// text appends the string that comes next to dst, as UTF-8.
func (r *reader) text(dst []byte) ([]byte, error) {
	if err := r.take('"'); err != nil {
		return dst, err
	}
	from := r.at
	for r.at < len(r.data) {
		switch c := r.data[r.at]; {
		case c == '"':
			dst = append(dst, r.data[from:r.at]...)
			r.at++
			return dst, nil
		case c == '\\':
			dst = append(dst, r.data[from:r.at]...)
			var err error
			if dst, err = r.escape(dst); err != nil {
				return dst, err
			}
			from = r.at
		case c < ' ':
			return dst, r.fail("a character of a string")
		default:
			r.at++
		}
	}
	return dst, r.fail("the end of a string")
}

func (r *reader) escape(dst []byte) ([]byte, error) {
	r.at++
	if r.at >= len(r.data) {
		return dst, r.fail("an escape")
	}
	c := r.data[r.at]
	r.at++
	switch c {
	case '"', '\\', '/':
		return append(dst, c), nil
	case 'b':
		return append(dst, '\b'), nil
	case 'f':
		return append(dst, '\f'), nil
	case 'n':
		return append(dst, '\n'), nil
	case 'r':
		return append(dst, '\r'), nil
	case 't':
		return append(dst, '\t'), nil
	case 'u':
		u, err := r.hex()
		if err != nil {
			return dst, err
		}
		if utf16.IsSurrogate(u) {
			if r.at+1 >= len(r.data) || r.data[r.at] != '\\' || r.data[r.at+1] != 'u' {
				return dst, r.fail("the second half of a surrogate pair")
			}
			r.at += 2
			low, err := r.hex()
			if err != nil {
				return dst, err
			}
			if u = utf16.DecodeRune(u, low); u == utf8.RuneError {
				return dst, r.fail("a surrogate pair before it")
			}
		}
		return utf8.AppendRune(dst, u), nil
	}
	r.at--
	return dst, r.fail("an escape")
}

func (r *reader) hex() (rune, error) {
	if r.at+4 > len(r.data) {
		return 0, r.fail("four hexadecimal digits")
	}
	u, err := strconv.ParseUint(string(r.data[r.at:r.at+4]), 16, 16)
	if err != nil {
		return 0, r.fail("four hexadecimal digits")
	}
	r.at += 4
	return rune(u), nil
}

// id reads a token id.
func (r *reader) id() (int32, error) {
	r.peek()
	from, n := r.at, int64(0)
	for r.at < len(r.data) && r.data[r.at]-'0' <= 9 && n <= maxID {
		n = 10*n + int64(r.data[r.at]-'0')
		r.at++
	}
	if r.at == from || n > maxID {
		r.at = from
		return 0, r.fail(fmt.Sprintf("a token id from 0 to %d", maxID))
	}
	return int32(n), nil
}

// number reads a JSON number.
func (r *reader) number() (float64, error) {
	r.peek()
	from := r.at
	for r.at < len(r.data) {
		c := r.data[r.at]
		if c-'0' > 9 && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		r.at++
	}
	f, err := strconv.ParseFloat(string(r.data[from:r.at]), 64)
	if err != nil {
		r.at = from
		return 0, r.fail("a number")
	}
	return f, nil
}

// skip passes over the value that comes next and gives its bytes. Brackets are counted, not held against each other: what is used is
// read again.
func (r *reader) skip() ([]byte, error) {
	r.peek()
	from, depth := r.at, 0
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case '"':
			r.at++
			for r.at < len(r.data) && r.data[r.at] != '"' {
				if r.data[r.at] == '\\' {
					r.at++
				}
				r.at++
			}
			if r.at >= len(r.data) {
				r.at = len(r.data)
				return nil, r.fail("the end of a string")
			}
			r.at++
			if depth == 0 {
				return r.data[from:r.at], nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				if r.at == from {
					return nil, r.fail("a value")
				}
				return r.data[from:r.at], nil
			}
			if depth--; depth == 0 {
				r.at++
				return r.data[from:r.at], nil
			}
		case ',':
			if depth == 0 {
				if r.at == from {
					return nil, r.fail("a value")
				}
				return r.data[from:r.at], nil
			}
		}
		r.at++
	}
	return nil, r.fail("the end of a value")
}

// decode reads a small part with encoding/json.
func decode(raw []byte, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: %w", errJSON, err)
	}
	return nil
}
