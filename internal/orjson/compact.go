package orjson

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Compact rewrites one JSON value without white space and with its strings as [AppendString] writes them; numbers stay as given.
func Compact(raw []byte) ([]byte, error) {
	var v json.RawMessage
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(v))
	for i := 0; i < len(v); {
		switch c := v[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
		case '"':
			end := stringEnd(v, i)
			if text := v[i:end]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
				out = append(out, text...)
			} else {
				var s string
				if err := json.Unmarshal(text, &s); err != nil {
					return nil, err
				}
				out = AppendString(out, s)
			}
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out, nil
}

// stringEnd is the index after the string that begins at v[i]; v is valid JSON.
func stringEnd(v []byte, i int) int {
	for i++; v[i] != '"'; i++ {
		if v[i] == '\\' {
			i++
		}
	}
	return i + 1
}
