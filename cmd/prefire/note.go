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
	"prefire/metrics"
)

const (
	// noteFile holds what the run's files need beside its journal, as long as that is there.
	noteFile = ".prefire_run.json"
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
	Prefix     string          `json:"prefix,omitempty"` // of the files' names
	Tokenizer  string          `json:"tokenizer,omitempty"`
	Revision   string          `json:"tokenizer_revision,omitempty"`
	Counted    bool            `json:"answers_counted"` // by the tokenizer
	Phases     []notedPhase    `json:"phases"`
	Metrics    metrics.Options `json:"metrics"`
	// SLOs are Metrics' objectives, which it does not write itself.
	SLOs []metrics.Objective `json:"slos,omitempty"`
	// Absent are the things asked for that the journal does not hold, as people know them. Traced: the records have HTTP traces.
	Absent []string `json:"not_in_the_journal,omitempty"`
	Traced bool     `json:"http_traces,omitempty"`
}

type notedPhase struct {
	Name string       `json:"name"`
	Kind metrics.Kind `json:"kind"`
}

// note is what is known of the run before it begins.
func (b *bench) note(counted bool) runNote {
	n := runNote{
		Version: version(), EpochNS: b.clock.Wall(0).UnixNano(), Seed: b.load.seed, SeedSource: b.load.seedFrom, Dialect: dialect(b.cfg), Command: b.command,
		CLICommand: b.cfg.Command, Title: title(b.load.kind), Input: value(b.cfg.Input), Prefix: b.cfg.Artifacts.Prefix, Tokenizer: b.cfg.Tokenizer,
		Revision: b.cfg.TokenizerRevision, Counted: counted, Metrics: b.options, SLOs: b.cfg.SLOs,
		Absent: notInJournal(b.cfg), Traced: b.cfg.Artifacts.Trace,
	}
	for i := range b.cfg.Phases {
		n.Phases = append(n.Phases, notedPhase{b.cfg.Phases[i].Name, b.cfg.Phases[i].Kind})
	}
	return n
}

// notInJournal names what a run was asked for and what cannot be made of its journal.
func notInJournal(cfg *config.Config) (out []string) {
	a := &cfg.Artifacts
	for _, part := range []struct {
		asked bool
		what  string
	}{
		{a.Slice > 0, "slices of time (--slice-duration)"},
		{a.Answers, "outputs.json (--export-outputs-json)"},
		{a.Level == config.LevelRaw, "raw records that were not on disk yet (--export-level raw)"},
		{cfg.RoundTrip.Adjusts(), "network-adjusted latencies (--network-latency-*)"},
		{cfg.ServerMetrics != nil, "the servers' own metrics"},
	} {
		if part.asked {
			out = append(out, part.what)
		}
	}
	return out
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
	for _, name := range [...]string{noteFile, journalFile} {
		if err == nil {
			err = os.Rename(filepath.Join(dir, name), filepath.Join(aside, name))
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
