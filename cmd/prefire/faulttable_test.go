package main

import (
	"flag"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
	"prefire/metrics"
)

var faultReport = flag.Bool("fault.report", false, "print what came of every case of the table of faults")

// faultCase is what must come of requests that meet a fault. The numbers in front are those of the reports of users that it stands for.
type faultCase struct {
	fault string
	ways  []way // nil = the reactor alone: where the answer's meaning matters and not what brought it
	run   faultRun
	// Of an answer.
	chunks     int32  // content events; 0 = faultTokens
	out        int64  // tokens of output; 0 = faultTokens less reasoning; -1 = none
	reasoning  int64  // tokens of reasoning
	usage      int64  // completion tokens by usage; 0 = faultTokens; -1 = absent
	text       string // "" = the same as without a fault; other = another, which is not compared
	cold       string // reasons of the second request
	attempts   int32
	once       bool   // the first request is sent again, and the others need not be
	anyChunks  bool   // at least one, at most a token each
	unended    bool   // the bodies go on after [DONE]
	secondOnly bool   // the first request meets nothing
	race       bool   // the request may have been on its way when its connection closed, or not
	absent     string // metrics, separated by spaces
	// Of a failure: what it is, where | separates what may be. kept is how many chunks had come.
	kind    string
	code    int
	words   string
	kept    int32
	anyKept bool
}

const (
	noResponses = "No responses were received from the server"
	noContent   = "No responses with actual content were received from the server"
	patience    = 120 * time.Millisecond // with servers that do not answer
)

