package letters_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// These make this test binary a process that moves all letters and ends at a
// step of that.
const (
	childConfigEnv = "ONCELEDGER_TEST_CHILD_CONFIG"
	childVerbEnv   = "ONCELEDGER_TEST_CHILD_VERB"
	childStepEnv   = "ONCELEDGER_TEST_CHILD_STEP"
)

// killed is how a process ends that SIGKILL has ended.
const killed = 137

func runChild() int {
	if err := moveAll(context.Background(), os.Getenv(childVerbEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func moveAll(ctx context.Context, verb string) error {
	cat, err := catalog.Load(os.Getenv(childConfigEnv), os.LookupEnv)
	if err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, cat.Config.Database.URL.Reveal(), postgres.Owner)
	if err != nil {
		return err
	}
	conn, err := stream.Open(ctx, cat.Config.NATS, "test", zerolog.Nop())
	if err != nil {
		return err
	}
	var list []*dlq.Letter
	err = dlq.List(ctx, conn.JS, dlq.Filter{}, func(l *dlq.Letter) error { list = append(list, l); return nil })
	if err != nil {
		return err
	}
	store := letters.Store{Pool: pool, JS: &dying{JetStream: conn.JS, at: os.Getenv(childStepEnv), exits: true}}
	switch verb {
	case "redrive":
		_, err = store.Redrive(ctx, list, ada, nil)
	case "discard":
		_, err = store.Discard(ctx, list, bob)
	case "tidy":
		_, err = store.Tidy(ctx)
	}
	return err
}

// child moves all letters in a process of its own, which dies at a step.
func child(s *system, verb, step string) {
	s.T.Helper()
	cmd := exec.CommandContext(s.T.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childConfigEnv+"="+s.Catalog.Config.File, childVerbEnv+"="+verb, childStepEnv+"="+step,
		"DATABASE_URL="+s.URL, "NATS_URL="+stack.NATSURL, "NATS_MONITOR_URL="+stack.NATSMonitorURL)
	out, err := cmd.CombinedOutput()
	require.Error(s.T, err)
	require.Equal(s.T, killed, cmd.ProcessState.ExitCode(), "%s", out)
}
