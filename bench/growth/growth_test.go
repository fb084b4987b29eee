package growth

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plain is a calibration with round figures, whose predictions can be worked out.
func plain() *Calibration {
	c := &Calibration{}
	for name, value := range map[*Parameter]float64{
		&c.Receiver: 50, &c.ReceiverBefore: 0.5, &c.ReceiverBatch: 500, &c.ReceiverSingle: 50,
		&c.NATSMessage: 20, &c.NATSBatch: 1500, &c.NATSSingle: 100, &c.NATSDeliver: 10, &c.NATSDeliverTurn: 0.5,
		&c.BatchSyncs: 4, &c.StoredBytes: 2000, &c.Load: 20,
		&c.Worker: 40, &c.WorkerBatch: 400, &c.WorkerBefore: 0.5, &c.WorkerBetween: 0.1, &c.Redis: 5,
		&c.Postgres: 40, &c.PostgresBatch: 1000, &c.PostgresReserve: 0.5, &c.PostgresTransfers: 0.2, &c.PostgresBalances: 0.1, &c.PostgresCommit: 0.05,
		&c.WALBytes: 1000, &c.Together: 1.2, &c.Sync: 500, &c.DiskRate: 1e9, &c.Hop: 10, &c.Network: 100,
	} {
		name.Value, name.Source = value, "made up"
	}
	return c
}

func TestTheSameSeedPredictsTheSame(t *testing.T) {
	t.Parallel()
	s := Scenario{Rate: 5000, Receivers: 2, Workers: 2, Cores: 4, Customers: 1000, WarmUp: 0.2, Seconds: 0.5, Seed: 3}
	require.Equal(t, Simulate(plain(), s), Simulate(plain(), s))
	other := s
	other.Seed = 4
	require.NotEqual(t, Simulate(plain(), s), Simulate(plain(), other))
}

// One sender: its answer takes the sum of every step.
func TestOneSender(t *testing.T) {
	t.Parallel()
	got := Simulate(plain(), Scenario{Senders: 1, Receivers: 1, Cores: 8, Generator: true, WarmUp: 0.1, Seconds: 1})
	const hops = 10
	answer := (50 + 50 + 100 + 500 + 2000.0/1e9*1e6 + 4*hops) / 1e6
	require.InDelta(t, answer, got.AckP50, 1e-6)
	require.InDelta(t, answer, got.AckP99, 1e-6)
	require.InEpsilon(t, 1/(answer+20e-6), got.Acked, 0.01)
	require.InDelta(t, 1, got.AckBatch, 1e-9)
}

// Little's law: senders are as many as their answers a second times how long each took.
func TestSendersWaitForTheirAnswers(t *testing.T) {
	t.Parallel()
	for _, senders := range []int{64, 1000} {
		got := Simulate(plain(), Scenario{Senders: senders, Receivers: 1, Cores: 16, Apart: true, WarmUp: 0.5, Seconds: 3})
		require.InEpsilon(t, float64(senders), got.Acked*(got.AckP50+100e-6), 0.15) // the median is not the mean
		require.InEpsilon(t, float64(senders)/2, got.AckBatch, 0.3)                 // while half commits, half gathers
	}
}

func TestWhatArrivesIsAnsweredAndPosted(t *testing.T) {
	t.Parallel()
	got := Simulate(plain(), Scenario{Rate: 5000, Receivers: 1, Workers: 1, Cores: 4, Apart: true, WarmUp: 1, Seconds: 4})
	require.InEpsilon(t, 5000, got.Acked, 0.03)
	require.InEpsilon(t, 5000, got.Done, 0.03)
	require.InEpsilon(t, 5000, got.Complete, 0.03)
	require.Zero(t, got.Refused)
	require.Greater(t, got.LagP50, got.AckP50)
	require.InEpsilon(t, 5000*got.CPU["receiver"]/1e6/4, got.Busy["receiver cores"], 0.02)
	require.InDelta(t, 50+500/got.AckBatch, got.CPU["receiver"], 1)
}

func TestTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	s := Scenario{Rate: 60_000, Receivers: 1, Cores: 8, Apart: true, WarmUp: 1, Seconds: 1}
	got := Simulate(plain(), s)
	require.Positive(t, got.Refused)
	require.InEpsilon(t, 60_000, got.Acked+got.Refused, 0.05)
	require.InDelta(t, 1, got.Busy[committers], 0.01)
}

// A drain by one worker is its two loops, one batch after the other each.
func TestADrainIsBoundByItsLoops(t *testing.T) {
	t.Parallel()
	c := plain()
	got := Simulate(c, drain(Scenario{Workers: 1, Apart: true, Cores: 8}))
	loop := (500*(40+40+5) + 400 + 1000 + 500 + 500 + 8*100) / 1e6 // Worker, Postgres, Redis, batches, flush, hops
	require.InEpsilon(t, 2*500/loop, got.Done, 0.05)
	require.InDelta(t, 500, got.DoneBatch, 1)
}

// However many workers: a batch holds the shared account from behind its balances to
// its flush.
func TestTheSharedAccountBoundsWorkers(t *testing.T) {
	t.Parallel()
	c := plain()
	c.NATSDeliver.Value, c.Redis.Value = 1, 0.1 // so that nothing else does
	many := Scenario{Workers: 32, Apart: true, Cores: 4, DataCores: 64}
	c.PostgresCommit.Value = 0.15
	held := ((500*40+1000)*0.15 + 500 + 500) / 1e6
	got := Simulate(c, drain(many))
	require.InEpsilon(t, 500/held, got.Done, 0.05)
	require.Equal(t, "shared account", got.Limit())
	many.NoShared = true
	require.Greater(t, Simulate(c, drain(many)).Done, 1.1*got.Done)
}

// Few customers: every two batches have one in common, and go one by one from
// the customers' locks to the flush.
func TestFewCustomersBoundWorkers(t *testing.T) {
	t.Parallel()
	few := Scenario{Workers: 8, Apart: true, Cores: 4, DataCores: 64, Customers: 100}
	held := ((500*40+1000)*0.5 + (500*40+400)*0.1 + 500 + 500 + 2*100) / 1e6
	got := Simulate(plain(), drain(few))
	require.InEpsilon(t, 500/held, got.Done, 0.05)
	few.Customers = 100_000_000
	require.Greater(t, Simulate(plain(), drain(few)).Done, 2*got.Done)
}

// On one machine the sum of all CPU times is what bounds it.
func TestCoresBoundAMachine(t *testing.T) {
	t.Parallel()
	got := Simulate(plain(), drain(Scenario{Workers: 2, Cores: 1}))
	require.InEpsilon(t, 1e6/(40+10+5+40+1400.0/500), got.Done, 0.03)
	require.Equal(t, "machine cores", got.Limit())
	require.InDelta(t, 97.8, sum(got.CPU), 1)
}

// Receivers and workers on one machine take more CPU time than each alone.
func TestTogetherCosts(t *testing.T) {
	t.Parallel()
	s := Scenario{Rate: 2000, Receivers: 1, Workers: 1, Cores: 4, WarmUp: 0.5, Seconds: 2}
	slow, c := Simulate(plain(), s), plain()
	c.Together.Value = 1
	fast := Simulate(c, s)
	require.InDelta(t, 1.2*5, slow.CPU["redis"], 0.1)
	require.InDelta(t, 5, fast.CPU["redis"], 0.1)
}

// Three replicas cost an idle sender one round trip.
func TestReplicas(t *testing.T) {
	t.Parallel()
	s := Scenario{Senders: 1, Receivers: 1, Cores: 8, Apart: true, WarmUp: 0.1, Seconds: 1}
	one := Simulate(plain(), s)
	s.Replicas = 3
	three := Simulate(plain(), s)
	require.InDelta(t, 2*100e-6, three.AckP50-one.AckP50, 5e-6)
}

