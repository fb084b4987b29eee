package growth

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Ceiling is the highest rate that one part of a cell allows by itself, whatever
// the others do: the closed form that the simulation must not pass.
type Ceiling struct {
	Part, How string
	Rate      float64
	If        bool // it holds in another case than the cell's
}

// fewCustomers is the case in which every two batches have one in common.
const fewCustomers = "customers' accounts, if all batches have one in common"

// Ceilings are those of a cell with machines of their own, the lowest first.
func Ceilings(c *Calibration, s Scenario) []Ceiling {
	// The mean of a lognormal time is above its median.
	sync := c.Sync.us() * math.Exp(c.SyncSigma.Value*c.SyncSigma.Value/2)
	data := cmp.Or(s.DataCores, s.Cores)
	syncs, bytes := c.BatchSyncs.Value, batchMost*c.StoredBytes.Value
	if s.Replicas == 3 {
		syncs, bytes = syncs-1, bytes/2 // the log is written meanwhile
	}
	batch := c.NATSBatch.us() + batchMost*c.NATSMessage.us() + syncs*sync + bytes/c.DiskRate.Value
	postgres := workerBatch*c.Postgres.us() + c.PostgresBatch.us()
	worker := workerBatch*c.Worker.us() + c.WorkerBatch.us()
	turn := c.NATSDeliver.us() * c.NATSDeliverTurn.Value
	flush := sync + workerBatch*c.WALBytes.Value/c.DiskRate.Value
	held := postgres*c.PostgresCommit.Value + flush
	customers := postgres*(1-c.PostgresReserve.Value) + worker*c.WorkerBetween.Value + 2*c.Network.us() + flush
	loop := postgres + worker*(c.WorkerBefore.Value+c.WorkerBetween.Value) + workerBatch*c.Redis.us() + flush + 6*c.Network.us()
	all := []Ceiling{
		{committers, fmt.Sprintf("%s messages in %.0f ms, one batch after the other", count(batchMost), 1e3*batch), batchMost / batch, false},
		{"stream's consumer", fmt.Sprintf("%.1f µs each in one goroutine", 1e6*turn), 1 / turn, false},
		{"receivers' cores", fmt.Sprintf("%d × %g cores, %.0f µs each", s.Receivers, s.Cores, c.Receiver.Value), float64(s.Receivers) * s.Cores / c.Receiver.us(), false},
		{"workers' loops", fmt.Sprintf("%d × %d of %d events in %.0f ms", s.Workers, loops, workerBatch, 1e3*loop), float64(s.Workers*loops) * workerBatch / loop, false},
		{"Redis", fmt.Sprintf("%.1f µs each in one thread", c.Redis.Value), 1 / c.Redis.us(), false},
		{"Postgres' cores", fmt.Sprintf("%g cores, %.0f µs each", data, 1e6*postgres/workerBatch), data * workerBatch / postgres, false},
		{"Postgres' WAL", fmt.Sprintf("%s bytes each, %s MB/s", count(c.WALBytes.Value), count(c.DiskRate.Value/1e6)), c.DiskRate.Value / c.WALBytes.Value, false},
		{"shared account", fmt.Sprintf("locked for %.1f ms of each batch of %d", 1e3*held, workerBatch), workerBatch / held, s.NoShared},
		{fewCustomers, fmt.Sprintf("locked for %.0f ms", 1e3*customers), workerBatch / customers, true},
	}
	slices.SortStableFunc(all, func(a, b Ceiling) int { return cmp.Compare(a.Rate, b.Rate) })
	return all
}
