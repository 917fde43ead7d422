package parity

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"prefire/internal/fakellm"
	"prefire/loadgen/wire/fake"
	"prefire/tokenize"
)

// atOnce is how many scenarios run at a time: aiperf waits for most of a run, but its start takes a core.
const atOnce = 2

// limit bounds one run of one program.
const limit = 2 * time.Minute

// seriesLimit is for a scenario of several runs, each of which starts aiperf's processes anew.
const seriesLimit = 6 * time.Minute

// installed finds aiperf, or says why the rig does not run.
func installed() (path, vocabulary, why string) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "", err.Error()
	}
	path, given := os.LookupEnv("PREFIRE_AIPERF")
	if !given {
		path = filepath.Join(home, ".cache/peers/aiperf/bin/aiperf")
	}
	switch _, err = os.Stat(path); {
	case race:
		return "", "", "the two programs run as processes of their own, where the race detector sees nothing"
	case testing.Short():
		return "", "", "-short"
	case given && path == "":
		return "", "", "PREFIRE_AIPERF is empty"
	case err != nil:
		return "", "", "aiperf 0.13.0 is not installed: " + err.Error() + "; PREFIRE_AIPERF names its program"
	}
	if vocabulary = os.Getenv("TIKTOKEN_CACHE_DIR"); vocabulary == "" {
		vocabulary = filepath.Join(home, ".cache/peers/tiktoken-cache")
	}
	if _, err := os.Stat(vocabulary); err != nil {
		return "", "", "no vocabulary for aiperf's builtin tokenizer: " + err.Error()
	}
	return path, vocabulary, ""
}

// A run of aiperf takes ten seconds, so that only a spread of the scenarios is part of every test run.
var all = flag.Bool("parity.all", false, "run all scenarios, and not every sixth; a scenario by its name (-run) needs it too")

const spread = 6

func TestParity(t *testing.T) {
	aiperf, vocabulary, why := installed()
	if why != "" {
		t.Skip("SKIP: " + why)
	}
	dependOnSources(t)
	prefire := filepath.Join(t.TempDir(), "prefire")
	if out, err := exec.Command("go", "build", "-o", prefire, "prefire/cmd/prefire").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	list, used := scenarios(), newUsage()
	slots := make(chan struct{}, atOnce)
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range list {
			if !*all && i%spread != 0 {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				for _, d := range used.unexpected(s.name, s.run(t, aiperf, prefire, vocabulary)) {
					t.Error(d)
				}
			})
		}
	})
	// An entry that no run needs any more would hide the next difference. A run of some scenarios only (-run) proves nothing.
	if !t.Failed() && used.ran == len(list) {
		for i, a := range used.list {
			if !used.seen[i] && !a.chance {
				t.Errorf("no scenario has the allowed difference of %s", a)
			}
		}
	}
}

// dependOnSources looks at every source file of the module: go test repeats a result that it has kept until a file that the test looked at
// changes, and the program is made of packages that this one does not import.
func dependOnSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case filepath.Ext(path) == ".go" || d.Name() == "go.mod":
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// run runs both programs on the same server, one after the other, and returns where they differ.
func (s *scenario) run(t *testing.T, aiperf, prefire, vocabulary string) []difference {
	t.Helper()
	dir := t.TempDir()
	urls := strings.NewReplacer("URL2", "http://127.0.0.1:1", "URL", "http://127.0.0.1:1") // nothing listens on port 1
	var proxies []*proxy
	if s.servers >= 0 {
		for range max(1, s.servers) {
			proxies = append(proxies, newProxy(t, serve(t, s.server)))
		}
		urls = strings.NewReplacer("URL2", proxies[len(proxies)-1].url(), "URL", proxies[0].url())
	}
	file, input := filepath.Join(dir, "run.yaml"), filepath.Join(dir, "input.jsonl")
	for path, text := range map[string]string{file: strings.ReplaceAll(urls.Replace(s.config), "INPUT", input), input: s.input} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"profile"}
	for _, a := range s.args {
		switch a {
		case "FILE":
			a = file
		case "INPUT":
			a = input
		}
		args = append(args, urls.Replace(a))
	}
	args = append(args, "--artifact-dir", "out")
	one := func(name, program string, args []string) *facts {
		o := outcome{dir: filepath.Join(dir, name)}
		if err := os.Mkdir(o.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), s.limit())
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = o.dir
		cmd.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+vocabulary)
		cmd.WaitDelay = time.Second
		var stderr strings.Builder
		cmd.Stderr = &stderr
		began := time.Now()
		out, err := cmd.Output()
		if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed || ctx.Err() != nil {
			t.Fatalf("%s: %v\n%s%s", name, err, out, stderr.String())
		}
		t.Logf("%s took %.1f s", name, time.Since(began).Seconds())
		o.code, o.stdout = cmd.ProcessState.ExitCode(), string(out)
		for _, p := range proxies {
			sent, err := p.take()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			o.sent = append(o.sent, sent...)
		}
		f, err := read(o, s.shape, s.verbatim)
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", name, err, out, stderr.String())
		}
		return f
	}
	return compare(one("aiperf", aiperf, args), one("prefire", prefire, append(args, s.ours...)))
}

func (s *scenario) limit() time.Duration {
	if s.series {
		return seriesLimit
	}
	return limit
}

// serve starts a mock server and returns its address.
func serve(t *testing.T, o fakellm.Options) string {
	t.Helper()
	tokens, err := tokenize.Open("builtin")
	if err != nil {
		t.Fatal(err)
	}
	o.Clock, o.Counter = fake.NewClock(), tokens
	s, err := fakellm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return strings.TrimPrefix(s.URL(), "http://")
}

// usage keeps which allowed differences the scenarios had, and which scenarios ran.
type usage struct {
	mu   sync.Mutex
	list []allowed
	seen []bool
	ran  int
}

func newUsage() *usage {
	list := allowances()
	return &usage{list: list, seen: make([]bool, len(list))}
}

// unexpected counts a scenario in and returns those of its differences that are not allowed.
func (u *usage) unexpected(scenario string, ds []difference) []difference {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ran++
	var out []difference
	for _, d := range ds {
		covered := false
		for i, a := range u.list {
			if a.covers(scenario, d) {
				u.seen[i], covered = true, true
			}
		}
		if !covered {
			out = append(out, d)
		}
	}
	return out
}
