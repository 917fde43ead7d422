package wire

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"

	"prefire/sse"
)

// Bounds of what one call keeps of an answer.
const (
	MaxEvent     = 64 << 20 // one event of a stream, and a whole answer that is not a stream
	MaxErrorText = 4096     // an error's message
	maxErrorBody = 64 << 10 // what is kept of an error's body to make the message
	maxErrorRead = 8 << 20  // what is read of it; of one without an end the connection is given up
	maxSniff     = 64 << 10 // the blank lines before an answer's kind must be clear; after them it is no stream
	maxReason    = 128      // a reason phrase: it becomes an error's type
	firstChunks  = 256      // what a call has room for before its first answer; more where its answers turn out longer, and for good
)

// Stamp is the arrival of one read.
type Stamp struct {
	At    int64 // the kernel's arrival time of the last packet in the read; without kernel stamps equal to User
	User  int64 // the time after the read
	Empty int64 // when the connection was last seen empty before this read; 0 = never
	// Read numbers the raw reads of a connection from 1: what Data brings with the same number came in one read. 0 = each call of Data
	// is a read of its own.
	Read   uint64
	Kernel bool
	fell   bool // At was replaced by User
}

// intake turns the bytes of an answer into a Call's facts and chunks. All transports share it, so that an answer means the same whatever
// brought it. A transport calls, in this order: Begin, Head, Data for each read's body bytes, End.
type intake struct {
	dec    sse.Decoder
	delta  Delta
	ev     sse.Event
	body   []byte // of an answer that is not a stream
	mode   mode
	first  bool   // Observer.First was called
	failed *Error // an error event of the stream
	tail   Stamp  // of the last Data
	exact  bool   // the last Data was the last of its read
	shared bool   // the last Data's read has completed a content event already
	fell   uint64 // the last read whose stamp was replaced
}

type mode uint8

const (
	modeStream mode = iota // server-sent events
	modeWhole              // one answer
	modeError              // the body of a non-2xx answer
	modeSniff              // 2xx of another content type: a stream if it begins like one
)

// Begin makes c ready for a new use by a transport and returns its new generation. at is the time it is ready to go.
func (c *Call) Begin(at int64) (gen uint32) {
	c.Facts = Facts{Ready: at}
	c.Chunks = c.Chunks[:0]
	if n := min(c.MaxChunks, firstChunks); cap(c.Chunks) < n {
		c.Chunks = make([]Chunk, 0, n)
	}
	c.Text, c.Raw, c.Usage, c.FirstUsage = c.Text[:0], c.Raw[:0], c.Usage[:0], c.FirstUsage[:0]
	c.Spec, c.Reads, c.Reply = c.Spec[:0], c.Reads[:0], c.Reply[:0]
	c.Restart()
	return c.gen.Add(1)
}

// Restart empties the intake for a request that is sent again.
func (c *Call) Restart() {
	in := &c.intake
	in.dec.Reset()
	in.body = in.body[:0]
	in.mode, in.first, in.failed = modeStream, false, nil
	in.tail, in.exact, in.shared, in.fell = Stamp{}, false, false, 0
}

// Field takes a header field of the final response, before its Head.
func (c *Call) Field(name, value []byte) {
	if c.Watch {
		c.Reply = append(c.Reply, Field{string(name), string(value)})
	}
}

// Head takes the head of the final response (not 1xx). reason may be empty.
func (c *Call) Head(status int, reason, contentType string, s Stamp) {
	f := &c.Facts
	f.Status, f.Reason, f.ContentType = status, cut(reason, maxReason), contentType
	if reason == "" {
		f.Reason = http.StatusText(status)
	}
	f.HeadAt = c.bounded(&s)
	f.HeadKernel = s.Kernel
	switch {
	case status < 200 || status > 299:
		c.intake.mode = modeError
	case isEventStream(contentType):
		c.intake.mode = modeStream
	default:
		c.intake.mode = modeSniff
	}
}