// faultsAnswered are faults that a right client does not fall over.
func faultsAnswered() []faultCase {
	cases := []faultCase{
		{fault: "", ways: everyWay},
		{fault: "no-done", ways: everyWay},   // 53
		{fault: "no-finish", ways: everyWay}, // 53
		{fault: "no-end", ways: []way{viaReactor, viaTLS}, cold: "dialled", unended: true}, // 68
		{fault: "no-end", ways: []way{viaH2C}, unended: true},
		{fault: "malformed=text,at=2"}, // 38
		{fault: "malformed=json,at=2", ways: everyWay},
		{fault: "malformed=shape,at=2"},
		{fault: "malformed=text,at=0"},
		{fault: "stall=60ms,at=3", ways: everyWay}, // 22
		{fault: "tail=60ms", ways: everyWay},       // 12
		{fault: "early-role", ways: everyWay},      // 1
		{fault: "pings=10ms", ways: everyWay},      // 2, 52
		{fault: "tokens=all", chunks: 1, ways: everyWay, absent: "inter_token_latency time_to_second_token inter_chunk_latency output_token_throughput_per_user"},
		{fault: "tokens=halves", chunks: 2 * faultTokens}, // 26
		{fault: "tokens=halves", chunks: 2 * faultTokens, run: faultRun{perChunk: true}},
		{fault: "coalesce=4", ways: everyWay},                                                                          // 19
		{fault: "burst", ways: everyWay},                                                                               // 21
		{fault: "big-event", ways: everyWay},                                                                           // 55
		{fault: "reasoning", reasoning: faultTokens, out: -1, absent: "time_to_first_output_token output_token_count"}, // 3, 6, 7
		{fault: "reasoning=3", reasoning: 3},                                                                           // 3
		{fault: "reasoning=3,field=reasoning_content", reasoning: 3},                                                   // 4
		{fault: "reasoning=3,field=reasoning_details", reasoning: 3},                                                   // 4
		{fault: "tool-call", text: "other"},                                                                            // 8
		{fault: "usage=none", usage: -1, absent: "usage_completion_tokens usage_prompt_tokens"},                        // 26
		{fault: "usage=null", usage: -1, absent: "usage_completion_tokens usage_prompt_tokens"},
		{fault: "usage=cumulative"}, // 13, 24
		{fault: "usage=late", ways: everyWay},
		{fault: "usage=twice"},
		{fault: "usage=wrong", usage: faultTokens + faultTokens/4}, // 25, 28
		{fault: "usage=zero", usage: 0, text: "", absent: ""},
		{fault: "usage=text", usage: -1, absent: "usage_completion_tokens"},
		{fault: "refuse-stream-options", usage: -1, ways: everyWay, attempts: 2, once: true}, // 35
		{fault: "refuse-stream-options=422", usage: -1, attempts: 2, once: true},
		{fault: "status=429,retry-after=0,times=2", ways: everyWay, attempts: 3, run: faultRun{retries: 2}}, // 44
		{fault: "status=429,retry-after=0.05,times=1", attempts: 2, run: faultRun{retries: 5}},              // 44
		{fault: "", run: faultRun{whole: true}, chunks: 1, absent: "time_to_first_token inter_token_latency"},
		{fault: "reasoning=3", run: faultRun{whole: true}, chunks: 1, reasoning: 3, absent: "time_to_first_token"},       // 29
		{fault: "tokens=varying", ways: []way{viaReactor, viaH2}, anyChunks: true},                                       // 14, 16, 17
		{fault: "tokens=varying", anyChunks: true, run: faultRun{perChunk: true}},                                        // 14
		{fault: "length=5", chunks: 5, out: 5, usage: 5, text: "other", ways: []way{viaReactor, viaH2}},                  // 27
		{fault: "length=40", chunks: 40, out: 40, usage: 40, text: "other"},                                              // 27
		{fault: "", run: faultRun{prompt: 300_000}, ways: everyWay, text: "other"},                                       // 55
		{fault: "stall=60ms,at=3", run: faultRun{sessions: 8, requests: 16}, ways: everyWay, text: "other", cold: "any"}, // 60
		{fault: "lost-kept", ways: http1, cold: "dialled resent", attempts: 2, secondOnly: true},                         // 50
		{fault: "lost-kept=rst", ways: http1, cold: "dialled resent", attempts: 2, secondOnly: true},
		{fault: "lost-kept=shut", ways: http1, cold: "dialled resent", attempts: 2, secondOnly: true},
		{fault: "idle-close=shut", ways: http1, cold: "dialled", attempts: 2, race: true},
		{fault: "idle-close", ways: http1, cold: "dialled", attempts: 2, race: true}, // 50
		{fault: "h2-rst=REFUSED_STREAM,times=1", ways: []way{viaH2, viaH2C}, cold: "resent", attempts: 2},
		{fault: "h2-goaway,times=1", ways: []way{viaH2, viaH2C}, cold: "dialled resent", attempts: 2},
		{fault: "h2-goaway,at=3", ways: []way{viaH2, viaH2C}, cold: "dialled"},
		{fault: "h2-goaway=ENHANCE_YOUR_CALM,at=3", ways: []way{viaH2}, cold: "dialled"},
	}
	for _, f := range []string{"eol=crlf", "eol=cr", "eol=mixed", "no-space", "multi-data", "fields", "bom", "wrong-type", "split=1", "split=7"} { // 51, 52
		cases = append(cases, faultCase{fault: f, ways: everyWay})
	}
	for _, f := range []string{"to-the-end", "http-1.0", "interim"} {
		cases = append(cases, faultCase{fault: f, ways: http1, chunks: 1, out: 1, usage: -1, text: "other", cold: "dialled"})
	}
	return cases
}

