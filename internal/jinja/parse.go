package jinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// token is a word of an expression.
type token struct {
	kind byte // n name, i integer, f float, s string, o operator, 0 end
	text string
}

// tokens cuts an expression into words.
func tokens(s string) ([]token, error) {
	var out []token
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case letter(c):
			j := i
			for j < len(s) && (letter(s[j]) || digit(s[j])) {
				j++
			}
			out = append(out, token{'n', s[i:j]})
			i = j
		case digit(c):
			t, n := number(s[i:])
			out = append(out, t)
			i += n
		case c == '\'' || c == '"':
			text, n, err := quoted(s[i:])
			if err != nil {
				return nil, err
			}
			out = append(out, token{'s', text})
			i += n
		default:
			op := s[i : i+1]
			if i+1 < len(s) && slices.Contains([]string{"//", "**", "==", "!=", "<=", ">="}, s[i:i+2]) {
				op = s[i : i+2]
			}
			if strings.IndexByte("+-*/%~|().,[]{}<>=!:", c) < 0 || op == "!" {
				return nil, fmt.Errorf("unexpected char %s", quote(s[i:i+1]))
			}
			out = append(out, token{'o', op})
			i += len(op)
		}
	}
	return append(out, token{}), nil
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// number reads an integer or a float, with _ between digits.
func number(s string) (token, int) {
	i := 0
	digits := func() {
		for i < len(s) && (digit(s[i]) || s[i] == '_' && i+1 < len(s) && digit(s[i+1])) {
			i++
		}
	}
	digits()
	kind := byte('i')
	if i+1 < len(s) && s[i] == '.' && digit(s[i+1]) {
		kind = 'f'
		i++
		digits()
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && digit(s[j]) {
			kind, i = 'f', j
			digits()
		}
	}
	return token{kind, strings.ReplaceAll(s[:i], "_", "")}, i
}

// quoted reads a string in quotes.
func quoted(s string) (text string, n int, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			return b.String(), i + 1, nil
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '\\', '\'', '"':
				b.WriteByte(s[i])
			default:
				return "", 0, fmt.Errorf(`the escape \%c in a string is not supported by prefire`, s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, fmt.Errorf("a string has no closing %c", s[0])
}

// parser reads an expression by precedence climbing, as Jinja2's parser does.
type parser struct {
	tokens []token
	depth  int
	names  []string
}

func parseExpr(s string) (expr, []string, error) {
	ts, err := tokens(s)
	if err != nil {
		return nil, nil, err
	}
	p := &parser{tokens: ts}
	e, err := p.condition()
	if err == nil && p.tokens[0].kind != 0 {
		err = p.unexpected()
	}
	return e, p.names, err
}

func (p *parser) unexpected() error {
	t := p.tokens[0]
	if t.kind == 0 {
		return fmt.Errorf("unexpected end of the expression")
	}
	return fmt.Errorf("unexpected %s in the expression", quote(t.text))
}

func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != 0 {
		p.tokens = p.tokens[1:]
	}
	return t
}

// accept takes the next word where it is one of these.
func (p *parser) accept(kind byte, words ...string) (string, bool) {
	if t := p.tokens[0]; t.kind == kind && slices.Contains(words, t.text) {
		return p.next().text, true
	}
	return "", false
}

func (p *parser) expect(op string) error {
	if _, ok := p.accept('o', op); !ok {
		return p.unexpected()
	}
	return nil
}

