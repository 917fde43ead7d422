package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bubbleClock is package time inside a synctest bubble.
type bubbleClock struct{ epoch time.Time }

func (c *bubbleClock) Now() int64              { return int64(time.Since(c.epoch)) + 1 }
func (c *bubbleClock) Wall(at int64) time.Time { return c.epoch.Add(time.Duration(at - 1)) }
func (c *bubbleClock) Until(ctx context.Context, at int64) error {
	t := time.NewTimer(time.Duration(at - c.Now()))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// server answers as a test says, and keeps when it was asked.
type server struct {
	mu     sync.Mutex
	epoch  time.Time
	asked  []string
	answer func(n int, r *http.Request) (status int, contentType, body string, err error)
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.asked)
	s.asked = append(s.asked, fmt.Sprintf("%v %s", time.Since(s.epoch), r.URL))
	s.mu.Unlock()
	status, contentType, body, err := s.answer(n, r)
	if err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {contentType}}
	return &http.Response{StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func counter(v int) string { return fmt.Sprintf("# TYPE c_total counter\nc_total %d\n", v) }

// scraper runs f with a scraper over s in a bubble.
func scraper(t *testing.T, s *server, f func(t *testing.T, x *Scraper, said *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		s.epoch = time.Now()
		x := New(Options{Clock: &bubbleClock{time.Now()}, URLs: []string{"http://h:1/metrics?key=SEKRET"}, Agent: "a", Over: s, Say: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, line)
		}})
		f(t, x, &said)
	})
}

func TestAPhaseIsWhatTheServerCountedInIt(t *testing.T) {
	s := &server{answer: func(n int, _ *http.Request) (int, string, string, error) {
		return 200, "text/plain; version=0.0.4", counter(10 * n), nil
	}}
	scraper(t, s, func(t *testing.T, x *Scraper, said *[]string) {
		ctx := t.Context()
		x.Start(ctx)
		synctest.Wait() // the first reading: 0
		time.Sleep(100 * time.Millisecond)
		x.Begin(ctx, 0) // 10
		time.Sleep(700 * time.Millisecond)
		x.End(0) // 20 and 30 on the clock, then 40
		synctest.Wait()
		x.Finish(ctx, x.o.Clock.Now()) // one more on the clock, 50, and the last, 60
		want := []string{"0s", "100ms", "333ms", "666ms", "800ms", "999ms", "1.133s"}
		var got []string
		for _, a := range s.asked {
			at, _, _ := strings.Cut(a, " ")
			got = append(got, at)
		}
		if !slices.Equal(got, want) || len(*said) > 0 {
			t.Errorf("asked at %q, want %q; said %q", got, want, *said)
		}
		o := x.Outcomes()[0]
		r, ok := o.Book.Report([]int{0}, false)
		if !ok || !o.Read || o.Failed != 0 || o.URL != "http://h:1/metrics" {
			t.Fatalf("%+v %+v", o, r)
		}
		// What came after the phase's last reading counts to it, as what the server counted late; the rate is over the phase alone.
		c := r.Metrics[0].Series[0].Counter
		if want := 50 / 0.7; c.Total != 50 || c.Rate != want || r.Info.Fetches != 4 {
			t.Errorf("total %v, rate %v, want 50 and %v; %d readings", c.Total, c.Rate, want, r.Info.Fetches)
		}
	})
}

func TestAServerWithoutMetricsIsSaidOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(int, *http.Request) (int, string, string, error)
		asked  []string
		said   string
	}{
		{"refused", func(int, *http.Request) (int, string, string, error) {
			return 0, "", "", errors.New("connection refused")
		},
			[]string{"/metrics"}, "connection refused"},
		{"404", func(int, *http.Request) (int, string, string, error) { return 404, "text/html", "no", nil }, []string{"/metrics"}, "answered 404 Not Found"},
		{"JSON", func(int, *http.Request) (int, string, string, error) { return 200, "application/json", "[]", nil },
			[]string{"/metrics", "/prometheus/metrics"}, "the answer is no Prometheus text"},
		{"HTML", func(int, *http.Request) (int, string, string, error) { return 200, "text/html", "<html>", nil },
			[]string{"/metrics", "/prometheus/metrics"}, "the answer is no Prometheus text: it is not in Prometheus's text format"},
		{"too long", func(int, *http.Request) (int, string, string, error) {
			return 200, "text/plain", strings.Repeat("x", maxBody+1), nil
		}, []string{"/metrics"}, "the answer is longer than 16777216 bytes"},
		{"silent", func(_ int, r *http.Request) (int, string, string, error) {
			<-r.Context().Done()
			return 0, "", "", r.Context().Err()
		}, []string{"/metrics"}, "no answer within 10s"},
	} {
		s := &server{answer: c.answer}
		scraper(t, s, func(t *testing.T, x *Scraper, said *[]string) {
			x.Start(t.Context())
			x.Begin(t.Context(), 0)
			if waited := x.o.Clock.Now() - 1; waited > int64(edge) {
				t.Errorf("%s: a phase waited %v", c.name, time.Duration(waited))
			}
			time.Sleep(20 * time.Second)
			x.End(0)
			x.Finish(t.Context(), x.o.Clock.Now())
			var asked []string
			for _, a := range s.asked {
				_, path, _ := strings.Cut(strings.TrimSuffix(a, "?key=SEKRET"), "http://h:1")
				asked = append(asked, path)
			}
			want := "server metrics: http://h:1/metrics: " + c.said
			if !slices.Equal(asked, c.asked) || len(*said) != 1 || !strings.HasPrefix((*said)[0], want) || !strings.HasSuffix((*said)[0], "--no-server-metrics asks for none") {
				t.Errorf("%s: asked %q, said %q", c.name, asked, *said)
			}
			if o := x.Outcomes()[0]; o.Read || !strings.HasPrefix(o.Why, c.said) {
				t.Errorf("%s: %+v", c.name, o)
			}
		})
	}
}

func TestAReadingThatFailsLeavesTheOthers(t *testing.T) {
	s := &server{answer: func(n int, _ *http.Request) (int, string, string, error) {
		if n == 2 {
			return 503, "", "", nil
		}
		return 200, "text/plain", counter(n), nil
	}}
	scraper(t, s, func(t *testing.T, x *Scraper, said *[]string) {
		x.Start(t.Context())
		x.Begin(t.Context(), 0)
		time.Sleep(time.Second)
		x.End(0)
		x.Finish(t.Context(), x.o.Clock.Now())
		o := x.Outcomes()[0]
		r, _ := o.Book.Report([]int{0}, true)
		if o.Failed != 1 || o.Why != "answered 503 Service Unavailable" || len(*said) != 0 || r.Metrics[0].Series[0].Counter.Total != float64(len(s.asked)-2) {
			t.Errorf("%+v, said %q, asked %q, %+v", o, *said, s.asked, r.Metrics)
		}
	})
}

func TestTensorRTsMetricsAreFound(t *testing.T) {
	s := &server{answer: func(_ int, r *http.Request) (int, string, string, error) {
		if strings.HasPrefix(r.URL.Path, "/prometheus/") {
			return 200, "text/plain", counter(1), nil
		}
		return 200, "application/json", "[]", nil
	}}
	scraper(t, s, func(t *testing.T, x *Scraper, said *[]string) {
		x.o.URLs = nil
		x.list[0].url = "http://h:1/metrics"
		x.Start(t.Context())
		x.Begin(t.Context(), 0)
		x.End(0)
		x.Finish(t.Context(), x.o.Clock.Now())
		if o := x.Outcomes()[0]; !o.Read || len(*said) != 0 {
			t.Errorf("%+v, said %q, asked %q", o, *said, s.asked)
		}
	})
}

func TestAScraperThatNeverBeganEnds(t *testing.T) {
	x := New(Options{Clock: &bubbleClock{time.Now()}})
	x.Finish(t.Context(), 0)
	if len(x.Outcomes()) != 0 {
		t.Error("it has servers")
	}
}
