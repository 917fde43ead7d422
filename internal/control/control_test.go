package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"

	"prefire/internal/endpoint"
)

// served plays the servers: it is asked "METHOD URL" and gives status, body and error; asked keeps what was asked, with the time in s.
type served struct {
	clock  *fake.Clock
	began  int64
	answer func(line string, at float64) (int, string, error)
	asked  []string
	bodies []string
	last   *http.Request
}

func (s *served) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	at := float64(s.clock.Now()-s.began) / 1e9
	line := r.Method + " " + r.URL.String()
	s.asked, s.bodies, s.last = append(s.asked, fmt.Sprintf("%g %s", at, line)), append(s.bodies, body), r
	status, text, err := s.answer(line, at)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// client makes a client whose servers are played.
func client(answer func(line string, at float64) (int, string, error)) (*Client, *served, *[]string) {
	clock := fake.NewClock()
	s := &served{clock: clock, began: clock.Now(), answer: answer}
	var said []string
	c := New(Options{Clock: clock, Over: s, Say: func(line string) { said = append(said, line) },
		Header: []wire.Field{{Name: "Host", Value: "inner"}, {Name: "X-A", Value: "b"}, {Name: "Authorization", Value: "Bearer k"}}})
	return c, s, &said
}

func one() []Server {
	return []Server{{Base: "http://h:1/v1?key=SEKRET", Models: "http://h:1/v1/models", Inference: "http://h:1/v1/chat/completions?key=SEKRET"}}
}

func TestWaitTriesUntilTheServerIsReady(t *testing.T) {
	const list = `{"data":[{"id":"m"}]}`
	for _, tt := range []struct {
		name   string
		r      Readiness
		answer func(line string, at float64) (int, string, error)
		asked  []string
		said   []string
	}{
		{"a list that fills", Readiness{Models: true, Interval: 2 * time.Second},
			func(_ string, at float64) (int, string, error) {
				switch {
				case at < 3:
					return 0, "", errors.New("connection refused")
				case at < 5:
					return 200, `{"data":[{"id":"other"}]}`, nil
				}
				return 200, list, nil
			},
			[]string{"0 GET http://h:1/v1/models", "2 GET http://h:1/v1/models", "4 GET http://h:1/v1/models", "6 GET http://h:1/v1/models"},
			[]string{"waiting for model 'm' to become ready at http://h:1/v1: connection refused; trying every 2 s",
				"waiting for model 'm' to become ready at http://h:1/v1: the server's list has no such model; trying every 2 s"}},
		{"a server without a list", Readiness{Models: true, Interval: time.Second},
			func(line string, at float64) (int, string, error) {
				switch {
				case strings.HasSuffix(line, "/models"):
					return 404, "", nil
				case at < 1:
					return 502, "", nil
				}
				return 204, "", nil
			},
			[]string{"0 GET http://h:1/v1/models", "0 GET http://h:1/v1?key=SEKRET", "1 GET http://h:1/v1/models", "1 GET http://h:1/v1?key=SEKRET"},
			[]string{"waiting for model 'm' to become ready at http://h:1/v1: there is no list of models, and the server's address was answered with 502; " +
				"trying every 1 s"}},
		{"an inference, refused", Readiness{Inference: true, Interval: 5 * time.Second},
			func(_ string, at float64) (int, string, error) {
				if at < 5 {
					return 503, "", nil
				}
				return 404, "", nil
			},
			[]string{"0 POST http://h:1/v1/chat/completions?key=SEKRET", "5 POST http://h:1/v1/chat/completions?key=SEKRET"},
			[]string{"probing http://h:1/v1/chat/completions with model 'm': answered with 503; trying every 5 s"}},
		{"both", Readiness{Models: true, Inference: true, Interval: time.Second},
			func(string, float64) (int, string, error) { return 200, list, nil },
			[]string{"0 GET http://h:1/v1/models", "0 POST http://h:1/v1/chat/completions?key=SEKRET"}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s, said := client(tt.answer)
			tt.r.Names, tt.r.Timeout = []string{"m"}, time.Minute
			if err := c.Wait(t.Context(), &tt.r, one()); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			if !slices.Equal(s.asked, tt.asked) || !slices.Equal(*said, tt.said) {
				t.Errorf("%s: asked %q, said %q; want %q, %q", tt.name, s.asked, *said, tt.asked, tt.said)
			}
			if h := s.last.Header; s.last.Host != "inner" || h.Get("X-A") != "b" || h.Get("Authorization") != "Bearer k" {
				t.Errorf("%s: host %q, header %v", tt.name, s.last.Host, h)
			}
			if want := `{"messages":[{"role":"user","content":"Lo"}],"max_tokens":1,"model":"m"}`; tt.r.Inference &&
				(s.bodies[len(s.bodies)-1] != want || s.last.Header.Get("Content-Type") != "application/json") {
				t.Errorf("%s: body %s as %s, want %s", tt.name, s.bodies[len(s.bodies)-1], s.last.Header.Get("Content-Type"), want)
			}
		})
	}
}

