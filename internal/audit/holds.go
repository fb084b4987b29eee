package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// maxFacts bounds the uncovered captures that are listed; all are counted.
const maxFacts = 1000

// holds checks that every hold says what its operation and those about it say: what
// is captured, what ended it, and that no more was taken out of it than it held.
func (a *auditor) holds(ctx context.Context) error {
	for after := ""; ; {
		var last *string
		var n int
		err := a.Pool.QueryRow(ctx, `
			SELECT max(key), count(*)
			FROM (SELECT key FROM holds WHERE key > $1 ORDER BY key LIMIT $2) AS h`, after, pageRows).Scan(&last, &n)
		if err != nil {
			return fmt.Errorf("page holds: %w", err)
		}
		if last == nil {
			return a.facts(ctx)
		}
		a.report.Books.Holds += n
		if err := a.compareHolds(ctx, after, *last); err != nil {
			return err
		}
		after = *last
	}
}

// compareHolds looks for holds that are stray (not those of their operation),
// miscounted, overdrawn or ended by nothing. One without an amount is to come: what
// was captured of it was a fact.
func (a *auditor) compareHolds(ctx context.Context, after, upTo string) error {
	found, err := a.Pool.Query(ctx, `
		SELECT key, asset, amount, captured, closed, taken, covered, stray, misended
		FROM (
			SELECT h.key, COALESCE(h.asset, '') AS asset, COALESCE(h.amount, 0) AS amount, h.captured, COALESCE(h.closed, '') AS closed,
			       c.taken, c.covered,
			       CASE WHEN h.amount IS NULL THEN h.captured = 0 OR o.kind IS NOT DISTINCT FROM 'hold'
			            ELSE (o.kind, o.event_no, o.debit, o.credit, o.asset, o.amount)
			                 IS DISTINCT FROM ('hold', h.event_no, h.debit, h.credit, h.asset, h.amount) END AS stray,
			       CASE WHEN h.closed IS NULL THEN c.final OR c.void
			            WHEN h.closed = 'final' THEN NOT c.final
			            WHEN h.closed = 'voided' THEN NOT c.void
			            ELSE COALESCE(h.expires_at > now(), true) END AS misended
			FROM holds h
			LEFT JOIN operations o ON o.key = h.key
			CROSS JOIN LATERAL (
				SELECT COALESCE(sum(u.amount) FILTER (WHERE u.kind <> 'void' AND u.asset = h.asset), 0) AS taken,
				       COALESCE(sum(t.amount - COALESCE(t.uncovered, 0)), 0) AS covered,
				       COALESCE(bool_or(u.kind = 'final_capture' AND u.asset = h.asset), false) AS final,
				       COALESCE(bool_or(u.kind = 'void'), false) AS void
				FROM operations u
				LEFT JOIN transfers t ON t.event_no = u.event_no AND t.operation = u.key
				WHERE u.hold = h.key) AS c
			WHERE h.key > $1 AND h.key <= $2) AS h
		WHERE stray OR misended OR captured <> taken OR covered > amount
		ORDER BY key`, after, upTo)
	if err != nil {
		return fmt.Errorf("compare holds: %w", err)
	}
	var key, asset, closed string
	var amount, captured, taken, covered int64
	var stray, misended bool
	_, err = pgx.ForEachRow(found, []any{&key, &asset, &amount, &captured, &closed, &taken, &covered, &stray, &misended}, func() error {
		add := func(format string, args ...any) {
			a.report.add(Finding{Kind: HoldDiffers, Operation: key, Asset: asset, Detail: fmt.Sprintf(format, args...)})
		}
		if stray {
			add("the hold of %s is not what its operation says, or has none", a.amount(amount, asset))
		}
		if misended {
			add("the hold is %q, and the operations about it do not say so", closed)
		}
		if captured != taken {
			add("the hold says captured %s; the captures of it add up to %s", a.amount(captured, asset), a.amount(taken, asset))
		}
		if covered > amount {
			add("captures took %s out of this hold, which was %s", a.amount(covered, asset), a.amount(amount, asset))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare holds: %w", err)
	}
	return nil
}

// facts lists the captures that no hold covered, or not all of them: they are no
// problem of the ledger, but something that a person should know of.
func (a *auditor) facts(ctx context.Context) error {
	found, err := a.Pool.Query(ctx, `
		SELECT count(*) OVER (), t.event_no, COALESCE(e.source, ''), COALESCE(e.event_id, ''), COALESCE(e.variant, ''),
		       t.operation, t.asset, t.amount, t.uncovered
		FROM transfers t
		LEFT JOIN events e ON e.no = t.event_no
		WHERE t.uncovered IS NOT NULL
		ORDER BY t.event_no, t.n
		LIMIT $1`, maxFacts)
	if err != nil {
		return fmt.Errorf("list uncovered captures: %w", err)
	}
	var f UncoveredCapture
	_, err = pgx.ForEachRow(found, []any{&a.report.Books.Uncovered, &f.EventNo, &f.Source, &f.EventID, &f.Variant, &f.Operation, &f.Asset, &f.Amount, &f.Uncovered}, func() error {
		asset, _ := a.assets.Lookup(f.Asset)
		f.Exponent = asset.Exponent
		a.report.Books.Facts = append(a.report.Books.Facts, f)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list uncovered captures: %w", err)
	}
	return nil
}

// comparePending compares what accounts say is held with the holds of a page of
// accounts, in the snapshot of one statement.
func (a *auditor) comparePending(ctx context.Context, name, asset, lastName, lastAsset string) error {
	found, err := a.Pool.Query(ctx, `
		SELECT COALESCE(a.name, s.name), COALESCE(a.asset, s.asset),
		       COALESCE(a.debits_pending, 0), COALESCE(a.credits_pending, 0), COALESCE(s.debits, 0)::text, COALESCE(s.credits, 0)::text
		FROM (
			SELECT *
			FROM accounts
			WHERE (name, asset) > ($1, $2) AND (name, asset) <= ($3, $4) AND (debits_pending <> 0 OR credits_pending <> 0)) AS a
		FULL JOIN (
			SELECT name, asset, sum(debit) AS debits, sum(credit) AS credits
			FROM (
				SELECT debit AS name, asset, held AS debit, 0 AS credit
				FROM holds
				WHERE held > 0 AND (debit, asset) > ($1, $2) AND (debit, asset) <= ($3, $4)
				UNION ALL
				SELECT credit, asset, 0, held
				FROM holds
				WHERE held > 0 AND (credit, asset) > ($1, $2) AND (credit, asset) <= ($3, $4)) AS h
			GROUP BY name, asset) AS s ON s.name = a.name AND s.asset = a.asset
		WHERE COALESCE(a.debits_pending, 0) <> COALESCE(s.debits, 0) OR COALESCE(a.credits_pending, 0) <> COALESCE(s.credits, 0)
		ORDER BY 1, 2`, name, asset, lastName, lastAsset)
	if err != nil {
		return fmt.Errorf("add up holds: %w", err)
	}
	var f Finding
	var debits, credits int64
	var heldDebits, heldCredits string
	_, err = pgx.ForEachRow(found, []any{&f.Account, &f.Asset, &debits, &credits, &heldDebits, &heldCredits}, func() error {
		f.Kind = PendingDiffers
		f.Detail = fmt.Sprintf("the account says pending debits %s, credits %s; its holds add up to debits %s, credits %s",
			a.amount(debits, f.Asset), a.amount(credits, f.Asset), a.sum(heldDebits, f.Asset), a.sum(heldCredits, f.Asset))
		a.report.add(f)
		return nil
	})
	if err != nil {
		return fmt.Errorf("add up holds: %w", err)
	}
	return nil
}
