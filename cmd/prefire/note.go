package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"prefire/internal/config"
	"prefire/internal/export"
	"prefire/internal/sweep"
	"prefire/metrics"
)

const (
	// noteFile holds what the run's files need beside its journal, as long as that is there.
	noteFile = ".prefire_run.json"
	// tripsFile has the handshakes that measure the network's round trip, as they are made.
	tripsFile = ".prefire_round_trips.jsonl"
	// killedFolder is where a new run in the same folder puts what a run that was killed left there.
	killedFolder = "killed"
)

// runNote is what is known of a run before it begins, secrets redacted: with it the journal becomes the run's files.
type runNote struct {
	Version    string          `json:"version"`
	EpochNS    int64           `json:"epoch_unix_ns"` // of the run time 0
	Seed       uint64          `json:"seed"`
	SeedSource string          `json:"seed_source"`
	Dialect    string          `json:"dialect"`
	Command    string          `json:"command"`
	CLICommand string          `json:"cli_command"`
	Title      string          `json:"title,omitempty"` // of the tables
	Input      json.RawMessage `json:"input_config,omitempty"`
	// Artifacts are the files that the run was asked for; RoundTrip is what its latencies are adjusted by.
	Artifacts config.Artifacts `json:"artifacts"`
	RoundTrip config.RoundTrip `json:"round_trip"`
	Retries   int              `json:"retries_after_429,omitempty"`
	Tokenizer string           `json:"tokenizer,omitempty"`
	Revision  string           `json:"tokenizer_revision,omitempty"`
	Counted   bool             `json:"answers_counted"` // by the tokenizer
	Phases    []notedPhase     `json:"phases"`
	Metrics   metrics.Options  `json:"metrics"`
	// SLOs are Metrics' objectives, which it does not write itself.
	SLOs []metrics.Objective `json:"slos,omitempty"`
	// Absent are the things asked for that the journal does not hold, as people know them.
	Absent []string `json:"not_in_the_journal,omitempty"`
	// Header and Hosts are what the records' HTTP traces say of the requests, where they have any.
	Header []notedField `json:"header,omitempty"`
	Hosts  []notedHost  `json:"hosts,omitempty"`
	// Place is the run's in a series; nil = it stands alone.
	Place *notedPlace `json:"series,omitempty"`
}

// notedPlace is which run of which series a run is.
type notedPlace struct {
	ID        string          `json:"id"`
	Variation sweep.Variation `json:"variation"`
	Trial     int             `json:"trial"`
	Facts     placeFacts      `json:"facts"`
}

// notedField is a field of the requests' header: fixed, or with an id of each request.
type notedField struct {
	Name  string  `json:"name"`
	Value string  `json:"value,omitempty"` // of a fixed one
	ID    idField `json:"id,omitempty"`
}

// idField says whose id a header field holds.
type idField string

const (
	requestID idField = "request"
	sessionID idField = "session"
)

// notedHost is what the Host field of requests to an address is.
type notedHost struct {
	Address string `json:"address"`
	Host    string `json:"host"`
}

type notedPhase struct {
	Name string       `json:"name"`
	Kind metrics.Kind `json:"kind"`
}

// note is what is known of the run before it begins.
func (b *bench) note(counted bool) runNote {
	n := runNote{
		Version: version(), EpochNS: b.clock.Wall(0).UnixNano(), Seed: b.load.seed, SeedSource: b.load.seedFrom, Dialect: dialect(b.cfg), Command: b.command,
		CLICommand: b.cfg.Command, Title: title(b.load.kind), Input: value(b.cfg.Input), Tokenizer: b.cfg.Tokenizer,
		Revision: b.cfg.TokenizerRevision, Counted: counted, Metrics: b.options, SLOs: b.cfg.SLOs,
		Artifacts: b.cfg.Artifacts, RoundTrip: b.cfg.RoundTrip, Retries: b.cfg.Retries,
	}
	if b.cfg.ServerMetrics != nil {
		n.Absent = append(n.Absent, "the servers' own metrics")
	}
	if b.cfg.Artifacts.Trace {
		n.Header, n.Hosts = b.notedHeader(), b.notedHosts()
	}
	if of := b.part; of != nil {
		n.Place = &notedPlace{of.series.id, *of.variation, of.trial, of.place()}
	}
	for i := range b.cfg.Phases {
		n.Phases = append(n.Phases, notedPhase{b.cfg.Phases[i].Name, b.cfg.Phases[i].Kind})
	}
	return n
}