// The simulation never passes what can be worked out.
func TestNoRateIsAboveItsCeiling(t *testing.T) {
	t.Parallel()
	c := plain()
	for _, s := range []Scenario{
		{Receivers: 2, Workers: 4, Apart: true, Cores: 4, DataCores: 16, Replicas: 3, Customers: million},
		{Receivers: 1, Workers: 16, Apart: true, Cores: 2, Customers: million},
		{Receivers: 1, Workers: 16, Apart: true, Cores: 16, NoShared: true},
	} {
		system := System{Scenario: s}.measure(c)
		rate, _ := system.Highest()
		for _, ceiling := range Ceilings(c, s) {
			if !ceiling.If {
				require.Less(t, rate, 1.03*ceiling.Rate, "%s in %+v", ceiling.Part, s)
			}
		}
	}
}

// A wrong parameter shows: without this, a check that agrees would prove nothing.
func TestAWrongParameterMovesThePrediction(t *testing.T) {
	t.Parallel()
	workers := drain(Scenario{Workers: 1, Apart: true, Cores: 4})
	senders := Scenario{Senders: 256, Receivers: 1, Cores: 2, Generator: true, WarmUp: 0.3, Seconds: 1}
	for _, row := range []struct {
		change   func(*Calibration) *Parameter
		scenario Scenario
		rate     func(Result) float64
	}{
		{func(c *Calibration) *Parameter { return &c.Postgres }, workers, func(r Result) float64 { return r.Done }},
		{func(c *Calibration) *Parameter { return &c.Worker }, workers, func(r Result) float64 { return r.Done }},
		{func(c *Calibration) *Parameter { return &c.NATSMessage }, senders, func(r Result) float64 { return r.Acked }},
		{func(c *Calibration) *Parameter { return &c.NATSBatch }, senders, func(r Result) float64 { return r.Acked }},
		{func(c *Calibration) *Parameter { return &c.Sync }, senders, func(r Result) float64 { return r.Acked }},
	} {
		wrong := plain()
		row.change(wrong).Value *= 4
		check := Check{Measured: row.rate(Simulate(plain(), row.scenario)), Predicted: row.rate(Simulate(wrong, row.scenario))}
		require.False(t, check.OK(), "%+v", check)
	}
}

func TestCalibrateTellsBatchesFromMessages(t *testing.T) {
	t.Parallel()
	truth := plain()
	cpu := func(batch float64) Cost {
		return Cost{CPU: map[string]float64{
			"receiver": 50 + 500/batch, "nats": 20 + 1500/batch, "load": 20,
		}}
	}
	m := &Measured{
		Started: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		Receiver: []ReceiverCell{
			{Publishing: groupCommit, Senders: 64, Cost: cpu(32)},
			{Publishing: groupCommit, Senders: 256, Cost: cpu(128)},
			{Publishing: oneByOne, Senders: 256, Cost: Cost{CPU: map[string]float64{"receiver": 100, "nats": 100}}},
		},
		Backlogs: []BacklogCell{{Workers: 1, WAL: 1000, Cost: Cost{CPU: map[string]float64{"worker": 40.8, "postgres": 42, "redis": 5, "nats": 10}}}},
		Ledger: []LedgerCell{
			{Accounts: spread, Batch: 10, Cost: Cost{CPU: map[string]float64{"postgres": 140}}},
			{Accounts: spread, Batch: 500, Cost: Cost{CPU: map[string]float64{"postgres": 42}}},
		},
	}
	m.Machine.Sync = 500
	got := plain()
	for _, p := range []*Parameter{&got.Receiver, &got.ReceiverBatch, &got.NATSMessage, &got.NATSBatch, &got.NATSSingle, &got.Worker, &got.Postgres, &got.PostgresBatch, &got.Sync} {
		p.Value = 1
	}
	require.NoError(t, got.Calibrate(m))
	want := map[string]float64{}
	for name, p := range truth.all() {
		want[name] = p.Value
	}
	for name, p := range got.all() {
		require.InDelta(t, want[name], p.Value, 1e-6, name)
	}
	require.Contains(t, got.Receiver.Source, "2026-01-02")

	m.Backlogs = nil
	require.ErrorContains(t, got.Calibrate(m), "drain by one worker")
	m.Receiver = m.Receiver[1:]
	require.ErrorContains(t, got.Calibrate(m), "64")
}

