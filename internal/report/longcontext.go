// Package report draws what a procedure found.
package report

import (
	"errors"
	"image/color"
	"io"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// LengthPoint is TTFT at one input length.
type LengthPoint struct {
	ISL      float64 // tokens
	Avg, P99 float64 // ms
}

// LongContext draws TTFT against input length as SVG: the averages and the 99th percentiles, and the straight line through 0 and the average of
// the shortest length, which TTFT follows where it grows in line with the input. title names the run.
func LongContext(w io.Writer, title string, points []LengthPoint) error {
	p, err := longContextPlot(title, points)
	if err != nil {
		return err
	}
	c := vgsvg.New(16*vg.Centimeter, 10*vg.Centimeter)
	p.Draw(draw.New(c))
	_, err = c.WriteTo(w)
	return err
}

func longContextPlot(title string, points []LengthPoint) (*plot.Plot, error) {
	if len(points) == 0 {
		return nil, errors.New("there is no length to draw")
	}
	avg, p99 := make(plotter.XYs, len(points)), make(plotter.XYs, len(points))
	shortest, longest, ticks := points[0], points[0], make(plot.ConstantTicks, len(points))
	for i, p := range points {
		avg[i], p99[i] = plotter.XY{X: p.ISL, Y: p.Avg}, plotter.XY{X: p.ISL, Y: p.P99}
		ticks[i] = plot.Tick{Value: p.ISL, Label: strconv.FormatFloat(p.ISL, 'f', 0, 64)}
		if p.ISL < shortest.ISL {
			shortest = p
		}
		if p.ISL > longest.ISL {
			longest = p
		}
	}
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding = vg.Points(8)
	p.X.Label.Text, p.Y.Label.Text = "input sequence length (tokens)", "time to first token (ms)"
	p.X.Tick.Marker = ticks
	p.Add(plotter.NewGrid())

	straight, err := plotter.NewLine(plotter.XYs{{X: 0, Y: 0}, {X: longest.ISL, Y: shortest.Avg / shortest.ISL * longest.ISL}})
	if err != nil {
		return nil, err
	}
	straight.Color, straight.Dashes = color.Gray{Y: 120}, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(straight)
	p.Legend.Add("in line with the input", straight)
	for _, s := range [...]struct {
		name  string
		xys   plotter.XYs
		color color.Color
		shape draw.GlyphDrawer
	}{
		{"avg", avg, color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}, draw.CircleGlyph{}},
		{"p99", p99, color.RGBA{R: 0xc4, G: 0x5a, B: 0x11, A: 0xff}, draw.TriangleGlyph{}},
	} {
		line, dots, err := plotter.NewLinePoints(s.xys)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color, dots.Shape, dots.Radius = s.color, s.color, s.shape, vg.Points(3.5)
		line.Width = vg.Points(1.5)
		p.Add(line, dots)
		p.Legend.Add(s.name, line, dots)
	}
	// Room above and beside the last point, for the legend and the markers.
	p.X.Min, p.Y.Min = 0, 0
	p.X.Max, p.Y.Max = p.X.Max*1.03, p.Y.Max*1.2
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), -vg.Points(6)
	return p, nil
}
