// Package check holds what a torture run left behind against what its traffic
// means. It reads Postgres and the streams with plain SQL and a plain consumer:
// none of the code that wrote them is trusted here.
//
//	state, err := check.Read(ctx, conn, js)
//	verdict := check.Compare(stream, acked, state)
package check

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/test/torture/client"
	"github.com/onceledger/onceledger/test/torture/traffic"
)

// key is the key of an event's row.
type key struct{ source, id, variant string }

// String is the key as findings name it.
func (k key) String() string { return strings.TrimSpace(k.source + " " + k.id + " " + k.variant) }

// row is what an event's row says.
type row struct {
	no                     int64
	state, outcome, reason string
	letter                 uint64
	hash                   [sha256.Size]byte
}

// String is the row as findings name it.
func (r row) String() string {
	return strings.Join(strings.Fields(r.state+" "+r.outcome+" "+r.reason), " ")
}

type account struct{ name, asset string }

type balance struct{ debits, credits int64 }

// letter is a dead letter.
type letter struct {
	key
	reason string
	body   client.Body
}

// State is everything a run left behind.
type State struct {
	rows       map[key]row
	moves      map[int64][]traffic.Move // by event number
	balances   map[account]balance
	operations map[string]int // how many transfers each has
	reserved   int
	letters    map[uint64]letter
	stored     map[client.Body]bool
	// Messages is how many EVENTS holds.
	Messages int
	// Swept is how many messages the sweep has sent again because they were
	// answered and their events had no outcome.
	Swept int
}

// swept is the note of the sweep's record about those.
const swept = "accepted, answered, and without an outcome"

// Parked counts the failed events by their reason.
func (s *State) Parked() map[string]int {
	parked := map[string]int{}
	for _, r := range s.rows {
		if r.state == "failed" {
			parked[r.reason]++
		}
	}
	return parked
}

// Unnamed returns the letters that no failed event names.
func (s *State) Unnamed() []uint64 {
	named := map[uint64]bool{}
	for _, r := range s.rows {
		if r.state == "failed" {
			named[r.letter] = true
		}
	}
	var list []uint64
	for seq := range s.letters {
		if !named[seq] {
			list = append(list, seq)
		}
	}
	slices.Sort(list)
	return list
}

// Read reads Postgres, and both streams whole.
func Read(ctx context.Context, conn *pgx.Conn, js jetstream.JetStream) (*State, error) {
	s := &State{
		rows: map[key]row{}, moves: map[int64][]traffic.Move{}, balances: map[account]balance{},
		operations: map[string]int{}, letters: map[uint64]letter{}, stored: map[client.Body]bool{},
	}
	for _, read := range []func() error{
		func() error { return s.readRows(ctx, conn) },
		func() error { return s.readTransfers(ctx, conn) },
		func() error { return s.readAccounts(ctx, conn) },
		func() error { return conn.QueryRow(ctx, `SELECT count(*) FROM operations`).Scan(&s.reserved) },
		func() error {
			return conn.QueryRow(ctx, `SELECT coalesce(sum((detail->>'count')::int), 0) FROM actions WHERE verb = 'sweep' AND note = $1`, swept).Scan(&s.Swept)
		},
		func() error {
			return each(ctx, js, "EVENTS", func(m jetstream.Msg, _ uint64) {
				s.Messages++
				s.stored[client.BodyOf(m.Headers().Get("ce-source"), m.Data())] = true
			})
		},
		func() error {
			return each(ctx, js, "DLQ", func(m jetstream.Msg, seq uint64) {
				h := m.Headers()
				s.letters[seq] = letter{
					key{h.Get("Onceledger-Source"), h.Get("Onceledger-Event-Id"), h.Get("Onceledger-Variant")}, h.Get("Onceledger-Reason"),
					client.BodyOf(h.Get("Onceledger-Source"), m.Data()),
				}
			})
		},
	} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("read what the run left: %w", err)
		}
	}
	return s, nil
}

func (s *State) readRows(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT source, event_id, variant, no, state, coalesce(outcome, ''), coalesce(reason, ''), coalesce(dlq_seq, 0), body_hash FROM events`)
	if err != nil {
		return err
	}
	var k key
	var r row
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&k.source, &k.id, &k.variant, &r.no, &r.state, &r.outcome, &r.reason, &r.letter, &hash}, func() error {
		copy(r.hash[:], hash)
		if r.state == "completed" && r.outcome != "ignored" {
			r.reason = "" // why it once failed
		}
		s.rows[k] = r
		return nil
	})
	return err
}

func (s *State) readTransfers(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT event_no, operation, debit, credit, asset, amount FROM transfers ORDER BY event_no, n`)
	if err != nil {
		return err
	}
	var no int64
	var operation string
	var m traffic.Move
	_, err = pgx.ForEachRow(rows, []any{&no, &operation, &m.Debit, &m.Credit, &m.Asset, &m.Amount}, func() error {
		s.moves[no] = append(s.moves[no], m)
		s.operations[operation]++
		return nil
	})
	return err
}

func (s *State) readAccounts(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT name, asset, debits_posted, credits_posted FROM accounts`)
	if err != nil {
		return err
	}
	var a account
	var b balance
	_, err = pgx.ForEachRow(rows, []any{&a.name, &a.asset, &b.debits, &b.credits}, func() error {
		s.balances[a] = b
		return nil
	})
	return err
}

// each calls f for every message of a stream, in order.
func each(ctx context.Context, js jetstream.JetStream, name string, f func(jetstream.Msg, uint64)) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	info := stream.CachedInfo().State
	if info.Msgs == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	for {
		m, err := messages.Next()
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		f(m, meta.Sequence.Stream)
		if meta.NumPending == 0 {
			return nil
		}
	}
}
