package tokenize

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

var fitters = map[string]func() *Fitter{
	"o200k_base":  sync.OnceValue(func() *Fitter { return fitter(opened["o200k_base"]()) }),
	"cl100k_base": sync.OnceValue(func() *Fitter { return fitter(opened["cl100k_base"]()) }),
}

func fitter(t Tokenizer) *Fitter {
	f, err := NewFitter(t, 42)
	if err != nil {
		panic(err)
	}
	return f
}

func TestFitExact(t *testing.T) {
	frames := []struct{ prefix, suffix string }{
		{"", ""}, {"Summarize the following text concisely: quantum computing", ""}, {"Text: ", "\nAnswer:"}, {"", " Answer briefly."}, {"Q:\n", "\n\nA:"},
		{"(", ")"}, {"abc", "def"}, {"a 12", "34"}, {"x \n ", " \n y"}, {"it", "'s"}, {"...", "..."}, {"<|endoftext|>", "<|endofprompt|>"},
		{"日本", "語"}, {"e", "\u0301"}, {"\u00a0", "\u00a0"}, {"x\xff", "\xe2\x82"}, {"Ä", "/\n/"},
	}
	// Whatever comes between these takes two tokens or more, for they are one token together.
	tight := map[string]bool{"it…'s": true, "\u00a0…\u00a0": true}
	each(t, func(t *testing.T, tok Tokenizer) {
		f := fitters[tok.Name()]()
		rng := rand.New(rand.NewPCG(1, 2))
		for _, frame := range frames {
			fixed := tok.Count([]byte(frame.prefix + frame.suffix))
			for _, n := range []int{fixed + 1, fixed + 2, fixed + 3, fixed + 4, fixed + 5, fixed + 6, fixed + 7, fixed + 8, 40, 128, 512, 1024, 4096} {
				got, err := f.Fit([]byte("kept"), []byte(frame.prefix), []byte(frame.suffix), n, rng)
				var unfit *UnfitError
				if errors.As(err, &unfit) && n == fixed+1 && tight[frame.prefix+"…"+frame.suffix] {
					continue
				}
				if err != nil {
					t.Errorf("%q…%q, %d tokens: %v", frame.prefix, frame.suffix, n, err)
					continue
				}
				text := strings.TrimPrefix(string(got), "kept")
				if c := tok.Count([]byte(text)); c != n || len(text)+4 != len(got) {
					t.Errorf("%q has %d tokens, want %d", text, c, n)
				}
				if !strings.HasPrefix(text, frame.prefix) || !strings.HasSuffix(text, frame.suffix) {
					t.Errorf("%q does not stand between %q and %q", text, frame.prefix, frame.suffix)
				}
			}
		}
		for _, n := range []int{1, 2, 3, 5, 6, 16, 100_000} {
			got, err := f.Fit(nil, nil, nil, n, rng)
			if err != nil || tok.Count(got) != n {
				t.Errorf("%d tokens: got %d, %v", n, tok.Count(got), err)
			}
		}
	})
}

// Every built-in tokenizer has words enough for texts of any length, which begin alike for no two numbers.
func TestEveryEncodingFits(t *testing.T) {
	for name, open := range opened {
		tok := open()
		f, err := NewFitter(tok, 3)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{1, 2, 16, 128, 512, 4096} {
			got, err := f.Fit(nil, nil, nil, n, rng)
			if err != nil || tok.Count(got) != n {
				t.Errorf("%s, %d tokens: got %d, %v", name, n, tok.Count(got), err)
			}
		}
	}
}

