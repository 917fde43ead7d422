package hf

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"prefire/tokenize/internal/scan"
)

// model is a tokenizer.json with these parts beside a small byte-level model.
func withParts(parts string) string {
	return `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3}, "merges": ["a b"]}` + parts + `}`
}

func TestRefused(t *testing.T) {
	const normalizers = "it knows NFC, NFD, NFKC, NFKD, Lowercase, Nmt, Strip, StripAccents, Replace, Prepend, Precompiled, BertNormalizer and Sequence"
	const expressions = "it knows those of GPT-2, Llama 3, Qwen 2 to 3.5, gpt-oss, Mistral and DeepSeek 3, and plain ones for numbers and white space"
	for _, c := range []struct{ file, want string }{
		{``, `is not valid JSON: byte 0 is the end of the file, expected '{'`},
		{`{}`, `it has no model: this is no tokenizer.json`},
		{`{"model": {}}`, `model: the type "" is not known to prefire; it knows BPE, Unigram, WordPiece and WordLevel`},
		{`{"model": {"type": "BPE"}}`, `model.vocab is missing`},
		{`{"model": {"type": "BPE", "vocab": {"a": "b"}}}`, `model.vocab: is not valid JSON: byte 6 is '"', expected a token id from 0 to 16777215`},
		{`{"model": {"type": "BPE", "vocab": {"a": 99999999}}}`, `model.vocab: is not valid JSON: byte 6 is '9', expected a token id from 0 to 16777215`},
		{`{"model": {"type": "BPE", "vocab": {"a": 1, "a": 2}}}`, `model.vocab: the token "a" or its id 2 is there twice`},
		{`{"model": {"type": "BPE", "vocab": {"a": 1, "b": 1}}}`, `model.vocab: the token "b" or its id 1 is there twice`},
		{`{"model": {"type": "BPE", "vocab": {"a": 1}, "merges": ["a b"]}}`, `model.merges: merge 0 joins "b", which is not in the vocabulary`},
		{`{"model": {"type": "BPE", "vocab": {"a": 1, "b": 2}, "merges": ["a b"]}}`, `model.merges: merge 0 makes "ab", which is not in the vocabulary`},
		{`{"model": {"type": "BPE", "vocab": {"a": 1}, "merges": ["a"]}}`, `model.merges: merge 0 is "a", not two tokens with a space between`},
		{`{"model": {"type": "BPE", "vocab": {"a": 1}, "merges": [["a"]]}}`,
			`model.merges: is not valid JSON: byte 6 is ']', expected a merge of two tokens before it`},
		{`{"model": {"type": "BPE", "vocab": {}, "unk_token": "u"}}`, `model.unk_token is "u", which is not in the vocabulary`},
		{`{"model": {"type": "BPE", "vocab": {}, "dropout": 0.1}}`,
			`model.dropout is 0.1: merges left out at random would make counts random; prefire knows 0 alone`},
		{`{"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1}}`, `model.unk_id is 1, and the vocabulary has 1 tokens`},
		{`{"model": {"type": "Unigram", "vocab": [["a"]]}}`, `model.vocab: is not valid JSON: byte 6 is ']', expected a token and its score before it`},
		{`{"model": {"type": "Unigram", "vocab": [["a", "b"]]}}`, `model.vocab: is not valid JSON: byte 7 is '"', expected a number`},
		{`{"model": {"type": "WordPiece", "vocab": {"a": 0}}}`, `model.unk_token is "[UNK]", which is not in the vocabulary`},
		{withParts(`, "normalizer": {"type": "Other"}`), `normalizer: the normalizer "Other" is not known to prefire; ` + normalizers},
		{withParts(`, "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "ByteLevel"}]}`),
			`normalizer.normalizers[1]: the normalizer "ByteLevel" is not known to prefire; ` + normalizers},
		{withParts(`, "normalizer": {"type": "Replace", "pattern": {"Regex": "x+"}, "content": ""}`),
			`normalizer: the regular expression "x+" is not known to prefire; it knows " {2,}" and plain strings`},
		{withParts(`, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}`),
			`normalizer.precompiled_charsmap is no compiled table of replacements (base64 of a trie and its texts)`},
		{withParts(`, "pre_tokenizer": {"type": "UnicodeScripts"}`), `pre_tokenizer: the pre-tokenizer "UnicodeScripts" is not known to prefire; it knows ` +
			`ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, Digits, Punctuation, BertPreTokenizer, CharDelimiterSplit and Sequence`},
		{withParts(`, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"}]}`),
			`pre_tokenizer.pretokenizers[0]: the regular expression "\\w+" is not known to prefire; ` + expressions},
		{withParts(`, "pre_tokenizer": {"type": "Split", "pattern": {"String": "x"}, "behavior": "Other"}`), `pre_tokenizer: the behavior "Other" is not ` +
			`known to prefire; it knows Isolated, Removed, Contiguous, MergedWithPrevious and MergedWithNext`},
		{withParts(`, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]}`),
			`pre_tokenizer.pretokenizers[1]: a pre-tokenizer Digits behind ByteLevel is not known to prefire, which knows ByteLevel as the last one alone`},
		{`{"model": {"type": "Unigram", "vocab": [["a", 0]]}, "pre_tokenizer": {"type": "ByteLevel"}}`,
			`pre_tokenizer: ByteLevel before a model "Unigram" is not known to prefire, which knows it before BPE alone`},
		{withParts(`, "pre_tokenizer": {"type": "Metaspace", "replacement": "xx"}`), `pre_tokenizer.replacement is "xx", not one character`},
		{withParts(`, "post_processor": {"type": "Other"}`), `post_processor: the post-processor "Other" is not known to prefire; it knows ByteLevel, ` +
			`TemplateProcessing, BertProcessing, RobertaProcessing, Sequence`},
		{withParts(`, "added_tokens": [{"id": 9, "content": "x"}, {"id": 9, "content": "y"}]`), `added_tokens: "x" and "y" have the id 9`},
		{withParts(`, "added_tokens": [{"id": -1, "content": "x"}]`), `added_tokens: the id of "x" is -1, not from 0 to 16777215`},
		{withParts(`, "added_tokens": {}`), `added_tokens is not valid JSON: json: cannot unmarshal object into Go value of type []hf.added`},
	} {
		if _, err := Parse("t", []byte(c.file), nil); err == nil || err.Error() != c.want {
			t.Errorf("%s:\n%v\nwant %s", c.file, err, c.want)
		}
	}
}