func isEventStream(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

// Data takes body bytes of one read. last says that no further body bytes of this read follow. An error means that the answer cannot be
// read on; the transport then gives up the connection and calls End with it.
func (c *Call) Data(p []byte, s Stamp, last bool) error {
	if len(p) == 0 {
		return nil
	}
	f, in := &c.Facts, &c.intake
	if in.mode != modeError && f.Encoding != "" && !strings.EqualFold(f.Encoding, "identity") {
		return &Error{Type: "ClientPayloadError", Message: fmt.Sprintf("the answer is compressed (Content-Encoding: %s), which the request did not allow: "+
			"its tokens would come later than they were made; switch compression off in the server, or in the proxy before it", cut(f.Encoding, maxReason))}
	}
	at := c.bounded(&s)
	if f.FirstByte == 0 {
		// The head came no later than the body. Where its own read had no kernel stamp it was taken for later than it was.
		f.FirstByte, f.HeadAt = at, min(f.HeadAt, at)
	}
	f.LastByte = at
	f.Received += int64(len(p))
	if s.Read == 0 || s.Read != in.tail.Read {
		in.shared = false
		f.Reads++
		if c.Watch {
			c.Reads = append(c.Reads, Part{At: at})
		}
	}
	if n := len(c.Reads); n > 0 {
		c.Reads[n-1].Size += len(p)
	}
	in.tail, in.exact = s, last
	if c.Keep == KeepRaw {
		if len(c.Raw)+len(p) > MaxEvent {
			f.Truncated = true
		} else {
			c.Raw = append(c.Raw, p...)
		}
	}
	if in.mode == modeSniff {
		in.body = append(in.body, p...)
		stream, sure := looksLikeStream(in.body[:min(len(in.body), maxSniff)])
		if !sure && len(in.body) < maxSniff {
			return nil
		}
		p, in.body, in.mode = in.body, in.body[:0], modeWhole
		if stream {
			in.mode = modeStream
		}
	}
	switch in.mode {
	case modeError:
		if room := maxErrorBody - len(in.body); room > 0 {
			in.body = append(in.body, p[:min(room, len(p))]...)
		}
		if f.Received > maxErrorRead {
			return c.refused()
		}
		return nil
	case modeWhole:
		if len(in.body)+len(p) > MaxEvent {
			return &Error{Type: "ClientPayloadError", Message: fmt.Sprintf("the answer is longer than %d bytes", MaxEvent)}
		}
		in.body = append(in.body, p...)
		return nil
	}
	in.dec.Feed(p)
	for {
		ok, err := in.dec.Next(&in.ev)
		if err != nil {
			return &Error{Type: "ClientPayloadError", Message: err.Error()}
		}
		if !ok {
			return nil
		}
		exact := last && in.dec.Rest() == 0
		if c.event(&in.ev, at, &s, exact, in.shared) {
			in.shared = true
		}
	}
}

// looksLikeStream judges by the first bytes of a body; sure is false while they are too few.
func looksLikeStream(p []byte) (stream, sure bool) {
	const mark = "\xef\xbb\xbf"
	if len(p) < len(mark) && strings.HasPrefix(mark, string(p)) {
		return false, false
	}
	p = bytes.TrimLeft(bytes.TrimPrefix(p, []byte(mark)), "\r\n")
	sure = true
	for _, w := range [...]string{"data:", "event:", "id:", "retry:", ":"} {
		if len(p) >= len(w) && string(p[:len(w)]) == w {
			return true, true
		}
		if len(p) < len(w) && w[:len(p)] == string(p) {
			sure = false
		}
	}
	return false, sure
}

// event takes one event of the stream and reports whether it was content.
func (c *Call) event(ev *sse.Event, at int64, s *Stamp, exact, shares bool) bool {
	f, in := &c.Facts, &c.intake
	f.Events++
	f.EndAt = at
	if bytes.Equal(bytes.TrimSpace(ev.Data), []byte("[DONE]")) {
		f.SawDone = true
		return false
	}
	in.delta.Reset()
	class := c.Parser.Event(ev.Name, ev.Data, &in.delta)
	c.fold(class, ev.Comment)
	if !class.Counts() {
		return false
	}
	if len(c.Chunks) == 0 {
		c.FirstUsage = append(c.FirstUsage[:0], in.delta.Usage...)
	}
	ch := c.chunk(at, s, exact)
	if shares {
		ch.Flags |= SharesRe
		f.SharedReads++
	}
	c.parts(ch)
	return true
}

// chunk is a chunk that arrived with a read.
func (c *Call) chunk(at int64, s *Stamp, exact bool) Chunk {
	ch := Chunk{At: at, Late: micros(s.User - at)}
	if s.Kernel {
		ch.Flags |= Kernel
	}
	if !(exact && s.Kernel) {
		ch.Slack = slack(at, max(s.Empty, c.Facts.FirstWrite))
	}
	if s.fell {
		ch.Flags |= StampFell
	}
	return ch
}

// parts appends the chunks of one content event, one for each kind of content in it, and tells the observer of the first.
func (c *Call) parts(ch Chunk) {
	d := &c.intake.delta
	for _, part := range [...]struct {
		class Class
		text  []byte
	}{{Reasoning, d.Reasoning}, {Content, d.Content}, {Tool, d.Tool}} {
		if len(part.text) == 0 {
			continue
		}
		if c.Keep >= KeepText {
			if len(c.Text)+len(part.text) > MaxEvent {
				c.Facts.Truncated = true
			} else {
				c.Text = append(c.Text, part.text...)
			}
		}
		ch.Class, ch.Off = part.class, uint32(len(c.Text))
		c.Chunks = append(c.Chunks, ch)
		ch.Flags |= SamePart
	}
	if !c.intake.first && len(c.Chunks) > 0 {
		c.intake.first = true
		if c.Obs != nil {
			c.Obs.First(c)
		}
	}
}

// fold takes what an event says beside its content.
func (c *Call) fold(class Class, comment []byte) {
	f, in := &c.Facts, &c.intake
	d := &in.delta
	if len(d.Usage) > 0 {
		c.Usage = append(c.Usage[:0], d.Usage...)
	}
	if len(d.Spec) > 0 {
		c.Spec = append(c.Spec[:0], d.Spec...)
	}
	switch string(d.Finish) {
	case "":
	case "stop":
		f.Finish = FinishStop
	case "length":
		f.Finish = FinishLength
	case "tool_calls", "function_call":
		f.Finish = FinishTool
	case "abort", "error": // vLLM's, for an answer that it gave up
		f.Finish = FinishOther
		if in.failed == nil {
			in.failed = &Error{Code: http.StatusBadGateway, Type: "InvalidInferenceResultError",
				Message: fmt.Sprintf("The server gave the answer up: finish_reason %q", d.Finish)}
		}
	default:
		f.Finish = FinishOther
	}
	if len(d.Strange) > 0 && f.Strange == "" && len(c.Chunks) == 0 && !class.Counts() {
		f.Strange = cut(string(d.Strange), maxReason)
	}
	switch class {
	case Malformed:
		f.Malformed++
	case Fault:
		if in.failed == nil {
			msg := string(d.Message)
			if msg == "" {
				msg = string(comment)
			}
			if msg == "" {
				msg = "the server sent an error event without a text"
			}
			in.failed = &Error{Code: http.StatusBadGateway, Type: "SSEResponseError", Message: Bound(msg)}
		}
	}
}

// End takes the end of the answer: err is nil where the body ended as HTTP says it must. s is the stamp of the read that brought the end,
// or of the moment when the error was known. End decides whether the request failed, and sets Facts.Err.
func (c *Call) End(s Stamp, err *Error) {
	f, in := &c.Facts, &c.intake
	// What ended a connection may have arrived before the request that was then given to it.
	at := max(c.bounded(&s), f.Ready)
	f.Over = at
	// A last event without its blank line came with the last bytes. Where the stream broke it is half an event, and says nothing.
	if err == nil && f.Status != 0 && in.mode == modeStream && in.dec.Finish(&in.ev) {
		c.event(&in.ev, f.LastByte, &in.tail, in.exact, in.shared)
	}
	if in.mode == modeSniff {
		in.mode = modeWhole
	}
	if err == nil && in.mode == modeWhole {
		in.delta.Reset()
		class := c.Parser.Body(in.body, &in.delta)
		f.EndAt = f.LastByte
		c.fold(class, nil)
		if class.Counts() {
			c.parts(c.chunk(f.LastByte, &in.tail, in.exact))
		}
	}
	if f.EndAt == 0 || err != nil || in.mode == modeError {
		f.EndAt = at
	}
	f.Err = c.verdict(err)
}

// verdict decides what failed, if anything: what the transport says, the status, the server's own error, an answer without content, a
// stream that stopped in the middle.
func (c *Call) verdict(err *Error) *Error {
	f, in := &c.Facts, &c.intake
	switch {
	case err != nil:
		return err
	case f.Status < 200 || f.Status > 299:
		return c.refused()
	case in.failed != nil:
		return in.failed
	case len(c.Chunks) == 0 && f.Events == 0 && len(in.body) == 0:
		return &Error{Type: "InvalidInferenceResultError", Message: "No responses were received from the server"}
	case len(c.Chunks) == 0:
		return &Error{Type: "InvalidInferenceResultError", Message: "No responses with actual content were received from the server " +
			"(only usage/metadata, null/empty data, or [DONE] markers)" + c.instead()}
	case in.mode == modeStream && !f.SawDone && f.Finish == FinishNone:
		return &Error{Type: "InvalidInferenceResultError", Message: fmt.Sprintf(
			"The stream was cut: it ended after %d content chunks without finish_reason and without [DONE]", len(c.Chunks))}
	}
	return nil
}

// refused is the error of an answer whose status says that it is one.
func (c *Call) refused() *Error {
	return &Error{Code: c.Facts.Status, Type: c.Facts.Reason, Message: Bound(strings.ToValidUTF8(string(c.intake.body), "\uFFFD"))}
}

// shown is how much of an answer that makes no sense an error shows, in bytes.
const shown = 200

// instead says what came in the place of an answer; "" where it was nothing that makes no sense.
func (c *Call) instead() string {
	f, in := &c.Facts, &c.intake
	switch {
	case f.Strange != "":
		return fmt.Sprintf("; there was text under %q, which is not a name that answers have their text under", f.Strange)
	case f.Malformed == 0:
		return ""
	case in.mode == modeStream:
		return fmt.Sprintf("; %d events of its stream were no answer", f.Malformed)
	}
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(in.body[:min(len(in.body), shown)]), "\uFFFD")), " ")
	return Bound(fmt.Sprintf("; the body, which calls itself %s, is no answer and begins with: %s", cmp.Or(cut(f.ContentType, maxReason), "nothing"), text))
}

