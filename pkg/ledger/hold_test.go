package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// soon is an end of holds that has come by the next transaction.
const soon = time.Microsecond

// openHolds is open without the compiler of Postgres, which takes far longer than the
// checks that it is for.
func openHolds(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return pgtest.Patient(t, pgtest.With(t, pgtest.Migrated(t, stack.DatabaseURL), "jit", "off"), postgres.Worker)
}

// holding holds an amount of a wallet.
func holding(operation, debit, credit string, amount int64) ledger.Transfer {
	t := move(operation, debit, credit, amount)
	t.Kind, t.Expires = ledger.KindHold, time.Hour
	return t
}

func brief(t ledger.Transfer) ledger.Transfer {
	t.Expires = soon
	return t
}

// capture takes an amount out of a hold of the wallet for the shop.
func capture(operation, hold string, amount int64) ledger.Transfer {
	t := child(operation, hold, "wallet", "shop", amount)
	t.Kind = ledger.KindCapture
	return t
}

func final(t ledger.Transfer) ledger.Transfer {
	t.Final = true
	return t
}

func fact(t ledger.Transfer) ledger.Transfer {
	t.Fact = true
	return t
}

func void(operation, hold string) ledger.Transfer {
	return ledger.Transfer{Operation: operation, Kind: ledger.KindVoid, Parent: hold}
}

// heldOf is what is held of an account on its debit side.
func heldOf(t testing.TB, pool *pgxpool.Pool, name string) int64 {
	t.Helper()
	accounts, err := ledger.Balances(t.Context(), pool, name)
	require.NoError(t, err)
	for _, a := range accounts {
		if a.Code == "EUR" {
			return a.DebitsPending
		}
	}
	return 0
}

// checkHolds adds up what is held, as far as names begin with prefix: the rows of
// holds by the operations about them, and the rows of accounts by those of holds.
func checkHolds(ctx context.Context, pool *pgxpool.Pool, prefix string) error {
	for what, query := range map[string]string{
		"captures": `
			SELECT h.key || ': ' || h.captured || ' captured, operations ' || COALESCE(sum(o.amount), 0)
			FROM holds h
			LEFT JOIN operations o ON o.hold = h.key AND o.kind <> 'void' AND o.asset = h.asset
			WHERE starts_with(h.key, $1)
			GROUP BY h.key
			HAVING h.captured <> COALESCE(sum(o.amount), 0)`,
		"ends": `
			SELECT h.key || ' is ' || COALESCE(h.closed, 'open')
			FROM holds h
			WHERE starts_with(h.key, $1)
			  AND (h.closed IS NULL AND EXISTS (SELECT FROM operations o WHERE o.hold = h.key AND o.kind IN ('final_capture', 'void') AND (o.kind = 'void' OR o.asset = h.asset))
			       OR h.closed = 'final' AND NOT EXISTS (SELECT FROM operations o WHERE o.hold = h.key AND o.kind = 'final_capture')
			       OR h.closed = 'voided' AND NOT EXISTS (SELECT FROM operations o WHERE o.hold = h.key AND o.kind = 'void')
			       OR h.closed = 'expired' AND h.expires_at > now())`,
		"covers": `
			SELECT h.key || ': ' || sum(t.amount - COALESCE(t.uncovered, 0)) || ' covered of ' || COALESCE(h.amount, 0)
			FROM holds h
			JOIN operations o ON o.hold = h.key AND o.kind <> 'void'
			JOIN transfers t ON t.event_no = o.event_no AND t.operation = o.key
			WHERE starts_with(h.key, $1)
			GROUP BY h.key
			HAVING sum(t.amount - COALESCE(t.uncovered, 0)) > COALESCE(h.amount, 0)`,
		"operations": `
			SELECT COALESCE(h.key, o.key) || ' has no hold, or the reverse'
			FROM (SELECT * FROM holds WHERE amount IS NOT NULL) AS h
			FULL JOIN (SELECT * FROM operations WHERE kind = 'hold') AS o
			     ON (o.key, o.event_no, o.debit, o.credit, o.asset, o.amount) = (h.key, h.event_no, h.debit, h.credit, h.asset, h.amount)
			WHERE (h.key IS NULL OR o.key IS NULL) AND starts_with(COALESCE(h.key, o.key), $1)`,
		"accounts": `
			SELECT a.name || ': ' || a.debits_pending || '/' || a.credits_pending || ' pending'
			FROM accounts a
			WHERE starts_with(a.name, $1)
			  AND (a.debits_pending <> (SELECT COALESCE(sum(held), 0) FROM holds WHERE debit = a.name AND asset = a.asset)
			       OR a.credits_pending <> (SELECT COALESCE(sum(held), 0) FROM holds WHERE credit = a.name AND asset = a.asset))`,
	} {
		rows, err := pool.Query(ctx, query, prefix)
		if err != nil {
			return err
		}
		wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(wrong) > 0 {
			return fmt.Errorf("%s: %q, %w", what, wrong, err)
		}
	}
	return nil
}

