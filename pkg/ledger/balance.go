package ledger

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Balance is what one account had been debited and credited in one asset by some
// point, in minor units. What was held then is not known any more.
type Balance struct {
	Account string
	Asset
	Debits, Credits int64
	// Opened is when the account's row was made.
	Opened time.Time
}

// Net is credits less debits, as Account.Balance.
func (b *Balance) Net() int64 { return b.Credits - b.Debits }

// OpenAt reports whether the account was there before an instant.
func (b *Balance) OpenAt(at time.Time) bool {
	return at.IsZero() || b.Opened.Before(at) || b.Debits != 0 || b.Credits != 0
}

// Add moves the balance behind an entry of its account. A sum beyond 64 bits is
// ErrAmountOverflow.
func (b *Balance) Add(e *Entry) error {
	side := &b.Credits
	if e.Debit == b.Account {
		side = &b.Debits
	}
	if *side > math.MaxInt64-e.Amount {
		return fmt.Errorf("%w: account %s in %s", ErrAmountOverflow, b.Account, b.Code)
	}
	*side += e.Amount
	return nil
}

// BalanceAt returns one account in all its assets as it stood before an instant:
// the sums of the transfers that were recorded earlier than at. Nothing was there
// before the first transfer; an account without any has zeros, one that does not
// exist no row. A zero at means now.
//
// A transfer is recorded at the time at which its transaction began, by the
// database's clock, and seen once that has committed. So the balance of an instant
// may grow until the last transaction that began before it has ended; from then on,
// which Settled tells, it is final.
//
// It costs about as much as the account has transfers from at to the nearer of its
// opening and now, each an entry of an index: seconds for many millions, which a
// session's statement_timeout has to allow for.
func BalanceAt(ctx context.Context, q Querier, account string, at time.Time) ([]*Balance, error) {
	if at.IsZero() {
		accounts, err := Balances(ctx, q, account)
		return balancesOf(accounts), err
	}
	return readBalances(ctx, q, balancesHead+`(SELECT * FROM accounts WHERE name = $4)`+balancesTail, before(at), account)
}

// BalancesAt is BalanceAt for a page of accounts, ordered by name and asset; a State
// of the filter is today's. It has also those that were opened later, see OpenAt:
// the page ends where its last row does.
func BalancesAt(ctx context.Context, q Querier, f AccountFilter, at time.Time) ([]*Balance, error) {
	if at.IsZero() {
		accounts, err := Accounts(ctx, q, f)
		return balancesOf(accounts), err
	}
	return readBalances(ctx, q, balancesHead+`(
		SELECT *
		FROM accounts
		WHERE (name, asset) > ($4, $5) AND name >= $6 AND name <= $7 AND ($8 = '' OR asset = $8)
		      AND ($10 = '' OR state = $10)
		ORDER BY name, asset
		LIMIT NULLIF($9, 0))`+balancesTail, before(at), f.AfterName, f.AfterAsset, f.Prefix, f.Prefix+beyond, f.Asset, f.Limit, string(f.State))
}

// Settled reports whether the books before an instant are final: it is over, and
// no transaction of another session that began before it still runs. Ask before
// the books are read, and outside of a transaction. It sees running transactions
// of the roles that the caller's role is a member of; any session of another role
// counts as one that began up to a minute ago. It does not know of prepared
// transactions, nor of a clock that was set back.
func Settled(ctx context.Context, q Querier, at time.Time) (bool, error) {
	// A transaction has a time a moment before it is seen, hence the margin.
	found, err := q.Query(ctx, `
		SELECT $1::timestamptz < clock_timestamp() - interval '100 milliseconds'
		   AND NOT EXISTS (
		       SELECT FROM pg_stat_activity
		       WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL
		         AND (xact_start < $1
		              OR COALESCE(state, 'disabled') = 'disabled' AND $1 > clock_timestamp() - interval '1 minute'))`, before(at).at)
	if err != nil {
		return false, fmt.Errorf("look for running transactions: %w", err)
	}
	settled, err := pgx.CollectExactlyOneRow(found, pgx.RowTo[bool])
	if err != nil {
		return false, fmt.Errorf("look for running transactions: %w", err)
	}
	return settled, nil
}

// place is a point between the entries of an account: in front of the one with
// this time, event number and n.
type place struct {
	at    pgtype.Timestamptz
	event int64
	n     int32
}

// before is the place in front of everything recorded at t and later.
func before(t time.Time) place {
	// Postgres keeps microseconds; what was recorded within the one of t is before t.
	t = t.Add(time.Microsecond - 1).Truncate(time.Microsecond)
	return place{at: pgtype.Timestamptz{Time: t, Valid: true}, event: math.MinInt64}
}

// behind is the place after an entry.
func behind(e *Entry) place {
	return place{at: pgtype.Timestamptz{Time: e.Posted, Valid: true}, event: e.EventNo, n: int32(e.N) + 1}
}

// The statement reads accounts between head and tail. What the accounts have
// moved on one side of the place is summed up, the nearer one by time: either all
// before it, or what has to be taken from today's balance. One statement, so that
// both are of one snapshot. Sums are numeric, and beyond 64 bits an error.
const (
	balancesHead = `
	SELECT a.name, a.asset, x.exponent, a.opened_at,
	       (CASE WHEN early THEN d.moved ELSE a.debits_posted - d.moved END)::bigint,
	       (CASE WHEN early THEN c.moved ELSE a.credits_posted - c.moved END)::bigint
	FROM `
	balancesTail = ` AS a
	LEFT JOIN assets x ON x.code = a.asset
	CROSS JOIN LATERAL (SELECT $1::timestamptz - a.opened_at < now() - $1) AS side (early)
	CROSS JOIN LATERAL (
		SELECT COALESCE(sum(t.amount), 0) AS moved
		FROM transfers t
		WHERE t.debit = a.name AND t.asset = a.asset
		  AND (t.created_at, t.event_no, t.n) >= (CASE WHEN early THEN '-infinity' ELSE $1 END, $2::bigint, $3::int)
		  AND (t.created_at, t.event_no, t.n) < (CASE WHEN early THEN $1 ELSE 'infinity' END, $2, $3)
	) AS d
	CROSS JOIN LATERAL (
		SELECT COALESCE(sum(t.amount), 0) AS moved
		FROM transfers t
		WHERE t.credit = a.name AND t.asset = a.asset
		  AND (t.created_at, t.event_no, t.n) >= (CASE WHEN early THEN '-infinity' ELSE $1 END, $2, $3)
		  AND (t.created_at, t.event_no, t.n) < (CASE WHEN early THEN $1 ELSE 'infinity' END, $2, $3)
	) AS c
	ORDER BY a.name, a.asset`
)

func readBalances(ctx context.Context, q Querier, sql string, p place, args ...any) ([]*Balance, error) {
	found, err := q.Query(ctx, sql, append([]any{p.at, p.event, p.n}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("read balances: %w", err)
	}
	balances, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (*Balance, error) {
		var b Balance
		var exponent *int
		err := row.Scan(&b.Account, &b.Code, &exponent, &b.Opened, &b.Debits, &b.Credits)
		b.Exponent = exponentOf(b.Code, exponent)
		return &b, err
	})
	if err != nil {
		return nil, fmt.Errorf("read balances: %w", err)
	}
	return balances, nil
}

func balancesOf(accounts []*Account) []*Balance {
	balances := make([]*Balance, len(accounts))
	for i, a := range accounts {
		balances[i] = &Balance{Account: a.Name, Asset: a.Asset, Debits: a.DebitsPosted, Credits: a.CreditsPosted, Opened: a.Opened}
	}
	return balances
}
