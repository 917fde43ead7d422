package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 256 << 20

// handler routes as vLLM's front does: the key is asked for first, then the path, then the method.
func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.begin() {
			return
		}
		defer s.wg.Done()
		x := s.exchange(w, r)
		defer x.finish()
		if x.err != nil {
			return
		}
		if f := s.faults.request(x); f != nil && x.harm(f) || x.entry.Ended != "" {
			x.breakOff()
			return
		}
		if x.tooLong {
			x.answer(http.StatusRequestEntityTooLarge, []byte(`{"detail":"Request Entity Too Large"}`))
			return
		}
		if strings.HasPrefix(r.URL.Path, "/v1") && s.o.APIKey != "" && !s.authorized(r) {
			x.answer(http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
			return
		}
		only := func(method string, f func()) {
			if r.Method != method {
				x.notAllowed(method)
				return
			}
			f()
		}
		get := func(f func()) { only(http.MethodGet, f) }
		post := func(f func()) { only(http.MethodPost, f) }
		nothing := func() { x.answer(http.StatusNotFound, []byte(`{"detail":"Not Found"}`)) }
		switch r.URL.Path {
		case "/health", "/ping":
			get(func() { x.answer(http.StatusOK, nil) })
		case "/version":
			get(func() { x.answer(http.StatusOK, []byte(`{"version":"0.32.0"}`)) })
		case "/v1/models":
			get(func() { x.answer(http.StatusOK, s.models()) })
		case "/metrics":
			get(func() {
				running, waiting := s.load.counts()
				w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
				x.answer(http.StatusOK, s.stats.appendText(nil, running, waiting))
			})
		case "/v1/chat/completions":
			post(func() { s.infer(x, chats) })
		case "/v1/completions":
			post(func() { s.infer(x, completions) })
		case "/v1/embeddings":
			post(func() { s.infer(x, embeddings) })
		case "/tokenize", "/detokenize":
			v := s.vocabulary()
			switch {
			case v == nil:
				nothing()
			case r.URL.Path == "/tokenize":
				post(func() { s.tokenize(x, v) })
			default:
				post(func() { s.detokenize(x, v) })
			}
		default:
			nothing()
		}
		x.breakOff()
	})
}

// begin counts a request in, so that Close waits for it; false where the server is closed.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

func (s *Server) authorized(r *http.Request) bool {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "bearer") && key == s.o.APIKey
}

// exchange is one request and its answer, with its line of the log.
type exchange struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	conn  *conn
	flush *http.ResponseController
	entry Entry
	body  []byte
	begun int64 // arrival
	base  int64 // arrival, or the end of the connection's cold delay where that is later

	stream uint32  // on HTTP/2, where it is known
	upTo   []int64 // body bytes written with each of entry.Writes and before; kept where stream is known
	direct *direct // past net/http; nil = not

	fault    *Fault // nil = none
	hijacked bool   // its connection is no longer net/http's
	abort    bool   // net/http is to break it off

	tooLong bool  // the body is longer than the server takes
	err     error // of reading or writing: the client is gone
}

// exchange reads the request's body, so that the arrival of its last byte is known.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) *exchange {
	c := r.Context().Value(connKey{}).(*conn)
	x := &exchange{s: s, w: w, r: r, conn: c, flush: http.NewResponseController(w)}
	use := c.uses.Add(1)
	x.body, x.err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxBody))
	if _, x.tooLong = errors.AsType[*http.MaxBytesError](x.err); x.tooLong {
		x.err = nil
	}
	at, held, stream, late := c.arrival(r)
	x.stream = stream
	x.begun, x.base = at.At, max(at.At, held)
	x.entry = Entry{
		XRequestID: r.Header.Get("X-Request-ID"), Method: r.Method, Path: r.URL.Path, Protocol: r.Proto, Remote: r.RemoteAddr,
		Connection: c.id, Use: use,
		ArrivedNS: s.wall(at.At), ArrivedUserNS: s.wall(at.User), Stamp: StampUser, StartNS: s.wall(x.base),
	}
	switch {
	case late:
		x.entry.Stamp = StampBound
	case at.Kernel:
		x.entry.Stamp = StampKernel
	}
	if n := s.o.CloseAfter; n > 0 && use >= int64(n) {
		// On HTTP/2 net/http makes a GOAWAY of it.
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Server", "prefire-mock")
	return x
}

// breakOff lets net/http break the request off where a fault asks for it.
func (x *exchange) breakOff() {
	if x.abort && !x.hijacked {
		panic(http.ErrAbortHandler)
	}
}

// finish writes the log's line.
func (x *exchange) finish() {
	e := &x.entry
	switch {
	case e.Ended != "":
	case x.s.ctx.Err() != nil:
		e.Ended = EndedServerClosed
	default:
		e.Ended = EndedClientClosed
	}
	x.settle()
	x.s.log.add(e)
}

