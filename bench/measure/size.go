package measure

import "time"

// The sizes: Smoke shows that everything works and measures nothing, Short takes a
// few minutes, and Full about an hour.
var (
	Smoke = Size{
		Rounds: 1, Drains: 1, Senders: []int{1, 32},
		WarmUp: 20 * time.Millisecond, Measure: 300 * time.Millisecond, BodySize: 1024,
		Backlog: 600, Bound: 200 * time.Millisecond, Window: 50,
		Batches: []int{1, 100}, Ledger: 20 * time.Millisecond,
		Contention: smokeContention,
		Open: OpenSize{
			Rates: []float64{200}, Conns: 50, Senders: []int{32},
			WarmUp: 20 * time.Millisecond, Measure: 400 * time.Millisecond, Probe: 300 * time.Millisecond,
			Tries: 1, Mixed: 300, Large: 50, Shared: true, Alone: true,
		},
		Backlogs: BacklogSize{Workers: []int{2}, Backlog: 1000},
		Growth:   GrowthSize{Rows: []int{500}, Backlog: 500, Workers: []int{2}, Shared: 500, Bound: 5 * time.Second},
		Idle:     IdleSize{Settle: 100 * time.Millisecond, Measure: 300 * time.Millisecond},
	}
	Short = Size{
		Rounds: 2, Drains: 1, Senders: []int{1, 256, 1000},
		WarmUp: 300 * time.Millisecond, Measure: 1500 * time.Millisecond, BodySize: 1024,
		Backlog: 24_000, Bound: 3 * time.Second, Window: 5000,
		Batches: []int{1, 100, 500}, Ledger: 500 * time.Millisecond, Judge: true,
		Contention: shortContention,
		Open: OpenSize{
			Rates: []float64{500, 2000, 5000, 8000}, Conns: 1000, Senders: []int{1000},
			WarmUp: 300 * time.Millisecond, Measure: 2500 * time.Millisecond, Probe: 1500 * time.Millisecond,
			Tries: 4, Mixed: 2000, Large: 200, Shared: true,
		},
		Backlogs: BacklogSize{Workers: []int{1, 4}, Backlog: 30_000},
		Growth:   GrowthSize{Rows: []int{0, 100_000}, Backlog: 20_000, Bound: 8 * time.Second},
		Idle:     IdleSize{Settle: 2 * time.Second, Measure: 3 * time.Second},
	}
	Full = Size{
		Rounds: 3, Drains: 2, Senders: []int{1, 64, 256, 1000},
		WarmUp: 500 * time.Millisecond, Measure: 3 * time.Second, BodySize: 1024,
		Backlog: 80_000, Bound: 8 * time.Second, Window: 5000,
		Batches: []int{1, 10, 100, 500, 2000}, Ledger: time.Second, Judge: true,
		Contention: fullContention,
		Open: OpenSize{
			Rates: []float64{500, 2000, 5000, 8000}, Conns: 1000, Senders: []int{256, 1000},
			WarmUp: 2 * time.Second, Measure: 15 * time.Second, Probe: 5 * time.Second,
			Tries: 6, Mixed: 4000, Large: 300, Alone: true,
		},
		Backlogs: BacklogSize{Workers: []int{1, 2, 4, 8}, Backlog: 150_000, Long: 500_000},
		Growth: GrowthSize{
			Rows: []int{0, 1_000_000, 10_000_000}, Backlog: 1_000_000, Workers: []int{2, 4, 8}, Shared: 150_000, Bound: 50 * time.Second,
		},
		Idle: IdleSize{Settle: 5 * time.Second, Measure: 20 * time.Second},
	}
)
