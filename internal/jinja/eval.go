package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// expr is an expression.
type expr interface {
	eval(lookup func(string) (any, bool)) (any, error)
}

// undefined is the value of a name that has none: whatever reads it fails with its words.
type undefined string

type (
	literal  struct{ v any }
	name     string
	list     []expr
	item     struct{ of, key expr }
	choice   struct{ cond, yes, no expr }
	filtered struct {
		apply func(v any, args []any) (any, error)
		of    expr
		args  list
	}
	defined struct {
		of      expr
		negated bool
	}
	unary struct {
		op string
		of expr
	}
	binary struct {
		op          string
		left, right expr
	}
	chain struct {
		first expr
		ops   []string
		rest  []expr
	}
)

func (l literal) eval(func(string) (any, bool)) (any, error) { return l.v, nil }

func (n name) eval(lookup func(string) (any, bool)) (any, error) {
	v, ok := lookup(string(n))
	if !ok {
		return undefined(quote(string(n)) + " is undefined"), nil
	}
	return v, nil
}

func (l list) eval(lookup func(string) (any, bool)) (any, error) {
	out := make([]any, len(l))
	for i, e := range l {
		v, err := value(e, lookup)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// value evaluates e, which must be defined.
func value(e expr, lookup func(string) (any, bool)) (any, error) {
	v, err := e.eval(lookup)
	if u, ok := v.(undefined); ok && err == nil {
		return nil, errors.New(string(u))
	}
	return v, err
}

func (i *item) eval(lookup func(string) (any, bool)) (any, error) {
	of, err := value(i.of, lookup)
	if err != nil {
		return nil, err
	}
	key, err := value(i.key, lookup)
	if err != nil {
		return nil, err
	}
	switch of := of.(type) {
	case Object:
		s, ok := key.(string)
		if ok {
			if v, ok := of.Get(s); ok {
				return v, nil
			}
		}
		return missing(of, key)
	case []any:
		n, ok := key.(int64)
		if ok && n < 0 {
			n += int64(len(of))
		}
		if ok && n >= 0 && n < int64(len(of)) {
			return of[n], nil
		}
	}
	return missing(of, key)
}

func missing(of, key any) (any, error) {
	if s, ok := key.(string); ok {
		return undefined(fmt.Sprintf("'%s object' has no attribute %s", kind(of), quote(s))), nil
	}
	s, err := text(key)
	return undefined(fmt.Sprintf("%s object has no element %s", kind(of), s)), err
}

func (c *choice) eval(lookup func(string) (any, bool)) (any, error) {
	v, err := c.cond.eval(lookup)
	if err != nil {
		return nil, err
	}
	yes, err := truth(v)
	if err != nil {
		return nil, err
	}
	if yes {
		return c.yes.eval(lookup)
	}
	return c.no.eval(lookup)
}

func (f *filtered) eval(lookup func(string) (any, bool)) (any, error) {
	v, err := f.of.eval(lookup)
	if err != nil {
		return nil, err
	}
	args := make([]any, len(f.args))
	for i, a := range f.args {
		if args[i], err = value(a, lookup); err != nil {
			return nil, err
		}
	}
	return f.apply(v, args)
}

func (d *defined) eval(lookup func(string) (any, bool)) (any, error) {
	v, err := d.of.eval(lookup)
	_, not := v.(undefined)
	return not == d.negated, err
}

func (u *unary) eval(lookup func(string) (any, bool)) (any, error) {
	v, err := value(u.of, lookup)
	if err != nil {
		return nil, err
	}
	if u.op == "not" {
		yes, err := truth(v)
		return !yes, err
	}
	switch n := arithmetic(v).(type) {
	case int64:
		if u.op == "-" {
			if n == math.MinInt64 {
				return nil, errLarge
			}
			n = -n
		}
		return n, nil
	case float64:
		if u.op == "-" {
			n = -n
		}
		return n, nil
	}
	return nil, fmt.Errorf("bad operand type for unary %s: '%s'", u.op, kind(v))
}

func (b *binary) eval(lookup func(string) (any, bool)) (any, error) {
	left, err := value(b.left, lookup)
	if err != nil {
		return nil, err
	}
	if b.op == "and" || b.op == "or" {
		yes, err := truth(left)
		if err != nil || yes == (b.op == "or") {
			return left, err
		}
		return b.right.eval(lookup)
	}
	right, err := value(b.right, lookup)
	if err != nil {
		return nil, err
	}
	if b.op == "~" {
		l, err := text(left)
		if err != nil {
			return nil, err
		}
		r, err := text(right)
		if err != nil {
			return nil, err
		}
		return l + r, nil
	}
	return calculate(b.op, left, right)
}

func (c *chain) eval(lookup func(string) (any, bool)) (any, error) {
	left, err := value(c.first, lookup)
	if err != nil {
		return nil, err
	}
	for i, op := range c.ops {
		right, err := value(c.rest[i], lookup)
		if err != nil {
			return nil, err
		}
		yes, err := holds(op, left, right)
		if err != nil || !yes {
			return false, err
		}
		left = right
	}
	return true, nil
}

// holds is one comparison, as Python makes it.
func holds(op string, left, right any) (bool, error) {
	switch op {
	case "==", "!=":
		return equal(left, right) == (op == "=="), nil
	case "in", "not in":
		in, err := contains(right, left)
		return in == (op == "in"), err
	}
	order, ok := compare(left, right)
	if !ok {
		return false, fmt.Errorf("'%s' not supported between instances of '%s' and '%s'", op, kind(left), kind(right))
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

func contains(of, v any) (bool, error) {
	switch of := of.(type) {
	case string:
		if s, ok := v.(string); ok {
			return strings.Contains(of, s), nil
		}
	case []any:
		for _, x := range of {
			if equal(x, v) {
				return true, nil
			}
		}
		return false, nil
	case Object:
		s, ok := v.(string)
		if !ok {
			return false, nil
		}
		_, ok = of.Get(s)
		return ok, nil
	}
	return false, fmt.Errorf("a %s holds no %s", kind(of), kind(v))
}
