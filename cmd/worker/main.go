// Command worker applies stored events to the ledger, each once.
package main

import (
	"os"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/program"
	"github.com/onceledger/onceledger/internal/worker"
)

const help = `onceledger-worker takes verified webhook events from NATS JetStream and posts
their transfers into the Postgres ledger, each event exactly once. Start as many
as you like; they share the work. Run ` + "`onceledger migrate`" + ` once before.

  onceledger-worker --config onceledger.yaml

It waits for services that are not there yet, pauses while one is away, and
drains on SIGTERM: what it has begun is finished, the rest goes to the others.

Environment (wins over the file):
  ONCELEDGER_CONFIG   path of the configuration; default onceledger.yaml
  DATABASE_URL        postgres://user:password@host:5432/database
  NATS_URL            nats://host:4222; several servers separated by commas
  NATS_MONITOR_URL    http://host:8222, where sync_interval can be checked
  REDIS_URL           redis://host:6379/0; without it every duplicate is found in Postgres
  WORKER_ADMIN        address of /healthz, /readyz and /metrics; default 127.0.0.1:9081
`

func main() {
	os.Exit(program.Program{
		Name:  "onceledger-worker",
		Help:  help,
		Needs: []config.Connection{config.NeedNATS, config.NeedDatabase},
		Run:   worker.Run,
	}.Main(os.Args[1:]))
}
