package fakellm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
)

// Kinds of writes.
const (
	WriteHead    = "head"    // the response head of a stream
	WriteRole    = "role"    // the first chunk, without text
	WriteContent = "content" // one step's tokens
	WriteFinish  = "finish"  // the last step's, with the finish reason
	WriteUsage   = "usage"
	WriteDone    = "done"   // [DONE]
	WriteAnswer  = "answer" // a whole answer, head and body
	WriteError   = "error"  // an error within a stream, as a fault
	WriteComment = "other"  // a comment, or an event that is no answer, as a fault
)

// How a request ended.
const (
	EndedFinished     = "finished"      // the answer was written whole
	EndedClientClosed = "client_closed" // the client closed or reset before that
	EndedServerClosed = "server_closed" // the server was closed before that
	EndedFault        = "fault"         // a fault ended it before that, or with less than an answer
)

// Where a request's time of arrival is from.
const (
	StampKernel = "kernel" // the kernel's stamp of the packet with its last byte
	StampUser   = "user"   // the time after the read that brought it
	StampBound  = "bound"  // the stamp of a later read of the same HTTP/2 connection: it came at that time or before
)

// Entry is one request. All times are ns since 1970 on the wall clock, through the one anchor of Options.Clock; all durations are ns.
type Entry struct {
	XRequestID string `json:"x_request_id,omitempty"`
	Method     string `json:"method"`
	Path       string `json:"path"`
	Protocol   string `json:"protocol"`
	Remote     string `json:"remote"`                // the client's address
	Connection int64  `json:"connection"`            // from 1, in the order of accept
	Use        int64  `json:"request_on_connection"` // from 1; probes count

	ArrivedNS     int64  `json:"arrived_ns"`      // the last byte of the request
	ArrivedUserNS int64  `json:"arrived_user_ns"` // the server held it
	Stamp         string `json:"arrived_stamp"`
	StartNS       int64  `json:"start_ns"`            // what TTFT counts from: arrival, or the end of cold delays and queueing
	QueuedNS      int64  `json:"queued_ns,omitempty"` // waited for a slot
	TTFTNS        int64  `json:"ttft_ns,omitempty"`   // from arrival to when the first token was due

	Status       int    `json:"status"`
	Model        string `json:"model,omitempty"`
	PromptTokens int    `json:"prompt_tokens,omitempty"` // as usage has them
	OutputTokens int    `json:"output_tokens,omitempty"` // as usage has them; made so far, where the client closed
	PromptSHA256 string `json:"prompt_sha256,omitempty"` // of all roles and texts
	InFlight     int    `json:"in_flight_at_start,omitempty"`
	MaxInFlight  int    `json:"max_in_flight,omitempty"` // so far, when this request came
	Bytes        int64  `json:"body_bytes"`
	Ended        string `json:"ended"`
	Fault        string `json:"fault,omitempty"` // what was done to it

	Writes []Write `json:"writes"`
}

// Write is one write of an answer. BeforeNS is taken right before it, AfterNS when the kernel has it. On HTTP/2, of a head and of a request
// without X-Request-ID, the kernel may have it later than AfterNS: net/http hands the frames of all streams to the socket together.
type Write struct {
	Kind     string `json:"kind"`
	DueNS    int64  `json:"due_ns"`
	BeforeNS int64  `json:"before_ns"`
	AfterNS  int64  `json:"after_ns"`
	// Held says that TCP had not sent it yet at AfterNS, since the client's acknowledgements were late: it left some time after.
	Held bool `json:"held,omitempty"`
}

// Find returns the first write of a kind.
func (e *Entry) Find(kind string) (Write, bool) {
	i := slices.IndexFunc(e.Writes, func(w Write) bool { return w.Kind == kind })
	if i < 0 {
		return Write{}, false
	}
	return e.Writes[i], true
}

// logbook takes the entries of requests that have ended.
type logbook struct {
	mu    sync.Mutex
	w     io.Writer
	keep  bool
	list  []Entry
	err   error
	added chan struct{} // closed and replaced with each entry
}

func newLogbook(w io.Writer, keep bool) *logbook {
	return &logbook{w: w, keep: keep, added: make(chan struct{})}
}

func (l *logbook) add(e *Entry) {
	var line []byte
	var err error
	if l.w != nil {
		line, err = e.appendJSON(nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keep {
		l.list = append(l.list, *e)
		close(l.added)
		l.added = make(chan struct{})
	}
	if l.w == nil || l.err != nil {
		return
	}
	if err == nil {
		_, err = l.w.Write(append(line, '\n'))
	}
	if err != nil {
		l.err = fmt.Errorf("cannot write the log: %w", err)
	}
}

// appendJSON appends e as encoding/json writes it. The writes, of which there is one for each token, are appended by hand.
func (e *Entry) appendJSON(dst []byte) ([]byte, error) {
	head := *e
	head.Writes = nil
	b, err := json.Marshal(&head)
	if err != nil {
		return dst, err
	}
	if e.Writes == nil {
		return append(dst, b...), nil
	}
	const perWrite = 150 // bytes, about
	dst = append(slices.Grow(dst, len(b)+perWrite*len(e.Writes)), b[:len(b)-len("null}")]...)
	dst = append(dst, '[')
	for i := range e.Writes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.Writes[i].appendJSON(dst)
	}
	return append(dst, "]}"...), nil
}

// appendJSON appends w as encoding/json writes it. A kind is one of the package's own words.
func (w *Write) appendJSON(dst []byte) []byte {
	dst = append(append(append(dst, `{"kind":"`...), w.Kind...), `","due_ns":`...)
	dst = append(strconv.AppendInt(dst, w.DueNS, 10), `,"before_ns":`...)
	dst = append(strconv.AppendInt(dst, w.BeforeNS, 10), `,"after_ns":`...)
	dst = strconv.AppendInt(dst, w.AfterNS, 10)
	if w.Held {
		dst = append(dst, `,"held":true`...)
	}
	return append(dst, '}')
}

func (l *logbook) entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func (l *logbook) wait(ctx context.Context, n int) ([]Entry, error) {
	for {
		l.mu.Lock()
		list, added := slices.Clone(l.list), l.added
		l.mu.Unlock()
		if len(list) >= n {
			return list, nil
		}
		select {
		case <-added:
		case <-ctx.Done():
			return list, fmt.Errorf("%d of %d requests have ended: %w", len(list), n, ctx.Err())
		}
	}
}

func (l *logbook) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
