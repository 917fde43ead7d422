package parity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// node is a JSON value that keeps the order of its keys and the spelling of its numbers.
type node struct {
	keys []string // of an object
	vals []node   // of an object or a list
	raw  string   // anything else, as it stands
	kind byte     // '{', '[' or 0
}

func parseTree(b []byte) (node, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	n, err := readNode(d)
	if err == nil && d.More() {
		err = fmt.Errorf("more than one value")
	}
	return n, err
}

func readNode(d *json.Decoder) (node, error) {
	t, err := d.Token()
	if err != nil {
		return node{}, err
	}
	open, ok := t.(json.Delim)
	if !ok {
		raw, err := json.Marshal(t)
		return node{raw: string(raw)}, err
	}
	n := node{kind: byte(open)}
	for d.More() {
		if n.kind == '{' {
			k, err := d.Token()
			if err != nil {
				return n, err
			}
			n.keys = append(n.keys, k.(string))
		}
		v, err := readNode(d)
		if err != nil {
			return n, err
		}
		n.vals = append(n.vals, v)
	}
	_, err = d.Token()
	return n, err
}

// get is the value of a key; the zero node where there is none.
func (n node) get(key string) node {
	for i, k := range n.keys {
		if k == key {
			return n.vals[i]
		}
	}
	return node{}
}

func (n node) text() string {
	var s string
	if json.Unmarshal([]byte(n.raw), &s) != nil {
		return n.raw
	}
	return s
}

// flatten puts each leaf into f under its path, masked.
func (n node) flatten(f *facts, path string) {
	switch n.kind {
	case '{':
		if len(n.keys) == 0 {
			f.set(path, "{}")
		}
		f.order(path, n.keys)
		for i, k := range n.keys {
			n.vals[i].flatten(f, path+"/"+k)
		}
	case '[':
		f.set(path+"/length", fmt.Sprint(len(n.vals)))
		for i, v := range n.vals {
			v.flatten(f, fmt.Sprintf("%s/%d", path, i))
		}
	default:
		f.set(path, mask(n.raw))
	}
}

var masks = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`\b(worker|record_processor)_[0-9a-f]{8}\b`), "${1}_<hex>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\b`), "<time>"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "<12 hex>"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "<32 hex>"},
	{regexp.MustCompile(`\b1\d{18}\b`), "<ns>"},
}

// mask replaces what no two runs share: ids and times.
func mask(s string) string {
	for _, m := range masks {
		s = m.find.ReplaceAllString(s, m.put)
	}
	return s
}

// maskPrompts replaces the text of each content string in a JSON text, byte by byte.
func maskPrompts(b []byte) string {
	var out strings.Builder
	for {
		at := bytes.Index(b, []byte(`"content":`))
		if at < 0 {
			out.Write(b)
			return out.String()
		}
		at += len(`"content":`)
		for at < len(b) && b[at] == ' ' {
			at++
		}
		out.Write(b[:at])
		b = b[at:]
		if len(b) == 0 || b[0] != '"' {
			continue
		}
		end := 1
		for end < len(b) && b[end] != '"' {
			if b[end] == '\\' {
				end++
			}
			end++
		}
		out.WriteString(`"<prompt>"`)
		b = b[min(end+1, len(b)):]
	}
}
