package fakellm

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestFaultsAreReadOrRefusedByName(t *testing.T) {
	for _, c := range []struct{ text, how, want string }{
		{"status", "503", ""},
		{"status=429,retry-after=2,times=1:0.25", "429", ""},
		{"status,after=3", "503", ""},
		{"cut=rst,at=3:0.1", "rst", ""},
		{"stall=1.5s,at=2", "1.5s", ""},
		{"empty:1", "", ""},
		{"nonsense", "", `there is no fault "nonsense"; --fault list names them all`},
		{"status=9", "", `"9" is no status from 200 to 599`},
		{"status=503:2", "", `the share is "2"; it must be a fraction above 0 and at most 1`},
		{"status:x", "", `the share is "x"`},
		{"cut=sideways", "", `"sideways" is none of fin, rst, end, half, half-fin, stall`},
		{"stall=5", "", `"5" is no time; allowed: 20ms, 1.5s, 2m`},
		{"split=-1", "", `"-1" is no number from 0 on`},
		{"status=503,at=3", "", `it has no key "at"; it takes after, times, path, retry-after`},
		{"empty=3", "", `"3" has no place in it`},
		{"cut=fin,at=x", "", `at is "x"; it must be a whole number from 0`},
		{"conn-close,times=2", "", `it has no key "times"; it takes after`},
		{"reasoning=3,field=thought", "", `field is "thought"; it must be reasoning, reasoning_content or reasoning_details`},
	} {
		f, err := ParseFault(c.text)
		switch {
		case c.want == "" && (err != nil || f.how != c.how):
			t.Errorf("%q: %q, %v; want %q", c.text, f.how, err, c.how)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: %v; want %q", c.text, err, c.want)
		}
	}
	list := Faults()
	for _, k := range faultKinds() {
		if set := fmt.Sprint(k.answer != nil, k.script != nil, k.conn != nil); strings.Count(set, "true") != 1 {
			t.Errorf("%s has answer, script, conn %s; want one of them", k.name, set)
		}
		if !strings.Contains("\n"+list, "\n"+k.name) {
			t.Errorf("the list lacks %s", k.name)
		}
		if _, err := ParseFault(k.name); err != nil {
			t.Errorf("%s by its name alone: %v", k.name, err)
		}
	}
}

func mustParse(t *testing.T, texts ...string) (fs []Fault) {
	t.Helper()
	for _, text := range texts {
		f, err := ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		fs = append(fs, f)
	}
	return fs
}

// prompted is a request for one token.
func prompted(prompt string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"max_tokens":1}`, prompt)
}

// Who is harmed by what depends on the seed and the request alone, and the log says it.
func TestFaultsAreSharedOutBySeed(t *testing.T) {
	harmed := func(seed uint64, order []int) (out []string) {
		s := start(t, Options{Seed: seed, Faults: mustParse(t, "status=503:0.3", "html=502:0.2"), KeepLog: true})
		for _, i := range order {
			r, err := http.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(prompted(fmt.Sprint("prompt ", i))))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			entries, err := s.Wait(t.Context(), len(out)+1)
			if err != nil {
				t.Fatal(err)
			}
			e := entries[len(out)]
			if want := map[string]int{"": 200, "status=503": 503, "html=502": 502}[e.Fault]; r.StatusCode != want || e.Status != want {
				t.Errorf("fault %q: status %d, %d in the log; want %d", e.Fault, r.StatusCode, e.Status, want)
			}
			out = append(out, fmt.Sprint(i, e.Fault))
		}
		slices.Sort(out)
		return out
	}
	order := make([]int, 200)
	for i := range order {
		order[i] = i
	}
	one := harmed(1, order)
	slices.Reverse(order)
	if again := harmed(1, order); !slices.Equal(one, again) {
		t.Error("the same seed harms other requests in another order")
	}
	if other := harmed(2, order); slices.Equal(one, other) {
		t.Error("another seed harms the same requests")
	}
	n := map[string]int{}
	for _, s := range one {
		n[strings.TrimLeft(s, "0123456789")]++
	}
	// Four standard deviations of a binomial of 200.
	if a, b := n["status=503"], n["html=502"]; a < 60-26 || a > 60+26 || b < 40-23 || b > 40+23 {
		t.Errorf("%v; want about 60 and 40 of 200", n)
	}
}

func TestFaultsSpareTheFirstAndEndAfterSoManyTimes(t *testing.T) {
	s := start(t, Options{Faults: mustParse(t, "status=503,after=2,times=2")})
	var got []int
	for _, prompt := range []string{"a", "b", "c", "c", "c", "d", "c", "d", "d"} {
		r, err := http.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(prompted(prompt)))
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		got = append(got, r.StatusCode)
	}
	if want := []int{200, 200, 503, 503, 200, 503, 200, 503, 200}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r, err := http.Get(s.URL() + "/health")
	if err != nil || r.StatusCode != 200 {
		t.Errorf("a fault without a path harms /health: %v, %v", r, err)
	}
	_ = r.Body.Close()
}

func TestFaultsOfPathsAndThoseThatCannotBe(t *testing.T) {
	s := start(t, Options{Faults: mustParse(t, "status=500,path=/health")})
	for path, want := range map[string]int{"/health": 500, "/v1/models": 200} {
		r, err := http.Get(s.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	for text, want := range map[string]string{
		"h2-rst":                  "fault h2-rst needs HTTP/2: --h2 or --h2c",
		"tls-expired":             "fault tls-expired needs TLS: --tls or --h2",
		"status=500:0.7 html:0.7": "the shares of the faults add up to 1.4; together they must be 1 at most",
	} {
		_, err := New(Options{Clock: s.o.Clock, Counter: s.o.Counter, Faults: mustParse(t, strings.Fields(text)...)})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
