package letters_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

var errMute = errors.New("no answer")

// mute is a broker that does not answer, as one does whose disk is full.
type mute struct {
	jetstream.JetStream
	patience time.Duration // how long it would have been waited for
}

func (m *mute) PublishMsg(ctx context.Context, _ *nats.Msg, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if end, bounded := ctx.Deadline(); bounded {
		m.patience = time.Until(end)
	}
	return nil, errMute
}

// A caller with minutes to spend, such as the upkeep, does not spend them on one
// answer.
func TestRedriveDoesNotWaitForAMuteBroker(t *testing.T) {
	s := newSystem(t, wrong)
	s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "5"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	broker := &mute{JetStream: s.JS}
	results, err := letters.Store{Pool: s.Pool, JS: broker}.Redrive(ctx, s.Stored(), ada, nil)
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, errMute)
	require.Positive(t, broker.patience)
	require.Less(t, broker.patience, time.Minute)
	require.Equal(t, dedupe.Pending, s.Row("evt_1").State, "it is shown, and can be redriven")
}
