package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"
)

// parse makes a package of one file, to try the rules on.
func parse(t *testing.T, name, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return check(name, fset, []*ast.File{f})
}

func TestTouchedFindsUses(t *testing.T) {
	const text = `package x

import (
	. "flag"
	"fmt"
	o "os"
	"time"
)

type clock struct{ Now func() int }

func f(c clock) {
	fmt.Println(o.Args, c.Now())
	now := time.Now
	fmt.Sprint(time.Second, now)
	{
		fmt := clock{}
		_ = fmt.Now
		o := c
		_ = o.Now
	}
	go func() { o.Exit(1) }()
	Parse()
}
`
	want := []string{`p/x.go:4: import . "flag"`, "p/x.go:13: fmt.Println", "p/x.go:13: os.Args", "p/x.go:14: time.Now", "p/x.go:22: os.Exit"}
	if got := touched(parse(t, "p", text)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	want = []string{`loadgen/wire/fake/x.go:4: import . "flag"`, "loadgen/wire/fake/x.go:13: fmt.Println", "loadgen/wire/fake/x.go:13: os.Args",
		"loadgen/wire/fake/x.go:22: os.Exit"}
	if got := touched(parse(t, "loadgen/wire/fake", text)); !reflect.DeepEqual(got, want) {
		t.Errorf("test support:\ngot  %q\nwant %q", got, want)
	}
}

func TestStateFindsChanges(t *testing.T) {
	const text = `package x

import (
	"sync"
	"sync/atomic"
)

var fixed = map[string]int{"a": 1}
var a, b int
var list []int
var table map[string]int
var mu sync.Mutex
var n atomic.Int64
var p = &sync.Pool{}
var ptr atomic.Pointer[int]
var ch = make(chan int)
var lazy = sync.OnceValue(func() int { return 1 })
var s struct{ f int }

func init() {}

type t struct{}

func (t) init() {}

func f() {
	a = 1
	b++
	list[0], table["x"] = 1, 2
	s.f = 3
	for a = range list {
	}
	_ = &s
	delete(table, "x")
	a := fixed["a"]
	a = 2
	_, _ = a, lazy()
}
`
	want := []string{
		"p/x.go:12: package variable mu is a sync.Mutex",
		"p/x.go:13: package variable n is a atomic.Int64",
		"p/x.go:14: package variable p is a sync.Pool",
		"p/x.go:15: package variable ptr is a atomic.Pointer",
		"p/x.go:16: package variable ch is a channel",
		"p/x.go:20: func init",
		"p/x.go:27: package variable a changes",
		"p/x.go:28: package variable b changes",
		"p/x.go:29: package variable list changes",
		"p/x.go:29: package variable table changes",
		"p/x.go:30: package variable s changes",
		"p/x.go:31: package variable a changes",
		"p/x.go:33: package variable s changes",
		"p/x.go:34: package variable table changes",
	}
	if got := state(parse(t, "p", text)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
