package measure

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/onceledger/onceledger/bench/load"
)

const (
	// bearable is the p99 of an answer, in milliseconds, up to which a rate holds.
	bearable = 100
	// share of the highest rate is what one plans with.
	share = 0.7
	// span is how far below the rate of a closed loop the search for the highest
	// open one begins.
	span = 6
	// largeBody is that of a large event in bytes.
	largeBody = 64 << 10
	// stormRate and conflictRate are those of resends and of conflicts.
	stormRate, conflictRate = 0.5, 0.05
)

// OpenSize is how much of PartOpen is measured.
type OpenSize struct {
	// Rates are the fixed ones, in deliveries a second, Conns how many connections
	// the open loops have.
	Rates []float64
	Conns int
	// Senders are those of the closed loops.
	Senders []int
	// WarmUp goes before each Measure, Probe is what one try of a search takes.
	WarmUp, Measure, Probe time.Duration
	// Tries is how many a search has.
	Tries int
	// Mixed is the rate at which resends and conflicts are sent, Large that of bodies
	// of 64 KiB.
	Mixed, Large float64
	// Shared lets the cells have the same programs and database, one after the other.
	Shared bool
	// Alone adds the highest rate of a receiver without a worker.
	Alone bool
}

// Quantile is one point of a distribution.
type Quantile struct {
	Percentile float64 `json:"percentile"`
	MS         float64 `json:"ms"`
}

// OpenCell is the whole path under one load: a receiver, and a worker unless Alone.
type OpenCell struct {
	Name  string `json:"name"`
	Alone bool   `json:"alone,omitempty"`
	// Offered is how many deliveries were due a second; 0: a closed loop, in which
	// Senders wait for their answers. In an open loop there are as many connections.
	Offered   float64 `json:"offered_per_second"`
	Senders   int     `json:"senders"`
	BodySize  int     `json:"body_bytes"`
	Resends   float64 `json:"resends"`
	Conflicts float64 `json:"conflicts"`
	// AcksPerSecond counts the 2xx of a closed loop within the measured time; of an open
	// one all of them, from the first delivery to the last answer, so that it is less
	// than what was due where that was too much. The quantiles are of those that were
	// due in the measured time, in milliseconds from when they were due.
	AcksPerSecond float64    `json:"acks_per_second"`
	P50           float64    `json:"p50_ms"`
	P99           float64    `json:"p99_ms"`
	P999          float64    `json:"p99_9_ms"`
	Quantiles     []Quantile `json:"quantiles"`
	// EventsPerSecond are distinct events from the first request until the ledger
	// had the last of them, Lag the seconds from the last answer to that.
	EventsPerSecond float64 `json:"events_per_second,omitempty"`
	Lag             float64 `json:"ledger_lag_seconds"`
	// Accepted deliveries were of Events distinct events and made Stored messages;
	// Letters were parked, Failed got another answer or none, Unsent were due and had
	// found no connection 5 s after the end.
	Accepted int `json:"accepted"`
	Events   int `json:"events"`
	Stored   int `json:"stored"`
	Letters  int `json:"letters"`
	Failed   int `json:"failed"`
	Unsent   int `json:"unsent"`
	// WAL, Postgres and NATS are bytes written per event, a checkpoint at the end
	// included; the WAL is among Postgres's.
	WAL      float64 `json:"wal_bytes_per_event"`
	Postgres float64 `json:"postgres_bytes_per_event"`
	NATS     float64 `json:"nats_bytes_per_event"`
	// Syncs of Postgres's WAL and Flushes of the disk, by whomever, for each event.
	Syncs   float64 `json:"wal_syncs_per_event"`
	Flushes float64 `json:"disk_flushes_per_event"`
	// ReceiverPeak and WorkerPeak are the most memory, in MiB.
	ReceiverPeak float64 `json:"receiver_peak_mib"`
	WorkerPeak   float64 `json:"worker_peak_mib"`
	// Acks counts the 2xx of each second, Moments is what else was seen meanwhile.
	Acks    []int    `json:"acks_by_second"`
	Moments []Moment `json:"moments"`
	Cost    PerEvent `json:"cost"` // per event
}

// The names of the highest rates with a bearable p99.
const (
	Highest      = "highest rate"
	HighestAlone = "highest rate, no worker"
)

// ClosedStorm is the closed loop half of whose deliveries were sent before.
const ClosedStorm = "closed loop, half of it resends"

func (c *OpenCell) workers() int {
	if c.Alone {
		return 0
	}
	return 1
}

func (c *OpenCell) plan(warmUp, measure time.Duration) load.Plan {
	return load.Plan{
		Size: c.BodySize, Senders: c.Senders, Rate: c.Offered, Resends: c.Resends, Conflicts: c.Conflicts,
		WarmUp: warmUp, Measure: measure,
	}
}

func (c *OpenCell) fill(got *sent, measured time.Duration) {
	c.AcksPerSecond = float64(got.Measured) / measured.Seconds()
	if c.Offered > 0 {
		c.AcksPerSecond = float64(got.Accepted) / got.Last.Sub(got.First).Seconds()
	}
	c.P50, c.P99, c.P999 = milliseconds(got.Latency, 50), milliseconds(got.Latency, 99), milliseconds(got.Latency, 99.9)
	c.Quantiles = quantiles(got.Latency)
	c.Accepted, c.Events, c.Stored, c.Failed, c.Unsent = got.Accepted, got.Events.Applied, got.stored, got.Failed(), got.Unsent
	if !c.Alone {
		c.EventsPerSecond, c.Lag = got.rate, got.lag.Seconds()
	}
	c.Acks, c.Moments = got.Acks, got.moments
	c.Cost = perEvent(got.cost, c.Events)
	n := float64(max(c.Events, 1))
	c.WAL, c.Postgres, c.NATS = float64(got.written.WAL)/n, float64(got.written.Postgres)/n, float64(got.written.NATS)/n
	c.Syncs, c.Flushes = float64(got.written.Syncs)/n, float64(got.written.Flushes)/n
}

// quantiles takes points at equal distances on a scale of nines, as far as there are
// values to speak of.
func quantiles(h *hdrhistogram.Histogram) []Quantile {
	found := []Quantile{{0, float64(h.Min()) / 1000}}
	for nines := 0.125; math.Pow(10, nines) <= float64(h.TotalCount()); nines += 0.125 {
		percentile := 100 * (1 - math.Pow(10, -nines))
		found = append(found, Quantile{percentile, milliseconds(h, percentile)})
	}
	return found
}
