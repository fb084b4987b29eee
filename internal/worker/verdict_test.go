package worker

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/ledger"
)

func TestVerdictsOfTheDatabasesErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]verdict{
		"40001": again, "40P01": again, "55P03": again, "57014": again,
		"22012": again, // only the ledger divides, where a locked row is elsewhere
		"22003": blame, "22021": blame, "23514": blame, "23505": blame,
		"08006": unavailable, "25006": unavailable, "42P01": unavailable, "53200": unavailable, "57P01": unavailable, "58030": unavailable,
	} {
		require.Equal(t, want, verdictOf(fmt.Errorf("write batch: %w", &pgconn.PgError{Code: code})), code)
	}
	require.Equal(t, again, verdictOf(fmt.Errorf("post: %w", ledger.ErrRace)))
	require.Equal(t, unavailable, verdictOf(context.DeadlineExceeded), "nobody knows what became of COMMIT")
}
