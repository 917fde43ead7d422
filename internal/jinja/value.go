package jinja

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errLarge says that a whole number leaves 64 bits, which Python's do not mind.
var errLarge = errors.New("a whole number is larger than prefire calculates with (64 bits)")

// kind is Python's name of a value's type.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []any:
		return "list"
	}
	return "dict"
}

// quote is s in the quotes of a message.
func quote(s string) string { return "'" + s + "'" }

// text is a value as it stands in a text.
func text(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "None", nil
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return float(v), nil
	case string:
		return v, nil
	case undefined:
		return "", errors.New(string(v))
	}
	return "", fmt.Errorf("a %s cannot stand in a text: name one of its values", kind(v))
}

// float writes a float as Python does.
func float(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	if e := math.Abs(f); e != 0 && (e < 1e-4 || e >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// truth is whether a value counts as true.
func truth(v any) (bool, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case int64:
		return v != 0, nil
	case float64:
		return v != 0, nil
	case string:
		return v != "", nil
	case []any:
		return len(v) > 0, nil
	case undefined:
		return false, errors.New(string(v))
	}
	return true, nil
}

// arithmetic is v as a number: a boolean is 0 or 1. What is no number stays as it is.
func arithmetic(v any) any {
	if b, ok := v.(bool); ok {
		if b {
			return int64(1)
		}
		return int64(0)
	}
	return v
}

func asFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func equal(a, b any) bool {
	a, b = arithmetic(a), arithmetic(b)
	if x, ok := asFloat(a); ok {
		y, ok := asFloat(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		return ok && x == y
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	}
	return false
}

func compare(a, b any) (order int, ok bool) {
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		return strings.Compare(x, y), ok
	}
	x, okX := asFloat(arithmetic(a))
	y, okY := asFloat(arithmetic(b))
	switch {
	case !okX || !okY || math.IsNaN(x) || math.IsNaN(y):
		return 0, false
	case x < y:
		return -1, true
	case x > y:
		return 1, true
	}
	return 0, true
}

// calculate is Python's arithmetic on two values.
func calculate(op string, left, right any) (any, error) {
	l, r := arithmetic(left), arithmetic(right)
	if s, ok := l.(string); ok {
		switch n := r.(type) {
		case string:
			if op == "+" {
				return s + n, nil
			}
		case int64:
			if op == "*" {
				return times(s, n)
			}
		}
	} else if s, ok := r.(string); ok && op == "*" {
		if n, ok := l.(int64); ok {
			return times(s, n)
		}
	}
	a, whole := l.(int64)
	b, wholeToo := r.(int64)
	if whole && wholeToo && op != "/" && (op != "**" || b >= 0) {
		return integers(op, a, b)
	}
	x, okX := asFloat(l)
	y, okY := asFloat(r)
	if !okX || !okY {
		return nil, fmt.Errorf("unsupported operand type(s) for %s: '%s' and '%s'", op, kind(left), kind(right))
	}
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	}
	if y == 0 && op != "**" || x == 0 && y < 0 {
		return nil, errors.New("division by zero")
	}
	switch op {
	case "/":
		return x / y, nil
	case "//":
		return math.Floor(x / y), nil
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m, nil
	}
	p := math.Pow(x, y)
	if math.IsNaN(p) && !math.IsNaN(x) && !math.IsNaN(y) {
		return nil, errors.New("the root of a negative number is no number")
	}
	return p, nil
}

func times(s string, n int64) (any, error) {
	if n <= 0 || s == "" {
		return "", nil
	}
	if n > int64(maxText/len(s)) {
		return nil, fmt.Errorf("a text of %d bytes %d times is more than %d bytes", len(s), n, maxText)
	}
	return strings.Repeat(s, int(n)), nil
}

// integers is arithmetic within 64 bits: it rounds down, and a remainder has the divisor's sign.
func integers(op string, a, b int64) (any, error) {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
		return nil, errLarge
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
		return nil, errLarge
	case "*":
		return product(a, b)
	case "**":
		out := int64(1)
		for range min(b, 64) {
			v, err := product(out, a)
			if err != nil {
				return nil, err
			}
			out = v
		}
		if b > 64 {
			switch a {
			case -1, 0, 1:
				if a == -1 && b%2 != 0 {
					return int64(-1), nil
				}
			default:
				return nil, errLarge
			}
		}
		return out, nil
	}
	if b == 0 {
		return nil, errors.New("integer division or modulo by zero")
	}
	if a == math.MinInt64 && b == -1 {
		return nil, errLarge
	}
	q, m := a/b, a%b
	if m != 0 && (m < 0) != (b < 0) {
		q, m = q-1, m+b
	}
	if op == "//" {
		return q, nil
	}
	return m, nil
}

