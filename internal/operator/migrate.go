package operator

import (
	"context"
	"fmt"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
)

// Migration is what Migrate did.
type Migration struct {
	// Applied is the number of schema changes that were missing.
	Applied int `json:"applied"`
	// Streams are the names of the streams that were ensured; none where no
	// broker is configured.
	Streams []string `json:"streams"`
}

// Migrate brings the database to this program's schema and, where a broker is
// configured, creates the streams or refuses ones with other settings.
func Migrate(ctx context.Context, s *Session) error {
	cfg, err := s.settings()
	if err != nil {
		return err
	}
	url, err := s.databaseURL()
	if err != nil {
		return err
	}
	done := Migration{Streams: []string{}}
	if done.Applied, err = postgres.Migrate(ctx, url); err != nil {
		return s.away("postgres", err)
	}
	if err := checkSchema(ctx, url); err != nil {
		return err
	}
	if cfg.NATS.URL != "" {
		conn, err := s.Stream(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := stream.Ensure(ctx, conn.JS, cfg.NATS); err != nil {
			return err
		}
		done.Streams = append(done.Streams, stream.Events, stream.DLQ)
	}
	if s.JSON {
		return s.object(done)
	}
	switch done.Applied {
	case 0:
		fmt.Fprintln(s.Out, "database: the schema is up to date")
	default:
		fmt.Fprintf(s.Out, "database: %s applied\n", count(done.Applied, "schema change"))
	}
	if len(done.Streams) == 0 {
		fmt.Fprintln(s.Out, "streams:  not touched, since no NATS_URL is set")
		return nil
	}
	fmt.Fprintf(s.Out, "streams:  %s and %s are there, with the settings they need\n", stream.Events, stream.DLQ)
	return nil
}

// checkSchema refuses a database that a newer release has migrated: nothing of
// this one may run against it.
func checkSchema(ctx context.Context, url string) error {
	pool, err := postgres.Open(ctx, url, postgres.Owner)
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.CheckSchema(ctx, pool)
}