// A decoder that is not known hinders nothing but decoding.
func TestUnknownDecoder(t *testing.T) {
	tok, err := Parse("t", []byte(withParts(`, "decoder": {"type": "CTC"}`)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := tok.Count([]byte("abb")); n != 2 {
		t.Errorf("%d tokens, want 2", n)
	}
	want := "tokenizer t cannot make text of tokens: its decoder CTC is not known to prefire"
	if _, err := tok.Decode(nil, []int32{0}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestDecodeUnknownID(t *testing.T) {
	tok, err := Parse("t", []byte(withParts(`, "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel"}`)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int32]string{
		4:  "token 4 (number 1 of 2) is not in the vocabulary of t, whose ids are below 4",
		-1: "token -1 (number 1 of 2) is not in the vocabulary of t, whose ids are below 4",
	} {
		if got, err := tok.Decode(nil, []int32{2, id}); string(got) != " " || err == nil || err.Error() != want {
			t.Errorf("%q, %v, want a space and %s", got, err, want)
		}
	}
}

// The configuration beside the file has the last word on added tokens; one that the file lacks takes the next free id.
func TestAddedBeside(t *testing.T) {
	file := []byte(withParts(`, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "added_tokens": [{"id": 9, "content": "<x>"}]`))
	config := []byte(`{"added_tokens_decoder": {"9": {"content": "<x>", "rstrip": true}, "30": {"content": "<y>"}, "2": {"content": "ab", "special": true}}}`)
	for _, c := range []struct {
		config []byte
		want   []int32
		size   int
	}{{nil, []int32{9, 2, 3, 2}, 10}, {config, []int32{9, 3, 2, 10}, 11}} {
		tok, err := Parse("t", file, c.config)
		if err != nil {
			t.Fatal(err)
		}
		// < and y are in no token.
		if got := tok.Append(nil, []byte("<x> ab <y>")); !slices.Equal(got, c.want) || tok.VocabSize() != c.size {
			t.Errorf("%v of %d, want %v of %d", got, tok.VocabSize(), c.want, c.size)
		}
	}
}

func TestAround(t *testing.T) {
	for file, want := range map[string]int{"gpt2": 0, "llama2": 1, "wordpiece": 2, "unigram": 0} {
		if got := load(t, filepath.Join("testdata", file+".json")).Around(); got != want {
			t.Errorf("%s puts %d tokens around a text, want %d", file, got, want)
		}
	}
}

func TestCountAllocatesNothing(t *testing.T) {
	text := []byte(strings.Repeat("The quick brown fox, naïvely 漢字 counted 12345 xyzzyxyzzy e\u0301.\n \n<|endoftext|><mask>  👍🏽\r\n", 20))
	for _, file := range trained(t) {
		tok := load(t, file)
		ids := tok.Append(nil, text)
		if n := testing.AllocsPerRun(20, func() { tok.Count(text) }); n != 0 {
			t.Errorf("%s: Count allocates %v times", file, n)
		}
		if n := testing.AllocsPerRun(20, func() { ids = tok.Append(ids[:0], text) }); n != 0 {
			t.Errorf("%s: Append into a large enough slice allocates %v times", file, n)
		}
	}
}

// The work of a model grows as n log n at most.
func TestWork(t *testing.T) {
	for _, file := range trained(t) {
		tok := load(t, file)
		for _, s := range []string{"a", "ab", " ", "=-", "漢", "the", "é\u0301", "▁", "\n", "1", "<"} {
			work := func(n int) int {
				for len(tok.scratches) > 0 {
					<-tok.scratches
				}
				tok.scratches <- &scratch{buffers: make([][]byte, len(tok.stages)), graphemes: tok.scratch().graphemes}
				tok.Count(bytes.Repeat([]byte(s), n/len(s)))
				for len(tok.scratches) > 0 {
					return (<-tok.scratches).work
				}
				return 0
			}
			small, large := work(1<<11), work(1<<14)
			// 8 times the symbols, and a heap that is 3 levels higher where it was 9 at least (of 512 symbols of 4 bytes).
			if limit := (small+20)*8*12/9 + 100; large > limit {
				t.Errorf("%s, %q: %d steps for 2 KiB, %d for 16 KiB, want at most %d", file, s, small, large, limit)
			}
		}
	}
}

// What Breaks says is so: texts with such an end and such a beginning have as many tokens together as apart.
func TestBreaks(t *testing.T) {
	yes := []string{"deepseek", "gpt2", "llama3", "o200k", "qwen2", "qwen35", "tekken", "digits"}
	for _, file := range trained(t) {
		tok := load(t, file)
		want := slices.Contains(yes, strings.TrimSuffix(filepath.Base(file), ".json"))
		if got := tok.Breaks([]byte("o."), []byte(" S")); got != want {
			t.Errorf("%s breaks between sentences: %v, want %v", file, got, want)
		}
		if !want {
			continue
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for range 500 {
			a, b := append(varied(rng, 40), "no."...), append([]byte(" So"), varied(rng, 40)...)
			if whole, apart := tok.Count(append(slices.Clone(a), b...)), tok.Count(a)+tok.Count(b); whole != apart {
				t.Errorf("%s: %q and %q: %d tokens together, %d apart", file, a, b, whole, apart)
			}
		}
		for _, c := range [][2]string{{".", " S"}, {"o.", "S"}, {"o.", " 1"}, {"1.", " S"}, {"o!", " S"}, {"o.", " "}} {
			if tok.Breaks([]byte(c[0]), []byte(c[1])) {
				t.Errorf("%s breaks between %q and %q", file, c[0], c[1])
			}
		}
	}
}

// Text comes back from its ids wherever every byte has a token and nothing is normalized.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, name := range []string{"gpt2", "llama3", "o200k", "tekken", "deepseek", "digits", "falcon"} {
		tok := load(t, filepath.Join("testdata", name+".json"))
		for range 300 {
			text := scan.Repair(varied(rng, 80))
			if got, err := tok.Decode(nil, tok.Append(nil, text)); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s: %q comes back as %q (%v)", name, text, got, err)
			}
		}
	}
}

// Calls at the same time give what they give alone, also while it is still being found out which words are whole tokens.
func TestConcurrent(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	texts := make([][]byte, 100)
	for i := range texts {
		texts[i] = varied(rng, 100)
	}
	for _, name := range []string{"gpt2", "llama3", "gemma", "unigram", "wordpiece"} {
		alone, shared := load(t, filepath.Join("testdata", name+".json")), load(t, filepath.Join("testdata", name+".json"))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for _, text := range texts {
					if got, want := shared.Append(nil, text), alone.Append(nil, text); !slices.Equal(got, want) {
						t.Errorf("%s: %q: %v, alone %v", name, text, got, want)
					}
				}
			})
		}
		wg.Wait()
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range trained(f) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 10<<10 {
			f.Add(data)
		}
	}
	f.Add([]byte(withParts(`, "normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}`)))
	f.Add([]byte(`{"model": {"type": "Unigram", "vocab": [["a", -1.5], ["\ud83d\ude00", 0e2]], "unk_id": 0, "byte_fallback": true}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return // its time would say nothing of the reader
		}
		tok, err := Parse("t", data, nil)
		if err != nil {
			return
		}
		text := []byte("ab <s> e\u0301 漢\n")
		ids := tok.Append(nil, text)
		if n := tok.Count(text); n != len(ids) {
			t.Fatalf("Count %d, Append %d", n, len(ids))
		}
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("id %d of %d", id, tok.VocabSize())
			}
		}
	})
}

func FuzzEncode(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 40 {
		f.Add(varied(rng, 60))
	}
	toks := map[string]*Tokenizer{}
	for _, file := range trained(f) {
		toks[filepath.Base(file)] = load(f, file)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, tok := range toks {
			ids := tok.Append(nil, text)
			if n := tok.Count(text); n != len(ids) {
				t.Fatalf("%s: Count %d, Append %d", name, n, len(ids))
			}
			back, err := tok.Decode(nil, ids)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "llama3.json" && !bytes.Equal(back, scan.Repair(text)) {
				t.Fatalf("%s: %q comes back as %q", name, text, back)
			}
		}
	})
}

// real is a large tokenizer.json named by PREFIRE_TOKENIZERS.
func real(b *testing.B) []string {
	list := os.Getenv("PREFIRE_TOKENIZERS")
	if list == "" {
		b.Skip("SKIP: PREFIRE_TOKENIZERS names no tokenizer.json to measure")
	}
	return strings.Split(list, ":")
}

func BenchmarkParse(b *testing.B) {
	for i, file := range real(b) {
		data, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(file, data, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCount(b *testing.B) {
	text := []byte(strings.Repeat("The quiet engineer measured a narrow valley near the old market, and several farmers carried bright lanterns. ", 100))
	for i, file := range real(b) {
		tok := load(b, file)
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = tok.Count(text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/token")
		})
	}
}
