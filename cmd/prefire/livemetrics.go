package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"prefire/internal/report/livemetrics"
)

// liveMetrics serves the run's live metrics. A nil one serves nothing.
type liveMetrics struct {
	listener net.Listener
	server   *http.Server
	done     sync.WaitGroup
	phases   []phaseState

	mu   sync.Mutex
	made time.Time
	text []byte // of the last scrape
}

// phaseState is how far a phase is.
type phaseState struct{ begun, over atomic.Bool }

// scrapeEvery bounds how often the run is looked at: more scrapes get the last text again, so that no number of them costs the load anything.
const scrapeEvery = time.Second

// liveAddress is an address of --live-metrics as the system takes it. Without a host it is this machine alone.
func liveAddress(given string) (string, error) {
	host, port := "", given
	if strings.Contains(given, ":") {
		var err error
		if host, port, err = net.SplitHostPort(given); err != nil {
			return "", fmt.Errorf("--live-metrics: %q is no address: give HOST:PORT, or a port of this machine, as 127.0.0.1:9464", given)
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("--live-metrics: %q has no port from 0 to 65535: give HOST:PORT, or a port of this machine, as 127.0.0.1:9464", given)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// listenLive takes the address before anything else happens, so that a run does not begin whose metrics nobody could read; nil where none is
// asked for.
func listenLive(given string, phases int) (*liveMetrics, error) {
	if given == "" {
		return nil, nil
	}
	address, err := liveAddress(given)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--live-metrics: %w; choose another address", err)
	}
	return &liveMetrics{listener: l, phases: make([]phaseState, phases)}, nil
}

func (l *liveMetrics) url() string { return "http://" + l.listener.Addr().String() + "/metrics" }

// serve answers scrapes with what run gives, from now on.
func (l *liveMetrics) serve(run func() *livemetrics.Run) {
	if l == nil {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		text, err := l.now(run)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", livemetrics.ContentType)
		_, _ = w.Write(text) // whoever asked is gone
	})
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	l.done.Go(func() { _ = l.server.Serve(l.listener) })
}

// now is the text of this moment, or of the last scrape where that is recent.
func (l *liveMetrics) now(run func() *livemetrics.Run) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != nil && time.Since(l.made) < scrapeEvery {
		return l.text, nil
	}
	var b bytes.Buffer
	if err := livemetrics.Write(&b, run()); err != nil {
		return nil, err
	}
	l.text, l.made = b.Bytes(), time.Now()
	return l.text, nil
}

// phase is told when a phase begins and when it is over.
func (l *liveMetrics) phase(i int, over bool) {
	if l == nil {
		return
	}
	if l.phases[i].begun.Store(true); over {
		l.phases[i].over.Store(true)
	}
}

func (l *liveMetrics) close() {
	if l == nil {
		return
	}
	_ = l.listener.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
	l.done.Wait()
}

// liveRun is the run as its live metrics have it.
func (b *bench) liveRun() *livemetrics.Run {
	health, at := b.state(), readMachine(b.clock.Now())
	r := &livemetrics.Run{Version: version(), Model: b.cfg.Models[0], URL: b.load.plan.Targets[0].URL, InFlight: b.prog.InFlight.Load(), Draining: b.prog.Draining.Load(),
		Transport: health.Client, Connections: health.Open, Dialled: health.Dialled, Cores: at.cores, CPU: -1}
	if at.cpu.ok {
		r.CPU = at.cpu.v.Seconds()
	}
	for i := range b.cfg.Phases {
		st := &b.live.phases[i]
		if !st.begun.Load() {
			continue
		}
		r.Phases = append(r.Phases, livemetrics.Phase{Name: b.cfg.Phases[i].Name, Kind: b.cfg.Phases[i].Kind.String(), Running: !st.over.Load(),
			Snapshot: b.sink.byPhase[i].Snapshot(livemetrics.Bounds())})
	}
	return r
}
