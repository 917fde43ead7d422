package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
)

var vnu = flag.String("report.vnu", "", "path of vnu.jar, the Nu HTML checker (npm pack vnu-jar); it runs offline and needs java")

// newer are properties of CSS that the checker does not know yet: of CSS Containment 3, and SVG 2's paint-order.
func newer() []string {
	return []string{"CSS: “paint-order”: Property “paint-order” doesn't exist.", "CSS: “container-type”: Property “container-type” doesn't exist.", "CSS: Unrecognized at-rule “@container”"}
}

// The checker behind validator.w3.org has nothing to say of any kind of page.
func TestValidator(t *testing.T) {
	if *vnu == "" {
		t.Skip("SKIP: -report.vnu names no checker; validate holds each page to the same rules, as far as it knows them")
	}
	capacity, _ := capacityMade(t, "request_rate", false)
	scanned := fstest.MapFS{"longcontext.json": {Data: []byte(scanMade)}, "isl512/profile_export.jsonl": {}}
	swept, err := os.ReadFile("../export/testdata/series/sweep.json")
	if err != nil {
		t.Fatal(err)
	}
	series := fstest.MapFS{"sweep_aggregate/profile_export_aiperf_sweep.json": {Data: swept}, "a/profile_export.jsonl": {}}
	var compared bytes.Buffer
	pair := comparisonMade()
	if err := Compare(&compared, Options{Name: "b (B) against a (A)"}, runOf(50), runOf(60), []Comparison{pair, pair}); err != nil {
		t.Fatal(err)
	}
	dir, named := t.TempDir(), Options{Name: "a folder", Version: "1"}
	args := []string{"-Xss8m", "-jar", *vnu, "--format", "json", "--exit-zero-always", "--stdout"}
	for i, page := range []string{made(t, os.DirFS("testdata/prefire"), named), made(t, os.DirFS("../procedure/testdata/aiperf-0.13.0"), named), made(t, capacity, named),
		made(t, scanned, named), made(t, series, named), compared.String()} {
		name := filepath.Join(dir, fmt.Sprintf("%d.html", i))
		if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	out, err := exec.CommandContext(t.Context(), "java", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Messages []struct {
			URL, Message, Extract string
		}
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Messages) == 0 {
		t.Error("the checker says nothing at all: did it read the pages?")
	}
	for _, m := range found.Messages {
		if !slices.Contains(newer(), m.Message) {
			t.Errorf("%s: %s: %s", filepath.Base(m.URL), m.Message, m.Extract)
		}
	}
}
