package local

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
)

// prepareWait bounds the wait for services that somebody else runs.
const prepareWait = 30 * time.Second

// Prepare brings the schema and the streams of a stack to what this program
// needs, and returns how many migrations that took.
func Prepare(ctx context.Context, stack devstack.Addresses, cfg config.NATS) (migrations int, err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareWait)
	defer cancel()
	migrations, err = postgres.Migrate(ctx, stack.DatabaseURL)
	if err != nil {
		return migrations, err
	}

	cfg.URL = stack.NATSURL
	if stack.NATSMonitorURL != "" {
		cfg.MonitorURL = stack.NATSMonitorURL
	}
	conn, err := stream.Open(ctx, cfg, "onceledger", zerolog.Nop())
	if err != nil {
		return migrations, err
	}
	defer conn.Close()
	return migrations, stream.Ensure(ctx, conn.JS, cfg)
}
