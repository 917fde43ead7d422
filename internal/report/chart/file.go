package chart

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Formats are the kinds of files that File writes.
func Formats() []string { return []string{"svg", "png"} }

const fileWidth, fileHeight = 18 * vg.Centimeter, 11 * vg.Centimeter

// File writes the plot as a file of its own, on white.
func (c *Chart) File(w io.Writer, format string) error { return Stack(w, format, c) }

// Stack writes plots one below the other as one file, their axes at the same places.
func Stack(w io.Writer, format string, charts ...*Chart) error {
	rows := make([][]*plot.Plot, len(charts))
	for i, c := range charts {
		p, err := c.plot()
		if err != nil {
			return err
		}
		rows[i] = []*plot.Plot{p}
	}
	height := fileHeight * vg.Length(len(charts))
	var err error
	fill := func(on vg.CanvasSizer) {
		for i, row := range plot.Align(rows, draw.Tiles{Rows: len(rows), Cols: 1, PadY: vg.Points(8)}, draw.New(on)) {
			rows[i][0].Draw(row[0])
		}
	}
	switch format {
	case "svg":
		out := vgsvg.New(fileWidth, height)
		fill(out)
		_, err = out.WriteTo(w)
	case "png":
		out := vgimg.NewWith(vgimg.UseWH(fileWidth, height), vgimg.UseDPI(150))
		fill(out)
		_, err = vgimg.PngCanvas{Canvas: out}.WriteTo(w)
	default:
		return fmt.Errorf("a plot is written as %v, not as %q", Formats(), format)
	}
	return err
}

func (c *Chart) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Title.Padding = c.Title, vg.Points(8)
	for _, a := range [...]struct {
		to   *plot.Axis
		from *Axis
		n    int
	}{{&p.X, &c.X, 7}, {&p.Y, &c.Y, 5}} {
		a.to.Label.Text, a.to.Min, a.to.Max = a.from.Label, a.from.Min, a.from.Max
		if a.from.Log {
			a.to.Scale = plot.LogScale{}
		}
		marks := plot.ConstantTicks{}
		for _, t := range a.from.ticks(a.n) {
			marks = append(marks, plot.Tick{Value: t.at, Label: t.label})
		}
		a.to.Tick.Marker = marks
	}
	p.Add(plotter.NewGrid())
	for i := range c.Layers {
		if err := c.add(p, &c.Layers[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = c.X.Min, c.X.Max, c.Y.Min, c.Y.Max
	p.Legend.Top, p.Legend.Padding, p.Legend.XOffs = true, vg.Points(3), -vg.Points(6)
	if c.rises() {
		p.Legend.Left, p.Legend.XOffs = true, vg.Points(6)
	}
	return p, nil
}

// rises reports whether the plot is higher in its right third than in its left one, where the legend then has more room.
func (c *Chart) rises() bool {
	var low, high float64
	for i := range c.Layers {
		for _, p := range c.Layers[i].Points {
			if c.Layers[i].Kind == Mark || broken(p) {
				continue
			}
			switch x := c.X.place(p.X); {
			case x < 1./3:
				low = max(low, c.Y.place(p.Y))
			case x > 2./3:
				high = max(high, c.Y.place(p.Y))
			}
		}
	}
	return high > low
}

// The colours of a file, by tone.
func ink(t Tone, alpha uint8) color.Color {
	c := color.NRGBA{R: 0x70, G: 0x70, B: 0x70, A: alpha}
	switch t {
	case Main:
		c = color.NRGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: alpha}
	case Second:
		c = color.NRGBA{R: 0xb3, G: 0x4d, B: 0x0c, A: alpha}
	case Bad:
		c = color.NRGBA{R: 0xb4, G: 0x1c, B: 0x2b, A: alpha}
	}
	return c
}

func (c *Chart) add(p *plot.Plot, l *Layer) error {
	name := func(t ...plot.Thumbnailer) {
		if l.Name != "" {
			p.Legend.Add(l.Name, t...)
		}
	}
	switch l.Kind {
	case Line, Mark:
		lines := runs(l.Points)
		if l.Kind == Mark {
			lines = nil
			for _, m := range l.Points {
				lines = append(lines, []Point{{m.X, c.Y.Min}, {m.X, c.Y.Max}})
			}
		}
		for i, run := range lines {
			line, err := plotter.NewLine(c.inside(run))
			if err != nil {
				return err
			}
			line.Color, line.Width = ink(l.Tone, 0xff), vg.Points(1.5)
			if l.Dashed {
				line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			}
			p.Add(line)
			if i == 0 {
				name(line)
			}
		}
	case Dots:
		var points []Point
		for _, run := range runs(l.Points) {
			points = append(points, run...)
		}
		if len(points) == 0 {
			return nil
		}
		dots, err := plotter.NewScatter(c.inside(points))
		if err != nil {
			return err
		}
		dots.Color, dots.Shape, dots.Radius = ink(l.Tone, 0x90), draw.CircleGlyph{}, vg.Points(1.6)
		if l.Large {
			dots.Color, dots.Radius = ink(l.Tone, 0xff), vg.Points(3)
		}
		p.Add(dots)
		name(dots)
	default:
		for i, shape := range c.shapes(l) {
			area, err := plotter.NewPolygon(c.inside(shape))
			if err != nil {
				return err
			}
			area.Color, area.Width = ink(l.Tone, 0x50), 0
			p.Add(area)
			if i == 0 {
				name(area)
			}
		}
	}
	return nil
}

// inside are the points, drawn at the edge where they lie below it.
func (c *Chart) inside(points []Point) plotter.XYs {
	out := make(plotter.XYs, len(points))
	for i, p := range points {
		out[i] = plotter.XY{X: max(p.X, c.X.Min), Y: max(p.Y, c.Y.Min)}
	}
	return out
}

// shapes are the outlines of a layer of areas.
func (c *Chart) shapes(l *Layer) [][]Point {
	var out [][]Point
	switch l.Kind {
	case Bars:
		for i, p := range l.Points {
			if p.Y > 0 {
				out = append(out, []Point{{p.X, c.Y.Min}, {p.X, p.Y}, {l.To[i], p.Y}, {l.To[i], c.Y.Min}})
			}
		}
	case Band:
		at := 0
		for _, run := range runs(l.Points) {
			for broken(l.Points[at]) {
				at++
			}
			shape := append([]Point(nil), run...)
			for k := len(run) - 1; k >= 0; k-- {
				shape = append(shape, Point{run[k].X, l.To[at+k]})
			}
			out, at = append(out, shape), at+len(run)
		}
	case Area:
		for _, run := range runs(l.Points) {
			shape := append([]Point{{run[0].X, c.Y.Min}}, run...)
			out = append(out, append(shape, Point{run[len(run)-1].X, c.Y.Min}))
		}
	}
	return out
}
