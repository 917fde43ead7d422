package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// The plot is well-formed, names its axes and its curves, and has a mark for each length.
func TestLongContext(t *testing.T) {
	var b strings.Builder
	err := LongContext(&b, "TTFT by input length: healthy <&>", []LengthPoint{{4096, 204, 260}, {512, 30, 33}, {1024, 41, 44}})
	if err != nil {
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
	for _, want := range []string{"TTFT by input length: healthy <&>", "input sequence length (tokens)", "time to first token (ms)",
		"in line with the input", "avg", "p99", "|512|", "|1024|", "|4096|"} {
		if !strings.Contains(all, want) {
			t.Errorf("the plot does not say %q", want)
		}
	}
	if err := LongContext(&b, "", nil); err == nil {
		t.Error("a plot of nothing is drawn")
	}
}
