package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// checkSource refuses a source that neither the configuration nor anything stored
// has: a filter that is mistyped selects nothing, which reads like an all-clear. An
// empty name selects all.
func checkSource(ctx context.Context, name string, configured []config.Source, pool *pgxpool.Pool, js jetstream.JetStream) error {
	if name == "" || slices.ContainsFunc(configured, func(s config.Source) bool { return s.Name.Value == name }) {
		return nil
	}
	sources, err := dedupe.Sources(ctx, pool)
	if err != nil || slices.Contains(sources, name) {
		return err
	}
	for in, subject := range map[string]string{stream.Events: "events." + envelope.Token(name) + ".>", stream.DLQ: dlq.Subject("", name)} {
		if has, err := holds(ctx, js, in, subject); err != nil || has {
			return err
		}
	}
	for _, s := range configured {
		sources = append(sources, s.Name.Value)
	}
	slices.Sort(sources)
	there := "there are none"
	if len(sources) > 0 {
		there = "there are " + strings.Join(slices.Compact(sources), ", ")
	}
	return exit.Usagef("--source %q is unknown: neither the configuration nor what is stored has it; %s", name, there)
}

// holds reports whether a stream has a message under a subject with wildcards.
func holds(ctx context.Context, js jetstream.JetStream, name, subject string) (bool, error) {
	found, err := js.Stream(ctx, name)
	if err != nil {
		return false, noStream(err)
	}
	_, err = found.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for %s in %s: %w", subject, name, err)
	}
	return true, nil
}
