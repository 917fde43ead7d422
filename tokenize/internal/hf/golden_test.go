package hf

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

const (
	goldenFile = "golden.json"
	blockSize  = 100 // texts of a hash
)

// golden is what Python's tokenizers gave for one tokenizer of testdata: the ids of the first texts of the corpus that have any, and a hash of
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
