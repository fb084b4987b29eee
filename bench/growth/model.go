// Package growth predicts how fast the pipeline is on machines that nobody here
// has: a discrete-event simulation of receivers, broker, workers and Postgres,
// with times of each step that were measured.
//
//	c, err := growth.ReadCalibration("calibration.json")
//	result := growth.Simulate(c, growth.Scenario{Senders: 256, Receivers: 1, Cores: 2, Seconds: 3})
//
// Given the same calibration, scenario and seed the prediction is the same.
package growth

import (
	"math"
	"math/rand/v2"

	"github.com/onceledger/onceledger/bench/growth/des"
)

// What the programs hold to; internal/receiver and internal/worker have them.
const (
	batchFrom       = 12   // below, messages are published one by one; a receiver learns it
	batchMost       = 1000 // of an atomic batch
	inflightSingles = 4
	queueMost       = 4096 // events that wait for a receiver's committer; more are refused
	loops           = 2    // of a worker
	workerBatch     = 500
	linger          = 0.010 // seconds
	prefetch        = loops * workerBatch
	deliveries      = 100 // are simulated as one: no program knows this number
)

// model is one simulation under way.
type model struct {
	*Calibration
	Scenario
	clock *des.Clock
	rand  *rand.Rand

	load             *des.Program // the generator, where it is on the same machine
	receivers        []*receiver
	broker           *broker
	workers          []*worker
	database         *database
	machines         map[string][]*des.Machine
	programs         map[string][]*des.Program
	hop              float64
	acks, lags       []float64
	acked, done      int
	refused          int
	commits, batches int
	stored           int     // events that were answered, the warm-up's too
	last             float64 // when the latest of them was in the ledger
	stopped          bool    // nothing is sent any more
	looping          float64 // seconds of all loops with a batch
	drained          *usage  // at the end of the backlog, which is
	ended            float64 // this time
}

// Simulate predicts what becomes of a scenario.
func Simulate(c *Calibration, s Scenario) Result {
	if !s.Apart && s.Receivers > 0 && s.Workers > 0 {
		c = c.together()
	}
	m := &model{
		Calibration: c, Scenario: s, clock: &des.Clock{}, rand: rand.New(rand.NewPCG(s.Seed, 7)), //nolint:gosec // it must be repeatable
		machines: map[string][]*des.Machine{}, programs: map[string][]*des.Program{}, hop: c.Hop.us(),
	}
	if s.Apart {
		m.hop = c.Network.us()
	}
	m.build()
	m.start()
	m.clock.Run(s.WarmUp)
	before := m.usage()
	m.acks, m.lags, m.acked, m.done, m.refused, m.commits, m.batches = nil, nil, 0, 0, 0, 0, 0
	m.clock.Run(s.WarmUp + s.Seconds)
	r := m.result(before)
	if s.Backlog == 0 && s.Workers > 0 {
		m.stopped = true
		m.clock.Run(math.Inf(1)) // the workers finish
		r.Complete = float64(m.stored) / m.last
	}
	return r
}

func (m *model) build() {
	var all *des.Machine
	machine := func(name string, cores float64) *des.Machine {
		if !m.Apart {
			if all == nil {
				all = des.NewMachine(m.clock, m.Cores)
				m.machines["machine"] = []*des.Machine{all}
			}
			return all
		}
		own := des.NewMachine(m.clock, cores)
		m.machines[name] = append(m.machines[name], own)
		return own
	}
	data := m.Cores
	if m.DataCores > 0 {
		data = m.DataCores
	}
	threads := m.Threads
	if threads == 0 {
		threads = int(math.Ceil(m.Cores))
	}
	if m.Generator {
		m.load = m.program("load", machine("load", m.Cores), threads)
	}
	for range m.Receivers {
		m.receivers = append(m.receivers, &receiver{model: m, program: m.program("receiver", machine("receiver", m.Cores), threads)})
	}
	nats := machine("nats", data)
	disk := m.disk()
	m.broker = &broker{
		model: m, disk: disk, log: des.NewLog(disk), write: des.NewLock(m.clock),
		writer: m.program("nats", nats, 1), sender: m.program("nats", nats, 1), others: m.program("nats", nats, threads),
	}
	wal := disk
	if m.Apart {
		wal = m.disk()
	}
	redis := m.program("redis", machine("redis", m.Cores), 1)
	m.database = &database{
		model: m, machine: machine("postgres", data), log: des.NewLog(wal), disk: wal,
		customers: des.NewRows(m.rand.Float64), shared: des.NewLock(m.clock), redis: redis,
	}
	for range m.Workers {
		w := &worker{model: m, program: m.program("worker", machine("worker", m.Cores), threads)}
		m.workers = append(m.workers, w)
		for range loops {
			backend := m.program("postgres", m.database.machine, 1)
			w.gathering = append(w.gathering, &loop{worker: w, backend: backend})
		}
	}
}

func (m *model) program(name string, on *des.Machine, threads int) *des.Program {
	p := des.NewProgram(on, threads)
	m.programs[name] = append(m.programs[name], p)
	return p
}

// disk is one whose syncs take a time that varies.
func (m *model) disk() *des.Disk {
	return des.NewDisk(m.clock, m.syncTime)
}

func (m *model) syncTime(bytes float64) float64 {
	return m.Sync.us()*math.Exp(m.SyncSigma.Value*m.rand.NormFloat64()) + bytes/m.DiskRate.Value
}

// start lets the load begin.
func (m *model) start() {
	switch {
	case m.Senders > 0:
		for i := range m.Senders {
			m.clock.At(0, func() { m.send(m.receivers[i%m.Receivers]) })
		}
	case m.Rate > 0:
		m.clock.At(0, m.arrive)
	default:
		m.clock.At(0, func() { m.broker.store(make([]float64, m.Backlog)) })
	}
}

// send is a sender of a closed loop.
func (m *model) send(to *receiver) {
	if m.stopped {
		return
	}
	m.generate(func() {
		began := m.clock.Now()
		m.clock.After(m.hop, func() {
			to.take(began, func(bool) { m.clock.After(m.hop, func() { m.send(to) }) })
		})
	})
}

func (m *model) generate(f func()) {
	if m.load == nil {
		f()
		return
	}
	m.load.Do(m.Load.us(), f)
}

// arrive is the next of events that come at random times.
func (m *model) arrive() {
	if m.stopped {
		return
	}
	began := m.clock.Now() // when it is due, however busy the generator is
	m.generate(func() {
		m.clock.After(m.hop, func() {
			m.receivers[m.rand.IntN(m.Receivers)].take(began, func(bool) {})
		})
	})
	m.clock.After(m.rand.ExpFloat64()/m.Rate, m.arrive)
}

// answered counts an answer.
func (m *model) answered(began float64) {
	m.acked++
	m.stored++
	m.acks = append(m.acks, m.clock.Now()+m.hop-began)
}

// posted counts events that are in the ledger.
func (m *model) posted(batch []float64) {
	m.last = m.clock.Now()
	m.batches++
	m.done += len(batch)
	for _, began := range batch {
		m.lags = append(m.lags, m.clock.Now()-began)
	}
	if m.done == m.Backlog {
		used := m.usage()
		m.drained, m.ended = &used, m.clock.Now()
	}
}
