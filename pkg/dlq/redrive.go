package dlq

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// ErrNoEnvelope is returned for a letter that holds no event: nothing but a
// discard can end it.
var ErrNoEnvelope = errors.New("the letter holds no event")

// Message returns the letter's event as a message to store in the event stream
// again: its own headers and bytes, without what a broker wrote, and with n in
// Onceledger-Redrive.
func (l *Letter) Message(n int) (*nats.Msg, error) {
	event, err := envelope.Decode(l.Header, l.Data)
	if err != nil {
		return nil, fmt.Errorf("redrive letter %d: %w: %w", l.Seq, ErrNoEnvelope, err)
	}
	msg := nats.NewMsg(envelope.Subject(event.Source, event.Type))
	for name, values := range l.Header {
		if !ofBroker(name) {
			msg.Header[name] = values
		}
	}
	msg.Header[envelope.HeaderRedrive] = []string{strconv.Itoa(n)}
	msg.Data = l.Data
	return msg, nil
}

// removing is how many letters are deleted at a time.
const removing = 16

// Remove deletes letters whose events have moved on. A letter that is gone
// already is no error, so that the step can be repeated; after an error some may
// be gone.
func Remove(ctx context.Context, js jetstream.JetStream, seqs ...uint64) error {
	if len(seqs) == 0 {
		return nil
	}
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", Stream, err)
	}
	var group errgroup.Group
	group.SetLimit(removing)
	for _, seq := range seqs {
		group.Go(func() error {
			err := stream.DeleteMsg(ctx, seq)
			if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
				// The client keeps nothing of the broker's reason but its text.
				if _, look := envelope.ReadOne(ctx, js, Stream, seq); errors.Is(look, envelope.ErrNotStored) {
					return nil
				}
			}
			if err != nil {
				return fmt.Errorf("remove dead letter %d: %w", seq, err)
			}
			return nil
		})
	}
	return group.Wait()
}
