// Package streamtest tells tests where the worker's consumer and the broker stand.
package streamtest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
)

// Idle reports whether everything that is stored now was delivered and answered;
// never while there is no consumer, or no answer. The number of pending messages
// does not say so alone: it is zero in a consumer that was just made, and until
// the server has told the consumer of a message that it has just stored. The
// consumer is asked first: what an event leads to is stored before that is answered.
func Idle(t testing.TB, js jetstream.JetStream) bool {
	t.Helper()
	consumer, err := js.Consumer(t.Context(), stream.Events, stream.Consumer)
	if err != nil {
		return false
	}
	events, err := js.Stream(t.Context(), stream.Events)
	if err != nil {
		return false
	}
	info := consumer.CachedInfo()
	return info.Delivered.Stream >= events.CachedInfo().State.LastSeq && info.NumPending == 0 && info.NumAckPending == 0
}

// Reach waits until the broker answers on a test's own connection. Each
// connection finds a broker that came back in its own time, up to seconds after
// another one, and refuses everything until then.
func Reach(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := js.AccountInfo(t.Context())
		return err == nil
	}, time.Minute, 10*time.Millisecond, "the broker answers")
}
