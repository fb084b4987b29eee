package operator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// Balance is what an account had in one asset before an instant. Its JSON names
// are part of the public interface; amounts are minor units.
type Balance struct {
	Account  string    `json:"account"`
	Asset    string    `json:"asset"`
	Exponent int       `json:"exponent"`
	At       time.Time `json:"at"`
	// Final is not set while something recorded before At may still be added.
	Final   bool  `json:"final"`
	Balance int64 `json:"balance_minor"`
	Debits  int64 `json:"debits_posted_minor"`
	Credits int64 `json:"credits_posted_minor"`
}

var balanceForm = form{
	columns: []string{"ACCOUNT", "ASSET", "BALANCE", "DEBITS", "CREDITS"},
	numbers: []int{2, 3, 4},
	header: []string{
		"account", "asset", "exponent", "at", "final",
		"balance_minor", "debits_posted_minor", "credits_posted_minor", "balance", "debits_posted", "credits_posted",
	},
}

func (b *Balance) cells() []string {
	return append([]string{b.Account, b.Asset}, amounts([]int64{b.Balance, b.Debits, b.Credits}, b.Exponent)[3:]...)
}

func (b *Balance) record() []string {
	return append([]string{outside(b.Account), b.Asset, strconv.Itoa(b.Exponent), stamp(b.At), strconv.FormatBool(b.Final)},
		amounts([]int64{b.Balance, b.Debits, b.Credits}, b.Exponent)...)
}

func showBalanceAt(ctx context.Context, s *Session, name string, at time.Time) error {
	out, pool, err := s.listing(ctx, balanceForm)
	if err != nil {
		return err
	}
	defer pool.Close()
	final, err := settle(ctx, pool, at)
	if err != nil {
		return err
	}
	var balances []*ledger.Balance
	err = patiently(ctx, pool, func(tx pgx.Tx) error {
		balances, err = ledger.BalanceAt(ctx, tx, name, at)
		return err
	})
	if err != nil {
		return err
	}
	if len(balances) == 0 {
		return noAccount(name)
	}
	for _, b := range balances {
		line := &Balance{
			Account: b.Account, Asset: b.Code, Exponent: b.Exponent, At: at.UTC(), Final: final,
			Balance: b.Net(), Debits: b.Debits, Credits: b.Credits,
		}
		if err := out.print(line); err != nil {
			return err
		}
	}
	if out.table() {
		fmt.Fprintf(s.Out, "before %s\n\n", when(at))
	}
	if err := out.flush(); err != nil {
		return err
	}
	return out.unsettled(final, at)
}

// patiently reads in one snapshot what may be summed up from millions of entries,
// which takes longer than a session's statements may.
func patiently(ctx context.Context, pool *pgxpool.Pool, read func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '10min'`); err != nil {
			return fmt.Errorf("set statement timeout: %w", err)
		}
		return read(tx)
	})
}

// How long, and how often, a command looks whether an instant is final: what
// workers run takes milliseconds.
const (
	settleLimit = 2 * time.Second
	settlePause = 50 * time.Millisecond
)

// settle waits until the books before an instant are final, and reports whether
// they are.
func settle(ctx context.Context, pool *pgxpool.Pool, at time.Time) (bool, error) {
	limit := time.Now().Add(settleLimit)
	for {
		settled, err := ledger.Settled(ctx, pool, at)
		if err != nil || settled || at.After(limit) || time.Now().After(limit) {
			return settled, err
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(settlePause):
		}
	}
}

// unsettled says below a table why it may still change; JSON and CSV have "final".
func (l *lines) unsettled(final bool, at time.Time) error {
	switch {
	case final || !l.table():
	case at.After(time.Now()):
		fmt.Fprintf(l.s.Out, "\nnot final: %s is still to come\n", when(at))
	default:
		fmt.Fprintf(l.s.Out, "\nnot final: a transaction that began before %s may still add to it; ask again later\n", when(at))
	}
	return nil
}
