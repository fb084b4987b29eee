package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

const balanceHelp = `A balance is credits less debits: what is owed to the owner of a wallet. Where
it is below zero, as for a provider's receivable, the account owes us.
Tables show major units (19.99), JSON minor units (1999) with the exponent, CSV
both. In a CSV, text that a spreadsheet would run as a formula gets a ' in front.`

const instantHelp = `A transfer counts from the time at which its transaction began, by the clock of
the database. An instant of the last moments is "not final" while a transaction
that began before it still runs.`

// defaultEntries is a screenful or two.
const defaultEntries = 50

const timeForms = "2024-05-01T10:00:00Z, 2024-05-01 (its beginning, in UTC), or how long ago, as in 24h"

func newAccount(s *operator.Session) *cobra.Command {
	read := []*cobra.Command{newAccountList(s), newAccountBalance(s), newAccountStatement(s), newAccountTrialBalance(s)}
	for _, cmd := range read {
		cmd.Flags().BoolVar(&s.CSV, "csv", false, "print CSV with a header (RFC 4180)")
	}
	cmd := group("account", "Show accounts, balances, statements and the trial balance; open, freeze and close accounts", read...)
	cmd.AddCommand(newAccountOpen(s), newAccountFreeze(s), newAccountUnfreeze(s), newAccountClose(s), newAccountSet(s))
	return cmd
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
	var at string
	cmd := &cobra.Command{
		Use:   "balance ACCOUNT",
		Short: "Show the balance of an account in each of its assets, now or at any time",
		Long: `Shows one account, a line for each of its assets, its metadata, and what was done
to it by hand. With --at, what it had before that instant: --at 2024-06-01 is the
end of May.

` + balanceHelp + "\n\n" + instantHelp,
		Example: `  onceledger account balance wallet:cus_1
  onceledger account balance wallet:cus_1 --at 2024-06-01`,
		Args: exactly("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			instant, err := operator.ParseTime("--at", at, time.Now())
			if err != nil {
				return err
			}
			return operator.ShowBalance(cmd.Context(), s, args[0], instant)
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "what was there before `TIME`: "+timeForms)
	return cmd
}

func newAccountStatement(s *operator.Session) *cobra.Command {
	var q operator.StatementQuery
	var from, to string
	cmd := &cobra.Command{
		Use:   "statement ACCOUNT",
		Short: "List the transfers of an account with the balance behind each",
		Long: `Lists the transfers of an account in one asset in the order in which they were
recorded, with the events they come from: the opening balance, each entry with
the balance behind it, and the closing balance. A correction is an entry of its
own, marked as reversal, at the time at which it was made.

--from is included and --to is not, so that months meet: --from 2024-05-01 --to
2024-06-01 is May. A page that ends early says how to go on, with --after and
the cursor of its last entry. What is recorded while pages are read may come to
stand before the cursor: whoever reads along reads up to a --to that is final.
In JSON and CSV each line has its kind: opening (brought, where it continues a
page), entry, and closing (carried, where more follows).

` + balanceHelp + "\n\n" + instantHelp,
		Example: `  onceledger account statement wallet:cus_1
  onceledger account statement stripe:receivable --asset EUR --limit 1000 --after 52100.0
  onceledger account statement revenue --from 2024-05-01 --to 2024-06-01 --limit 0 --csv > may.csv`,
		Args: exactly("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if q.Limit < 0 {
				return exit.Usagef("--limit must be at least 0, for all")
			}
			q.Account = args[0]
			now := time.Now()
			if q.From, err = operator.ParseTime("--from", from, now); err != nil {
				return err
			}
			if q.To, err = operator.ParseTime("--to", to, now); err != nil {
				return err
			}
			return operator.ShowStatement(cmd.Context(), s, q)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Asset, "asset", "", "statement in the asset `CODE`, where the account has several")
	flags.StringVar(&from, "from", "", "begin with what was recorded at `TIME`: "+timeForms)
	flags.StringVar(&to, "to", "", "end before `TIME`, in the same forms (default: with the last entry)")
	flags.StringVar(&q.After, "after", "", "continue after the entry with this `CURSOR`")
	flags.IntVar(&q.Limit, "limit", defaultEntries, "list at most `N` entries; 0 for all")
	return cmd
}

func newAccountTrialBalance(s *operator.Session) *cobra.Command {
	var at, asset string
	var accounts bool
	cmd := &cobra.Command{
		Use:   "trial-balance",
		Short: "Add up all accounts: debits must equal credits in each asset",
		Long: `Adds up the debits and the credits of all accounts in each asset, now or, with
--at, as they stood before that instant: --at 2024-06-01 is the end of May.

With --accounts, a line for each account, with its balance in the column of the
side that has more, as a trial balance is written. Below a table stands what the
columns add up to; JSON and CSV have the accounts alone.

` + balanceHelp + "\n\n" + instantHelp + `

Exit code 0: debits equal credits, or the instant is not final. 4: they differ.`,
		Example: `  onceledger account trial-balance
  onceledger account trial-balance --at 2024-06-01 --asset EUR --accounts --csv > may.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			instant, err := operator.ParseTime("--at", at, time.Now())
			if err != nil {
				return err
			}
			return operator.TrialBalance(cmd.Context(), s, instant, asset, accounts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&at, "at", "", "as it stood before `TIME`: "+timeForms)
	flags.StringVar(&asset, "asset", "", "only the asset `CODE`")
	flags.BoolVar(&accounts, "accounts", false, "a line for each account")
	return cmd
}
