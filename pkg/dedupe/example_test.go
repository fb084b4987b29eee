package dedupe_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// An event is recorded in the transaction that does its work, so that both are
// there or neither is.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/ledger")
	if err != nil {
		panic(err)
	}
	defer pool.Close()

	var numbers dedupe.Numbers
	if err := numbers.Reserve(ctx, pool, 1); err != nil {
		panic(err)
	}
	body := []byte(`{"id":"evt_1"}`)
	row := &dedupe.Row{
		No:  numbers.Take(),
		Key: dedupe.Key{Source: "stripe", ID: "evt_1"}, State: dedupe.Completed, Outcome: dedupe.Ignored,
		Type: "customer.created", Occurred: time.Now(),
		Content:  dedupe.Content{BodyHash: sha256.Sum256(body)},
		Position: dedupe.Position{StreamCreated: time.Now(), Seq: 1},
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		reserved := dedupe.Reserve(&b, []*dedupe.Row{row})
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if reserved.New(row.No) {
			return nil // do the work here, in tx
		}
		known, err := dedupe.Read(ctx, tx, []dedupe.Key{row.Key})
		if err != nil {
			return err
		}
		there := known[row.Key]
		fmt.Println("duplicate:", there.Terminal() && row.Content.Compare(there.Content) == dedupe.Same)
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// A claim spares Postgres the storm; it decides nothing.
func ExampleClaims() {
	claims, err := dedupe.NewClaims("redis://localhost/0", "ledger:", func(event string, n int) {})
	if err != nil {
		panic(err)
	}
	defer claims.Close()

	ctx, key := context.Background(), dedupe.Key{Source: "stripe", ID: "evt_1"}
	switch claims.Take(ctx, "worker-1/batch-7", []dedupe.Key{key})[0] {
	case dedupe.Claimed, dedupe.Unknown:
		// Go on: Postgres decides.
		claims.Finish(ctx, "worker-1/batch-7", []dedupe.Key{key}, nil)
	case dedupe.Held:
		// Come back later, once.
	case dedupe.Done:
		// Believe it only if the row is terminal.
	}
}

func ExampleContent_Compare() {
	standing := dedupe.Content{BodyHash: sha256.Sum256([]byte(`{"amount":5}`)), Fingerprint: sha256.Sum256([]byte("5")), Rules: 1}
	spaced := dedupe.Content{BodyHash: sha256.Sum256([]byte(`{"amount": 5}`)), Fingerprint: sha256.Sum256([]byte("5")), Rules: 1}
	other := dedupe.Content{BodyHash: sha256.Sum256([]byte(`{"amount":6}`)), Fingerprint: sha256.Sum256([]byte("6")), Rules: 1}
	fmt.Println(spaced.Compare(standing) == dedupe.Same, other.Compare(standing) == dedupe.Different)
	// Output: true true
}
