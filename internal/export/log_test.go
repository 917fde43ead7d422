package export

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestALogHasAiperfsLines(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 123e6, time.UTC)
	for _, tt := range []struct{ level, want string }{
		{"TRACE", "TRACE DEBUG INFO NOTICE WARNING SUCCESS ERROR CRITICAL"},
		{"NOTICE", "NOTICE WARNING SUCCESS ERROR CRITICAL"},
		{"CRITICAL", "CRITICAL"},
		{"none such", "INFO NOTICE WARNING SUCCESS ERROR CRITICAL"},
	} {
		var b strings.Builder
		log := slog.New(NewLog(&b, LogLevel(tt.level), NewRedactor("hunter2")))
		for _, l := range levelNames() {
			if log.Enabled(t.Context(), l.level) {
				r := slog.NewRecord(at, l.level, "key hunter2\x1b[31m\nnext", 0)
				r.AddAttrs(slog.Int("n", 3))
				if err := log.With("a", "hunter2").WithGroup("g").Handler().Handle(context.Background(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
		var want strings.Builder
		for name := range strings.FieldsSeq(tt.want) {
			want.WriteString("2026-03-01 10:00:00.123 - prefire - " + name + " - key <redacted>[31m\n    next a=<redacted> g.n=3\n")
		}
		if b.String() != want.String() {
			t.Errorf("%s:\n%s\nwant\n%s", tt.level, b.String(), want.String())
		}
	}
}
