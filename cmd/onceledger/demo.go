package main

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/onceledger/onceledger/internal/demo"
	"github.com/onceledger/onceledger/internal/operator"
)

func newDemo(s *operator.Session) *cobra.Command {
	var seed uint64
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Prove on this machine that each event is applied once",
		Long: `Starts a system of its own in a temporary folder and sends it 20,000 deliveries
of 15,000 signed events of two providers: resends, byte for byte and rewritten,
two amounts under one event id, one payment under two event ids, unreadable and
impossible ones, forged ones. In the middle a worker is killed with SIGKILL. Then
it compares every balance, transfer and event with an expectation of its own,
audits, and stops everything.

It exits with 0 only if the ledger is equal to the cent and the audit is clean.
After a failure the folder is kept.`,
		Example: `  onceledger demo
  onceledger demo --seed 42 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := demo.Options{Seed: seed, Out: s.Out}
			if !cmd.Flags().Changed("seed") {
				options.Seed = uint64(rand.Uint32()) //nolint:gosec // short enough to type again
			}
			if s.JSON {
				options.Out = io.Discard
			}
			if term.IsTerminal(int(os.Stderr.Fd())) {
				options.Bar = os.Stderr
			}
			report, err := demo.Run(cmd.Context(), options)
			if report != nil {
				err = errors.Join(err, printDemo(s, report))
			}
			return err
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 0, "`NUMBER` that decides the whole traffic (default: another one each time)")
	return cmd
}

func printDemo(s *operator.Session, report *demo.Report) error {
	if s.JSON {
		return json.NewEncoder(s.Out).Encode(report)
	}
	return report.WriteTable(s.Out)
}
