package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

func newDLQ(s *operator.Session) *cobra.Command {
	return group("dlq", "Show dead letters, send them again, or give them up",
		newDLQList(s), newDLQShow(s), newDLQRedrive(s), newDLQDiscard(s))
}

// letterFlags are the filters that the commands share.
func letterFlags(cmd *cobra.Command, q *operator.LetterQuery) {
	flags := cmd.Flags()
	flags.StringVar(&q.Reason, "reason", "", "only letters with this `REASON`, for example id_conflict")
	flags.StringVar(&q.Source, "source", "", "only letters of this `SOURCE`")
	flags.StringVar(&q.Type, "type", "", "only events of this `TYPE`; a prefix ends in *")
	flags.StringVar(&q.Key, "key", "", "only events with this `ID`; a prefix ends in *")
	flags.StringVar(&q.Age, "age", "", "only letters of this `AGE`: +24h older than a day, -1h younger than an hour, +1h,-24h between")
	flags.StringVar(&q.Seq, "seq", "", "only letters in this `RANGE` of sequences: 17, 10-20, 10- or -20")
}

func newDLQList(s *operator.Session) *cobra.Command {
	var query operator.LetterQuery
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters of events that are still failed",
		Long: `Lists dead letters, oldest first. Stale ones, whose event was decided since or
has a newer letter, are hidden; a worker deletes them within the hour.`,
		Example: `  onceledger dlq list
  onceledger dlq list --age +24h --type 'charge.*'
  onceledger dlq list --reason id_conflict --source stripe --json | jq -r .event_id`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return operator.ListLetters(cmd.Context(), s, query)
		},
	}
	letterFlags(cmd, &query)
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
			seqs, err := sequences(args)
			if err != nil {
				return err
			}
			return operator.ShowLetter(cmd.Context(), s, seqs[0], raw)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the body alone, byte for byte")
	return cmd
}

// sequences reads arguments that name dead letters.
func sequences(args []string) ([]uint64, error) {
	seqs := make([]uint64, len(args))
	for i, arg := range args {
		seq, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || seq == 0 {
			return nil, exit.Usagef("%q is not a sequence; see: onceledger dlq list", arg)
		}
		seqs[i] = seq
	}
	return seqs, nil
}
