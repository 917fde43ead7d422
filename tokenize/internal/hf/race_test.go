//go:build race

package hf

// goldenTexts is how much of the corpus is held against the golden file: the race detector makes all of it take minutes.
const goldenTexts = 10 * blockSize
