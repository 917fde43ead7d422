package config

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a config file. Aliases can make a small file stand for a huge tree, so nodes count as often as they are referred to.
const (
	maxFile  = 4 << 20
	maxDepth = 256
	maxNodes = 200_000
)

type shape uint8

const (
	isNull shape = iota
	isBool
	isInt
	isFloat
	isString
	isList
	isMap
)

// node is a value of a config file with its place.
type node struct {
	shape     shape
	line, col int
	b         bool
	i         int64
	f         float64
	s         string
	list      []*node
	entries   []*entry
	nodes     int // itself and all below
}

type entry struct {
	key       string
	line, col int
	value     *node
}

// found describes a value for a message.
func (n *node) found() string {
	switch n.shape {
	case isBool:
		return fmt.Sprintf("%t (a boolean)", n.b)
	case isInt:
		return fmt.Sprintf("%d (an integer)", n.i)
	case isFloat:
		return plain(n.f) + " (a number)"
	case isString:
		if len(n.s) > 60 {
			return pyString(strings.ToValidUTF8(n.s[:57], "")+"...") + " (a string)"
		}
		return pyString(n.s) + " (a string)"
	case isList:
		return fmt.Sprintf("a list of %d", len(n.list))
	case isMap:
		return "a mapping"
	}
	return "nothing (null)"
}

// text is the text of a string, or of an environment variable that looks like something else, such as a key of digits alone.
func (n *node) text() (s string, ok bool) { return n.s, n.shape == isString || n.s != "" }

// get is the entry of a mapping under key, nil where there is none.
func (n *node) get(key string) *entry {
	for _, e := range n.entries {
		if e.key == key {
			return e
		}
	}
	return nil
}

// plainValue is n as a value of KeyValue.
func (n *node) plainValue() any {
	switch n.shape {
	case isBool:
		return n.b
	case isInt:
		return n.i
	case isFloat:
		return n.f
	case isString:
		return n.s
	case isList:
		out := make([]any, len(n.list))
		for i, item := range n.list {
			out[i] = item.plainValue()
		}
		return out
	case isMap:
		m := Map{}
		for _, e := range n.entries {
			m = append(m, KeyValue{e.key, e.value.plainValue()})
		}
		return m
	}
	return nil
}

// reader turns goccy's tree into nodes, with aliases, merge keys and environment variables filled in.
type reader struct {
	file    string
	env     func(string) (string, bool)
	anchors map[string]*node
}

// fault is a place in the file and what is wrong there.
func (r *reader) fault(t *token.Token, format string, args ...any) error {
	return complain("%s: %s", r.at(t), fmt.Sprintf(format, args...))
}

func (r *reader) at(t *token.Token) string {
	if t == nil || t.Position == nil {
		return r.file
	}
	return fmt.Sprintf("%s:%d:%d", r.file, t.Position.Line, t.Position.Column)
}

// readYAML reads a YAML or JSON document whose top level is a mapping.
func readYAML(file string, data []byte, env func(string) (string, bool)) (n *node, err error) {
	r := &reader{file: file, env: env, anchors: map[string]*node{}}
	if len(data) > maxFile {
		return nil, complain("%s: the file has %d bytes; a config file may have %d.", file, len(data), maxFile)
	}
	// Deep nesting would overflow the parser's recursion before its own checks see it.
	if depth := nesting(data); depth > 4*maxDepth {
		return nil, complain("%s: nested deeper than %d levels.", file, maxDepth)
	}
	defer func() {
		// The parser is a foreign library that has panicked on malformed text before; a bad file must end in a message.
		if p := recover(); p != nil {
			n, err = nil, complain("%s: not readable as YAML (%v).", file, p)
		}
	}()
	doc, err := parser.ParseBytes(data, 0)
	if err != nil {
		if y, ok := err.(yaml.Error); ok {
			return nil, r.fault(y.GetToken(), "not valid YAML: %s.", y.GetMessage())
		}
		return nil, complain("%s: not valid YAML: %v.", file, err)
	}
	var bodies []ast.Node
	for _, d := range doc.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	switch {
	case len(bodies) == 0:
		return nil, complain("%s: Configuration file is empty.", file)
	case len(bodies) > 1:
		return nil, r.fault(start(bodies[1]), "a second document begins here; a config file has one.")
	}
	n, err = r.node(bodies[0], 0)
	if err != nil {
		return nil, err
	}
	if n.shape != isMap {
		return nil, complain("%s:%d:%d: a config file is a mapping of keys to values; found %s.", file, n.line, n.col, n.found())
	}
	return n, nil
}

