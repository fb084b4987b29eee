package growth

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Measured is what the model reads of a file that the benchmark's -json wrote.
type Measured struct {
	// Note is added by a person who put the file together from several runs.
	Note    string    `json:"note,omitempty"`
	Started time.Time `json:"started"`
	Machine struct {
		CPU   string  `json:"cpu"`
		Cores float64 `json:"cores"`
		Sync  float64 `json:"fsync_us"`
	} `json:"machine"`
	Receiver []ReceiverCell `json:"receiver,omitempty"`
	Backlogs []BacklogCell  `json:"backlogs,omitempty"`
	Open     []OpenCell     `json:"open,omitempty"`
	Ledger   []LedgerCell   `json:"ledger,omitempty"`
}

// ReceiverCell is a receiver under a closed loop, without a worker.
type ReceiverCell struct {
	Publishing    string  `json:"publishing"` // groupCommit or oneByOne
	Senders       int     `json:"senders"`
	AcksPerSecond float64 `json:"acks_per_second"`
	P50           float64 `json:"p50_ms"`
	P99           float64 `json:"p99_ms"`
	Cost          Cost    `json:"cost"`
}

// What Publishing may be.
const (
	groupCommit = "group commit"
	oneByOne    = "one by one"
)

// BacklogCell is workers on a backlog.
type BacklogCell struct {
	Workers         int     `json:"workers"`
	Backlog         int     `json:"backlog"`
	Rows            int     `json:"rows"` // there already
	EventsPerSecond float64 `json:"events_per_second"`
	WAL             float64 `json:"wal_bytes_per_event"`
	Cost            Cost    `json:"cost"`
}

// alone reports whether one worker had empty tables to itself. The first such cell
// is what the worker's parameters are from.
func (b BacklogCell) alone() bool { return b.Workers == 1 && b.Rows == 0 }

// OpenCell is receiver and worker together.
type OpenCell struct {
	Name            string  `json:"name"`
	Alone           bool    `json:"alone,omitempty"` // without a worker
	Offered         float64 `json:"offered_per_second"`
	Senders         int     `json:"senders"`
	BodySize        int     `json:"body_bytes"`
	Resends         float64 `json:"resends"`
	Conflicts       float64 `json:"conflicts"`
	AcksPerSecond   float64 `json:"acks_per_second"`
	P50             float64 `json:"p50_ms"`
	P99             float64 `json:"p99_ms"`
	EventsPerSecond float64 `json:"events_per_second"`
	NATS            float64 `json:"nats_bytes_per_event"`
	Cost            Cost    `json:"cost"`
}

// plain reports whether every event comes once, and is of the usual size.
func (c OpenCell) plain() bool {
	return c.Resends == 0 && c.Conflicts == 0 && c.BodySize <= 1024
}

// keepsUp is from which share of an offered rate on the ledger is not left behind.
const keepsUp = 0.9

// comparable reports whether the model can be held against the cell: receiver and
// worker, and no more than they keep up with. Past that an answer takes as long as
// one goes on measuring.
func (c OpenCell) comparable() bool {
	return !c.Alone && c.plain() && c.EventsPerSecond >= keepsUp*c.Offered
}

// LedgerCell is the ledger alone.
type LedgerCell struct {
	Accounts string `json:"accounts"`
	Batch    int    `json:"batch"`
	Cost     Cost   `json:"cost"`
}

// spread is what Accounts says where no account is hot.
const spread = "100,000 accounts"

// Cost is CPU time an event, by program, and how many cores others kept busy.
type Cost struct {
	CPU     map[string]float64 `json:"cpu_us"`
	Foreign float64            `json:"foreign_cores"`
}

// ReadMeasured reads the file at path.
func ReadMeasured(path string) (*Measured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read measured figures: %w", err)
	}
	m := &Measured{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read measured figures: %w", err)
	}
	if m.Machine.Cores == 0 {
		return nil, fmt.Errorf("read measured figures: %s names no machine", path)
	}
	return m, nil
}

// left is how many cores others left.
func (m *Measured) left(c Cost) float64 { return max(m.Machine.Cores-c.Foreign, 0.1) }
