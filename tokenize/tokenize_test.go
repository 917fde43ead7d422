package tokenize

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"prefire/tokenize/internal/scan"
	"prefire/tokenize/internal/vocab"
)

// opened holds one tokenizer of each encoding for all tests of the package.
var opened = func() map[string]func() Tokenizer {
	all := map[string]func() Tokenizer{}
	for _, name := range Names()[1:] {
		all[name] = sync.OnceValue(func() Tokenizer { return open(name) })
	}
	return all
}()

func open(name string) Tokenizer {
	t, err := Open(name)
	if err != nil {
		panic(err)
	}
	return t
}

// each runs f with both encodings.
func each(t *testing.T, f func(t *testing.T, tok Tokenizer)) {
	for _, name := range []string{"o200k_base", "cl100k_base"} {
		t.Run(name, func(t *testing.T) { f(t, opened[name]()) })
	}
}

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		name, encoding string
		size           int
	}{
		{"builtin", "o200k_base", 200019}, {"o200k_base", "o200k_base", 200019}, {"cl100k_base", "cl100k_base", 100277},
		{"o200k_harmony", "o200k_harmony", 201088}, {"p50k_base", "p50k_base", 50281}, {"p50k_edit", "p50k_edit", 50284}, {"r50k_base", "r50k_base", 50257},
	} {
		tok, err := Open(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if tok.Name() != c.encoding || tok.VocabSize() != c.size {
			t.Errorf("Open(%q) = %s of %d ids, want %s of %d", c.name, tok.Name(), tok.VocabSize(), c.encoding, c.size)
		}
	}
	_, err := Open("meta-llama/Llama-3.1-8B")
	want := `tokenizer "meta-llama/Llama-3.1-8B" is not on this machine, and nothing is downloaded. It is none of the built-in ones (builtin, ` +
		`o200k_base, o200k_harmony, cl100k_base, p50k_base, p50k_edit, r50k_base). Choose: --tokenizer builtin (prompt lengths are then o200k_base tokens, and the server counts its own); ` +
		`--tokenizer PATH of a tokenizer.json or of a folder with one`
	if err == nil || err.Error() != want {
		t.Errorf("Open of a model: %v\nwant %s", err, want)
	}
}

// The vocabularies, written as OpenAI's .tiktoken files, have the hashes that Python's tiktoken pins.
func TestVocabulary(t *testing.T) {
	const o200k, p50k = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
	for name, want := range map[string]string{
		"o200k_base": o200k, "o200k_harmony": o200k, "p50k_base": p50k, "p50k_edit": p50k,
		"cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
		"r50k_base":   "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
	} {
		v := opened[name]().(*bpe).vocab
		var file bytes.Buffer
		for id := range v.Len() {
			if token := v.Token(int32(id)); len(token) > 0 {
				fmt.Fprintf(&file, "%s %d\n", base64.StdEncoding.EncodeToString(token), id)
			}
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(file.Bytes())); got != want {
			t.Errorf("%s: the file's sha256 is %s, want %s", name, got, want)
		}
		if *tiktokenDir == "" {
			continue
		}
		// Python's tiktoken keeps a vocabulary under the hash of its address.
		address := "https://openaipublic.blob.core.windows.net/encodings/" + strings.NewReplacer("harmony", "base", "edit", "base").Replace(name) + ".tiktoken"
		if err := os.WriteFile(filepath.Join(*tiktokenDir, fmt.Sprintf("%x", sha1.Sum([]byte(address)))), file.Bytes(), 0o644); err != nil {
			t.Error(err)
		}
	}
}

var tiktokenDir = flag.String("tiktoken.dir", "", "write the vocabularies into this folder, for golden.py")

// list is a vocabulary of these tokens.
type list []string

func (l list) Decode(ids []uint) (string, error) {
	if ids[0] >= uint(len(l)) {
		return "", fmt.Errorf("no token %d", ids[0])
	}
	return l[ids[0]], nil
}

