package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"prefire/loadgen/wire/wiretest"
)

// A server may repeat the key in whatever it says: to the prewarm and to the load, in a body, an event, or its reason phrase.
func TestNoSecretThatAServerRepeatsIsKept(t *testing.T) {
	const key = "SEKRET-123"
	const event = `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":" a"},"finish_reason":"stop"}]}` + "\n\n"
	var n atomic.Int64
	raw := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for r := p.Request(); r != nil; r = p.Request() {
			auth := r.Header.Get("Authorization")
			body := fmt.Sprintf(`{"error":{"message":"bad key %s"}}`, auth)
			switch {
			case r.Method == "GET":
				p.Say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			case n.Add(1) <= 4: // the prewarm's three tries, and a request
				p.Say(fmt.Sprintf("HTTP/1.1 500 Oops %s\r\nContent-Length: %d\r\n\r\n%s", auth, len(body), body))
			case n.Load() == 5:
				p.Say(wiretest.StreamHead + wiretest.Chunk(event) + wiretest.Chunk("data: "+body+"\n\n") + "0\r\n\r\n")
			default:
				p.Say(wiretest.StreamHead + wiretest.Chunk(event) + "0\r\n\r\n")
			}
		}
	})
	dir := t.TempDir()
	p := <-start(nil, nil, profileArgs("http://"+raw.Addr, dir, "--concurrency", "1", "--request-count", "4", "--api-key", key)...)
	sum := readSummary(t, dir)
	if c := sum.Prefire.Counts; p.code != exitOK || c.OK != 2 || c.Failed != 2 {
		t.Fatalf("exit %d, %+v\n%s", p.code, c, p.stderr)
	}
	if strings.Contains(p.stdout+p.stderr, key) {
		t.Errorf("the screen shows the key:\n%s%s", p.stdout, p.stderr)
	}
	for name, text := range filesOf(t, dir) {
		if strings.Contains(text, key) {
			t.Errorf("%s holds the key", name)
		}
	}
}

// A key may stand in a URL's query, and the errors of the prewarm name the path.
func TestAnErrorBeforeTheLoadDoesNotShowTheQuery(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	p := <-start(nil, nil, profileArgs(s.URL+"/x?key=SEKRET-123", t.TempDir(), "--request-count", "1")...)
	if p.code != exitFailed || !strings.Contains(p.stderr, "(/x/v1/chat/completions)") || strings.Contains(p.stdout+p.stderr, "SEKRET-123") {
		t.Errorf("exit %d\n%s%s", p.code, p.stdout, p.stderr)
	}
}

// filesOf are the texts of all files below a folder.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		texts[path] = string(b)
		return err
	})
	if err != nil || len(texts) == 0 {
		t.Fatalf("%d files: %v", len(texts), err)
	}
	return texts
}