func TestWhatIsCompared(t *testing.T) {
	t.Parallel()
	cell := OpenCell{Name: "closed loop", Senders: 256, BodySize: 1024, AcksPerSecond: 1, EventsPerSecond: 1, Cost: Cost{CPU: map[string]float64{"all": 300}}}
	m := &Measured{Open: []OpenCell{
		cell,
		{Name: "too much", Offered: 5000, BodySize: 1024, EventsPerSecond: 4000},
		{Name: "resends", BodySize: 1024, Resends: 0.5, EventsPerSecond: 1},
		{Name: "large", BodySize: 65536, EventsPerSecond: 1},
		{Name: "no worker", Alone: true, BodySize: 1024},
	}}
	m.Machine.Cores = 2
	checks := Compare(plain(), m)
	require.Len(t, checks, 5)
	for _, check := range checks {
		require.Equal(t, "together, closed loop", check.Where)
	}

	// Together is what makes the CPU time of everything at once right.
	c := plain()
	c.meet(m, "measured")
	require.InEpsilon(t, 300, sum(Simulate(c, m.together(cell)).CPU), 0.05)
}

func TestNoParameterWithoutASource(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "calibration.json")
	c := plain()
	c.Hop.Source = ""
	require.NoError(t, c.Write(path))
	_, err := ReadCalibration(path)
	require.ErrorContains(t, err, "hop_us has no source")
	require.NoError(t, os.WriteFile(path, []byte(`{"hop": {"value": 1}}`), 0o600))
	_, err = ReadCalibration(path)
	require.ErrorContains(t, err, "unknown field")
}

// What is in the repository can be read and predicts something, though the
// figures are not held to: they are a machine's.
func TestTheReportHoldsEverything(t *testing.T) {
	t.Parallel()
	c, err := ReadCalibration("calibration.json")
	require.NoError(t, err)
	m, err := ReadMeasured("measured.json")
	require.NoError(t, err)
	require.NotEmpty(t, Compare(c, m))
	cell := System{Scenario: Scenario{Receivers: 1, Workers: 1, Apart: true, Cores: 4, Customers: million}}.measure(c)
	r := &Report{
		Calibration: c, Measured: m, Cell: cell, Steps: []System{cell}, Ceilings: Ceilings(c, cell.Scenario), Needs: Needs(c, cell, 10_000),
		Checks:        []Check{{"a load", "acks/s", 1000, 1500, 0.1, true}, {"another", "p99 ms", 10, 12, 0, false}},
		Sensitivities: []Sensitivity{{"hop_us", c.Hop.Source, -0.1, 0}},
	}
	path := filepath.Join(t.TempDir(), "growth.md")
	require.NoError(t, os.WriteFile(path, []byte("head\n"+begin+"old"+end+"\ntail\n"), 0o600))
	require.NoError(t, r.Update(path, "growth"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), "head\n") && strings.HasSuffix(string(text), end+"\ntail\n"))
	for _, want := range []string{
		"1 of 2 predictions", "| a load * | acks/s | 1,000 | 1,500 | +50 % | **off** | 0.1 |", "| another | p99 ms | 10 | 12 | +20 % | right | 0.0 |",
		"10,000 events/s", "| `hop_us` | 30 | " + c.Hop.Source + " | -10 % | – |", "growth/check.png",
	} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "old")
	require.NoError(t, os.WriteFile(path, []byte("no marks"), 0o600))
	require.ErrorContains(t, r.Update(path, "growth"), begin)
}

func TestPlots(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, plotChecks(nil, []Check{{"a load", "acks/s", 1000, 1500, 0, false}, {"a load", "p99 ms", 1, 2, 0, false}}, folder))
	info, err := os.Stat(filepath.Join(folder, "check.png"))
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(5000))
}

func TestRough(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.123: "0.12", 9.96: "10", 38_517: "39,000", 1_234_567: "1,200,000"} {
		require.Equal(t, want, rough(v))
	}
	require.Zero(t, quantile(nil, 0.5))
	require.InDelta(t, 3, quantile([]float64{3, 1, 2}, 0.99), math.SmallestNonzeroFloat64)
}