// bounded is the stamp's arrival time. A kernel stamp outside the request's own monotonic bounds (the wall clock was stepped) falls back to
// the user stamp and is marked in s.
func (c *Call) bounded(s *Stamp) int64 {
	if s.Kernel && (s.At > s.User || s.At < c.Facts.FirstWrite) {
		s.At, s.Kernel, s.fell = s.User, false, true
		if in := &c.intake; s.Read == 0 || s.Read != in.fell {
			in.fell = s.Read
			c.Facts.StampsFell++
		}
	}
	return s.At
}

// Words is the text of an error without the addresses of its connection: those differ from request to request, and errors that are alike count as
// one.
func Words(err error) string {
	text := err.Error()
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		plain := *op
		plain.Source, plain.Addr = nil, nil
		text = strings.Replace(text, op.Error(), plain.Error(), 1)
	}
	return text
}

// Bound cuts an error text to MaxErrorText bytes, at a rune's edge.
func Bound(s string) string { return cut(s, MaxErrorText) }

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}

func micros(ns int64) uint32 { return uint32(min(max(ns/1000, 0), math.MaxUint32)) }

// slack is the width of (from, at] in µs, rounded up.
func slack(at, from int64) uint32 { return uint32(min(max((at-from+999)/1000, 0), math.MaxUint32)) }
