// Package loadgen is the load engine: it takes a plan, keeps exactly the asked number of sessions in flight over connections that are warm
// before the clock starts, and hands over the facts of each request. It has no defaults and reads no environment; time, network, prompts,
// bodies and records come through ports.
package loadgen

import (
	"context"
	"time"

	"prefire/loadgen/wire"
	"prefire/metrics"
)

// Message is one message of a conversation.
type Message struct {
	Role    string
	Content string
	// Texts, where it is not nil, are the parts of the content, each a text of its own. Content is then all of them, one space between, by
	// which tokens are counted.
	Texts []string `json:",omitempty"`
	// JSON, where it is not nil, is the whole message as it is sent: tool calls, content of any kind. Content is then the text in it, as with
	// Texts. Nobody changes its bytes.
	JSON []byte `json:",omitempty"`
}

// Field is one field of a request body: its name, and its value as compact JSON.
type Field struct {
	Key  string
	JSON []byte
}

// Turn is one request's worth of a session: the messages it adds, and what it asks for.
type Turn struct {
	Messages  []Message
	Model     string        // that is asked; "" = the endpoint's own
	MaxTokens int           // output limit asked of the server; 0 = none
	Input     metrics.Count // client count of the text of the turn's own messages, where the source already knows it
	Delay     time.Duration // think time before this turn; none for turn 0
	// At is when the turn is due, as an offset from the phase's start, where Timed. A source with a schedule gives sessions in the order of
	// their first turns.
	At    time.Duration
	Timed bool
	// Raw, where it is not nil, is the complete body, sent as it is: messages, history and everything else of the turn, and of the endpoint,
	// stay out of it.
	Raw []byte
	// Extra fields are put into this turn's body over those of the same name, its own and the endpoint's; Tools is the list of tools as
	// JSON, nil = none.
	Extra []Field
	Tools []byte
}

// Session is one conversation.
type Session struct {
	Index int64 // number within its stream, from 0
	ID    string
	Turns []Turn
	// Complete says that each turn's messages are its whole conversation: no history goes before them.
	Complete bool
}

// Stream names one stream of sessions: warm-up, each phase, the prewarm draw from streams of their own. Where prompts are made, the sessions
// of one never depend on how many another took; a file without a schedule is played on from phase to phase, so that what warm-up sent is
// not what is measured.
type Stream struct {
	Kind  metrics.Kind
	Phase int // index of the phase; -1 = the prewarm's throwaway
}

// Source makes sessions. A given seed gives the same sessions in the same order for a stream, whoever asks and however many cores there
// are. Next is safe for concurrent use; calls are served in order. It returns io.EOF where the stream has an end.
type Source interface {
	Next(ctx context.Context, s Stream) (*Session, error)
}

// Endpoint makes request bodies and reads answers. It is safe for concurrent use; the parsers it gives are not.
type Endpoint interface {
	// AppendBody appends the body of one request: history holds the messages of the turns before, answers included.
	AppendBody(dst []byte, t *Turn, history []Message) ([]byte, error)
	// Answers is how many answers of the turn's output limit a request asks for: several prompts have one each, and n asks for more.
	Answers(t *Turn) int
	// Parser returns a new parser for one worker's calls.
	Parser() wire.Parser
	// Usage reads the raw usage object of an answer; false where it holds no counts.
	Usage(raw []byte) (metrics.Usage, bool)
	// SpecDecode reads what an answer says of the server's speculative decoding; nil where it says nothing that can be understood.
	SpecDecode(raw []byte) *metrics.SpecDecode
	// Streaming says whether requests ask for an event stream.
	Streaming() bool
}

// Amender is an endpoint that can do without a part of its bodies that not all servers know.
type Amender interface {
	// Amend is told of a refused request: its body, the status and the server's words. It appends the body as it can be sent again, or reports
	// false where that would not help.
	Amend(dst, body []byte, status int, text string) ([]byte, bool)
}

// Finished is a request that ended, as the engine hands it over. Everything in it is valid only during the call of Sink.Finished, but for
// Record's strings and slices, which the sink may keep.
type Finished struct {
	Record metrics.Record
	Output []byte // content and tool text, where it was kept
	Reason []byte // reasoning text, where it was kept
	// Input is the request's text, one space between messages, where its tokens are still to be counted: Record.In is then unknown.
	Input []byte
	// Body and Raw are the request's body and the answer's as it came, where the plan says Watch; Raw is kept where it says KeepRaw.
	Body, Raw []byte
}

// Sink takes what the engine sends and what comes back, from many goroutines at once. It must not hold up the caller: it copies what it
// needs and returns.
type Sink interface {
	// Issued is told of each request right before it is sent; body is valid only during the call.
	Issued(s Stream, seq int64, sess *Session, body []byte)
	Finished(f *Finished)
}