// start is the first token of a node; goccy gives the colon for a mapping.
func start(a ast.Node) *token.Token {
	switch a := a.(type) {
	case *ast.MappingNode:
		if len(a.Values) > 0 {
			return a.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return a.Key.GetToken()
	}
	return a.GetToken()
}

// nesting bounds how deep the parser may recurse: open brackets, and runs of the words that each open a level of their own.
func nesting(data []byte) int {
	depth, deepest := 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	run := 0
	for word := range bytes.FieldsSeq(data) {
		switch {
		case len(word) == 1 && (word[0] == '-' || word[0] == '?'), word[0] == '!', word[0] == '&':
			run++
			deepest = max(deepest, run)
		default:
			run = 0
		}
	}
	return deepest
}

func (r *reader) node(a ast.Node, depth int) (*node, error) {
	if a == nil {
		return &node{nodes: 1}, nil
	}
	t := a.GetToken()
	n := &node{nodes: 1}
	if t != nil && t.Position != nil {
		n.line, n.col = t.Position.Line, t.Position.Column
	}
	if depth > maxDepth {
		return nil, r.fault(t, "nested deeper than %d levels.", maxDepth)
	}
	switch a := a.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.shape, n.b = isBool, a.Value
	case *ast.IntegerNode:
		r.integer(n, a)
	case *ast.FloatNode:
		n.shape, n.f = isFloat, a.Value
	case *ast.InfinityNode:
		n.shape, n.f = isFloat, a.Value
	case *ast.NanNode:
		n.shape, n.f = isFloat, math.NaN()
	case *ast.StringNode:
		return n, r.text(n, t, a.Value, a.Token.Type == token.StringType)
	case *ast.LiteralNode:
		return n, r.text(n, t, a.Value.Value, false)
	case *ast.SequenceNode:
		n.shape = isList
		for _, item := range a.Values {
			v, err := r.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, v)
			if err := r.count(n, v, t); err != nil {
				return nil, err
			}
		}
	case *ast.MappingNode:
		return n, r.mapping(n, a.Values, depth)
	case *ast.MappingValueNode:
		return n, r.mapping(n, []*ast.MappingValueNode{a}, depth)
	case *ast.AnchorNode:
		v, err := r.node(a.Value, depth+1)
		if err != nil {
			return nil, err
		}
		// Only now: an anchor inside its own value is a cycle, and unknown there.
		r.anchors[a.Name.String()] = v
		return v, nil
	case *ast.AliasNode:
		v := r.anchors[a.Value.String()]
		if v == nil {
			return nil, r.fault(t, "the alias *%s refers to no anchor before it.", a.Value.String())
		}
		return v, nil
	case *ast.TagNode:
		return r.tagged(a, depth)
	default:
		return nil, r.fault(t, "%s is not allowed in a config file.", a.Type())
	}
	return n, nil
}

func (r *reader) integer(n *node, a *ast.IntegerNode) {
	switch v := a.Value.(type) {
	case int64:
		n.shape, n.i = isInt, v
		return
	case uint64:
		if v <= math.MaxInt64 {
			n.shape, n.i = isInt, int64(v)
			return
		}
		n.shape, n.f = isFloat, float64(v)
		return
	}
	n.shape, n.s = isString, a.Token.Value
}

// tagged honours !!str; other tags say no more than the value itself does.
func (r *reader) tagged(a *ast.TagNode, depth int) (*node, error) {
	v, err := r.node(a.Value, depth+1)
	if err != nil {
		return nil, err
	}
	switch tag := a.Start.Value; {
	case tag == "!!str" && v.shape < isString && a.Value != nil:
		return &node{shape: isString, s: a.Value.GetToken().Value, line: v.line, col: v.col, nodes: 1}, nil
	case strings.HasPrefix(tag, "!!"):
		return v, nil
	default:
		return nil, r.fault(a.Start, "the tag %s is not allowed in a config file.", tag)
	}
}

