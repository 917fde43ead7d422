package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// A Setting is written so that what is read back is the same value: whole numbers apart from others, mappings in their order.

type notedSetting struct {
	Path   string
	Value  json.RawMessage
	Choice int
}

// MarshalJSON implements json.Marshaler.
func (s Setting) MarshalJSON() ([]byte, error) {
	value, err := appendValue(nil, s.Value)
	if err != nil {
		return nil, err
	}
	return json.Marshal(notedSetting{s.Path, value, s.Choice})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Setting) UnmarshalJSON(raw []byte) error {
	var n notedSetting
	if err := json.Unmarshal(raw, &n); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(n.Value))
	dec.UseNumber()
	value, err := readValue(dec)
	*s = Setting{n.Path, value, n.Choice}
	return err
}

func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("a value of a sweep is no finite number")
		}
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return append(dst, text...), nil
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendValue(dst, item); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case Map:
		dst = append(dst, '{')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			key, err := json.Marshal(e.Key)
			if err != nil {
				return nil, err
			}
			if dst, err = appendValue(append(append(dst, key...), ':'), e.Value); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	raw, err := json.Marshal(v)
	return append(dst, raw...), err
}

func readValue(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return v.Float64()
		}
		return v.Int64()
	case json.Delim:
		if v == '[' {
			list := []any{}
			for dec.More() {
				item, err := readValue(dec)
				if err != nil {
					return nil, err
				}
				list = append(list, item)
			}
			_, err := dec.Token()
			return list, err
		}
		m := Map{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			item, err := readValue(dec)
			if err != nil {
				return nil, err
			}
			m = append(m, Entry{key.(string), item})
		}
		_, err := dec.Token()
		return m, err
	}
	return token, nil
}
