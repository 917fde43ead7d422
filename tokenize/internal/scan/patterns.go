package scan

import (
	"strings"
	"unicode/utf8"
)

// Matcher finds the end of the match that begins at text[at], or gives at where none begins there. text is valid UTF-8, at < len(text).
// Every [Splitter] is one that matches everywhere. The table of classes must be a [Full] one.
type Matcher func(k *Classes, text []byte, at int) int

// The regular expressions that the pre-tokenizers of known models are written with.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	blanks       = `\s*[\r\n]+|\s+(?!\S)|\s+`
	capitals     = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	smalls       = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	mixed        = `[^\r\n\p{L}\p{N}]?` + capitals + `*` + smalls + `+`
	shouted      = `[^\r\n\p{L}\p{N}]?` + capitals + `+` + smalls + `*`
	slashes      = ` ?[^\s\p{L}\p{N}]+[\r\n/]*|` + blanks
	lines        = ` ?[^\s\p{L}\p{N}]+[\r\n]*|` + blanks
)

// ForRegexp is the scanner of a regular expression as it stands in a tokenizer.json, or nil where the expression is none that is known. words
// says that it cuts text into words: it ends a match between a full stop behind a letter and a space before one, whatever stands around.
func ForRegexp(expression string) (m Matcher, words bool) {
	// Some files hold line breaks themselves where others hold their escapes.
	switch strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(expression) {
	case `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:
		return GPT2, true
	case contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` + lines: // Llama 3
		return func(k *Classes, text []byte, at int) int { return k.words(text, at, 3, letter) }, true
	case contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` + lines: // Qwen 2 and 3
		return func(k *Classes, text []byte, at int) int { return k.words(text, at, 1, letter) }, true
	case contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + blanks: // Qwen 3.5
		return func(k *Classes, text []byte, at int) int { return k.words(text, at, 1, letter|upper|lower) }, true
	case mixed + contractions + `?|` + shouted + contractions + `?|\p{N}{1,3}|` + slashes: // gpt-oss, Llama 4
		return O200k, true
	case mixed + `|` + shouted + `|\p{N}|` + slashes: // Mistral
		return func(k *Classes, text []byte, at int) int { return k.cased(text, at, 1, false) }, true
	case "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" + `|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` + blanks: // DeepSeek 3
		return deepSeek, true
	case "[一-龥\u3040-ゟ゠-ヿ]+": // DeepSeek 3
		return ideographs, false
	case `\p{N}{1,3}`:
		return func(k *Classes, text []byte, at int) int { return k.numbers(text, at, 3) }, false
	case `\p{N}`:
		return func(k *Classes, text []byte, at int) int { return k.numbers(text, at, 1) }, false
	case `[0-9][0-9][0-9]`: // Falcon
		return threeDigits, false
	case `\s+`:
		return func(k *Classes, text []byte, at int) int { return k.run(text, at, space) }, false
	}
	return nil, false
}

// GPT2 is the pattern of GPT-2 and of the pre-tokenizer ByteLevel:
//
//	's|'t|'re|'ve|'m|'ll|'d
//	 ?\p{L}+
//	 ?\p{N}+
//	 ?[^\s\p{L}\p{N}]+
//	\s+(?!\S)
//	\s+
func GPT2(k *Classes, text []byte, at int) int {
	if text[at] == '\'' && at+1 < len(text) {
		switch text[at+1] {
		case 's', 't', 'm', 'd':
			return at + 2
		}
		if at+2 < len(text) {
			switch string(text[at+1 : at+3]) {
			case "re", "ve", "ll":
				return at + 3
			}
		}
	}
	i := at
	if text[at] == ' ' {
		i++
	}
	c, n := k.at(text, i)
	switch {
	case n == 0 || c&space != 0:
	case c&letter != 0:
		return k.run(text, i, letter)
	case c&number != 0:
		return k.run(text, i, number)
	default:
		end, _ := k.symbols(text, at)
		return end
	}
	last := at
	for i = at; ; i += n {
		if c, n = k.at(text, i); c&space == 0 {
			break
		}
		last = i
	}
	if i == len(text) || last == at {
		return i
	}
	return last
}

// words is the pattern of Llama 3 and Qwen, with so many digits to a number and letters of the class want:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)
//	[^\r\n\p{L}\p{N}]?\p{L}+
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func (k *Classes) words(text []byte, at, digits int, want uint8) int {
	if end := contraction(text, at); end > at {
		return end
	}
	c, n := k.at(text, at)
	switch {
	case c&want != 0:
		return k.run(text, at, want)
	case c&number != 0:
		return k.numbers(text, at, digits)
	case c&newline == 0:
		if end := k.run(text, at+n, want); end > at+n {
			return end
		}
		i := at
		if text[at] == ' ' {
			i++
		}
		end := i
		for end < len(text) {
			if c, n = k.at(text, end); c&(space|number|want) != 0 {
				break
			}
			end += n
		}
		if end > i {
			return lineEnds(text, end)
		}
	}
	return k.blank(text, at, false)
}

func lineEnds(text []byte, i int) int {
	for i < len(text) && (text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// deepSeek is the last of DeepSeek 3's three patterns; it leaves out numbers and control characters:
//
//	[!-/:-@\[-`{-~][A-Za-z]+
//	[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//	 ?[\p{P}\p{S}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func deepSeek(k *Classes, text []byte, at int) int {
	c, n := k.at(text, at)
	p, _ := k.prop(text, at)
	if text[at] < utf8.RuneSelf && p&symbol != 0 {
		if end := asciiLetters(text, at+1); end > at+1 {
			return end
		}
	}
	const word = letter | upper | lower // letters and marks
	if c&word != 0 {
		return k.run(text, at, word)
	}
	if c&newline == 0 && p&symbol == 0 {
		if end := k.run(text, at+n, word); end > at+n {
			return end
		}
	}
	i := at
	if text[at] == ' ' {
		i++
	}
	end := i
	for {
		p, n := k.prop(text, end)
		if p&symbol == 0 {
			break
		}
		end += n
	}
	if end > i {
		return lineEnds(text, end)
	}
	if c&space == 0 {
		return at
	}
	return k.blank(text, at, false)
}

func asciiLetters(text []byte, i int) int {
	for i < len(text) && text[i]|0x20-'a' < 26 {
		i++
	}
	return i
}

// ideographs is DeepSeek 3's [一-龥\u3040-ゟ゠-ヿ]+.
func ideographs(_ *Classes, text []byte, at int) int {
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if (r < 0x4E00 || r > 0x9FA5) && (r < 0x3040 || r > 0x30FF) {
			break
		}
		at += n
	}
	return at
}

