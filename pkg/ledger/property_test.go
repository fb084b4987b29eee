package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// model is the ledger as one would write it without batches or a database: one
// posting after the other, with numbers of any size.
type model struct {
	operations map[string]ledger.Transfer
	accounts   map[account][2]*big.Int
}

func newModel() *model {
	return &model{operations: map[string]ledger.Transfer{}, accounts: map[account][2]*big.Int{}}
}

func (m *model) account(k account) [2]*big.Int {
	if _, ok := m.accounts[k]; !ok {
		m.accounts[k] = [2]*big.Int{new(big.Int), new(big.Int)}
	}
	return m.accounts[k]
}

// post returns the transfers that are new, and whether it is refused.
func (m *model) post(transfers []ledger.Transfer) (posted []ledger.Transfer, refused bool) {
	fresh := map[string]ledger.Transfer{}
	grown := map[account][2]*big.Int{}
	add := func(k account, side int, amount int64) {
		if _, ok := grown[k]; !ok {
			grown[k] = [2]*big.Int{new(big.Int), new(big.Int)}
		}
		grown[k][side].Add(grown[k][side], big.NewInt(amount))
	}
	for _, t := range transfers {
		there, ok := m.operations[t.Operation]
		if !ok {
			there, ok = fresh[t.Operation]
		}
		if ok && there != t {
			return nil, true
		}
		if ok {
			continue
		}
		fresh[t.Operation] = t
		posted = append(posted, t)
		add(account{t.Debit, t.Asset}, 0, t.Amount)
		add(account{t.Credit, t.Asset}, 1, t.Amount)
	}
	for k, by := range grown {
		a := m.account(k)
		debits, credits := new(big.Int).Add(a[0], by[0]), new(big.Int).Add(a[1], by[1])
		if !debits.IsInt64() || !credits.IsInt64() {
			return nil, true
		}
		limit, ok := limits(k.Name)
		if !ok || !limit.Enforce {
			continue
		}
		if limit.Rule == ledger.DebitsMustNotExceedCredits && by[0].Sign() > 0 && debits.Cmp(credits) > 0 ||
			limit.Rule == ledger.CreditsMustNotExceedDebits && by[1].Sign() > 0 && credits.Cmp(debits) > 0 {
			return nil, true
		}
	}
	for k, by := range grown {
		a := m.account(k)
		a[0].Add(a[0], by[0])
		a[1].Add(a[1], by[1])
	}
	for key, t := range fresh {
		m.operations[key] = t
	}
	return posted, false
}

// errOverflow is what a posting is refused with that the database refused.
var errOverflow = errors.New("the database refused it")

// bisect posts as a worker does: a batch whose transaction an event is to blame
// for is halved until that event stands alone.
func bisect(ctx context.Context, pool *pgxpool.Pool, postings []*ledger.Posting, skip map[*ledger.Posting]bool) error {
	asked := make([][]ledger.Transfer, len(postings))
	var skipped []*ledger.Posting
	for i, p := range postings {
		asked[i] = p.Transfers
		if skip[p] {
			skipped = append(skipped, p)
		}
	}
	err := post(ctx, pool, postings, skipped...)
	for i, p := range postings {
		p.Transfers = asked[i]
	}
	switch {
	case err == nil || state(err) != "22003":
		return err
	case len(postings) == 1:
		postings[0].Posted, postings[0].Err = nil, errOverflow
		return nil
	}
	half := len(postings) / 2
	if err := bisect(ctx, pool, postings[:half], skip); err != nil {
		return err
	}
	return bisect(ctx, pool, postings[half:], skip)
}

