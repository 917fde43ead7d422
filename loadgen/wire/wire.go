// Package wire is the port between the load engine and the network: what one request asks of a transport, and the facts the transport
// brings back. A transport gets a whole request, does all per-chunk work on its own thread or goroutine, allocates nothing a chunk, and
// stamps every event with its time of arrival.
//
// All times are int64 nanoseconds since the run's epoch on the monotonic clock, as [Clock.Now] gives them. A time of 0 is absent: the
// epoch lies before the first event of any run.
package wire

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Clock is the run's time. The real one is made in cmd; tests use one over package time inside a synctest bubble.
type Clock interface {
	// Now is the time since the run's epoch, in ns, always above 0.
	Now() int64
	// Until blocks until Now() >= at or ctx is done, and returns ctx's error in the second case.
	Until(ctx context.Context, at int64) error
	// Wall converts a time of this clock to the wall clock, through the one anchor taken when the clock was made.
	Wall(at int64) time.Time
}

// Class says what an event of the answer is.
type Class uint8

const (
	Other     Class = iota // role chunk, comment, keep-alive, empty delta
	Content                // non-empty content
	Reasoning              // non-empty reasoning
	Tool                   // tool call name or arguments
	UsageOnly              // usage without any of the above
	Finish                 // finish reason without any of the above
	Done                   // [DONE]
	Fault                  // an error object, or event: error
	Malformed              // not JSON, or not of the endpoint's shape
)

// Counts reports whether an event of this class is an answer's content: what TTFT, latency and gaps are taken from.
func (c Class) Counts() bool { return c == Content || c == Reasoning || c == Tool }

// Chunk flags.
const (
	Kernel    uint8 = 1 << iota // At is the kernel's arrival stamp; without it At is the time after the read
	SharesRe                    // its read completed other events too; the gap to the one before is not a measurement
	SamePart                    // a second part of the event before it (reasoning and content in one chunk)
	StampFell                   // a kernel stamp outside the request's own bounds was replaced by the user stamp
)

// Chunk is one content part of the answer. A Call's Chunks hold Content, Reasoning and Tool parts only; everything else is folded
// into Facts.
type Chunk struct {
	At    int64  // arrival
	Slack uint32 // µs: it came in (At-Slack, At]; 0 = exact
	Late  uint32 // µs: the reader held it at At+Late
	Off   uint32 // end of its text in Call.Text; equal to the one before when text is not kept
	Class Class
	Flags uint8
}

// Part is the body bytes of one read.
type Part struct {
	At   int64 // arrival
	Size int
}

// Delta is what a Parser finds in one event. Its slices point into the event's data or into Scratch, and are valid until the next event.
type Delta struct {
	Content   []byte // decoded text; nil or empty = none
	Reasoning []byte
	Tool      []byte // names and arguments, joined in order
	Usage     []byte // the raw JSON of a non-empty usage object
	Spec      []byte // the raw JSON of what the server says of its speculative decoding
	Finish    []byte // finish_reason
	Message   []byte // of an error event: the server's words
	Code      int    // of an error event: a numeric code in it, else 0
	Strange   []byte // the name under which there is text that is none of the above
	Scratch   []byte // for unescaping; grown by the parser, reused between events
}

// Reset empties d for the next event and keeps its scratch.
func (d *Delta) Reset() { *d = Delta{Scratch: d.Scratch[:0]} }

// Parser reads answers. It does not block, allocates only to grow what it uses again, and holds no part of data's memory.
type Parser interface {
	// Event reads one server-sent event.
	Event(name, data []byte, d *Delta) Class
	// Body reads a whole answer that is not an event stream.
	Body(data []byte, d *Delta) Class
}

// Observer is told of a call's progress on the transport's thread: atomics and non-blocking sends only.
type Observer interface {
	First(*Call) // at most once, at the first content event of a 2xx answer
	Done(*Call)  // exactly once, after the last write to the Call
}

// Keep says how much of an answer a Call holds on to.
type Keep uint8

const (
	KeepNothing Keep = iota
	KeepText         // Text: all content, reasoning and tool parts in order
	KeepRaw          // Raw as well: the body as received
)

// Field is one header field. Names are written as given on HTTP/1.1 and in lower case on HTTP/2.
type Field struct{ Name, Value string }

// Protocol is the HTTP version a target is spoken to in.
type Protocol uint8

