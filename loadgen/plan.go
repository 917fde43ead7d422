package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"prefire/loadgen/wire"
	"prefire/metrics"
)

// Plan is everything the engine does in one run. It has no defaults: who makes it fills in every field that matters.
type Plan struct {
	Targets []Target
	Phases  []Phase
	Prewarm Prewarm
	Timeout time.Duration // of one request, from the moment it is ready; 0 = none
	// Retries is how often a request that was answered 429 is sent again, after the time that the answer's Retry-After asks for.
	Retries int
	Keep    wire.Keep // KeepText where output tokens are counted by the client
	Watch   bool      // every part of every exchange is handed over
	// Streams is how many sessions share one HTTP/2 connection.
	Streams int
	// Reuse is what becomes of connections between requests. All but Pooled are for HTTP/1.1.
	Reuse Reuse
	// Seed is what arrivals, ramps and cancellations are drawn from.
	Seed uint64
	// FirstUsage says that the usage in an answer's first content event counts that event's tokens.
	FirstUsage bool
	// DelayCap bounds the think time before a turn; 0 = no bound.
	DelayCap time.Duration
}

// Reuse says which requests share a connection.
type Reuse uint8

const (
	Pooled Reuse = iota // any, one after the other
	Sticky              // those of one session, which nobody else's follow
	Never               // none: each dials its own, which is part of its times
)

// Target is one endpoint address with what the prewarm asks of it.
type Target struct {
	Wire       *wire.Target
	URL        string // as people know it
	ProbePath  string // of the light GET
	ModelsPath string // of the model list; "" = there is none
}

// Phase is one block of load.
type Phase struct {
	Name     string
	Kind     metrics.Kind
	Arrivals Arrivals
	// Concurrency is how many sessions are open at once: exactly so many in a closed loop, at most so many elsewhere, where 0 means no limit.
	// A session keeps its place between its turns.
	Concurrency     int
	ConcurrencyRamp Ramp // from 1
	// Prefill is how many requests may wait for their first token at once; 0 = no limit.
	Prefill     int
	PrefillRamp Ramp          // from 1
	Requests    int64         // stop after this many requests; 0 = no such stop
	Sessions    int64         // stop starting sessions after this many; 0 = no such stop
	Duration    time.Duration // stop sending this long after the phase's start; 0 = no such stop
	// Grace is how long requests may still run after Duration, or after the user's stop, before they are cut. Negative = without end
	// (after the user's stop: UserGrace).
	Grace time.Duration
	// Seamless: the phase starts when the one before it has sent its last request, not when the last has returned.
	Seamless bool
	Cancel   Cancellation
	// FailedShare ends the run when a larger share of its measured requests has failed, once max(Concurrency, 10) have returned; nil = no
	// such end.
	FailedShare *float64
}

// Cancellation cuts requests on purpose.
type Cancellation struct {
	Share float64       // of all requests, 0 to 1
	Delay time.Duration // from a request's last byte written
}

// UserGrace bounds the drain after the user's stop where the phase's own grace has no end.
const UserGrace = 30 * time.Second

// Prewarm says how the run is made warm before its clock starts.
type Prewarm struct {
	On bool
	// MaxTokens is the output limit of the throwaway inference.
	MaxTokens int
	Timeout   time.Duration // of the throwaway and of the question for the model list
	// Models reads the body of the model list; nil = the list is not asked for.
	Models func(body []byte) ([]Model, error)
	// ErrorText takes the server's own words out of the body of an error; nil = the body is the words.
	ErrorText func(body string) string
	// ContextFigures reads an error's words that say that a request does not fit the model's context: the context, and how many tokens
	// were asked for, at least; nil = no such words are known.
	ContextFigures func(text string) (limit, asked int, ok bool)
	// Learn is told the source's and the server's count of a throwaway that succeeded, each known or not, and whether another one is sent
	// to the target; an error ends the run. ctx ends when the run is stopped. nil = nobody asks.
	Learn func(ctx context.Context, ours, server metrics.Count) (again bool, err error)
	Model string // the run's own
	// Others are the run's further models. Each gets a throwaway of its own.
	Others []string
	// Input and Output are the longest prompt (client count) and the output limit of the run, for the check against the model's
	// context; 0 = not known, not checked.
	Input, Output int
}

// Model is one entry of the server's model list.
type Model struct {
	ID     string
	MaxLen int // max_model_len; 0 = not said
}