// under puts a transfer with all it names under a prefix.
func under(prefix string, t ledger.Transfer) ledger.Transfer {
	t.Operation = prefix + t.Operation
	for _, name := range []*string{&t.Debit, &t.Credit, &t.Parent} {
		if *name != "" {
			*name = prefix + *name
		}
	}
	return t
}

func TestHoldsAndWhatBecomesOfThem(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	gone := brief(holding("hold", "wallet", "shop", 60))
	inDollars := capture("usd", "hold", 5)
	inDollars.Asset = "USD"
	hold := holding("hold", "wallet", "shop", 60)
	spend := func(amount int64) ledger.Transfer { return move(fmt.Sprint("spend", amount), "wallet", "shop", amount) }
	aside := capture("aside", "hold", 20)
	aside.Debit, aside.Credit = "world", "fees"
	type ask struct {
		t   ledger.Transfer
		err error
	}
	for name, c := range map[string]struct {
		asks         []ask // each in a batch of its own, on a wallet of 100
		spent, held  int64
		uncovered    map[string]int64
		oneBatchToo  bool // decided alike in one batch
		backwardsToo bool // and in one batch backwards
	}{
		"a hold is not spent": {asks: []ask{{hold, nil}, {spend(41), ledger.ErrInsufficientFunds}, {spend(40), nil}},
			spent: 40, held: 60, oneBatchToo: true},
		"more than there is is not held": {asks: []ask{{spend(41), nil}, {hold, ledger.ErrInsufficientFunds}},
			spent: 41, oneBatchToo: true},
		"two holds beside each other": {asks: []ask{{hold, nil}, {holding("b", "wallet", "shop", 41), ledger.ErrInsufficientFunds}, {holding("c", "wallet", "shop", 40), nil}},
			held: 100, oneBatchToo: true},
		"captured in full, although nothing else is left": {asks: []ask{{hold, nil}, {spend(40), nil}, {capture("c", "hold", 60), nil}},
			spent: 100, oneBatchToo: true},
		"in parts": {asks: []ask{{hold, nil}, {capture("a", "hold", 10), nil}, {capture("b", "hold", 50), nil}},
			spent: 60, oneBatchToo: true, backwardsToo: true},
		"in part": {asks: []ask{{hold, nil}, {capture("a", "hold", 10), nil}, {spend(41), ledger.ErrInsufficientFunds}},
			spent: 10, held: 50, oneBatchToo: true, backwardsToo: false},
		"for the last time": {asks: []ask{{hold, nil}, {final(capture("a", "hold", 10)), nil}, {spend(90), nil}, {capture("b", "hold", 1), ledger.ErrHoldClosed}},
			spent: 100, oneBatchToo: true},
		"more than it": {asks: []ask{{hold, nil}, {capture("a", "hold", 61), ledger.ErrOverCapture}, {capture("b", "hold", 50), nil}, {capture("c", "hold", 11), ledger.ErrOverCapture}},
			spent: 50, held: 10, oneBatchToo: true},
		"after all of it":  {asks: []ask{{hold, nil}, {capture("a", "hold", 60), nil}, {capture("b", "hold", 1), ledger.ErrHoldClosed}}, spent: 60, oneBatchToo: true},
		"in another asset": {asks: []ask{{hold, nil}, {inDollars, ledger.ErrOverCapture}}, held: 60, oneBatchToo: true, backwardsToo: true},
		"voided":           {asks: []ask{{hold, nil}, {void("v", "hold"), nil}, {capture("a", "hold", 1), ledger.ErrHoldClosed}, {spend(100), nil}}, spent: 100, oneBatchToo: true},
		"voided what is left": {asks: []ask{{hold, nil}, {capture("a", "hold", 10), nil}, {void("v", "hold"), nil}, {spend(90), nil}},
			spent: 100, oneBatchToo: true},
		"voided twice":                        {asks: []ask{{hold, nil}, {void("v", "hold"), nil}, {void("w", "hold"), nil}}, oneBatchToo: true, backwardsToo: true},
		"voided after all of it":              {asks: []ask{{hold, nil}, {capture("a", "hold", 60), nil}, {void("v", "hold"), ledger.ErrHoldClosed}}, spent: 60, oneBatchToo: true},
		"the last of nothing":                 {asks: []ask{{hold, nil}, {final(void("v", "hold")), nil}, {capture("a", "hold", 1), ledger.ErrHoldClosed}, {spend(100), nil}}, spent: 100, oneBatchToo: true},
		"the last of nothing after all of it": {asks: []ask{{hold, nil}, {capture("a", "hold", 60), nil}, {final(void("v", "hold")), nil}}, spent: 60, oneBatchToo: true},
		"the last of nothing after the last":  {asks: []ask{{hold, nil}, {final(capture("a", "hold", 6)), nil}, {final(void("v", "hold")), nil}}, spent: 6, oneBatchToo: true},
		"voided after the last":               {asks: []ask{{hold, nil}, {final(capture("a", "hold", 6)), nil}, {void("v", "hold"), ledger.ErrHoldClosed}}, spent: 6, oneBatchToo: true},
		"expired":                             {asks: []ask{{gone, nil}, {capture("a", "hold", 1), ledger.ErrHoldClosed}, {spend(100), nil}}, spent: 100},
		"expired, and nobody comes to it": {asks: []ask{{gone, nil}, {spend(101), ledger.ErrInsufficientFunds}, {spend(100), nil}},
			spent: 100},
		"expired, and another is opened": {asks: []ask{{gone, nil}, {holding("b", "wallet", "shop", 100), nil}, {spend(1), ledger.ErrInsufficientFunds}}, held: 100},
		"voided after its end":           {asks: []ask{{gone, nil}, {void("v", "hold"), nil}}},
		"there is none":                  {asks: []ask{{capture("a", "hold", 1), ledger.ErrMissingParent}, {void("v", "hold"), ledger.ErrMissingParent}}, oneBatchToo: true, backwardsToo: true},
		"not a hold": {asks: []ask{{spend(5), nil}, {capture("a", "spend5", 1), ledger.ErrMissingParent}, {void("v", "spend5"), ledger.ErrMissingParent}},
			spent: 5, oneBatchToo: true, backwardsToo: true},
		"a fact in time is no fact": {asks: []ask{{hold, nil}, {fact(capture("a", "hold", 60)), nil}}, spent: 60, oneBatchToo: true, backwardsToo: true},
		"a fact beyond it": {asks: []ask{{hold, nil}, {fact(capture("a", "hold", 61)), nil}}, spent: 61, uncovered: map[string]int64{"a": 1},
			oneBatchToo: true, backwardsToo: true},
		"a fact after its end":      {asks: []ask{{gone, nil}, {fact(capture("a", "hold", 60)), nil}}, spent: 60, uncovered: map[string]int64{"a": 60}},
		"a fact after the void":     {asks: []ask{{hold, nil}, {void("v", "hold"), nil}, {fact(capture("a", "hold", 60)), nil}}, spent: 60, uncovered: map[string]int64{"a": 60}, oneBatchToo: true},
		"a fact without a hold":     {asks: []ask{{fact(capture("a", "hold", 60)), nil}}, spent: 60, uncovered: map[string]int64{"a": 60}, oneBatchToo: true},
		"a fact before its hold":    {asks: []ask{{fact(capture("a", "hold", 45)), nil}, {hold, nil}, {capture("b", "hold", 16), ledger.ErrOverCapture}}, spent: 45, held: 15, uncovered: map[string]int64{"a": 45}},
		"the last one before it":    {asks: []ask{{final(fact(capture("a", "hold", 45))), nil}, {hold, nil}}, spent: 45, uncovered: map[string]int64{"a": 45}},
		"more than it before it":    {asks: []ask{{fact(capture("a", "hold", 65)), nil}, {hold, nil}, {void("v", "hold"), ledger.ErrHoldClosed}}, spent: 65, uncovered: map[string]int64{"a": 65}},
		"a fact in another asset":   {asks: []ask{{hold, nil}, {fact(inDollars), ledger.ErrInsufficientFunds}}, held: 60, oneBatchToo: true, backwardsToo: true},
		"between other accounts":    {asks: []ask{{hold, nil}, {aside, nil}}, held: 40, oneBatchToo: true, backwardsToo: true},
		"a fact without money":      {asks: []ask{{hold, nil}, {fact(capture("b", "none", 41)), ledger.ErrInsufficientFunds}, {fact(capture("a", "none", 40)), nil}}, spent: 40, held: 60, uncovered: map[string]int64{"a": 40}, oneBatchToo: true},
		"a refused hold is not one": {asks: []ask{{holding("hold", "wallet", "shop", 101), ledger.ErrInsufficientFunds}, {capture("a", "hold", 1), ledger.ErrMissingParent}}, oneBatchToo: true, backwardsToo: true},
		"a fact of a refused hold":  {asks: []ask{{holding("hold", "wallet", "shop", 101), ledger.ErrInsufficientFunds}, {fact(capture("a", "hold", 1)), nil}}, spent: 1, uncovered: map[string]int64{"a": 1}, oneBatchToo: true, backwardsToo: true},
		"a refund of a hold is none": {asks: []ask{{hold, nil}, {func() ledger.Transfer { r := child("r", "hold", "shop", "wallet", 1); r.Refund = true; return r }(), ledger.ErrMissingParent}},
			held: 60, oneBatchToo: true, backwardsToo: true},
		"a refund of a capture": {asks: []ask{{hold, nil}, {capture("a", "hold", 60), nil}, {func() ledger.Transfer { r := child("r", "a", "shop", "wallet", 60); r.Refund = true; return r }(), nil},
			{capture("b", "hold", 1), ledger.ErrHoldClosed}}, spent: 0, oneBatchToo: true},
	} {
		run := func(t *testing.T, batches [][]ask) {
			prefix := t.Name() + "/"
			mustPost(t, pool, event(move(prefix+"fund", prefix+"world", prefix+"wallet", 100)))
			for range 2 { // the second time, all that was posted is there already
				for _, batch := range batches {
					var postings []*ledger.Posting
					for _, a := range batch {
						postings = append(postings, event(under(prefix, a.t)))
					}
					mustPost(t, pool, postings...)
					for i, p := range postings {
						if want := batch[i].err; want == nil {
							require.NoError(t, p.Err, p.Transfers)
						} else {
							require.ErrorIs(t, p.Err, want, p.Transfers)
						}
					}
				}
				b, err := readBooks(t.Context(), pool, prefix)
				require.NoError(t, err)
				require.NoError(t, b.check())
				require.NoError(t, checkHolds(t.Context(), pool, prefix))
				wallet := b.balance(prefix + "wallet")
				require.Equal(t, c.spent, 100-(wallet.Credits-wallet.Debits))
				require.Equal(t, c.held, heldOf(t, pool, prefix+"wallet"))
				marks := uncovered(t, pool, prefix)
				require.Len(t, marks, len(c.uncovered))
				for key, amount := range c.uncovered {
					require.Equal(t, amount, marks[prefix+key])
				}
			}
		}
		t.Run(name, func(t *testing.T) {
			var batches [][]ask
			for _, a := range c.asks {
				batches = append(batches, []ask{a})
			}
			run(t, batches)
		})
		if c.oneBatchToo {
			t.Run(name+", in one batch", func(t *testing.T) { run(t, [][]ask{c.asks}) })
		}
		if c.backwardsToo {
			backwards := make([]ask, 0, len(c.asks))
			for i := range c.asks {
				backwards = append(backwards, c.asks[len(c.asks)-1-i])
			}
			t.Run(name+", backwards", func(t *testing.T) { run(t, [][]ask{backwards}) })
		}
	}
}

// uncovered are the marks of facts, by operation.
func uncovered(t testing.TB, pool *pgxpool.Pool, prefix string) map[string]int64 {
	t.Helper()
	marks := map[string]int64{}
	var key string
	var amount int64
	rows, err := pool.Query(t.Context(), `SELECT operation, uncovered FROM transfers WHERE uncovered IS NOT NULL AND starts_with(operation, $1)`, prefix)
	require.NoError(t, err)
	_, err = pgx.ForEachRow(rows, []any{&key, &amount}, func() error { marks[key] = amount; return nil })
	require.NoError(t, err)
	return marks
}
