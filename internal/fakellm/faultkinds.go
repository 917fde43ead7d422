package fakellm

import (
	"crypto/tls"
	"slices"
)

// faultKinds is the table of faults.
func faultKinds() []faultKind {
	return slices.Concat(answerFaults(), streamFaults(), wireFaults(), connectionFaults())
}

// answerFaults are whole answers in place of the usual one, over any protocol.
func answerFaults() []faultKind {
	return []faultKind{
		{name: "status", arg: numArg, how: "503", keys: "retry-after", doc: "answer with this status and an error object", answer: answerStatus},
		{name: "long-error", arg: numArg, how: "1000000", doc: "answer 500 with an error text of so many bytes", answer: answerLongError},
		{name: "refuse-stream-options", arg: numArg, how: "400", doc: "answer a request that has stream_options with this status, any other as usual",
			answer: refuseStreamOptions},
		{name: "redirect", arg: numArg, how: "307", doc: "answer with this status and a Location on the same server", answer: answerRedirect},
		{name: "html", arg: numArg, how: "200", doc: "answer with this status and a web page, as a proxy does", answer: answerHTML},
		{name: "empty", doc: "answer 200 with no body", answer: answerEmpty},
		{name: "no-content", doc: "answer 204", answer: func(x *exchange) { x.answer(204, nil) }},
		{name: "done-only", doc: "a stream of [DONE] alone", answer: answerDoneOnly},
		{name: "error-body", arg: wordArg, how: "object", words: []string{"object", "string", "null-choices", "half", "array"},
			doc: "answer 200 with a JSON body that is no answer", answer: answerErrorBody},
		{name: "gzip", doc: "a compressed stream, which nobody asked for", answer: answerGzip},
		{name: "black-hole", doc: "take the request and never answer", answer: blackHole},
	}
}

