package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// key is the key of an event's row.
type key struct {
	source, id, variant string
}

// String is the key as differences name it.
func (k key) String() string {
	return strings.TrimSuffix(k.source+" "+k.id+" "+k.variant, " ")
}

// found is what the ledger and the streams hold after a run. It is read with
// plain SQL: none of the code that wrote it is trusted here.
type found struct {
	rows     map[key]row
	moves    map[key][]move // by the event that posted them
	balances map[account]balance
	// unlettered counts failed rows without a dead letter.
	unlettered int
	// operations counts what is reserved; every transfer has one of its own.
	operations int
}

// account is an account in one asset.
type account struct {
	name, asset string
}

// balance is both sides of an account.
type balance struct {
	debits, credits int64
}

// readLedger reads everything that a run has left in Postgres.
func readLedger(ctx context.Context, url string) (*found, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was written

	f := &found{rows: map[key]row{}, moves: map[key][]move{}, balances: map[account]balance{}}
	byNumber := map[int64]key{}
	for _, read := range []func() error{
		func() error { return f.readEvents(ctx, conn, byNumber) },
		func() error { return f.readTransfers(ctx, conn, byNumber) },
		func() error { return f.readAccounts(ctx, conn) },
		func() error {
			return conn.QueryRow(ctx, `SELECT count(*) FROM operations`).Scan(&f.operations)
		},
	} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
	}
	return f, nil
}

func (f *found) readEvents(ctx context.Context, conn *pgx.Conn, byNumber map[int64]key) error {
	rows, err := conn.Query(ctx, `
		SELECT no, source, event_id, variant, state, coalesce(outcome, ''), coalesce(reason, ''), dlq_seq IS NOT NULL
		FROM events`)
	if err != nil {
		return err
	}
	var (
		no     int64
		k      key
		r      row
		letter bool
	)
	_, err = pgx.ForEachRow(rows, []any{&no, &k.source, &k.id, &k.variant, &r.state, &r.outcome, &r.reason, &letter}, func() error {
		f.rows[k], byNumber[no] = r, k
		if r.state == "failed" && !letter {
			f.unlettered++
		}
		return nil
	})
	return err
}

func (f *found) readTransfers(ctx context.Context, conn *pgx.Conn, byNumber map[int64]key) error {
	rows, err := conn.Query(ctx, `
		SELECT event_no, debit, credit, asset, amount
		FROM transfers
		ORDER BY event_no, n`)
	if err != nil {
		return err
	}
	var (
		no int64
		m  move
	)
	_, err = pgx.ForEachRow(rows, []any{&no, &m.debit, &m.credit, &m.asset, &m.amount}, func() error {
		k, ok := byNumber[no]
		if !ok {
			k = key{id: fmt.Sprintf("number %d, which is no event's", no)}
		}
		f.moves[k] = append(f.moves[k], m)
		return nil
	})
	return err
}

func (f *found) readAccounts(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `
		SELECT name, asset, debits_posted + debits_pending, credits_posted + credits_pending
		FROM accounts`)
	if err != nil {
		return err
	}
	var (
		a account
		b balance
	)
	_, err = pgx.ForEachRow(rows, []any{&a.name, &a.asset, &b.debits, &b.credits}, func() error {
		f.balances[a] = b
		return nil
	})
	return err
}

// generated says whether a row belongs to a delivery without an id of its own.
func (k key) generated() bool { return strings.HasPrefix(k.id, "generated/") }
