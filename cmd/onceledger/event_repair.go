package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/operator"
)

func newEventReopen(s *operator.Session) *cobra.Command {
	return repairCommand(s, operator.ReopenEvent, &cobra.Command{
		Use:   "reopen SOURCE ID",
		Short: "Decide an event again that posted nothing: ignored, or duplicate_operation",
		Long: `Opens an event again that was completed without transfers, and sends it to the
workers, who decide it by the rules that they have now: for events that a wrong
rule ignored, and for duplicate_operation where the event that had posted the
money was corrected since. Change the rules and restart the workers first. Its
message must still be in EVENTS.

An event that moved money is never opened again: see event correct.`,
		Example: `  onceledger event reopen stripe evt_1NG8Du2eZvKYlo2CUI79vXWy --dry-run
  onceledger event reopen stripe evt_1NG8Du2eZvKYlo2CUI79vXWy --note "rule for refunds was missing"`,
	})
}

func newEventCorrect(s *operator.Session) *cobra.Command {
	var overdraw bool
	correct := func(ctx context.Context, s *operator.Session, source, id string, m operator.EventRepair) error {
		m.Overdraw = overdraw
		return operator.CorrectEvent(ctx, s, source, id, m)
	}
	cmd := repairCommand(s, correct, &cobra.Command{
		Use:   "correct SOURCE ID",
		Short: "Reverse what a wrong rule posted, and post what today's rules ask for",
		Long: `Compares what an applied event has posted with what the rules of the
configuration ask for today: transfers that they do not ask for are reversed,
those that are missing are posted, what is equal stays. Nothing is edited: both
the old transfers and their reversals stay in every statement. All of it is one
transaction, recorded with your name and note. Its message must still be in
EVENTS.

A correction that would take an account past an enforced limit is refused, for
example because the money was spent: --overdraw posts it all the same.`,
		Example: `  onceledger event correct stripe evt_1NG8Du2eZvKYlo2CUI79vXWy --dry-run
  onceledger event correct stripe evt_1NG8Du2eZvKYlo2CUI79vXWy --note "amount was read in cents twice"`,
	})
	cmd.Flags().BoolVar(&overdraw, "overdraw", false, "post it even where an enforced limit refuses it")
	return cmd
}

// repairCommand gives a command the arguments that repairs share.
func repairCommand(s *operator.Session, do func(context.Context, *operator.Session, string, string, operator.EventRepair) error, cmd *cobra.Command) *cobra.Command {
	var m operator.EventRepair
	cmd.Args = exactly("SOURCE", "ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return do(cmd.Context(), s, args[0], args[1], m)
	}
	flags := cmd.Flags()
	flags.BoolVar(&m.DryRun, "dry-run", false, "only show what would be done")
	flags.StringVar(&m.Actor, "actor", "", "`NAME` of who does it (default: the user of this machine)")
	flags.StringVar(&m.Note, "note", "", "`TEXT` that says why, required")
	return cmd
}
