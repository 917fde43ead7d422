package export

import (
	"bytes"
	"encoding/json"
	"fmt"

	"prefire/internal/orjson"
)

// newline starts a line at the given depth of two spaces a level.
func newline(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, ' ', ' ')
	}
	return dst
}

// appendValue appends v, indented by two spaces a level, as it stands at depth. key names v in errors.
func appendValue(dst []byte, key string, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		if v {
			return append(dst, "true"...), nil
		}
		return append(dst, "false"...), nil
	case string:
		return orjson.AppendString(dst, v), nil
	case int, int32, int64, uint32, uint64:
		return fmt.Append(dst, v), nil
	case float64:
		if !finite(v) {
			return append(dst, "null"...), nil
		}
		return appendFloat(dst, v), nil
	case Object:
		return appendObject(dst, key, v, depth)
	case []Object:
		return appendArray(dst, key, v, depth)
	case []string:
		return appendArray(dst, key, v, depth)
	case []any:
		return appendArray(dst, key, v, depth)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return dst, fmt.Errorf("%s cannot be written as JSON: %w", key, err)
	}
	return appendIndented(dst, raw, depth), nil
}

func appendObject(dst []byte, key string, o Object, depth int) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for _, f := range o {
		if absent(f.Value) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = newline(dst, depth+1)
		dst = append(orjson.AppendString(dst, f.Key), ": "...)
		var err error
		if dst, err = appendValue(dst, key+"."+f.Key, f.Value, depth+1); err != nil {
			return dst, err
		}
	}
	if !first {
		dst = newline(dst, depth)
	}
	return append(dst, '}'), nil
}

func absent(v any) bool {
	f, ok := v.(float64)
	return v == nil || ok && !finite(f)
}

func appendArray[T any](dst []byte, key string, a []T, depth int) ([]byte, error) {
	dst = append(dst, '[')
	for i, v := range a {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(newline(dst, depth+1), key, v, depth+1); err != nil {
			return dst, err
		}
	}
	if len(a) > 0 {
		dst = newline(dst, depth)
	}
	return append(dst, ']'), nil
}

// appendIndented lays out valid JSON anew, two spaces a level, as it stands at depth. Strings keep their bytes, but that escapes which
// orjson does not write (\u003c, \/) are resolved.
func appendIndented(dst, src []byte, depth int) []byte {
	open := false // the last byte written opened an object or array
	for i := 0; i < len(src); {
		c := src[i]
		switch c {
		case ' ', '\t', '\n', '\r':
			i++
			continue
		case '}', ']':
			depth--
			if !open {
				dst = newline(dst, depth)
			}
			dst, open = append(dst, c), false
			i++
			continue
		}
		if open {
			dst, open = newline(dst, depth), false
		}
		switch c {
		case '{', '[':
			dst, open = append(dst, c), true
			depth++
			i++
		case ',':
			dst = newline(append(dst, c), depth)
			i++
		case ':':
			dst = append(dst, ": "...)
			i++
		case '"':
			end, odd := stringEnd(src, i)
			if odd {
				var s string
				if json.Unmarshal(src[i:end], &s) == nil {
					dst = orjson.AppendString(dst, s)
					i = end
					continue
				}
			}
			dst = append(dst, src[i:end]...)
			i = end
		default: // a number or a word
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// stringEnd is the index after the JSON string that starts at i, and whether it has an escape that orjson would not write.
func stringEnd(src []byte, i int) (end int, odd bool) {
	for i++; i < len(src); {
		n := bytes.IndexByte(src[i:], '"')
		if n < 0 {
			break
		}
		// A backslash before the quote may escape it; without one the string ends here.
		for part := src[i : i+n]; ; {
			b := bytes.IndexByte(part, '\\')
			if b < 0 {
				return i + n + 1, odd
			}
			if b+1 == len(part) {
				i += n + 1 // the quote is escaped
				break
			}
			odd = odd || part[b+1] == 'u' || part[b+1] == '/'
			part = part[b+2:]
		}
	}
	return len(src), odd
}
