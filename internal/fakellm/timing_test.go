package fakellm

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// checkWrites demands that each write came exactly when it was due: time stands still in a bubble while anything runs.
func checkWrites(t *testing.T, list []Entry) {
	t.Helper()
	for _, e := range list {
		for _, w := range e.Writes {
			if w.BeforeNS != w.DueNS || w.AfterNS != w.DueNS {
				t.Errorf("%s due at %d was written from %d to %d", w.Kind, w.DueNS, w.BeforeNS, w.AfterNS)
			}
		}
	}
}

func TestTokensAreDueOnAnAbsoluteSchedule(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		body string
		want []string
	}{
		"ttft and itl": {Options{TTFT: 185 * time.Millisecond, ITL: 5 * time.Millisecond}, chatBody(3, 3),
			[]string{"role 185ms", "content 185ms", "content 190ms", "finish 195ms", "done 195ms"}},
		"one token": {Options{TTFT: time.Second, ITL: time.Hour}, chatBody(3, 1), []string{"role 1s", "finish 1s", "done 1s"}},
		"time per prompt token": {Options{TTFT: time.Millisecond, PrefillPerToken: 20 * time.Microsecond}, chatBody(100, 1),
			[]string{"role 3ms", "finish 3ms", "done 3ms"}},
		"below the knee": {Options{PrefillPerToken: time.Millisecond, Knee: 100, KneeFactor: 2.5}, chatBody(99, 1),
			[]string{"role 99ms", "finish 99ms", "done 99ms"}},
		"from the knee on": {Options{PrefillPerToken: time.Millisecond, Knee: 100, KneeFactor: 2.5}, chatBody(100, 1),
			[]string{"role 250ms", "finish 250ms", "done 250ms"}},
		"the chat template counts": {Options{PrefillPerToken: time.Millisecond, UsageExtra: 7}, chatBody(3, 1),
			[]string{"role 10ms", "finish 10ms", "done 10ms"}},
		"several tokens a chunk": {Options{TTFT: time.Second, ITL: time.Millisecond, TokensPerChunk: 4}, chatBody(3, 9),
			[]string{"role 1s", "content 1s", "content 1.004s", "finish 1.008s", "done 1.008s"}},
		"a stall after two tokens": {Options{TTFT: time.Second, ITL: 5 * time.Millisecond, Stall: 300 * time.Millisecond, StallAfter: 2}, chatBody(3, 4),
			[]string{"role 1s", "content 1s", "content 1.005s", "content 1.31s", "finish 1.315s", "done 1.315s"}},
		"usage": {Options{TTFT: time.Second}, strings.Replace(chatBody(3, 1), `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1),
			[]string{"role 1s", "finish 1s", "usage 1s", "done 1s"}},
		"not streamed": {Options{TTFT: time.Second, ITL: time.Millisecond}, strings.Replace(chatBody(3, 5), "true", "false", 1),
			[]string{"answer 1.004s"}},
		"an end-of-sequence token takes its time": {Options{TTFT: time.Second, ITL: time.Millisecond, OutputTokens: 2},
			strings.Replace(chatBody(3, 5), `"ignore_eos":true`, `"n":1`, 1),
			[]string{"role 1s", "content 1s", "content 1.001s", "finish 1.002s", "done 1.002s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, dial := startPipes(t, c.o)
				newClient(t, dial()).do("POST", chatPath, c.body)
				list := entries(t, s, 1)
				if got := dues(list[0]); !slices.Equal(got, c.want) {
					t.Errorf("got %v want %v", got, c.want)
				}
				checkWrites(t, list)
				if e := list[0]; e.Writes[0].Kind == WriteHead && e.Writes[0].BeforeNS != e.ArrivedNS {
					t.Error("the head of a stream did not go out at once")
				}
			})
		})
	}
}

func TestJitterDependsOnSeedAndPromptAlone(t *testing.T) {
	run := func(t *testing.T, seed uint64, prompt int) (times []string) {
		synctest.Test(t, func(t *testing.T) {
			s, dial := startPipes(t, Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, Jitter: 0.2, Seed: seed})
			newClient(t, dial()).do("GET", "/health", "") // what came before does not matter
			newClient(t, dial()).do("POST", chatPath, chatBody(prompt, 50))
			e := entries(t, s, 2)[1]
			times = dues(e)
			last := e.ArrivedNS
			for i, w := range e.Writes[2:52] {
				low, high := 8*time.Millisecond, 12*time.Millisecond
				if i == 0 {
					low, high = 80*time.Millisecond, 120*time.Millisecond
				}
				if gap := since(w.DueNS, last); gap < low-1 || gap > high+1 {
					t.Errorf("token %d came %v after the one before", i, gap)
				}
				last = w.DueNS
			}
		})
		return times
	}
	a := run(t, 1, 5)
	if b := run(t, 1, 5); !slices.Equal(a, b) {
		t.Errorf("the same seed and prompt gave %v and %v", a, b)
	}
	if b := run(t, 2, 5); slices.Equal(a, b) {
		t.Error("another seed gave the same times")
	}
	if b := run(t, 1, 6); slices.Equal(a, b) {
		t.Error("another prompt gave the same times")
	}
}

func TestSlotsQueueInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, Slots: 2})
		var wg sync.WaitGroup
		for range 5 {
			c := newClient(t, dial())
			c.send("POST", chatPath, chatBody(1, 3))
			wg.Go(func() { c.read() })
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if running, waiting := s.load.counts(); running != 2 || waiting != 3 {
			t.Errorf("%d running, %d waiting", running, waiting)
		}
		wg.Wait()
		// A slot is free when its last token is made, 120 ms after it was taken.
		var got []string
		for _, e := range entries(t, s, 5) {
			got = append(got, fmt.Sprint(e.InFlight, " ", time.Duration(e.QueuedNS), " ", time.Duration(e.TTFTNS)))
		}
		want := []string{"1 0s 100ms", "2 0s 100ms", "3 118ms 218ms", "4 118ms 218ms", "5 236ms 336ms"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v want %v", got, want)
		}
		checkWrites(t, entries(t, s, 5))
		if got := s.MaxInFlight(); got != 5 {
			t.Errorf("%d at most in flight", got)
		}
	})
}

func TestNoFreeSlotCanBeRefused(t *testing.T) {
	for _, code := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			s, dial := startPipes(t, Options{TTFT: time.Second, Slots: 1, Refuse: code})
			first := newClient(t, dial())
			first.send("POST", chatPath, chatBody(1, 1))
			synctest.Wait()
			if resp, body := newClient(t, dial()).do("POST", chatPath, chatBody(1, 1)); resp.StatusCode != code || body != string(busy(code).body()) {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
			first.read()
			if list := entries(t, s, 2); list[0].Status != code || list[0].InFlight != 0 || s.MaxInFlight() != 1 {
				t.Errorf("log: %+v, at most %d in flight", list[0], s.MaxInFlight())
			}
			if resp, _ := first.do("POST", chatPath, chatBody(1, 1)); resp.StatusCode != 200 {
				t.Errorf("the free slot was not given: %d", resp.StatusCode)
			}
		})
	}
}

func TestAQueuedRequestThatLeavesGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{TTFT: time.Second, Slots: 1})
		first, second, third := newClient(t, dial()), newClient(t, dial()), newClient(t, dial())
		for _, c := range []*asClient{first, second, third} {
			c.send("POST", chatPath, chatBody(1, 1))
			go func() { _, _ = io.Copy(io.Discard, c.r) }()
			synctest.Wait()
		}
		_ = second.c.Close()
		list := entries(t, s, 3)
		if got := fmt.Sprintf("%s %v", list[0].Ended, time.Duration(list[2].QueuedNS)); got != "client_closed 1s" {
			t.Errorf("got %s", got)
		}
		if s.InFlight() != 0 {
			t.Errorf("%d in flight after all", s.InFlight())
		}
	})
}

// TestNoLongerInFlightBeforeTheLastByte is the rule that lets a client with c sessions be held to exactly c.
func TestNoLongerInFlightBeforeTheLastByte(t *testing.T) {
	for _, stream := range []string{"true", "false"} {
		synctest.Test(t, func(t *testing.T) {
			s, dial := startPipes(t, Options{TTFT: time.Millisecond, ITL: time.Millisecond})
			c := newClient(t, dial())
			c.send("POST", chatPath, strings.Replace(chatBody(1, 3), "true", stream, 1))
			// A pipe has no buffer, so that the server cannot be ahead of what is read here.
			var seen string
			buf := make([]byte, 1)
			for !strings.HasSuffix(seen, "[DONE]\n\n\r\n0\r\n\r\n") && !strings.HasSuffix(seen, `"metrics":null}`) {
				if _, err := c.c.Read(buf); err != nil {
					t.Fatal(err)
				}
				seen += string(buf)
				if strings.Contains(seen, `"finish_reason":"length"`) && s.InFlight() != 0 {
					t.Fatalf("%d in flight after %q", s.InFlight(), seen)
				}
			}
		})
	}
}

func TestColdConnectionHoldsItsFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{TTFT: 185 * time.Millisecond, ColdConnection: 1500 * time.Millisecond})
		c := newClient(t, dial())
		for range 2 {
			c.do("POST", chatPath, chatBody(1, 1))
		}
		newClient(t, dial()).do("GET", "/health", "")
		list := entries(t, s, 3)
		if got := fmt.Sprint(dues(list[0]), dues(list[1]), dues(list[2])); got !=
			"[role 1.685s finish 1.685s done 1.685s] [role 185ms finish 185ms done 185ms] [answer 1.5s]" {
			t.Errorf("got %v", got)
		}
		if got := fmt.Sprint(list[0].Connection, list[0].Use, list[1].Connection, list[1].Use, list[2].Connection, list[2].Use); got != "1 1 1 2 2 1" {
			t.Errorf("connections and uses %s", got)
		}
		if got := since(list[0].StartNS, list[0].ArrivedNS); got != 1500*time.Millisecond {
			t.Errorf("TTFT counts from %v after arrival", got)
		}
	})
}

func TestColdInferenceHoldsAllUntilItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{TTFT: 100 * time.Millisecond, ColdInference: time.Second})
		a, b := newClient(t, dial()), newClient(t, dial())
		a.do("GET", "/health", "") // not an inference
		time.Sleep(4 * time.Second)
		a.send("POST", chatPath, chatBody(1, 1))
		time.Sleep(400 * time.Millisecond)
		b.send("POST", chatPath, chatBody(1, 1))
		a.read()
		b.read()
		b.do("POST", chatPath, chatBody(1, 1))
		var got []time.Duration
		for _, e := range entries(t, s, 4)[1:] {
			got = append(got, time.Duration(e.TTFTNS))
		}
		slices.SortFunc(got, func(a, b time.Duration) int { return int(b - a) })
		if fmt.Sprint(got) != "[1.1s 700ms 100ms]" {
			t.Errorf("times to first token %v", got)
		}
	})
}

func TestUsedConnectionClosesAfterKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, dial := startPipes(t, Options{})
		unused, used := newClient(t, dial()), newClient(t, dial())
		used.do("GET", "/health", "")
		from := time.Now()
		if _, err := used.r.ReadByte(); err != io.EOF || time.Since(from) != 5*time.Second {
			t.Errorf("a used connection ended with %v after %v", err, time.Since(from))
		}
		time.Sleep(time.Hour)
		if resp, _ := unused.do("GET", "/health", ""); resp.StatusCode != 200 {
			t.Errorf("an unused connection was answered with %d", resp.StatusCode)
		}
	})
}

func TestKeepAliveCanBeUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, dial := startPipes(t, Options{KeepAlive: -1})
		c := newClient(t, dial())
		c.do("GET", "/health", "")
		time.Sleep(time.Hour)
		if resp, _ := c.do("GET", "/health", ""); resp.StatusCode != 200 {
			t.Errorf("answered with %d", resp.StatusCode)
		}
	})
}

func TestConnectionClosesAfterItsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{CloseAfter: 3})
		c := newClient(t, dial())
		for i := range 3 {
			if resp, _ := c.do("GET", "/health", ""); resp.Close != (i == 2) {
				t.Errorf("answer %d: close is %v", i+1, resp.Close)
			}
		}
		if _, err := c.r.ReadByte(); err != io.EOF {
			t.Errorf("the connection ended with %v", err)
		}
		if got := entries(t, s, 3)[2].Use; got != 3 {
			t.Errorf("the last was use %d", got)
		}
	})
}

func TestAClientThatGoesIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{TTFT: time.Second, ITL: 100 * time.Millisecond})
		conn := dial()
		c := newClient(t, conn)
		c.send("POST", chatPath, chatBody(1, 50))
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		time.Sleep(1250 * time.Millisecond)
		_ = conn.Close()
		e := entries(t, s, 1)[0]
		if got := fmt.Sprintf("%s %d %d", e.Ended, e.OutputTokens, s.InFlight()); got != "client_closed 3 0" {
			t.Errorf("got %s", got)
		}
		if got := string(s.stats.appendText(nil, 0, 0)); !strings.Contains(got, `finished_reason="abort",model_name="mock-model"} 1.0`) {
			t.Error("the metrics do not count the abort")
		}
	})
}

func TestCloseEndsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := startPipes(t, Options{TTFT: time.Hour})
		c := newClient(t, dial())
		c.send("POST", chatPath, chatBody(1, 1))
		ended := make(chan error)
		go func() { _, err := io.Copy(io.Discard, c.r); ended <- err }()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		if list := s.Entries(); len(list) != 1 || list[0].Ended != EndedServerClosed {
			t.Errorf("log: %+v", list)
		}
		if got := s.InFlight(); got != 0 {
			t.Errorf("%d in flight", got)
		}
	})
}

func TestAlarmWakesEachAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newTestClock()
		a := newAlarm(clock, 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.run(ctx); close(done) }()
		var wg sync.WaitGroup
		// Later ones first, so that each new one is earlier than what the alarm waits for.
		for i := 200; i >= 0; i-- {
			at := int64(time.Duration(i) * time.Millisecond)
			wg.Go(func() {
				if err := a.wait(ctx, at+1); err != nil || clock.Now() != max(at+1, 1) {
					t.Errorf("woken at %d instead of %d: %v", clock.Now(), at+1, err)
				}
			})
			if i%7 == 0 {
				synctest.Wait()
			}
		}
		gone, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := a.wait(gone, int64(time.Hour)); err != gone.Err() || err == nil {
				t.Errorf("a cancelled wait returned %v", err)
			}
		})
		time.Sleep(50 * time.Millisecond)
		leave()
		wg.Wait()
		if len(a.due) != 0 {
			t.Errorf("%d waiters left", len(a.due))
		}
		cancel()
		<-done
	})
}
