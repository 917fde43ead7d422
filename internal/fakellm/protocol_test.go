package fakellm

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"prefire/loadgen/wire"
)

// transport is a client for what s speaks.
func transport(t *testing.T, s *Server, http1, http2, h2c bool) *http.Transport {
	p := new(http.Protocols)
	p.SetHTTP1(http1)
	p.SetHTTP2(http2)
	p.SetUnencryptedHTTP2(h2c)
	tr := &http.Transport{Protocols: p}
	if s.CertPool() != nil {
		tr.TLSClientConfig = &tls.Config{RootCAs: s.CertPool()}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// kernelStamps waits until the kernel stamps arrivals, which it does until the test's end, and returns what the log then says of them.
func kernelStamps(t *testing.T) string {
	if runtime.GOOS != "linux" {
		return StampUser
	}
	s := start(t, Options{})
	for i := range 2000 {
		resp, err := http.Get(s.URL() + "/health")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if entries(t, s, i+1)[i].Stamp == StampKernel {
			return StampKernel
		}
	}
	t.Fatal("no request out of 2000 had the kernel's stamp")
	return ""
}

func TestProtocols(t *testing.T) {
	wantStamp := kernelStamps(t)
	for name, c := range map[string]struct {
		o                   Options
		http1, http2, h2c   bool
		protocol, scheme    string
		wantConns, wantUses int64
	}{
		"HTTP/1.1":             {Options{}, true, false, false, "HTTP/1.1", "http://", 1, 3},
		"HTTP/1.1 over TLS":    {Options{TLS: true}, true, true, false, "HTTP/1.1", "https://", 1, 3},
		"HTTP/2 over TLS":      {Options{H2: true}, true, true, false, "HTTP/2.0", "https://", 1, 3},
		"HTTP/1.1 beside h2":   {Options{H2: true}, true, false, false, "HTTP/1.1", "https://", 1, 3},
		"h2c":                  {Options{H2C: true}, false, false, true, "HTTP/2.0", "http://", 1, 3},
		"HTTP/1.1 beside h2c":  {Options{H2C: true}, true, false, false, "HTTP/1.1", "http://", 1, 3},
		"close after, h2c":     {Options{H2C: true, CloseAfter: 2}, false, false, true, "HTTP/2.0", "http://", 2, 1},
		"close after, h2":      {Options{H2: true, CloseAfter: 2}, true, true, false, "HTTP/2.0", "https://", 2, 1},
		"close after, TLS 1.1": {Options{TLS: true, CloseAfter: 2}, true, false, false, "HTTP/1.1", "https://", 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.TTFT = 3 * time.Millisecond
			s := start(t, c.o)
			if !strings.HasPrefix(s.URL(), c.scheme) {
				t.Errorf("URL %s", s.URL())
			}
			tr := transport(t, s, c.http1, c.http2, c.h2c)
			for i := range 3 {
				req, err := http.NewRequest("POST", s.URL()+chatPath, strings.NewReader(chatBody(3000, 4)))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Request-ID", fmt.Sprint("id-", i))
				resp, body := roundTrip(t, tr, req)
				if resp.StatusCode != 200 || strings.Count(body, "data: ") != 6 {
					t.Errorf("%d %q", resp.StatusCode, body)
				}
				e := entries(t, s, i+1)[i]
				if e.Protocol != c.protocol || e.XRequestID != fmt.Sprint("id-", i) || e.PromptTokens != 3000 || e.Ended != EndedFinished {
					t.Errorf("log: %+v", e)
				}
				if e.Stamp != wantStamp || e.ArrivedNS > e.ArrivedUserNS {
					t.Errorf("arrived at %d (%s), held at %d", e.ArrivedNS, e.Stamp, e.ArrivedUserNS)
				}
				if got := since(e.Writes[1].DueNS, e.ArrivedNS); got != 3*time.Millisecond {
					t.Errorf("the first token was due %v after arrival", got)
				}
				for _, w := range e.Writes {
					if w.BeforeNS < w.DueNS || w.AfterNS < w.BeforeNS || w.BeforeNS < e.ArrivedUserNS {
						t.Errorf("write %+v of a request that arrived at %d", w, e.ArrivedUserNS)
					}
				}
			}
			if e := s.Entries()[2]; e.Connection != c.wantConns || e.Use != c.wantUses || s.Connections() != c.wantConns {
				t.Errorf("the last request was use %d of connection %d of %d", e.Use, e.Connection, s.Connections())
			}
		})
	}
}

// TestManyStreams sends many requests at once over one connection; each arrival must be that request's own.
func TestManyStreams(t *testing.T) {
	s := start(t, Options{H2C: true, TTFT: 2 * time.Millisecond, ITL: time.Millisecond})
	tr := transport(t, s, false, false, true)
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			req, err := http.NewRequest("POST", s.URL()+chatPath, strings.NewReader(chatBody(2000, 3)))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Request-ID", fmt.Sprint("id-", i))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			var b bytes.Buffer
			if _, err := b.ReadFrom(resp.Body); err != nil || !strings.HasSuffix(b.String(), "data: [DONE]\n\n") {
				t.Errorf("%q: %v", b.String(), err)
			}
			_ = resp.Body.Close()
		})
	}
	wg.Wait()
	for _, e := range entries(t, s, n) {
		if e.Stamp == StampBound {
			t.Errorf("%s has no arrival of its own", e.XRequestID)
		}
	}
	if got := s.MaxInFlight(); got < 1 || got > n {
		t.Errorf("%d at most in flight", got)
	}
}

