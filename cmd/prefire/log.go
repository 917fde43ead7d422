package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/metrics"
)

// courseLog tells the course of a run in logs/aiperf.log of its folder, behind what earlier runs there have left.
type courseLog struct {
	*slog.Logger
	file *os.File // nil = it goes nowhere
	path string
}

// noLog is the log of a run whose folder is not there yet.
func noLog() *courseLog { return &courseLog{Logger: slog.New(slog.DiscardHandler)} }

func openLog(dir string, level slog.Level, secrets *export.Redactor) (*courseLog, error) {
	path := filepath.Join(dir, export.LogFolder, export.LogFile)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		return nil, fmt.Errorf("the log's folder cannot be made: %w; choose another with --artifact-dir", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the log cannot be written: %w; choose another folder with --artifact-dir", err)
	}
	return &courseLog{slog.New(export.NewLog(f, level, secrets)), f, path}, nil
}

func (l *courseLog) at(level slog.Level, format string, args ...any) {
	if l.Enabled(context.Background(), level) {
		l.Log(context.Background(), level, fmt.Sprintf(format, args...))
	}
}

// close ends the log. A log that could not be written in full takes nothing from the run.
func (l *courseLog) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

// begin tells what is run and what there was to say before.
func (l *courseLog) begin(b *bench) {
	l.at(slog.LevelInfo, "Starting prefire %s in the place of aiperf %s: %s", version(), aiperfVersion, b.command)
	l.at(slog.LevelInfo, "%s to %s; files go to %s", b.cfg.Endpoint.Type, strings.Join(b.load.urls(), ", "), b.dir.Path)
	l.at(slog.LevelDebug, "Config: %s", value(b.cfg.Input))
	for _, n := range append(b.cfg.Notices[:len(b.cfg.Notices):len(b.cfg.Notices)], b.load.notices...) {
		l.at(export.Notice, "%s", n)
	}
}

// urls are the servers as people know them.
func (l *load) urls() []string {
	out := make([]string, len(l.plan.Targets))
	for i := range out {
		out[i] = l.plan.Targets[i].URL
	}
	return out
}

// phase tells of a phase's begin (over is nil) or end, in aiperf's words.
func (l *courseLog) phase(p *export.Phase, plan *loadgen.Phase, over *loadgen.PhaseSummary) {
	name := fmt.Sprintf("Phase %s (%s)", p.Name, p.Kind)
	if over == nil {
		line := fmt.Sprintf("%s started | phase_index=%d", name, p.Index)
		if p.Kind == metrics.Profiling {
			line += fmt.Sprintf(" | profiling_index=%d", p.ProfilingIndex)
		}
		l.at(export.Notice, "%s", line+ends(plan))
		return
	}
	l.at(export.Notice, "%s complete | completed=%d, cancelled=%d, errors=%d | sessions: started=%d | sent=%d in %.2fs | elapsed=%.2fs", name,
		over.OK+over.Failed, over.Cancelled+over.Censored, over.Failed, over.Sessions, over.Sent, float64(over.SendEnd-over.Start)/1e9,
		float64(over.End-over.Start)/1e9)
	if over.Censored > 0 {
		l.at(slog.LevelWarn, "%s: %d requests were cut before their answer was complete, and are in no metric", name, over.Censored)
	}
}

// ends are what ends a phase, as aiperf's line of its begin has them.
func ends(p *loadgen.Phase) string {
	var list []string
	if p.Requests > 0 {
		list = append(list, fmt.Sprintf("%d requests", p.Requests))
	}
	if p.Sessions > 0 {
		list = append(list, fmt.Sprintf("%d sessions", p.Sessions))
	}
	if p.Duration > 0 {
		list = append(list, fmt.Sprintf("%gs duration", p.Duration.Seconds()))
	}
	if list == nil {
		return ""
	}
	return " | target: " + strings.Join(list, ", ")
}

// request tells of one finished request, of the failed ones alone where not each is asked for.
func (l *courseLog) request(r *metrics.Record, now func(int64) time.Time) {
	name := fmt.Sprintf("Request %s (phase %d, number %d, sent %s)", r.RequestID, r.Phase, r.Seq, now(r.Start).Format("15:04:05.000"))
	switch {
	case r.Censored:
		l.at(slog.LevelDebug, "%s was cut", name)
	case r.Err != nil:
		l.at(slog.LevelDebug, "%s failed after %.3f ms: %d %s: %s", name, ms(r.End-r.Start), r.Err.Code, r.Err.Type, r.Err.Message)
	default:
		l.at(export.Trace, "%s was answered in %.3f ms", name, ms(r.Last-r.Start))
	}
}

// end tells how the run ended.
func (l *courseLog) end(out *outcome, err error) {
	if out != nil {
		r := out.run
		for _, e := range r.Errors {
			l.at(slog.LevelError, "%d requests failed: %d %s: %s", e.Count, e.Error.Code, e.Error.Type, e.Error.Message)
		}
		for _, n := range r.Screen.Notices {
			l.at(slog.LevelWarn, "%s", n)
		}
		c := &r.Screen.Counts
		l.at(slog.LevelInfo, "%d requests sent: %d valid, %d errors, %d cancelled, %d cut", c.Sent, c.OK, c.Failed, c.Cancelled, c.Censored)
		for _, f := range r.Screen.Files {
			l.at(slog.LevelInfo, "%s: %s", f.Kind, f.Path)
		}
		if r.Incomplete != "" {
			l.at(slog.LevelWarn, "Incomplete: %s", r.Incomplete)
		}
		err = out.failed
	}
	if err != nil {
		l.at(slog.LevelError, "%v", err)
	}
	l.at(slog.LevelInfo, "Ended")
}
