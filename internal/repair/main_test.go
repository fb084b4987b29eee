package repair_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/systemtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

var stack *devstack.Stack

func TestMain(m *testing.M) { stacktest.Main(m, &stack, devstack.NATS, devstack.Postgres) }

// right are the rules as they should be, bad credit another account, and deaf
// know no payment.
var (
	right = systemtest.Right
	bad   = strings.Replace(right, "credit: body.to", `credit: '"house"'`, 1)
	deaf  = strings.Replace(right, `event.type == "paid"`, `event.type == "settled"`, 1)
)

// wallet is the account that payments of these tests belong to.
const wallet = "wallet:1"

var pay = systemtest.Payment

var (
	why = dedupe.Action{Actor: "ada", Note: "the rule credited the house"}
	dry = repair.Options{DryRun: true}
)

func key(id string) dedupe.Key { return dedupe.Key{Source: "shop", ID: id} }

// repairer repairs by the rules that s has now.
func repairer(s *systemtest.System) repair.Repairer {
	return repair.Repairer{Pool: s.Pool, JS: s.JS, Catalog: s.Catalog}
}

// correct corrects the event and wants it done.
func correct(t *testing.T, s *systemtest.System, id string) *repair.Done {
	t.Helper()
	done, err := repairer(s).Correct(t.Context(), key(id), why, repair.Options{})
	require.NoError(t, err)
	return done
}
