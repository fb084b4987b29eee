package main

import (
	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

func newSend(s *operator.Session) *cobra.Command {
	var sending operator.Sending
	cmd := &cobra.Command{
		Use:   "send SOURCE",
		Short: "Sign a test event as its provider would, and send it",
		Long: `Signs a test event with the first secret of a source and sends it to the
receiver: a body of your own, or a built-in sample of the source's provider, of
which there is one for every provider. Those of stripe, github,
standard-webhooks and hmac fit the rules of the example configuration.

A sample has a fresh id. With --id its bytes are the same at every call, so that
calling again is a resend; with another --amount it is a conflict. What is sealed
or encoded in requests (Apple's tokens, WeChat's resources, Pub/Sub's data) is set
by the paths that rules read; --set takes header:X-Name=VALUE, too.

What --set writes keeps the type that the sample has there: where that is text,
VALUE is text, as in Adyen's success=true. Elsewhere a VALUE that is JSON is written
as JSON (a number, true, null, {...}), and any other as text. Double quotes that
reach the command make it text (note='"true"'), and PATH:=VALUE writes JSON whatever
the sample has. Headers, forms and XML hold text alone.

Of providers that sign with a key of their own, a source can only check
signatures. To try it, put a private key of yours under its secrets, as PEM.

The receiver is the one of --url, of the stack in --data, or of the
configuration (receiver.listen).`,
		Example: `  onceledger send stripe --data .data
  onceledger send stripe --data .data --id evt_1 --amount 2500 --currency usd --repeat 3
  onceledger send shop --type refund --set customer.id=42 --set note="second try"
  onceledger send adyen --type REFUND --set NotificationRequestItem.originalReference=P1
  onceledger send adyen --id P1 --set NotificationRequestItem.success=false
  onceledger send github --body push.json --url https://hooks.example.com`,
		Args: exactly("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if sending.Repeat < 1 {
				return exit.Usagef("--repeat must be at least 1")
			}
			sending.Source = args[0]
			return operator.Send(cmd.Context(), s, cmd.InOrStdin(), sending)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&sending.Body, "body", "", "send the body in `FILE`, - for standard input (default: a sample)")
	flags.StringVar(&sending.Sample.ID, "id", "", "event `ID` of the sample (default: a fresh one)")
	flags.StringVar(&sending.Sample.Type, "type", "", "event `TYPE` as rules see it (default: the sample's)")
	flags.StringVar(&sending.Sample.Amount, "amount", "", "`AMOUNT` in the units the provider counts in (default: the sample's)")
	flags.StringVar(&sending.Sample.Currency, "currency", "", "currency `CODE` (default: the sample's)")
	flags.StringArrayVar(&sending.Sample.Set, "set", nil, "set a member of the sample by `PATH=VALUE`, in the sample's type, or PATH:=JSON; may be repeated")
	flags.IntVar(&sending.Repeat, "repeat", 1, "send the same bytes `N` times")
	flags.StringVar(&sending.URL, "url", "", "send to the receiver at `URL`, with or without /webhooks/SOURCE")
	return cmd
}