// Validate reports what makes the plan impossible.
func (p *Plan) Validate() error {
	if len(p.Targets) == 0 {
		return errors.New("the plan has no target")
	}
	if len(p.Phases) == 0 {
		return errors.New("the plan has no phase")
	}
	for i := range p.Phases {
		if err := p.Phases[i].validate(); err != nil {
			return fmt.Errorf("phase %q: %w", p.Phases[i].Name, err)
		}
	}
	if p.Phases[0].Seamless {
		return fmt.Errorf("phase %q is the first and cannot follow another seamlessly", p.Phases[0].Name)
	}
	return nil
}

func (ph *Phase) validate() error {
	if err := ph.Arrivals.validate(); err != nil {
		return err
	}
	switch {
	case ph.Concurrency < 0, ph.Arrivals.Mode == Closed && ph.Concurrency < 1:
		return fmt.Errorf("concurrency is %d, it must be at least 1", ph.Concurrency)
	case ph.Prefill < 0:
		return fmt.Errorf("prefill concurrency is %d, it must be at least 1", ph.Prefill)
	case ph.Concurrency > 0 && ph.Prefill > ph.Concurrency:
		return fmt.Errorf("prefill concurrency is %d, and no more than the %d sessions at once can wait for a first token", ph.Prefill, ph.Concurrency)
	case ph.Cancel.Share < 0 || ph.Cancel.Share > 1:
		return fmt.Errorf("a share of %v of its requests is cancelled, it must lie between 0 and 1", ph.Cancel.Share)
	case ph.Arrivals.Mode != Scheduled && ph.Requests <= 0 && ph.Sessions <= 0 && ph.Duration <= 0:
		return errors.New("it has no end: give it a number of requests, a number of sessions or a duration")
	}
	return nil
}

// connections is how many connections to one target the plan's largest phase needs. first is one of them: over HTTP/2 a server may allow
// fewer requests at once than the plan wants to share a connection, and those beyond would wait on this side. latency is how long a request
// takes, as far as it is known.
func (p *Plan) connections(first *wire.ConnFacts, latency time.Duration) int {
	if p.Reuse == Never {
		return 0
	}
	n := 0
	for i := range p.Phases {
		n = max(n, p.Phases[i].atOnce(latency, p.Reuse == Sticky))
	}
	// Sessions go round robin over the targets, but slow ones pile up: twice an even share, and never more than all.
	if t := len(p.Targets); t > 1 {
		n = min(n, 2*((n+t-1)/t))
	}
	streams := p.streams(first)
	return (n + streams - 1) / streams
}

// Connections is how many connections to t the plan needs at once at least, as far as that is known before one is open.
func (p *Plan) Connections(t *wire.Target) int {
	first := wire.ConnFacts{Protocol: "HTTP/1.1"}
	if t.Protocol == wire.HTTP2 || t.Protocol == wire.H2C || t.Protocol == wire.Auto && t.Scheme == "https" {
		first.Protocol = "HTTP/2"
	}
	return p.connections(&first, 0)
}

// streams is how many requests share a connection like first.
func (p *Plan) streams(first *wire.ConnFacts) int {
	switch {
	case first.Protocol == "HTTP/1.1":
		return 1
	case first.Streams > 0:
		return min(p.Streams, first.Streams)
	}
	return p.Streams
}

// openedAtFirst bounds the connections that are opened beforehand for arrivals that do not wait for answers; more are opened as the need
// shows.
const openedAtFirst = 1024

// atOnce is how many requests of the phase are in flight together, as far as that can be known before it.
func (ph *Phase) atOnce(latency time.Duration, sticky bool) int {
	n := ph.Concurrency
	if ph.Arrivals.Mode != Closed {
		need := spareConnections + ph.Arrivals.Users
		if ph.Arrivals.Mode == Paced {
			need += int(min(math.Ceil(ph.Arrivals.peak()*latency.Seconds()), openedAtFirst))
		}
		if need = min(need, openedAtFirst); n == 0 || need < n {
			n = need
		}
	}
	if ph.Cancel.Share > 0 || sticky && ph.Arrivals.Mode == Closed {
		n += spareConnections // a request that is cut, or a session that ends, takes its connection with it
	}
	if ph.Requests > 0 {
		n = int(min(int64(n), ph.Requests))
	}
	if ph.Sessions > 0 {
		n = int(min(int64(n), ph.Sessions))
	}
	return n
}

// ahead reports whether connections are made ready ahead of need: where a phase's arrivals do not wait for answers, or sessions take theirs
// with them.
func (p *Plan) ahead() bool {
	return p.Reuse == Sticky || p.Reuse == Pooled && p.open()
}

// open reports whether a phase's arrivals do not wait for answers.
func (p *Plan) open() bool {
	return slices.ContainsFunc(p.Phases, func(ph Phase) bool { return ph.Arrivals.Mode != Closed })
}
