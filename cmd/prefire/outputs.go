package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"prefire/internal/config"
	"prefire/internal/control"
	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/metrics"
)

// Settings of aiperf's in the environment, for what counts as too far off.
const (
	usageDiffEnv = "AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD"
	oslShareEnv  = "AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD"
	oslTokensEnv = "AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD"
)

// lengthLimits are what counts as too far off, by the environment.
func lengthLimits(env func(string) (string, bool)) (*metrics.Limits, error) {
	l := metrics.DefaultLimits()
	percent := func(name string, into *float64) error {
		s, ok := env(name)
		if !ok || s == "" {
			return nil
		}
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0 && v <= 100) {
			return fmt.Errorf("%s is %q in the environment; it must be a percentage from 0 to 100", name, s)
		}
		*into = v
		return nil
	}
	if s, ok := env(oslTokensEnv); ok && s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s is %q in the environment; it must be a whole number from 1", oslTokensEnv, s)
		}
		l.OSLTokens = n
	}
	return &l, errors.Join(percent(usageDiffEnv, &l.UsagePercent), percent(oslShareEnv, &l.OSLPercent))
}

// answersFile is outputs.json while it grows.
type answersFile struct {
	*export.Answers
	stream *export.Stream
}

func (f *answersFile) close() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.Close(), f.stream.Close())
}

// rawFile is profile_export_raw.jsonl. Whoever finishes a request writes its line, one at a time: that is this side's time, and the price of
// the file.
type rawFile struct {
	mu      sync.Mutex
	out     *export.Appended
	encoder *export.RecordEncoder
	line    []byte
	now     func() int64
	flushed int64
	err     error
}

func (f *rawFile) add(fin *loadgen.Finished) {
	if f == nil || fin.Record.Censored {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line = f.encoder.AppendRaw(f.line[:0], &fin.Record, fin.Body, fin.Raw)
	_, err := f.out.Write(f.line)
	if now := f.now(); err == nil && now-f.flushed > flushEvery {
		f.flushed = now
		err = f.out.Flush()
	}
	if err != nil && f.err == nil {
		f.err = err
	}
}

func (f *rawFile) close() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.err, f.out.Close())
}

// hideReply takes secrets out of an answer's header before anything of it is written.
func hideReply(x *metrics.Exchange, secrets *export.Redactor) {
	if x == nil {
		return
	}
	for i := range x.Reply {
		if f := &x.Reply[i]; export.SensitiveHeader(f.Name) {
			f.Value = export.Redacted
		} else {
			f.Value = secrets.String(f.Value)
		}
	}
}

// requestFields are the header fields of a record's request, but for those that follow from the address and the body.
func (l *load) requestFields(r *metrics.Record) []metrics.HeaderField {
	var out []metrics.HeaderField
	for _, f := range l.header.AppendIDs(slices.Clone(l.header.Fixed), r.RequestID, r.CorrelationID) {
		out = append(out, metrics.HeaderField{Name: f.Name, Value: f.Value})
	}
	return out
}

// host is the Host field of a record's request; "" = not known.
func (l *load) host(r *metrics.Record) string {
	for i := range l.plan.Targets {
		if t := l.plan.Targets[i].Wire; len(l.plan.Targets) == 1 || t.Addr == r.HTTP.Remote {
			return t.Host
		}
	}
	return ""
}

// keep says how much of each exchange the run's files need.
func keep(cfg *config.Config, p *loadgen.Plan) {
	a := &cfg.Artifacts
	p.Watch = a.Trace || a.Level == config.LevelRaw
	switch {
	case a.Level == config.LevelRaw:
		p.Keep = wire.KeepRaw
	case a.Answers:
		p.Keep = max(p.Keep, wire.KeepText)
	}
}

// onSchedule reports whether a measured phase follows a file's schedule.
func onSchedule(p *loadgen.Plan) bool {
	return slices.ContainsFunc(p.Phases, func(ph loadgen.Phase) bool {
		return ph.Kind == metrics.Profiling && ph.Arrivals.Mode == loadgen.Scheduled
	})
}