func TestBadVocabulary(t *testing.T) {
	var bytes list
	for c := range 256 {
		bytes = append(bytes, string([]byte{byte(c)}))
	}
	for want, l := range map[string]list{
		`tokenizer test: its vocabulary holds the token "x" twice`: append(slices.Clone(bytes), "xy", "x"),
		`tokenizer test: its vocabulary lacks the byte 0xff`:       bytes[:255],
		`tokenizer test: its vocabulary lacks the byte 0x00`:       nil,
	} {
		if _, err := newBPE("test", l, scan.O200k, nil); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A merger that has worked on a huge piece is not kept.
func TestMemoryIsGivenBack(t *testing.T) {
	b := open("cl100k_base").(*bpe)
	b.Count([]byte("xyzzyxyzzy"))
	b.Count(bytes.Repeat([]byte("a"), 1<<18))
	for len(b.mergers) > 0 {
		if m := <-b.mergers; cap(m.parts) > 1<<16 {
			t.Errorf("room for %d parts is kept", cap(m.parts))
		}
	}
}

func TestGolden(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "golden.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checked := map[string]int{}
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var c struct{ Text []byte }
		var all map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal(scan.Bytes(), &c), json.Unmarshal(scan.Bytes(), &all)); err != nil {
			t.Fatal(err)
		}
		delete(all, "text")
		for name, list := range all {
			var want []int32
			if err := json.Unmarshal(list, &want); err != nil {
				t.Fatal(err)
			}
			checked[name]++
			tok := opened[name]()
			got := tok.Append(nil, c.Text)
			if !slices.Equal(got, want) {
				t.Errorf("%s of %q: %v, want %v", name, c.Text, got, want)
			}
			if n := tok.Count(c.Text); n != len(want) {
				t.Errorf("%s counts %d tokens in %q, want %d", name, n, c.Text, len(want))
			}
		}
	}
	for name := range opened {
		if checked[name] < 100 {
			t.Errorf("only %d golden strings for %s", checked[name], name)
		}
	}
}

// pools are alphabets that meet the corners of the split patterns.
var pools = []string{
	"etaoin shrdlu ETAOIN ,.;:'", " \n\t\r", " \n a", "abcXYZ'sStTlLrReEvVdDmM ſ", "0123456789 .,-x", "éèüñßÄÖ ĐđŁłǅʰ\u0301\u0302a A",
	"漢字かなカナ한글。、 ", "👍🏽👩\u200d❤️🇩🇪 a", "!@#$%^&*()_+-=[]{}|;:,./<>?\n\r ", "\u00a0\u2028\u3000\u1680\u0085 \v\fx", "АБВгде нПОЁё",
	"अआइकि\u0902् ", "(){}=+;\n    return_if", "\x00\x01\x1f\x7f\u0080\ufeff\u200b~", "ABC\u0301\u02b0\u0661x/\n'",
}

// varied makes one random string of up to about n characters.
func varied(rng *rand.Rand, n int) []byte {
	var out []byte
	pool := []rune(pools[rng.IntN(len(pools))])
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
			other := []rune(pools[rng.IntN(len(pools))])
			out = utf8.AppendRune(out, other[rng.IntN(len(other))])
		case mode == 4 && rng.IntN(12) == 0:
			out = append(out, []string{"<|endoftext|>", "<|endofprompt|>", "<|fim_middle|>", "<|"}[rng.IntN(4)]...)
		default:
			out = utf8.AppendRune(out, pool[rng.IntN(len(pool))])
		}
	}
	return out
}

func TestPythonOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: ids are held against the golden file alone with -short")
	}
	home, _ := os.UserHomeDir()
	peers := filepath.Join(home, ".cache", "peers")
	python := os.Getenv("PREFIRE_TIKTOKEN_PYTHON")
	if python == "" {
		python = filepath.Join(peers, "aiperf", "bin", "python")
	}
	if _, err := os.Stat(python); err != nil {
		t.Skipf("SKIP: no Python with tiktoken at %s (PREFIRE_TIKTOKEN_PYTHON names another): ids are held against the golden file alone", python)
	}
	each(t, func(t *testing.T, tok Tokenizer) {
		rng := rand.New(rand.NewPCG(1, uint64(len(tok.Name()))))
		var texts [][]byte
		for range 5000 {
			texts = append(texts, varied(rng, 120))
		}
		for _, s := range []string{"a", " ", "\n", " \n", "-", "aB", "漢", "\u0301", "1", "'s", "<|", "\xe2\x82"} {
			texts = append(texts, []byte(strings.Repeat(s, 5000)))
		}
		if tok.Name() == "o200k_base" {
			texts = append(texts, everyPoint())
		}
		var in bytes.Buffer
		for _, text := range texts {
			fmt.Fprintln(&in, base64.StdEncoding.EncodeToString(text))
		}
		cmd := exec.Command(python, filepath.Join("testdata", "oracle.py"), tok.Name())
		cmd.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+filepath.Join(peers, "tiktoken-cache"))
		cmd.Stdin = &in
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, complaint.Bytes())
		}
		answers := json.NewDecoder(bytes.NewReader(out))
		wrong := 0
		for _, text := range texts {
			var want []int32
			if err := answers.Decode(&want); err != nil {
				t.Fatal(err)
			}
			got := tok.Append(nil, text)
			if !slices.Equal(got, want) {
				if wrong++; wrong < 10 {
					t.Errorf("%.200q: %.200s, want %.200s", text, fmt.Sprint(got), fmt.Sprint(want))
				}
			}
			if n := tok.Count(text); n != len(got) {
				t.Errorf("counts %d tokens in %.200q, but gives %d", n, text, len(got))
			}
		}
		if wrong > 0 {
			t.Errorf("%d of %d strings differ from Python's", wrong, len(texts))
		}
	})
}

// everyPoint holds each code point that Unicode 16 may have assigned, between letters and spaces so that its class shows.
func everyPoint() []byte {
	var out []byte
	for r := rune(0); r < 0x32400; r++ {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		out = append(out, 'A')
		out = utf8.AppendRune(out, r)
		out = append(out, "b 1"...)
	}
	return out
}

func TestDecode(t *testing.T) {
	tok := opened["o200k_base"]()
	got, err := tok.Decode([]byte("x"), []int32{24912, 199999, 2375, 200018})
	if want := "xhello<|endoftext|> world<|endofprompt|>"; err != nil || string(got) != want {
		t.Errorf("Decode = %q, %v, want %q", got, err, want)
	}
	for id, want := range map[int32]string{
		199998: "token 199998 (number 1 of 2) is not in the vocabulary of o200k_base, whose ids are below 200019",
		-1:     "token -1 (number 1 of 2) is not in the vocabulary of o200k_base, whose ids are below 200019",
		200019: "token 200019 (number 1 of 2) is not in the vocabulary of o200k_base, whose ids are below 200019",
	} {
		got, err := tok.Decode(nil, []int32{24912, id})
		if string(got) != "hello" || err == nil || err.Error() != want {
			t.Errorf("Decode of %d = %q, %v, want \"hello\" and %s", id, got, err, want)
		}
	}
}

func TestCountAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, tok Tokenizer) {
		text := []byte(strings.Repeat("The quick brown fox, naïvely 漢字 counted 12345 xyzzyxyzzy.\n \n<|endoftext|>", 20))
		ids := tok.Append(nil, text)
		if n := testing.AllocsPerRun(100, func() { tok.Count(text) }); n != 0 {
			t.Errorf("Count allocates %v times", n)
		}
		if n := testing.AllocsPerRun(100, func() { ids = tok.Append(ids[:0], text) }); n != 0 {
			t.Errorf("Append into a large enough slice allocates %v times", n)
		}
	})
}