// condition is a if b else c.
func (p *parser) condition() (expr, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("an expression is nested deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	e, err := p.or()
	for err == nil {
		if _, ok := p.accept('n', "if"); !ok {
			return e, nil
		}
		c := &choice{yes: e}
		if c.cond, err = p.or(); err != nil {
			break
		}
		if _, ok := p.accept('n', "else"); !ok {
			return nil, fmt.Errorf("an if in an expression needs an else")
		}
		c.no, err = p.condition()
		e = c
	}
	return nil, err
}

// left reads operands of one level with operators between them.
func (p *parser) left(kind byte, operand func() (expr, error), ops ...string) (expr, error) {
	e, err := operand()
	for err == nil {
		op, ok := p.accept(kind, ops...)
		if !ok {
			return e, nil
		}
		var right expr
		right, err = operand()
		e = &binary{op, e, right}
	}
	return nil, err
}

func (p *parser) or() (expr, error)  { return p.left('n', p.and, "or") }
func (p *parser) and() (expr, error) { return p.left('n', p.not, "and") }

func (p *parser) not() (expr, error) {
	if _, ok := p.accept('n', "not"); !ok {
		return p.compare()
	}
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("an expression is nested deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	e, err := p.not()
	return &unary{"not", e}, err
}

// compare is a chain of comparisons: a < b < c is a < b and b < c.
func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &chain{first: first}
	for {
		op, ok := p.accept('o', "==", "!=", "<", "<=", ">", ">=")
		if !ok {
			op, ok = p.accept('n', "in")
		}
		if !ok && len(p.tokens) > 1 && p.tokens[0] == (token{'n', "not"}) && p.tokens[1] == (token{'n', "in"}) {
			p.tokens, op, ok = p.tokens[2:], "not in", true
		}
		if !ok {
			break
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, right)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
}

func (p *parser) sum() (expr, error)     { return p.left('o', p.concat, "+", "-") }
func (p *parser) concat() (expr, error)  { return p.left('o', p.product, "~") }
func (p *parser) product() (expr, error) { return p.left('o', p.power, "*", "/", "//", "%") }
func (p *parser) power() (expr, error) {
	return p.left('o', func() (expr, error) { return p.unary(true) }, "**")
}

// unary is a sign, a value, what is looked up in it, and the filters behind it.
func (p *parser) unary(filters bool) (expr, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("an expression is nested deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	var e expr
	var err error
	if sign, ok := p.accept('o', "-", "+"); ok {
		e, err = p.unary(false)
		e = &unary{sign, e}
	} else {
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && filters {
		e, err = p.filters(e)
	}
	return e, err
}

func (p *parser) primary() (expr, error) {
	switch t := p.next(); t.kind {
	case 'n':
		switch t.text {
		case "true", "True":
			return literal{true}, nil
		case "false", "False":
			return literal{false}, nil
		case "none", "None":
			return literal{nil}, nil
		case "if", "else", "and", "or", "not", "in", "is":
			return nil, fmt.Errorf("unexpected %s in the expression", quote(t.text))
		}
		p.names = append(p.names, t.text)
		return name(t.text), nil
	case 'i':
		v, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", t.text)
		}
		return literal{v}, nil
	case 'f':
		v, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", t.text)
		}
		return literal{v}, nil
	case 's':
		s := t.text
		for p.tokens[0].kind == 's' {
			s += p.next().text
		}
		return literal{s}, nil
	case 'o':
		switch t.text {
		case "(":
			e, err := p.condition()
			if err == nil {
				err = p.expect(")")
			}
			return e, err
		case "[":
			items, err := p.list("]")
			return items, err
		case "{":
			return nil, fmt.Errorf("a mapping in an expression is not supported by prefire")
		}
		return nil, fmt.Errorf("unexpected %s in the expression", quote(t.text))
	}
	return nil, p.unexpected()
}

// list reads expressions with commas between them, up to its closing bracket.
func (p *parser) list(closing string) (list, error) {
	out := list{}
	for {
		if _, ok := p.accept('o', closing); ok {
			return out, nil
		}
		if len(out) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
			if _, ok := p.accept('o', closing); ok {
				return out, nil
			}
		}
		e, err := p.condition()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
}

// postfix is what is looked up in a value: .name, .0 and [expression].
func (p *parser) postfix(e expr) (expr, error) {
	for {
		if _, ok := p.accept('o', "."); ok {
			t := p.next()
			switch t.kind {
			case 'n':
				e = &item{e, literal{t.text}}
			case 'i':
				i, err := strconv.ParseInt(t.text, 10, 64)
				if err != nil {
					return nil, fmt.Errorf("the number %s is too large", t.text)
				}
				e = &item{e, literal{i}}
			default:
				return nil, fmt.Errorf("a name is missing after '.'")
			}
		} else if _, ok := p.accept('o', "["); ok {
			key, err := p.condition()
			if err != nil {
				return nil, err
			}
			if err := p.expect("]"); err != nil {
				return nil, err
			}
			e = &item{e, key}
		} else if p.tokens[0] == (token{'o', "("}) {
			return nil, fmt.Errorf("a call of a function is not supported by prefire")
		} else {
			return e, nil
		}
	}
}

// filters are | name(arguments), and is defined.
func (p *parser) filters(e expr) (expr, error) {
	for {
		if _, ok := p.accept('o', "|"); ok {
			t := p.next()
			f, known := filterNames()[t.text]
			if t.kind != 'n' || !known {
				return nil, fmt.Errorf("the filter %s is not supported by prefire, which has %s", quote(t.text), strings.Join(knownFilters(), ", "))
			}
			var args list
			if _, ok := p.accept('o', "("); ok {
				var err error
				if args, err = p.list(")"); err != nil {
					return nil, err
				}
			}
			if len(args) > f.most || len(args) < f.least {
				return nil, fmt.Errorf("the filter %s is given %d arguments", t.text, len(args))
			}
			e = &filtered{f.apply, e, args}
		} else if _, ok := p.accept('n', "is"); ok {
			_, negated := p.accept('n', "not")
			t := p.next()
			if t != (token{'n', "defined"}) {
				return nil, fmt.Errorf("the test %s is not supported by prefire, which has defined", quote(t.text))
			}
			e = &defined{e, negated}
		} else {
			return e, nil
		}
	}
}
