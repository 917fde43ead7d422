package jinja

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// object is a mapping of a test.
type object map[string]any

func (o object) Get(key string) (any, bool) { v, ok := o[key]; return v, ok }

// context is that of testdata/render.py.
func context(name string) (any, bool) {
	return object{
		"a": int64(7), "b": int64(2), "zero": int64(0), "neg": int64(-7), "f": 1.5, "big": 1e17, "tiny": 0.00001, "yes": true, "no": false,
		"none": nil, "s": "Text", "digits": "42", "empty": "", "list": []any{int64(3), int64(1), int64(2)}, "nolist": []any{},
		"phases": object{"profiling": object{"rate": int64(30), "name": "profiling"}},
	}.Get(name)
}

func renderText(s string) (string, error) {
	t, err := Parse(s)
	if err != nil {
		return "", err
	}
	return t.Render(context)
}

// Every template renders as Python's Jinja2 renders it, and fails where that fails (testdata/render.py made the list).
func TestRendersAsJinja2(t *testing.T) {
	f, err := os.Open("testdata/jinja2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases := 0
	for lines := bufio.NewScanner(f); lines.Scan(); cases++ {
		var c []*string
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		got, err := renderText(*c[0])
		switch {
		case c[1] == nil && err == nil:
			t.Errorf("%s renders to %q; Jinja2 fails: %s", *c[0], got, *c[2])
		case c[1] != nil && (err != nil || got != *c[1]):
			t.Errorf("%s renders to %q, %v; want %q", *c[0], got, err, *c[1])
		}
		if c[1] == nil && strings.HasPrefix(*c[2], "UndefinedError: ") {
			if want := strings.TrimPrefix(*c[2], "UndefinedError: "); err == nil || err.Error() != want {
				t.Errorf("%s: %v; want Jinja2's words %q", *c[0], err, want)
			}
		}
	}
	if cases < 60 {
		t.Errorf("the list has %d templates", cases)
	}
}

func TestRefusesByName(t *testing.T) {
	for _, tt := range []struct{ template, want string }{
		{"{% for x in list %}{% endfor %}", "the statement {% for %} is not supported by prefire, which has if, elif, else, endif, raw and endraw"},
		{"{% set x = 1 %}", "the statement {% set %} is not supported by prefire, which has if, elif, else, endif, raw and endraw"},
		{"{{ a | tojson }}", "the filter 'tojson' is not supported by prefire, which has abs, count, d, default, float, int, length, lower, max, min, round, string, trim, upper"},
		{"{{ a | default }}", "the filter default is given 0 arguments"},
		{"{{ a is odd }}", "the test 'odd' is not supported by prefire, which has defined"},
		{"{{ range(3) }}", "a call of a function is not supported by prefire"},
		{"{{ {'a': 1} }}", "a mapping in an expression is not supported by prefire"},
		{"{{ 'x' if a }}", "an if in an expression needs an else"},
		{"{{ list }}", "a list cannot stand in a text: name one of its values"},
		{"{{ phases }}", "a dict cannot stand in a text: name one of its values"},
		{`{{ "\x41" }}`, `the escape \x in a string is not supported by prefire`},
		{"{{ a ! b }}", "unexpected char '!'"},
		{"{{ 2 ** 63 }}", "a whole number is larger than prefire calculates with (64 bits)"},
		{"{{ 9223372036854775807 + 1 }}", "a whole number is larger than prefire calculates with (64 bits)"},
		{"{{ -9223372036854775807 - 2 }}", "a whole number is larger than prefire calculates with (64 bits)"},
		{"{{ 99999999999999999999 }}", "the number 99999999999999999999 is too large"},
		{"{{ 'ab' * 1000000 }}", "a text of 2 bytes 1000000 times is more than 1048576 bytes"},
		{"{{ 'ab' * 500000 }}{{ 'ab' * 500000 }}", "it renders to more than 1048576 bytes"},
		{"{{ " + strings.Repeat("(", 200) + "a" + strings.Repeat(")", 200) + " }}", "an expression is nested deeper than 100 levels"},
		{"{{ " + strings.Repeat("not ", 200) + "a }}", "an expression is nested deeper than 100 levels"},
		{"{{ " + strings.Repeat("-", 200) + "a }}", "an expression is nested deeper than 100 levels"},
		{strings.Repeat("{% if a %}", 200), "nested deeper than 100 levels"},
		{"{{ a", "unbalanced '{{' with no closing '}}' in template"},
		{"x {% if a", "unbalanced '{%' with no closing '%}' in template"},
	} {
		if _, err := renderText(tt.template); err == nil || err.Error() != tt.want {
			t.Errorf("%.60s: %v\nwant %s", tt.template, err, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	tmpl, err := Parse("{{ a + b.c['d'] }} {% if e is defined %}{{ a | default(g) }}{% endif %} {% raw %}{{ no }}{% endraw %}")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "e", "g"}; !slices.Equal(tmpl.Names(), want) {
		t.Errorf("names %q, want %q", tmpl.Names(), want)
	}
}

func FuzzRender(f *testing.F) {
	for _, s := range []string{"{{ a // b }}", "{% if a %}x{% elif b %}{% endif %}", "{%- raw -%}{{{% endraw %}", "{{ 'x' * 3 | length ** -1 }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, err := renderText(s)
		if err == nil && !Has(s) && !strings.Contains(s, "{#") && first != s {
			t.Errorf("%q has nothing to render and renders to %q", s, first)
		}
		if err == nil && len(first) > 2*maxText {
			t.Errorf("%q renders to %d bytes", s, len(first))
		}
	})
}
