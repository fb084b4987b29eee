package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/operator"
)

const bulkHelp = `Filters narrow it. What would be done is counted first, and asked for at a
terminal; elsewhere --yes is needed. --dry-run does each and takes it back, so
that what it shows is exact for each event alone. It may be stopped and repeated
at any time. With --json, one object an event.`

func newEventReopen(s *operator.Session) *cobra.Command {
	return repairCommand(s, operator.ReopenEvents, &cobra.Command{
		Use:   "reopen {SOURCE ID | --all}",
		Short: "Decide events again that posted nothing: ignored, or duplicate_operation",
		Long: `Opens an event again that was completed without transfers, and sends it to the
workers, who decide it by the rules that they have now: for events that a wrong
rule ignored, and for duplicate_operation where the event that had posted the
money was corrected since. Change the rules and restart the workers first. Its
message must still be in EVENTS. An event that moved money is never opened
again: see event correct. Where no money would move as the books stand, because
another event has posted it, a dry run of one event says so.

--all opens every stored event for which the rules of the configuration ask for
money that is not there (would_post of config check --against-stream).
` + bulkHelp,
		Example: `  onceledger event reopen stripe evt_1NG8Du2eZvKYlo2C --dry-run
  onceledger event reopen stripe evt_1NG8Du2eZvKYlo2C --note "rule for refunds was missing"
  onceledger event reopen --all --source stripe --since 24h --note "rule for refunds was missing"`,
	})
}

func newEventCorrect(s *operator.Session) *cobra.Command {
	var overdraw bool
	correct := func(ctx context.Context, s *operator.Session, m operator.EventRepair) error {
		m.Overdraw = overdraw
		return operator.CorrectEvents(ctx, s, m)
	}
	cmd := repairCommand(s, correct, &cobra.Command{
		Use:   "correct {SOURCE ID | --all}",
		Short: "Reverse what a wrong rule posted, and post what today's rules ask for",
		Long: `Compares what an applied event has posted with what the rules of the
configuration ask for today: transfers that they do not ask for are reversed,
those that are missing are posted, what is equal stays. Nothing is edited: both
the old transfers and their reversals stay in every statement. All of it is one
transaction, recorded with your name and note. Its message must still be in
EVENTS.

A correction that would take an account past an enforced limit is refused, for
example because the money was spent: --overdraw posts it all the same.

--all corrects every stored event that differs from the rules
(would_post_differently and would_ignore of config check --against-stream).
` + bulkHelp,
		Example: `  onceledger event correct stripe evt_1NG8Du2eZvKYlo2C --dry-run
  onceledger event correct stripe evt_1NG8Du2eZvKYlo2C --note "amount was read in cents twice"
  onceledger event correct --all --source stripe --since 2h --dry-run`,
	})
	cmd.Flags().BoolVar(&overdraw, "overdraw", false, "post it even where an enforced limit refuses it")
	return cmd
}

// repairCommand gives a command the arguments that repairs share.
func repairCommand(s *operator.Session, do func(context.Context, *operator.Session, operator.EventRepair) error, cmd *cobra.Command) *cobra.Command {
	var m operator.EventRepair
	times := streamFlags(cmd, &m.Filter)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if m.All {
			return exactly()(cmd, args)
		}
		return exactly("SOURCE", "ID")(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := times(time.Now()); err != nil {
			return err
		}
		if !m.All {
			m.Source, m.ID = args[0], args[1]
		}
		return do(cmd.Context(), s, m)
	}
	flags := cmd.Flags()
	flags.BoolVar(&m.All, "all", false, "all stored events that need it, instead of one")
	flags.BoolVar(&m.DryRun, "dry-run", false, "only show what would be done")
	flags.BoolVarP(&m.Yes, "yes", "y", false, "do not ask")
	flags.StringVar(&m.Actor, "actor", "", "`NAME` of who does it (default: the user of this machine)")
	flags.StringVar(&m.Note, "note", "", "`TEXT` that says why, required")
	return cmd
}
