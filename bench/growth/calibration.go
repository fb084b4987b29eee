package growth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
)

// Parameter is one figure of the model.
type Parameter struct {
	Value float64 `json:"value"`
	// Source says where the figure is from. There is none without.
	Source string `json:"source"`
}

// Calibration is what the model knows of programs, services and machines. Times
// are CPU time unless their name says otherwise, _us are microseconds of one core.
type Calibration struct {
	Load            Parameter `json:"load_us"`            // the generator, an event
	Receiver        Parameter `json:"receiver_us"`        // the receiver, an event
	ReceiverBefore  Parameter `json:"receiver_before"`    // which share of it until the event is queued
	ReceiverBatch   Parameter `json:"receiver_batch_us"`  // and a batch
	ReceiverSingle  Parameter `json:"receiver_single_us"` // and a message that is published alone
	NATSMessage     Parameter `json:"nats_message_us"`    // the broker, a message of a batch
	NATSBatch       Parameter `json:"nats_batch_us"`      // and a batch
	NATSSingle      Parameter `json:"nats_single_us"`     // a message that is published alone
	NATSDeliver     Parameter `json:"nats_deliver_us"`    // a delivery and its ack
	NATSDeliverTurn Parameter `json:"nats_deliver_turn"`  // which share of it one goroutine does for all workers
	BatchSyncs      Parameter `json:"batch_syncs"`        // syncs of an atomic batch
	StoredBytes     Parameter `json:"stored_bytes"`       // what the broker writes, an event

	Worker            Parameter `json:"worker_us"`          // an event
	WorkerBatch       Parameter `json:"worker_batch_us"`    // and a batch
	WorkerBefore      Parameter `json:"worker_before"`      // which share of it before the transaction
	WorkerBetween     Parameter `json:"worker_between"`     // and between its two round trips
	Redis             Parameter `json:"redis_us"`           // an event, both commands
	Postgres          Parameter `json:"postgres_us"`        // an event
	PostgresBatch     Parameter `json:"postgres_batch_us"`  // and a batch
	PostgresReserve   Parameter `json:"postgres_reserve"`   // which share of it before accounts with limits are locked
	PostgresTransfers Parameter `json:"postgres_transfers"` // for transfers, the first of the second round trip
	PostgresBalances  Parameter `json:"postgres_balances"`  // for balances
	PostgresCommit    Parameter `json:"postgres_commit"`    // and after that; the rest is for those locks
	WALBytes          Parameter `json:"wal_bytes"`          // an event

	Together  Parameter `json:"together"`              // CPU time of receivers and workers on one machine, by that of each alone
	Sync      Parameter `json:"fsync_us"`              // wall time of a small sync, median
	SyncSigma Parameter `json:"fsync_sigma"`           // of its logarithm, which is taken for normal
	DiskRate  Parameter `json:"disk_bytes_per_second"` // on top of a sync
	Hop       Parameter `json:"hop_us"`                // wall time of a message between processes of a machine
	Network   Parameter `json:"network_us"`            // and between machines, one way
}

// ReadCalibration reads the file at path. Every parameter must be there.
func ReadCalibration(path string) (*Calibration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read calibration: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	c := &Calibration{}
	if err := decoder.Decode(c); err != nil {
		return nil, fmt.Errorf("read calibration: %w", err)
	}
	var errs []error
	for name, p := range c.all() {
		if p.Source == "" {
			errs = append(errs, fmt.Errorf("read calibration: %s has no source", name))
		}
		if p.Value < 0 {
			errs = append(errs, fmt.Errorf("read calibration: %s is negative", name))
		}
	}
	return c, errors.Join(errs...)
}

// Write writes the calibration to the file at path.
func (c *Calibration) Write(path string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write calibration: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures are no secret
		return fmt.Errorf("write calibration: %w", err)
	}
	return nil
}

// all yields the parameters by their names in the file, in its order.
func (c *Calibration) all() func(func(string, *Parameter) bool) {
	return func(yield func(string, *Parameter) bool) {
		v := reflect.ValueOf(c).Elem()
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if !yield(name, v.Field(i).Addr().Interface().(*Parameter)) {
				return
			}
		}
	}
}

// together is the calibration of programs that take each other's caches and turns.
func (c *Calibration) together() *Calibration {
	slower := *c
	for _, p := range []*Parameter{
		&slower.Load, &slower.Receiver, &slower.ReceiverBatch, &slower.ReceiverSingle,
		&slower.NATSMessage, &slower.NATSBatch, &slower.NATSSingle, &slower.NATSDeliver,
		&slower.Worker, &slower.WorkerBatch, &slower.Redis, &slower.Postgres, &slower.PostgresBatch,
	} {
		p.Value *= c.Together.Value
	}
	return &slower
}

// us turns a parameter in microseconds into seconds.
func (p Parameter) us() float64 { return p.Value / 1e6 }
