// Package streamtest tells tests where the worker's consumer stands.
package streamtest

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

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
