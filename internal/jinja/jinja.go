// Package jinja renders the part of the Jinja2 language that config files use: expressions in {{ }}, {% if %}, {% raw %} and comments, with
// Python's arithmetic and Jinja2's precedence. An undefined name is an error, as with Jinja2's StrictUndefined. What else the language has is
// refused by name.
package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// Object is a mapping that a template may look into.
type Object interface {
	Get(key string) (value any, ok bool)
}

// Template is a parsed text.
type Template struct {
	body  []part
	names []string
}

// maxText bounds what a template may render to, and maxDepth how deep its expressions nest.
const (
	maxText  = 1 << 20
	maxDepth = 100
)

// Has reports whether s has an expression or a statement in it, or the beginning of one.
func Has(s string) bool { return strings.Contains(s, "{{") || strings.Contains(s, "{%") }

// Names are the names that the template reads, each once.
func (t *Template) Names() []string { return t.names }

// Render fills the template in. lookup gives the value of a name: nil, a bool, int64, float64, string, []any or an Object.
func (t *Template) Render(lookup func(name string) (any, bool)) (string, error) {
	var b strings.Builder
	if err := render(&b, t.body, lookup); err != nil {
		return "", err
	}
	return b.String(), nil
}

// part is a piece of a template: literal text, an expression, or a conditional block.
type part struct {
	text     string
	expr     expr
	branches []branch
}

// branch is one arm of a conditional block; a nil condition is that of else.
type branch struct {
	cond expr
	body []part
}

func render(b *strings.Builder, parts []part, lookup func(string) (any, bool)) error {
	for _, p := range parts {
		switch {
		case p.branches != nil:
			for _, br := range p.branches {
				if br.cond != nil {
					v, err := br.cond.eval(lookup)
					if err != nil {
						return err
					}
					yes, err := truth(v)
					if err != nil {
						return err
					}
					if !yes {
						continue
					}
				}
				if err := render(b, br.body, lookup); err != nil {
					return err
				}
				break
			}
		case p.expr != nil:
			v, err := p.expr.eval(lookup)
			if err != nil {
				return err
			}
			s, err := text(v)
			if err != nil {
				return err
			}
			b.WriteString(s)
		default:
			b.WriteString(p.text)
		}
		if b.Len() > maxText {
			return fmt.Errorf("it renders to more than %d bytes", maxText)
		}
	}
	return nil
}

// tag is a statement or expression between its markers.
type tag struct {
	open   string // {{ or {%
	inner  string
	before string // text up to it
}

// Parse reads a template.
func Parse(s string) (*Template, error) {
	t := &Template{}
	p := &splitter{rest: s, t: t}
	body, end, err := p.block(0)
	if err != nil {
		return nil, err
	}
	if end != "" {
		return nil, fmt.Errorf("{%% %s %%} without a beginning", end)
	}
	t.body = body
	return t, nil
}

// splitter cuts a text into parts.
type splitter struct {
	rest string
	trim bool // the tag before asked for the white space after it to go
	t    *Template
}

// next is the next tag, with the text before it; ok is false where there is none. Comments are left out.
func (p *splitter) next() (g tag, ok bool, err error) {
	for {
		at := -1
		for i := 0; i+1 < len(p.rest); i++ {
			if p.rest[i] == '{' && strings.IndexByte("{%#", p.rest[i+1]) >= 0 {
				at = i
				break
			}
		}
		if at < 0 {
			g.before += p.literal(p.rest)
			p.rest = ""
			return g, false, nil
		}
		open := p.rest[at : at+2]
		g.before += p.literal(p.rest[:at])
		inner := p.rest[at+2:]
		if strings.HasPrefix(inner, "-") {
			g.before, inner = strings.TrimRight(g.before, " \t\r\n"), inner[1:]
		} else {
			inner = strings.TrimPrefix(inner, "+")
		}
		closing := map[string]string{"{{": "}}", "{%": "%}", "{#": "#}"}[open]
		end := closed(inner, closing, open == "{#")
		if end < 0 {
			return g, false, fmt.Errorf("unbalanced '%s' with no closing '%s' in template", open, closing)
		}
		p.rest = inner[end+2:]
		inner = inner[:end]
		if cut, trims := strings.CutSuffix(inner, "-"); trims {
			inner, p.trim = cut, true
		} else if open != "{{" {
			inner = strings.TrimSuffix(inner, "+")
		}
		if open == "{#" {
			continue
		}
		g.open, g.inner = open, strings.TrimSpace(inner)
		return g, true, nil
	}
}