func TestHTTP2ArrivalWithoutRequestIDIsABound(t *testing.T) {
	s := start(t, Options{H2C: true})
	req, err := http.NewRequest("GET", s.URL()+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, transport(t, s, false, false, true), req)
	if got := entries(t, s, 1)[0].Stamp; got != StampBound {
		t.Errorf("stamp %q", got)
	}
}

func TestColdTLSDelaysTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{TLS: true, ColdTLS: 700 * time.Millisecond})
		from := time.Now()
		c := tls.Client(dial(), &tls.Config{RootCAs: s.CertPool(), ServerName: "localhost"})
		if err := c.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(from); got != 700*time.Millisecond {
			t.Errorf("the handshake took %v", got)
		}
		from = time.Now()
		newClient(t, c).do("GET", "/health", "")
		if got := time.Since(from); got != 0 {
			t.Errorf("the request after it took %v", got)
		}
	})
}

func TestCertificateIsNotTrustedWithoutItsPool(t *testing.T) {
	s := start(t, Options{TLS: true})
	_, err := tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), &tls.Config{})
	if err == nil || !strings.Contains(err.Error(), "x509") {
		t.Errorf("got %v", err)
	}
	if !bytes.HasPrefix(s.CertPEM(), []byte("-----BEGIN CERTIFICATE-----\n")) {
		t.Errorf("PEM %q", s.CertPEM())
	}
}

func TestAPIKey(t *testing.T) {
	s := start(t, Options{APIKey: "k1"})
	for _, c := range []struct {
		path, auth string
		status     int
		body       string
	}{
		{"/v1/models", "", 401, `{"error":"Unauthorized"}`},
		{"/v1/models", "Bearer k2", 401, `{"error":"Unauthorized"}`},
		{"/v1/models", "Basic k1", 401, `{"error":"Unauthorized"}`},
		{"/v1/nothing", "", 401, `{"error":"Unauthorized"}`},
		{"/v1/nothing", "bearer k1", 404, `{"detail":"Not Found"}`},
		{"/health", "", 200, ""},
		{"/version", "", 200, `{"version":"0.32.0"}`},
	} {
		req, err := http.NewRequest("GET", s.URL()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", c.auth)
		if resp, body := roundTrip(t, http.DefaultTransport, req); resp.StatusCode != c.status || body != c.body {
			t.Errorf("%s with %q: %d %q", c.path, c.auth, resp.StatusCode, body)
		}
	}
}

func TestLogLinesAreTheEntries(t *testing.T) {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{Log: &log, TTFT: time.Second, APIKey: "secret"})
		c := newClient(t, dial())
		c.do("GET", "/health", "")
		c.do("POST", chatPath, chatBody(1, 2)) // 401
		list := entries(t, s, 2)
		var read []Entry
		for line := range strings.Lines(log.String()) {
			var e Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			read = append(read, e)
		}
		if !reflect.DeepEqual(read, list) {
			t.Errorf("read %+v\nhave %+v", read, list)
		}
		if strings.Contains(log.String(), "secret") {
			t.Error("the key is in the log")
		}
	})
}

func TestBadBodiesAreRefused(t *testing.T) {
	s := start(t, Options{MaxModelLen: 100})
	for body, want := range map[string]string{
		`{"model": "tiny", `: `{"error":{"message":"1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.18', 'msg': 'JSON decode error', ` +
			`'input': '<dict of 0 items>', 'ctx': {'error': 'unexpected end of JSON input'}}","type":"Bad Request","param":"body.18","code":400}}`,
		`[]`: `{"error":{"message":"1 validation error:\n  {'type': 'model_attributes_type', 'loc': 'body', 'msg': 'Input should be a valid ` +
			`dictionary or object to extract fields from', 'input': '<array>'}","type":"Bad Request","param":"body","code":400}}`,
		`{"messages":[],"max_tokens":"x"}`: `{"error":{"message":"1 validation error:\n  {'type': 'int_type', 'loc': 'body.max_tokens', 'msg': 'Input ` +
			`should be a valid int', 'input': '<string>'}","type":"Bad Request","param":"body.max_tokens","code":400}}`,
		chatBody(100, 1): `{"error":{"message":"max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)","type":"BadRequestError",` +
			`"param":"max_tokens","code":400}}`,
	} {
		resp, err := http.Post(s.URL()+chatPath, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 400 || b.String() != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", body, resp.StatusCode, b.String(), want)
		}
	}
}

