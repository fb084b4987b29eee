package main

import (
	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

const balanceHelp = `A balance is credits less debits: what is owed to the owner of a wallet. Where
it is below zero, as for a provider's receivable, the account owes us.
Tables show major units (19.99), JSON minor units (1999) with the exponent.`

// defaultEntries is a screenful or two.
const (
	defaultEntries = 50
	mostEntries    = 10_000
)

func newAccount(s *operator.Session) *cobra.Command {
	return group("account", "Show accounts, balances and statements; open, freeze and close accounts",
		newAccountList(s), newAccountBalance(s), newAccountStatement(s),
		newAccountOpen(s), newAccountFreeze(s), newAccountUnfreeze(s), newAccountClose(s), newAccountSet(s))
}

func newAccountList(s *operator.Session) *cobra.Command {
	var asset, state string
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List accounts with their balances",
		Long:  "Lists the accounts whose name begins with PREFIX, ordered by name.\n\n" + balanceHelp,
		Example: `  onceledger account list wallet: --asset EUR
  onceledger account list --json | jq -r 'select(.overdrawn) | .account'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			return operator.ListAccounts(cmd.Context(), s, prefix, asset, state)
		},
	}
	cmd.Flags().StringVar(&asset, "asset", "", "only accounts in the asset `CODE`")
	cmd.Flags().StringVar(&state, "state", "", "only accounts in this `STATE`: open, frozen or closed")
	return cmd
}

func newAccountBalance(s *operator.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "balance ACCOUNT",
		Short:   "Show the balance of an account in each of its assets",
		Long:    "Shows one account, a line for each of its assets, its metadata, and what was done\nto it by hand.\n\n" + balanceHelp,
		Example: `  onceledger account balance wallet:cus_1`,
		Args:    exactly("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return operator.ShowBalance(cmd.Context(), s, args[0])
		},
	}
}

func newAccountStatement(s *operator.Session) *cobra.Command {
	var asset, after string
	var limit int
	cmd := &cobra.Command{
		Use:   "statement ACCOUNT",
		Short: "List the transfers of an account with the events they come from",
		Long: `Lists the transfers of an account in one asset, in the order of event numbers,
which rise with time only roughly. A page ends with the cursor that --after
continues from; in JSON each entry has its own.`,
		Example: `  onceledger account statement wallet:cus_1
  onceledger account statement stripe:receivable --asset EUR --limit 1000 --after 52100.0`,
		Args: exactly("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > mostEntries {
				return exit.Usagef("--limit must be from 1 to %d", mostEntries)
			}
			return operator.ShowStatement(cmd.Context(), s, args[0], asset, after, limit)
		},
	}
	cmd.Flags().StringVar(&asset, "asset", "", "statement in the asset `CODE`, where the account has several")
	cmd.Flags().StringVar(&after, "after", "", "continue after the entry with this `CURSOR`")
	cmd.Flags().IntVar(&limit, "limit", defaultEntries, "list at most `N` entries")
	return cmd
}
