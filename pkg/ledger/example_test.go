package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// A wallet pays for an order, once, however many events report it.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/ledger")
	if err != nil {
		panic(err)
	}
	defer pool.Close()

	limits := func(account string) (ledger.Limit, bool) {
		return ledger.Limit{Rule: ledger.DebitsMustNotExceedCredits, Enforce: true}, account == "wallet:ann"
	}
	posting := &ledger.Posting{
		EventNo: 1,
		Transfers: []ledger.Transfer{
			{Operation: "order-1", Debit: "wallet:ann", Credit: "shop", Asset: "EUR", Amount: 1999},
		},
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return ledger.Post(ctx, tx, limits, posting)
	})
	switch {
	case err != nil:
		panic(err) // nothing was posted
	case errors.Is(posting.Err, ledger.ErrInsufficientFunds):
		fmt.Println("refused:", posting.Err)
	case len(posting.Posted) == 0:
		fmt.Println("was there already")
	default:
		fmt.Println("posted")
	}
}

// Many events go in one transaction, in the order of the stream, with two round
// trips to the database.
func ExampleBatch() {
	ctx := context.Background()
	post := func(tx pgx.Tx, postings []*ledger.Posting) error {
		batch := ledger.NewBatch(func(string) (ledger.Limit, bool) { return ledger.Limit{}, false }, postings)
		var first, second pgx.Batch
		batch.Reserve(&first)
		if err := tx.SendBatch(ctx, &first).Close(); err != nil {
			return err
		}
		if err := batch.Decide(ctx, tx); err != nil {
			return err
		}
		batch.Write(&second)
		return tx.SendBatch(ctx, &second).Close()
	}
	_ = post
}

// A card is authorised, captured in part, and the rest released.
func Example_hold() {
	purchase := ledger.Transfer{Debit: "wallet:ann", Credit: "shop", Asset: "EUR", Amount: 1999}

	hold := purchase
	hold.Operation, hold.Kind, hold.Expires = "authorisation-1", ledger.KindHold, 7*24*time.Hour

	capture := purchase
	capture.Operation, capture.Kind, capture.Parent = "capture-1", ledger.KindCapture, hold.Operation
	capture.Amount = 1500

	void := ledger.Transfer{Operation: "void-1", Kind: ledger.KindVoid, Parent: hold.Operation}

	// Each is posted as any transfer is, whenever it is told of: see Post.
	for i, t := range []ledger.Transfer{hold, capture, void} {
		_ = &ledger.Posting{EventNo: int64(i), Transfers: []ledger.Transfer{t}}
	}
}

// Each total of a charge is an operation of its own, under one name.
func ExampleTotalKey() {
	fmt.Println(ledger.TotalKey(ledger.OperationKey("stripe", "", "live", "refunded", "ch_1"), 700))
	// Output: 6:stripe,0:,4:live,8:refunded,4:ch_1,3:700,
}
