package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

const metadataHelp = `Metadata are up to 16 texts, each with a key of at most 64 bytes and a value of
at most 512; no rule reads them.`

func newAccountOpen(s *operator.Session) *cobra.Command {
	cmd, change := accountCommand(s, operator.OpenAccount, "says why", &cobra.Command{
		Use:   "open ACCOUNT --asset CODE",
		Short: "Open an account, before anything moves it",
		Long: `Opens an account in one asset, with nothing on it. There is seldom a need to:
by default (accounts_policy: open) an account opens with its first transfer.
Where accounts_policy says explicit, or declared and no declaration fits,
transfers on an account are parked as account_unknown until it is opened; then
redrive them.

` + metadataHelp,
		Example: `  onceledger account open wallet:cus_1 --asset EUR --set owner=Ada --note "contract 17"
  onceledger dlq redrive --all --reason account_unknown --note "opened"`,
	})
	cmd.Flags().Lookup("asset").Usage = "the asset `CODE` that it is opened in, required"
	pairs := cmd.Flags().StringArray("set", nil, "note `KEY=VALUE` of the account; may be repeated")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		change.Metadata, err = metadata(*pairs)
		return err
	}
	return cmd
}

func newAccountFreeze(s *operator.Session) *cobra.Command {
	cmd, _ := accountCommand(s, operator.FreezeAccount, "says why, required", &cobra.Command{
		Use:   "freeze ACCOUNT",
		Short: "Let nothing move an account but what a limit only records",
		Long: `Freezes an account in one asset, or in all it has. From then on no debit and no
credit is posted to it; events that ask for one are parked as account_frozen.
What a limit with the policy "record" bounds still is: it has happened at the
provider, and is posted, with a log line and a metric. A capture with "fact: true"
in its rule is not, unless such a limit bounds it. An asset that the account does
not have yet is not frozen.`,
		Example: `  onceledger account freeze wallet:mallory --note "INC-8: stolen cards"
  onceledger account list --state frozen`,
	})
	return cmd
}

func newAccountUnfreeze(s *operator.Session) *cobra.Command {
	cmd, _ := accountCommand(s, operator.UnfreezeAccount, "says why, required", &cobra.Command{
		Use:   "unfreeze ACCOUNT",
		Short: "Let a frozen account move again",
		Long: `Opens a frozen account again, in one asset or in all it has. What was parked
meanwhile is sent again by itself where keeper.compensate is on, or by hand.`,
		Example: `  onceledger account unfreeze wallet:mallory --note "INC-8: it was not her"
  onceledger dlq redrive --all --reason account_frozen --note "INC-8"`,
	})
	return cmd
}

func newAccountClose(s *operator.Session) *cobra.Command {
	cmd, _ := accountCommand(s, operator.CloseAccount, "says why, required", &cobra.Command{
		Use:   "close ACCOUNT",
		Short: "Close an empty account for good",
		Long: `Closes an account in one asset, or in all it has. It must have a balance of 0
and nothing pending, and is never opened again: events that would move it are
parked as account_closed, whatever their limit.`,
		Example: `  onceledger account close wallet:cus_1 --note "contract 17 ended"`,
	})
	return cmd
}

func newAccountSet(s *operator.Session) *cobra.Command {
	cmd, change := accountCommand(s, operator.SetAccount, "says why", &cobra.Command{
		Use:   "set ACCOUNT KEY=VALUE...",
		Short: "Note something of an account",
		Long: `Sets metadata of an account in one asset, or in all it has. KEY= removes it.
"account balance" shows it, and who set what.

` + metadataHelp,
		Example: `  onceledger account set wallet:cus_1 owner=Ada tier=gold`,
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return exactly("ACCOUNT")(cmd, args[:min(1, len(args))])
	}
	cmd.PreRunE = func(_ *cobra.Command, args []string) (err error) {
		change.Metadata, err = metadata(args[1:])
		return err
	}
	return cmd
}

// accountCommand gives a command the arguments that changes of accounts share.
func accountCommand(s *operator.Session, do func(context.Context, *operator.Session, operator.AccountChange) error, why string, cmd *cobra.Command) (*cobra.Command, *operator.AccountChange) {
	var m operator.AccountChange
	cmd.Args = exactly("ACCOUNT")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m.Account = args[0]
		return do(cmd.Context(), s, m)
	}
	flags := cmd.Flags()
	flags.StringVar(&m.Asset, "asset", "", "the account in the asset `CODE` (default: all it has)")
	flags.BoolVar(&m.DryRun, "dry-run", false, "only show what would be done")
	flags.StringVar(&m.Actor, "actor", "", "`NAME` of who does it (default: the user of this machine)")
	flags.StringVar(&m.Note, "note", "", "`TEXT` that "+why)
	return cmd, &m
}

// metadata reads KEY=VALUE pairs.
func metadata(pairs []string) (map[string]string, error) {
	values := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, exit.Usagef("%q is not KEY=VALUE", pair)
		}
		if _, ok := values[key]; ok {
			return nil, exit.Usagef("key %q is given twice", key)
		}
		values[key] = value
	}
	return values, nil
}