func product(a, b int64) (int64, error) {
	hi, lo := bits.Mul64(size(a), size(b))
	limit := uint64(math.MaxInt64)
	if hi != 0 || lo > limit {
		return 0, errLarge
	}
	if (a < 0) != (b < 0) {
		return -int64(lo), nil
	}
	return int64(lo), nil
}

func size(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// filter changes a value.
type filter struct {
	least, most int // arguments
	apply       func(v any, args []any) (any, error)
}

func knownFilters() []string { return slices.Sorted(maps.Keys(filterNames())) }

func filterNames() map[string]filter {
	strict := func(least, most int, f func(any, []any) (any, error)) filter {
		return filter{least, most, func(v any, args []any) (any, error) {
			if u, ok := v.(undefined); ok {
				return nil, errors.New(string(u))
			}
			return f(v, args)
		}}
	}
	onText := func(f func(string) string) filter {
		return strict(0, 0, func(v any, _ []any) (any, error) {
			s, err := text(v)
			return f(s), err
		})
	}
	fallback := filter{1, 2, func(v any, args []any) (any, error) {
		if _, not := v.(undefined); not {
			return args[0], nil
		}
		if len(args) == 2 {
			falsy, err := truth(args[1])
			if err != nil {
				return nil, err
			}
			if yes, err := truth(v); falsy && !yes {
				return args[0], err
			}
		}
		return v, nil
	}}
	length := strict(0, 0, func(v any, _ []any) (any, error) {
		switch v := v.(type) {
		case string:
			return int64(utf8.RuneCountInString(v)), nil
		case []any:
			return int64(len(v)), nil
		}
		return nil, fmt.Errorf("object of type '%s' has no length here", kind(v))
	})
	return map[string]filter{
		"abs": strict(0, 0, func(v any, _ []any) (any, error) {
			switch n := arithmetic(v).(type) {
			case int64:
				if n == math.MinInt64 {
					return nil, errLarge
				}
				return max(n, -n), nil
			case float64:
				return math.Abs(n), nil
			}
			return nil, fmt.Errorf("bad operand type for abs(): '%s'", kind(v))
		}),
		"d": fallback, "default": fallback, "count": length, "length": length,
		"float": strict(0, 1, toFloat), "int": strict(0, 1, toInt), "round": strict(0, 1, round),
		"lower": onText(strings.ToLower), "upper": onText(strings.ToUpper), "string": onText(func(s string) string { return s }),
		"trim": onText(strings.TrimSpace),
		"max":  strict(0, 0, func(v any, _ []any) (any, error) { return most(v, 1) }),
		"min":  strict(0, 0, func(v any, _ []any) (any, error) { return most(v, -1) }),
	}
}

// toFloat is a number, or the argument where v is none.
func toFloat(v any, args []any) (any, error) {
	if f, ok := asFloat(arithmetic(v)); ok {
		return f, nil
	}
	if s, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
			return f, nil
		}
	}
	if len(args) > 0 {
		return args[0], nil
	}
	return 0.0, nil
}

// toInt is a whole number, cut and not rounded, or the argument where v is none.
func toInt(v any, args []any) (any, error) {
	switch n := arithmetic(v).(type) {
	case int64:
		return n, nil
	case string:
		s := strings.TrimSpace(n)
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, nil
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			v = f
		}
	}
	if f, ok := v.(float64); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
		if math.Abs(f) >= 1<<63 {
			return nil, errLarge
		}
		return int64(f), nil
	}
	if len(args) > 0 {
		return args[0], nil
	}
	return int64(0), nil
}

// round gives a float of so many decimals, halves to the even digit. A whole number stays one.
func round(v any, args []any) (any, error) {
	if n, whole := arithmetic(v).(int64); whole {
		return n, nil
	}
	f, ok := asFloat(arithmetic(v))
	if !ok {
		return nil, fmt.Errorf("type '%s' cannot be rounded", kind(v))
	}
	places := int64(0)
	if len(args) > 0 {
		if places, ok = args[0].(int64); !ok || places < 0 || places > 15 {
			return nil, errors.New("round takes a number of decimals from 0 to 15")
		}
	}
	return strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(places), 64), 64)
}

// most is the largest (sign 1) or the smallest (sign -1) of a list.
func most(v any, sign int) (any, error) {
	items, ok := v.([]any)
	if !ok || len(items) == 0 {
		return nil, errors.New("min and max take a list that is not empty")
	}
	best := items[0]
	for _, x := range items[1:] {
		order, ok := compare(x, best)
		if !ok {
			return nil, fmt.Errorf("'%s' and '%s' cannot be compared", kind(x), kind(best))
		}
		if order*sign > 0 {
			best = x
		}
	}
	return best, nil
}