// faultsFailed are faults by which a request has failed.
func faultsFailed() []faultCase {
	const (
		payload = "ClientPayloadError"
		result  = "InvalidInferenceResultError"
		head    = "ClientResponseError"
		gone    = "ServerDisconnectedError"
	)
	cases := []faultCase{
		{fault: "status", ways: everyWay, kind: "Service Unavailable", code: 503, words: "fault: status 503"},                 // 40, 41, 46
		{fault: "status=429,retry-after=1", ways: everyWay, kind: "Too Many Requests", code: 429, words: "fault: status 429"}, // 44
		{fault: "status=429,retry-after=0", kind: "Too Many Requests", code: 429, words: "429", run: faultRun{retries: 2}, attempts: 3},
		{fault: "status=429,retry-after=90000", kind: "Too Many Requests", code: 429, words: "429", run: faultRun{retries: 2}},
		{fault: "status=400", kind: "Bad Request", code: 400, words: "fault: status 400"}, // 59
		{fault: "status=401", kind: "Unauthorized", code: 401, words: "fault"},
		{fault: "status=404", kind: "Not Found", code: 404, words: "fault"},
		{fault: "status=422", kind: "Unprocessable Entity", code: 422, words: "fault"},
		{fault: "status=500", kind: "Internal Server Error", code: 500, words: "fault"},
		{fault: "status=503,times=2", kind: "Service Unavailable", code: 503, words: "fault"}, // 43: nothing is retried behind the user's back
		{fault: "long-error", ways: everyWay, kind: "Internal Server Error", code: 500, words: "xxxx..."},
		{fault: "redirect", ways: everyWay, kind: "Temporary Redirect", code: 307, words: "moved"},
		{fault: "redirect=302", kind: "Found", code: 302, words: "moved"},
		{fault: "html", ways: everyWay, kind: result, words: noContent + " (only usage/metadata, null/empty data, or [DONE] markers); the body, which calls itself text/html; charset=utf-8, " +
			"is no answer and begins with: <!DOCTYPE html> <html>"},
		{fault: "html=502", ways: everyWay, kind: "Bad Gateway", code: 502, words: "<title>Sign in</title>"}, // 73
		{fault: "empty", ways: everyWay, kind: result, words: noResponses},                                   // 10
		{fault: "no-content", ways: everyWay, kind: result, words: noResponses},
		{fault: "done-only", ways: everyWay, kind: result, words: noContent}, // 10
		{fault: "no-tokens", ways: everyWay, kind: result, words: noContent}, // 2
		{fault: "error-body=object", kind: "SSEResponseError", code: 502, words: "the model is gone"},
		{fault: "error-body=string", kind: "SSEResponseError", code: 502, words: "the model is gone"},
		{fault: "error-body=null-choices", kind: result, words: noContent},
		{fault: "error-body=half", kind: result, words: `is no answer and begins with: {"object":"chat.completion"`},
		{fault: "error-body=array", kind: result, words: "is no answer and begins with: [1,2,3]"},
		{fault: "gzip", ways: everyWay, kind: payload, words: "the answer is compressed (Content-Encoding: gzip), which the request did not allow"},
		{fault: "black-hole", ways: everyWay, kind: "TimeoutError", words: "TimeoutError", run: faultRun{timeout: patience, requests: 1}},              // 49
		{fault: "cut=stall,at=3", ways: everyWay, kind: "TimeoutError", words: "TimeoutError", run: faultRun{timeout: patience, requests: 1}, kept: 3}, // 106
		{fault: "cut=stall,at=0", kind: "TimeoutError", words: "TimeoutError", run: faultRun{timeout: patience, requests: 1}},
		{fault: "cut=fin,at=0", ways: everyWay, kind: payload, words: "Response payload is not completed"},
		{fault: "cut=fin,at=3", ways: everyWay, kind: payload, words: "Response payload is not completed", kept: 3},
		{fault: "cut=rst,at=3", ways: everyWay, kind: payload, words: "Response payload is not completed", anyKept: true}, // 48; a reset may overtake what was sent
		{fault: "cut=end,at=0", kind: result, words: noResponses, ways: everyWay},
		{fault: "cut=end,at=3", ways: everyWay, kind: result, words: "The stream was cut: it ended after 3 content chunks without finish_reason and without [DONE]", kept: 3}, // 53
		{fault: "cut=half,at=3", ways: everyWay, kind: result, words: "The stream was cut: it ended after 3 content chunks", kept: 3},                                         // 38
		{fault: "cut=half-fin,at=3", ways: everyWay, kind: payload, words: "Response payload is not completed", kept: 3},                                                      // 38
		{fault: "cut=shut,at=3", ways: everyWay, kind: payload, words: "Response payload is not completed", kept: 3},
		{fault: "lost=fin", ways: everyWay, kind: gone, words: "Server disconnected"},
		{fault: "lost=shut", ways: everyWay, kind: gone, words: "Server disconnected"},
		{fault: "lost=rst", ways: http1, kind: "ClientOSError", words: "connection reset by peer"},
		{fault: "lost=rst", ways: []way{viaH2}, kind: gone, words: "connection reset by peer"},
		{fault: "head-cut", ways: http1, kind: gone, words: "Server disconnected within the head of its answer"},
		{fault: "only-interim", ways: http1, kind: gone, words: "Server disconnected within the head of its answer"},
		{fault: "not-http", ways: http1, kind: head, code: 400, words: `malformed HTTP response "SSH-2.0-OpenSSH_9.6"`},
		{fault: "switch", ways: http1, kind: head, code: 400, words: "101 Switching Protocols, which was not asked for"},
		{fault: "bad-header", ways: http1, kind: head, code: 400, words: `malformed HTTP header line "Broken"`},
		{fault: "two-lengths", ways: http1, kind: head, code: 400, words: "malformed HTTP Content-Length"},
		{fault: "endless-head", ways: http1, kind: head, code: 400, words: "the answer's head is longer than 1 MiB"},
		{fault: "bad-chunk", ways: http1, kind: payload, words: "the chunked body is malformed"},
		{fault: "no-last-chunk", ways: http1, kind: payload, words: "closed before the last chunk", kept: 1},
		{fault: "short", ways: http1, kind: payload, words: "closed before all of Content-Length", kept: 1},
		{fault: "h2-rst", ways: []way{viaH2, viaH2C}, kind: gone, words: "the server reset the stream (INTERNAL_ERROR)"},
		{fault: "h2-rst=CANCEL,at=3", ways: []way{viaH2, viaH2C}, kind: payload, words: "the server reset the stream (CANCEL)", kept: 3},
		{fault: "h2-rst=REFUSED_STREAM", ways: []way{viaH2}, kind: gone, words: "the server reset the stream (REFUSED_STREAM)", attempts: 2},
		{fault: "h2-goaway", ways: []way{viaH2, viaH2C}, kind: gone, words: "the server sent GOAWAY (NO_ERROR): fault", attempts: 2},
		{fault: "h2-breach", ways: []way{viaH2}, kind: head, words: "DATA before the head"},
		{fault: "h2-breach=garbage", ways: []way{viaH2}, kind: gone, words: "the server broke HTTP/2 (FRAME_SIZE_ERROR)"},
		{fault: "h2-breach=push", ways: []way{viaH2}, kind: gone, words: "the server broke HTTP/2 (PROTOCOL_ERROR)"},
	}
	for _, shape := range []string{"openai", "string", "object", "type", "numbered", "event", "event-text", "event-empty"} { // 12, 37
		cases = append(cases, faultCase{fault: "error=" + shape + ",at=3", ways: []way{viaReactor, viaH2}, kind: "SSEResponseError", code: 502, words: "the engine died", kept: 3})
	}
	return append(cases, faultCase{fault: "error=openai,at=0", ways: everyWay, kind: "SSEResponseError", code: 502, words: "the engine died"})
}

