package loadgen

import (
	"errors"
	"fmt"
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
	Keep    wire.Keep     // KeepText where output tokens are counted by the client
	// Streams is how many sessions share one HTTP/2 connection.
	Streams int
}

// Target is one endpoint address with what the prewarm asks of it.
type Target struct {
	Wire       *wire.Target
	URL        string // as people know it
	ProbePath  string // of the light GET
	ModelsPath string // of the model list; "" = there is none
}

// Phase is one block of load: a fixed number of sessions in flight until the first stop is reached.
type Phase struct {
	Name        string
	Kind        metrics.Kind
	Concurrency int
	Requests    int64         // stop after this many requests; 0 = no such stop
	Sessions    int64         // stop starting sessions after this many; 0 = no such stop
	Duration    time.Duration // stop sending this long after the phase's start; 0 = no such stop
	// Grace is how long requests may still run after Duration, or after the user's stop, before they are cut. Negative = without end
	// (after the user's stop: UserGrace).
	Grace time.Duration
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
	Model          string // the run's own
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
	for _, ph := range p.Phases {
		if ph.Concurrency < 1 {
			return fmt.Errorf("phase %q: concurrency is %d, it must be at least 1", ph.Name, ph.Concurrency)
		}
		if ph.Requests <= 0 && ph.Sessions <= 0 && ph.Duration <= 0 {
			return fmt.Errorf("phase %q has no end: give it a number of requests, a number of sessions or a duration", ph.Name)
		}
	}
	return nil
}

// connections is how many connections to one target the plan's largest phase needs. first is one of them: over HTTP/2 a server may allow
// fewer requests at once than the plan wants to share a connection, and those beyond would wait on this side.
func (p *Plan) connections(first *wire.ConnFacts) int {
	n := 0
	for _, ph := range p.Phases {
		c := ph.Concurrency
		if ph.Requests > 0 {
			c = int(min(int64(c), ph.Requests))
		}
		if ph.Sessions > 0 {
			c = int(min(int64(c), ph.Sessions))
		}
		n = max(n, c)
	}
	// Sessions go round robin over the targets, but slow ones pile up: twice an even share, and never more than all.
	if t := len(p.Targets); t > 1 {
		n = min(n, 2*((n+t-1)/t))
	}
	if first.Protocol != "HTTP/1.1" {
		streams := p.Streams
		if first.Streams > 0 {
			streams = min(streams, first.Streams)
		}
		n = (n + streams - 1) / streams
	}
	return n
}
