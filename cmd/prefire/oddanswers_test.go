package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
	"prefire/loadgen/wire/wiretest"
)

// An answer that is not quite one fails, or its figures are absent where they would be wrong, and the screen names what it was.
func TestAnswersThatAreNotQuiteAnswers(t *testing.T) {
	delta := func(delta, more string) string {
		return wiretest.Chunk(fmt.Sprintf("data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":%s%s}]}\n\n", delta, more))
	}
	const done = "data: [DONE]\n\n"
	stream := func(parts ...string) string {
		return wiretest.StreamHead + strings.Join(parts, "") + wiretest.Chunk(done) + "0\r\n\r\n"
	}
	whole := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	content, stop := delta(`{"content":"one two"}`, ""), delta(`{}`, `,"finish_reason":"stop"`)
	for _, tt := range []struct {
		name, answer string
		ok           bool
		ttft         bool // there is one
		says         string
		unfit        bool // to claim TTFT
	}{
		{"a document in the place of a stream", whole(`{"object":"chat.completion","choices":[{"message":{"content":"one two"},"finish_reason":"stop"}]}`), true, false,
			"3 of 3 answers were no streams, though streams were asked for", false},
		{"given up by the server", stream(content, delta(`{}`, `,"finish_reason":"abort"`)), false, false, `The server gave the answer up: finish_reason "abort"`, false},
		{"given up by the server, in a document", whole(`{"object":"chat.completion","choices":[{"message":{"content":"one"},"finish_reason":"error"}]}`), false, false,
			`finish_reason "error"`, false},
		{"an event that is half a document", stream(content, wiretest.Chunk("data: {\"object\":\"chat\n\n"), content, stop), true, true, "3 of 3 answers had events that could not be read", false},
		{"an error as FastAPI writes it", stream(content, wiretest.Chunk("data: {\"detail\":\"boom\"}\n\n")), false, false, "boom", false},
		{"text under another name", stream(delta(`{"speech":"zero"}`, ""), content, stop), true, true, `3 of 3 answers began with text under "speech"`, true},
		{"all text under another name", stream(delta(`{"speech":"zero"}`, ""), stop), false, false, `there was text under "speech"`, false},
		{"thinking", stream(delta(`{"thinking":"zero"}`, ""), content, stop), true, true, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			raw := wiretest.NewPeer(t, func(p *wiretest.Peer) {
				for p.Request() != nil {
					p.Say(tt.answer)
				}
			})
			p := <-start(nil, nil, profileArgs("http://"+raw.Addr, dir, "--no-prewarm", "--include-cold", "--concurrency", "1", "--request-count", "3")...)
			var sum struct {
				TTFT *struct {
					Count int64
				} `json:"time_to_first_token"`
				Prefire struct {
					Counts struct{ OK, Failed int64 }
					Client struct {
						Verdicts []struct {
							Claim string
							Good  bool
						}
					}
				}
			}
			readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &sum)
			if why := "all 3 requests failed"; strings.Contains(p.stderr, why) == tt.ok {
				t.Errorf("stderr: %s; want %q: %v", p.stderr, why, !tt.ok)
			}
			c := sum.Prefire.Counts
			if want := map[bool]int64{true: 3}[tt.ok]; c.OK != want || c.Failed != 3-want {
				t.Errorf("%+v, want %d ok of 3", c, want)
			}
			if (sum.TTFT != nil) != tt.ttft || tt.ttft && sum.TTFT.Count != 3 {
				t.Errorf("TTFT %+v, want it: %v", sum.TTFT, tt.ttft)
			}
			screen := strings.Join(strings.Fields(strings.NewReplacer("│", " ").Replace(p.stdout)), " ")
			if tt.says != "" && !strings.Contains(screen, tt.says) {
				t.Errorf("the screen does not say %q:\n%s", tt.says, p.stdout)
			}
			for _, v := range sum.Prefire.Client.Verdicts {
				if v.Claim == "TTFT" && tt.unfit && v.Good {
					t.Error("the client is fit to claim TTFT")
				}
				if v.Claim == "TTFT" && !tt.ttft {
					t.Error("there is a verdict on TTFT")
				}
			}
		})
	}
}

func TestChoicesAsked(t *testing.T) {
	s, dir := serve(t, fakellm.Options{}), t.TempDir()
	p := must(t, profileArgs(s.URL(), dir, "--request-count", "2", "--concurrency", "1", "--extra-inputs", "n:2")...)
	if !strings.Contains(strings.Join(strings.Fields(p.stdout), " "), "n is 2: an answer's tokens are those of all its choices") {
		t.Errorf("the screen does not name the choices:\n%s", p.stdout)
	}
}

// A file of records that somebody takes away while it grows is missed, and those who wait for the mark that all is there are told.
func TestRecordsThatAreTakenAway(t *testing.T) {
	dir := t.TempDir()
	records := filepath.Join(dir, "profile_export.jsonl")
	n := 0
	raw := wiretest.NewPeer(t, func(p *wiretest.Peer) {
		for p.Request() != nil {
			if n++; n == 6 {
				for os.Remove(records) != nil { // it is made once the first record is counted
					runtime.Gosched()
				}
			}
			p.Say(wiretest.StreamHead + wiretest.Chunk("data: {\"choices\":[{\"delta\":{\"content\":\"one\"},\"finish_reason\":\"stop\"}]}\n\n") + "0\r\n\r\n")
		}
	})
	p := <-start(nil, nil, profileArgs("http://"+raw.Addr, dir, "--no-prewarm", "--concurrency", "1", "--request-count", "6")...)
	if p.code != exitFailed || !strings.Contains(p.stderr, records+" was taken away or replaced while it was written") {
		t.Errorf("exit %d\n%s", p.code, p.stderr)
	}
	var ready struct {
		Partial bool
		Failed  []string `json:"failed_exporters"`
	}
	readJSON(t, filepath.Join(dir, ".aiperf_results_ready.json"), &ready)
	if !ready.Partial || len(ready.Failed) != 1 || ready.Failed[0] != "profile_export.jsonl" {
		t.Errorf("the mark says %+v", ready)
	}
	must(t, "recover", dir)
	if got := len(readRecords(t, dir)); got != 6 {
		t.Errorf("%d records are recovered, want 6", got)
	}
}

// A run that has no answered request ends with a reason.
func TestARunWithoutAnAnswerSaysWhy(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		o          fakellm.Options
		args       []string
	}{
		{"nothing due", "no request was sent: none was due before the end of the run", fakellm.Options{},
			[]string{"--request-rate", "0.05", "--arrival-pattern", "constant", "--benchmark-duration", "0.2"}},
		{"all cut", "none of the 2 requests was answered before the end of the run and its grace", fakellm.Options{TTFT: time.Hour},
			[]string{"--no-prewarm", "--concurrency", "2", "--benchmark-duration", "0.1", "--benchmark-grace-period", "0"}},
	} {
		s, dir := serve(t, tt.o), t.TempDir()
		p := <-start(nil, nil, profileArgs(s.URL(), dir, tt.args...)...)
		if p.code != exitFailed || !strings.Contains(p.stderr, tt.want) {
			t.Errorf("%s: exit %d, want %q\n%s", tt.name, p.code, tt.want, p.stderr)
		}
	}
}
