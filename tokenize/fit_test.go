package tokenize

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
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
	want := "no text was found that makes the fixed words (1 tokens) a text of exactly 2 tokens; a target a few tokens away, or fixed words that " +
		"end with a space, will do"
	if _, err := f.Fit(nil, []byte("it"), []byte("'s"), 2, rng); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
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

// wordless is a tokenizer without whole words.
type wordless struct{ Tokenizer }

func (wordless) Count(text []byte) int { return len(text) }

func TestFitterNeedsWords(t *testing.T) {
	_, err := NewFitter(wordless{opened["o200k_base"]()}, 0)
	want := "tokenizer o200k_base has no word of one token for slot d of a sentence; readable text of an exact length cannot be made"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
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
				text, err := f.FitNumbered(nil, nil, nil, words, number, rng)
				if err != nil || tok.Count(text) != words {
					t.Fatalf("number %d in %d words: %q, %v", number, words, text, err)
				}
				if other, ok := seen[string(text)]; ok {
					t.Fatalf("numbers %d and %d both begin %q", other, number, text)
				}
				seen[string(text)] = number
			}
		}
		long, err := f.FitNumbered(nil, []byte("A:"), nil, 50, 12345, rng)
		short, err2 := f.FitNumbered(nil, []byte("A:"), nil, 4, 12345, rng)
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
	a, _ := f.FitNumbered(nil, nil, nil, 5, 7, rng)
	b, _ := other.FitNumbered(nil, nil, nil, 5, 7, rng)
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