const (
	Auto Protocol = iota // ALPN over TLS; 1.1 in the clear
	HTTP1
	HTTP2 // over TLS, by ALPN; a server that does not offer it is an error
	H2C   // in the clear, with prior knowledge
)

// Target is one endpoint address. It is read-only after Transport.Open.
type Target struct {
	Scheme   string // http or https
	Host     string // as the Host header says it
	Addr     string // host:port to dial
	Path     string // path and query of the inference endpoint
	Header   []Field
	Protocol Protocol
	TLS      *tls.Config // nil: the defaults; ServerName is set from Addr where it is empty
	// Streams is how many requests may share one HTTP/2 connection, within what the server allows; 0 means 16.
	Streams int
	// Addrs are dialled, in order, in place of what Addr's host resolves to; none = it is looked up.
	Addrs []netip.Addr
	// Dial makes the target's TCP connections, each to an ip:port: from a chosen address, or through a proxy. nil = the transport's own way.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Unix is the path of the socket that is dialled in place of Addr; "" = TCP.
	Unix string
	// Absolute has request lines over HTTP/1.1 hold the whole URL, as a proxy in the clear wants it.
	Absolute bool
}

// DoneWait is how long a transport waits for the end of a body after [DONE], with which the answer is complete. It then gives up the
// connection that the body goes on on; over HTTP/2 the stream.
const DoneWait = 500 * time.Millisecond

// ConnID names a connection of a transport, from 1; 0 = none.
type ConnID uint64

// Cold says why a request's times do not enter the latency sets.
type Cold uint8

const (
	FirstUse       Cold = 1 << iota // first use of an opened but unprobed connection
	Dialled                         // it had to dial, or to wait for a dial or for SETTINGS
	Resent                          // sent again after an idle connection had closed under it
	FirstInference                  // first inference of a target not proven warm; set by the engine
)

// ConnFacts are the facts of one connection's opening. Absent stamps are 0.
type ConnFacts struct {
	ID                    ConnID
	DNSStart, DNSEnd      int64 // 0 where the address is an IP literal
	DialStart, DialEnd    int64 // TCP
	TLSStart, TLSEnd      int64
	Settings              int64 // HTTP/2: the server's SETTINGS came
	ProbeStart, ProbeEnd  int64 // first write of the probe, end of its answer
	ProbeStatus           int
	Local, Remote         string // ip:port
	Protocol              string // HTTP/1.1 or HTTP/2
	TLSVersion, TLSCipher string
	Streams               int // requests it may carry at once, by the target's wish and the server's limit; 0 = not known
	KernelStamps          bool
}

// Finish reasons, folded.
type FinishReason uint8

const (
	FinishNone FinishReason = iota
	FinishStop
	FinishLength
	FinishTool
	FinishOther
)

// Facts are what a transport learned about one request.
type Facts struct {
	Ready      int64 // Start was called
	Acquired   int64 // it had its connection, usable
	FirstWrite int64 // right before the first write
	LastWrite  int64 // after the last byte was handed to the kernel
	HeadAt     int64 // the response head was complete; 0 = never
	FirstByte  int64 // first byte of the response body
	LastByte   int64 // last byte of the response body
	EndAt      int64 // last event, or the end of the body, or when the error was known
	Over       int64 // the end of the answer arrived, or the error was known
	HeadKernel bool  // HeadAt, FirstByte and LastByte are kernel stamps where there are any

	Conn     ConnFacts // of the connection used; dial stamps kept from when it was opened
	ConnUse  uint32    // which use of the connection this was, probes counted; 0 = none was used
	Reused   bool      // it did not have to dial
	Cold     Cold
	Queued   int64 // ns waited for a free connection or stream of our own making
	Attempts uint8 // 1, or 2 where it was sent again

	Status      int
	Reason      string // reason phrase; on HTTP/2 the standard text
	ContentType string
	Encoding    string // Content-Encoding; set before Call.Head
	RetryAfter  string // as the server wrote it
	Sent        int64  // body bytes
	Received    int64  // body bytes
	Reads       int32  // reads that brought body bytes
	Events      int32  // events of the stream, [DONE] counted
	SharedReads int32  // content events that shared a read with one before them
	StampsFell  int32  // kernel stamps outside the request's own bounds
	Finish      FinishReason
	SawDone     bool // [DONE]
	Unended     bool // the body went on after [DONE] for longer than a transport waits, so the rest was given up
	Malformed   int32
	Strange     string // before any content, text came under this name, which is none that is read
	Truncated   bool   // Text or Raw reached its bound
	CancelledAt int64
	Cause       Cause
	Err         *Error
}

