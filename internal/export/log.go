package export

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// The file that tells the course of a run, in the result folder, and its folder.
const (
	LogFolder = "logs"
	LogFile   = "aiperf.log"
)

// Levels of a log. aiperf's lie on Python's scale, whose order these keep.
const (
	Trace    = slog.LevelDebug - 4
	Notice   = slog.LevelInfo + 2
	Success  = slog.LevelWarn + 2
	Critical = slog.LevelError + 4
)

type levelName struct {
	level slog.Level
	name  string
}

func levelNames() []levelName {
	return []levelName{{Trace, "TRACE"}, {slog.LevelDebug, "DEBUG"}, {slog.LevelInfo, "INFO"}, {Notice, "NOTICE"}, {slog.LevelWarn, "WARNING"},
		{Success, "SUCCESS"}, {slog.LevelError, "ERROR"}, {Critical, "CRITICAL"}}
}

// LogLevel is the level that aiperf calls name; INFO for a name that is none.
func LogLevel(name string) slog.Level {
	for _, l := range levelNames() {
		if l.name == name {
			return l.level
		}
	}
	return slog.LevelInfo
}

// NewLog makes what writes lines as aiperf's log has them, "2026-03-01 10:00:00.123 - prefire - INFO - text", of level and above, without secrets and
// control characters. The text is the record's message; attributes follow it as key=value. It may be used by several goroutines.
func NewLog(w io.Writer, level slog.Level, secrets *Redactor) slog.Handler {
	return &logHandler{shared: &sharedLog{w: w}, level: level, secrets: secrets}
}

type sharedLog struct {
	mu sync.Mutex
	w  io.Writer
}

type logHandler struct {
	shared  *sharedLog
	level   slog.Level
	secrets *Redactor
	with    string // attributes of every line, each behind a space
	group   string // prefix of further keys
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.with)
	r.Attrs(func(a slog.Attr) bool { b.WriteString(h.attr(a)); return true })
	name := r.Level.String()
	for _, l := range levelNames() {
		if l.level == r.Level {
			name = l.name
		}
	}
	text := strings.ReplaceAll(printable(h.secrets.String(b.String())), "\n", "\n    ") // whoever reads lines sees where one begins
	line := r.Time.Format("2006-01-02 15:04:05.000") + " - prefire - " + name + " - " + text + "\n"
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	_, err := io.WriteString(h.shared.w, line)
	return err
}

func (h *logHandler) attr(a slog.Attr) string {
	return " " + h.group + a.Key + "=" + a.Value.Resolve().String()
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	for _, a := range attrs {
		out.with += h.attr(a)
	}
	return &out
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	out := *h
	if name != "" {
		out.group += name + "."
	}
	return &out
}