// settle moves the times after the writes of an HTTP/2 stream to when the kernel had their last byte.
func (x *exchange) settle() {
	if x.stream == 0 {
		return
	}
	defer x.conn.done(x.stream)
	if x.entry.Bytes == 0 {
		return
	}
	marks := x.conn.sent(x.r.Context(), x.stream, x.entry.Bytes)
	for i := range x.entry.Writes {
		if x.upTo[i] == 0 { // the head
			continue
		}
		if k := slices.IndexFunc(marks, func(m sentMark) bool { return m.bytes >= x.upTo[i] }); k >= 0 {
			w := &x.entry.Writes[i]
			w.AfterNS, w.Held = max(w.AfterNS, x.s.wall(marks[k].at)), marks[k].held
		}
	}
}

// answer sends a whole answer at once; it is JSON where it has a body and no other type is set.
func (x *exchange) answer(status int, body []byte) {
	h := x.w.Header()
	if len(body) > 0 && h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	x.entry.Status = status
	x.write(WriteAnswer, x.s.clock.Now(), func() error {
		x.w.WriteHeader(status)
		n, err := x.w.Write(body)
		x.entry.Bytes += int64(n)
		return err
	})
	x.complete()
}

// complete notes that the answer has been written whole, if it has.
func (x *exchange) complete() {
	if x.err == nil {
		x.entry.Ended = EndedFinished
	}
}

// write does one write and flushes it, with the times before and after in the log.
func (x *exchange) write(kind string, due int64, f func() error) {
	before := x.s.clock.Now()
	if x.err == nil {
		x.err = f()
	}
	if x.err == nil {
		x.err = x.flush.Flush()
	}
	x.note(kind, due, before, x.conn.holds())
}

// note puts a write that has just been done into the log.
func (x *exchange) note(kind string, due, before int64, held bool) {
	s := x.s
	x.entry.Writes = append(x.entry.Writes,
		Write{Kind: kind, DueNS: s.wall(due), BeforeNS: s.wall(before), AfterNS: s.wall(s.clock.Now()), Held: held})
	if x.stream != 0 {
		x.upTo = append(x.upTo, x.entry.Bytes)
	}
}

func (x *exchange) notAllowed(allow string) {
	x.w.Header().Set("Allow", allow)
	x.answer(http.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
}

// fail answers with vLLM's error object.
func (x *exchange) fail(e *apiError) { x.answer(e.code, e.body()) }

// apiError is an error as vLLM's front reports it.
type apiError struct {
	code    int
	kind    string
	param   string // "" = null
	message string
}

func (e *apiError) body() []byte {
	var param *string
	if e.param != "" {
		param = &e.param
	}
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	return appendJSON(nil, map[string]object{"error": {e.message, e.kind, param, e.code}})
}

// invalid is what pydantic's validation yields: one error, described by its fields.
func invalid(param, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "Bad Request", param, "1 validation error:\n  " + fmt.Sprintf(format, args...)}
}

// refused is what vLLM's own checks yield.
func refused(param, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "BadRequestError", param, fmt.Sprintf(format, args...)}
}

// appendJSON appends v as Python's and Rust's writers do: without escaping for HTML. v is always one of the package's own types.
func appendJSON(dst []byte, v any) []byte {
	b := &appender{dst}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("fakellm: %T cannot be written as JSON: %v", v, err))
	}
	return b.b[:len(b.b)-1] // Encode ends with a newline
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

func (s *Server) wall(at int64) int64 { return s.clock.Wall(at).UnixNano() }

// models is the answer of /v1/models.
func (s *Server) models() []byte {
	names := s.o.Models
	if len(names) == 0 {
		names = []string{DefaultModel}
	}
	created := s.clock.Wall(s.clock.Now()).Unix()
	list := modelList{Object: "list"}
	for i, n := range names {
		list.Data = append(list.Data, modelCard{
			ID: n, Object: "model", Created: created, OwnedBy: "vllm", Root: n, MaxModelLen: s.o.MaxModelLen,
			Permission: []modelPermission{{
				ID: fmt.Sprintf("modelperm-%016x", i+1), Object: "model_permission", Created: created,
				AllowSampling: true, AllowLogprobs: true, AllowView: true, Organization: "*",
			}},
		})
	}
	return appendJSON(nil, list)
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelCard `json:"data"`
}

type modelCard struct {
	ID          string            `json:"id"`
	Object      string            `json:"object"`
	Created     int64             `json:"created"`
	OwnedBy     string            `json:"owned_by"`
	Root        string            `json:"root"`
	Parent      *string           `json:"parent"`
	MaxModelLen int               `json:"max_model_len"`
	Permission  []modelPermission `json:"permission"`
}

type modelPermission struct {
	ID                 string  `json:"id"`
	Object             string  `json:"object"`
	Created            int64   `json:"created"`
	AllowCreateEngine  bool    `json:"allow_create_engine"`
	AllowSampling      bool    `json:"allow_sampling"`
	AllowLogprobs      bool    `json:"allow_logprobs"`
	AllowSearchIndices bool    `json:"allow_search_indices"`
	AllowView          bool    `json:"allow_view"`
	AllowFineTuning    bool    `json:"allow_fine_tuning"`
	Organization       string  `json:"organization"`
	Group              *string `json:"group"`
	IsBlocking         bool    `json:"is_blocking"`
}
