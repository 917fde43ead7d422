package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"
)

func labels(ts []tick) string {
	var out []string
	for _, t := range ts {
		out = append(out, t.label)
	}
	return strings.Join(out, "|")
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis Axis
		want string
	}{
		{Axis{Max: 10}, "0|2|4|6|8|10"},
		{Axis{Max: 0.37}, "0|0.1|0.2|0.3"},
		{Axis{Min: 95, Max: 106}, "95|100|105"},
		{Axis{Max: 62_000}, "0|20k|40k|60k"},
		{Axis{Max: 5e9}, "0|1G|2G|3G|4G|5G"},
		{Axis{Log: true, Min: 20, Max: 2300}, "100|1000"},
		{Axis{Log: true, Min: 20, Max: 200}, "20|50|100|200"},
		{Axis{Log: true, Min: 0.002, Max: 4e5}, "0.01|1|100|10k"},
		{Axis{Log: true, Min: 55, Max: 80}, "55|60|65|70|75|80"},
		{Axis{Names: []string{"a", "b"}, Min: 0.4, Max: 2.6}, "a|b"},
		{Axis{Clock: true, Max: 2.2}, "0 s|0.5 s|1 s|1.5 s|2 s"},
		{Axis{Clock: true, Max: 100}, "0 s|30 s|60 s|90 s"},
		{Axis{Clock: true, Max: 700}, "0:00|5:00|10:00"},
		{Axis{Clock: true, Max: 10 * 3600}, "0:00:00|2:00:00|4:00:00|6:00:00|8:00:00|10:00:00"},
	} {
		if got := labels(c.axis.ticks(5)); got != c.want {
			t.Errorf("%+v has %s, want %s", c.axis, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 12.3456: "12.35", 0.000123456: "0.0001235", 0.00000012: "1.2e-7", 999.96: "1000", 9999: "9999", 12345: "12.3k", 999999: "1000k",
		1.5e6: "1.5M", 2e9: "2G", -12345: "-12.3k", 0.1 + 0.2: "0.3"} {
		if got := Short(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func sample() *Chart {
	c := &Chart{Name: "a_plot", Title: "Less < more & \"more\"", Text: "What <it> shows.", X: Axis{Label: "x & y", Clock: true, Max: 10}, Y: Axis{Label: "ms", Log: true}}
	c.Y.Span(1)
	c.Y.Span(1000)
	c.Y.Settle(true)
	nan := math.NaN()
	points := []Point{{0, 1}, {1, 10}, {2, nan}, {3, 100}, {4, 1000}, {5, 0.001}, {6, nan}, {7, 5}}
	low := []float64{0.5, 5, 0, 50, 500, 0.0005, 0, 2}
	c.Layers = []Layer{
		{Name: "band", Kind: Band, Tone: Main, Points: points, To: low}, {Name: "area", Kind: Area, Tone: Quiet, Points: points},
		{Name: "line", Kind: Line, Tone: Main, Points: points, Dashed: true}, {Name: "dots", Kind: Dots, Tone: Bad, Points: points},
		{Name: "bars", Kind: Bars, Tone: Second, Points: points, To: []float64{1, 2, 3, 4, 5, 6, 7, 8}}, {Name: "p99 <5>", Kind: Mark, Tone: Second, Points: []Point{{X: 5}, {X: 9.9}}},
		{Kind: Line, Tone: Main},
	}
	return c
}

// The drawing is well-formed, says what it is, and nothing of it lies outside.
func TestSVG(t *testing.T) {
	svg := sample().SVG("r1-")
	d := xml.NewDecoder(strings.NewReader(svg))
	var said []string
	elements := map[string]int{}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.CharData:
			said = append(said, string(tok))
		case xml.StartElement:
			elements[tok.Name.Local]++
		}
	}
	all := strings.Join(said, "|")
	for _, want := range []string{`Less < more & "more"|What <it> shows.|`, "|x & y|", "|ms|", "|1000|", "|10 s|", "|p99 <5>"} {
		if !strings.Contains(all, want) {
			t.Errorf("the drawing does not say %q: %s", want, all)
		}
	}
	if elements["svg"] != 1 || elements["title"] != 1 || elements["desc"] != 1 {
		t.Errorf("elements %v", elements)
	}
	// A line that breaks twice has three pieces, of which a single point is a dot; what is below the axis lies on it.
	if want := `class="line main dashed" d="M56 214.3L96.8 150.1M178.4 85.9L219.2 21.7L260 222M341.6 169.4h0"`; !strings.Contains(svg, want) {
		t.Errorf("there is no %s in %s", want, svg)
	}
	for _, no := range []string{"NaN", "Inf", "http"} {
		if strings.Contains(svg, no) {
			t.Errorf("the drawing holds %s", no)
		}
	}
}

func TestFile(t *testing.T) {
	var out bytes.Buffer
	if err := sample().File(&out, "png"); err != nil {
		t.Fatal(err)
	}
	im, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	if size := im.Bounds().Size(); size.X != 1063 || size.Y != 650 {
		t.Errorf("the picture has %v pixels", size)
	}
	out.Reset()
	if err := sample().File(&out, "svg"); err != nil || !strings.Contains(out.String(), "p99 &lt;5&gt;") {
		t.Errorf("%v: %.200s", err, out.String())
	}
}

// An axis over one value, over nothing, or over values that a log axis has no place for is an axis all the same.
func TestAxisOfLittle(t *testing.T) {
	for _, values := range [][]float64{nil, {0}, {5}, {5, 5}, {math.NaN(), math.Inf(1)}, {-1, 0}} {
		for _, log := range []bool{false, true} {
			a := Axis{Log: log}
			for _, v := range values {
				a.Span(v)
			}
			a.Settle(true)
			if !(a.Max > a.Min) || log && a.Min <= 0 || len(a.ticks(5)) == 0 {
				t.Errorf("values %v, log %v: %+v", values, log, a)
			}
		}
	}
}
