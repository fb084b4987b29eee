package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// transfers checks the transfers of a page of events: each belongs to an
// applied event; each that stands to an operation of that event with the same
// content; and each reversal to a transfer that it takes back as a whole.
func (a *auditor) transfers(ctx context.Context, after, upTo int64) error {
	var n, reversals int
	err := a.Pool.QueryRow(ctx, `
		SELECT count(*), count(reverses)
		FROM transfers
		WHERE event_no > $1 AND event_no <= $2`, after, upTo).Scan(&n, &reversals)
	if err != nil {
		return fmt.Errorf("count transfers: %w", err)
	}
	a.report.Books.Transfers += n
	a.report.Books.Reversals += reversals
	if n == 0 {
		return nil
	}
	return a.compare(ctx, `t.event_no > $1 AND t.event_no <= $2`, after, upTo)
}

// compare checks the transfers in scope. What was reversed needs no operation.
func (a *auditor) compare(ctx context.Context, scope string, args ...any) error {
	found, err := a.Pool.Query(ctx, `
		SELECT t.event_no, t.n, t.operation, t.debit, t.credit, t.asset, t.amount, t.reverses,
		       COALESCE(e.source, ''), COALESCE(e.event_id, ''), COALESCE(e.variant, ''), COALESCE(e.state, ''), COALESCE(e.outcome, ''),
		       COALESCE(o.event_no, -1), COALESCE(o.debit, ''), COALESCE(o.credit, ''), COALESCE(o.asset, ''),
		       COALESCE(o.amount - COALESCE(o.unmoved, 0), 0),
		       COALESCE((SELECT 'event ' || by.event_id || ' of ' || by.source FROM events by WHERE by.no = o.event_no), '')
		FROM transfers t
		LEFT JOIN events e ON e.no = t.event_no
		LEFT JOIN operations o ON o.key = t.operation
		WHERE `+scope+`
		  AND (e.outcome IS DISTINCT FROM 'applied'
		       OR t.reverses IS NULL
		          AND (o.event_no, o.debit, o.credit, o.asset, o.amount - COALESCE(o.unmoved, 0))
		              IS DISTINCT FROM (t.event_no, t.debit, t.credit, t.asset, t.amount)
		          AND NOT EXISTS (SELECT FROM transfers r
		                          WHERE r.event_no = t.event_no AND r.reverses = t.n AND r.reverses IS NOT NULL)
		       OR t.reverses IS NOT NULL
		          AND NOT EXISTS (SELECT FROM transfers f
		                          WHERE f.event_no = t.event_no AND f.n = t.reverses AND f.reverses IS NULL
		                            AND (f.operation, f.debit, f.credit, f.asset, f.amount) = (t.operation, t.credit, t.debit, t.asset, t.amount)))
		ORDER BY t.event_no, t.n`, args...)
	if err != nil {
		return fmt.Errorf("compare transfers: %w", err)
	}
	var (
		t, o           ledger.Entry
		f              Finding
		state, outcome string
		by             string
	)
	_, err = pgx.ForEachRow(found, []any{
		&t.EventNo, &t.N, &t.Operation, &t.Debit, &t.Credit, &t.Asset, &t.Amount, &t.Reverses,
		&f.Source, &f.EventID, &f.Variant, &state, &outcome,
		&o.EventNo, &o.Debit, &o.Credit, &o.Asset, &o.Amount, &by,
	}, func() error {
		no := t.EventNo
		o.Operation = t.Operation
		f := Finding{Source: f.Source, EventID: f.EventID, Variant: f.Variant, EventNo: &no, Operation: t.Operation, Asset: t.Asset}
		a.blame(f, t, o, by, state, outcome)
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare transfers: %w", err)
	}
	return nil
}

// blame says what is wrong with a transfer that compare has found; o is its
// operation as it is, of event -1 if there is none, else of the event that by names.
func (a *auditor) blame(f Finding, t, o ledger.Entry, by, state, outcome string) {
	switch {
	case state == "":
		f.Kind, f.Detail = NoEvent, fmt.Sprintf("the event of transfer %s is not there; its number is %d", a.movement(t), t.EventNo)
		a.report.add(f)
	case outcome != "applied":
		f.Kind, f.Detail = NoEvent, fmt.Sprintf("transfer %s belongs to the event, which is %s %s", a.movement(t), state, outcome)
		a.report.add(f)
	case t.Reverses != nil:
		f.Kind, f.Detail = WrongReversal, fmt.Sprintf("transfer %s does not take back transfer %d of its event", a.movement(t), *t.Reverses)
		a.report.add(f)
	}
	switch {
	case t.Reverses != nil:
	case o.EventNo < 0:
		f.Kind, f.Detail = NoOperation, fmt.Sprintf("transfer %s has no operation", a.movement(t))
		a.report.add(f)
	case o.EventNo != t.EventNo || !o.Same(t.Transfer):
		f.Kind, f.Detail = NoOperation, fmt.Sprintf("transfer %s; its operation says %s by %s", a.movement(t), a.movement(o), cmp.Or(by, fmt.Sprintf("an event that is not there, number %d", o.EventNo)))
		a.report.add(f)
	}
}

// movement says a transfer in words.
func (a *auditor) movement(e ledger.Entry) string {
	return fmt.Sprintf("%s from %s to %s", a.amount(e.Amount, e.Asset), e.Debit, e.Credit)
}

// operations checks that every operation has exactly one transfer that stands, or
// none where it holds or voids, or had nothing to move, and that what is about a hold
// has one. That an
// operation and its transfer say the same is checked from the transfer's side.
func (a *auditor) operations(ctx context.Context) error {
	for after := ""; ; {
		var last *string
		var n int
		err := a.Pool.QueryRow(ctx, `
			SELECT max(key), count(*)
			FROM (SELECT key FROM operations WHERE key > $1 ORDER BY key LIMIT $2) AS o`, after, pageRows).Scan(&last, &n)
		if err != nil {
			return fmt.Errorf("page operations: %w", err)
		}
		if last == nil {
			return nil
		}
		a.report.Books.Operations += n
		if err := a.untransferred(ctx, after, *last); err != nil {
			return err
		}
		after = *last
	}
}

func (a *auditor) untransferred(ctx context.Context, after, upTo string) error {
	found, err := a.Pool.Query(ctx, `
		SELECT o.key, o.event_no, o.asset, count(t.event_no) - 2 * count(t.reverses),
		       CASE WHEN o.kind IN ('hold', 'void') OR o.unmoved = o.amount THEN 0 ELSE 1 END,
		       COALESCE((SELECT e.source FROM events e WHERE e.no = o.event_no), ''),
		       COALESCE((SELECT e.event_id FROM events e WHERE e.no = o.event_no), ''),
		       COALESCE((SELECT e.variant FROM events e WHERE e.no = o.event_no), '')
		FROM operations o
		LEFT JOIN transfers t ON t.event_no = o.event_no AND t.operation = o.key
		WHERE o.key > $1 AND o.key <= $2
		GROUP BY o.key
		HAVING count(t.event_no) - 2 * count(t.reverses) <> CASE WHEN o.kind IN ('hold', 'void') OR o.unmoved = o.amount THEN 0 ELSE 1 END
		       OR o.kind <> 'total'
		          AND NOT EXISTS (SELECT FROM holds h
		                          WHERE h.key = COALESCE(o.hold, o.key) AND (o.hold IS NOT NULL OR h.amount IS NOT NULL))
		ORDER BY o.key`, after, upTo)
	if err != nil {
		return fmt.Errorf("compare operations: %w", err)
	}
	var no int64
	var key, asset, source, id, variant string
	var n, expected int
	_, err = pgx.ForEachRow(found, []any{&key, &no, &asset, &n, &expected, &source, &id, &variant}, func() error {
		number := no
		if n == expected {
			a.report.add(Finding{
				Kind: HoldDiffers, Source: source, EventID: id, Variant: variant, Operation: key, Asset: asset, EventNo: &number,
				Detail: "the hold that this operation opens or is about is not there",
			})
			return nil
		}
		stray := ""
		if source == "" {
			stray = fmt.Sprintf("; the event, number %d, is not there", no)
		}
		a.report.add(Finding{
			Kind: NoTransfer, Source: source, EventID: id, Variant: variant, Operation: key, Asset: asset, EventNo: &number,
			Detail: fmt.Sprintf("its event has %d standing transfers for this operation, not %d%s", n, expected, stray),
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare operations: %w", err)
	}
	return nil
}

// refunds checks that no more is given back of an operation than its amount, and,
// where a running total was told, what that says.
func (a *auditor) refunds(ctx context.Context) error {
	for after := ""; ; {
		found, err := a.Pool.Query(ctx, `
			(SELECT DISTINCT refunds FROM operations WHERE refunds > $1 ORDER BY refunds LIMIT $2)
			UNION
			(SELECT key FROM totals WHERE key > $1 ORDER BY key LIMIT $2)
			ORDER BY 1
			LIMIT $2`, after, pageRows)
		if err != nil {
			return fmt.Errorf("page refunds: %w", err)
		}
		keys, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("page refunds: %w", err)
		}
		if len(keys) == 0 {
			return nil
		}
		over, err := ledger.OverRefunds(ctx, a.Pool, keys)
		if err != nil {
			return err
		}
		assets, err := a.assetsOf(ctx, slices.Collect(maps.Keys(over)))
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(over)) {
			a.report.add(Finding{
				Kind: OverRefunded, Operation: key, Asset: assets[key],
				Detail: fmt.Sprintf("%s are given back of this operation, which is less, in another asset or not there", a.amount(over[key], assets[key])),
			})
		}
		if err := a.totalsTold(ctx, keys); err != nil {
			return err
		}
		after = keys[len(keys)-1]
	}
}

// totalsTold checks the running totals of a page of operations.
func (a *auditor) totalsTold(ctx context.Context, keys []string) error {
	wrong, err := ledger.WrongTotals(ctx, a.Pool, keys)
	if err != nil {
		return err
	}
	named := make([]string, len(wrong))
	for i, t := range wrong {
		named[i] = t.Operation
	}
	assets, err := a.assetsOf(ctx, named)
	if err != nil {
		return err
	}
	for _, t := range wrong {
		asset := assets[t.Operation]
		a.report.add(Finding{
			Kind: RefundsDiffer, Operation: t.Operation, Asset: asset,
			Detail: fmt.Sprintf("the refunds of this operation, less %s that were undone, add up to %s and have moved %s; the highest total told is %s, and %s is kept of it",
				a.amount(t.Undone, asset), a.amount(t.Items, asset), a.amount(t.Moved, asset), a.amount(t.Highest, asset), a.amount(t.Seen, asset)),
		})
	}
	return nil
}

// accountsPage is how many accounts one statement adds up.
const accountsPage = 1000

// beyond sorts after every account: the end of the last page, so that transfers
// of accounts that are not there are found too.
const beyond = "\U0010FFFF\U0010FFFF\U0010FFFF\U0010FFFF"

// balances adds up the transfers of a page of accounts and compares, in the
// snapshot of one statement.
func (a *auditor) balances(ctx context.Context) error {
	return a.eachPage(ctx, accountsPage, a.addUp)
}

// eachPage calls check for each page of accounts: from behind the first name
// and asset up to the second.
func (a *auditor) eachPage(ctx context.Context, size int, check func(ctx context.Context, name, asset, lastName, lastAsset string) error) error {
	for name, asset := "", ""; name != beyond; {
		nextName, nextAsset := beyond, beyond
		err := a.Pool.QueryRow(ctx, `
			SELECT name, asset
			FROM accounts
			WHERE (name, asset) > ($1, $2)
			ORDER BY name, asset
			OFFSET $3
			LIMIT 1`, name, asset, size-1).Scan(&nextName, &nextAsset)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("page accounts: %w", err)
		}
		if err := check(ctx, name, asset, nextName, nextAsset); err != nil {
			return err
		}
		name, asset = nextName, nextAsset
	}
	return nil
}

// everyTransfer moves what all transfers of a page of accounts have moved.
const everyTransfer = `
				SELECT debit AS name, asset, amount AS debit, 0 AS credit
				FROM transfers
				WHERE (debit, asset) > ($1, $2) AND (debit, asset) <= ($3, $4)
				UNION ALL
				SELECT credit, asset, 0, amount
				FROM transfers
				WHERE (credit, asset) > ($1, $2) AND (credit, asset) <= ($3, $4)`

func (a *auditor) addUp(ctx context.Context, name, asset, lastName, lastAsset string) error {
	if err := a.comparePending(ctx, name, asset, lastName, lastAsset); err != nil {
		return err
	}
	return a.compareBalances(ctx, everyTransfer, name, asset, lastName, lastAsset)
}

// compareBalances compares the accounts between two with the sum of what moved.
func (a *auditor) compareBalances(ctx context.Context, moved string, args ...any) error {
	found, err := a.Pool.Query(ctx, `
		SELECT COALESCE(a.name, s.name), COALESCE(a.asset, s.asset), a.name IS NOT NULL,
		       COALESCE(a.debits_posted, 0), COALESCE(a.credits_posted, 0),
		       COALESCE(s.debits, 0)::text, COALESCE(s.credits, 0)::text
		FROM (
			SELECT *
			FROM accounts
			WHERE (name, asset) > ($1, $2) AND (name, asset) <= ($3, $4)) AS a
		FULL JOIN (
			SELECT name, asset, sum(debit) AS debits, sum(credit) AS credits
			FROM (`+moved+`) AS moved
			GROUP BY name, asset) AS s ON s.name = a.name AND s.asset = a.asset
		WHERE COALESCE(a.debits_posted, -1) <> COALESCE(s.debits, 0)
		   OR COALESCE(a.credits_posted, -1) <> COALESCE(s.credits, 0)
		ORDER BY 1, 2`, args...)
	if err != nil {
		return fmt.Errorf("add up transfers: %w", err)
	}
	var f Finding
	var exists bool
	var debits, credits int64
	var debited, credited string
	_, err = pgx.ForEachRow(found, []any{&f.Account, &f.Asset, &exists, &debits, &credits, &debited, &credited}, func() error {
		f.Kind = BalanceDiffers
		f.Detail = fmt.Sprintf("the account says debits %s, credits %s; its transfers add up to debits %s, credits %s",
			a.amount(debits, f.Asset), a.amount(credits, f.Asset), a.sum(debited, f.Asset), a.sum(credited, f.Asset))
		if !exists {
			f.Detail = fmt.Sprintf("the account is not there; its transfers add up to debits %s, credits %s", a.sum(debited, f.Asset), a.sum(credited, f.Asset))
		}
		a.report.add(f)
		return nil
	})
	if err != nil {
		return fmt.Errorf("add up transfers: %w", err)
	}
	return nil
}

// totals checks that debits equal credits in every asset.
func (a *auditor) totals(ctx context.Context) error {
	found, err := a.Pool.Query(ctx, `
		SELECT asset, count(*), sum(debits_posted)::text, sum(credits_posted)::text
		FROM accounts
		GROUP BY asset
		ORDER BY asset`)
	if err != nil {
		return fmt.Errorf("add up accounts: %w", err)
	}
	var t AssetTotal
	_, err = pgx.ForEachRow(found, []any{&t.Asset, &t.Accounts, (*string)(&t.Debits), (*string)(&t.Credits)}, func() error {
		asset, _ := a.assets.Lookup(t.Asset)
		t.Exponent = asset.Exponent
		a.report.Books.Assets = append(a.report.Books.Assets, t)
		a.report.Books.Accounts += t.Accounts
		if t.Debits != t.Credits {
			a.report.add(Finding{
				Kind: TotalDiffers, Asset: t.Asset,
				Detail: fmt.Sprintf("debits %s and credits %s of all accounts differ", a.sum(t.Debits.String(), t.Asset), a.sum(t.Credits.String(), t.Asset)),
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add up accounts: %w", err)
	}
	return nil
}
