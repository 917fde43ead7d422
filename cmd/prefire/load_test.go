package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

// loadOf reads prefire.load.
func loadOf(t *testing.T, dir string) (phases []struct {
	Due, Sent int64
	Dropped   int64 `json:"dropped_at_a_limit"`
	Missed    int64 `json:"due_and_not_sent"`
}) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "profile_export_aiperf.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sum struct {
		Prefire struct{ Load json.RawMessage }
	}
	if err := json.Unmarshal(b, &sum); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(sum.Prefire.Load, &phases); err != nil {
		t.Fatal(err)
	}
	return phases
}

// Every arrival of the drawn schedule reaches the server, none is added, and the result says what the log says.
func TestEveryArrivalOfAScheduleReachesTheServer(t *testing.T) {
	s, dir := serve(t, fakellm.Options{}), t.TempDir()
	must(t, profileArgs(s.URL(), dir, "--request-rate", "200", "--arrival-pattern", "constant", "--benchmark-duration", "1.5")...)
	records := readRecords(t, dir)
	sum := readSummary(t, dir)
	// Arrivals every 5 ms, the first 5 ms after the start, the one at 1.5 s left out. A machine that stands still at the end misses some, and
	// the result says so.
	l := loadOf(t, dir)[0]
	if n := int64(len(records)); l.Due != 299 || l.Sent+l.Missed != 299 || l.Dropped != 0 || n != l.Sent || int64(len(inferences(s, records))) != n {
		t.Errorf("%+v; %d records, %d at the server; want 299 due, all sent or missed, and those in the log", l, n, len(inferences(s, records)))
	}
	if n := holdsTo(t, s, dir); int64(n) != sum.Prefire.Cold.Count {
		t.Errorf("%d cold requests by the log, %d by the result", n, sum.Prefire.Cold.Count)
	}
	if sum.Anchored.Count != sum.TTFT.Count || sum.Anchored.Avg < sum.TTFT.Avg {
		t.Errorf("from the intended time TTFT is %v ms of %d requests, from the start %v of %d", sum.Anchored.Avg, sum.Anchored.Count, sum.TTFT.Avg, sum.TTFT.Count)
	}
}

// A given seed gives the same bodies at the same intended times.
func TestASeedRepeatsTheSchedule(t *testing.T) {
	s := serve(t, fakellm.Options{})
	list := func() (out []string) {
		dir := t.TempDir()
		must(t, profileArgs(s.URL(), dir, "--request-rate", "100", "--request-count", "40", "--random-seed", "5")...)
		records := readRecords(t, dir)
		slices.SortFunc(records, func(a, b record) int { return cmp.Compare(a.Metadata.SessionNum, b.Metadata.SessionNum) })
		entries := inferences(s, records)
		for _, r := range records {
			out = append(out, fmt.Sprintf("%s %.0f", entries[r.Metadata.RequestID].PromptSHA256, float64(r.Prefire.Intended-records[0].Prefire.Intended)/1e3))
		}
		return out
	}
	if first, second := list(), list(); len(first) != 40 || !slices.Equal(first, second) {
		t.Errorf("the second run's %d requests are not the first's %d", len(second), len(first))
	}
}

func TestAnOverloadedServerShowsInTheLoad(t *testing.T) {
	s, dir := serve(t, fakellm.Options{TTFT: 300 * time.Millisecond}), t.TempDir()
	must(t, profileArgs(s.URL(), dir, "--request-rate", "40", "--arrival-pattern", "constant", "--concurrency", "3", "--request-count", "12")...)
	l := loadOf(t, dir)[0]
	if l.Sent != 12 || l.Due != l.Sent+l.Dropped || l.Dropped < 12 || s.MaxInFlight() != 3 {
		t.Errorf("%+v, at most %d at the server; want 12 sent with more dropped at the limit, 3 at the server", l, s.MaxInFlight())
	}
}

// Users share a rate, and every turn that their clocks ask for is sent and booked.
func TestUsersShareTheRate(t *testing.T) {
	s, dir := serve(t, fakellm.Options{}), t.TempDir()
	must(t, profileArgs(s.URL(), dir, "--user-centric-rate", "60", "--num-users", "6", "--session-turns-mean", "3", "--request-count", "30")...)
	records := readRecords(t, dir)
	users := map[string]bool{}
	for _, r := range records {
		users[r.Metadata.CorrelationID] = true
	}
	// Of the first six one is done before the start and is replaced; each later one takes the place of one that should be done.
	if l := loadOf(t, dir)[0]; l.Due != 30 || l.Sent != 30 || len(records) != 30 || len(inferences(s, records)) != 30 || !users["7"] || len(users) < 6 {
		t.Errorf("%+v, %d records, %d at the server, users %v; want 30 of each, user 7 and 5 more at least", l, len(records), len(inferences(s, records)), users)
	}
}

