package main

import (
	"path/filepath"
	"strings"
	"testing"

	"prefire/loadgen/wire/wiretest"
)

// A server that never ends what it says costs neither the run nor its memory: each answer is given up at its bound, and is a failure with its reason.
func TestAnswersWithoutAnEndAreGivenUp(t *testing.T) {
	const piece = 1 << 16
	for _, tt := range []struct {
		name, head, endless string
		want                string // of the error
		code                int
	}{
		{"error body", "HTTP/1.1 500 Internal Server Error\r\n\r\n", "x", "xxxx", 500},
		{"header field", "HTTP/1.1 200 OK\r\nX: ", "x", "the answer's head is longer than 1 MiB", 400},
		{"header fields", "HTTP/1.1 200 OK\r\n", "X-A: b\r\n", "the answer's head is longer than 1 MiB", 400},
		{"interim answers", "", "HTTP/1.1 103 Early Hints\r\n\r\n", "the answer's head is longer than 1 MiB", 400},
		{"event", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ", "x", "67108864", 0},
		{"answer", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", "x", "the answer is longer than 67108864 bytes", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && (tt.name == "event" || tt.name == "answer") {
				t.Skip("SKIP: -short leaves out answers of 64 MiB each")
			}
			more := strings.Repeat(tt.endless, piece/len(tt.endless))
			raw := wiretest.NewPeer(t, func(p *wiretest.Peer) {
				if p.Request() == nil {
					return
				}
				p.Say(tt.head)
				for {
					if _, err := p.Write([]byte(more)); err != nil {
						return
					}
				}
			})
			dir := t.TempDir()
			p := <-start(nil, nil, profileArgs("http://"+raw.Addr, dir, "--no-prewarm", "--concurrency", "2", "--request-count", "2")...)
			var sum struct {
				Errors []struct {
					Details struct {
						Code    int
						Message string
					} `json:"error_details"`
					Count int
				} `json:"error_summary"`
			}
			readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &sum)
			if p.code != exitFailed || len(sum.Errors) != 1 || sum.Errors[0].Count != 2 {
				t.Fatalf("exit %d, errors %+v\n%s", p.code, sum.Errors, p.stderr)
			}
			if d := sum.Errors[0].Details; d.Code != tt.code || !strings.Contains(d.Message, tt.want) || len(d.Message) > 4096 {
				t.Errorf("code %d, %d bytes: %.200s; want %d and %q", d.Code, len(d.Message), d.Message, tt.code, tt.want)
			}
		})
	}
}

// A thousand ways to fail are a thousand entries, and no more however many there are.
func TestDistinctErrorsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	dir := t.TempDir()
	raw := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for r := p.Request(); r != nil; r = p.Request() {
			p.Say("HTTP/1.1 500 Oops\r\nContent-Length: 36\r\n\r\n" + r.Header.Get("X-Request-ID"))
		}
	})
	p := <-start(nil, nil, profileArgs("http://"+raw.Addr, dir, "--no-prewarm", "--concurrency", "4", "--request-count", "1200")...)
	var sum struct {
		Errors []struct{ Count int64 } `json:"error_summary"`
	}
	path := filepath.Join(dir, "profile_export_aiperf.json")
	readJSON(t, path, &sum)
	all := int64(0)
	for _, e := range sum.Errors {
		all += e.Count
	}
	if p.code != exitFailed || len(sum.Errors) > 1001 || all != 1200 {
		t.Errorf("exit %d, %d entries of %d errors", p.code, len(sum.Errors), all)
	}
}
