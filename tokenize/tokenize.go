// Package tokenize turns text into the tokens a model sees. Tokenizers are opened by name with no network; counting allocates nothing, and no
// input takes quadratic time. [Fitter] makes texts of an exact number of tokens.
package tokenize

import (
	"fmt"
	"strings"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Tokenizer turns text into token ids and back. All methods are safe for concurrent use.
//
// Text is read as Python reads it after bytes.decode(errors="replace"): every maximal ill-formed part of UTF-8 counts as one U+FFFD. Special
// tokens written in the text are single tokens, as with tiktoken's allowed_special="all".
type Tokenizer interface {
	// Name is the name of the encoding.
	Name() string
	// Count is the number of tokens of text, without any that a chat template adds.
	Count(text []byte) int
	// Append appends the ids of text's tokens to dst.
	Append(dst []int32, text []byte) []int32
	// Decode appends the bytes of ids to dst. An id that the vocabulary does not have is an error; what was decoded before it is in the result.
	Decode(dst []byte, ids []int32) ([]byte, error)
	// VocabSize is the highest id plus one, special tokens counted.
	VocabSize() int
}

// Open makes a tokenizer: "builtin" and "o200k_base" are OpenAI's o200k_base, "cl100k_base" is its forerunner. Each call builds an index
// of its own of about 12 MiB, so a program opens one and shares it.
func Open(name string) (Tokenizer, error) {
	switch name {
	case "builtin", "o200k_base":
		return newBPE("o200k_base", codec.NewO200kBase(), splitO200k, []special{
			{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018},
		})
	case "cl100k_base":
		return newBPE("cl100k_base", codec.NewCl100kBase(), splitCL100k, []special{
			{"<|endoftext|>", 100257}, {"<|fim_prefix|>", 100258}, {"<|fim_middle|>", 100259}, {"<|fim_suffix|>", 100260},
			{"<|endofprompt|>", 100276},
		})
	}
	return nil, &UnknownError{Name: name}
}

// Names lists what [Open] takes.
func Names() []string { return []string{"builtin", "o200k_base", "cl100k_base"} }

// UnknownError is the name of a tokenizer that cannot be opened.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("tokenizer %q is not available; allowed: %s. A model's own tokenizer.json cannot be read by this version, and nothing is "+
		"downloaded: use --tokenizer builtin (prompt lengths are then o200k_base tokens, and the server counts its own)",
		e.Name, strings.Join(Names(), ", "))
}
