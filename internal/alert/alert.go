// Package alert tells a person of what no program can decide: two contents
// under one event id, two amounts for one payment. Each conflict is posted to
// one URL as a signed Standard Webhook.
//
// Guarantee: Send never waits and never fails. A conflict keeps its webhook-id
// however often it is sent; it is sent until it is answered 2xx, at most for
// 24 hours. What a full queue or an end of the process drops is counted, and
// stands in the dead-letter stream all the same.
//
//	alerts, err := alert.New(cfg.Alerts, log, reg) // nil without a URL
//	group.Go(func() error { return alerts.Run(ctx) })
//	alerts.Send(alert.Conflict{Source: "stripe", EventID: "evt_1", Reason: dlq.IDConflict, …})
package alert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/onceledger/onceledger/pkg/dlq"
)

// MaxAge is how long a conflict is sent again before it is given up. Whoever
// starts anew recalls the conflicts of this age.
const MaxAge = 24 * time.Hour

// Conflict is what a person is told. It holds no body.
type Conflict struct {
	Source    string
	EventID   string
	EventType string
	Reason    dlq.Reason
	// BodyHash is the SHA-256 of the refused body: another body under the same id
	// is another conflict.
	BodyHash [sha256.Size]byte
	// Sequence is that of the refused message; Standing that of the message that
	// stands, 0 where it is not known.
	Sequence, Standing uint64
	// Transfers are what the refused event asks for, StandingTransfers what was
	// posted; nil where they are not known.
	Transfers, StandingTransfers []Amount
	// Error says in words what differs.
	Error string
	// At is when the conflict was found.
	At time.Time
}

// Amount is money as a person reads it.
type Amount struct {
	Amount string `json:"amount"`
	Asset  string `json:"asset"`
}

// ID is the conflict's webhook-id, the same however often it is found.
func (c *Conflict) ID() string {
	text, _ := json.Marshal([]string{c.Source, c.EventID, string(c.Reason), hex.EncodeToString(c.BodyHash[:])}) // strings always encode
	sum := sha256.Sum256(text)
	return "conflict_" + hex.EncodeToString(sum[:16])
}

// payload is the body of the webhook.
type payload struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

type data struct {
	Source            string   `json:"source"`
	EventID           string   `json:"event_id"`
	EventType         string   `json:"event_type,omitempty"`
	Reason            string   `json:"reason"`
	Sequence          uint64   `json:"sequence"`
	Transfers         []Amount `json:"transfers,omitempty"`
	StandingSequence  uint64   `json:"standing_sequence,omitempty"`
	StandingTransfers []Amount `json:"standing_transfers,omitempty"`
	Error             string   `json:"error,omitempty"`
	Hint              string   `json:"hint,omitempty"`
}

func (c *Conflict) body() ([]byte, error) {
	info, _ := c.Reason.Info()
	return json.Marshal(payload{
		Type: "onceledger." + string(c.Reason), Timestamp: c.At.UTC(),
		Data: data{
			Source: c.Source, EventID: c.EventID, EventType: c.EventType, Reason: string(c.Reason),
			Sequence: c.Sequence, Transfers: c.Transfers, StandingSequence: c.Standing, StandingTransfers: c.StandingTransfers,
			Error: c.Error, Hint: info.Hint,
		},
	})
}
