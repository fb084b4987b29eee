package operator_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

type command = func(context.Context, *operator.Session) error

func balanceAt(account string, at time.Time) command {
	return func(ctx context.Context, o *operator.Session) error { return operator.ShowBalance(ctx, o, account, at) }
}

func statementOf(q operator.StatementQuery) command {
	return func(ctx context.Context, o *operator.Session) error { return operator.ShowStatement(ctx, o, q) }
}

func trialBalance(at time.Time, asset string, accounts bool) command {
	return func(ctx context.Context, o *operator.Session) error {
		return operator.TrialBalance(ctx, o, at, asset, accounts)
	}
}

// book writes transfers of May and June 2024, with a correction of a payment of
// May in June, and the balances that they add up to.
func (s *system) book() {
	s.t.Helper()
	pgtest.Exec(s.t, s.env["DATABASE_URL"],
		`INSERT INTO assets VALUES ('GEMS', 0)`,
		`INSERT INTO events (no, source, event_id, variant, state, outcome, type, occurred_at, body_hash, fingerprint, rules_version, stream_created, seq)
		 VALUES (2, 'shop', 'evt_2', '', 'completed', 'applied', 'paid', '2024-05-29 08:15:00Z', decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), 1, now(), 2)`,
		`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, reverses, created_at) VALUES
		 (1, 0, '4:shop,0:,0:,7:payment,2:p1,', 'shop:due', 'purse:a', 'EUR', 1999, NULL, '2024-05-01Z'),
		 (1, 1, '4:shop,0:,0:,3:fee,2:p1,', 'purse:a', 'fees', 'EUR', 59, NULL, '2024-05-01Z'),
		 (2, 0, '4:shop,0:,0:,7:payment,2:p2,', 'shop:due', 'purse:a', 'EUR', 10000, NULL, '2024-05-31 23:59:59.999999Z'),
		 (3, 0, '4:shop,0:,0:,7:payment,2:p3,', 'shop:due', 'purse:a', 'EUR', 1, NULL, '2024-06-01Z'),
		 (4, 0, '4:shop,0:,0:,4:gift,2:g1,', 'mint', 'purse:a', 'GEMS', 7, NULL, '2024-06-02Z'),
		 (2, 1, '4:shop,0:,0:,7:payment,2:p2,', 'purse:a', 'shop:due', 'EUR', 10000, 0, '2024-06-03Z'),
		 (2, 2, '4:shop,0:,0:,7:payment,2:p2,', 'shop:due', 'purse:a', 'EUR', 1000, NULL, '2024-06-03Z')`,
		`INSERT INTO accounts (name, asset, debits_posted, credits_posted, opened_at)
		 SELECT name, asset, sum(debit), sum(credit), min(at)
		 FROM (SELECT debit AS name, asset, amount AS debit, 0 AS credit, created_at AS at FROM transfers
		       UNION ALL
		       SELECT credit, asset, 0, amount, created_at FROM transfers) AS moved
		 GROUP BY name, asset`)
}

func day(month time.Month, day int) time.Time {
	return time.Date(2024, month, day, 0, 0, 0, 0, time.UTC)
}