func TestWaitAsksForEachModelAsItsEndpointDoes(t *testing.T) {
	for kind, want := range map[endpoint.Type][]string{
		endpoint.Completions: {`{"prompt":"Lo","max_tokens":1,"model":"m"}`, `{"prompt":"Lo","max_tokens":1,"model":"n"}`},
		endpoint.Embeddings:  {`{"input":"Lo","model":"m"}`, `{"input":"Lo","model":"n"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s, _ := client(func(string, float64) (int, string, error) { return 200, "{}", nil })
			err := c.Wait(t.Context(), &Readiness{Inference: true, Names: []string{"m", "n"}, Type: kind, Timeout: time.Minute, Interval: time.Second}, one())
			if err != nil || !slices.Equal(s.bodies, want) {
				t.Errorf("%s: %q, %v; want %q", kind, s.bodies, err, want)
			}
		})
	}
}

func TestWaitEnds(t *testing.T) {
	down := func(string, float64) (int, string, error) { return 0, "", errors.New("connection refused") }
	synctest.Test(t, func(t *testing.T) { // with its time
		c, s, _ := client(down)
		err := c.Wait(t.Context(), &Readiness{Models: true, Names: []string{"m"}, Timeout: 5 * time.Second, Interval: 2 * time.Second}, one())
		const want = "timed out after 5.0s waiting for model 'm' to become ready at http://h:1/v1 (checked 3 time(s)): connection refused; " +
			"start the server, or raise --wait-for-model-timeout"
		if err == nil || err.Error() != want || len(s.asked) != 3 || s.clock.Now()-s.began != int64(5*time.Second) {
			t.Errorf("%v after %d ns and %d tries; want %s after 5 s and 3", err, s.clock.Now()-s.began, len(s.asked), want)
		}
	})
	synctest.Test(t, func(t *testing.T) { // with the user's stop
		c, s, _ := client(down)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := c.Wait(ctx, &Readiness{Inference: true, Names: []string{"m"}, Timeout: time.Hour, Interval: time.Minute}, one())
		if !errors.Is(err, context.DeadlineExceeded) || s.clock.Now()-s.began != int64(3*time.Second) {
			t.Errorf("%v after %d ns, want the context's end after 3 s", err, s.clock.Now()-s.began)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a server that does not answer
		clock := fake.NewClock()
		c := New(Options{Clock: clock, Say: func(string) {}, Over: silent{}})
		err := c.Wait(t.Context(), &Readiness{Models: true, Names: []string{"m"}, Timeout: 12 * time.Second, Interval: time.Second}, one())
		// Tries of 5 s with a second between, the last one cut.
		if err == nil || !strings.Contains(err.Error(), "(checked 2 time(s)): no answer within 5 s;") {
			t.Errorf("got %v", err)
		}
	})
}

// silent is a server that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestABusyServerIsAskedAgainToEmptyItsCache(t *testing.T) {
	const url = "POST http://h:1/reset_prefix_cache"
	for _, tt := range []struct {
		name   string
		answer func(n int) (int, string, error)
		asked  []string
		want   string
	}{
		{"done", func(int) (int, string, error) { return 200, `{"success":true}`, nil }, []string{"0 " + url}, ""},
		{"busy", func(n int) (int, string, error) { return []int{503, 409, 423, 429, 204}[n], "", nil },
			[]string{"0 " + url, "1 " + url, "3 " + url, "7 " + url, "15 " + url}, ""},
		{"blocks in use", func(n int) (int, string, error) { return 200, []string{`{"success": false}`, ""}[n], nil }, []string{"0 " + url, "1 " + url}, ""},
		{"away", func(n int) (int, string, error) { return 200, "", []error{errors.New("connection refused"), nil}[n] }, []string{"0 " + url, "1 " + url}, ""},
		{"busy for too long", func(int) (int, string, error) { return 503, "", nil },
			[]string{"0 " + url, "1 " + url, "3 " + url, "7 " + url, "15 " + url},
			"reset_kv_cache failed before benchmark start: " + url + ": answered 503 Service Unavailable"},
		{"not there", func(int) (int, string, error) { return 404, "", nil }, []string{"0 " + url},
			"reset_kv_cache failed before benchmark start: " + url + ": answered 404 Not Found; vLLM has this path where it runs with VLLM_SERVER_DEV_MODE=1"},
		{"refused", func(int) (int, string, error) { return 403, "", nil }, []string{"0 " + url},
			"reset_kv_cache failed before benchmark start: " + url + ": answered 403 Forbidden"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := -1
			c, s, _ := client(func(string, float64) (int, string, error) { n++; return tt.answer(n) })
			// Two addresses of one server are one server.
			err := c.Reset(t.Context(), &Reset{Path: "/reset_prefix_cache", Timeout: time.Second, Retry: 20 * time.Second}, append(one(), Server{Base: "http://h:1"}))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want || !slices.Equal(s.asked, tt.asked) {
				t.Errorf("%s: %q, asked %q; want %q, %q", tt.name, got, s.asked, tt.want, tt.asked)
			}
		})
	}
}

func TestTheProfilerRunsFromTheFirstPhaseToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, _ := client(func(string, float64) (int, string, error) { return 200, "", nil })
		p := c.Profiler(append(one(), Server{Base: "http://other"}), "/start_profile", "/stop_profile", time.Second)
		steps := []func() error{
			func() error { return p.Enter(t.Context()) }, // two phases that overlap, and one after them
			func() error { return p.Enter(t.Context()) }, p.Leave, p.Leave,
			func() error { return p.Enter(t.Context()) }, p.Leave,
		}
		for i, step := range steps {
			if err := step(); err != nil {
				t.Errorf("step %d: %v", i, err)
			}
		}
		run := []string{"0 POST http://h:1/start_profile", "0 POST http://other/start_profile", "0 POST http://h:1/stop_profile", "0 POST http://other/stop_profile"}
		if want := append(slices.Clone(run), run...); !slices.Equal(s.asked, want) {
			t.Errorf("asked %q, want %q", s.asked, want)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the second server has none
		c, s, _ := client(func(line string, _ float64) (int, string, error) {
			if line == "POST http://other/start_profile" {
				return 404, "", nil
			}
			return 200, "", nil
		})
		err := c.Profiler(append(one(), Server{Base: "http://other"}), "/start_profile", "/stop_profile", time.Second).Enter(t.Context())
		const want = "server_profiler start failed: POST http://other/start_profile: answered 404 Not Found; vLLM has this path where it is served with --profiler-config"
		asked := []string{"0 POST http://h:1/start_profile", "0 POST http://other/start_profile", "0 POST http://h:1/stop_profile"}
		if err == nil || err.Error() != want || !slices.Equal(s.asked, asked) {
			t.Errorf("%v, asked %q; want %s, %q", err, s.asked, want, asked)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a stop that fails leaves out no server
		c, s, _ := client(func(line string, _ float64) (int, string, error) {
			if line == "POST http://h:1/stop_profile" {
				return 500, "", nil
			}
			return 200, "", nil
		})
		p := c.Profiler(append(one(), Server{Base: "http://other"}), "/start_profile", "/stop_profile", time.Second)
		if err := p.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := p.Leave()
		const want = "server_profiler stop failed for 1 origin(s): POST http://h:1/stop_profile: answered 500 Internal Server Error"
		if err == nil || err.Error() != want || len(s.asked) != 4 {
			t.Errorf("%v, asked %q; want %s after 4 requests", err, s.asked, want)
		}
	})
}
