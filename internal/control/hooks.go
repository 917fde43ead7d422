package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Reset is the emptying of prefix caches.
type Reset struct {
	Path    string        // below each server's scheme and host
	Timeout time.Duration // of one request
	Retry   time.Duration // how long a busy server is asked again
}

// Pauses between the requests to a busy server: twice as long each time.
const (
	firstPause   = time.Second
	longestPause = 8 * time.Second
)

// rejected is an answer that is no success.
type rejected struct{ status int }

func (r rejected) Error() string {
	return fmt.Sprintf("answered %d %s", r.status, http.StatusText(r.status))
}

// errHeld is vLLM's answer where blocks of its cache are in use.
var errHeld = errors.New(`answered {"success": false}: blocks of the cache are in use`)

// Reset empties the prefix cache of every server. A server that is busy, or does not answer, is asked again.
func (c *Client) Reset(ctx context.Context, r *Reset, servers []Server) error {
	for _, origin := range origins(servers) {
		deadline, pause := c.clock.Now()+int64(r.Retry), firstPause
		for {
			err := c.post(ctx, r.Timeout, origin+r.Path)
			if err == nil {
				break
			}
			var no rejected
			final := errors.As(err, &no) && !slices.Contains([]int{http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests,
				http.StatusServiceUnavailable}, no.status)
			if final || ctx.Err() != nil || c.clock.Now()+int64(pause) >= deadline {
				return fmt.Errorf("reset_kv_cache failed before benchmark start: POST %s: %w%s", shown(origin+r.Path), err,
					hint(err, "vLLM has this path where it runs with VLLM_SERVER_DEV_MODE=1"))
			}
			if err := c.clock.Until(ctx, c.clock.Now()+int64(pause)); err != nil {
				return err
			}
			pause = min(2*pause, longestPause)
		}
	}
	return nil
}

// post makes one request without a body.
func (c *Client) post(ctx context.Context, limit time.Duration, address string) error {
	a, err := c.ask(ctx, limit, http.MethodPost, address, nil)
	switch {
	case err != nil:
		return err
	case !a.ok():
		return rejected{a.status}
	}
	var said struct{ Success *bool }
	if json.Unmarshal(a.body, &said) == nil && said.Success != nil && !*said.Success {
		return errHeld
	}
	return nil
}

func hint(err error, text string) string {
	if no, ok := errors.AsType[rejected](err); ok && no.status == http.StatusNotFound {
		return "; " + text
	}
	return ""
}

// Profiler starts the servers' profilers when the first of the phases that run at one time begins, and stops them when the last is over.
type Profiler struct {
	client  *Client
	origins []string
	start   string
	stop    string
	timeout time.Duration

	mu     sync.Mutex // held during the requests, so that a start waits for the stop before it
	phases int
}

// Profiler makes one for the paths below each server's scheme and host; timeout is of one request.
func (c *Client) Profiler(servers []Server, start, stop string, timeout time.Duration) *Profiler {
	return &Profiler{client: c, origins: origins(servers), start: start, stop: stop, timeout: timeout}
}

// Enter is called before a phase. Where a server does not start its profiler, those started before are stopped again.
func (p *Profiler) Enter(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phases == 0 {
		for i, origin := range p.origins {
			err := p.client.post(ctx, p.timeout, origin+p.start)
			if err == nil {
				continue
			}
			err = fmt.Errorf("server_profiler start failed: POST %s: %w%s", shown(origin+p.start), err,
				hint(err, "vLLM has this path where it is served with --profiler-config"))
			started := slices.Clone(p.origins[:i])
			slices.Reverse(started)
			return errors.Join(err, p.end(started))
		}
	}
	p.phases++
	return nil
}

// Leave is called when a phase is over. It tries every server, however the run ended.
func (p *Profiler) Leave() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phases--; p.phases > 0 {
		return nil
	}
	return p.end(p.origins)
}

func (p *Profiler) end(origins []string) error {
	var failed []string
	for _, origin := range origins {
		if err := p.client.post(context.Background(), p.timeout, origin+p.stop); err != nil {
			failed = append(failed, fmt.Sprintf("POST %s: %v", shown(origin+p.stop), err))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("server_profiler stop failed for %d origin(s): %s", len(failed), strings.Join(failed, "; "))
}