// What an accountant asks for, in each form.
func TestBooks(t *testing.T) {
	s := newSystem(t)
	s.book()
	may := operator.StatementQuery{Account: "purse:a", Asset: "EUR", From: day(5, 1), To: day(6, 1)}
	june := operator.StatementQuery{Account: "purse:a", Asset: "EUR", From: day(6, 1), To: day(7, 1)}
	page := operator.StatementQuery{Account: "purse:a", Asset: "EUR", Limit: 2, After: "1.0"}
	for name, run := range map[string]command{
		"books_balance":        balanceAt("purse:a", day(6, 1)),
		"books_statement":      statementOf(june),
		"books_statement_page": statementOf(page),
		"books_trial":          trialBalance(time.Time{}, "", false),
		"books_trial_at":       trialBalance(day(6, 1), "", false),
		"books_trial_accounts": trialBalance(day(6, 1), "", true),
	} {
		for suffix, asJSON := range map[string]bool{".txt": false, ".json": true} {
			out, err := s.run(asJSON, run)
			require.NoError(t, err)
			verbatim(t, name+suffix, out)
		}
		out, _ := s.csv(run)
		verbatim(t, name+".csv", strings.ReplaceAll(out, "\r\n", "\n"))
	}

	t.Run("months meet", func(t *testing.T) {
		_, first := s.csv(statementOf(may))
		_, second := s.csv(statementOf(june))
		balance := 7
		require.Equal(t, "balance_minor", first[0][balance])
		require.Equal(t, "0", first[1][balance])
		require.Equal(t, "11940", first[len(first)-1][balance])
		require.Equal(t, first[len(first)-1][balance], second[1][balance])
		require.Equal(t, "2941", second[len(second)-1][balance])
		require.Len(t, first, 3+3)
		require.Len(t, second, 3+3)
	})
	t.Run("an account that has not moved yet has nothing", func(t *testing.T) {
		out, err := s.run(true, balanceAt("purse:a", day(5, 1)))
		require.NoError(t, err)
		for _, b := range lines[operator.Balance](t, out) {
			require.Zero(t, b.Debits+b.Credits+b.Balance)
			require.True(t, b.Final)
		}
		out, err = s.run(false, trialBalance(day(5, 1), "", true))
		require.NoError(t, err)
		require.Equal(t, "before 2024-05-01 00:00:00Z\n\nno accounts then\n", out)
	})
	t.Run("only one asset", func(t *testing.T) {
		out, err := s.run(true, trialBalance(time.Time{}, "GEMS", true))
		require.NoError(t, err)
		require.Len(t, lines[operator.TrialAccount](t, out), 2)
	})
	t.Run("what is asked wrongly is a usage error that says what to do", func(t *testing.T) {
		for text, run := range map[string]command{
			"is not before --to": statementOf(operator.StatementQuery{Account: "purse:a", Asset: "EUR", From: day(6, 1), To: day(6, 1)}),
			"was recorded at 2024-06-01T00:00:00Z, not before --to": statementOf(operator.StatementQuery{Account: "purse:a", Asset: "EUR", To: day(6, 1), After: "3.0"}),
			"take the cursor from": statementOf(operator.StatementQuery{Account: "purse:a", Asset: "EUR", After: "4.0"}),
			"is no entry of":       statementOf(operator.StatementQuery{Account: "purse:a", Asset: "EUR", After: "99.0"}),
			"of account fees":      statementOf(operator.StatementQuery{Account: "fees", After: "1.0"}),
			"choose one with":      statementOf(operator.StatementQuery{Account: "purse:a"}),
			"do not go together": func(ctx context.Context, o *operator.Session) error {
				o.CSV, o.JSON = true, true
				return operator.ListAccounts(ctx, o, "", "", "")
			},
			"is not a cursor, as in": statementOf(operator.StatementQuery{Account: "purse:a", After: "1.99999"}),
		} {
			_, err := s.run(false, run)
			require.ErrorContains(t, err, text)
			require.Equal(t, exit.Usage, exit.Code(err), text)
		}
		_, err := s.run(false, balanceAt("purse:none", day(6, 1)))
		require.ErrorContains(t, err, "onceledger account list")
	})
	t.Run("what somebody changed by hand is found", func(t *testing.T) {
		pgtest.Exec(t, s.env["DATABASE_URL"], `UPDATE accounts SET credits_posted = credits_posted + 1 WHERE name = 'fees'`)
		for _, run := range []command{trialBalance(time.Time{}, "", false), trialBalance(time.Now(), "EUR", false), trialBalance(time.Time{}, "", true)} {
			_, err := s.run(false, run)
			require.EqualError(t, err, "debits and credits of EUR differ; `onceledger audit` names the accounts")
			require.Equal(t, exit.Found, exit.Code(err))
		}
		_, err := s.run(false, trialBalance(time.Time{}, "GEMS", true))
		require.NoError(t, err)
	})
}

// A statement longer than a page, and than a screen, is one statement.
func TestALongStatement(t *testing.T) {
	s := newSystem(t)
	const n = 2500 // pages of 1,000
	pgtest.Exec(t, s.env["DATABASE_URL"],
		`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, created_at)
		 SELECT i / 10, i % 10, 'o' || i, 'a', 'b', 'EUR', 1, timestamptz '2024-05-01Z' + i / 50 * interval '1 second' FROM generate_series(0, 2499) AS i`,
		`INSERT INTO accounts (name, asset, debits_posted, credits_posted, opened_at) VALUES
		 ('a', 'EUR', 2500, 0, '2024-05-01Z'), ('b', 'EUR', 0, 2500, '2024-05-01Z')`)
	out, err := s.run(true, statementOf(operator.StatementQuery{Account: "b"}))
	require.NoError(t, err)
	all := lines[operator.Entry](t, out)
	require.Len(t, all, n+2)
	for i, e := range all[1 : n+1] {
		require.Equal(t, "o"+strconv.Itoa(i), e.Operation)
		require.EqualValues(t, i+1, e.Balance)
	}
	require.Equal(t, "closing", all[n+1].Kind)

	out, err = s.run(true, statementOf(operator.StatementQuery{Account: "b", Limit: 1700}))
	require.NoError(t, err)
	some := lines[operator.Entry](t, out)
	require.Len(t, some, 1702)
	require.Equal(t, "carried", some[1701].Kind)
	out, err = s.run(true, statementOf(operator.StatementQuery{Account: "b", After: some[1701].Cursor}))
	require.NoError(t, err)
	rest := lines[operator.Entry](t, out)
	require.EqualValues(t, 1700, rest[0].Balance)
	require.Equal(t, all[1701:], rest[1:])

	_, err = s.run(false, statementOf(operator.StatementQuery{Account: "b"}))
	require.NoError(t, err)
	out, err = s.run(false, trialBalance(day(5, 2), "", true))
	require.NoError(t, err)
	require.Contains(t, out, "25.00")
}

