package dataset

import (
	"fmt"
	"slices"
	"strings"

	"prefire/tokenize"
)

// template is a parsed prompt template: words[0] value words[1] value … words[len(vars)].
type template struct {
	text      string
	words     []string
	vars      []int // indices into variables, one for each place
	variables []Variable
}

// parseTemplate reads {{name}}, with spaces inside the braces allowed. Every variable of the text must have values, and every one that has
// values must be in the text.
func parseTemplate(text string, variables []Variable) (*template, error) {
	t := &template{text: text, variables: variables}
	for i, v := range variables {
		if len(v.Values) == 0 {
			return nil, fmt.Errorf("the template variable %q has no values; give it at least one", v.Name)
		}
		if slices.ContainsFunc(variables[:i], func(o Variable) bool { return o.Name == v.Name }) {
			return nil, fmt.Errorf("the template variable %q is defined twice", v.Name)
		}
	}
	var unknown []string
	rest := text
	for {
		before, after, found := strings.Cut(rest, "{{")
		if !found {
			break
		}
		name, after, found := strings.Cut(after, "}}")
		if !found {
			return nil, fmt.Errorf("the prompt template %q has {{ without }} at byte %d", text, len(text)-len(rest)+len(before))
		}
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(variables, func(v Variable) bool { return v.Name == name })
		if at < 0 && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
		t.words = append(t.words, before)
		t.vars = append(t.vars, at)
		rest = after
	}
	t.words = append(t.words, rest)
	var unused []string
	for i, v := range variables {
		if !slices.Contains(t.vars, i) {
			unused = append(unused, v.Name)
		}
	}
	if len(unknown) > 0 || len(unused) > 0 {
		return nil, &VariableError{Template: text, Unknown: unknown, Unused: unused, Defined: names(variables)}
	}
	return t, nil
}

func names(variables []Variable) []string {
	var out []string
	for _, v := range variables {
		out = append(out, v.Name)
	}
	return out
}

// VariableError is a template that does not go with its variables.
type VariableError struct {
	Template string
	Unknown  []string // in the template, without values
	Unused   []string // with values, not in the template
	Defined  []string
}

func (e *VariableError) Error() string {
	var parts []string
	for _, name := range e.Unknown {
		parts = append(parts, fmt.Sprintf("it uses {{%s}}, which has no values", name))
	}
	for _, name := range e.Unused {
		parts = append(parts, fmt.Sprintf("the variable %q is not in it", name))
	}
	defined := "none"
	if len(e.Defined) > 0 {
		defined = strings.Join(e.Defined, ", ")
	}
	return fmt.Sprintf("the prompt template %q does not go with its variables: %s (variables with values: %s)", e.Template,
		strings.Join(parts, "; "), defined)
}

// fill gives the words before and after the generated text, the former appended to buf; choice holds a value's index for each variable.
// window is where in prefix the template's fixed words end: at the last variable's value, or at the end of the words.
func (t *template) fill(choice []int, buf []byte) (prefix, suffix []byte, window int) {
	prefix = append(buf, t.words[0]...)
	window = len(prefix)
	for i, v := range t.vars {
		if i > 0 {
			prefix = append(prefix, t.words[i]...)
		}
		window = len(prefix)
		prefix = append(prefix, t.variables[v].Values[choice[v]]...)
	}
	if len(t.vars) > 0 {
		suffix = []byte(t.words[len(t.words)-1])
	}
	return prefix, suffix, window
}

// maxCombinations bounds how many combinations of values are tried before the load.
const maxCombinations = 1000

// combination is a value's index for each variable, and the tokens of all fixed words with these values.
type combination struct {
	choice []int
	fixed  int
}

// combinations lists what to try: all combinations, the longest first so that an error names the highest count; where there are over
// maxCombinations, the one of the longest values alone.
func (t *template) combinations(tok tokenize.Tokenizer) []combination {
	choices := [][]int{make([]int, len(t.variables))}
	for i, v := range t.variables {
		if len(choices)*len(v.Values) > maxCombinations {
			choices = [][]int{t.longest(tok)}
			break
		}
		var next [][]int
		for _, choice := range choices {
			for k := range v.Values {
				choice[i] = k
				next = append(next, slices.Clone(choice))
			}
		}
		choices = next
	}
	var all []combination
	for _, choice := range choices {
		prefix, suffix, _ := t.fill(choice, nil)
		all = append(all, combination{choice, tok.Count(append(prefix, suffix...))})
	}
	slices.SortStableFunc(all, func(a, b combination) int { return b.fixed - a.fixed })
	return all
}

func (t *template) longest(tok tokenize.Tokenizer) []int {
	choice := make([]int, len(t.variables))
	for i, v := range t.variables {
		most := 0
		for k, value := range v.Values {
			if n := tok.Count([]byte(value)); n > most {
				most, choice[i] = n, k
			}
		}
	}
	return choice
}

// describe names the chosen values for an error.
func (t *template) describe(choice []int) string {
	var b strings.Builder
	for i, v := range t.variables {
		link := ", "
		if i == 0 {
			link = " with "
		}
		fmt.Fprintf(&b, "%s%s = %q", link, v.Name, v.Values[choice[i]])
	}
	return b.String()
}
