// Package metrics holds the facts of one request (Record), the table of metric definitions that everything shown or written comes from,
// exact and HDR series, accumulators and results. It knows no HTTP, no files and no flags.
package metrics

// Kind says what a phase's records are for.
type Kind uint8

const (
	Profiling Kind = iota
	Warmup
)

func (k Kind) String() string {
	if k == Warmup {
		return "warmup"
	}
	return "profiling"
}

// Count is a number that may be absent. The zero value is absent.
type Count struct {
	N     int64
	Known bool
}

// Known is a present count.
func Known(n int64) Count { return Count{N: n, Known: true} }

// Cold is the set of reasons why a request's times stay out of the latency sets; 0 = hot. The bits are those of wire.Cold.
type Cold uint8

const (
	ColdFirstUse       Cold = 1 << iota // first use of an opened but unprobed connection
	ColdDialled                         // had to dial, or to wait for a dial or for SETTINGS
	ColdResent                          // sent again after an idle connection had closed
	ColdFirstInference                  // first inference of a target not proven warm
)

// Names are the reasons in c, as files and screens write them, in the order of the bits.
func (c Cold) Names() []string {
	var names []string
	for i, name := range [...]string{"first_use", "dialled", "resent", "first_inference"} {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Usage is what the server said of its token counts.
type Usage struct {
	Prompt, Completion, Total           Count
	Reasoning                           Count
	CacheRead, CacheWrite, CacheMiss    Count
	AcceptedPrediction, RejectedPredict Count
	PromptAudio, CompletionAudio        Count
	ToolUsePrompt                       Count
}

// Contradicts reports whether there are more reasoning tokens than completion tokens, which hold them.
func (u *Usage) Contradicts() bool {
	return u.Reasoning.Known && u.Completion.Known && u.Reasoning.N > u.Completion.N
}

// Error is a failed request. Two errors are the same kind where Code, Type and Message are equal.
type Error struct {
	Code    int      `json:"code,omitempty"`
	Type    string   `json:"type,omitempty"`
	Message string   `json:"message"`
	Cause   string   `json:"cause,omitempty"`
	Chain   []string `json:"cause_chain,omitempty"`
}

// HTTP is the request's way over the network. Stamps are run times in ns; 0 = absent.
type HTTP struct {
	Blocked            int64 // ns waited for a free connection or stream
	DNSStart, DNSEnd   int64 // of this request's own dial
	DialStart, DialEnd int64
	TLSStart, TLSEnd   int64
	FirstWrite         int64
	LastWrite          int64
	Head               int64 // the response head was complete, whatever the status
	FirstByte          int64 // of the response body
	LastByte           int64
	Reused             bool
	Sent, Received     int64 // body bytes
	Writes, Reads      int64 // body writes; reads that brought body bytes
	Status             int
	Reason             string
	Local, Remote      string
	ConnID             uint64
	ConnUse            uint32
	Protocol           string
}

// Exchange is every part of a request and its answer, where the run keeps it.
type Exchange struct {
	Reads []Read        // those that brought bytes of the body
	Reply []HeaderField // of the final response
}

// Read is the arrival of a part of the body, in ns of the run, and its size in bytes.
type Read struct{ At, Size int64 }

// HeaderField is a field of an HTTP head.
type HeaderField struct{ Name, Value string }

// Gap is the time between two consecutive content events, in ns; Shared marks two events of one read, whose gap is not a measurement.
type Gap int64

// Shared is the absent gap.
const Shared Gap = -1

// Record is the facts of one request. Times are ns since the run's epoch; 0 = absent.
type Record struct {
	Seq            int64 // number of the request in its phase, from 0 (aiperf's session_num)
	Session        int64 // number of the session in its phase
	Turn           int32
	Phase          int32 // index of the phase in the run
	Kind           Kind
	Worker         int32
	ConversationID string
	RequestID      string
	CorrelationID  string

	Intended int64 // when the plan wanted it sent; equal to Issued in a closed loop
	// Scheduled is the time that a file's schedule has for the request; absent where it has none.
	Scheduled int64
	Issued    int64 // its slots were held
	Start     int64 // DESIGN.md 2: first write, or ready to go where it had to dial
	Ready     int64
	Ack       int64 // response head, of a 2xx answer
	First     int64 // first content event
	Second    int64 // second content event; absent where it shared the first one's read
	FirstOut  int64 // first content event that is not reasoning
	Last      int64 // last content event
	End       int64 // last event, [DONE] counted, or when the error was known

	FirstSlack, LastSlack uint32 // µs
	FirstLate, MaxLate    uint32 // µs
	KernelStamps          bool   // all content stamps are the kernel's
	Gaps                  []Gap  // between consecutive content events
	GapSlack              uint32 // µs: no measured gap's true length is further off than this
	GapsExact             int32  // gaps between two events whose arrivals are both exact
	Events                int32  // events of the stream
	Chunks                int32  // content events
	SharedReads           int32
	Malformed             int32 // events that were no JSON, or not of the endpoint's shape; they are left out
	Truncated             bool
	Strange               string // before any content there was text under this name, which is none that answers have their text under

	Streaming    bool // the request asked for a stream
	Whole        bool // it asked for a stream and was answered in one document: nothing is known of a first token
	In           Count
	Out          Count // client count of content and tool text
	Reasoning    Count
	RequestedOSL Count
	Usage        Usage
	// FirstTokens is how many tokens the server counted up to the first content event; known only where it says so in every event.
	FirstTokens Count
	Spec        *SpecDecode // nil = the server said nothing of it

	HTTP        HTTP
	Exchange    *Exchange // nil = the run keeps none
	Cold        Cold
	Err         *Error
	Attempts    int32 // how often it was sent, where that is more than once
	Waited      int64 // ns between its first send and its last, where that came after an answer that asked for it; Start is the first one's
	Cancelled   bool  // cut deliberately, by plan
	CancelledAt int64
	Censored    bool // cut by the end of the grace or by the user
	// ContextOverflow says that the server refused the request because its context is too small.
	ContextOverflow bool
}

// Valid reports whether r is an answered request: the latency, length and usage metrics come from valid records only.
func (r *Record) Valid() bool { return r.Err == nil && !r.Cancelled && !r.Censored }

// Failed reports whether r is an error record. A request cancelled by plan is one.
func (r *Record) Failed() bool { return (r.Err != nil || r.Cancelled) && !r.Censored }

// AddServerCounts fills in, from the server's own counts, what nobody has counted of a valid record: input, output and reasoning. What the
// server did not say stays absent.
func (r *Record) AddServerCounts() {
	own := *r
	own.UseServerCounts()
	if !r.In.Known {
		r.In = own.In
	}
	if !r.Out.Known && !r.Reasoning.Known {
		r.Out, r.Reasoning = own.Out, own.Reasoning
	}
}

// UseServerCounts replaces a valid record's token counts by the server's own: input = prompt tokens, reasoning = reasoning tokens, output =
// completion tokens less the reasoning ones; a usage that contradicts itself gives all completion tokens as output. What the server did not say becomes absent. Error records keep the client's
// input count. It may be called more than once.
func (r *Record) UseServerCounts() {
	if !r.Valid() {
		return
	}
	u := &r.Usage
	r.In, r.Reasoning, r.Out = u.Prompt, u.Reasoning, Count{}
	if u.Completion.Known {
		r.Out = Known(u.Completion.N - u.Reasoning.N)
	}
	if u.Contradicts() { // then the whole is the more likely count
		r.Reasoning, r.Out = Count{}, u.Completion
	}
}