// Error is a failed request. Code and Type are aiperf's; Message is for people, bounded in length, with the server's own words.
type Error struct {
	Code    int // HTTP status, 499 for a cancelled request, 502 for an error event; 0 = none
	Type    string
	Message string
	Cause   string   // type of the underlying error, where there is one
	Chain   []string // types from the outermost to the root
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// Cause says why a call was cancelled.
type Cause uint8

const (
	NotCancelled Cause = iota
	ByPlan             // CancelAfter ran out
	ByGrace            // the phase's grace ended
	ByUser             // Ctrl-C
	ByTimeout          // Timeout ran out
)

// Lease says whose a call's connection is, over HTTP/1.1; over HTTP/2, where requests share connections, it has no meaning.
type Lease uint8

const (
	Pooled Lease = iota // any ready one, which others may have after the answer
	Single              // one dialled for this call and closed after its answer: asked for, so that the call is not cold
	Held                // a ready one, which nobody else gets after the answer: the session's next call names it, or Release closes it
	Final               // as Held, and closed after the answer
)

// Call is one request and its answer. It is made once per worker and reused. It is the transport's from Start until Done.
type Call struct {
	Target      *Target
	Method      string  // "" = POST
	Path        string  // "" = Target.Path
	Header      []Field // of this request, after Target.Header
	Body        []byte
	Conn        ConnID // 0 = any ready one; else the one of the turn before, if it still stands
	Lease       Lease
	Parser      Parser
	Obs         Observer
	Timeout     time.Duration // from ready; 0 = none
	CancelAfter time.Duration // from the last byte written; 0 = never
	Keep        Keep
	MaxChunks   int // the output limit where it is known; Chunks has room for that many, up to 256, before the first answer
	// Watch fills Reads and Reply, for those who want every part of the exchange.
	Watch bool

	Facts  Facts   // out
	Chunks []Chunk // out: content parts
	Text   []byte  // out
	Raw    []byte  // out
	Usage  []byte  // out: raw JSON of the last non-empty usage object
	// FirstUsage is the raw usage object of a stream's first content event, empty where it has none; out.
	FirstUsage []byte
	Spec       []byte  // out: raw JSON of the last object on speculative decoding
	Reads      []Part  // out: each read that brought body bytes
	Reply      []Field // out: header fields of the final response

	gen    atomic.Uint32
	intake intake
}

// Generation is the current generation of the call: a Cancel for another one does nothing.
func (c *Call) Generation() uint32 { return c.gen.Load() }

// Probe is the light GET that makes an opened connection a used one. Any answer counts.
type Probe struct {
	Path   string
	Header []Field
	// Spare: the connections that Open makes are beyond what the plan's sessions need. What the busiest moment so far has not needed of
	// them is probed and replaced only as far as that stays under 5 % of the target's requests.
	Spare bool
}

// Health is what a transport says of itself.
type Health struct {
	Client       string // portable, reactor, fake
	Loops        int    // of the reactor at the end; 0 = it is another client
	KernelStamps bool   // all its connections so far have them
	Open         int    // connections now
	Dialled      int64  // connections opened since the start, Open's counted
	Probes       int64
	StampFell    int64 // kernel stamps outside their request's bounds
	Unended      int64 // answers whose body did not end after [DONE]
}

// Transport sends calls. All methods may be called from any goroutine.
type Transport interface {
	// Open dials n connections to t at once, probes each, and keeps them ready. It returns the facts of those it opened, in order, and
	// the first error; on an error it keeps none of them.
	Open(ctx context.Context, t *Target, n int, p Probe) ([]ConnFacts, error)
	// Start sends c. It never blocks; errors come by Done. gen names this use of c.
	Start(c *Call) (gen uint32)
	// Cancel ends c if it is still in generation gen. It is idempotent, and Done still comes.
	Cancel(c *Call, gen uint32, why Cause)
	// Release closes a connection that is held for a session without another turn. It does nothing where there is no such connection.
	Release(t *Target, id ConnID)
	Health() Health
	// Close ends all calls and connections; after it no goroutine, descriptor or Call is held.
	Close(ctx context.Context) error
}