func TestBodyThatIsTooLongIsRefused(t *testing.T) {
	s := unstarted(t, Options{})
	s.maxBody = 1000
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest("POST", s.URL()+chatPath, strings.NewReader(chatBody(1000, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if resp, body := roundTrip(t, http.DefaultTransport, req); resp.StatusCode != 413 || body != `{"detail":"Request Entity Too Large"}` {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

func TestLengthOfTheAnswer(t *testing.T) {
	for _, c := range []struct {
		output, maxLen int
		body           string
		want           int
		stop           bool
	}{
		{0, 1000, `{"messages":[{"content":"a b c"}]}`, DefaultOutputTokens, true},
		{0, 1000, `{"messages":[{"content":"a b c"}],"ignore_eos":true}`, 997, false},
		{0, 100, `{"messages":[{"content":"a b c"}]}`, 97, false},
		{0, 1000, `{"messages":[{"content":"a b c"}],"max_tokens":200}`, 200, false},
		{0, 1000, `{"messages":[{"content":"a b c"}],"max_tokens":999}`, 997, false},
		{0, 1000, `{"messages":[{"content":"a b c"}],"max_tokens":7,"max_completion_tokens":9}`, 9, false},
		{50, 1000, `{"messages":[{"content":"a b c"}],"max_tokens":200}`, 50, true},
		{50, 1000, `{"messages":[{"content":"a b c"}],"max_tokens":200,"min_tokens":60}`, 60, true},
		{50, 1000, `{"messages":[{"content":"a b c"}],"max_tokens":200,"ignore_eos":true}`, 200, false},
		{50, 1000, `{"messages":[{"content":"a b c"}],"max_tokens":50}`, 50, false},
		{50, 1000, `{"messages":[{"content":"a b c"}],"max_tokens":20}`, 20, false},
	} {
		s := unstarted(t, Options{OutputTokens: c.output, MaxModelLen: c.maxLen})
		j, bad := s.accept(chats, "application/json", []byte(c.body))
		if bad != nil {
			t.Errorf("%s: %s", c.body, bad.message)
			continue
		}
		if j.output != c.want || j.stop != c.stop {
			t.Errorf("%s: %d tokens, stop %v; want %d, %v", c.body, j.output, j.stop, c.want, c.stop)
		}
	}
}

func TestPromptIsAllTextOfAllMessages(t *testing.T) {
	s := unstarted(t, Options{UsageExtra: 5})
	j, bad := s.accept(chats, "application/json", []byte(
		`{"messages":[{"role":"system","content":"a b"},{"role":"assistant","content":null},`+
			`{"role":"user","content":[{"type":"text","text":"c d e"},{"type":"text","text":"f"}]}]}`))
	if bad != nil {
		t.Fatal(bad.message)
	}
	if j.prompt() != 11 || j.model != DefaultModel {
		t.Errorf("%d tokens, model %s", j.prompt(), j.model)
	}
}

// h2Bytes is the client's side of a connection with three requests: one in one frame, one with padding, priority, continuation and a split
// body, one without an id. The ends are the offsets at which the requests with an id are complete.
func h2Bytes(t testing.TB) (b []byte, ends map[string]int) {
	var buf, block bytes.Buffer
	buf.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&buf, nil)
	enc := hpack.NewEncoder(&block)
	head := func(id string) []byte {
		block.Reset()
		fields := []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/x"}}
		if id != "" {
			fields = append(fields, hpack.HeaderField{Name: "x-request-id", Value: id})
		}
		for _, h := range fields {
			if err := enc.WriteField(h); err != nil {
				t.Fatal(err)
			}
		}
		return bytes.Clone(block.Bytes())
	}
	ends = map[string]int{}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.WriteSettings())
	must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head("one"), EndStream: true, EndHeaders: true}))
	ends["one"] = buf.Len()
	h := head("two")
	must(f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 3, BlockFragment: h[:2], PadLength: 9, Priority: http2.PriorityParam{StreamDep: 1, Weight: 3},
	}))
	must(f.WriteContinuation(3, true, h[2:]))
	must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: head(""), EndHeaders: true}))
	must(f.WriteData(3, false, bytes.Repeat([]byte("x"), 300)))
	must(f.WriteData(5, true, []byte("y")))
	must(f.WriteWindowUpdate(0, 1000))
	must(f.WriteDataPadded(3, true, []byte("last"), make([]byte, 7)))
	ends["two"] = buf.Len()
	must(f.WritePing(false, [8]byte{1}))
	must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 7, BlockFragment: head("three"), EndHeaders: true}))
	must(f.WriteRSTStream(7, http2.ErrCodeCancel))
	return buf.Bytes(), ends
}

