package report

import (
	"fmt"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/onceledger/onceledger/bench/measure"
)

// The pictures' size, and how many dots an inch.
const (
	panelWidth, panelHeight = 5.2 * vg.Inch, 3.4 * vg.Inch
	wideWidth, wideHeight   = 7.2 * vg.Inch, 4 * vg.Inch
	dpi                     = 144
)

// A calm palette that the colour-blind can tell apart.
var (
	ink    = color.RGBA{0x37, 0x41, 0x51, 0xff}
	faint  = color.RGBA{0xe5, 0xe7, 0xeb, 0xff}
	bound  = color.RGBA{0xc0, 0x5a, 0x4e, 0xff}
	blue   = color.RGBA{0x2f, 0x6d, 0xb5, 0xff}
	orange = color.RGBA{0xe0, 0x8a, 0x3c, 0xff}
	blues  = []color.RGBA{
		{0xa9, 0xc8, 0xe8, 0xff}, {0x6d, 0xa3, 0xd9, 0xff}, {0x2f, 0x6d, 0xb5, 0xff}, {0x17, 0x3f, 0x76, 0xff},
	}
)

// Plot draws what there is of the whole path, of the longest backlog and of growing
// tables into the folder dir, as PNG: latency, timeline, backlog and growth.
func Plot(dir string, result *measure.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder of plots: %w", err)
	}
	for _, picture := range []struct {
		name   string
		panels func(*measure.Result) ([]*plot.Plot, error)
	}{
		{"latency", latency}, {"timeline", timeline}, {"backlog", longest}, {"growth", growth},
	} {
		panels, err := picture.panels(result)
		if err != nil {
			return fmt.Errorf("plot %s: %w", picture.name, err)
		}
		if len(panels) == 0 {
			continue
		}
		if err := save(filepath.Join(dir, picture.name+".png"), panels); err != nil {
			return fmt.Errorf("plot %s: %w", picture.name, err)
		}
	}
	return nil
}

// save draws panels side by side.
func save(path string, panels []*plot.Plot) error {
	width, height := wideWidth, wideHeight
	if len(panels) > 1 {
		width, height = vg.Length(len(panels))*panelWidth, panelHeight
	}
	img := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	tiles := draw.Tiles{
		Rows: 1, Cols: len(panels), PadX: vg.Points(22),
		PadTop: vg.Points(8), PadBottom: vg.Points(8), PadLeft: vg.Points(8), PadRight: vg.Points(14),
	}
	for i, canvas := range plot.Align([][]*plot.Plot{panels}, tiles, draw.New(img))[0] {
		panels[i].Draw(canvas)
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(out, img.Image()); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// panel is an empty plot in the house's looks.
func panel(title, x, y string) *plot.Plot {
	p := plot.New()
	style := func(s *text.Style, size float64, weight font.Font) {
		s.Font = weight
		s.Font.Size = vg.Points(size)
		s.Color = ink
	}
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	bold := sans
	bold.Weight = 3 // bold, as golang.org/x/image/font counts
	p.BackgroundColor = color.White
	p.Title.Text, p.Title.Padding = title, vg.Points(10)
	style(&p.Title.TextStyle, 12, bold)
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		style(&axis.Label.TextStyle, 10, sans)
		style(&axis.Tick.Label, 9, sans)
		axis.Label.Padding, axis.Padding = vg.Points(5), vg.Points(4)
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = ink, ink
		axis.LineStyle.Width, axis.Tick.LineStyle.Width = vg.Points(0.6), vg.Points(0.6)
		axis.Tick.Length = vg.Points(3)
	}
	style(&p.Legend.TextStyle, 9.5, sans)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(6), vg.Points(-2)
	p.Legend.ThumbnailWidth, p.Legend.Padding = vg.Points(18), vg.Points(2.5)
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color, grid.Horizontal.Width = faint, vg.Points(0.8)
	p.Add(grid)
	return p
}

// line adds points, joined and with a name, dotted where they are few.
func line(p *plot.Plot, name string, points plotter.XYs, c color.Color) error {
	l, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	l.Color, l.Width = c, vg.Points(1.8)
	p.Add(l)
	thumbs := []plot.Thumbnailer{l}
	if len(points) <= 5 {
		dots.Shape, dots.Color, dots.Radius = draw.CircleGlyph{}, c, vg.Points(3.5)
		p.Add(dots)
		thumbs = append(thumbs, dots)
	}
	p.Legend.Add(name, thumbs...)
	return nil
}

// bounded adds a dashed line at y.
func bounded(p *plot.Plot, name string, from, to, y float64) error {
	l, err := plotter.NewLine(plotter.XYs{{X: from, Y: y}, {X: to, Y: y}})
	if err != nil {
		return err
	}
	l.Color, l.Width, l.Dashes = bound, vg.Points(1.2), []vg.Length{vg.Points(5), vg.Points(4)}
	p.Add(l)
	p.Legend.Add(name, l)
	return nil
}

// even marks an axis from 0 to most in even steps, with separators. What lies above
// is the legend's.
type even struct{ most float64 }

// Ticks implements plot.Ticker.
func (e even) Ticks(low, _ float64) []plot.Tick {
	const marks = 6
	step := math.Pow(10, math.Floor(math.Log10(e.most/marks)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if factor*step*marks >= e.most {
			step *= factor
			break
		}
	}
	var ticks []plot.Tick
	for n := 0.0; n*step <= e.most*1.001; n++ {
		if n*step >= low {
			ticks = append(ticks, plot.Tick{Value: n * step, Label: label(n*step, step)})
		}
	}
	return ticks
}

func label(v, step float64) string {
	if step < 1 {
		return fmt.Sprintf("%.1f", v)
	}
	return count(v)
}

// named is a fixed set of marks.
func named(at ...plot.Tick) plot.Ticker { return plot.ConstantTicks(at) }
