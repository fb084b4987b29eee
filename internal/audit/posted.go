package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

const (
	// postedPage is about how many transfers one statement adds up; those of
	// one transaction stay together.
	postedPage = 50_000
	// balancesPage is how many accounts one statement compares.
	balancesPage = 20_000
	// maxWrong bounds the events whose transfers are looked at in every run.
	maxWrong = 1000
)

// ledgerMark is how far the sums in audit_balances go.
type ledgerMark struct {
	cluster int64
	// before is the transaction below which every transfer is in the sums; nil
	// while they are being built.
	before   *int64
	suspects []int64
	version  int64
}

// ours are transfers that this server's transactions have posted since the sums
// began. What a dump or an older schema brought has another xmin.
const ours = `(t.xmin = t.posted_in::xid)`

// ledger adds what was posted since the last run to the sums of each account,
// compares them with the balances, and checks the new transfers. Its cursor is
// the oldest transaction that still runs: what is below is complete.
func (a *auditor) ledger(ctx context.Context, p *Progress) error {
	before := a.report.Problems
	var cluster, complete, next int64
	err := a.Pool.QueryRow(ctx, `
		SELECT system_identifier, pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint
		FROM pg_control_system(), pg_current_snapshot() AS s`).Scan(&cluster, &complete, &next)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	m, err := a.readLedger(ctx)
	if err != nil {
		return err
	}
	if err := a.recheck(ctx, m); err != nil {
		return err
	}
	broken, err := a.restored(ctx, m, cluster, next)
	if err != nil {
		return err
	}
	if broken {
		m.cluster = cluster
		err = a.rebuild(ctx, m, complete)
	} else {
		err = a.addPosted(ctx, m, complete)
	}
	if err != nil {
		return err
	}
	if err := a.keepSuspects(ctx, m); err != nil {
		return err
	}
	err = a.eachPage(ctx, balancesPage, func(ctx context.Context, name, asset, lastName, lastAsset string) error {
		if err := a.comparePending(ctx, name, asset, lastName, lastAsset); err != nil {
			return err
		}
		return a.compareBalances(ctx, sinceMark, name, asset, lastName, lastAsset, xid(*m.before))
	})
	if err != nil {
		return err
	}
	err = a.totals(ctx)
	p.MoneyDifferences = a.report.Problems - before
	return err
}

