package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefire/internal/fakellm"
)

// runMock runs `prefire mock` with args until stop is called, which returns its exit code and what it wrote to stderr. line is what it
// printed; "" where it ended instead.
func runMock(args ...string) (line string, stop func() (int, string)) {
	r, w := io.Pipe()
	signals := make(chan os.Signal, 1)
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(process{
			args: append([]string{"prefire", "mock"}, args...), stdout: w, stderr: &stderr, signals: signals,
			env: func(string) (string, bool) { return "", false },
		})
		_ = w.Close()
	}()
	line, _ = bufio.NewReader(r).ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return line, func() (int, string) {
		select {
		case signals <- os.Interrupt:
		default:
		}
		c := <-code
		return c, stderr.String()
	}
}

func TestMockServesUntilASignal(t *testing.T) {
	dir := t.TempDir()
	log, cert := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "cert.pem")
	line, stop := runMock("--tls", "--tls-cert-out", cert, "--log", log, "--model", "org/m", "--ttft", "2ms", "--itl", "1ms",
		"--prefill-per-token", "20us", "--close-after", "4", "--slots", "3", "--refuse", "429")
	url, settings, _ := strings.Cut(strings.TrimPrefix(line, "prefire mock: listening on "), " ")
	if !strings.HasPrefix(url, "https://127.0.0.1:") {
		t.Fatalf("it printed %q", line)
	}
	const want = "(ttft 2ms, + 20µs per prompt token, itl 1ms, 3 slots, then 429, close after 4 answers, keep-alive 5s, model org/m)\n"
	if settings != want {
		t.Errorf("settings %q, want %q", settings, want)
	}
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatalf("no certificate in %q", pem)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	resp, err := client.Post(url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"org/m","messages":[{"role":"user","content":"hello world"}],"stream":true,"max_tokens":3}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	client.CloseIdleConnections()
	if got := strings.Count(string(body), "data: "); got != 5 {
		t.Errorf("%d events: %s", got, body)
	}
	if code, stderr := stop(); code != 0 || stderr != "" {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var e fakellm.Entry
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	// 2 ms and 2 tokens of 20 µs.
	if e.Status != 200 || e.PromptTokens != 2 || e.OutputTokens != 3 || e.TTFTNS != 2_040_000 || e.Ended != fakellm.EndedFinished {
		t.Errorf("log: %s", text)
	}
}

func TestMockRefusesWhatCannotBe(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--port 70000", "--port is 70000; it must be from 0 (any free port) to 65535"},
		{"--tls-cert-out c.pem", "--tls-cert-out needs --tls or --h2: without them there is no certificate"},
		{"--tokenizer gpt2", `tokenizer "gpt2" is not on this machine, and nothing is downloaded. It is none of the built-in ones (builtin, o200k_base, o200k_harmony, cl100k_base, p50k_base, p50k_edit, r50k_base)`},
		{"--refuse 503", "requests can be refused only where the number of slots is limited"},
		{"--ttft -1s", "the TTFT is -1s; it must be 0 or more"},
		{"--ttft 185", `invalid argument "185" for "--ttft" flag: must be a duration like "30s"`},
		{"--fault nonsense", `--fault: fault "nonsense": there is no fault "nonsense"; --fault list names them all`},
		{"--fault tls-name", "fault tls-name needs TLS: --tls or --h2"},
		{"--log /nonexistent/x", "--log: open /nonexistent/x: no such file or directory"},
		{"--nothing", "unknown flag: --nothing"},
		{"extra", `unknown command "extra" for "prefire mock"`},
	} {
		line, stop := runMock(strings.Fields(c.args)...)
		code, stderr := stop()
		if line != "" || code != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: printed %q, exit %d, stderr %q; want %q", c.args, line, code, stderr, c.want)
		}
	}
}

func TestMockListsItsFaults(t *testing.T) {
	line, stop := runMock("--fault", "list")
	if code, stderr := stop(); code != 0 || stderr != "" || line != "status=NUMBER,retry-after=\n" {
		t.Errorf("exit %d, stderr %q, first line %q", code, stderr, line)
	}
}
