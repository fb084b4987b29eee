package letters_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/systemtest"
)

var stack *devstack.Stack

func TestMain(m *testing.M) {
	if os.Getenv(childConfigEnv) != "" {
		os.Exit(runChild())
	}
	stacktest.Main(m, &stack, devstack.NATS, devstack.Postgres)
}

// right are the rules as they should be, wrong read the amount from where it is
// not.
var right, wrong = systemtest.Right, systemtest.Wrong

type system = systemtest.System

func newSystem(t *testing.T, rules string) *system { return systemtest.New(t, stack, rules) }

var (
	payment = systemtest.Payment
	ada     = systemtest.Ada
)

// errDied stands for the end of the process at some step.
var errDied = errors.New("died here")

// dying is a broker that ends the process at one step.
type dying struct {
	jetstream.JetStream
	at    string
	asked int  // how often for the stream EVENTS
	exits bool // it does end the process
}

func (d *dying) die() error {
	if d.exits {
		os.Exit(killed)
	}
	return errDied
}

func (d *dying) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if d.at == "before it publishes" {
		return nil, d.die()
	}
	ack, err := d.JetStream.PublishMsg(ctx, msg, opts...)
	if d.at == "before it hears that the message is stored" {
		return nil, d.die()
	}
	return ack, err
}

func (d *dying) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == stream.Events {
		d.asked++
	}
	if d.at == "before it records where the message lies" && d.asked == 2 {
		return nil, d.die()
	}
	opened, err := d.JetStream.Stream(ctx, name)
	return &dyingStream{opened, d}, err
}

type dyingStream struct {
	jetstream.Stream
	*dying
}

func (d *dyingStream) DeleteMsg(ctx context.Context, seq uint64) error {
	if d.at == "before it deletes the letter" {
		return d.die()
	}
	err := d.Stream.DeleteMsg(ctx, seq)
	if d.at == "after it deleted the letter" {
		return d.die()
	}
	return err
}

// letterMsg returns a stored letter as a message to store again.
func letterMsg(t *testing.T, s *system, seq uint64) *nats.Msg {
	t.Helper()
	opened, err := s.JS.Stream(t.Context(), stream.DLQ)
	require.NoError(t, err)
	raw, err := opened.GetMsg(t.Context(), seq)
	require.NoError(t, err)
	msg := nats.NewMsg(raw.Subject)
	msg.Header, msg.Data = raw.Header, raw.Data
	msg.Header.Del(jetstream.MsgIDHeader)
	return msg
}