// restored reports whether the sums cannot be gone on with: there are none, or
// the transfers were brought by a dump since, from this server or another.
func (a *auditor) restored(ctx context.Context, m *ledgerMark, cluster, next int64) (bool, error) {
	if m.before == nil || m.cluster != cluster || *m.before > next {
		return true, nil
	}
	var strangers bool
	err := a.Pool.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT FROM transfers t
			WHERE posted_in >= $1::text::xid8 AND posted_in < $2::text::xid8 AND NOT `+ours+`)`, xid(*m.before), xid(next)).Scan(&strangers)
	if err != nil {
		return false, fmt.Errorf("look for restored transfers: %w", err)
	}
	return strangers, nil
}

// sinceMark moves what the sums and the transfers since have moved.
const sinceMark = `
				SELECT name, asset, debits AS debit, credits AS credit
				FROM audit_balances
				WHERE (name, asset) > ($1, $2) AND (name, asset) <= ($3, $4)
				UNION ALL
				SELECT debit, asset, amount, 0
				FROM transfers t
				WHERE posted_in >= $5::text::xid8 AND ` + ours + ` AND (debit, asset) > ($1, $2) AND (debit, asset) <= ($3, $4)
				UNION ALL
				SELECT credit, asset, 0, amount
				FROM transfers t
				WHERE posted_in >= $5::text::xid8 AND ` + ours + ` AND (credit, asset) > ($1, $2) AND (credit, asset) <= ($3, $4)`

// sums adds up the transfers in a scope by account.
const sums = `
	INSERT INTO audit_balances AS b (name, asset, debits, credits)
	SELECT name, asset, sum(debit), sum(credit)
	FROM (
		SELECT debit AS name, asset, amount AS debit, 0 AS credit
		FROM transfers t
		WHERE %[1]s
		UNION ALL
		SELECT credit, asset, 0, amount
		FROM transfers t
		WHERE %[1]s) AS moved
	GROUP BY name, asset
	ON CONFLICT (name, asset) DO UPDATE
	SET debits = b.debits + excluded.debits, credits = b.credits + excluded.credits`

const posted = `posted_in >= $1::text::xid8 AND posted_in < $2::text::xid8 AND ` + ours

// addPosted adds what was posted from the mark on and is complete, a page of
// transactions at a time.
func (a *auditor) addPosted(ctx context.Context, m *ledgerMark, complete int64) error {
	for *m.before < complete {
		from, upTo := *m.before, complete
		err := a.Pool.QueryRow(ctx, `
			SELECT posted_in::text::bigint + 1
			FROM transfers
			WHERE posted_in >= $1::text::xid8 AND posted_in < $2::text::xid8
			ORDER BY posted_in
			OFFSET $3
			LIMIT 1`, xid(from), xid(complete), postedPage).Scan(&upTo)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("page transfers: %w", err)
		}
		if err := a.compare(ctx, posted, xid(from), xid(upTo)); err != nil {
			return err
		}
		if err := a.addSums(ctx, m, &upTo, posted, xid(from), xid(upTo)); err != nil {
			return err
		}
	}
	return nil
}

// rebuild makes the sums anew, from all transfers that no later page will add:
// at the first run, and where the database came from another server's dump.
// That set does not change any more, so that it can be read page by page.
func (a *auditor) rebuild(ctx context.Context, m *ledgerMark, complete int64) error {
	if err := a.addSums(ctx, m, nil, ""); err != nil {
		return err
	}
	for after := int64(-1); ; {
		var upTo *int64
		err := a.Pool.QueryRow(ctx, `
			SELECT max(event_no)
			FROM (SELECT event_no FROM transfers WHERE event_no > $1 ORDER BY event_no LIMIT $2) AS t`, after, postedPage).Scan(&upTo)
		if err != nil {
			return fmt.Errorf("page transfers: %w", err)
		}
		if upTo == nil {
			return a.addSums(ctx, m, &complete, "")
		}
		if err := a.compare(ctx, `t.event_no > $1 AND t.event_no <= $2`, after, *upTo); err != nil {
			return err
		}
		err = a.addSums(ctx, m, nil, `event_no > $1 AND event_no <= $2 AND NOT (posted_in >= $3::text::xid8 AND `+ours+`)`, after, *upTo, xid(complete))
		if err != nil {
			return err
		}
		after = *upTo
	}
}

// addSums adds the transfers in scope and moves the mark, in one transaction,
// unless another process has moved it. With neither, it begins anew.
func (a *auditor) addSums(ctx context.Context, m *ledgerMark, before *int64, scope string, args ...any) error {
	return pgx.BeginFunc(ctx, a.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO audit_ledger AS l (cluster, posted_before, version)
			SELECT $1, $2, 1
			WHERE $3 = 0::bigint OR EXISTS (SELECT FROM audit_ledger)
			ON CONFLICT (one) DO UPDATE
			SET cluster = excluded.cluster, posted_before = excluded.posted_before, version = l.version + 1
			WHERE l.version = $3`, m.cluster, before, m.version)
		if err != nil {
			return fmt.Errorf("move the ledger's mark: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("move the ledger's mark: %w", ErrFenced)
		}
		if scope != "" {
			_, err = tx.Exec(ctx, fmt.Sprintf(sums, scope), args...)
		} else if before == nil {
			_, err = tx.Exec(ctx, `DELETE FROM audit_balances`)
		}
		if err != nil {
			return fmt.Errorf("add up transfers: %w", err)
		}
		m.before = before
		m.version++
		return nil
	})
}

func (a *auditor) readLedger(ctx context.Context) (*ledgerMark, error) {
	m := &ledgerMark{}
	err := a.Pool.QueryRow(ctx, `
		SELECT cluster, posted_before, suspects, version
		FROM audit_ledger`).Scan(&m.cluster, &m.before, &m.suspects, &m.version)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("read the ledger's mark: %w", err)
	}
	return m, nil
}

// recheck looks at the events that were applied since, and again at those whose
// transfers were wrong before: what is wrong stays reported.
func (a *auditor) recheck(ctx context.Context, m *ledgerMark) error {
	if err := a.posted(ctx, `e.no = ANY($1)`, append(m.suspects, a.step.applied...)); err != nil {
		return err
	}
	if len(m.suspects) == 0 {
		return nil
	}
	return a.compare(ctx, `t.event_no = ANY($1) AND t.posted_in < $2::text::xid8`, m.suspects, xid(m.upTo()))
}

// upTo is the end of the transfers that were compared before.
func (m *ledgerMark) upTo() int64 {
	if m.before == nil {
		return 0
	}
	return *m.before
}

// keepSuspects remembers the events whose transfers are wrong.
func (a *auditor) keepSuspects(ctx context.Context, m *ledgerMark) error {
	suspects, seen := []int64{}, map[int64]bool{}
	for _, f := range a.report.Findings {
		switch f.Kind {
		case NoOperation, NoEvent, WrongReversal, NothingPosted:
			if !seen[*f.EventNo] && len(suspects) < maxWrong {
				seen[*f.EventNo] = true
				suspects = append(suspects, *f.EventNo)
			}
		}
	}
	if len(suspects) == 0 && len(m.suspects) == 0 {
		return nil
	}
	if _, err := a.Pool.Exec(ctx, `UPDATE audit_ledger SET suspects = $1 WHERE version = $2`, suspects, m.version); err != nil {
		return fmt.Errorf("remember suspects: %w", err)
	}
	return nil
}

// xid writes a transaction's number as Postgres reads one.
func xid(n int64) string { return strconv.FormatInt(n, 10) }
