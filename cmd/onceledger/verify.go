package main

import (
	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

func newVerify(s *operator.Session) *cobra.Command {
	var v operator.Verifying
	cmd := &cobra.Command{
		Use:   "verify SOURCE --request FILE",
		Short: "Explain why a captured request passes or is refused",
		Long: `Verifies a captured request as the receiver would, and shows each step: what was
read, the text that is signed, the signature that each live secret makes of it,
and the distance of the signed time from the clock. It sends nothing and stores
nothing; only providers whose keys have to be fetched are asked for them.

If the request is refused, it changes one thing at a time until the signature is
right, and says which: a newline or another line end, JSON that was parsed and
written again, a charset, a secret that was copied badly or belongs to another
source, the URL, a header that a proxy renamed, the clock.

FILE holds the request as it travels: POST /path HTTP/1.1, the headers, an empty
line, and the body byte for byte up to the end of the file. Or JSON with method,
url, headers (an object, or a list of name and value) and body or body_base64; an
entry of a HAR file will do.

Secrets are not shown. An expected signature is, and whoever has it can send that
body: keep the output to yourself.

Exit code 0: it passes, 1: it does not.`,
		Example: `  onceledger verify stripe --request captured.http
  onceledger verify stripe --request captured.http --at 2026-11-29T21:41:55Z
  onceledger verify shop --request - --json`,
		Args: exactly("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if v.Request == "" {
				return exit.Usagef("--request FILE is missing; - is standard input")
			}
			v.Source = args[0]
			return operator.Verify(cmd.Context(), s, cmd.InOrStdin(), v)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&v.Request, "request", "", "read the captured request from `FILE`, - for standard input")
	flags.StringVar(&v.At, "at", "", "it was received at `TIME`: 2024-05-01T10:00:00Z, or how long ago, as in 2h (default: now)")
	return cmd
}
