package growth

import (
	"errors"
	"fmt"
)

// What the receiver's parameters are from: batches that differ in size, so that
// what goes with a batch can be told from what goes with a message. In a closed
// loop half of the senders wait while the other half commits.
const small, large = 64, 256

// full is how many messages of a batch there are in a drain by one worker.
const full = workerBatch

// Calibrate takes CPU times, bytes and the time of a sync from what was measured.
// Rates and latencies, which the model predicts, it leaves alone; so are the other
// parameters left, which the benchmark does not tell.
func (c *Calibration) Calibrate(m *Measured) error {
	origin := "make bench, " + m.Started.Format("2006-01-02")
	if m.Machine.Sync > 0 {
		c.Sync = Parameter{m.Machine.Sync, origin + ": median of 200 appends of 4 KiB, each synced"}
	}
	c.bytes(m, origin)
	c.batches(m, origin)
	if err := errors.Join(c.receiver(m, origin), c.worker(m, origin)); err != nil {
		return err
	}
	c.meet(m, origin)
	return nil
}

// meet compares the CPU time of everything at once with what the parts would have
// used, in the first closed loop of large batches.
func (c *Calibration) meet(m *Measured, origin string) {
	for _, cell := range m.Open {
		if !cell.comparable() || cell.Offered > 0 || cell.Senders < large {
			continue
		}
		alone := *c
		alone.Together.Value = 1
		got := Simulate(&alone, m.together(cell))
		c.Together = Parameter{sum(cell.Cost.CPU) / sum(got.CPU), origin + ": CPU of everything together, " + cell.Name + ", by that of the parts"}
		return
	}
}

// bytes reads what the broker writes in a closed loop of full batches.
func (c *Calibration) bytes(m *Measured, origin string) {
	for _, cell := range m.Open {
		if cell.plain() && cell.Offered == 0 && cell.NATS > 0 && cell.Senders >= large {
			c.StoredBytes = Parameter{cell.NATS, origin + ": bytes written by NATS, " + cell.Name}
		}
	}
}

// batches tells what Postgres needs for a batch from batches of two sizes.
func (c *Calibration) batches(m *Measured, origin string) {
	const few = 10
	cpu := map[int]float64{}
	for _, cell := range m.Ledger {
		if cell.Accounts == spread {
			cpu[cell.Batch] = cell.Cost.CPU["postgres"]
		}
	}
	if cpu[few] > 0 && cpu[full] > 0 {
		c.PostgresBatch = Parameter{
			max((cpu[few]-cpu[full])/(1.0/few-1.0/full), 0),
			fmt.Sprintf("%s: CPU of the ledger alone in batches of %d and of %d", origin, few, full),
		}
	}
}

func (c *Calibration) receiver(m *Measured, origin string) error {
	cells := map[string]Cost{}
	for _, cell := range m.Receiver {
		cells[fmt.Sprint(cell.Publishing, cell.Senders)] = cell.Cost
	}
	low, ok1 := cells[fmt.Sprint(groupCommit, small)]
	high, ok2 := cells[fmt.Sprint(groupCommit, large)]
	alone, ok3 := cells[fmt.Sprint(oneByOne, large)]
	if !ok1 || !ok2 || !ok3 {
		return fmt.Errorf("calibrate receiver: group commit with %d and %d senders and one by one with %d are needed", small, large, large)
	}
	from := fmt.Sprintf("%s: CPU at %d and %d senders, as so much a message and so much a batch of half of them", origin, small, large)
	split := func(name string) (message, batch Parameter) {
		a, b := low.CPU[name], high.CPU[name]
		perBatch := max((a-b)/(2.0/small-2.0/large), 0)
		return Parameter{b - perBatch*2/large, from}, Parameter{perBatch, from}
	}
	c.Receiver, c.ReceiverBatch = split("receiver")
	c.NATSMessage, c.NATSBatch = split("nats")
	c.Load = Parameter{high.CPU["load"], fmt.Sprintf("%s: CPU at %d senders", origin, large)}
	single := fmt.Sprintf("%s: CPU at %d senders without group commit", origin, large)
	c.NATSSingle = Parameter{alone.CPU["nats"], single}
	c.ReceiverSingle = Parameter{max(alone.CPU["receiver"]-c.Receiver.Value, 0), single + ", less receiver_us"}
	return nil
}

func (c *Calibration) worker(m *Measured, origin string) error {
	for _, cell := range m.Backlogs {
		if !cell.alone() {
			continue
		}
		from := origin + ": CPU of one worker's drain of a backlog"
		c.NATSDeliver = Parameter{cell.Cost.CPU["nats"], from}
		c.Redis = Parameter{cell.Cost.CPU["redis"], from}
		c.Worker = Parameter{cell.Cost.CPU["worker"] - c.WorkerBatch.Value/full, from + ", less worker_batch_us"}
		c.Postgres = Parameter{cell.Cost.CPU["postgres"] - c.PostgresBatch.Value/full, from + ", less postgres_batch_us"}
		if cell.WAL > 0 {
			c.WALBytes = Parameter{cell.WAL, origin + ": WAL of one worker's drain"}
		}
		return nil
	}
	return errors.New("calibrate worker: a drain by one worker is needed")
}
