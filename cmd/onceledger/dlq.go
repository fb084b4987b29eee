package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/pkg/dlq"
)

func newDLQ(s *operator.Session) *cobra.Command {
	return group("dlq", "Show dead letters: what could not be applied, and why", newDLQList(s), newDLQShow(s))
}

func newDLQList(s *operator.Session) *cobra.Command {
	var filter dlq.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters of events that are still failed",
		Long: `Lists dead letters, oldest first. Stale ones, whose event was decided since or
has a newer letter, are hidden.`,
		Example: `  onceledger dlq list
  onceledger dlq list --reason id_conflict --source stripe --json | jq -r .event_id`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return operator.ListLetters(cmd.Context(), s, filter)
		},
	}
	cmd.Flags().StringVar((*string)(&filter.Reason), "reason", "", "only letters with this `REASON`, for example id_conflict")
	cmd.Flags().StringVar(&filter.Source, "source", "", "only letters of this `SOURCE`")
	return cmd
}

func newDLQShow(s *operator.Session) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "show SEQ",
		Short: "Show a dead letter: reason, hint, headers and body",
		Long: `Shows one dead letter by its sequence in the stream DLQ, with the reason, a hint
at what to do, the headers of its event and the body. --raw writes the body
alone, exactly as it was received, byte for byte.`,
		Example: `  onceledger dlq show 17
  onceledger dlq show 17 --raw > body.json`,
		Args: exactly("SEQ"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil || seq == 0 {
				return exit.Usagef("%q is not a sequence; see: onceledger dlq list", args[0])
			}
			return operator.ShowLetter(cmd.Context(), s, seq, raw)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the body alone, byte for byte")
	return cmd
}
