package parity

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// allowed is a difference that is meant, with the numbered line of docs/differences.md that says so.
type allowed struct {
	line     int
	path     string // of the fact; * stands for anything
	scenario string // "" = all
	only     string // "aiperf" or "prefire": the fact is that program's alone
}

func (a allowed) String() string { return fmt.Sprintf("%d %s (%s)", a.line, a.path, a.scenario) }

func list() []allowed { return nil }

func (a allowed) covers(scenario string, d difference) bool {
	switch {
	case a.scenario != "" && a.scenario != scenario,
		a.only == "aiperf" && d.prefire != "",
		a.only == "prefire" && d.aiperf != "":
		return false
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(a.path), `\*`, ".*") + "$"
	return regexp.MustCompile(pattern).MatchString(d.path)
}

func (u *usage) start(scenario string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ran[scenario] = true
}

func (u *usage) allows(scenario string, d difference) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := false
	for i, a := range list() {
		if a.covers(scenario, d) {
			u.seen[i], found = true, true
		}
	}
	return found
}

func (u *usage) runs() int { return len(u.ran) }

func (u *usage) idle() []allowed {
	var out []allowed
	for i, a := range list() {
		if !u.seen[i] {
			out = append(out, a)
		}
	}
	return out
}

// Every allowed difference is told to users, under the number that the list names.
func TestAllowedDifferencesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list() {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^%d\. `, a.line)).Match(b) {
			t.Errorf("docs/differences.md has no line %d, which the allowed difference %q points to", a.line, a.path)
		}
	}
}
