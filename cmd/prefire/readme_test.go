package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

// shell returns the README's shell blocks, continued lines joined.
func shell(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, strings.TrimSpace(string(m[1])))
	}
	return blocks
}

// Every command of the README is run: by this test, in an empty folder, against a server in the place of the user's; or by what it names.
func TestTheReadmesCommandsWork(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIP: the README's commands are for a POSIX shell, and there is no bash")
	}
	if testing.Short() {
		t.Skip("SKIP: a minute of whole programs, each of which other tests run too")
	}
	s := serve(t, fakellm.Options{TTFT: 2 * time.Millisecond, ITL: time.Millisecond})
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "prefire")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("../../docs/longcontext.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Five minutes a length is for real servers.
	short := strings.Replace(strings.ReplaceAll(string(config), "http://127.0.0.1:8000", s.URL()), "duration: 300", "duration: 0.3", 1)
	if err := os.WriteFile(filepath.Join(dir, "docs", "longcontext.yaml"), []byte(short), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"prompts.jsonl": `{"text":"a","output_length":2}` + "\n",
		"trace.jsonl":   `{"timestamp":0,"input_length":20,"output_length":2,"hash_ids":[1]}` + "\n" + `{"timestamp":20,"input_length":20,"output_length":2,"hash_ids":[1]}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, block := range shell(t) {
		switch {
		case block == "go run ./cmd/prefire demo": // TestTheDemoFindsWhatItsServerDoes
		case block == "go test ./...": // .ci/run
		case block == "CGO_ENABLED=0 go build -trimpath -o prefire ./cmd/prefire": // .ci/run; this test is that binary
		case strings.HasPrefix(block, "./prefire mock "):
			args := strings.Fields(strings.Replace(strings.TrimPrefix(block, "./prefire mock "), "--port 8000", "--port 0", 1))
			line, stop := runMock(args...)
			if code, stderr := stop(); !strings.Contains(line, "ttft 185ms, itl 5ms") || code != exitOK {
				t.Errorf("%s\nprinted %q and ended with %d: %s", block, line, code, stderr)
			}
		default:
			// Ten minutes of search are for real servers too.
			block = strings.ReplaceAll(block, "--benchmark-duration 60", "--benchmark-duration 0.3 --search-from 2 --search-to 2")
			cmd := exec.Command(bash, "-euo", "pipefail", "-c", strings.ReplaceAll(block, "http://127.0.0.1:8000", s.URL()))
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "API_KEY=sk-readme-key")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s\n%v\n%s", block, err, out)
			}
			ran++
		}
	}
	if ran != 10 {
		t.Errorf("%d blocks were run here, want 10: does the README still have them?", ran)
	}
	if sum := readSummary(t, filepath.Join(dir, "results", "first")); sum.Requests.Avg != 100 || sum.ISL.Avg != 1024 || sum.OSL.Avg != 128 {
		t.Errorf("the first run has %v requests of %v and %v tokens, want 100, 1024, 128", sum.Requests.Avg, sum.ISL.Avg, sum.OSL.Avg)
	}
	for _, isl := range []string{"512", "1024", "2048", "4096"} {
		sum := readSummary(t, filepath.Join(dir, "results", "longcontext", "my-model", "isl"+isl))
		if sum.ISL.Avg != sum.ISL.Max || sum.ISL.Avg != sum.ISL.Min || sum.ISL.Avg < 512 {
			t.Errorf("isl%s: ISL avg %v min %v max %v", isl, sum.ISL.Avg, sum.ISL.Min, sum.ISL.Max)
		}
		// The demo's answers are short: a machine that stalls while they run does not get all ten out, and then the run says so itself.
		if n := sum.Prefire.Phases[0].InFlightMax; n != 10 && (n > 10 || sum.claims(t, "load")) {
			t.Errorf("isl%s: %d in flight, want 10, and the load is claimed all the same", isl, n)
		}
	}
	if r := readCapacity(t, filepath.Join(dir, "results", "capacity")); !r.Finished || len(r.Steps) != 1 || r.Steps[0].Figures.Load != 2 {
		t.Errorf("the capacity run: %+v, want one load of 2 sessions", r)
	}
	if sum := readSummary(t, filepath.Join(dir, "results", "trace")); sum.Requests.Avg != 2 || sum.ISL.Avg != 20 {
		t.Errorf("the trace has %v requests of %v tokens, want 2 of 20", sum.Requests.Avg, sum.ISL.Avg)
	}
	if sum := readSummary(t, filepath.Join(dir, "results", "config")); sum.Requests.Avg != 20 || sum.ISL.Avg != 512 {
		t.Errorf("the run by a config file has %v requests of %v tokens, want 20 of 512", sum.Requests.Avg, sum.ISL.Avg)
	}
	var swept aggregate
	readJSON(t, filepath.Join(dir, "results", "sweep", "aggregate", "concurrency_8", "profile_export_aiperf_aggregate.json"), &swept)
	if swept.Metadata.Successful != 2 {
		t.Errorf("the sweep's last variation has %d runs that count, want 2", swept.Metadata.Successful)
	}
	if sum := readSummary(t, filepath.Join(dir, "results", "linked")); sum.Requests.Avg != 10 {
		t.Errorf("the run under aiperf's name has %v requests, want 10", sum.Requests.Avg)
	}
}
