package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// The plot is well-formed, names its axes, its curves and the best load, and has a mark for each load in each part; loads that break a limit
// have hollow ones.
func TestCapacity(t *testing.T) {
	points := []CapacityPoint{{10, 100, 95, 105, 20, 30, true}, {20, 190, 190, 190, 21, 33, true}, {40, 200, 180, 220, math.NaN(), math.NaN(), false}}
	var b strings.Builder
	if err := Capacity(&b, CapacityPlot{Title: "a <&> b", LoadName: "sessions", Latency: "time to first token", Best: 20, Points: points}); err != nil {
		t.Fatal(err)
	}
	var texts []string
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.CharData); ok {
			texts = append(texts, strings.TrimSpace(string(s)))
		}
	}
	all := strings.Join(texts, "|")
	for _, want := range []string{"a <&> b", "|sessions|", "throughput (requests/s)", "time to first token (ms)", "avg", "p99", "best: 20"} {
		if !strings.Contains(all, want) {
			t.Errorf("the plot does not say %q: %s", want, all)
		}
	}
	if strings.Contains(b.String(), "NaN") {
		t.Error("there is a NaN in the plot")
	}
	if err := Capacity(&b, CapacityPlot{}); err == nil {
		t.Error("a plot of nothing is drawn")
	}
}