// Every fault has the outcome that a right client gives it, whatever transport brought the answer: answers are answered with true times and
// counts, failures are failures with a kind and the server's words, and nothing of them is in a latency.
func TestFaultsHaveTheirOutcomes(t *testing.T) {
	answers, failures := faultsAnswered(), faultsFailed()
	n := 0
	for _, w := range []way{viaReactor, viaPortable, viaTLS, viaH2, viaH2C} {
		t.Run(string(w), func(t *testing.T) {
			quick := newFaultServer(t, w, fakellm.Options{}, faultClient{})
			paced := newFaultServer(t, w, fakellm.Options{TTFT: 40 * time.Millisecond, ITL: time.Millisecond}, faultClient{})
			plain := quick.run(t, faultRun{requests: 2}).texts
			for _, list := range [][]faultCase{answers, failures} {
				for i := range list {
					c := &list[i]
					if c.ways == nil && w != viaReactor || c.ways != nil && !slices.Contains(c.ways, w) {
						continue
					}
					n++
					s := quick
					if slices.Contains([]string{"early-role", "pings=10ms", "burst"}, c.fault) {
						s = paced
					}
					o := c.run
					o.fault = c.fault
					if o.requests == 0 {
						o.requests = 2
					}
					e := s.run(t, o)
					// Where the machine stands still, the time runs out before all that is to come before it.
					for o.timeout > 0 && o.timeout < time.Minute && e.records[0].Chunks < c.kept {
						o.timeout *= 4
						e = s.run(t, o)
					}
					if *faultReport {
						t.Logf("%s %s: %+v %v", w, c.fault, e.acc.Counts(), e.records[0].Err)
					}
					if c.kind != "" {
						c.fails(t, e)
					} else {
						c.answers(t, s, e, plain)
					}
				}
			}
		})
	}
	if *faultReport {
		t.Logf("%d cases of %d kinds", n, len(answers)+len(failures))
	}
}

