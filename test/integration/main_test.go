// Package integration runs the real programs as processes against real
// Postgres, Redis and JetStream, and takes services and processes away while
// events arrive.
//
// Each test has a database, a broker and a Redis database of its own, sends
// signed requests, notes which of them were answered 2xx, keeps a ledger of its
// own beside, and ends with system.verify: everything accepted is stored and
// decided, and the books agree to the cent.
package integration

import (
	"testing"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
)

// shared is the Postgres and the Redis of the tests that leave them running.
var shared *devstack.Stack

func TestMain(m *testing.M) { stacktest.Main(m, &shared, devstack.Postgres, devstack.Redis) }
