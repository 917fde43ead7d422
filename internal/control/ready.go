package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"prefire/internal/endpoint"
)

// Readiness is what is asked of each server before the load.
type Readiness struct {
	Models    bool // the list of models must have each of Names; a server without a list must answer at its address
	Inference bool // an inference of one token must be answered for each of Names, by anything below 500
	Names     []string
	Type      endpoint.Type // of the inference; "" = chat
	Timeout   time.Duration
	Interval  time.Duration // between tries
}

// Least times of one try, where Interval is shorter: a list of models, an inference of a model that is being loaded.
const (
	leastList      = 5 * time.Second
	leastInference = 30 * time.Second
)

// Wait returns when every server is ready. Each check of each server may take Timeout.
func (c *Client) Wait(ctx context.Context, r *Readiness, servers []Server) error {
	for i := range servers {
		for _, model := range r.Names {
			if err := c.ready(ctx, r, &servers[i], model); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready returns when one server is ready for one model.
func (c *Client) ready(ctx context.Context, r *Readiness, s *Server, model string) error {
	if r.Models {
		what := fmt.Sprintf("waiting for model '%s' to become ready at %s", model, shown(s.Base))
		if err := c.until(ctx, r, what, leastList, func(limit time.Duration) string { return c.listed(ctx, limit, s, model) }); err != nil {
			return err
		}
	}
	if !r.Inference {
		return nil
	}
	what := fmt.Sprintf("probing %s with model '%s'", shown(s.Inference), model)
	return c.until(ctx, r, what, leastInference, func(limit time.Duration) string { return c.infers(ctx, limit, s, r.Type, model) })
}

// until tries a check again and again, until it finds nothing missing or the time is over.
func (c *Client) until(ctx context.Context, r *Readiness, what string, least time.Duration, check func(limit time.Duration) (missing string)) error {
	deadline := c.clock.Now() + int64(r.Timeout)
	last := ""
	for tries := 0; ; tries++ {
		left := time.Duration(deadline - c.clock.Now())
		if left <= 0 {
			return fmt.Errorf("timed out after %.1fs %s (checked %d time(s)): %s; start the server, or raise --wait-for-model-timeout",
				r.Timeout.Seconds(), what, tries, last)
		}
		missing := check(min(max(r.Interval, least), left))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case missing == "":
			return nil
		case missing != last:
			c.say(fmt.Sprintf("%s: %s; trying every %.4g s", what, missing, r.Interval.Seconds()))
		}
		last = missing
		if err := c.clock.Until(ctx, min(c.clock.Now()+int64(r.Interval), deadline)); err != nil {
			return err
		}
	}
}

func (c *Client) listed(ctx context.Context, limit time.Duration, s *Server, model string) (missing string) {
	a, err := c.ask(ctx, limit, http.MethodGet, s.Models, nil)
	switch {
	case err != nil:
		return err.Error()
	case a.status == http.StatusOK:
		list, err := endpoint.ParseModels(a.body)
		if err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(list, func(m endpoint.Model) bool { return m.ID == model }) {
			return "the server's list has no such model"
		}
		return ""
	case a.status != http.StatusNotFound:
		return fmt.Sprintf("the list of models was answered with %d", a.status)
	}
	base, err := c.ask(ctx, limit, http.MethodGet, s.Base, nil)
	switch {
	case err != nil:
		return "there is no list of models, and the server's address: " + err.Error()
	case !base.ok():
		return fmt.Sprintf("there is no list of models, and the server's address was answered with %d", base.status)
	}
	return ""
}

// infers sends the shortest of inferences, which proves the whole way to the model.
func (c *Client) infers(ctx context.Context, limit time.Duration, s *Server, kind endpoint.Type, model string) (missing string) {
	name, err := json.Marshal(model)
	if err != nil {
		return err.Error()
	}
	a, err := c.ask(ctx, limit, http.MethodPost, s.Inference, fmt.Appendf(nil, `{%s,"model":%s}`, shortest(kind), name))
	switch {
	case err != nil:
		return err.Error()
	case a.status >= http.StatusInternalServerError:
		return fmt.Sprintf("answered with %d", a.status)
	}
	return "" // what is refused was understood; the load's first request is refused for the same reason, and says so
}

// shortest is what a type of endpoint is asked with for the least of work, as the inside of a JSON object.
func shortest(kind endpoint.Type) string {
	switch kind {
	case endpoint.Completions:
		return `"prompt":"Lo","max_tokens":1`
	case endpoint.Embeddings:
		return `"input":"Lo"`
	}
	return `"messages":[{"role":"user","content":"Lo"}],"max_tokens":1`
}
