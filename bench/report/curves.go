package report

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/onceledger/onceledger/bench/measure"
)

const (
	// bearable is the p99 in milliseconds, roomy the memory in MiB that is held to.
	bearable, roomy = 100, 200
	// few is how many points a curve over time needs.
	few = 2
)

// latency draws every quantile of the fixed rates, on a scale of nines.
func latency(result *measure.Result) ([]*plot.Plot, error) {
	p := panel("Answer to a webhook, synced to disk, from when it is due", "share of all answers", "came within, ms")
	shown, deepest, slowest := 0, 2.0, float64(bearable)
	for _, c := range result.Open {
		var shade color.Color = orange
		switch {
		case c.Offered > 0 && c.Name == fmt.Sprintf("%.0f/s", c.Offered):
			shade = blues[min(shown, len(blues)-1)]
			shown++
		case c.Name != measure.Highest:
			continue
		}
		var points plotter.XYs
		for _, q := range c.Quantiles {
			if q.MS <= 0 || q.Percentile <= 0 {
				continue
			}
			nines := -math.Log10(1 - q.Percentile/100)
			points = append(points, plotter.XY{X: nines, Y: q.MS})
			deepest, slowest = max(deepest, nines), max(slowest, q.MS)
		}
		if len(points) == 0 {
			continue
		}
		name := count(c.Offered) + "/s"
		if c.Name == measure.Highest {
			name += ", the highest found with a p99 under 100 ms"
		}
		if err := line(p, name, points, shade); err != nil {
			return nil, err
		}
	}
	if shown == 0 {
		return nil, nil
	}
	if err := bounded(p, "100 ms", 0.1, deepest, bearable); err != nil {
		return nil, err
	}
	p.X.Min, p.X.Max = 0.1, deepest
	p.X.Tick.Marker = named(plot.Tick{Value: 0.30103, Label: "50 %"}, plot.Tick{Value: 1, Label: "90 %"}, plot.Tick{Value: 2, Label: "99 %"},
		plot.Tick{Value: 3, Label: "99.9 %"}, plot.Tick{Value: 4, Label: "99.99 %"}, plot.Tick{Value: 5, Label: "99.999 %"})
	p.Y.Scale, p.Y.Min, p.Y.Max = plot.LogScale{}, 1, slowest*math.Pow(slowest, 0.5) // a third for the legend
	var ticks []plot.Tick
	for decade := 1.0; decade <= slowest; decade *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			if v := decade * factor; v <= slowest*1.1 && (factor == 1 || slowest < 1000) {
				ticks = append(ticks, plot.Tick{Value: v, Label: count(v)})
			}
		}
	}
	p.Y.Tick.Marker = named(ticks...)
	return []*plot.Plot{p}, nil
}

// timeline draws what was answered and what came into the ledger, second by second,
// of the closed loop with the most senders.
func timeline(result *measure.Result) ([]*plot.Plot, error) {
	var cell measure.OpenCell
	for _, c := range result.Open {
		if c.Offered == 0 && c.Resends == 0 {
			cell = c
		}
	}
	var acks plotter.XYs
	for i, n := range cell.Acks {
		acks = append(acks, plotter.XY{X: float64(i) + 0.5, Y: float64(n)})
	}
	acks = acks[:max(len(acks)-1, 0)] // the last second is not a whole one
	ledger := bySecond(cell.Moments)
	if len(acks) < few || len(ledger) < few {
		return nil, nil
	}
	p := panel(fmt.Sprintf("%s senders that wait for their answers", count(float64(cell.Senders))), "seconds", "events a second")
	if err := line(p, "answered 2xx", acks, blue); err != nil {
		return nil, err
	}
	if err := line(p, "in the ledger", ledger, orange); err != nil {
		return nil, err
	}
	roof(p, 1.35)
	clock(p)
	return []*plot.Plot{p}, nil
}

