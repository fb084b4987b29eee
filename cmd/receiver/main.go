// Command receiver takes webhooks and stores them for the workers.
package main

import (
	"os"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/program"
	"github.com/onceledger/onceledger/internal/receiver"
)

const help = `onceledger-receiver takes webhooks at POST /webhooks/{source}: it verifies the
signature, stores the delivery in NATS JetStream, and answers 2xx once that is
on disk. Workers apply it later. Start as many as you like behind one address.

  onceledger-receiver --config onceledger.yaml
  curl -i http://127.0.0.1:9080/readyz

A sender that gets 503 with Retry-After was promised nothing and sends again.
The receiver waits for a NATS that is not there yet, and drains on SIGTERM:
what is under way is stored and answered. Put a proxy with TLS in front.

Ports:
  8080  webhooks, for the internet: POST /webhooks/{source}
  9080  /healthz, /readyz and /metrics, for you alone

Environment (wins over the file):
  ONCELEDGER_CONFIG   path of the configuration; default onceledger.yaml
  NATS_URL            nats://host:4222; several servers separated by commas
  NATS_MONITOR_URL    http://host:8222, where sync_interval can be checked
  RECEIVER_LISTEN     address of the webhooks; default 127.0.0.1:8080
  RECEIVER_ADMIN      address of /healthz, /readyz and /metrics; default 127.0.0.1:9080
  any ${NAME}         that the file uses in its secrets
`

func main() {
	os.Exit(program.Program{
		Name:  "onceledger-receiver",
		Help:  help,
		Needs: []config.Connection{config.NeedNATS},
		Run:   receiver.Run,
	}.Main(os.Args[1:]))
}
