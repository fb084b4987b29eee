package main

import (
	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/operator"
)

func newProvider(s *operator.Session) *cobra.Command {
	return group("provider", "Show what is known of providers: signatures, ids, answers", newProviderList(s), newProviderShow(s))
}

func newProviderList(s *operator.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the providers there are",
		Long: `Lists every provider that a source can name: how it signs, where the event id
stands, how far a signed time may be from the clock, and how it wants to be
answered. Long cells are cut; "provider show" and --json have all of it.

Parts of an event id are joined; one that ends in ? may be absent, and of places
between commas the first that is there counts. It reads no configuration.`,
		Example: `  onceledger provider list
  onceledger provider list --json | jq -r 'select(.body_trusted | not) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return operator.ListProviders(s) },
	}
}

func newProviderShow(s *operator.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show what is needed to set up a source of a provider",
		Long: `Shows what is signed and how, what to write under which key, where an event's id,
type, account, mode and time stand, whether its amounts may be believed, how the
provider is answered, and the least that a configuration has to say, which passes
"config check" once its variables are set. It reads no configuration.`,
		Example: `  onceledger provider show adyen
  onceledger provider show square --json | jq -r .config > onceledger.yaml`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return operator.ShowProvider(s, args[0]) },
	}
}