func TestCancelledRequestsAreCutAndCounted(t *testing.T) {
	s, dir := serve(t, fakellm.Options{TTFT: 2 * time.Second}), t.TempDir()
	p := <-start(nil, nil, profileArgs(s.URL(), dir, "--concurrency", "2", "--request-count", "6", "--request-cancellation-rate", "100",
		"--request-cancellation-delay", "0.05")...)
	c := readSummary(t, dir).Prefire.Counts
	if p.code != exitFailed || c.Sent != 6 || c.Cancelled != 6 {
		t.Errorf("exit %d, %+v; want %d, all 6 cancelled", p.code, c, exitFailed)
	}
	for _, r := range readRecords(t, dir) {
		if r.Error == nil || r.Error.Type != "RequestCancellationError" {
			t.Errorf("request %d ended with %+v", r.Metadata.SessionNum, r.Error)
		}
	}
}

func TestTooManyFailuresEndTheProgram(t *testing.T) {
	s, dir := serve(t, fakellm.Options{TTFT: 200 * time.Millisecond, Slots: 1, Refuse: 429}), t.TempDir()
	p := <-start(nil, nil, profileArgs(s.URL(), dir, "--concurrency", "4", "--request-count", "100000", "--failed-request-threshold", "0.5")...)
	c := readSummary(t, dir).Prefire.Counts
	if p.code != exitFailed || c.Sent >= 1000 || c.Failed < 6 {
		t.Errorf("exit %d, %+v; want %d soon after the first failures\n%s", p.code, c, exitFailed, p.stderr)
	}
}

// Where sessions have connections of their own, a session's turns are all on one, which no other session is on; where no connection is used
// again, each request is the first on its own and begins before the dial. Neither is cold.
func TestConnectionReuseStrategies(t *testing.T) {
	for _, c := range []struct {
		name   string
		server fakellm.Options
		args   []string
	}{
		{"reactor", fakellm.Options{}, []string{"--client", "auto"}},
		{"portable", fakellm.Options{}, []string{"--client", "portable"}},
		{"TLS", fakellm.Options{TLS: true}, nil},
		{"a server that speaks HTTP/2 too", fakellm.Options{H2: true}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.server)
			run := func(more ...string) ([]record, map[string]fakellm.Entry) {
				dir := t.TempDir()
				must(t, profileArgs(s.URL(), dir, append(append(more, c.args...), "--concurrency", "3")...)...)
				records := readRecords(t, dir)
				if sum := readSummary(t, dir); len(records) != 12 || sum.Prefire.Cold.Count > 0 && more[1] == "never" {
					t.Fatalf("%v: %d records, %d cold; want 12, none of them cold", more, len(records), sum.Prefire.Cold.Count)
				}
				return records, inferences(s, records)
			}
			records, log := run("--connection-reuse-strategy", "sticky-user-sessions", "--num-conversations", "4", "--session-turns-mean", "3")
			conns, owners := map[string]int64{}, map[int64]string{}
			for _, r := range records {
				session, conn := r.Metadata.CorrelationID, log[r.Metadata.RequestID].Connection
				if was, ok := conns[session]; ok && was != conn {
					t.Errorf("session %s is on connections %d and %d", session, was, conn)
				}
				if was, ok := owners[conn]; ok && was != session {
					t.Errorf("sessions %s and %s are both on connection %d", was, session, conn)
				}
				conns[session], owners[conn] = conn, session
			}
			if len(conns) != 4 || len(owners) != 4 {
				t.Errorf("%d sessions on %d connections, want 4 on 4", len(conns), len(owners))
			}
			records, log = run("--connection-reuse-strategy", "never", "--request-count", "12")
			for _, r := range records {
				if e := log[r.Metadata.RequestID]; e.Use != 1 {
					t.Errorf("request %s is number %d on its connection", r.Metadata.RequestID, e.Use)
				}
				if r.value("http_req_connection_reused") != 0 || r.value("http_req_connecting") <= 0 || r.value("time_to_first_token") <= r.value("http_req_connecting") {
					t.Errorf("reused %v, connecting %v ms, TTFT %v ms: the dial is not in its TTFT", r.value("http_req_connection_reused"),
						r.value("http_req_connecting"), r.value("time_to_first_token"))
				}
			}
		})
	}
}
