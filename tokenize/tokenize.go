// Package tokenize turns text into the tokens a model sees. Tokenizers are opened by name with no network; counting allocates nothing, and no
// input takes quadratic time. [Fitter] makes texts of an exact number of tokens.
package tokenize

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tiktoken-go/tokenizer/codec"

	"prefire/tokenize/internal/scan"
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

// Framer is a [Tokenizer] that, asked to, puts tokens of its own around a text, such as BOS and EOS.
type Framer interface {
	Tokenizer
	// Around is how many they are. Count and Append leave them out.
	Around() int
}

// Open makes a built-in tokenizer, one of [Names]: "builtin" is o200k_base. Each call builds an index of its own of about 12 MiB, so a program
// opens one and shares it. Tokenizers of models are opened by [Local].
func Open(name string) (Tokenizer, error) { return Local{}.Open(name) }

const endOfText = "<|endoftext|>"

// openBuiltin is nil without an error where the name is none of a built-in tokenizer.
func openBuiltin(name string) (Tokenizer, error) {
	switch name {
	case "builtin", "o200k_base":
		return newBPE("o200k_base", codec.NewO200kBase(), scan.O200k, []special{{endOfText, 199999}, {"<|endofprompt|>", 200018}})
	case "o200k_harmony":
		return newBPE(name, codec.NewO200kBase(), scan.O200k, harmony())
	case "cl100k_base":
		return newBPE(name, codec.NewCl100kBase(), scan.CL100k, append(fillIns(100258), special{endOfText, 100257}, special{"<|endofprompt|>", 100276}))
	case "p50k_base":
		return newBPE(name, codec.NewP50kBase(), scan.GPT2, []special{{endOfText, 50256}})
	case "p50k_edit":
		return newBPE(name, codec.NewP50kEdit(), scan.GPT2, append(fillIns(50281), special{endOfText, 50256}))
	case "r50k_base":
		return newBPE(name, codec.NewR50kBase(), scan.GPT2, []special{{endOfText, 50256}})
	}
	return nil, nil
}

// fillIns are the special tokens of a text with a gap.
func fillIns(first int32) []special {
	return []special{{"<|fim_prefix|>", first}, {"<|fim_middle|>", first + 1}, {"<|fim_suffix|>", first + 2}}
}

// harmony are the special tokens of gpt-oss; those without a name of their own are reserved.
func harmony() (out []special) {
	names := map[int32]string{
		199998: "startoftext", 199999: "endoftext", 200002: "return", 200003: "constrain", 200005: "channel", 200006: "start", 200007: "end",
		200008: "message", 200012: "call",
	}
	for id := int32(199998); id < 201088; id++ {
		name := names[id]
		if name == "" {
			name = "reserved_" + strconv.Itoa(int(id))
		}
		out = append(out, special{"<|" + name + "|>", id})
	}
	return append(out, special{"<|endofprompt|>", 200018}) // beside its reserved name
}

// Names lists the built-in tokenizers.
func Names() []string {
	return []string{"builtin", "o200k_base", "o200k_harmony", "cl100k_base", "p50k_base", "p50k_edit", "r50k_base"}
}

// UnknownError is the name of a tokenizer that is not on this machine.
type UnknownError struct {
	Name   string
	Looked []string // places
	Model  bool     // Name is shaped as a model of the hub
}

func (e *UnknownError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tokenizer %q is not on this machine, and nothing is downloaded. It is none of the built-in ones (%s)", e.Name,
		strings.Join(Names(), ", "))
	if len(e.Looked) > 0 {
		fmt.Fprintf(&b, ", and not in %s", strings.Join(e.Looked, ", nor in "))
	}
	b.WriteString(". Choose: --tokenizer builtin (prompt lengths are then o200k_base tokens, and the server counts its own); --tokenizer PATH of a " +
		"tokenizer.json or of a folder with one")
	if e.Model {
		fmt.Fprintf(&b, "; or put the model's tokenizer into the hub cache once: hf download %s tokenizer.json tokenizer_config.json", e.Name)
	}
	return b.String()
}