// streamFaults change a stream. Their place is counted in content chunks; a request that asks for no stream is left alone.
func streamFaults() []faultKind {
	return []faultKind{
		{name: "error", arg: wordArg, how: "openai", keys: "at done", words: errorShapes(), doc: "an error in the stream after at chunks", script: scriptError},
		{name: "cut", arg: wordArg, how: "fin", keys: "at", words: []string{"fin", "rst", "end", "half", "half-fin", "stall", "shut"},
			doc: "the stream ends after at chunks: its connection closes or resets, the body ends properly, so with half an event, nothing comes any more, or only the server's half closes", script: scriptCut},
		{name: "no-done", doc: "a stream with a finish reason and no [DONE]", script: func(_ *Fault, s *script) { s.noDone = true }},
		{name: "no-finish", doc: "a stream with [DONE] and no finish reason", script: func(_ *Fault, s *script) { s.noFinish = true }},
		{name: "no-end", doc: "a stream whose body does not end after its [DONE]", script: func(_ *Fault, s *script) { s.after = holdOpen }},
		{name: "no-tokens", doc: "a stream with role, finish reason, usage and [DONE], and no token", script: func(_ *Fault, s *script) { s.noTokens = true }},
		{name: "malformed", arg: wordArg, how: "text", keys: "at", words: []string{"text", "json", "shape"}, doc: "an event that is no answer among the others", script: scriptMalformed},
		{name: "stall", arg: durArg, how: "300ms", keys: "at", doc: "the stream stands still so long after at chunks", script: scriptStall},
		{name: "tail", arg: durArg, how: "300ms", doc: "usage and [DONE] come so long after the last token", script: func(f *Fault, s *script) { s.tail = f.dur }},
		{name: "early-role", doc: "the role chunk comes at once, not with the first token", script: func(_ *Fault, s *script) { s.earlyRole = true }},
		{name: "pings", arg: durArg, how: "20ms", doc: "a comment every so often until the first token", script: func(f *Fault, s *script) { s.ping = f.dur }},
		{name: "eol", arg: wordArg, how: "crlf", words: []string{"lf", "crlf", "cr", "mixed"}, doc: "lines of the stream end so", script: func(f *Fault, s *script) { s.edits = append(s.edits, lineEnds(f.how)) }},
		{name: "no-space", doc: "data: without the space", script: func(_ *Fault, s *script) { s.edits = append(s.edits, noSpace) }},
		{name: "multi-data", doc: "each event's JSON in two data lines", script: func(_ *Fault, s *script) { s.edits = append(s.edits, twoDataLines) }},
		{name: "fields", doc: "each event with id, retry, event: message and a comment", script: func(_ *Fault, s *script) { s.edits = append(s.edits, moreFields) }},
		{name: "bom", doc: "a byte order mark in front of the stream", script: func(_ *Fault, s *script) { s.edits = append(s.edits, mark) }},
		{name: "wrong-type", doc: "a stream that calls itself application/json", script: func(_ *Fault, s *script) { s.contentType = "application/json" }},
		{name: "split", arg: numArg, how: "1", doc: "each event in writes of so many bytes", script: func(f *Fault, s *script) { s.split = max(int(f.num), 1) }},
		{name: "coalesce", arg: numArg, how: "10", doc: "so many events in one write", script: func(f *Fault, s *script) { s.together = max(int(f.num), 1) }},
		{name: "burst", doc: "all text in one write when the last token is due, the role chunk at once", script: func(_ *Fault, s *script) { s.earlyRole, s.together = true, 1<<30 }},
		{name: "big-event", arg: numArg, how: "2000000", doc: "the first content event has a field of so many bytes", script: func(f *Fault, s *script) { s.pad = int(f.num) }},
		{name: "tokens", arg: wordArg, how: "varying", words: []string{"varying", "all", "halves"}, doc: "1 to 5 tokens a chunk, all in one, or one in two", script: func(f *Fault, s *script) { s.tokens = f.how }},
		{name: "reasoning", arg: numArg, how: "1000000", keys: "field", doc: "so many tokens of the answer are reasoning, under this field", script: func(f *Fault, s *script) { s.reasoning, s.field = int(f.num), f.field }},
		{name: "length", arg: numArg, how: "4", doc: "the answer has so many tokens, whatever was asked for", script: func(f *Fault, s *script) { s.length = max(int(f.num), 1) }},
		{name: "tool-call", doc: "the answer is a tool call", script: func(_ *Fault, s *script) { s.tool = true }},
		{name: "usage", arg: wordArg, how: "none", words: []string{"none", "null", "cumulative", "late", "twice", "wrong", "zero", "text"},
			doc:    "usage is missing, null, in every chunk, after [DONE], said twice (the first is half), a quarter too much, 0, or texts",
			script: func(f *Fault, s *script) { s.usage = f.how }},
	}
}

