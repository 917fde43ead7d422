package hf

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// alphabets meet the corners of the patterns, the normalizers and the classes.
var alphabets = []string{
	"etaoin shrdlu ETAOIN ,.;:'", " \n\t\r", " \n a", "abcXYZ'sStTlLrReEvVdDmM ſ", "0123456789 .,-x", "éèüñßÄÖ ĐđŁłǅʰ\u0301\u0302a A",
	"漢字かなカナ한글。、 ", "👍🏽👩\u200d❤️🇩🇪 a", "!@#$%^&*()_+-=[]{}|;:,./<>?\n\r ", "\u00a0\u2028\u3000\u1680\u0085 \v\fx", "АБВгде нПОЁё",
	"अआइकि\u0902् ", "(){}=+;\n    return_if", "\x00\x01\x1f\x7f\u0080\ufeff\u200b~", "ABC\u0301\u02b0\u0661x/\n'", "e\u0301\u0316\u0323\u0345o\u0308",
	"ᄀ\u1161\u11a8가각 ", "ﬁ①½㎏Ⅷﾊﾟ x", "▁▁ a▁b", "İIıiΣσς ẞß", "the quick brown fox", "<s></s><unk>[MASK]<|a|>",
}

// words are special and added tokens of the tokenizers tested, and halves of them.
var words = []string{"<|endoftext|>", "<|im_start|>", "<s>", "</s>", "<unk>", "[CLS]", "[MASK]", "[UNK]", "<mask>", "<0x0A>", "<|", "  ", "word", " Word ", "<ADDED>"}

func varied(rng *rand.Rand, n int) []byte {
	var out []byte
	pool := []rune(alphabets[rng.IntN(len(alphabets))])
	mode := rng.IntN(8)
	for range 1 + rng.IntN(n) {
		switch {
		case mode == 0: // any code point
			out = utf8.AppendRune(out, rune(rng.IntN(0x32000)))
		case mode == 1: // any byte
			out = append(out, byte(rng.IntN(256)))
		case mode == 2: // runs
			r := pool[rng.IntN(len(pool))]
			for range 1 + rng.IntN(12) {
				out = utf8.AppendRune(out, r)
			}
		case mode == 3: // all alphabets
			other := []rune(alphabets[rng.IntN(len(alphabets))])
			out = utf8.AppendRune(out, other[rng.IntN(len(other))])
		case mode == 4 && rng.IntN(8) == 0:
			out = append(out, words[rng.IntN(len(words))]...)
		default:
			out = utf8.AppendRune(out, pool[rng.IntN(len(pool))])
		}
	}
	return out
}

// python is the interpreter with tokenizers to hold ids against.
func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PREFIRE_TOKENIZERS_PYTHON")
	if path == "" {
		home, _ := os.UserHomeDir()
		path = filepath.Join(home, ".cache", "peers", "aiperf", "bin", "python")
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIP: no Python with tokenizers at %s (PREFIRE_TOKENIZERS_PYTHON names another): ids are held against the golden file alone", path)
	}
	return path
}

// answer is what Python makes of a text.
type answer struct {
	IDs  []int32
	Back []byte
}

func ask(t *testing.T, file string, texts [][]byte) []answer {
	t.Helper()
	var in, complaint bytes.Buffer
	for _, text := range texts {
		fmt.Fprintln(&in, base64.StdEncoding.EncodeToString(text))
	}
	cmd := exec.Command(python(t), filepath.Join("testdata", "oracle.py"), file)
	cmd.Stdin, cmd.Stderr = &in, &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.Bytes())
	}
	answers := make([]answer, len(texts))
	d := json.NewDecoder(bytes.NewReader(out))
	for i := range answers {
		if err := d.Decode(&answers[i]); err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// trained are the tokenizers of testdata.
func trained(t testing.TB) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(file string) bool { return filepath.Base(file) == goldenFile })
	if len(list) == 0 {
		t.Fatal("no tokenizers in testdata")
	}
	return list
}

// files are the trained tokenizers, or those that PREFIRE_TOKENIZERS lists, with colons between.
func files(t *testing.T) []string {
	t.Helper()
	if list := os.Getenv("PREFIRE_TOKENIZERS"); list != "" {
		return strings.Split(list, ":")
	}
	return trained(t)
}

func load(t testing.TB, file string) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(file, data, nil)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return tok
}

// corpus is what the tokenizers are held against Python on: 5,000 varied strings, long runs, every code point, and a megabyte of one letter.
func corpus() (texts [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	texts = append(texts, nil)
	for range 5000 {
		texts = append(texts, varied(rng, 120))
	}
	for _, s := range []string{"a", " ", "\n", " \n", "-", "aB", "漢", "\u0301", "1", "'s", "<|", "\xe2\x82", "é", "\u0316\u0301"} {
		texts = append(texts, []byte(strings.Repeat(s, 3000)))
	}
	texts = append(texts, everyPoint()...)
	return append(texts, bytes.Repeat([]byte("a"), 1<<20)) // a quadratic step anywhere would need 10^12
}

// Ids are those of Python's tokenizers, live: on a sample of the corpus, or on all of it where PREFIRE_TOKENIZERS_FULL is set. Where it is
// "write", the golden file is written.
func TestPythonOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: ids are held against the golden file alone with -short")
	}
	python(t)
	full := os.Getenv("PREFIRE_TOKENIZERS_FULL")
	texts := corpus()
	if full == "" {
		texts = texts[:300]
	}
	all := map[string]golden{}
	for _, file := range files(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			tok := load(t, file)
			answers := ask(t, file, texts)
			wrong, bad := 0, 0
			ids := make([][]int32, len(texts))
			for i, text := range texts {
				got := tok.Append(nil, text)
				ids[i] = answers[i].IDs
				if !slices.Equal(got, answers[i].IDs) {
					if wrong++; wrong < 6 {
						t.Errorf("%.200q: %.200s, want %.200s", text, fmt.Sprint(got), fmt.Sprint(answers[i].IDs))
					}
				}
				if n := tok.Count(text); n != len(got) {
					t.Errorf("counts %d tokens in %.200q, but gives %d", n, text, len(got))
				}
				// Python makes text of the bytes, with a U+FFFD for each that is not UTF-8.
				back, err := tok.Decode(nil, answers[i].IDs)
				if err != nil || utf8.Valid(back) && !bytes.Equal(back, answers[i].Back) {
					if bad++; bad < 4 {
						t.Errorf("decodes to %.200q (%v), want %.200q", back, err, answers[i].Back)
					}
				}
			}
			if wrong+bad > 0 {
				t.Errorf("of %d strings, %d have other ids than Python's, %d another text", len(texts), wrong, bad)
			}
			all[filepath.Base(file)] = makeGolden(ids)
		})
	}
	if full == "write" && !t.Failed() {
		data, err := json.Marshal(all)
		if err == nil {
			err = os.WriteFile(filepath.Join("testdata", goldenFile), append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// everyPoint holds each code point that Unicode 16 may have assigned, between letters, spaces and marks so that its properties show.
func everyPoint() [][]byte {
	var texts [][]byte
	var out []byte
	for r := rune(0); r < 0x32400; r++ {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		out = append(out, 'A')
		out = utf8.AppendRune(out, r)
		out = append(out, "\u0316b 1\u0345"...)
		out = utf8.AppendRune(out, r)
		out = append(out, "\u0301 "...)
		if r%64 == 63 {
			texts = append(texts, out)
			out = nil
		}
	}
	return append(texts, out)
}
