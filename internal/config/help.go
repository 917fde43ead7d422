package config

import (
	"fmt"
	"slices"
	"strings"
)

// helpWidth is the width of the help: that of a terminal nobody has made wider.
const helpWidth = 80

// Help is the help text of the profile command; name is how the program is called.
func Help(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `Usage: %[1]s profile [OPTIONS]

Send requests to an OpenAI-API endpoint, measure latency and throughput, and
write aiperf's result files.

Examples:
  %[1]s profile --model Qwen/Qwen3-0.6B --url localhost:8000 --streaming \
      --tokenizer builtin --concurrency 10 --request-count 100
  %[1]s profile --model m --url localhost:8000 --streaming --isl 1024 \
      --osl 128 --tokenizer builtin --concurrency 10 --benchmark-duration 5m
  %[1]s profile --config run.yaml --api-key "$API_KEY" --artifact-dir results

A flag's value comes behind it or after =; _ and - in names are the same, as are
upper and lower case in a choice. A switch takes =true or =false.
`, name)
	table := Flags()
	for _, group := range groupOrder() {
		var rows []*Flag
		for i := range table {
			if table[i].Group == group && table[i].Status == Supported {
				rows = append(rows, &table[i])
			}
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", group)
		for _, f := range rows {
			indent(&b, f.usage(), 2)
			indent(&b, f.help(), 6)
		}
	}
	var idle []string
	refused := 0
	for i := range table {
		switch table[i].Status {
		case Notice:
			idle = append(idle, table[i].Name())
		case Refused:
			refused++
		}
	}
	fmt.Fprint(&b, "\nAccepted for aiperf's sake, without effect:\n")
	indent(&b, strings.Join(idle, " "), 2)
	fmt.Fprintf(&b, "\n%d more flags of aiperf are refused by this version, each with its reason:\n  %s profile %s\n", refused, name, RefusedFlag)
	return b.String()
}

// RefusedFlag asks the profile command for HelpRefused.
const RefusedFlag = "--help-refused"

// HelpRefused lists the flags of aiperf that are refused, by reason.
func HelpRefused() string {
	var b strings.Builder
	var reasons []string
	names := map[string][]string{}
	for _, f := range Flags() {
		if f.Status != Refused {
			continue
		}
		if names[f.Reason] == nil {
			reasons = append(reasons, f.Reason)
		}
		names[f.Reason] = append(names[f.Reason], strings.Join(slices.Concat(f.Names, f.Negative), ", "))
	}
	for i, reason := range reasons {
		if i > 0 {
			b.WriteByte('\n')
		}
		indent(&b, strings.ToUpper(reason[:1])+reason[1:]+":", 0)
		for _, n := range names[reason] {
			indent(&b, n, 2)
		}
	}
	return b.String()
}

// indent writes text in lines that leave out by columns on their left.
func indent(b *strings.Builder, text string, by int) {
	for _, line := range Wrap(text, helpWidth-by) {
		b.WriteString(strings.Repeat(" ", by) + line + "\n")
	}
}

// longChoices is the length from which choices stand in the text of a flag and not behind its names.
const longChoices = 50

// usable are the choices that this version supports.
func (f *Flag) usable() []string {
	if f.Usable != nil {
		return f.Usable
	}
	return f.Choices
}

// usage is the flag's names and what it takes.
func (f *Flag) usage() string {
	names := strings.Join(slices.Concat(f.Names, f.Negative), ", ")
	value := map[Kind]string{
		Text: " TEXT", Int: " N", Number: " NUMBER", Duration: " SECONDS", Pairs: " KEY:VALUE", Headers: " NAME:VALUE",
	}[f.Kind]
	if f.Kind == Enum {
		choices := f.usable()
		value = " " + strings.Join(choices, "|")
		if len(value) > longChoices {
			value = " CHOICE"
		}
	}
	if f.Sweep { // more than one value makes a sweep
		value += ",..."
	}
	if f.Several {
		value += " ..."
	}
	return names + value
}

func (f *Flag) help() string {
	text := f.Help
	if list := f.usable(); len(strings.Join(list, "|")) >= longChoices {
		text += " [choices: " + strings.Join(list, ", ") + "]"
	}
	if f.Default != "" {
		text += " [default: " + f.Default + "]"
	}
	return text
}

// Wrap breaks text into lines of at most width bytes, at its spaces.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// Complete lists what may come next on a command line of the profile command, each with a description after a tab: flags where the word
// begins with -, the choices of the flag before it otherwise, or of the one that the word begins with, as in --ui=s. files says that a file
// name belongs there.
func Complete(args []string, word string) (candidates []string, files bool) {
	table := Flags()
	if flag, value, tied := strings.Cut(word, "="); tied && strings.HasPrefix(word, "-") {
		values, files := completeValue(table, flag, value)
		for i := range values {
			values[i] = flag + "=" + values[i]
		}
		return values, files
	}
	if strings.HasPrefix(word, "-") {
		for i := range table {
			f := &table[i]
			if f.Status != Supported {
				continue
			}
			text, _, _ := strings.Cut(f.Help, ". ")
			for _, n := range slices.Concat(f.Names, f.Negative) {
				if strings.HasPrefix(n, word) {
					candidates = append(candidates, n+"\t"+strings.TrimSuffix(text, "."))
				}
			}
		}
		return candidates, false
	}
	if len(args) == 0 {
		return nil, false
	}
	return completeValue(table, args[len(args)-1], word)
}

// completeValue lists the values of a flag that begin with word.
func completeValue(table []Flag, flag, word string) (candidates []string, files bool) {
	flag = strings.ReplaceAll(flag, "_", "-")
	for i := range table {
		f := &table[i]
		if f.Status == Refused || !slices.Contains(f.Names, flag) {
			continue
		}
		choices := f.usable()
		if f.Kind == Bool {
			choices = []string{"true", "false"}
		}
		for _, c := range choices {
			if strings.HasPrefix(fold(c), fold(word)) {
				candidates = append(candidates, c)
			}
		}
		return candidates, f.file()
	}
	return nil, false
}

// file reports whether a flag's value is the path of a file or a folder.
func (f *Flag) file() bool {
	for _, word := range []string{"_file", "_directory", "_cert", "_key", "_series", "_socket"} {
		if f.Kind == Text && strings.HasSuffix(f.Field, word) && f.Field != "api_key" {
			return true
		}
	}
	return f.Field == "tokenizer_name" // a tokenizer.json or its folder, among others
}
