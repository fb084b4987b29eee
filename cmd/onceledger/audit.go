package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

func newAudit(s *operator.Session) *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Account for every message and every cent",
		Long: `Proves from what is stored that nothing was lost and nothing was paid twice:

  - every message of EVENTS is applied, ignored, a duplicate, parked, discarded
    or in flight; one that is none of these is unaccounted and named
  - every balance is the sum of its transfers, debits equal credits, each
    transfer has its operation and its applied event, and the other way round
  - every parked event has its dead letter

It may run beside working receivers and workers, changes nothing, and needs the
configuration, since the rules say which resends have the same meaning.

Exit code 0: clean. 4: something is wrong; it is listed. 1: it could not look.`,
		Example: `  onceledger audit --data .data
  onceledger audit --json | jq '.findings[]'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grace <= 0 {
				return exit.Usagef("--grace must be longer than 0")
			}
			return operator.Audit(cmd.Context(), s, grace)
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", audit.DefaultGrace, "a message may wait for `DURATION` before it counts as lost")
	return cmd
}