// The work of merging one piece grows as n log n at most.
func TestMergeWork(t *testing.T) {
	v := opened["o200k_base"]().(*bpe).vocab
	for _, s := range []string{"a", "ab", " ", "=-", "漢", "xyzzy", "é\u0301"} {
		work := func(n int) int {
			var m merger
			m.merge(v, bytes.Repeat([]byte(s), n/len(s)))
			return m.work
		}
		small, large := work(1<<12), work(1<<16)
		// 16 times the bytes, and a heap that is 4 levels higher at most where it was 12.
		if limit := small * 16 * 16 / 12; large > limit {
			t.Errorf("merging %q: %d steps for 4 KiB, %d for 64 KiB, want at most %d", s, small, large, limit)
		}
	}
}

// The heap and the scan give the same ids.
func TestMergeWays(t *testing.T) {
	v := opened["o200k_base"]().(*bpe).vocab
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		piece := varied(rng, 40)
		var m merger
		want := slices.Clone(m.merge(v, piece))
		m.parts, m.ids = m.parts[:0], m.ids[:0]
		for i := range piece {
			m.parts = append(m.parts, part{start: int32(i), end: int32(i + 1), id: v.Find(piece, i, i+1), rank: vocab.None, prev: int32(i - 1), next: int32(i + 1)})
		}
		m.parts[len(piece)-1].next = -1
		for i := range len(piece) - 1 {
			m.parts[i].rank = m.rank(v, piece, i, i+1)
		}
		if len(piece) <= short {
			m.queue(v, piece)
		} else {
			m.scan(v, piece)
		}
		if !slices.Equal(m.ids, want) {
			t.Fatalf("%q: %v the one way, %v the other", piece, want, m.ids)
		}
	}
}

func TestConcurrent(t *testing.T) {
	tok := opened["o200k_base"]()
	rng := rand.New(rand.NewPCG(5, 6))
	texts := make([][]byte, 200)
	counts := make([]int, len(texts))
	for i := range texts {
		texts[i] = varied(rng, 200)
		counts[i] = tok.Count(texts[i])
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, text := range texts {
				if n := tok.Count(text); n != counts[i] {
					t.Errorf("%q: %d tokens, alone %d", text, n, counts[i])
				}
			}
		})
	}
	wg.Wait()
}

func FuzzTokenizer(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 40 {
		f.Add(varied(rng, 60))
	}
	f.Add([]byte("\n \n"))
	f.Add([]byte("a<|endoftext|>\xe2\x82"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range []string{"o200k_base", "cl100k_base"} {
			tok := opened[name]()
			ids := tok.Append(nil, text)
			if n := tok.Count(text); n != len(ids) {
				t.Fatalf("%s: Count %d, Append %d", name, n, len(ids))
			}
			want := text
			if !utf8.Valid(text) {
				want = scan.Repair(text)
			}
			got, err := tok.Decode(nil, ids)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %q comes back as %q (%v)", name, want, got, err)
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		open("builtin")
	}
}

func BenchmarkCount(b *testing.B) {
	tok := opened["o200k_base"]()
	for name, text := range map[string]string{
		"prose": "The quiet engineer measured a narrow valley near the old market, and several farmers carried bright lanterns. ",
		"code":  "func (m *merger) push(i int) {\n\tif m.parts[i].rank == none {\n\t\treturn\n\t}\n}\n",
		"han":   "中文字符测试,标点。今天天气很好,我们去公园散步。",
		"a":     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(text, 100))
			b.SetBytes(int64(len(text)))
			n := 0
			for b.Loop() {
				n = tok.Count(text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/token")
		})
	}
}

// Long runs come back from their ids.
func TestRunsComeBack(t *testing.T) {
	each(t, func(t *testing.T, tok Tokenizer) {
		for _, s := range []string{" \n", "\n ", "\u0301A", "AB\u02b0", "!/", "'s", " ", "\u0301", "a\u0301B", "A", "1", "!", "/\n"} {
			text := bytes.Repeat([]byte(s), 1<<14/len(s))
			got, err := tok.Decode(nil, tok.Append(nil, text))
			if err != nil || !bytes.Equal(got, text) {
				t.Errorf("16 KiB of %q do not come back (%v)", s, err)
			}
		}
	})
}
