package keeper_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/keeper"
	"github.com/onceledger/onceledger/pkg/ledger"
)

func TestExpiredHoldsAreReleased(t *testing.T) {
	s := newSystem(t, "64MiB")
	limits := func(string) (ledger.Limit, bool) { return ledger.Limit{}, false }
	hold := func(operation string, expires time.Duration) ledger.Transfer {
		return ledger.Transfer{Operation: operation, Kind: ledger.KindHold, Debit: "psp", Credit: "shop", Asset: "EUR", Amount: 5, Expires: expires}
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		p := &ledger.Posting{EventNo: 1, Transfers: []ledger.Transfer{hold("gone", time.Microsecond), hold("stays", time.Hour)}}
		return ledger.Post(t.Context(), tx, limits, p)
	}))
	s.keep(func(o *keeper.Options) { o.Limits = limits }).leads()
	require.Eventually(t, func() bool {
		var pending int64
		err := s.pool.QueryRow(t.Context(), `SELECT debits_pending FROM accounts WHERE name = 'psp'`).Scan(&pending)
		return err == nil && pending == 5
	}, 20*time.Second, 5*time.Millisecond)
	var closed string
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT string_agg(key, ',') FROM holds WHERE closed = 'expired'`).Scan(&closed))
	require.Equal(t, "gone", closed)
}
