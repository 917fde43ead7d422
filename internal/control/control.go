// Package control makes the requests beside a benchmark's load: it waits until servers are ready, empties their prefix caches, and starts and
// stops their profilers. They go over connections of their own, so that the load's are what they would be without.
package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"prefire/loadgen/wire"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 8 << 20

// Options are what a Client needs.
type Options struct {
	Clock  wire.Clock
	Header []wire.Field      // of every request: the user's own, and the key
	Over   http.RoundTripper // makes the connections
	Say    func(line string) // is told what is waited for
}

// Client makes control requests.
type Client struct {
	clock  wire.Clock
	header http.Header
	host   string // "" = the address's
	http   http.Client
	say    func(string)
}

// New makes a client.
func New(o Options) *Client {
	c := &Client{clock: o.Clock, header: http.Header{}, say: o.Say}
	for _, f := range o.Header {
		if strings.EqualFold(f.Name, "Host") {
			c.host = f.Value
			continue
		}
		c.header.Set(f.Name, f.Value)
	}
	c.http.Transport = o.Over
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Server is one server. Its addresses may hold a key in their query; what is said of it names them without.
type Server struct {
	Base      string // as given
	Models    string // of the list of models
	Inference string // of the load
}

// answer is what a server said.
type answer struct {
	status int
	body   []byte
}

func (a answer) ok() bool { return a.status/100 == 2 }

// ask makes one request, within limit.
func (c *Client) ask(ctx context.Context, limit time.Duration, method, address string, body []byte) (answer, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(within, method, address, bytes.NewReader(body))
	if err != nil {
		return answer{}, bare(err)
	}
	req.Header = c.header.Clone()
	req.Host = c.host
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := c.read(req)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return answer{}, fmt.Errorf("no answer within %.4g s", limit.Seconds())
	}
	return a, err
}

func (c *Client) read(req *http.Request) (answer, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, bare(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer{resp.StatusCode, body}, err
}

// bare takes the address off an error of net/http.
func bare(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// shown is an address without its query and its user, where keys may stand.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// origins are the distinct scheme://host of the servers, in order.
func origins(servers []Server) []string {
	var out []string
	seen := map[string]bool{}
	for i := range servers {
		u, err := url.Parse(servers[i].Base)
		if err != nil {
			continue // it was checked when the config was read
		}
		if o := u.Scheme + "://" + u.Host; !seen[o] {
			seen[o] = true
			out = append(out, o)
		}
	}
	return out
}
