package loadgen

import (
	"slices"
	"testing"

	"prefire/loadgen/wire"
	"prefire/metrics"
)

// A gap is what two stamps of their own say; of one packet, in one read or in two, there is but one.
func TestGapsBetweenEventsOfOneStampAreAbsent(t *testing.T) {
	var r metrics.Record
	chunks(&r, []wire.Chunk{
		{At: 100, Class: wire.Content, Flags: wire.Kernel},
		{At: 130, Class: wire.Content, Flags: wire.Kernel},
		{At: 130, Class: wire.Content, Flags: wire.Kernel},
		{At: 130, Class: wire.Content, Flags: wire.Kernel | wire.SharesRe},
		{At: 120, Class: wire.Content},
		{At: 150, Class: wire.Content, Flags: wire.Kernel},
	})
	if want := []metrics.Gap{30, metrics.Shared, metrics.Shared, metrics.Shared, 20}; !slices.Equal(r.Gaps, want) || r.Second != 130 || r.Last != 150 {
		t.Errorf("gaps %v, want %v; the second at %d, the last at %d", r.Gaps, want, r.Second, r.Last)
	}
}