// objectives are the config's, which were checked when they were read; nil = none.
func objectives(cfg *config.Config) (*metrics.Objectives, error) {
	if len(cfg.SLOs) == 0 {
		return nil, nil
	}
	return metrics.NewObjectives(cfg.SLOs)
}

// applicable says which objectives are on metrics that this run does not have: no request could keep them.
func applicable(cfg *config.Config, defs []*metrics.Def) error {
	var none []string
	for _, o := range cfg.SLOs {
		if !slices.ContainsFunc(defs, func(d *metrics.Def) bool { return d.Tag == o.Tag }) {
			none = append(none, o.Tag)
		}
	}
	if len(none) == 0 {
		return nil
	}
	text := "Invalid --goodput: metric(s) " + strings.Join(none, ", ") + " are not applicable to the current endpoint/configuration" // aiperf's words
	return errors.New(text + ": times of single tokens need --streaming, and what compares token counts the client's own")
}

// roundTrip is the network's round trip as far as the run goes by it.
type roundTrip struct {
	b     *bench
	probe *control.RoundTrips // nil = not measured now
	trips []control.Trip
	// kept has the trips on disk as they are made, where it could be opened: what is not in it is absent where the run is killed, and only then.
	kept *os.File
}

// begin starts to measure, where the config asks for it.
func (n *roundTrip) begin() {
	if n.probe != nil || n.b.cfg.RoundTrip.Interval == 0 {
		return
	}
	var peers []control.Peer
	for i := range n.b.load.plan.Targets {
		t := &n.b.load.plan.Targets[i]
		if slices.ContainsFunc(peers, func(p control.Peer) bool { return p.Addr == t.Wire.Addr }) {
			continue
		}
		p := control.Peer{URL: t.URL, Addr: t.Wire.Addr}
		if host, port, err := net.SplitHostPort(t.Wire.Addr); err == nil {
			p.Host = host
			p.Port, _ = strconv.Atoi(port)
		}
		peers = append(peers, p)
	}
	if n.kept == nil {
		if f, err := os.OpenFile(filepath.Join(n.b.dir.Path, tripsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err == nil {
			n.kept = f
		}
	}
	n.probe = control.MeasureRoundTrips(n.b.clock, peers, n.b.cfg.RoundTrip.Interval, n.keep)
}

// keep puts a trip on disk; one at a time.
func (n *roundTrip) keep(t control.Trip) {
	if n.kept == nil {
		return
	}
	if line, err := n.line(&t); err == nil {
		_, _ = n.kept.Write(line)
	}
}

func (n *roundTrip) end() {
	if n.probe != nil {
		n.trips = append(n.trips, n.probe.Stop()...)
		n.probe = nil
	}
	if n.kept != nil {
		_ = n.kept.Close()
		n.kept = nil
	}
}

// mean is what latencies are adjusted by, in ns; 0 = nothing.
func (n *roundTrip) mean() float64 {
	if mean := n.b.cfg.RoundTrip.Mean; mean > 0 {
		return float64(mean)
	}
	return control.MeanTrip(n.trips)
}

// write writes the handshakes, one line each.
func (n *roundTrip) write(w io.Writer) error {
	for i := range n.trips {
		line, err := n.line(&n.trips[i])
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// tripLine is a handshake in the file of the network's latency, under aiperf's names.
type tripLine struct {
	At      int64          `json:"timestamp_ns"`
	URL     string         `json:"target_url"`
	Host    string         `json:"target_host"`
	Port    int            `json:"target_port"`
	Kind    string         `json:"probe_type"`
	Took    int64          `json:"rtt_ns,omitempty"`
	Success bool           `json:"success"`
	Error   *metrics.Error `json:"error,omitempty"`
}

func (n *roundTrip) line(t *control.Trip) ([]byte, error) {
	line := tripLine{n.b.clock.Wall(t.At).UnixNano(), t.Peer.URL, t.Peer.Host, t.Peer.Port, "tcp_connect", t.Took, t.Err == nil, nil}
	if t.Err != nil {
		line.Error = &metrics.Error{Type: "ConnectionError", Message: n.b.secrets.String(t.Err.Error())}
	}
	raw, err := json.Marshal(line)
	return append(raw, '\n'), err
}

// read takes the handshakes of a run that was killed. A line that is none, as a broken last one, is left out.
func (n *roundTrip) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	epoch := n.b.clock.Wall(0).UnixNano()
	for {
		raw, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var l tripLine
		if json.Unmarshal(raw, &l) != nil || l.Success != (l.Error == nil) {
			continue
		}
		t := control.Trip{At: l.At - epoch, Took: l.Took, Peer: &control.Peer{URL: l.URL, Host: l.Host, Port: l.Port}}
		if l.Error != nil {
			t.Err = errors.New(l.Error.Message)
		}
		n.trips = append(n.trips, t)
	}
}

// facts are what is known of the network's latency; nil where nobody asked.
func (n *roundTrip) facts() any {
	c := n.b.cfg.RoundTrip
	if !c.Adjusts() {
		return nil
	}
	o := export.Object{{Key: "round_trip_ms", Value: n.mean() / 1e6}, {Key: "given", Value: c.Mean > 0}}
	if c.Mean > 0 {
		return o
	}
	s := metrics.NewSeries(metrics.SeriesOptions{Unit: metrics.Nanoseconds})
	for i := range n.trips {
		if n.trips[i].Err == nil {
			s.Add(float64(n.trips[i].Took))
		}
	}
	o = append(o, export.Field{Key: "failed", Value: int64(len(n.trips)) - s.Count()})
	if s.Count() > 0 {
		o = append(o, export.Field{Key: "handshakes", Value: value(s.Spread())})
	}
	return o
}

// notices say where there is no round trip to adjust by, and how it compares.
func (n *roundTrip) notices() []string {
	if n.b.cfg.RoundTrip.Interval > 0 && n.mean() == 0 {
		return []string{"the network's round trip could not be measured: no TCP handshake beside the load succeeded, so there are no network-adjusted latencies"}
	}
	return nil
}

// outputFiles writes the run's files that a flag asks for, and lists those that are there.
func (b *bench) outputFiles() ([]export.File, error) {
	n, a := b.dir.Names, &b.cfg.Artifacts
	var out []export.File
	file := func(kind, name string) {
		out = append(out, export.File{Kind: kind, Path: filepath.Join(b.dir.Path, name)})
	}
	if a.Level == config.LevelRaw {
		file("Raw Records", n.Raw)
	}
	if a.Slice > 0 {
		file("Timeslice CSV Export", n.SlicesCSV)
		file("Timeslice JSON Export", n.SlicesJSON)
	}
	if a.Answers {
		file("Outputs JSON", export.AnswersFile)
	}
	if len(b.trip.trips) == 0 {
		return out, nil
	}
	return out, b.dir.Write(n.Network, 0o644, b.trip.write)
}

// slices are the run's slices with times of the wall clock; acc has taken the same records.
func (b *bench) slices(acc *metrics.Accumulator) ([]export.Slice, error) {
	if b.sink.slices == nil {
		return nil, nil
	}
	list, err := b.sink.slices.Results(acc)
	var out []export.Slice
	for i := range list {
		s := &list[i]
		out = append(out, export.Slice{Start: b.clock.Wall(s.Start).UnixNano(), End: b.clock.Wall(s.End).UnixNano(), Complete: s.Complete, Results: s.Results})
	}
	return out, err
}

// sliceNotices say where slices do not hold all of the run.
func (b *bench) sliceNotices() []string {
	if b.sink.slices == nil {
		return nil
	}
	if n := b.sink.slices.Left(); n > 0 {
		return []string{fmt.Sprintf("%d requests are in no slice, since there are more slices than are kept: a longer --slice-duration has room for all", n)}
	}
	return nil
}

// lagNotice says that a replay did not keep to its file's times, as aiperf does.
func lagNotice(rs []metrics.Result) []string {
	degraded := find(rs, "replay_sched_degraded")
	if degraded == nil || degraded.Avg == 0 {
		return nil
	}
	var figures []string
	for _, p := range []string{"p50", "p90", "p99"} {
		if r := find(rs, "replay_sched_lag_"+p); r != nil {
			figures = append(figures, fmt.Sprintf("%s %.0f ms", p, r.Avg))
		}
	}
	return []string{"the replay fell behind the file's times (" + strings.Join(figures, ", ") + "): the load was not the one that the file describes"}
}
