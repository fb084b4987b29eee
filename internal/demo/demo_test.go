package demo

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/local"
)

func TestMain(m *testing.M) {
	local.Main()
	os.Exit(m.Run())
}

// small is enough for every kind of event and takes seconds.
var small = size{events: 900, deliveries: 1_300}

// run runs a small demo; where a service is not installed, it skips.
func run(t *testing.T, o Options) (*Report, error) {
	t.Helper()
	o.size = small
	report, err := Run(t.Context(), o)
	if errors.Is(err, devstack.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	return report, err
}

func TestDemoIsRightToTheCent(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	report, err := run(t, Options{Seed: 5, Out: &out})
	require.NoError(t, err)
	require.True(t, report.Equal)
	require.Empty(t, report.Differences)
	require.True(t, report.Audit.Clean)
	require.Equal(t, 1_300, report.Accepted+report.Refused)
	require.Positive(t, report.Killed.Unanswered)
	require.Positive(t, report.AckP50Millis)
	require.LessOrEqual(t, report.AckP50Millis, report.AckP99Millis)
	require.Equal(t, report.Accepted, report.Applied+report.Ignored+report.DuplicateOperation+report.Parked+report.Duplicates)
	require.Empty(t, report.Kept)

	require.NoError(t, report.WriteTable(&out))
	require.Contains(t, out.String(), "seed 5")
	require.Contains(t, out.String(), "EQUAL to the cent")
	require.Contains(t, out.String(), "CLEAN")
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 80, line)
	}
}

func TestDemoSeesACentTooMuch(t *testing.T) {
	t.Parallel()
	report, err := run(t, Options{Seed: 6, meddle: func(ctx context.Context, s *stage) error {
		conn, err := pgx.Connect(ctx, s.stack.DatabaseURL)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, `UPDATE accounts SET credits_posted = credits_posted + 1 WHERE (name, asset) = ('wallet:c00000', 'USD')`)
		return err
	}})
	require.ErrorIs(t, err, ErrWrong)
	require.False(t, report.Equal)
	require.Len(t, report.Differences, 1)
	require.Contains(t, report.Differences[0], "account wallet:c00000")
	require.False(t, report.Audit.Clean)

	require.ErrorContains(t, err, report.Kept)
	require.FileExists(t, report.Kept+"/logs/receiver.log")
	require.NoError(t, os.RemoveAll(report.Kept))
}

func TestInterruptedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var dir string
	report, err := Run(ctx, Options{Seed: 7, size: small, meddle: func(_ context.Context, s *stage) error {
		dir = s.stack.Dir()
		cancel()
		return ctx.Err()
	}})
	if errors.Is(err, devstack.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.ErrorIs(t, err, errInterrupted)
	require.Nil(t, report)
	require.NoDirExists(t, dir)
}