func TestFitProse(t *testing.T) {
	f := fitters["o200k_base"]()
	text, err := f.Fit(nil, nil, nil, 2000, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range strings.SplitAfter(string(text), ". ") {
		s = strings.TrimSpace(s)
		if !strings.HasSuffix(s, ".") || s[:1] != strings.ToUpper(s[:1]) || len(strings.Fields(s)) > 25 || strings.ContainsAny(s, "\n\t;") ||
			strings.Contains(s, " .") || strings.Contains(s, " ,") || strings.Contains(s, "  ") || strings.Contains(s, ",.") {
			t.Errorf("sentence %d is %q", i, s)
		}
	}
	if utf8.RuneCount(text) != len(text) {
		t.Error("the text is not plain ASCII")
	}
}

func TestFitErrors(t *testing.T) {
	f := fitters["o200k_base"]()
	rng := rand.New(rand.NewPCG(1, 2))
	dst, err := f.Fit([]byte("kept"), []byte("one two three four"), []byte(" five"), 4, rng)
	var short *TooShortError
	if !errors.As(err, &short) || *short != (TooShortError{Fixed: 5, Target: 4}) || string(dst) != "kept" {
		t.Errorf("got %q, %v", dst, err)
	}
	if want := "the fixed words alone are 5 tokens, and the whole text is to have 4"; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	// Fixed words of exactly the target need no text.
	if got, err := f.Fit(nil, []byte("one two"), nil, 2, rng); err != nil || string(got) != "one two" {
		t.Errorf("got %q, %v", got, err)
	}
	even, err := NewFitter(twice{opened["o200k_base"]()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := "no text was found that makes the fixed words (2 tokens) a text of exactly 7 tokens; a target a few tokens away, or fixed words that " +
		"end with a space, will do"
	if dst, err := even.Fit([]byte("kept"), []byte("it"), nil, 7, rng); err == nil || err.Error() != want || string(dst) != "kept" {
		t.Errorf("%q, %v, want %s", dst, err, want)
	}
	if _, err := f.Fit(nil, nil, nil, -1, rng); !errors.As(err, &short) {
		t.Errorf("a negative target gives %v", err)
	}
}

// pairs counts every two words as one token, so that no part adds what it has alone.
type pairs struct{ Tokenizer }

func (p pairs) Name() string { return "pairs" }
func (p pairs) Count(text []byte) int {
	n := p.Tokenizer.Count(text)
	return n - n/4
}

func TestFitEndsWithAnyTokenizer(t *testing.T) {
	f, err := NewFitter(pairs{opened["o200k_base"]()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	exact := 0
	for n := range 300 {
		text, err := f.Fit(nil, []byte("Read this: "), nil, n, rng)
		var short *TooShortError
		var unfit *UnfitError
		switch {
		case err == nil:
			exact++
			if c := f.tok.Count(text); c != n {
				t.Errorf("%d tokens, want %d", c, n)
			}
		case !errors.As(err, &short) && !errors.As(err, &unfit):
			t.Errorf("%d tokens: %v", n, err)
		}
	}
	if exact < 250 {
		t.Errorf("only %d of 300 targets were met", exact)
	}
}

// twice has two tokens for each, so that no text has an odd number.
type twice struct{ Tokenizer }

func (t twice) Count(text []byte) int { return 2 * t.Tokenizer.Count(text) }
func (t twice) Append(dst []int32, text []byte) []int32 {
	for _, id := range t.Tokenizer.Append(nil, text) {
		dst = append(dst, id, id)
	}
	return dst
}

// letters has a token for each byte.
type letters struct{ Tokenizer }

func (letters) Name() string          { return "letters" }
func (letters) Count(text []byte) int { return len(text) }
func (letters) Append(dst []int32, text []byte) []int32 {
	for _, c := range text {
		dst = append(dst, int32(c))
	}
	return dst
}

// triples cuts text, from its beginning on, every three bytes: no token begins where a word does.
type triples struct{ letters }

func (triples) Name() string          { return "triples" }
func (triples) Count(text []byte) int { return (len(text) + 2) / 3 }
func (triples) Append(dst []int32, text []byte) []int32 {
	for ; len(text) > 0; text = text[min(3, len(text)):] {
		dst = append(dst, int32(text[0])<<16|int32(text[min(1, len(text)-1)])<<8|int32(text[min(2, len(text)-1)]))
	}
	return dst
}

// unknowing knows words of up to five letters and takes any other for one and the same.
type unknowing struct{ letters }

func (unknowing) Name() string            { return "unknowing" }
func (u unknowing) Count(text []byte) int { return len(u.Append(nil, text)) }
func (unknowing) Append(dst []int32, text []byte) []int32 {
	for word := range bytes.FieldsSeq(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("."), []byte(" . ")), []byte(","), []byte(" , "))) {
		id := int32(1)
		if len(word) <= 5 {
			h := fnv.New32a()
			h.Write(bytes.ToLower(word))
			id = int32(h.Sum32() >> 2)
		}
		dst = append(dst, id)
	}
	return dst
}

// Every target is met, whatever the tokenizer makes of words; where a text has room for it, no two have the same first 16 tokens.
func TestFitAnyTokenizer(t *testing.T) {
	for _, tok := range []Tokenizer{letters{}, triples{}, unknowing{}, pairs{opened["o200k_base"]()}} {
		t.Run(tok.Name(), func(t *testing.T) {
			f, err := NewFitter(tok, 7)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for _, n := range []int{1, 2, 3, 5, 8, 16, 64, 128, 512, 1024, 4096, 100_000} {
				if testing.Short() && n > 4096 {
					continue
				}
				seen := map[string]bool{}
				count := min(60, 1+200_000/n)
				for number := range count {
					text, words, err := f.FitNumbered(nil, nil, nil, n, uint64(number), rng)
					if err != nil || tok.Count(text) != n || words < 0 || words > OpeningWords {
						t.Fatalf("%d tokens: got %d, %d words, %v", n, tok.Count(text), words, err)
					}
					ids := tok.Append(nil, text)
					seen[fmt.Sprint(ids[:min(16, n)])] = true
				}
				if n >= 16 && len(seen) != count {
					t.Errorf("%d texts of %d tokens begin in %d ways", count, n, len(seen))
				}
			}
		})
	}
}

// muted sees nothing in any text.
type muted struct{ letters }

func (muted) Name() string                            { return "muted" }
func (muted) Count([]byte) int                        { return 0 }
func (muted) Append(dst []int32, text []byte) []int32 { return dst }

func TestFitterNeedsWords(t *testing.T) {
	_, err := NewFitter(muted{}, 0)
	want := "tokenizer muted sees no token in any word for slot d of a sentence; readable text of an exact length cannot be made"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// hasty says that sentences add up, and is wrong.
type hasty struct{ pairs }

func (hasty) Breaks(_, _ []byte) bool { return true }

func TestFitFindsContradiction(t *testing.T) {
	f, err := NewFitter(hasty{pairs{opened["o200k_base"]()}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = f.FitNumbered(nil, nil, nil, 4001, 0, rand.New(rand.NewPCG(1, 2)))
	if err == nil || !strings.HasPrefix(err.Error(), "tokenizer pairs contradicts itself: a text of sentences with 4001 tokens in all is ") {
		t.Errorf("got %v", err)
	}
}

// What the patterns promise holds for the tokens themselves, with whatever stands around the place.
func TestBreaks(t *testing.T) {
	each(t, func(t *testing.T, tok Tokenizer) {
		b := tok.(Breaker)
		for _, c := range []struct {
			before, after string
			want          bool
		}{{"o.", " S", true}, {"x.", " a", true}, {"1.", " S", false}, {".", " S", false}, {"o.", "S", false}, {"o. ", "S", false},
			{"o.", " ", false}, {"o.", " 1", false}, {"é.", " S", false}} {
			if got := b.Breaks([]byte(c.before), []byte(c.after)); got != c.want {
				t.Errorf("Breaks(%q, %q) = %v", c.before, c.after, got)
			}
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for range 3000 {
			left, right := append(varied(rng, 20), "go."...), append([]byte(" So"), varied(rng, 20)...)
			if got, want := tok.Count(append(slices.Clone(left), right...)), tok.Count(left)+tok.Count(right); got != want {
				t.Fatalf("%q and %q have %d tokens together, %d apart", left, right, got, want)
			}
		}
	})
}

// Numbers give different openings, down to the fewest words that can tell them apart.
func TestFitNumbered(t *testing.T) {
	each(t, func(t *testing.T, tok Tokenizer) {
		f := fitters[tok.Name()]()
		rng := rand.New(rand.NewPCG(1, 2))
		for words := 1; words <= OpeningWords; words++ {
			seen := map[string]uint64{}
			last := f.Distinct(words)
			for i := range min(last, 4000) {
				number := i
				if i%2 == 1 { // the far end too
					number = last - 1 - i/2
				} else {
					number = i / 2
				}
				text, _, err := f.FitNumbered(nil, nil, nil, words, number, rng)
				if err != nil || tok.Count(text) != words {
					t.Fatalf("number %d in %d words: %q, %v", number, words, text, err)
				}
				if other, ok := seen[string(text)]; ok {
					t.Fatalf("numbers %d and %d both begin %q", other, number, text)
				}
				seen[string(text)] = number
			}
		}
		long, _, err := f.FitNumbered(nil, []byte("A:"), nil, 50, 12345, rng)
		short, _, err2 := f.FitNumbered(nil, []byte("A:"), nil, 4, 12345, rng)
		if err != nil || err2 != nil || !bytes.HasPrefix(long, short) {
			t.Errorf("%q does not begin with %q (%v, %v)", long, short, err, err2)
		}
		if f.Distinct(0) != 1 || f.Distinct(3) < 1_000_000 || f.Distinct(OpeningWords) < 1<<40 || f.Distinct(9) != f.Distinct(OpeningWords) {
			t.Errorf("%d, %d and %d numbers in 0, 3 and %d words", f.Distinct(0), f.Distinct(3), f.Distinct(OpeningWords), OpeningWords)
		}
	})
}

func TestFitFollowsTheSeed(t *testing.T) {
	f := fitters["o200k_base"]()
	text := func(seed uint64) string {
		made, err := f.Fit(nil, nil, nil, 64, rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		return string(made)
	}
	first := text(1)
	if again := text(1); again != first {
		t.Errorf("the same seed gives %q and %q", first, again)
	}
	if text(2) == first {
		t.Error("two seeds give the same text")
	}
	other, err := NewFitter(opened["o200k_base"](), 43)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	a, _, _ := f.FitNumbered(nil, nil, nil, 5, 7, rng)
	b, _, _ := other.FitNumbered(nil, nil, nil, 5, 7, rng)
	if bytes.Equal(a, b) {
		t.Errorf("two keys spell 7 as %q", a)
	}
}

func TestFitAllocatesNothing(t *testing.T) {
	f := fitters["o200k_base"]()
	rng := rand.New(rand.NewPCG(1, 2))
	prefix, suffix := []byte("Summarize: quantum computing"), []byte("\nAnswer:")
	dst := make([]byte, 0, 16<<10)
	if n := testing.AllocsPerRun(50, func() { dst, _ = f.Fit(dst[:0], prefix, suffix, 1024, rng) }); n != 0 {
		t.Errorf("Fit into a large enough slice allocates %v times", n)
	}
}

func FuzzFit(f *testing.F) {
	f.Add([]byte("Summarize: "), []byte("\nAnswer"), 20, uint64(1))
	f.Add([]byte("abc"), []byte("def"), 3, uint64(2))
	f.Fuzz(func(t *testing.T, prefix, suffix []byte, n int, seed uint64) {
		if n > 300 || len(prefix)+len(suffix) > 500 {
			return
		}
		fit := fitters["o200k_base"]()
		text, err := fit.Fit(nil, prefix, suffix, n, rand.New(rand.NewPCG(seed, 0)))
		fixed := fit.tok.Count(fmt.Appendf(nil, "%s%s", prefix, suffix))
		var short *TooShortError
		var unfit *UnfitError
		switch {
		case err == nil:
			if c := fit.tok.Count(text); c != n {
				t.Fatalf("%q has %d tokens, want %d", text, c, n)
			}
			if !bytes.HasPrefix(text, prefix) || !bytes.HasSuffix(text, suffix) || len(text) < len(prefix)+len(suffix) {
				t.Fatalf("%q does not stand between %q and %q", text, prefix, suffix)
			}
		case errors.As(err, &short):
			if short.Fixed != fixed || short.Target != n || fixed <= n {
				t.Fatalf("%v, but they are %d and %d", err, fixed, n)
			}
		case errors.As(err, &unfit):
			if n > fixed+20 {
				t.Fatalf("%v", err)
			}
		default:
			t.Fatal(err)
		}
	})
}

func BenchmarkFit(b *testing.B) {
	f := fitters["o200k_base"]()
	prefix := []byte("Summarize the following text concisely: quantum computing")
	for _, n := range []int{512, 8192} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			var dst []byte
			for b.Loop() {
				var err error
				if dst, err = f.Fit(dst[:0], prefix, nil, n, rng); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/token")
		})
	}
}