func transfers(prefix string) *rapid.Generator[ledger.Transfer] {
	accounts := []string{"world", "shop", "wallet", "wallet2", "card", "fact"}
	amounts := rapid.OneOf(rapid.Int64Range(1, 20), rapid.SampledFrom([]int64{1 << 62, math.MaxInt64, math.MaxInt64 - 5}))
	return rapid.Custom(func(t *rapid.T) ledger.Transfer {
		pair := rapid.Permutation(accounts).Draw(t, "accounts")
		if rapid.Bool().Draw(t, "funding") { // else the limited accounts stay empty
			pair = []string{"world", rapid.SampledFrom(accounts[1:]).Draw(t, "funded")}
		}
		return ledger.Transfer{
			Operation: fmt.Sprint(prefix, "op", rapid.IntRange(0, 30).Draw(t, "operation")),
			Debit:     prefix + pair[0], Credit: prefix + pair[1],
			Asset:  rapid.SampledFrom([]string{"EUR", "EUR", "GEMS"}).Draw(t, "asset"),
			Amount: amounts.Draw(t, "amount"),
		}
	})
}

func TestAnySequenceOfBatchesIsTheModel(t *testing.T) {
	t.Parallel()
	pool := open(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		prefix := fmt.Sprintf("r%d/", round)
		var postings []*ledger.Posting
		skip := map[*ledger.Posting]bool{}
		for range rapid.IntRange(1, 25).Draw(rt, "events") {
			p := event(rapid.SliceOfN(transfers(prefix), 1, 3).Draw(rt, "transfers")...)
			if len(postings) > 0 && rapid.IntRange(0, 2).Draw(rt, "repeat") == 0 { // the same money as another event
				p.Transfers = slices.Clone(rapid.SampledFrom(postings).Draw(rt, "repeated").Transfers)
			}
			skip[p] = rapid.IntRange(0, 9).Draw(rt, "skip") == 0
			postings = append(postings, p)
		}

		// Whatever the split into batches, every posting fares as in the model.
		for rest := postings; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "batch")
			require.NoError(rt, bisect(t.Context(), pool, rest[:n], skip))
			rest = rest[n:]
		}
		m := newModel()
		var applied []*ledger.Posting
		for i, p := range postings {
			if skip[p] {
				require.Empty(rt, p.Posted)
				require.NoError(rt, p.Err)
				continue
			}
			posted, refused := m.post(p.Transfers)
			require.Equal(rt, refused, p.Err != nil, "posting %d: %v", i, p.Err)
			require.Len(rt, p.Posted, len(posted))
			if len(posted) > 0 {
				require.Equal(rt, posted, p.Posted)
			}
			if p.Err == nil {
				applied = append(applied, event(p.Transfers...))
			} else if !errors.Is(p.Err, errOverflow) {
				require.True(rt, isRefusal(p.Err))
			}
		}
		have, err := readBooks(t.Context(), pool, prefix)
		require.NoError(rt, err)
		require.NoError(rt, have.check())
		require.Equal(rt, m.operations, have.Operations)
		requireSound(rt, have)

		// The same money in other events changes nothing, in any split and order.
		applied = rapid.Permutation(applied).Draw(rt, "replay")
		for rest := applied; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "replayed batch")
			require.NoError(rt, bisect(t.Context(), pool, rest[:n], nil))
			rest = rest[n:]
		}
		for _, p := range applied {
			require.NoError(rt, p.Err)
			require.Empty(rt, p.Posted)
		}
		again, err := readBooks(t.Context(), pool, prefix)
		require.NoError(rt, err)
		require.Equal(rt, have, again)
	})
}

// requireSound holds the books to what must hold of any: debits are credits in
// each asset, and no enforced limit is passed.
func requireSound(t rapid.TB, b books) {
	total := map[string]*big.Int{}
	for k, s := range b.Accounts {
		if total[k.Asset] == nil {
			total[k.Asset] = new(big.Int)
		}
		total[k.Asset].Add(total[k.Asset], big.NewInt(s.Debits)).Sub(total[k.Asset], big.NewInt(s.Credits))
		if limit, ok := limits(k.Name); ok && limit.Enforce {
			bounded, bound := s.Debits, s.Credits
			if limit.Rule == ledger.CreditsMustNotExceedDebits {
				bounded, bound = bound, bounded
			}
			require.LessOrEqual(t, bounded, bound, k)
		}
	}
	for asset, sum := range total {
		require.Zero(t, sum.Sign(), asset)
	}
}
