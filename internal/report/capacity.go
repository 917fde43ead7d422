package report

import (
	"errors"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// CapacityPoint is what one load came to.
type CapacityPoint struct {
	Load                 float64
	Throughput           float64 // answers a second
	Low, High            float64 // its interval; both Throughput where there is none
	Latency, LatencyTail float64 // avg and p99 in ms; NaN = none
	Kept                 bool    // it keeps the limits
}

// CapacityPlot is a capacity run.
type CapacityPlot struct {
	Title    string
	LoadName string          // of the loads, with their unit
	Latency  string          // which latency the points have
	Best     float64         // the best load; 0 = none
	Points   []CapacityPoint // by rising load
}

// Capacity draws a capacity run as SVG: throughput over the load above, with its intervals, and latency below. Loads that break a limit have
// hollow marks; a line stands at the best one.
func Capacity(w io.Writer, c CapacityPlot) error {
	if len(c.Points) == 0 {
		return errors.New("there is no load to draw")
	}
	top, bottom := c.axes("throughput (requests/s)"), c.axes(c.Latency+" (ms)")
	top.Title.Text, top.Title.Padding = c.Title, vg.Points(8)
	top.X.Label.Text = ""
	var rates, avg, tail plotter.XYs
	for _, p := range c.Points {
		rates = append(rates, plotter.XY{X: p.Load, Y: p.Throughput})
		if p.High > p.Low {
			interval, err := plotter.NewLine(plotter.XYs{{X: p.Load, Y: max(0, p.Low)}, {X: p.Load, Y: p.High}})
			if err != nil {
				return err
			}
			interval.Color = color.Gray{Y: 120}
			top.Add(interval)
		}
		if !math.IsNaN(p.Latency) && !math.IsNaN(p.LatencyTail) {
			avg, tail = append(avg, plotter.XY{X: p.Load, Y: p.Latency}), append(tail, plotter.XY{X: p.Load, Y: p.LatencyTail})
		}
	}
	for _, s := range [...]struct {
		p     *plot.Plot
		name  string
		xys   plotter.XYs
		color color.Color
	}{
		{top, "answers", rates, color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}},
		{bottom, "avg", avg, color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}},
		{bottom, "p99", tail, color.RGBA{R: 0xc4, G: 0x5a, B: 0x11, A: 0xff}},
	} {
		if len(s.xys) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(s.xys)
		if err != nil {
			return err
		}
		line.Color, line.Width = s.color, vg.Points(1.5)
		dots.GlyphStyleFunc = func(i int) draw.GlyphStyle {
			g := draw.GlyphStyle{Color: s.color, Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}
			for _, p := range c.Points {
				if p.Load == s.xys[i].X && !p.Kept {
					g.Shape = draw.RingGlyph{}
				}
			}
			return g
		}
		s.p.Add(line, dots)
		if s.p == bottom {
			s.p.Legend.Add(s.name, line)
		}
	}
	if c.Best > 0 {
		for _, p := range [...]*plot.Plot{top, bottom} {
			best, err := plotter.NewLine(plotter.XYs{{X: c.Best, Y: 0}, {X: c.Best, Y: p.Y.Max}})
			if err != nil {
				return err
			}
			best.Color, best.Dashes = color.RGBA{R: 0x2e, G: 0x7d, B: 0x32, A: 0xff}, []vg.Length{vg.Points(4), vg.Points(3)}
			p.Add(best)
			if p == top {
				p.Legend.Add("best: "+strconv.FormatFloat(c.Best, 'g', 5, 64), best)
			}
		}
	}
	for _, p := range [...]*plot.Plot{top, bottom} {
		p.X.Min, p.Y.Min = 0, 0
		p.X.Max, p.Y.Max = p.X.Max*1.03, p.Y.Max*1.15
		p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
		p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), -vg.Points(6)
	}
	canvas := vgsvg.New(16*vg.Centimeter, 16*vg.Centimeter)
	grid := [][]*plot.Plot{{top}, {bottom}}
	for i, row := range plot.Align(grid, draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(8)}, draw.New(canvas)) {
		grid[i][0].Draw(row[0])
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (c *CapacityPlot) axes(y string) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = c.LoadName, y
	p.Add(plotter.NewGrid())
	return p
}
