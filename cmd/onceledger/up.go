package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/up"
)

// defaultData is where `up` keeps its data where --data does not say.
const defaultData = ".data"

func newUp(s *operator.Session) *cobra.Command {
	options := up.Options{Command: os.Args[0], Out: s.Out, Env: s.Env}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine until Ctrl-C",
		Long: `Starts NATS, Postgres and Redis, brings the schema and the streams up to date,
starts a receiver and workers, and prints the addresses of the webhooks and
commands to go on with. Everything lives in the folder --data (default .data):
the data, the logs, the addresses (stack.json) and, unless another one is named,
the configuration (onceledger.yaml), which the first start writes with secrets
made up for it. The next start continues with what is there.

DATABASE_URL, NATS_URL and REDIS_URL in the environment replace a service by
one that runs already. Postgres and Redis have to be installed otherwise.

Ctrl-C stops everything in order: receiver, workers, services. A second Ctrl-C
ends it at once. A program that ends by itself is not started again: everything
is stopped, and the exit code is 1.`,
		Example: `  onceledger up
  onceledger up --data /srv/onceledger --listen 0.0.0.0:8080 --workers 4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Data, options.Config, options.JSON = s.Data, s.Config, s.JSON
			if options.Data == "" {
				options.Data = defaultData
			}
			return up.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Listen, "listen", "", "`ADDRESS` of the receiver (default 127.0.0.1:8080, or the configuration's)")
	flags.IntVar(&options.Workers, "workers", 2, "`NUMBER` of workers")
	return cmd
}
