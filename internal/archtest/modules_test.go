package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// row is a line of the table in docs/dependencies.md: the module in back quotes, then its version.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^ |]+) \\| [^|]+ \\| [^|]+ \\|$")

// Every direct dependency has its reason written down, at the version that go.mod takes.
func TestDependenciesAreListed(t *testing.T) {
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = m[2]
	}
	for _, r := range mod.Require {
		if r.Indirect {
			continue
		}
		if listed[r.Path] != r.Version {
			t.Errorf("go.mod requires %s %s; docs/dependencies.md has %q for it", r.Path, r.Version, listed[r.Path])
		}
		delete(listed, r.Path)
	}
	for path, version := range listed {
		t.Errorf("docs/dependencies.md lists %s %s, which go.mod does not require directly", path, version)
	}
}