func threeDigits(_ *Classes, text []byte, at int) int {
	for i := at; i < at+3; i++ {
		if i >= len(text) || text[i]-'0' > 9 {
			return at
		}
	}
	return at + 3
}

// numbers is \p{N}{1,most}.
func (k *Classes) numbers(text []byte, at, most int) int {
	for range most {
		c, n := k.at(text, at)
		if c&number == 0 {
			break
		}
		at += n
	}
	return at
}

// Words is \w+|[^\w\s]+, the pattern of the pre-tokenizer Whitespace.
func Words(k *Classes, text []byte, at int) int {
	p, _ := k.prop(text, at)
	kind := p & word
	for at < len(text) {
		p, n := k.prop(text, at)
		if c, _ := k.at(text, at); p&word != kind || kind == 0 && c&space != 0 {
			break
		}
		at += n
	}
	return at
}

// OneSpace matches a character of white space.
func OneSpace(k *Classes, text []byte, at int) int {
	if c, n := k.at(text, at); c&space != 0 {
		return at + n
	}
	return at
}

// OneNumeral matches a character that the pre-tokenizer Digits takes for a digit.
func OneNumeral(k *Classes, text []byte, at int) int { return k.one(text, at, numeric) }

// OnePunctuation matches a character of punctuation.
func OnePunctuation(k *Classes, text []byte, at int) int { return k.one(text, at, punct) }

func (k *Classes) one(text []byte, at int, want uint8) int {
	if p, n := k.prop(text, at); p&want != 0 {
		return at + n
	}
	return at
}
