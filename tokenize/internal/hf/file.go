package hf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"prefire/tokenize/internal/scan"
	"prefire/tokenize/internal/vocab"
)

// maxID bounds token ids: a file that claims more would make a table as large.
const maxID = 1<<24 - 1

// Parse reads a tokenizer.json. config is the tokenizer_config.json beside it, or empty: its added_tokens_decoder has the last word on added
// tokens, as in the library transformers. name is what the tokenizer is called from then on.
func Parse(name string, data, config []byte) (*Tokenizer, error) {
	t := &Tokenizer{
		name: name, classes: scan.Full(), scratches: make(chan *scratch, 64), addedByID: map[int32]int{}, odd: map[int32]string{},
	}
	var added, normalizer, pre, post, decoder, model []byte
	parts := map[string]*[]byte{
		"added_tokens": &added, "normalizer": &normalizer, "pre_tokenizer": &pre, "post_processor": &post, "decoder": &decoder, "model": &model,
	}
	r := &reader{data: data}
	err := r.each(func(key []byte) error {
		part, known := parts[string(key)]
		raw, err := r.skip()
		if known {
			*part = raw
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if model == nil {
		return nil, fmt.Errorf("it has no model: this is no tokenizer.json")
	}
	byteLevel, err := t.readPre(pre)
	if err != nil {
		return nil, err
	}
	if err = t.readModel(model, byteLevel); err != nil {
		return nil, err
	}
	if t.normalizers, err = t.readNormalizer("normalizer", normalizer); err != nil {
		return nil, err
	}
	if err = t.readDecoder("decoder", decoder); err != nil {
		return nil, err
	}
	if err = t.readAdded(added, config); err != nil {
		return nil, err
	}
	if t.around, err = around(post); err != nil {
		return nil, err
	}
	t.findBreaks()
	return t, nil
}

// null reports that a part is not there.
func null(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// typed is the type of a part, and for a sequence its parts under key.
func typed(where string, raw []byte, key string) (kind string, parts []json.RawMessage, err error) {
	var part map[string]json.RawMessage
	if err = decode(raw, &part); err != nil {
		return "", nil, fmt.Errorf("%s %w", where, err)
	}
	if err = decode(part["type"], &kind); err == nil {
		err = decode(part[key], &parts)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s %w", where, err)
	}
	return kind, parts, nil
}

func unknown(where, what, found, known string) error {
	return fmt.Errorf("%s: the %s %q is not known to prefire; it knows %s", where, what, found, known)
}

// expression is a pattern of the file: a literal text or a regular expression.
type expression struct {
	String *string
	Regex  *string
}

func (t *Tokenizer) readNormalizer(where string, raw []byte) ([]normalizer, error) {
	if null(raw) {
		return nil, nil
	}
	kind, parts, err := typed(where, raw, "normalizers")
	if err != nil {
		return nil, err
	}
	var o struct {
		StripLeft      bool       `json:"strip_left"`
		StripRight     bool       `json:"strip_right"`
		Prepend        string     `json:"prepend"`
		Pattern        expression `json:"pattern"`
		Content        string     `json:"content"`
		CleanText      bool       `json:"clean_text"`
		ChineseChars   bool       `json:"handle_chinese_chars"`
		StripAccents   *bool      `json:"strip_accents"`
		Lowercase      bool       `json:"lowercase"`
		PrecompiledMap string     `json:"precompiled_charsmap"`
	}
	if err := decode(raw, &o); err != nil {
		return nil, fmt.Errorf("%s %w", where, err)
	}
	one := func(n normalizer) ([]normalizer, error) { return []normalizer{n}, nil }
	switch kind {
	case "Sequence":
		var all []normalizer
		for i, part := range parts {
			some, err := t.readNormalizer(fmt.Sprintf("%s.normalizers[%d]", where, i), part)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	case "NFC":
		return one(newForm(norm.NFC))
	case "NFD":
		return one(newForm(norm.NFD))
	case "NFKC":
		return one(newForm(norm.NFKC))
	case "NFKD":
		return one(newForm(norm.NFKD))
	case "Lowercase":
		return one(each(lower))
	case "Nmt":
		return one(each(nmt))
	case "StripAccents":
		return one(without(t.classes.Mark))
	case "Strip":
		return one(strip{t.classes, o.StripLeft, o.StripRight})
	case "Prepend":
		return one(prepend(o.Prepend))
	case "Replace":
		switch p := o.Pattern; {
		case p.String != nil && *p.String != "":
			return one(replace{[]byte(*p.String), []byte(o.Content)})
		case p.Regex != nil && *p.Regex == " {2,}":
			return one(squeeze(o.Content))
		case p.Regex != nil:
			return nil, unknown(where, "regular expression", *p.Regex, `" {2,}" and plain strings`)
		}
		return nil, fmt.Errorf("%s has no pattern", where)
	case "Precompiled":
		m, err := newCharsmap(o.PrecompiledMap)
		if err != nil {
			return nil, fmt.Errorf("%s.precompiled_charsmap %w", where, err)
		}
		return one(m)
	case "BertNormalizer":
		var all []normalizer
		if o.CleanText {
			all = append(all, bertClean(t.classes))
		}
		if o.ChineseChars {
			all = append(all, each(bertChinese))
		}
		if accents := o.StripAccents; accents == nil && o.Lowercase || accents != nil && *accents {
			all = append(all, newForm(norm.NFD), without(t.classes.Nonspacing))
		}
		if o.Lowercase {
			all = append(all, each(lower))
		}
		return all, nil
	}
	return nil, unknown(where, "normalizer", kind,
		"NFC, NFD, NFKC, NFKD, Lowercase, Nmt, Strip, StripAccents, Replace, Prepend, Precompiled, BertNormalizer and Sequence")
}

// readPre reads the pre-tokenizer into stages, and says whether it ends with ByteLevel: words are then bytes to the model.
func (t *Tokenizer) readPre(raw []byte) (byteLevel bool, err error) {
	if err = t.readStage("pre_tokenizer", raw, &byteLevel); err != nil {
		return false, err
	}
	return byteLevel, nil
}

func (t *Tokenizer) readStage(where string, raw []byte, byteLevel *bool) error {
	if null(raw) {
		return nil
	}
	kind, parts, err := typed(where, raw, "pretokenizers")
	if err != nil {
		return err
	}
	if *byteLevel {
		return fmt.Errorf("%s: a pre-tokenizer %s behind ByteLevel is not known to prefire, which knows ByteLevel as the last one alone", where, kind)
	}
	var o struct {
		Pattern          expression `json:"pattern"`
		Behavior         string     `json:"behavior"`
		Invert           bool       `json:"invert"`
		AddPrefixSpace   *bool      `json:"add_prefix_space"`
		UseRegex         *bool      `json:"use_regex"`
		Replacement      string     `json:"replacement"`
		PrependScheme    string     `json:"prepend_scheme"`
		Split            *bool      `json:"split"`
		IndividualDigits bool       `json:"individual_digits"`
		Delimiter        string     `json:"delimiter"`
	}
	if err := decode(raw, &o); err != nil {
		return fmt.Errorf("%s %w", where, err)
	}
	add := func(s ...stage) error {
		t.stages = append(t.stages, s...)
		return nil
	}
	behave := func(otherwise string) (behavior, error) {
		if o.Behavior == "" {
			o.Behavior = otherwise
		}
		b, ok := behaviors[o.Behavior]
		if !ok {
			return 0, unknown(where, "behavior", o.Behavior, "Isolated, Removed, Contiguous, MergedWithPrevious and MergedWithNext")
		}
		return b, nil
	}
	switch kind {
	case "Sequence":
		for i, part := range parts {
			if err := t.readStage(fmt.Sprintf("%s.pretokenizers[%d]", where, i), part, byteLevel); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		*byteLevel = true
		if o.AddPrefixSpace == nil || *o.AddPrefixSpace {
			t.stages = append(t.stages, prefixSpace{})
		}
		if o.UseRegex == nil || *o.UseRegex {
			t.stages = append(t.stages, &pattern{match: scan.GPT2, words: true})
		}
		return nil
	case "Split":
		b, err := behave("")
		if err != nil {
			return err
		}
		p := &pattern{behavior: b, invert: o.Invert}
		switch e := o.Pattern; {
		case e.String != nil && *e.String != "":
			p.literal = []byte(*e.String)
		case e.Regex != nil:
			if p.match, p.words = scan.ForRegexp(*e.Regex); p.match == nil {
				return unknown(where, "regular expression", *e.Regex,
					"those of GPT-2, Llama 3, Qwen 2 to 3.5, gpt-oss, Mistral and DeepSeek 3, and plain ones for numbers and white space")
			}
		default:
			return fmt.Errorf("%s has no pattern", where)
		}
		return add(p)
	case "Metaspace":
		if utf8.RuneCountInString(o.Replacement) != 1 {
			return fmt.Errorf("%s.replacement is %q, not one character", where, o.Replacement)
		}
		m := &metaspace{replacement: []byte(o.Replacement), split: o.Split == nil || *o.Split}
		if o.AddPrefixSpace == nil || *o.AddPrefixSpace {
			switch o.PrependScheme {
			case "", "always":
				m.always = true
			case "first":
				m.begin = true
			case "never":
			default:
				return unknown(where, "prepend_scheme", o.PrependScheme, "always, first and never")
			}
		}
		return add(m)
	case "Whitespace":
		return add(&pattern{match: scan.Words, behavior: removed, invert: true})
	case "WhitespaceSplit":
		return add(&pattern{match: scan.OneSpace, behavior: removed})
	case "BertPreTokenizer":
		return add(&pattern{match: scan.OneSpace, behavior: removed}, &pattern{match: scan.OnePunctuation})
	case "Digits":
		if o.IndividualDigits {
			return add(&pattern{match: scan.OneNumeral})
		}
		return add(&pattern{match: scan.OneNumeral, behavior: contiguous})
	case "Punctuation":
		b, err := behave("Isolated")
		if err != nil {
			return err
		}
		return add(&pattern{match: scan.OnePunctuation, behavior: b})
	case "CharDelimiterSplit":
		if utf8.RuneCountInString(o.Delimiter) != 1 {
			return fmt.Errorf("%s.delimiter is %q, not one character", where, o.Delimiter)
		}
		return add(&pattern{literal: []byte(o.Delimiter), behavior: removed})
	}
	return unknown(where, "pre-tokenizer", kind, "ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, Digits, Punctuation, BertPreTokenizer, "+
		"CharDelimiterSplit and Sequence")
}

// options are the small parts of a model; its vocabulary and merges are read in place.
type options struct {
	kind           string
	dropout        *float64
	unknown        *string
	prefix, suffix *string
	fuseUnknown    bool
	byteFallback   bool
	ignoreMerges   bool
	unknownID      *int32
	most           *int
}

func (t *Tokenizer) readModel(raw []byte, byteLevel bool) error {
	var o options
	into := map[string]any{
		"type": &o.kind, "dropout": &o.dropout, "unk_token": &o.unknown, "continuing_subword_prefix": &o.prefix, "end_of_word_suffix": &o.suffix,
		"fuse_unk": &o.fuseUnknown, "byte_fallback": &o.byteFallback, "ignore_merges": &o.ignoreMerges, "unk_id": &o.unknownID,
		"max_input_chars_per_word": &o.most,
	}
	var vocabulary, merges []byte
	r := &reader{data: raw}
	err := r.each(func(key []byte) error {
		name := string(key)
		part, err := r.skip()
		if err != nil {
			return err
		}
		switch name {
		case "vocab":
			vocabulary = part
		case "merges":
			merges = part
		default:
			if where, ok := into[name]; ok {
				if err := decode(part, where); err != nil {
					return fmt.Errorf("model.%s %w", name, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if o.kind == "" { // old files leave it out
		switch {
		case merges != nil:
			o.kind = "BPE"
		case len(vocabulary) > 0 && vocabulary[0] == '[':
			o.kind = "Unigram"
		case o.most != nil:
			o.kind = "WordPiece"
		}
	}
	if byteLevel && o.kind != "BPE" {
		return fmt.Errorf("pre_tokenizer: ByteLevel before a model %q is not known to prefire, which knows it before BPE alone", o.kind)
	}
	if o.dropout != nil && *o.dropout != 0 {
		return fmt.Errorf("model.dropout is %v: merges left out at random would make counts random; prefire knows 0 alone", *o.dropout)
	}
	switch o.kind {
	case "BPE":
		return t.readBPE(&o, vocabulary, merges, byteLevel)
	case "Unigram":
		return t.readUnigram(&o, vocabulary)
	case "WordPiece":
		if err := t.readVocabulary(vocabulary); err != nil {
			return err
		}
		w := &wordPiece{vocab: t.vocab, prefix: []byte("##"), most: 100}
		if o.prefix != nil {
			w.prefix = []byte(*o.prefix)
		}
		if o.most != nil {
			w.most = *o.most
		}
		for id := range t.vocab.Len() {
			w.long = max(w.long, len(t.vocab.Token(int32(id))))
		}
		if o.unknown == nil {
			unk := "[UNK]"
			o.unknown = &unk
		}
		t.model = w
		w.unknown, err = t.unknownToken(&o)
		return err
	case "WordLevel":
		if err := t.readVocabulary(vocabulary); err != nil {
			return err
		}
		w := &wordLevel{vocab: t.vocab, unknown: none}
		if o.unknown != nil {
			w.unknown = t.vocab.Find([]byte(*o.unknown), 0, len(*o.unknown))
		}
		t.model = w
		return nil
	}
	return unknown("model", "type", o.kind, "BPE, Unigram, WordPiece and WordLevel")
}

// unknownToken is the id of the unknown token, or none where the file names none.
func (t *Tokenizer) unknownToken(o *options) (int32, error) {
	if o.unknown == nil {
		return none, nil
	}
	id := t.vocab.Find([]byte(*o.unknown), 0, len(*o.unknown))
	if id == none {
		return none, fmt.Errorf("model.unk_token is %q, which is not in the vocabulary", *o.unknown)
	}
	return id, nil
}

// readVocabulary reads an object of tokens and ids.
func (t *Tokenizer) readVocabulary(raw []byte) error {
	if len(raw) == 0 {
		return fmt.Errorf("model.vocab is missing")
	}
	t.vocab = vocab.New(len(raw)/24, len(raw)/2)
	r := &reader{data: raw}
	var token []byte
	err := r.each(func(key []byte) error {
		id, err := r.id()
		if err != nil {
			return err
		}
		t.size = max(t.size, int(id)+1)
		text, ok := key, true
		if t.units != nil {
			if token, ok = unspell(token[:0], key, t.units); !ok {
				t.odd[id] = string(key)
				return nil
			}
			text = token
		}
		return t.enter(text, id)
	})
	if err != nil {
		return fmt.Errorf("model.vocab: %w", err)
	}
	return nil
}

// enter adds a token to the vocabulary. An empty one has an id, but no text gives it.
func (t *Tokenizer) enter(token []byte, id int32) error {
	if len(token) == 0 {
		t.odd[id] = ""
		return nil
	}
	if !t.vocab.Add(token, id) {
		return fmt.Errorf("the token %q or its id %d is there twice", token, id)
	}
	return nil
}

// unspell appends the bytes that the characters of token stand for, or says false where one stands for none.
func unspell(dst, token []byte, units map[rune]byte) ([]byte, bool) {
	for i := 0; i < len(token); {
		if c := token[i]; c > ' ' && c < 0x7F {
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(token[i:])
		c, ok := units[r]
		if !ok {
			return dst, false
		}
		dst = append(dst, c)
		i += n
	}
	return dst, true
}

// byteUnits are the characters that byte-level vocabularies spell bytes with: printable ones for themselves, and from U+0100 on the others.
func byteUnits() map[rune]byte {
	units := make(map[rune]byte, 256)
	next := rune(256)
	for c := range 256 {
		if c >= '!' && c <= '~' || c >= 0xA1 && c <= 0xAC || c >= 0xAE {
			units[rune(c)] = byte(c)
		} else {
			units[next] = byte(c)
			next++
		}
	}
	return units
}

func (t *Tokenizer) readBPE(o *options, vocabulary, merges []byte, byteLevel bool) error {
	if byteLevel {
		t.units = byteUnits()
	}
	if err := t.readVocabulary(vocabulary); err != nil {
		return err
	}
	b := &bpe{
		vocab: t.vocab, byteLevel: byteLevel, ignoreMerges: o.ignoreMerges, fuseUnknown: o.fuseUnknown,
		whole: make([]atomic.Uint32, t.vocab.Len()/16+1),
	}
	if o.prefix != nil {
		b.prefix = []byte(*o.prefix)
	}
	if o.suffix != nil {
		b.suffix = []byte(*o.suffix)
	}
	var err error
	if b.unknown, err = t.unknownToken(o); err != nil {
		return err
	}
	if o.byteFallback {
		b.bytes = t.byteTokens()
	}
	if !byteLevel && len(b.prefix) == 0 && len(b.suffix) == 0 {
		b.pairs = newTable(1 << 12)
	}
	if err = t.readMerges(b, merges); err != nil {
		return fmt.Errorf("model.merges: %w", err)
	}
	t.model = b
	return nil
}

// byteTokens are the ids of the tokens <0x00> to <0xFF>.
func (t *Tokenizer) byteTokens() *[256]int32 {
	ids := new([256]int32)
	for c := range ids {
		text := fmt.Appendf(nil, "<0x%02X>", c)
		ids[c] = t.vocab.Find(text, 0, len(text))
	}
	return ids
}

// readMerges reads the list of merges: strings of two tokens with a space between, or pairs.
func (t *Tokenizer) readMerges(b *bpe, raw []byte) error {
	b.merges = newTable(len(raw) / 20)
	if len(raw) == 0 {
		return nil
	}
	r := &reader{data: raw}
	var text, left, right, buffer []byte
	rank := 0
	return r.list(func() error {
		var err error
		if r.peek() == '[' {
			if left, right, err = r.pair(left[:0], right[:0]); err != nil {
				return err
			}
		} else {
			if text, err = r.text(text[:0]); err != nil {
				return err
			}
			if bytes.HasPrefix(text, []byte("#version")) {
				return nil
			}
			i := bytes.IndexByte(text, ' ')
			if i < 0 || bytes.IndexByte(text[i+1:], ' ') >= 0 {
				return fmt.Errorf("merge %d is %q, not two tokens with a space between", rank, text)
			}
			left, right = append(left[:0], text[:i]...), append(right[:0], text[i+1:]...)
		}
		if t.units != nil {
			l, fine := unspell(buffer[:0], left, t.units)
			if !fine {
				return fmt.Errorf("merge %d joins %q, which is no spelling of bytes", rank, left)
			}
			left = append(left[:0], l...)
			if l, fine = unspell(l[:0], right, t.units); !fine {
				return fmt.Errorf("merge %d joins %q, which is no spelling of bytes", rank, right)
			}
			right = append(right[:0], l...)
			buffer = l
		}
		buffer, err = b.merge(left, right, rank, buffer)
		rank++
		return err
	})
}

func (r *reader) pair(left, right []byte) ([]byte, []byte, error) {
	n := 0
	err := r.list(func() (err error) {
		switch n++; n {
		case 1:
			left, err = r.text(left)
		case 2:
			right, err = r.text(right)
		default:
			err = r.fail("']': a merge joins two tokens")
		}
		return err
	})
	if err == nil && n != 2 {
		err = r.fail("a merge of two tokens before it")
	}
	return left, right, err
}

func (t *Tokenizer) readUnigram(o *options, vocabulary []byte) error {
	if len(vocabulary) == 0 {
		return fmt.Errorf("model.vocab is missing")
	}
	t.vocab = vocab.New(len(vocabulary)/32, len(vocabulary)/3)
	u := &unigram{vocab: t.vocab, trie: newTrie(len(vocabulary) / 16), unknown: none}
	r := &reader{data: vocabulary}
	var token []byte
	lowest := math.Inf(1)
	err := r.list(func() error {
		id, n, score := int32(len(u.scores)), 0, 0.0
		if err := r.list(func() (err error) {
			switch n++; n {
			case 1:
				token, err = r.text(token[:0])
			case 2:
				score, err = r.number()
			default:
				err = r.fail("']' behind a token and its score")
			}
			return err
		}); err != nil {
			return err
		}
		if n != 2 {
			return r.fail("a token and its score before it")
		}
		if id > maxID {
			return fmt.Errorf("it has more than %d tokens", maxID+1)
		}
		u.scores = append(u.scores, score)
		lowest = min(lowest, score)
		t.size = int(id) + 1
		if err := t.enter(token, id); err != nil {
			return err
		}
		if len(token) > 0 {
			u.trie.add(token, id)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("model.vocab: %w", err)
	}
	u.strange = lowest - unknownPenalty
	if o.unknownID != nil {
		if u.unknown = *o.unknownID; u.unknown < 0 || int(u.unknown) >= len(u.scores) {
			return fmt.Errorf("model.unk_id is %d, and the vocabulary has %d tokens", u.unknown, len(u.scores))
		}
	}
	if o.byteFallback {
		u.bytes = t.byteTokens()
	}
	t.model = u
	return nil
}

func (t *Tokenizer) readDecoder(where string, raw []byte) error {
	d := &t.decoding
	if null(raw) {
		// Tokens with spaces between, in want of anything better.
		d.words, d.prefix = true, []byte{0}
		return nil
	}
	kind, parts, err := typed(where, raw, "decoders")
	if err != nil {
		return err
	}
	var o struct {
		Pattern        expression `json:"pattern"`
		Content        string     `json:"content"`
		Start          int        `json:"start"`
		Stop           int        `json:"stop"`
		Replacement    string     `json:"replacement"`
		PrependScheme  string     `json:"prepend_scheme"`
		AddPrefixSpace *bool      `json:"add_prefix_space"`
		Prefix         string     `json:"prefix"`
		Cleanup        bool       `json:"cleanup"`
		Suffix         string     `json:"suffix"`
	}
	if err := decode(raw, &o); err != nil {
		return fmt.Errorf("%s %w", where, err)
	}
	switch {
	case kind == "Sequence":
		for i, part := range parts {
			if err := t.readDecoder(fmt.Sprintf("%s.decoders[%d]", where, i), part); err != nil {
				return err
			}
		}
	case kind == "ByteLevel":
		d.byteLevel = true
	case kind == "ByteFallback":
		d.bytes = true
	case kind == "Fuse":
	case kind == "Replace" && o.Pattern.String != nil && *o.Pattern.String != "":
		d.replace = append(d.replace, replace{[]byte(*o.Pattern.String), []byte(o.Content)})
	case kind == "Strip" && o.Content == " " && o.Stop == 0:
		d.stripped += min(max(o.Start, 0), 16)
	case kind == "Metaspace":
		d.replace = append(d.replace, replace{[]byte(o.Replacement), space})
		d.first = o.PrependScheme != "never" && (o.AddPrefixSpace == nil || *o.AddPrefixSpace)
	case kind == "WordPiece":
		d.words, d.prefix, d.cleanup = true, []byte(o.Prefix), o.Cleanup
	case kind == "BPEDecoder" && o.Suffix != "":
		d.suffix = o.Suffix
	default:
		d.unknown = kind
	}
	return nil
}

// readAdded reads the added tokens of the file, and those of the configuration beside it.
func (t *Tokenizer) readAdded(raw, config []byte) error {
	var list []added
	if !null(raw) {
		if err := decode(raw, &list); err != nil {
			return fmt.Errorf("added_tokens %w", err)
		}
	}
	var beside struct {
		Decoder map[string]added `json:"added_tokens_decoder"`
	}
	if err := decode(config, &beside); err != nil {
		return fmt.Errorf("tokenizer_config.json %w", err)
	}
	var more []added
	for id, a := range beside.Decoder {
		if _, err := fmt.Sscanf(id, "%d", &a.ID); err != nil {
			return fmt.Errorf("tokenizer_config.json: added_tokens_decoder has the key %q, which is no token id", id)
		}
		more = append(more, a)
	}
	slices.SortFunc(more, func(a, b added) int { return int(a.ID - b.ID) })
	byText := map[string]int{}
	for id, text := range t.odd {
		if text != "" {
			byText[text] = -1 - int(id)
		}
	}
	for i, a := range append(list, more...) {
		if err := t.add(a, i < len(list), byText); err != nil {
			return err
		}
	}
	return t.index()
}

// add enters one added token. Its id is the one that its text has already; else its own, in the file itself, and the next free one otherwise.
// byText holds the places of those that were added, and -1-id of those of the model that no text gives.
func (t *Tokenizer) add(a added, own bool, byText map[string]int) error {
	if a.Content == "" {
		return nil
	}
	if a.ID < 0 || a.ID > maxID {
		return fmt.Errorf("added_tokens: the id of %q is %d, not from 0 to %d", a.Content, a.ID, maxID)
	}
	i, ok := byText[a.Content]
	switch {
	case ok && i >= 0:
		a.ID = t.added[i].ID
		t.added[i] = a
		return nil
	case ok:
		a.ID = int32(-1 - i)
	default:
		if id := t.inModel(a.Content); id != none {
			a.ID = id
		} else if !own {
			a.ID = int32(t.size)
		}
	}
	if other, ok := t.addedByID[a.ID]; ok {
		return fmt.Errorf("added_tokens: %q and %q have the id %d", t.added[other].Content, a.Content, a.ID)
	}
	byText[a.Content] = len(t.added)
	t.addedByID[a.ID] = len(t.added)
	t.added = append(t.added, a)
	t.size = max(t.size, int(a.ID)+1)
	return nil
}

// inModel is the id of a token of the model's vocabulary as the file spells it, or none.
func (t *Tokenizer) inModel(content string) int32 {
	text := []byte(content)
	if t.units != nil {
		var fine bool
		if text, fine = unspell(nil, text, t.units); !fine {
			return none
		}
	}
	return t.vocab.Find(text, 0, len(text))
}

// index makes the tries that find added tokens.
func (t *Tokenizer) index() error {
	s := t.scratch()
	for i, a := range t.added {
		text, found := []byte(a.Content), &t.raw
		t.added[i].text = a.Content
		if a.Normalized {
			text, found = t.normalize(s, text), &t.normal
			t.added[i].text = string(text)
			if len(text) == 0 {
				return fmt.Errorf("added_tokens: nothing is left of %q when it is normalized", a.Content)
			}
		}
		if *found == nil {
			*found = newTrie(64)
		}
		(*found).add(text, int32(i))
	}
	return nil
}

// around counts the tokens that the post-processor puts around a single text.
func around(raw []byte) (int, error) {
	if null(raw) {
		return 0, nil
	}
	kind, parts, err := typed("post_processor", raw, "processors")
	if err != nil {
		return 0, err
	}
	switch kind {
	case "Sequence":
		n := 0
		for _, part := range parts {
			more, err := around(part)
			if err != nil {
				return 0, err
			}
			n += more
		}
		return n, nil
	case "BertProcessing", "RobertaProcessing":
		return 2, nil
	case "TemplateProcessing":
		var o struct {
			Single []struct {
				SpecialToken *struct {
					ID string `json:"id"`
				}
			} `json:"single"`
			Tokens map[string]struct {
				IDs []int32 `json:"ids"`
			} `json:"special_tokens"`
		}
		if err := decode(raw, &o); err != nil {
			return 0, fmt.Errorf("post_processor %w", err)
		}
		n := 0
		for _, piece := range o.Single {
			if piece.SpecialToken != nil {
				n += len(o.Tokens[piece.SpecialToken.ID].IDs)
			}
		}
		return n, nil
	case "ByteLevel":
		return 0, nil
	}
	return 0, unknown("post_processor", "post-processor", kind, strings.Join([]string{"ByteLevel", "TemplateProcessing", "BertProcessing",
		"RobertaProcessing", "Sequence"}, ", "))
}
