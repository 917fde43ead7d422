package main

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"prefire/internal/fakellm"
	"prefire/loadgen/wire/wiretest"
)

// planted are secrets of every kind that a run can be given, by where they stand.
func planted() map[string]string {
	return map[string]string{
		"key": "SEKRET-key-1", "header": "SEKRET-header-2", "query": "SEKRET-query-3", "body": `SEKRET-"body"-4`, "proxy": "SEKRET-proxy-5",
	}
}

// noSecret reports each of the planted secrets in a text, as it is, as JSON writes it, and as an address does.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for kind, s := range planted() {
		for _, form := range []string{s, strings.ReplaceAll(s, `"`, `\"`), url.QueryEscape(s)} {
			if strings.Contains(text, form) {
				t.Errorf("%s holds the secret of the %s", where, kind)
			}
		}
	}
}

// Whatever a command prints, writes or leaves when it is killed holds no secret, though the server repeats all that it is told.
func TestNoCommandLeaksASecret(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	s := planted()
	const event = `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":" a"},"finish_reason":"stop"}]}` + "\n\n"
	var n atomic.Int64
	raw := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for r := p.Request(); r != nil; r = p.Request() {
			all := fmt.Sprint(r.Header["Authorization"], r.Header["X-Auth-Token"], r.RequestURI, s["body"])
			body := fmt.Sprintf(`{"error":{"message":%q}}`, all)
			switch {
			case r.Method == "GET":
				p.Say(fmt.Sprintf("HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			case n.Add(1)%3 == 0:
				p.Say(fmt.Sprintf("HTTP/1.1 500 Oops %s\r\nContent-Length: %d\r\n\r\n%s", strings.ReplaceAll(all, `"`, ""), len(body), body))
			case n.Load()%3 == 1:
				p.Say(wiretest.StreamHead + wiretest.Chunk(event) + wiretest.Chunk("data: "+body+"\n\n") + "0\r\n\r\n")
			default:
				p.Say(wiretest.StreamHead + wiretest.Chunk(event) + "0\r\n\r\n")
			}
		}
	})
	root := t.TempDir()
	dir := func(name string) string { return filepath.Join(root, name) }
	given := func(to string, more ...string) []string {
		return append([]string{"--model", "m", "--url", "http://" + raw.Addr + "/x?api_key=" + s["query"], "--api-key", s["key"], "--header", "X-Auth-Token:" + s["header"],
			"--extra-inputs", fmt.Sprintf(`{"nested":{"token":%q}}`, s["body"]), "--proxy", "http://me:" + s["proxy"] + "@p:1", "--streaming", "--tokenizer", "builtin",
			"--isl", "32", "--osl", "4", "--ui", "none", "--artifact-dir", to}, more...)
	}
	config := dir("run.yaml")
	text := fmt.Sprintf("schema_version: '2.0'\nbenchmark:\n  model: m\n  endpoint: {url: 'http://%s?api_key=%s', api_key: %s, streaming: true, headers: {X-Auth-Token: %s}, extra: {token: '%s'},\n"+
		"    network: {proxy: 'http://me:%s@p:1'}}\n  dataset: {type: synthetic, isl: 32, osl: 4}\n  tokenizer: {name: builtin}\n  phases: {type: concurrency, requests: 4, concurrency: 1}\n",
		raw.Addr, s["query"], s["key"], s["header"], s["body"], s["proxy"])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// What a run leaves where it is killed is there after one whose files could not all be written.
	if err := os.MkdirAll(filepath.Join(dir("broken"), ".profile_export.hlog.tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{append([]string{"profile"}, given(dir("run"), "--request-count", "6")...), exitOK},
		{append([]string{"profile"}, given(dir("broken"), "--request-count", "6")...), exitFailed},
		{[]string{"recover", dir("broken")}, exitFailed}, // the folder is still there; what it could write is
		{[]string{"profile", "--config", config, "--artifact-dir", dir("file"), "--ui", "none"}, exitOK},
		{[]string{"config", "validate", config}, exitOK},
		{append([]string{"profile"}, given(dir("bad"), "--request-count", "0")...), exitFailed},
		{append([]string{"profile"}, given(dir("bad"), "--request-count", "1", "--ca-file", "none")...), exitFailed},
		{append([]string{"longcontext"}, given(dir("scan"), "--request-count", "3", "--isl", "16,32")...), -1},
		{[]string{"debias", dir("run")}, exitOK},
		{[]string{"report", dir("run"), "-o", dir("report.html")}, -1},
	} {
		p := <-start(nil, nil, tt.args...)
		if tt.code >= 0 && p.code != tt.code {
			t.Errorf("%s: exit %d, want %d\n%s", tt.args[0], p.code, tt.code, p.stderr)
		}
		noSecret(t, "the screen of "+tt.args[0], p.stdout+p.stderr)
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, root)
	for name, text := range files {
		noSecret(t, name, text)
	}
	for _, want := range []string{"run/inputs.json", "run/profile_export.jsonl", "file/inputs.json", "broken/" + journalFile, "broken/" + noteFile} {
		if !slices.Contains(slices.Collect(maps.Keys(files)), filepath.Join(root, want)) {
			t.Errorf("there is no %s among %d files", want, len(files))
		}
	}
	if !strings.Contains(files[dir("run/inputs.json")], `"token": "<redacted>"`) {
		t.Errorf("inputs.json does not show that a field of the body is left out:\n%.400s", files[dir("run/inputs.json")])
	}
}

// A key among the arguments is overwritten where other users can read them, as far as the system lets a process do that.
func TestTheProcessTitleHoldsNoSecret(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIP: the arguments of a process cannot be overwritten here")
	}
	s := planted()
	mock := serve(t, fakellm.Options{TTFT: time.Minute})
	cmd := exec.Command(asPrefire(t), profileArgs(mock.URL(), t.TempDir(), "--request-count", "1", "--no-prewarm", "--api-key", s["key"], "--header=X-Auth-Token:"+s["header"],
		"--extra-inputs", "token:"+s["body"])...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := mock.WaitInFlight(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.ReplaceAll(string(title), "\x00", " ")
	noSecret(t, "the process's title", shown)
	if want := "--api-key xxxxxxxxxxxx --header=X-Auth-Token:xxxxxxxxxxxxxxx"; !strings.Contains(shown, want) {
		t.Errorf("the title is %q, want %q in it", shown, want)
	}
}