// notedHeader are the fields of every request's header, without what may be secret.
func (b *bench) notedHeader() (out []notedField) {
	h := b.load.header
	for _, f := range h.Fixed {
		value := b.secrets.String(f.Value)
		if export.SensitiveHeader(f.Name) {
			value = export.Redacted
		}
		out = append(out, notedField{Name: f.Name, Value: value})
	}
	for _, f := range h.AppendIDs(nil, string(requestID), string(sessionID)) {
		out = append(out, notedField{Name: f.Name, ID: idField(f.Value)})
	}
	return out
}

func (b *bench) notedHosts() (out []notedHost) {
	for i := range b.load.plan.Targets {
		t := b.load.plan.Targets[i].Wire
		out = append(out, notedHost{t.Addr, t.Host})
	}
	return out
}

// requestFields are the header fields of a record's request, as load.requestFields has them.
func (n *runNote) requestFields(r *metrics.Record) (out []metrics.HeaderField) {
	for _, f := range n.Header {
		switch f.ID {
		case requestID:
			f.Value = r.RequestID
		case sessionID:
			f.Value = r.CorrelationID
		}
		out = append(out, metrics.HeaderField{Name: f.Name, Value: f.Value})
	}
	return out
}

// host is the Host field of a record's request, as load.host has it; "" = not known.
func (n *runNote) host(r *metrics.Record) string {
	for _, h := range n.Hosts {
		if len(n.Hosts) == 1 || h.Address == r.HTTP.Remote {
			return h.Host
		}
	}
	return ""
}

// phases are the run's, as the files name them.
func (n *runNote) phases() []export.Phase {
	list := make([]config.Phase, len(n.Phases))
	for i, p := range n.Phases {
		list[i] = config.Phase{Name: p.Name, Kind: p.Kind}
	}
	return namedPhases(list)
}

func (n *runNote) write(dir export.Dir) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("%s: %w", noteFile, err)
	}
	if err := dir.Write(noteFile, 0o644, func(w io.Writer) error { _, err := w.Write(append(raw, '\n')); return err }); err != nil {
		return fmt.Errorf("the artifact folder %s cannot be written: %w; choose another with --artifact-dir", dir.Path, err)
	}
	return nil
}

func readNote(dir string) (n runNote, err error) {
	path := filepath.Join(dir, noteFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return n, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	if len(n.Phases) == 0 {
		return n, fmt.Errorf("%s names no phase of the run", path)
	}
	if len(n.SLOs) > 0 {
		if n.Metrics.Objectives, err = metrics.NewObjectives(n.SLOs); err != nil {
			return n, fmt.Errorf("%s cannot be read: %w", path, err)
		}
	}
	return n, nil
}

// hiddenFiles are what recover makes a run's files from, the journal last: where it is gone, nothing else is needed.
func hiddenFiles() []string { return []string{tripsFile, noteFile, journalFile} }

// removeHidden takes away what recover would need.
func removeHidden(dir string) error {
	for _, name := range hiddenFiles() {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// setAside moves what a run that was killed left in dir into a folder beside it, where recover finds it, and returns the journal of the new
// run, held as the old one was: f, where there is nothing to keep.
func setAside(dir string, f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return f, err
	}
	if _, err := readNote(dir); err != nil {
		return f, nil // nothing could be made of it
	}
	aside := filepath.Join(dir, killedFolder)
	err = os.MkdirAll(aside, 0o755)
	for _, name := range hiddenFiles() {
		if err == nil {
			if err = os.Rename(filepath.Join(dir, name), filepath.Join(aside, name)); os.IsNotExist(err) {
				err = os.RemoveAll(filepath.Join(aside, name)) // an earlier killed run's
			}
		}
	}
	if err != nil {
		return f, err
	}
	fresh, err := os.OpenFile(f.Name(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return f, err
	}
	if err := errors.Join(hold(fresh), f.Close()); err != nil {
		return fresh, err
	}
	return fresh, nil
}
