package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// source is the non-test files of one package, with what its identifiers mean as far as that can be told without its imports.
type source struct {
	name  string // import path without the module
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	pkg   *types.Package
}

// check parses and type-checks files. Imported packages are empty: what belongs to this package is resolved all the same.
func check(name string, fset *token.FileSet, files []*ast.File) source {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: empty{}, Error: func(error) {}}
	p, _ := conf.Check(name, fset, files, info) // the errors are those of the empty imports; the compiler finds the others
	return source{name, fset, files, info, p}
}

type empty struct{}

func (empty) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	p.MarkComplete()
	return p, nil
}

func sources(t *testing.T) (list []source) {
	t.Helper()
	for _, p := range packages(t) {
		// The files of other systems define what this system's files define, so they are read apart.
		for _, names := range [][]string{p.GoFiles, p.IgnoredGoFiles} {
			fset := token.NewFileSet()
			var files []*ast.File
			for _, name := range names {
				if strings.HasSuffix(name, "_test.go") {
					continue
				}
				f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			list = append(list, check(strings.TrimPrefix(p.ImportPath, module+"/"), fset, files))
		}
	}
	return list
}

// at names a place relative to the package's folder.
func (s source) at(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return fmt.Sprintf("%s/%s:%d", s.name, filepath.Base(p.Filename), p.Line)
}

// process is what only cmd may touch: arguments, environment, standard streams, exit, files, the real clock. A name that ends in * stands
// for all that begin so.
var process = map[string][]string{
	"os": {"Args", "Getenv", "LookupEnv", "Environ", "Setenv", "Unsetenv", "ExpandEnv", "Exit", "Stdin", "Stdout", "Stderr", "Getwd", "Chdir",
		"Open*", "Create*", "ReadFile", "ReadDir", "WriteFile", "Mkdir*", "Remove*", "Rename", "Stat", "Lstat", "DirFS", "UserHomeDir"},
	"os/signal": {"*"},
	"fmt":       {"Print*", "Scan", "Scanf", "Scanln"},
	"log":       {"*"},
	"log/slog":  {"Debug*", "Info*", "Warn*", "Error*", "Log*", "Default", "SetDefault"},
	"flag":      {"*"},
	"time":      {"Now", "Since", "Until"},
}

// allowed names the uses that belong where they are: the file interface's one implementation, and real time in the packages that are no
// part of the product but of its tests.
var allowed = map[string][]string{
	"internal/export":       {"os.OpenFile", "os.Stat", "os.MkdirAll", "os.Rename", "os.Remove", "os.ReadDir"},
	"loadgen/wire/fake":     {"time.Now", "time.Since", "time.Until"},
	"loadgen/wire/wiretest": {"time.Now", "time.Since", "time.Until"},
}

// touched lists the uses of process in s.
func touched(s source) (list []string) {
	for _, f := range s.files {
		names := map[string]string{} // of the file's imports, by their name in it
		for _, spec := range f.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			name := path[strings.LastIndexByte(path, '/')+1:]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if _, ok := process[path]; ok && name == "." {
				list = append(list, fmt.Sprintf("%s: import . %q", s.at(spec), path))
			}
			names[name] = path
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			id, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			if _, isPackage := s.info.Uses[id].(*types.PkgName); !isPackage {
				return true
			}
			path := names[id.Name]
			for _, what := range process[path] {
				prefix, all := strings.CutSuffix(what, "*")
				use := path + "." + sel.Sel.Name
				if (sel.Sel.Name == what || all && strings.HasPrefix(sel.Sel.Name, prefix)) && !slices.Contains(allowed[s.name], use) {
					list = append(list, s.at(sel)+": "+use)
				}
			}
			return true
		})
	}
	return list
}

func TestOnlyCmdTouchesTheProcess(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasPrefix(s.name, "cmd/") {
			continue
		}
		for _, use := range touched(s) {
			t.Errorf("%s: only cmd may touch this", use)
		}
	}
}

// state lists the init functions of s and the package-level variables that can be told to change: those that are assigned to, or whose
// address is taken, outside their declaration, and those of a type made to change. A change by a method or through a copy of a map or slice
// is not seen.
func state(s source) (list []string) {
	global := func(e ast.Expr) *ast.Ident {
		for {
			switch x := e.(type) {
			case *ast.ParenExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.IndexExpr:
				e = x.X
			case *ast.SliceExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.Ident:
				if v, ok := s.info.Uses[x].(*types.Var); ok && s.pkg != nil && v.Parent() == s.pkg.Scope() {
					return x
				}
				return nil
			default:
				return nil
			}
		}
	}
	changed := func(n ast.Node, e ast.Expr) {
		if id := global(e); id != nil {
			list = append(list, fmt.Sprintf("%s: package variable %s changes", s.at(n), id.Name))
		}
	}
	for _, f := range s.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					list = append(list, fmt.Sprintf("%s: func init", s.at(d)))
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					v := spec.(*ast.ValueSpec)
					for _, name := range v.Names {
						if made := madeToChange(v); made != "" {
							list = append(list, fmt.Sprintf("%s: package variable %s is a %s", s.at(v), name.Name, made))
						}
					}
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					changed(n, e)
				}
			case *ast.IncDecStmt:
				changed(n, n.X)
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					changed(n, n.Key)
					changed(n, n.Value)
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					if _, literal := n.X.(*ast.CompositeLit); !literal {
						changed(n, n.X)
					}
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 {
					switch id.Name {
					case "delete", "clear", "copy":
						changed(n, n.Args[0])
					}
				}
			}
			return true
		})
	}
	return list
}

// madeToChange names the type of a variable that exists to be changed: a channel, and most of sync and sync/atomic. sync.OnceValue and its
// kin are functions that always give the same.
func madeToChange(v *ast.ValueSpec) string {
	kinds := []ast.Expr{v.Type}
	for _, e := range v.Values {
		if u, ok := e.(*ast.UnaryExpr); ok {
			e = u.X
		}
		if lit, ok := e.(*ast.CompositeLit); ok {
			kinds = append(kinds, lit.Type)
		}
		if call, ok := e.(*ast.CallExpr); ok {
			if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "make" {
				kinds = append(kinds, call.Args[0])
			}
		}
	}
	for _, k := range kinds {
		if star, ok := k.(*ast.StarExpr); ok {
			k = star.X
		}
		if generic, ok := k.(*ast.IndexExpr); ok {
			k = generic.X
		}
		switch k := k.(type) {
		case *ast.ChanType:
			return "channel"
		case *ast.SelectorExpr:
			if id, ok := k.X.(*ast.Ident); ok && (id.Name == "sync" || id.Name == "atomic") {
				return id.Name + "." + k.Sel.Name
			}
		}
	}
	return ""
}

func TestNoPackageState(t *testing.T) {
	for _, s := range sources(t) {
		for _, found := range state(s) {
			t.Errorf("%s: packages hold no state and do nothing when they are loaded", found)
		}
	}
}