// bySecond makes a rate of what is done, from the beginning on.
func bySecond(moments []measure.Moment) (rates plotter.XYs) {
	if len(moments) > 0 && moments[0].Second > 0 {
		moments = append([]measure.Moment{{}}, moments...)
	}
	at := func(second float64) (done float64, ok bool) {
		for i := 1; i < len(moments); i++ {
			a, b := moments[i-1], moments[i]
			if a.Second <= second && second <= b.Second && b.Second > a.Second {
				return float64(a.Done) + float64(b.Done-a.Done)*(second-a.Second)/(b.Second-a.Second), true
			}
		}
		return 0, false
	}
	for second := 0; ; second++ {
		from, ok := at(float64(second))
		if !ok && second > 0 {
			return rates
		}
		if to, more := at(float64(second + 1)); ok && more {
			rates = append(rates, plotter.XY{X: float64(second) + 0.5, Y: to - from})
		} else if second > 0 {
			return rates
		}
	}
}

// longest draws the longest backlog: how fast it shrank, and a worker's memory.
func longest(result *measure.Result) ([]*plot.Plot, error) {
	var cell measure.BacklogCell
	for _, c := range result.Backlogs {
		if c.Workers == 1 && c.Backlog >= cell.Backlog {
			cell = c
		}
	}
	rates := bySecond(cell.Moments)
	if len(rates) < few {
		return nil, nil
	}
	speed := panel(fmt.Sprintf("A backlog of %s, one worker", count(float64(cell.Backlog))), "seconds", "events a second")
	if err := line(speed, "in the ledger", rates, blue); err != nil {
		return nil, err
	}
	roof(speed, 1.25)
	clock(speed)
	memory := panel("Its memory meanwhile", "seconds", "MiB")
	var points plotter.XYs
	for _, m := range cell.Moments {
		points = append(points, plotter.XY{X: m.Second, Y: m.Worker})
	}
	if err := line(memory, "worker", points, blue); err != nil {
		return nil, err
	}
	if err := bounded(memory, "what it is held to", 0, points[len(points)-1].X, roomy); err != nil {
		return nil, err
	}
	roof(memory, 1.25)
	clock(memory)
	return []*plot.Plot{speed, memory}, nil
}

// growth draws rate and WAL over how much is there already.
func growth(result *measure.Result) ([]*plot.Plot, error) {
	rates, wal := map[string]plotter.XYs{}, map[string]plotter.XYs{}
	var rows []int
	var ticks []plot.Tick
	for _, c := range result.Growth {
		if c.Workers > 1 {
			continue
		}
		if len(rows) == 0 || rows[len(rows)-1] != c.Rows {
			rows = append(rows, c.Rows)
			ticks = append(ticks, plot.Tick{Value: float64(len(rows) - 1), Label: short(c.Rows)})
		}
		x := float64(len(rows) - 1)
		rates[c.IDs] = append(rates[c.IDs], plotter.XY{X: x, Y: c.EventsPerSecond})
		wal[c.IDs] = append(wal[c.IDs], plotter.XY{X: x, Y: c.WAL})
	}
	if len(rows) < few {
		return nil, nil
	}
	speed := panel("One worker on a backlog, after a checkpoint", "events in the ledger already", "events a second")
	written := panel("WAL of Postgres", "events in the ledger already", "bytes an event")
	for _, half := range []struct {
		p      *plot.Plot
		curves map[string]plotter.XYs
	}{{speed, rates}, {written, wal}} {
		if err := line(half.p, "event ids in order", half.curves[measure.Ordered], blue); err != nil {
			return nil, err
		}
		if err := line(half.p, "event ids random", half.curves[measure.Random], orange); err != nil {
			return nil, err
		}
		half.p.X.Min, half.p.X.Max = -0.15, float64(len(rows)-1)+0.15
		half.p.X.Tick.Marker = named(ticks...)
		roof(half.p, 1.4)
	}
	return []*plot.Plot{speed, written}, nil
}

// roof lets the y axis begin at 0 and leaves room for the legend.
func roof(p *plot.Plot, factor float64) {
	p.Y.Tick.Marker = even{p.Y.Max}
	p.Y.Min, p.Y.Max = 0, p.Y.Max*factor
}

// clock lets the x axis be seconds from 0 on.
func clock(p *plot.Plot) {
	p.X.Min, p.X.Max = 0, math.Ceil(p.X.Max)
	p.X.Tick.Marker = even{p.X.Max}
}

// short writes round millions as such.
func short(n int) string {
	if n >= 1_000_000 && n%100_000 == 0 {
		return fmt.Sprintf("%g million", float64(n)/1_000_000)
	}
	return count(float64(n))
}