// answers checks requests that were answered.
func (c *faultCase) answers(t *testing.T, s *faultServer, e *ended, plain []string) {
	t.Helper()
	want := func(v, usual int64) int64 {
		switch v {
		case 0:
			return usual
		case -1:
			return 0
		}
		return v
	}
	out := want(c.out, faultTokens-c.reasoning)
	usage := metrics.Known(want(c.usage, faultTokens))
	if c.usage == -1 {
		usage = metrics.Count{}
	}
	if c.fault == "usage=zero" {
		usage = metrics.Known(0)
	}
	for i := range e.records {
		r := &e.records[i]
		if r.Err != nil {
			t.Errorf("%q: request %d failed: %v", c.fault, i, *r.Err)
			continue
		}
		chunks, attempts := int32(want(int64(c.chunks), faultTokens)), c.attempts
		cold := strings.Join(r.Cold.Names(), " ")
		switch {
		case c.once && i > 0, c.secondOnly && i == 0:
			attempts = 0
		case c.race && r.Attempts == 0:
			attempts = 0
		case c.race:
			cold = strings.TrimSuffix(cold, " resent")
		}
		if c.anyChunks && r.Chunks >= 1 && r.Chunks <= chunks {
			chunks = r.Chunks
		}
		if r.Chunks != chunks || r.Out != metrics.Known(out) || r.Reasoning.N != c.reasoning || r.Usage.Completion != usage || r.Attempts != attempts {
			t.Errorf("%q: request %d has %d chunks, %v and %v tokens, %v by usage, %d attempts; want %d, %d, %d, %v, %d",
				c.fault, i, r.Chunks, r.Out, r.Reasoning, r.Usage.Completion, r.Attempts, chunks, out, c.reasoning, usage, attempts)
		}
		joined := strings.ReplaceAll(plain[min(i, len(plain)-1)], "|", "")
		if parts := strings.Split(e.texts[i], "|"); c.text == "" && parts[1]+parts[0] != joined {
			t.Errorf("%q: request %d has the text %q, want %q", c.fault, i, parts[1]+parts[0], joined)
		}
		if i > 0 && cold != c.cold && c.cold != "any" {
			t.Errorf("%q: request %d is cold for %v, want %q", c.fault, i, r.Cold.Names(), c.cold)
		}
		// Whatever shares its read has no gap; nor has what came with the stamp of the read before, as where two reads take one packet in parts.
		if int(r.SharedReads) > countShared(r) || len(r.Gaps) != int(max(r.Chunks-1, 0)) {
			t.Errorf("%q: request %d has %d shared reads, %d gaps without a measurement of %d, for %d chunks", c.fault, i, r.SharedReads, countShared(r), len(r.Gaps), r.Chunks)
		}
		c.timed(t, i, r, s.of(t, r.RequestID))
	}
	if n := s.transport.Health().Unended - e.unended; c.unended != (n == int64(len(e.records))) || !c.unended && n != 0 {
		t.Errorf("%q: %d bodies went on after [DONE]", c.fault, n)
	}
	if got := e.results["time_to_first_token"]; c.run.whole == (got.Def != nil) || got.Def != nil && got.Count != int64(len(e.records)) {
		t.Errorf("%q: TTFT of %d requests, want %d", c.fault, got.Count, len(e.records))
	}
	for tag := range strings.FieldsSeq(c.absent) {
		if r, ok := e.results[tag]; ok {
			t.Errorf("%q: %s is %v, want it absent", c.fault, tag, r.Avg)
		}
	}
	sane(t, c.fault, e)
}

func countShared(r *metrics.Record) (n int) {
	for _, g := range r.Gaps {
		if g == metrics.Shared {
			n++
		}
	}
	return n
}

