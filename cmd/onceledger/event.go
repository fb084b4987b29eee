package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/operator"
)

func newEvent(s *operator.Session) *cobra.Command {
	return group("event", "Show what became of events, and repair what wrong rules did",
		newEventShow(s), newEventExport(s), newEventReopen(s), newEventCorrect(s))
}

func newEventShow(s *operator.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "show SOURCE ID",
		Short: "Show an event: state, reason, attempts, transfers, conflicts",
		Long: `Shows everything that is known under an event id: its state and outcome, why it
failed or was ignored, how often it was tried, what it posted, where its message
and its dead letter lie, and deliveries with another content under the same id.

The id is the provider's. Events of a connected account have account/id, and
those of the mode that the source does not expect test/id or live/id.

Exit code 1: no such event. It was not received, or is not decided yet.`,
		Example: `  onceledger event show stripe evt_1NG8Du2eZvKYlo2CUI79vXWy
  onceledger event show shop 4711 --json | jq .transfers`,
		Args: exactly("SOURCE", "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return operator.ShowEvent(cmd.Context(), s, args[0], args[1])
		},
	}
}

func newEventExport(s *operator.Session) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print events with their transfers as JSON lines, to reconcile with",
		Long: `Prints every event decided since a time, one JSON object a line: source, id,
type, state, outcome, reason, transfers, holds as they stand, what was told of
refunds, sequence, time of the decision. Amounts are minor units with the
exponent of their asset.

Lines are in the order of event numbers, which rise with time only roughly, and
an event that is decided while the export runs may be missing: let the next
export begin a little before the last one, and take events by source and id.`,
		Example: `  onceledger event export --since 24h > day.jsonl
  onceledger event export --since 2024-05-01 | jq -r 'select(.state=="failed") | .id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := operator.ParseSince(since, time.Now())
			if err != nil {
				return err
			}
			return operator.ExportEvents(cmd.Context(), s, from)
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "only what was decided since `TIME`: 2024-05-01T10:00:00Z, 2024-05-01, or how long ago, as in 24h")
	return cmd
}
