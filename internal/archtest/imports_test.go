package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "prefire"

// rule says what of ours a package may import. Its tests may import the shared packages as well.
type rule struct {
	may []string
	// offline packages hold no network: not even net is theirs to import.
	offline bool
}

// rules is the table of the packages, named without the module.
var rules = map[string]rule{
	"sse":     {offline: true},
	"metrics": {offline: true},
	"tokenize": {may: []string{"tokenize/internal/scan", "tokenize/internal/vocab", "tokenize/internal/heap", "tokenize/internal/hf"},
		offline: true},
	"tokenize/internal/scan":  {offline: true},
	"tokenize/internal/vocab": {offline: true},
	"tokenize/internal/heap":  {offline: true},
	"tokenize/internal/hf": {may: []string{"tokenize/internal/scan", "tokenize/internal/vocab", "tokenize/internal/heap"},
		offline: true},
	"loadgen/wire":                  {may: []string{"sse"}},
	"loadgen/wire/stamp":            {may: []string{"loadgen/wire"}},
	"loadgen/wire/h2":               {may: []string{"loadgen/wire", "loadgen/wire/stamp"}},
	"loadgen/wire/http1":            {may: []string{"loadgen/wire"}},
	"loadgen/wire/pooling":          {may: []string{"loadgen/wire", "loadgen/wire/http1"}},
	"loadgen/wire/portable":         {may: []string{"loadgen/wire", "loadgen/wire/stamp", "loadgen/wire/h2", "loadgen/wire/http1", "loadgen/wire/pooling"}},
	"loadgen/wire/reactor":          {may: []string{"loadgen/wire", "loadgen/wire/stamp", "loadgen/wire/http1", "loadgen/wire/pooling"}},
	"loadgen/wire/fake":             {may: []string{"loadgen/wire", "sse"}},
	"loadgen/wire/wiretest":         {may: []string{"loadgen/wire", "loadgen/wire/fake", "loadgen/wire/stamp", "sse"}},
	"loadgen":                       {may: []string{"loadgen/wire", "metrics"}},
	"loadgen/script":                {may: []string{"internal/endpoint", "loadgen", "loadgen/wire", "metrics"}},
	"internal/orjson":               {offline: true},
	"internal/control":              {may: []string{"internal/endpoint", "loadgen/wire"}},
	"internal/endpoint":             {may: []string{"internal/orjson", "loadgen", "loadgen/wire", "metrics"}},
	"internal/dataset":              {may: []string{"loadgen", "tokenize", "metrics"}, offline: true},
	"internal/jinja":                {offline: true},
	"internal/config/templates":     {offline: true},
	"internal/sweep":                {offline: true},
	"internal/config":               {may: []string{"internal/jinja", "internal/sweep", "metrics"}, offline: true},
	"internal/servermetrics":        {may: []string{"metrics"}, offline: true},
	"internal/servermetrics/scrape": {may: []string{"internal/servermetrics", "loadgen/wire"}},
	"internal/export":               {may: []string{"internal/orjson", "internal/servermetrics", "internal/sweep", "metrics"}, offline: true},
	"internal/collect":              {may: []string{"internal/orjson", "loadgen", "metrics"}, offline: true},
	"internal/fakellm":              {may: []string{"sse", "tokenize", "loadgen/wire", "loadgen/wire/stamp"}},
	"internal/procedure":            {may: []string{"loadgen", "metrics"}, offline: true},
	"internal/archtest":             {offline: true},
	"internal/parity":               {},
	"internal/bench":                {may: []string{"internal/fakellm", "loadgen/wire", "loadgen/wire/stamp"}},
	"cmd/bench":                     {may: []string{"internal/bench", "internal/dataset", "loadgen", "loadgen/wire", "metrics", "tokenize"}},
	"internal/reach": {
		may: []string{"loadgen/wire", "loadgen/wire/http1", "loadgen/wire/pooling"}},
	"internal/report": {
		may: []string{"metrics", "internal/procedure", "internal/report/chart", "internal/report/digest"}, offline: true},
	"internal/report/chart": {
		offline: true},
	"internal/report/dashboard": {
		may: []string{"metrics"}, offline: true},
	"internal/report/livemetrics": {
		may: []string{"metrics"}, offline: true},
	"internal/report/digest": {
		may: []string{"internal/procedure"}, offline: true},
	"internal/dataset/files": {
		may: []string{"internal/dataset", "internal/orjson", "loadgen", "tokenize", "metrics"}, offline: true},
	"cmd/prefire": {may: []string{"sse", "metrics", "tokenize", "loadgen", "loadgen/wire", "loadgen/wire/stamp", "loadgen/wire/h2",
		"loadgen/wire/portable", "loadgen/wire/reactor", "internal/endpoint", "internal/dataset", "internal/dataset/files", "internal/config", "internal/config/templates", "internal/export", "internal/collect",
		"internal/control", "internal/servermetrics", "internal/servermetrics/scrape", "internal/reach", "internal/fakellm", "internal/procedure", "internal/report", "internal/report/chart", "internal/report/dashboard", "internal/report/livemetrics", "internal/sweep"}},
}

// shared are the packages that any test may import: servers and transports to test against, the decoder that reads what they send, and the
// small way to run a plan.
var shared = []string{"internal/fakellm", "loadgen/script", "loadgen/wire", "loadgen/wire/fake", "loadgen/wire/wiretest", "loadgen/wire/portable",
	"loadgen/wire/stamp", "sse", "tokenize"}

// network are the parts of the standard library that reach it.
var network = []string{"net", "net/http", "net/http/httptest", "net/http/httptrace", "net/rpc", "net/smtp", "crypto/tls"}

type pkg struct {
	ImportPath, Dir                    string
	GoFiles, IgnoredGoFiles            []string // those that this system builds, and the others
	Imports, TestImports, XTestImports []string
}

// packages lists the module's packages.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json", module+"/...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 10 {
		t.Fatalf("go list names %d packages only", len(list))
	}
	return list
}

// root is the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		seen[name] = true
		r, ok := rules[name]
		if !ok {
			t.Errorf("package %s has no line in the table of imports", name)
			continue
		}
		for _, path := range p.Imports {
			ours, ok := strings.CutPrefix(path, module+"/")
			if ok && !slices.Contains(r.may, ours) {
				t.Errorf("%s imports %s; it may import %v of ours", name, ours, r.may)
			}
			if r.offline && slices.Contains(network, path) {
				t.Errorf("%s imports %s; it holds no network", name, path)
			}
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			ours, ok := strings.CutPrefix(path, module+"/")
			if ok && ours != name && !slices.Contains(r.may, ours) && !slices.Contains(shared, ours) {
				t.Errorf("the tests of %s import %s; they may import %v and %v of ours", name, ours, r.may, shared)
			}
		}
	}
	for name := range rules {
		if !seen[name] {
			t.Errorf("the table of imports has a line for %s, which is no package", name)
		}
	}
}

// A table that lets two packages import each other would be no direction at all.
func TestTableHasNoCycle(t *testing.T) {
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		if slices.Contains(path, name) {
			t.Fatalf("the table of imports goes round: %v", append(path, name))
		}
		for _, next := range rules[name].may {
			if _, ok := rules[next]; !ok {
				t.Errorf("%s may import %s, which has no line of its own", name, next)
			}
			visit(next, append(slices.Clone(path), name))
		}
	}
	for name := range rules {
		visit(name, nil)
	}
}
