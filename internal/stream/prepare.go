package stream

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/config"
)

// answerTimeout bounds the wait for the server's word that it is there.
const answerTimeout = 2 * time.Second

// Prepare is what a program does once it is connected: Ensure and ProveDurability,
// and then first, if there is one. A server that goes away meanwhile, or that has
// no leader yet, is waited for until ctx ends; only what a person has to change is
// an error, and wraps ErrRefused.
func Prepare(ctx context.Context, conn *Conn, cfg config.NATS, log zerolog.Logger, first func(context.Context) error) (Proof, error) {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	for told := false; ; told = true {
		proof, err := prepare(ctx, conn, cfg, log)
		if err == nil && first != nil {
			err = first(ctx)
		}
		if err == nil || ctx.Err() != nil || refuses(conn, err) {
			return proof, err
		}
		if !told {
			log.Warn().Err(err).Msg("nats is there and its streams are not, trying again")
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return Unknown, errors.Join(context.Cause(ctx), err)
		}
	}
}

func prepare(ctx context.Context, conn *Conn, cfg config.NATS, log zerolog.Logger) (Proof, error) {
	if err := Ensure(ctx, conn.JS, cfg); err != nil {
		return Unknown, err
	}
	return ProveDurability(ctx, cfg, log)
}

// refuses reports whether err will not pass. That a monitoring address is silent
// is a fault of the configuration only while the server itself is not.
func refuses(conn *Conn, err error) bool {
	if errors.Is(err, errUnseen) {
		return conn.NC.FlushTimeout(answerTimeout) == nil
	}
	return errors.Is(err, ErrRefused)
}
