package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

const moveHelp = `Name letters by their sequences, or take --all that the filters select: then
what would be done is counted first, and asked for at a terminal; elsewhere
--yes is needed. --dry-run only counts. It may be stopped and repeated at any
time. With --json, one object a letter: redriven or discarded, stale (its event
is decided: the letter was deleted), refused (stays as it was), or failed.`

func newDLQRedrive(s *operator.Session) *cobra.Command {
	var asCorrection, overdraw bool
	redrive := func(ctx context.Context, s *operator.Session, m operator.LetterMove) error {
		if !asCorrection {
			if overdraw {
				return exit.Usagef("--overdraw belongs to --as-correction")
			}
			return operator.RedriveLetters(ctx, s, m)
		}
		return operator.CorrectByLetters(ctx, s, m, overdraw)
	}
	cmd := moveCommand(s, redrive, "why, for the record", &cobra.Command{
		Use:   "redrive [SEQ...]",
		Short: "Send the events of dead letters again, to be judged by today's rules",
		Long: `Sends the events of dead letters again: mend the cause first (the hint of the
letter says what), then redrive. The event is judged by the rules that the
workers have now, with a fresh retry budget; its bytes are never changed. What
cannot be applied is parked again. Money cannot move twice: a redriven event
that was applied in the meantime is a duplicate.

With --as-correction, a conflict that was right is applied in place of what came
first: what that posted is reversed, and what today's rules make of the letter
is posted, in one transaction and by this command. It takes letters of
id_conflict and operation_conflict by their sequences; look with --dry-run
first. A note is required.

` + moveHelp,
		Example: `  onceledger dlq redrive 17 --note "rule corrected"
  onceledger dlq redrive 23 --as-correction --dry-run
  onceledger dlq redrive --all --reason rule_error --source stripe --dry-run
  onceledger dlq redrive --all --age +1h --rate 50 --yes --json`,
	})
	cmd.Flags().BoolVar(&asCorrection, "as-correction", false, "let a conflict stand in place of what came first")
	cmd.Flags().BoolVar(&overdraw, "overdraw", false, "with --as-correction: post it even where an enforced limit refuses it")
	return cmd
}

func newDLQDiscard(s *operator.Session) *cobra.Command {
	return moveCommand(s, operator.DiscardLetters, "why, required", &cobra.Command{
		Use:   "discard [SEQ...]",
		Short: "Give the events of dead letters up, with a note that says why",
		Long: `Gives events up: their letters are deleted, and they count as discarded from
then on, with your name and note in "event show" and in the audit. A delivery
with the same content is then a duplicate; one with another content under the
same id is still decided on its merits.

` + moveHelp,
		Example: `  onceledger dlq discard 17 --note "test event of the provider, confirmed by mail"
  onceledger dlq discard --all --reason bad_envelope --note "load test of May 3"`,
	})
}

// moveCommand gives a command the arguments that redrive and discard share.
func moveCommand(s *operator.Session, move func(context.Context, *operator.Session, operator.LetterMove) error, why string, cmd *cobra.Command) *cobra.Command {
	var m operator.LetterMove
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if m.Seqs, err = sequences(args); err != nil {
			return err
		}
		return move(cmd.Context(), s, m)
	}
	letterFlags(cmd, &m.Query)
	flags := cmd.Flags()
	flags.BoolVar(&m.All, "all", false, "all letters that the filters select")
	flags.BoolVar(&m.DryRun, "dry-run", false, "only count what would be done")
	flags.BoolVarP(&m.Yes, "yes", "y", false, "do not ask")
	flags.IntVar(&m.Rate, "rate", operator.DefaultRate, "at most `N` letters a second")
	flags.StringVar(&m.Actor, "actor", "", "`NAME` of who does it (default: the user of this machine)")
	flags.StringVar(&m.Note, "note", "", "`TEXT` that says "+why)
	return cmd
}
