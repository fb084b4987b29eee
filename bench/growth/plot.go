package growth

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The look of all plots: colours that colour-blind readers tell apart (Okabe and
// Ito), sizes that fit a page of documentation.
var (
	palette = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}}
	ink     = color.RGBA{60, 64, 72, 255}
	pale    = color.RGBA{228, 230, 234, 255}
	band    = color.NRGBA{0, 114, 178, 28}
)

const (
	width, height = 17 * vg.Centimeter, 9.5 * vg.Centimeter
	dpi           = 150
)

// series is a line, or dots.
type series struct {
	name   string
	points plotter.XYs
	color  color.RGBA
	dots   bool
	dashed bool
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Weight: 3, Size: 12}
	p.Title.TextStyle.Color, p.Title.Padding = ink, 10
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		sans := font.Font{Typeface: "Liberation", Variant: "Sans", Size: 10}
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color, axis.Label.Padding = sans, ink, 4
		sans.Size = 9
		axis.Tick.Label.Font, axis.Tick.Label.Color = sans, ink
		axis.Color, axis.Tick.Color, axis.Tick.Length = pale, pale, 3
	}
	p.Y.Min = 0
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = pale, color.Transparent
	p.Add(grid)
	p.Legend.TextStyle.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 9}
	p.Legend.TextStyle.Color, p.Legend.Padding, p.Legend.ThumbnailWidth = ink, 3, 18
	p.Legend.Left, p.Legend.Top = true, true
	p.Legend.XOffs, p.Legend.YOffs = 8, -4
	return p
}

func add(p *plot.Plot, all ...series) error {
	for _, s := range all {
		line, dots, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return fmt.Errorf("plot %s: %w", s.name, err)
		}
		line.Color, line.Width = s.color, vg.Points(2)
		dots.Color, dots.Radius, dots.Shape = s.color, vg.Points(3), draw.CircleGlyph{}
		if s.dashed {
			line.Dashes = []vg.Length{5, 4}
		}
		if s.dots {
			p.Add(dots)
			p.Legend.Add(s.name, dots)
			continue
		}
		p.Add(line)
		p.Legend.Add(s.name, line)
	}
	return nil
}

// thousands labels an axis.
type thousands struct{ plot.Ticker }

// Ticks implements plot.Ticker.
func (t thousands) Ticks(low, high float64) []plot.Tick {
	ticks := t.Ticker.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = count(ticks[i].Value)
		}
	}
	return ticks
}

// at labels these values alone.
func at(values ...float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: count(v)})
	}
	return ticks
}

func save(p *plot.Plot, folder, name string) error {
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	inner := draw.Crop(draw.New(canvas), 10, -16, 8, -10)
	p.Draw(inner)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	out, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	defer out.Close()
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(out); err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	return nil
}

// Plots writes every plot into a folder.
func Plots(c *Calibration, checks []Check, folder string) error {
	for _, draw := range []func(*Calibration, []Check, string) error{plotChecks, plotWorkers, plotLatency, plotCustomers} {
		if err := draw(c, checks, folder); err != nil {
			return err
		}
	}
	return nil
}

// plotChecks shows what was predicted as a share of what was measured.
func plotChecks(_ *Calibration, checks []Check, folder string) error {
	p := newPlot("Predicted, as a share of measured", "", "")
	var rates, tails plotter.XYs
	var labels []plot.Tick
	y := 0.0
	where := ""
	for _, check := range slices.Backward(checks) {
		if check.What != "acks/s" && check.What != "events/s" && check.What != "p99 ms" && check.What != "p50 ms" {
			continue
		}
		if check.Where != where {
			y++
			where = check.Where
			labels = append(labels, plot.Tick{Value: y, Label: where})
		}
		point := plotter.XY{X: check.Predicted / check.Measured, Y: y}
		if check.What == "p99 ms" {
			tails = append(tails, point)
		} else {
			rates = append(rates, point)
		}
	}
	right, err := plotter.NewPolygon(plotter.XYs{{X: 1 - tolerance, Y: 0.3}, {X: 1 + tolerance, Y: 0.3}, {X: 1 + tolerance, Y: y + 0.7}, {X: 1 - tolerance, Y: y + 0.7}})
	if err != nil {
		return fmt.Errorf("plot checks: %w", err)
	}
	right.Color, right.LineStyle.Width = band, 0
	p.Add(right)
	p.Legend.Add(fmt.Sprintf("within %.0f %%", 100*tolerance), right)
	if err := add(p, series{name: "rate and median", points: rates, color: palette[0], dots: true}, series{name: "99th percentile", points: tails, color: palette[1], dots: true}); err != nil {
		return err
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 2, 0.3, y+0.7
	p.X.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 0.5, Label: "0.5"}, {Value: 1, Label: "1 = right"}, {Value: 1.5, Label: "1.5"}, {Value: 2, Label: "2"}}
	p.Y.Tick.Marker = plot.ConstantTicks(labels)
	p.Legend.Left, p.Legend.Top, p.Legend.YOffs = false, false, 8
	return save(p, folder, "check.png")
}

