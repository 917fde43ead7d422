package hf

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const (
	goldenFile = "golden.json"
	blockSize  = 100 // texts of a hash
)

// golden is what Python's tokenizers gave for one tokenizer of testdata: the ids of the first texts of the corpus, and a hash of
// those of each block of texts.
type golden struct {
	First  [][]int32
	Blocks []string
}

func blockHash(ids [][]int32) string {
	h := sha256.New()
	for _, list := range ids {
		fmt.Fprintln(h, list)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}

func makeGolden(ids [][]int32) (g golden) {
	g.First = ids[:4]
	for part := range slices.Chunk(ids, blockSize) {
		g.Blocks = append(g.Blocks, blockHash(part))
	}
	return g
}

// Ids are those that Python's tokenizers gave when the golden file was written.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", goldenFile))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]golden
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	texts := corpus()
	texts = texts[:min(len(texts), goldenTexts)]
	for _, file := range trained(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			tok := load(t, file)
			want, ok := all[filepath.Base(file)]
			if !ok {
				t.Fatal("it has no golden ids")
			}
			ids := make([][]int32, len(texts))
			for i, text := range texts {
				ids[i] = tok.Append(nil, text)
			}
			got := makeGolden(ids)
			for i := range want.First {
				if !slices.Equal(got.First[i], want.First[i]) {
					t.Errorf("%q: %v, want %v", texts[i], got.First[i], want.First[i])
				}
			}
			for i := range got.Blocks {
				if i >= len(want.Blocks) || got.Blocks[i] != want.Blocks[i] {
					t.Errorf("texts %d to %d have other ids than Python's", i*blockSize, min(len(texts), (i+1)*blockSize)-1)
				}
			}
		})
	}
}
