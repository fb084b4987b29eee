package main

import (
	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/operator"
)

func newConfig(s *operator.Session) *cobra.Command {
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Report every fault of a configuration with its line and column",
		Long: `Reads a configuration as receiver and worker do: every key, every secret and
every expression of every rule. All faults are reported at once, one a line, as
file:line:column: key: what is wrong, and the exit code is 2. It connects to
nothing. Variables that the file names (${NAME}) must be set.`,
		Example: `  onceledger config check onceledger.yaml
  onceledger config check --json | jq '.faults[]'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := s.ConfigPath()
			if len(args) > 0 {
				path = args[0]
			}
			return operator.CheckConfig(s, path)
		},
	}
	return group("config", "Check a configuration", check)
}
