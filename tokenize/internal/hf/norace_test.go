//go:build !race

package hf

// goldenTexts is how much of the corpus is held against the golden file: all of it.
const goldenTexts = 1 << 30
