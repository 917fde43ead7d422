package config

import (
	"fmt"
	"slices"
	"strings"
)

// helpWidth is the width of the help's text.
const helpWidth = 100

// Help is the help text of the profile command; name is how the program is called.
func Help(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `Usage: %[1]s profile [OPTIONS]

Send requests to an OpenAI-API endpoint, measure latency and throughput, and write aiperf's result files.

Examples:
  %[1]s profile --model Qwen/Qwen3-0.6B --url localhost:8000 --streaming --tokenizer builtin --concurrency 10 --request-count 100
  %[1]s profile --model m --url localhost:8000 --streaming --tokenizer builtin --concurrency 10 --benchmark-duration 5m --isl 1024 --osl 128
  %[1]s profile --config run.yaml --api-key "$API_KEY" --concurrency 10 --ui none --artifact-dir results
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
			fmt.Fprintf(&b, "  %s\n", f.usage())
			for _, line := range Wrap(f.help(), helpWidth) {
				fmt.Fprintf(&b, "      %s\n", line)
			}
		}
	}
	list := func(title string, status Status) {
		var names []string
		for i := range table {
			if table[i].Status == status {
				names = append(names, table[i].Name())
			}
		}
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, line := range Wrap(strings.Join(names, " "), helpWidth) {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	list("Accepted for aiperf's sake, without effect", Notice)
	list("Flags of aiperf that this version refuses, each with its reason", Refused)
	return b.String()
}

// usage is the flag's names and what it takes.
func (f *Flag) usage() string {
	names := strings.Join(slices.Concat(f.Names, f.Negative), ", ")
	value := map[Kind]string{
		Text: " TEXT", Int: " N", Number: " NUMBER", Duration: " SECONDS", Pairs: " KEY:VALUE", Headers: " NAME:VALUE",
	}[f.Kind]
	if f.Kind == Enum {
		choices := f.Choices
		if f.Usable != nil {
			choices = f.Usable
		}
		value = " " + strings.Join(choices, "|")
	}
	if f.Several {
		value += " ..."
	}
	return names + value
}

func (f *Flag) help() string {
	text := f.Help
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
// begins with -, the choices of the flag before it otherwise. files says that a file name belongs there.
func Complete(args []string, word string) (candidates []string, files bool) {
	table := Flags()
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
	before := strings.ReplaceAll(args[len(args)-1], "_", "-")
	for i := range table {
		f := &table[i]
		if !slices.Contains(f.Names, before) {
			continue
		}
		choices := f.Choices
		if f.Usable != nil {
			choices = f.Usable
		}
		for _, c := range choices {
			if strings.HasPrefix(c, word) {
				candidates = append(candidates, c)
			}
		}
		return candidates, f.Field == "config_file" || f.Field == "artifact_directory"
	}
	return nil, false
}
