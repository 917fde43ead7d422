package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"prefire/internal/fakellm"
)

var (
	soakDuration = flag.Duration("soak.duration", 3*time.Second, "how long the mixed faults are sent at, over all transports together")
	soakRate     = flag.Float64("soak.rate", 30, "requests a second of the mixed faults; keep the machine under 30 % busy")
)

// soakFaults harm 30 % of the requests, a few of them in ways that a right client does not mind.
var soakFaults = []string{"status=503:0.03", "status=429,retry-after=1:0.02", "error=openai,at=2:0.03", "cut=end,at=2:0.03", "cut=half,at=2:0.02",
	"cut=stall,at=1:0.01", "black-hole:0.01", "html:0.03", "empty:0.02", "eol=crlf:0.01", "split=7:0.01", "usage=none:0.01"}

// soakCuts are those that end a connection, which over HTTP/2 would harm its other requests too.
var soakCuts = []string{"cut=fin,at=2:0.02", "cut=rst,at=1:0.02", "lost=fin:0.01", "lost=rst:0.01", "head-cut:0.01"}

// soakResets are what HTTP/2 has instead.
var soakResets = []string{"h2-rst=INTERNAL_ERROR,at=2:0.04", "h2-rst=CANCEL:0.03"}

// soakTimeout is that of a request. A short soak cannot wait long for what never comes, and a machine that stands still can then make an
// answer too late that the server has sent.
func soakTimeout() time.Duration {
	if *soakDuration < time.Minute {
		return 2 * time.Second
	}
	return 15 * time.Second
}

func harmless(fault string) bool {
	name, _, _ := strings.Cut(fault, "=")
	return slices.Contains([]string{"", "eol", "split", "usage"}, name)
}

// Under random faults every request is accounted for, by the server's log too: what was unharmed was answered with the log's times, what was
// harmed failed, and nothing is left behind.
func TestFaultSoak(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      fakellm.Options
		more   []string
		faults []string
	}{
		{"reactor", fakellm.Options{}, nil, soakCuts},
		{"TLS", fakellm.Options{TLS: true}, nil, soakCuts},
		{"h2c", fakellm.Options{H2C: true}, []string{"--http", "h2c", "--streams-per-connection", "4"}, soakResets},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, text := range slices.Concat(soakFaults, c.faults) {
				f, err := fakellm.ParseFault(text)
				if err != nil {
					t.Fatal(err)
				}
				c.o.Faults = append(c.o.Faults, f)
			}
			c.o.TTFT, c.o.ITL, c.o.Seed = 5*time.Millisecond, time.Millisecond, uint64(time.Now().UnixNano())
			t.Logf("the server's seed is %d", c.o.Seed)
			once := func(seconds float64) (*fakellm.Server, string) {
				s, dir := serve(t, c.o), t.TempDir()
				args := profileArgs(s.URL(), dir, append(c.more, "--request-rate", strconv.FormatFloat(*soakRate, 'g', -1, 64), "--concurrency", "64",
					"--benchmark-duration", strconv.FormatFloat(seconds, 'g', -1, 64), "--benchmark-grace-period", "30", "--request-timeout-seconds", strconv.FormatFloat(soakTimeout().Seconds(), 'g', -1, 64),
					"--no-prewarm")...)
				p := <-start(nil, nil, args...)
				if p.code != exitOK && seconds > 0.5 { // in a short one all may have failed
					t.Fatalf("exit %d\n%s", p.code, p.stderr)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return s, dir
			}
			once(0.1) // what the process makes once stays
			before, files := goleak.IgnoreCurrent(), held()
			s, dir := once(soakDuration.Seconds() / 3)
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
			if f := held(); len(f) > len(files) {
				t.Errorf("the files %q are held, %q before", f, files)
			}
			accounted(t, s, dir)
		})
	}
}

// accounted holds a run's counts and each of its requests against the server's log.
func accounted(t *testing.T, s *fakellm.Server, dir string) {
	t.Helper()
	counts, records := readSummary(t, dir).Prefire.Counts, readRecords(t, dir)
	ok, failed := int64(0), int64(0)
	entries := map[string][]fakellm.Entry{}
	for _, e := range s.Entries() {
		if e.Method == "POST" {
			entries[e.XRequestID] = append(entries[e.XRequestID], e)
		}
	}
	var figures []heldFigure
	faults, late := map[string]int{}, 0
	for i := range records {
		r := &records[i]
		own := entries[r.Metadata.RequestID]
		delete(entries, r.Metadata.RequestID)
		if r.Error == nil {
			ok++
		} else {
			failed++
		}
		if r.Error != nil && r.Error.Type == "TimeoutError" && *soakDuration < time.Minute {
			late++
			continue
		}
		if len(own) == 0 {
			t.Errorf("request %d is not in the server's log: error %v", r.Metadata.SessionNum, r.Error)
			continue
		}
		last := &own[len(own)-1]
		faults[last.Fault]++
		right := harmless(last.Fault) && last.Ended == fakellm.EndedFinished
		if right != (r.Error == nil) {
			t.Errorf("request %d met %q and ended %s for the server; its error is %v", r.Metadata.SessionNum, last.Fault, last.Ended, r.Error)
			continue
		}
		w := contents(last)
		if !right || last.Fault != "" || len(r.Prefire.Cold) > 0 || len(w) == 0 {
			continue
		}
		figures = append(figures, heldFigure{w[0].off(r.Metadata.Start + ns(r.value("time_to_first_token"))), 1000 * r.Prefire.TTFTSlack})
	}
	censored, err := os.ReadFile(filepath.Join(dir, "profile_export_censored.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	cut := int64(strings.Count(string(censored), "\n"))
	if counts.Sent != counts.OK+counts.Failed+counts.Cancelled+counts.Censored || counts.OK != ok || counts.Failed != failed || counts.Censored != cut {
		t.Errorf("%+v, and the files have %d answered, %d failed, %d cut", counts, ok, failed, cut)
	}
	if int64(len(entries)) > cut {
		t.Errorf("the server's log has %d requests more than the records, and %d were cut", len(entries), cut)
	}
	if bad := beyond(figures); len(bad) > 0 {
		t.Errorf("%d of %d TTFTs of unharmed requests are further from the server's log than their bound: %s", len(bad), len(figures), describe(bad))
	}
	if ok == 0 || failed == 0 || len(figures) == 0 {
		t.Errorf("%d answered, %d failed, %d hot: that shows nothing", ok, failed, len(figures))
	}
	t.Logf("%+v; TTFT of %s; %d timeouts not held against the log; faults %v", counts, describe(figures), late, faults)
}