func (r *reader) mapping(n *node, values []*ast.MappingValueNode, depth int) error {
	n.shape = isMap
	var merged []*entry
	for _, kv := range values {
		t := kv.Key.GetToken()
		v, err := r.node(kv.Value, depth+1)
		if err != nil {
			return err
		}
		if err := r.count(n, v, t); err != nil {
			return err
		}
		if _, ok := kv.Key.(*ast.MergeKeyNode); ok {
			more, err := r.merge(v, t)
			if err != nil {
				return err
			}
			merged = append(merged, more...)
			continue
		}
		k, err := r.key(kv.Key, depth)
		if err != nil {
			return err
		}
		if first := n.get(k.key); first != nil {
			return r.fault(t, "the key '%s' is given twice in one mapping, first in line %d.", k.key, first.line)
		}
		k.value = v
		n.entries = append(n.entries, k)
		if len(n.entries) == 1 {
			n.line, n.col = k.line, k.col
		}
	}
	for _, e := range merged {
		if n.get(e.key) == nil {
			n.entries = append(n.entries, e)
		}
	}
	return nil
}

func (r *reader) key(a ast.Node, depth int) (*entry, error) {
	t := a.GetToken()
	switch k := a.(type) {
	case *ast.StringNode:
		return &entry{key: k.Value, line: t.Position.Line, col: t.Position.Column}, nil
	case *ast.MappingKeyNode:
		if inner, ok := k.Value.(*ast.StringNode); ok {
			return &entry{key: inner.Value, line: t.Position.Line, col: t.Position.Column}, nil
		}
	}
	n, err := r.node(a, depth+1)
	if err != nil {
		return nil, err
	}
	return nil, r.fault(t, "YAML key %s is not a string; only string keys are allowed.", n.found())
}

// merge is what a << key brings in.
func (r *reader) merge(v *node, t *token.Token) ([]*entry, error) {
	switch v.shape {
	case isMap:
		return v.entries, nil
	case isList:
		var out []*entry
		for _, item := range v.list {
			if item.shape != isMap {
				return nil, r.fault(t, "<< takes mappings; found %s.", item.found())
			}
			out = append(out, item.entries...)
		}
		return out, nil
	}
	return nil, r.fault(t, "<< takes a mapping; found %s.", v.found())
}

// count adds a child to n's size.
func (r *reader) count(n, child *node, t *token.Token) error {
	n.nodes += child.nodes
	if n.nodes > maxNodes {
		return r.fault(t, "the file stands for more than %d values, its aliases filled in.", maxNodes)
	}
	return nil
}

// text fills n from a string: environment variables are put in, and a string that is one reference alone gets the type of what it says.
// Unquoted yes, no, on and off are booleans, as in YAML 1.1, which aiperf reads.
func (r *reader) text(n *node, t *token.Token, s string, unquoted bool) error {
	n.shape, n.s = isString, s
	if unquoted {
		switch s {
		case "yes", "Yes", "YES", "on", "On", "ON":
			n.shape, n.b, n.s = isBool, true, ""
			return nil
		case "no", "No", "NO", "off", "Off", "OFF":
			n.shape, n.b, n.s = isBool, false, ""
			return nil
		}
	}
	if !strings.Contains(s, "${") {
		return nil
	}
	out, alone, err := r.substitute(s, t)
	if err != nil {
		return err
	}
	n.s = out
	if alone {
		typed(n, out)
	}
	return nil
}

// substitute replaces ${NAME} and ${NAME:default}. alone says that s was one reference and nothing else.
func (r *reader) substitute(s string, t *token.Token) (out string, alone bool, err error) {
	var b strings.Builder
	rest := s
	for {
		before, after, ok := strings.Cut(rest, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), alone, nil
		}
		ref, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", false, r.fault(t, "Unterminated environment variable reference: '${' has no closing '}'.")
		}
		name, fallback, hasDefault := strings.Cut(ref, ":")
		if !isName(name) {
			b.WriteString("${" + ref + "}")
			rest = tail
			continue
		}
		value, set := r.env(name)
		switch {
		case set:
		case hasDefault:
			value = fallback
		default:
			return "", false, r.fault(t, "Required environment variable '%s' is not set. Set it, or use ${%s:default} to provide a "+
				"default value.",
				name, name)
		}
		b.WriteString(value)
		alone = len(ref)+3 == len(s)
		rest = tail
	}
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// typed gives a string the type of a boolean or number that it spells.
func typed(n *node, s string) {
	switch strings.ToLower(s) {
	case "true", "false":
		n.shape, n.b = isBool, strings.EqualFold(s, "true")
		return
	}
	if v, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err == nil {
		n.shape, n.i = isInt, v
	} else if v, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
		n.shape, n.f = isFloat, v
	}
}
