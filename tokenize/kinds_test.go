package tokenize

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var longest = flag.Int("fit.longest", 4096, "longest target of TestFitEveryKind; 100000 is the size that is promised")

// kinds are the tokenizers that the reader is tested with.
func kinds(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("internal/hf/testdata/*.json")
	paths = slices.DeleteFunc(paths, func(path string) bool { return filepath.Base(path) == "golden.json" })
	if err != nil || len(paths) < 15 {
		t.Fatalf("%d tokenizers, %v", len(paths), err)
	}
	return paths
}

// Every target is met by every kind of tokenizer, in every corpus, and texts differ in their first 16 tokens.
func TestFitEveryKind(t *testing.T) {
	paths := kinds(t)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			tok, err := Local{Read: os.ReadFile}.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, corpus := range []Corpus{Prose, Code, Random} {
				f, err := NewCorpusFitter(tok, corpus, 7)
				if err != nil {
					if corpus == Random {
						t.Logf("random: %v", err)
						continue
					}
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(1, 2))
				for _, n := range []int{1, 2, 16, 128, 512, 1024, 4096, 100_000} {
					if n > *longest {
						continue
					}
					seen := map[string]bool{}
					count := min(8, 1+4_000/n)
					for number := range count {
						text, _, err := f.FitNumbered(nil, nil, nil, n, uint64(number), rng)
						if err != nil || tok.Count(text) != n {
							t.Errorf("corpus %d, %d tokens: got %d, %v", corpus, n, tok.Count(text), err)
							break
						}
						seen[fmt.Sprint(tok.Append(nil, text)[:min(16, n)])] = true
					}
					if n >= 16 && len(seen) != count {
						t.Errorf("corpus %d: %d texts of %d tokens begin in %d ways", corpus, count, n, len(seen))
					}
				}
			}
		})
	}
}

// Python's own library counts the same of the texts that were made.
func TestFitAgainstPython(t *testing.T) {
	python := os.Getenv("PREFIRE_TOKENIZERS_PYTHON")
	if python == "" {
		home, _ := os.UserHomeDir()
		python = filepath.Join(home, ".cache", "peers", "aiperf", "bin", "python")
	}
	if _, err := os.Stat(python); err != nil {
		t.Skipf("SKIP: no Python with tokenizers at %s (PREFIRE_TOKENIZERS_PYTHON names another): lengths are held against our own count alone", python)
	}
	paths := kinds(t)
	type line struct {
		Path, Text string
		Want       int
	}
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	for _, path := range paths {
		tok, err := Local{Read: os.ReadFile}.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := NewFitter(tok, 7)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(5, 6))
		for _, n := range []int{1, 2, 16, 128, 512, 4096} {
			for number := range uint64(min(4, 1+512/n)) {
				text, _, err := f.FitNumbered(nil, nil, nil, n, number, rng)
				if err != nil {
					t.Fatal(err)
				}
				if err := enc.Encode(line{path, string(text), n}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	const script = `
import json, sys
from tokenizers import Tokenizer
made = {}
for raw in sys.stdin:
    row = json.loads(raw)
    tok = made.setdefault(row["Path"], None) or Tokenizer.from_file(row["Path"])
    made[row["Path"]] = tok
    n = len(tok.encode(row["Text"], add_special_tokens=False).ids)
    if n != row["Want"]:
        print(row["Path"], row["Want"], n, repr(row["Text"])[:80])
print("done")
`
	cmd := exec.CommandContext(t.Context(), python, "-c", script)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != "done\n" {
		t.Errorf("Python counts otherwise (file, wanted, found, text):\n%s", out)
	}
}
