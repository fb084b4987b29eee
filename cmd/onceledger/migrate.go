package main

import (
	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/operator"
)

func newMigrate(s *operator.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database schema and the streams to this release",
		Long: `Brings the database schema to this release and, where NATS is configured,
creates the streams EVENTS and DLQ. It may be run any number of times, and by
several at once: one works, the others wait.

Streams that exist with other settings are never changed: the command lists
each difference with what mends it, and exits with 3.`,
		Example: `  onceledger migrate --data .data
  DATABASE_URL=postgres://… NATS_URL=nats://… onceledger migrate`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return operator.Migrate(cmd.Context(), s)
		},
	}
}