// An instant that may still get transfers says so.
func TestWhatIsNotFinalSaysSo(t *testing.T) {
	s := newSystem(t)
	s.book()
	conn, err := pgx.Connect(t.Context(), s.env["DATABASE_URL"])
	require.NoError(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	var at time.Time
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&at))

	out, err := s.run(true, balanceAt("purse:a", at))
	require.NoError(t, err)
	require.False(t, lines[operator.Balance](t, out)[0].Final)
	june := operator.StatementQuery{Account: "purse:a", Asset: "EUR", To: at}
	for _, run := range []command{balanceAt("purse:a", at), trialBalance(at, "", false), statementOf(june)} {
		out, err := s.run(false, run)
		require.NoError(t, err)
		require.Contains(t, out, "not final: a transaction that began before")
	}
	require.NoError(t, tx.Rollback(t.Context()))
	out, err = s.run(true, balanceAt("purse:a", at))
	require.NoError(t, err)
	require.True(t, lines[operator.Balance](t, out)[0].Final)
	out, err = s.run(true, statementOf(june))
	require.NoError(t, err)
	closing := lines[operator.Entry](t, out)
	require.True(t, *closing[len(closing)-1].Final)
	out, err = s.run(false, balanceAt("purse:a", time.Now().Add(time.Hour)))
	require.NoError(t, err)
	require.Contains(t, out, "is still to come")
}

// Names, ids and operations come from senders: a spreadsheet must not run them.
func TestACSVHoldsNoFormulas(t *testing.T) {
	s := newSystem(t)
	evil := []string{`=HYPERLINK("http://x","y")`, "+1", "-1+1", "@SUM(A1)", "＝1", `a"b,c`}
	for i, text := range evil {
		body, err := json.Marshal(map[string]any{
			"id": text, "type": "paid", "payment": text, "from": text, "to": "purse:a", "amount": i + 1, "asset": "EUR",
		})
		require.NoError(t, err)
		s.publish(event(text, "paid", string(body)))
	}
	s.work(s.settle)
	// Rules refuse control characters; other programs may have posted them.
	conn, err := pgx.Connect(t.Context(), s.env["DATABASE_URL"])
	require.NoError(t, err)
	defer conn.Close(context.Background())
	for i, text := range []string{"\t=1", "\r=1", "a\nb", "\x1b[2J"} {
		_, err := conn.Exec(t.Context(), `
			INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount)
			VALUES ($1, 0, $2, $2, 'purse:a', 'EUR', 1)`, 1_000_000+i, text)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `INSERT INTO accounts (name, asset, debits_posted) VALUES ($1, 'EUR', 1)`, text)
		require.NoError(t, err)
		evil = append(evil, text)
	}
	_, err = conn.Exec(t.Context(), `UPDATE accounts SET credits_posted = credits_posted + 4 WHERE name = 'purse:a'`)
	require.NoError(t, err)
	for _, run := range []command{
		func(ctx context.Context, o *operator.Session) error { return operator.ListAccounts(ctx, o, "", "", "") },
		balanceAt("=HYPERLINK(\"http://x\",\"y\")", time.Time{}), balanceAt("+1", day(5, 1)),
		statementOf(operator.StatementQuery{Account: "purse:a"}), statementOf(operator.StatementQuery{Account: "@SUM(A1)"}),
		trialBalance(time.Time{}, "", true), trialBalance(time.Time{}, "", false),
	} {
		out, records := s.csv(run)
		require.NotContains(t, out, "\x1b")
		require.Equal(t, strings.Count(out, "\n"), strings.Count(out, "\r\n"))
		require.Greater(t, len(records), 1)
		for _, record := range records {
			for _, cell := range record {
				_, err := strconv.ParseFloat(cell, 64)
				require.True(t, err == nil || strings.IndexAny(cell, "=+-@\t\r＝") != 0, "%q", cell)
			}
		}
	}
	_, records := s.csv(statementOf(operator.StatementQuery{Account: "purse:a"}))
	require.Len(t, records, len(evil)+3)
	out, err := s.run(true, statementOf(operator.StatementQuery{Account: "purse:a"}))
	require.NoError(t, err)
	var others []string
	for _, e := range lines[operator.Entry](t, out) {
		if e.Kind == "entry" {
			others = append(others, e.Other)
		}
	}
	require.ElementsMatch(t, evil, others, "JSON has names as they are")
}
