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

What went away before it was accounted for ("gone") stays a finding until it is
acknowledged.

Exit code 0: clean. 4: something is wrong; it is listed. 1: it could not look.`,
		Example: `  onceledger audit --data .data
  onceledger audit --json | jq '.findings[]'`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grace <= 0 {
				return exit.Usagef("--grace must be longer than 0")
			}
			return operator.Audit(cmd.Context(), s, grace)
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", audit.DefaultGrace, "a message may wait for `DURATION` before it counts as lost")
	cmd.AddCommand(newAuditAcknowledge(s))
	return cmd
}

func newAuditAcknowledge(s *operator.Session) *cobra.Command {
	var actor, note string
	cmd := &cobra.Command{
		Use:   "acknowledge",
		Short: "Take note of messages that are gone, once their senders were asked for them",
		Long: `Ends the findings "gone": messages that left EVENTS before this database had
accounted for them, as after a restore from a backup older than the stream
keeps, and streams that were lost or restored with what they held. Nobody can
account for those any more; ask their senders to send them again first. Who took
note, when and why is recorded. What goes later is found again.`,
		Example: `  onceledger audit acknowledge --note "INC-12: store lost; Stripe resent 14:00 to 15:00"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return operator.AcknowledgeGone(cmd.Context(), s, actor, note)
		},
	}
	cmd.Flags().StringVar(&actor, "actor", "", "`NAME` of who does it (default: the user of this machine)")
	cmd.Flags().StringVar(&note, "note", "", "`TEXT` that says what was done about it, required")
	return cmd
}
