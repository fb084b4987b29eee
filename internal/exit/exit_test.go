package exit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
)

func TestCode(t *testing.T) {
	t.Parallel()
	for code, errs := range map[int][]error{
		exit.OK:      {nil, exit.With(exit.Found, nil)},
		exit.Failed:  {errors.New("away")},
		exit.Usage:   {exit.Usagef("no argument"), config.Faults{{Message: "x"}}, fmt.Errorf("load: %w", config.Faults{{}})},
		exit.Refused: {stream.ErrSettings, fmt.Errorf("open: %w", stream.ErrVersion), postgres.ErrSchema, postgres.ErrDurability},
		exit.Found:   {fmt.Errorf("audit: %w", exit.With(exit.Found, errors.New("1 problem")))},
	} {
		for _, err := range errs {
			require.Equal(t, code, exit.Code(err), "%v", err)
		}
	}
	cause := errors.New("cause")
	require.ErrorIs(t, exit.With(exit.Found, cause), cause)
}