// wireFaults break HTTP itself.
func wireFaults() []faultKind {
	raw := func(name, doc, head string) faultKind {
		return faultKind{name: name, doc: doc, needs: onlyHTTP1, answer: func(x *exchange) { x.say(head) }}
	}
	const good = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	return []faultKind{
		{name: "lost", arg: wordArg, how: "fin", words: []string{"fin", "rst", "shut"}, doc: "the connection closes or resets before a byte of the answer, or only the server's half closes", answer: answerLost},
		{name: "lost-kept", arg: wordArg, how: "fin", words: []string{"fin", "rst", "shut"}, doc: "the same, of a request that is not the first on its connection: an idle close that crosses it", answer: answerLostKept},
		{name: "idle-close", arg: wordArg, how: "fin", words: []string{"fin", "shut"}, needs: onlyHTTP1,
			doc: "the connection, or the server's half of it, closes after the answer, which does not say so", script: func(f *Fault, s *script) { s.after = closeQuietly(f.how) }},
		raw("head-cut", "the connection closes within the answer's head", "HTTP/1.1 200 OK\r\nContent-Ty"),
		raw("not-http", "an answer that is no HTTP", "SSH-2.0-OpenSSH_9.6\r\n"),
		raw("switch", "answer 101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
		raw("only-interim", "answer 100 and close", "HTTP/1.1 100 Continue\r\n\r\n"),
		raw("bad-chunk", "a chunk whose length is no number", ok+"Transfer-Encoding: chunked\r\n\r\nxyz\r\n"+good),
		raw("no-last-chunk", "a whole stream without the last chunk, then the connection closes", ok+"Transfer-Encoding: chunked\r\n\r\n"+chunk(good)),
		raw("short", "a Content-Length above what comes", ok+"Content-Length: 5000\r\n\r\n"+good),
		raw("two-lengths", "two Content-Lengths that differ", ok+"Content-Length: 5\r\nContent-Length: 6\r\n\r\n"+good),
		raw("to-the-end", "a body that ends with the connection", ok+"\r\n"+good),
		raw("http-1.0", "an answer of HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+good),
		raw("interim", "100 and 103 before the answer", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+ok+"Connection: close\r\n\r\n"+good),
		raw("bad-header", "a header line without a colon", ok+"Broken\r\n\r\n"+good),
		{name: "endless-head", doc: "header lines without end", needs: onlyHTTP1, answer: endlessHead},
		{name: "h2-rst", arg: wordArg, how: "INTERNAL_ERROR", words: errorCodes(), keys: "at", needs: onlyHTTP2,
			doc: "RST_STREAM with this code after at chunks, before the head where at is not given", script: scriptReset},
		{name: "h2-goaway", arg: wordArg, how: "NO_ERROR", words: errorCodes(), keys: "at", needs: onlyHTTP2,
			doc: "GOAWAY after at chunks; where at is not given before the head, as of a server that does not take the request any more", script: scriptGoAway},
		{name: "h2-breach", arg: wordArg, how: "data-first", words: []string{"data-first", "garbage", "push"}, needs: onlyHTTP2,
			doc: "DATA before the head, bytes that are no frame, or a push", script: scriptBreach},
	}
}

// connectionFaults harm a connection when it is accepted.
func connectionFaults() []faultKind {
	return []faultKind{
		{name: "conn-close", doc: "a connection closes at once", conn: func(c *conn) bool { _ = c.stamped.Close(); return false }},
		{name: "conn-reset", doc: "a connection resets at once", conn: func(c *conn) bool { c.reset(); return false }},
		{name: "conn-hang", doc: "a connection is accepted, and never read", conn: func(c *conn) bool { <-c.ctx.Done(); _ = c.stamped.Close(); return false }},
		{name: "conn-refuse", doc: "a connection resets, and the port is closed from then on", conn: func(c *conn) bool { _ = c.s.front.Listener.Close(); c.reset(); return false }},
		{name: "conn-nagle", doc: "small writes wait for the acknowledgement of those before (no TCP_NODELAY)", conn: holdSmallWrites},
		{name: "slow-reader", arg: numArg, how: "64", doc: "a connection is read so many bytes a millisecond", conn: func(c *conn) bool { c.slow = max(int(c.fault.num), 1); return true }},
		{name: "tls-plain", needs: onlyTLS, doc: "the handshake is answered in plain HTTP", conn: plainAnswer},
		{name: "tls-cut", needs: onlyTLS, doc: "a connection closes within the handshake", conn: cutHandshake},
		{name: "tls-old", needs: onlyTLS, doc: "the server speaks TLS 1.1 at most", conn: func(c *conn) bool {
			c.edit = func(t *tls.Config) { t.MinVersion, t.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }
			return true
		}},
		{name: "tls-client-cert", needs: onlyTLS, doc: "the server wants a client's certificate", conn: func(c *conn) bool {
			c.edit = func(t *tls.Config) { t.ClientAuth = tls.RequireAnyClientCert }
			return true
		}},
		{name: "tls-unknown", needs: onlyTLS, doc: "the certificate is not the one that --tls-cert-out wrote", conn: func(c *conn) bool { c.cert = c.s.unknown; return true }},
		{name: "tls-expired", needs: onlyTLS, doc: "the certificate has expired", conn: func(c *conn) bool { c.cert = c.s.expired; return true }},
		{name: "tls-name", needs: onlyTLS, doc: "the certificate is another host's", conn: func(c *conn) bool { c.cert = c.s.stranger; return true }},
	}
}