// plotWorkers shows what more workers bring.
func plotWorkers(c *Calibration, _ []Check, folder string) error {
	counts := []float64{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16}
	line := func(name string, i int, change func(*Scenario)) series {
		s := series{name: name, color: palette[i]}
		for _, n := range counts {
			scenario := Scenario{Workers: int(n), Apart: true, Cores: 4, DataCores: 16, Customers: million}
			change(&scenario)
			s.points = append(s.points, plotter.XY{X: n, Y: Simulate(c, drain(scenario)).Done})
		}
		return s
	}
	p := newPlot("Predicted rate from a backlog, by the number of workers", "workers, each on 4 cores; Postgres and NATS on 16", "events a second")
	err := add(p,
		line("no account in every event", 2, func(s *Scenario) { s.NoShared = true }),
		line("one in every event", 0, func(*Scenario) {}),
		line("all on one machine with 2 cores", 1, func(s *Scenario) { s.Apart, s.Cores, s.DataCores = false, 2, 0 }),
	)
	if err != nil {
		return err
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = at(1, 2, 4, 6, 8, 10, 12, 14, 16), thousands{plot.DefaultTicks{}}
	p.Y.Max *= 1.1
	p.Legend.Left, p.Legend.Top, p.Legend.XOffs, p.Legend.YOffs = false, false, -8, 75
	return save(p, folder, "workers.png")
}

// plotLatency shows how long answers take as the rate grows.
func plotLatency(c *Calibration, _ []Check, folder string) error {
	p := newPlot("Predicted time to an answer, by the rate", "webhooks a second", "milliseconds")
	lines := func(name string, i int, s Scenario, highest float64) error {
		half := series{name: name + ", median", color: palette[i], dashed: true}
		tail := series{name: name + ", 99th percentile", color: palette[i]}
		for _, part := range []float64{0.01, 0.03, 0.06, 0.1, 0.15, 0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93} {
			s.Rate = part * highest
			s.WarmUp, s.Seconds = 0.3, max(1, min(20, 20_000/s.Rate)) // enough for a 99th percentile
			got := Simulate(c, s)
			half.points = append(half.points, plotter.XY{X: s.Rate, Y: 1e3 * got.AckP50})
			tail.points = append(tail.points, plotter.XY{X: s.Rate, Y: 1e3 * got.AckP99})
		}
		return add(p, tail, half)
	}
	together := Scenario{Receivers: 1, Workers: 1, Cores: 2, Customers: million}
	highest, _ := sustained(c, together)
	if err := lines("one machine with 2 cores", 1, together, highest); err != nil {
		return err
	}
	apart := Scenario{Receivers: 2, Apart: true, Cores: 4, Replicas: 3}
	if err := lines("machines of their own, 3 replicas", 0, apart, Simulate(c, acks(apart)).Acked); err != nil {
		return err
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = thousands{plot.DefaultTicks{}}, thousands{plot.DefaultTicks{}}
	p.X.Min, p.Y.Max = 0, p.Y.Max*1.1
	return save(p, folder, "latency.png")
}

// plotCustomers shows what accounts cost that many batches want at once.
func plotCustomers(c *Calibration, _ []Check, folder string) error {
	p := newPlot("Predicted rate from a backlog, by the number of customers", "customers, of whom each event is a random one's", "events a second")
	for i, workers := range []int{8, 4, 2, 1} {
		s := series{name: many(workers, "worker"), color: palette[i]}
		for _, customers := range []int{1000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000} {
			scenario := Scenario{Workers: workers, Apart: true, Cores: 4, DataCores: 16, Customers: customers}
			s.points = append(s.points, plotter.XY{X: math.Log10(float64(customers)), Y: Simulate(c, drain(scenario)).Done})
		}
		if err := add(p, s); err != nil {
			return err
		}
	}
	p.X.Tick.Marker = plot.ConstantTicks{
		{Value: 3, Label: "1,000"}, {Value: 4, Label: "10,000"}, {Value: 5, Label: "100,000"}, {Value: 6, Label: "1 million"}, {Value: 7, Label: "10 million"},
	}
	p.Y.Tick.Marker = thousands{plot.DefaultTicks{}}
	p.Y.Max *= 1.1
	return save(p, folder, "customers.png")
}
