package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Span is a part of one account's entries in one asset, in the order in which
// they were recorded: by time, then event number and N.
type Span struct {
	Account, Asset string
	// From and To bound the recorded time, From included and To not, so that
	// months meet; zero is no bound.
	From, To time.Time
	// After continues behind an entry, the last of the page before; nil begins
	// with From.
	After *Entry
}

// begin is the place of the first entry.
func (s Span) begin() place {
	p := before(s.From)
	if s.After == nil || s.After.Posted.Before(p.at.Time) {
		return p
	}
	return behind(s.After)
}

// end is the time before which the last entry was recorded.
func (s Span) end() pgtype.Timestamptz {
	if s.To.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return before(s.To).at
}

// Statement returns up to limit entries of a span, from its beginning. An entry
// whose transaction still ran when a later one was read comes to stand before it:
// pages miss nothing if To is Settled. It costs what the page has.
func Statement(ctx context.Context, q Querier, s Span, limit int) ([]*Entry, error) {
	begin := s.begin()
	found, err := q.Query(ctx, `
		SELECT event_no, n, operation, debit, credit, asset, amount, reverses, COALESCE(uncovered, 0), created_at
		FROM (
			(SELECT *
			 FROM transfers
			 WHERE debit = $1 AND asset = $2 AND (created_at, event_no, n) >= ($3, $4, $5::int) AND created_at < $6
			 ORDER BY created_at, event_no, n
			 LIMIT $7)
			UNION ALL
			(SELECT *
			 FROM transfers
			 WHERE credit = $1 AND asset = $2 AND (created_at, event_no, n) >= ($3, $4, $5::int) AND created_at < $6
			 ORDER BY created_at, event_no, n
			 LIMIT $7)
		) AS t
		ORDER BY created_at, event_no, n
		LIMIT $7`, s.Account, s.Asset, begin.at, begin.event, begin.n, s.end(), limit)
	return collectEntries(found, err)
}

// Opening returns the balance with which a span begins, nil where there is no
// such account. It agrees with the entries of Statement if both are read in one
// REPEATABLE READ transaction. It costs as much as BalanceAt.
func Opening(ctx context.Context, q Querier, s Span) (*Balance, error) {
	balances, err := readBalances(ctx, q, balancesHead+`(SELECT * FROM accounts WHERE name = $4 AND asset = $5)`+balancesTail,
		s.begin(), s.Account, s.Asset)
	if err != nil || len(balances) == 0 {
		return nil, err
	}
	return balances[0], nil
}
