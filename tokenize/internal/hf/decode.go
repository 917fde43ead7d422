package hf

import (
	"bytes"
	"fmt"
	"strings"
)

// decoding says how tokens become text again.
type decoding struct {
	unknown   string // the decoder that is not known; there is no decoding then
	byteLevel bool
	replace   []replace
	bytes     bool // tokens like <0x0A> are that byte
	stripped  int  // spaces taken off the beginning of the text
	first     bool // the first token's replaced characters are dropped, not written as spaces
	words     bool // a token that does not go on with a word stands behind a space
	prefix    []byte
	cleanup   bool
	suffix    string // ends a word
}

// Decode appends the text of ids to dst, special tokens included. An id that the vocabulary does not have is an error; what was decoded
// before it is in the result.
func (t *Tokenizer) Decode(dst []byte, ids []int32) ([]byte, error) {
	d := &t.decoding
	if d.unknown != "" {
		return dst, fmt.Errorf("tokenizer %s cannot make text of tokens: its decoder %s is not known to prefire", t.name, d.unknown)
	}
	start := len(dst)
	for i, id := range ids {
		text, plain, ok := t.text(id)
		if !ok {
			return dst, fmt.Errorf("token %d (number %d of %d) is not in the vocabulary of %s, whose ids are below %d", id, i, len(ids), t.name, t.size)
		}
		switch {
		case d.byteLevel:
			dst = append(dst, text...)
		case d.words:
			dst = d.word(dst, text, i == 0)
		case d.suffix != "":
			space := " "
			if i == len(ids)-1 {
				space = ""
			}
			dst = append(dst, strings.ReplaceAll(string(text), d.suffix, space)...)
		default:
			if c, ok := byteToken(text); ok && d.bytes && !plain {
				dst = append(dst, c)
				continue
			}
			dst = d.piece(dst, text, i == 0)
		}
	}
	for range d.stripped {
		if len(dst) > start && dst[start] == ' ' {
			dst = append(dst[:start], dst[start+1:]...)
		}
	}
	return dst, nil
}

// text is the token of id; plain says that it is an added one, which stands for itself.
func (t *Tokenizer) text(id int32) (text []byte, plain, ok bool) {
	if a, ok := t.addedByID[id]; ok {
		return []byte(t.added[a].text), true, true
	}
	if odd, ok := t.odd[id]; ok {
		return []byte(odd), true, true
	}
	if id < 0 || int(id) >= t.vocab.Len() || len(t.vocab.Token(id)) == 0 {
		return nil, false, false
	}
	return t.vocab.Token(id), false, true
}

func (d *decoding) piece(dst, text []byte, first bool) []byte {
	for _, r := range d.replace {
		if first && d.first {
			text = bytes.ReplaceAll(text, r.old, nil)
		} else {
			text = bytes.ReplaceAll(text, r.old, r.new)
		}
	}
	return append(dst, text...)
}

func (d *decoding) word(dst, text []byte, first bool) []byte {
	word := string(text)
	if !first {
		if rest, ok := strings.CutPrefix(word, string(d.prefix)); ok {
			word = rest
		} else {
			word = " " + word
		}
	}
	if d.cleanup {
		for _, pair := range [][2]string{
			{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"},
			{" 've", "'ve"}, {" 're", "'re"},
		} {
			word = strings.ReplaceAll(word, pair[0], pair[1])
		}
	}
	return append(dst, word...)
}

// byteToken is the byte that a token like <0x0A> stands for.
func byteToken(text []byte) (byte, bool) {
	if len(text) != 6 || string(text[:3]) != "<0x" || text[5] != '>' {
		return 0, false
	}
	c := 0
	for _, h := range text[3:5] {
		switch {
		case h >= '0' && h <= '9':
			c = c<<4 | int(h-'0')
		case h >= 'A' && h <= 'F':
			c = c<<4 | int(h-'A'+10)
		default:
			return 0, false
		}
	}
	return byte(c), true
}