// TestStreamEndsAreFoundWhateverTheReads feeds the bytes in reads of every size; a request's end has the stamp of the read with its last byte.
func TestStreamEndsAreFoundWhateverTheReads(t *testing.T) {
	b, ends := h2Bytes(t)
	for size := 1; size <= len(b); size++ {
		var e streamEnds
		for from := 0; from < len(b); from += size {
			to := min(from+size, len(b))
			e.feed(b[from:to], wire.Stamp{At: int64(to)})
		}
		for id, end := range ends {
			want := int64(min((end+size-1)/size*size, len(b)))
			if st, ok := e.take(id); !ok || st.at.At != want {
				t.Errorf("reads of %d: %s ended at %d (%v), want %d", size, id, st.at.At, ok, want)
			}
		}
		if len(e.ends) != 0 || len(e.ids) != 0 {
			t.Errorf("reads of %d: left over %v %v", size, e.ends, e.ids)
		}
	}
}

// What a stream's frames carry is marked with the write that brought it, whatever the writes; streams that are not followed leave nothing.
func TestSentDataIsMarkedWhateverTheWrites(t *testing.T) {
	var buf bytes.Buffer
	f := http2.NewFramer(&buf, nil)
	ends := map[int64]int{} // bytes of stream 1 so far → where in buf they end
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.WriteSettings())
	must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("head"), EndHeaders: true}))
	must(f.WriteData(1, false, []byte("first")))
	ends[5] = buf.Len()
	must(f.WriteData(3, false, []byte("another's")))
	must(f.WriteData(1, false, bytes.Repeat([]byte("x"), 300)))
	ends[305] = buf.Len()
	must(f.WriteData(1, true, nil))
	b := buf.Bytes()
	for size := 1; size <= len(b); size++ {
		var d sentData
		d.follow(1)
		for from := 0; from < len(b); from += size {
			to := min(from+size, len(b))
			d.feed(b[from:to], int64(to), to == len(b))
		}
		for n, end := range ends {
			want := int64(min((end+size-1)/size*size, len(b)))
			i := slices.IndexFunc(d.streams[1], func(m sentMark) bool { return m.bytes >= n })
			if i < 0 || d.streams[1][i].at != want {
				t.Errorf("writes of %d: the first %d bytes are marked %v, want %d", size, n, d.streams[1], want)
			}
		}
		if last := d.streams[1][len(d.streams[1])-1]; last.held != (last.at == int64(len(b))) {
			t.Errorf("writes of %d: the last mark is %+v; the last write alone was held", size, last)
		}
		if d.drop(1); len(d.streams) != 0 {
			t.Errorf("writes of %d: left over %v", size, d.streams)
		}
	}
	var d sentData
	d.follow(1)
	d.feed([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), 1, false)
	if !d.off || len(d.streams[1]) != 0 {
		t.Errorf("an answer of HTTP/1.1 is followed: %+v", d)
	}
}

func TestStreamEndsIgnoresHTTP1(t *testing.T) {
	var e streamEnds
	e.feed([]byte("P"), wire.Stamp{})
	e.feed([]byte("OST / HTTP/1.1\r\n"), wire.Stamp{})
	if e.state != notHTTP2 {
		t.Errorf("state %d", e.state)
	}
	if _, ok := e.take(""); ok {
		t.Error("it found a request")
	}
}

func FuzzStreamEnds(f *testing.F) {
	b, _ := h2Bytes(f)
	f.Add(b, uint16(3))
	f.Add(b, uint16(77))
	f.Add([]byte("POST / HTTP/1.1\r\n\r\n"), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		var whole, split streamEnds
		whole.feed(b, wire.Stamp{})
		for part := range chunks(b, int(size)+1) {
			split.feed(part, wire.Stamp{})
		}
		if !reflect.DeepEqual(whole.ends, split.ends) || !reflect.DeepEqual(whole.ids, split.ids) {
			t.Errorf("whole %v %v, split %v %v", whole.ends, whole.ids, split.ends, split.ids)
		}
	})
}

func chunks(b []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	s := unstarted(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wait(ctx, 1); err == nil || err.Error() != "0 of 1 requests have ended: context canceled" {
		t.Errorf("got %v", err)
	}
}