// literal is text without the white space that the tag before it takes away.
func (p *splitter) literal(s string) string {
	if p.trim && s != "" {
		s = strings.TrimLeft(s, " \t\r\n")
		p.trim = s == ""
	}
	return s
}

// closed finds the end of a tag, which is not inside quotes.
func closed(s, closing string, comment bool) int {
	var quote byte
	for i := 0; i+1 < len(s); i++ {
		switch c := s[i]; {
		case comment:
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
			continue
		case c == '\'' || c == '"':
			quote = c
			continue
		}
		if s[i:i+2] == closing {
			return i
		}
	}
	return -1
}

// block reads parts up to a statement that ends or continues a conditional block, which it returns, or to the end of the text.
func (p *splitter) block(depth int) (parts []part, end string, err error) {
	if depth > maxDepth {
		return nil, "", fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	for {
		g, ok, err := p.next()
		if err != nil {
			return nil, "", err
		}
		if g.before != "" {
			parts = append(parts, part{text: g.before})
		}
		if !ok {
			return parts, "", nil
		}
		if g.open == "{{" {
			e, err := p.expr(g.inner)
			if err != nil {
				return nil, "", err
			}
			parts = append(parts, part{expr: e})
			continue
		}
		word, rest := statement(g.inner)
		switch word {
		case "if":
			branches, err := p.conditional(rest, depth)
			if err != nil {
				return nil, "", err
			}
			parts = append(parts, part{branches: branches})
		case "elif", "else", "endif":
			return parts, g.inner, nil
		case "raw":
			text, err := p.raw()
			if err != nil {
				return nil, "", err
			}
			parts = append(parts, part{text: text})
		default:
			return nil, "", fmt.Errorf("the statement {%% %s %%} is not supported by prefire, which has if, elif, else, endif, raw and endraw", word)
		}
	}
}

// statement is the first word of a statement, and what follows it.
func statement(s string) (word, rest string) {
	n := 0
	for n < len(s) && letter(s[n]) {
		n++
	}
	return s[:n], strings.TrimSpace(s[n:])
}

// raw is the text up to {% endraw %}.
func (p *splitter) raw() (string, error) {
	for at := 0; ; {
		i := strings.Index(p.rest[at:], "{%")
		if i < 0 {
			return "", fmt.Errorf("{%% raw %%} without {%% endraw %%}")
		}
		i += at
		inner, after, ok := strings.Cut(p.rest[i+2:], "%}")
		if ok && strings.Trim(inner, " \t\r\n-+") == "endraw" {
			text := p.literal(p.rest[:i])
			if strings.HasPrefix(inner, "-") {
				text = strings.TrimRight(text, " \t\r\n")
			}
			p.rest, p.trim = after, strings.HasSuffix(inner, "-")
			return text, nil
		}
		at = i + 2
	}
}

// conditional reads a block from after its if.
func (p *splitter) conditional(cond string, depth int) ([]branch, error) {
	if cond == "" {
		return nil, fmt.Errorf("{%% if %%} without a condition")
	}
	var out []branch
	for {
		var br branch
		var err error
		if cond != "" {
			if br.cond, err = p.expr(cond); err != nil {
				return nil, err
			}
		}
		var end string
		if br.body, end, err = p.block(depth + 1); err != nil {
			return nil, err
		}
		out = append(out, br)
		word, rest := statement(end)
		switch {
		case end == "":
			return nil, fmt.Errorf("{%% if %%} without {%% endif %%}")
		case end == "endif":
			return out, nil
		case cond == "":
			return nil, fmt.Errorf("{%% %s %%} after {%% else %%}", word)
		case end == "else":
			cond = ""
		case word == "elif" && rest != "":
			cond = rest
		default:
			return nil, fmt.Errorf("{%% %s %%} cannot be read", end)
		}
	}
}

// expr reads an expression, and notes its names.
func (p *splitter) expr(s string) (expr, error) {
	e, names, err := parseExpr(s)
	for _, n := range names {
		if !slices.Contains(p.t.names, n) {
			p.t.names = append(p.t.names, n)
		}
	}
	return e, err
}