// timed holds a request's first and last token against the server's log.
func (c *faultCase) timed(t *testing.T, i int, r *metrics.Record, entries []fakellm.Entry) {
	t.Helper()
	last := &entries[len(entries)-1]
	if last.Ended == fakellm.EndedFault || c.run.whole {
		return // its writes are one, or raw
	}
	first, ok := last.Find(fakellm.WriteContent)
	if !ok {
		if first, ok = last.Find(fakellm.WriteFinish); !ok {
			t.Errorf("%q: request %d: the server wrote no content: %+v", c.fault, i, last)
			return
		}
	}
	// Both clocks are the process's own: times since arrival compare. A request has arrived between its start and its last write.
	took := r.First - r.Start
	if earliest := first.BeforeNS - entries[0].ArrivedNS; took < earliest-int64(wallGrain) {
		t.Errorf("%q: request %d has a TTFT of %d ns, and the server began to write %d ns after the request had come", c.fault, i, took, earliest)
	}
	if slack := int64(r.FirstSlack) * 1000; c.fault != "big-event" && r.First-slack-r.HTTP.LastWrite > first.AfterNS-last.ArrivedNS+softirq {
		t.Errorf("%q: request %d has its first token %d ns after its last write, %d of them slack; the server had written %d after its arrival", c.fault, i, r.First-r.HTTP.LastWrite, slack,
			first.AfterNS-last.ArrivedNS)
	}
}

// fails checks requests that failed.
func (c *faultCase) fails(t *testing.T, e *ended) {
	t.Helper()
	for i := range e.records {
		r := &e.records[i]
		if r.Err == nil {
			t.Errorf("%q: request %d has not failed", c.fault, i)
			continue
		}
		if !slices.Contains(strings.Split(c.kind, "|"), r.Err.Type) || r.Err.Code != c.code || c.words == "" ||
			!slices.ContainsFunc(strings.Split(c.words, "|"), func(w string) bool { return strings.Contains(r.Err.Message, w) }) {
			t.Errorf("%q: request %d: %d %s: %s; want %d %s: %s", c.fault, i, r.Err.Code, r.Err.Type, r.Err.Message, c.code, c.kind, c.words)
		}
		if len(r.Err.Message) > 4096 {
			t.Errorf("%q: an error text of %d bytes", c.fault, len(r.Err.Message))
		}
		if (r.Chunks != c.kept || c.anyKept) && !(c.anyKept && r.Chunks <= 3) || r.Attempts != c.attempts {
			t.Errorf("%q: request %d: %d chunks had come, in %d attempts; want %d, %d", c.fault, i, r.Chunks, r.Attempts, c.kept, c.attempts)
		}
		if r.End < r.Start || r.Out.Known || r.Usage != (metrics.Usage{}) && r.Chunks == 0 && r.Usage.Completion.N > 0 {
			t.Errorf("%q: request %d ends %d ns after its start, has %v tokens", c.fault, i, r.End-r.Start, r.Out)
		}
	}
	for _, r := range e.results {
		if r.Def.ColdOut || r.Def.Tag == "request_count" || r.Def.Tag == "output_sequence_length" || r.Def.Tag == "usage_completion_tokens" {
			t.Errorf("%q: %s is %v, and all requests failed", c.fault, r.Def.Tag, r.Avg)
		}
	}
	if n := e.results["error_request_count"].Avg; n != float64(len(e.records)) {
		t.Errorf("%q: error_request_count is %v, want %d", c.fault, n, len(e.records))
	}
	if errs := e.acc.Errors(); len(errs) != 1 && !strings.Contains(c.kind, "|") && !strings.HasPrefix(c.fault, "lost=rst") && !strings.HasPrefix(c.fault, "cut=rst") {
		t.Errorf("%q: %d kinds of errors: %+v", c.fault, len(errs), errs)
	}
	sane(t, c.fault, e)
}

// sane checks what holds for any result.
func sane(t *testing.T, name string, e *ended) {
	t.Helper()
	for tag, r := range e.results {
		for what, v := range map[string]float64{"avg": r.Avg, "min": r.Min, "max": r.Max, "p99": r.P[8]} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 && tag != "osl_mismatch_diff_pct" {
				t.Errorf("%q: %s has the %s %v", name, tag, what, v)
			}
		}
		if !r.Scalar && (r.Min > r.Max || r.P[8] > r.Max) {
			t.Errorf("%q: %s is from %v to %v, with a p99 of %v", name, tag, r.Min, r.Max, r.P[8])
		}
	}
}
