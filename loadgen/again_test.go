package loadgen

import (
	"testing"
	"time"
)

func TestTheWaitBeforeARequestIsSentAgain(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		asked string
		sent  int
		want  time.Duration
		ok    bool
	}{
		{"2", 1, 2 * time.Second, true},
		{"0", 3, 0, true},
		{"0.5", 1, 500 * time.Millisecond, true},
		{"3600", 1, time.Hour, true},
		{"3601", 1, 3601 * time.Second, false},
		{"1e300", 1, 2 * time.Hour, false},
		{"Mon, 30 Nov 2026 12:00:07 GMT", 1, 7 * time.Second, true},
		{"Mon, 30 Nov 2026 11:00:00 GMT", 1, 0, true},
		{"Tue, 01 Dec 2026 12:00:07 GMT", 1, 24*time.Hour + 7*time.Second, false},
		{"", 1, time.Second, true},
		{"soon", 2, 2 * time.Second, true},
		{"-5", 3, 4 * time.Second, true},
		{"NaN", 1, time.Second, true},
		{"", 40, time.Minute, true},
	} {
		if wait, ok := retryWait(c.asked, now, c.sent); wait != c.want || ok != c.ok {
			t.Errorf("Retry-After %q after %d sends: %v, %v; want %v, %v", c.asked, c.sent, wait, ok, c.want, c.ok)
		}
	}
}
