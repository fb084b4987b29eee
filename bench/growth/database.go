package growth

import (
	"math"

	"github.com/onceledger/onceledger/bench/growth/des"
)

// database is one Postgres, and Redis beside it.
type database struct {
	*model
	machine   *des.Machine
	log       *des.Log
	disk      *des.Disk
	customers *des.Rows // accounts with a limit, locked in the first round trip
	shared    *des.Lock // the account that is in every event, changed last
	redis     *des.Program
}

// transact is a batch of n events in one transaction of two round trips.
//
//	events, operations ─▶ customers' locks ─▶ (decide) ─▶ transfers ─▶ balances ─▶ commit, flush
//	customers             └──────────────────────── held ──────────────────────────────────────┘
//	shared account                                                               └─── held ────┘
//
// Accounts that are locked already are changed first, the shared one behind them.
func (d *database) transact(l *loop, n float64, decide func(done func()), done func()) {
	work := n*d.Postgres.us() + d.PostgresBatch.us()
	reserve, transfers, balances, commit := d.PostgresReserve.Value, d.PostgresTransfers.Value, d.PostgresBalances.Value, d.PostgresCommit.Value
	early := transfers + balances
	var customers *des.Claim
	end := func() {
		if !d.NoShared {
			d.shared.Release()
		}
		d.customers.Release(customers)
		d.clock.After(d.hop, done)
	}
	last := func() {
		l.backend.Do(work*(transfers+balances+commit-early), func() { d.log.Flush(n*d.WALBytes.Value, end) })
	}
	second := func() {
		l.backend.Do(work*early, func() {
			if d.NoShared {
				last()
				return
			}
			d.shared.Acquire(last)
		})
	}
	first := func() {
		customers = d.customers.Acquire(d.common(n), func() {
			l.backend.Do(work*(1-reserve-transfers-balances-commit), func() {
				d.clock.After(d.hop, func() { decide(func() { d.clock.After(d.hop, second) }) })
			})
		})
	}
	d.clock.After(d.hop, func() { l.backend.Do(work*reserve, first) })
}

// common is how likely two batches of n events of random customers share one.
func (d *database) common(n float64) float64 {
	if d.Customers == 0 {
		return 0
	}
	return 1 - math.Exp(-n*n/float64(d.Customers))
}
