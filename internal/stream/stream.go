// Package stream is the one place that knows the broker: the names of the two
// streams, their settings, the connection, and what must be true of a server
// before money is entrusted to it.
//
// Open refuses a server that is too old, Ensure creates the streams or refuses
// ones with other settings, and ProveDurability refuses a server that answers
// before its disk has the data. Each refusal wraps ErrRefused and says what to
// change:
//
//	conn, err := stream.Open(ctx, cfg.NATS, "onceledger-receiver", log)
//	defer conn.Close()
//	err = stream.Ensure(ctx, conn.JS, cfg.NATS)
//	proof, err := stream.ProveDurability(ctx, cfg.NATS, log)
package stream

import (
	"time"

	"errors"
	"fmt"
	"strings"
)

// The names a person meets in the nats command.
const (
	// Events is the stream of verified deliveries, subject events.<source>.<type…>.
	Events = "EVENTS"
	// DLQ is the stream of dead letters, subject dlq.<reason>.<source>.
	DLQ = "DLQ"
	// Consumer is the durable consumer that all workers share.
	Consumer = "worker"

	// EventsSubjects and DLQSubjects are what the two streams store.
	EventsSubjects = "events.>"
	DLQSubjects    = "dlq.>"
)

// The refusals. All of them wrap ErrRefused: the program must not start before
// a person has changed something, and trying again does not help.
var (
	ErrRefused    = errors.New("refused to start")
	ErrVersion    = fmt.Errorf("%w: nats-server is too old", ErrRefused)
	ErrSettings   = fmt.Errorf("%w: stream settings differ", ErrRefused)
	ErrDurability = fmt.Errorf("%w: the server does not sync before it answers", ErrRefused)
)

// Difference is one setting that is not as it must be.
type Difference struct {
	// Setting names it as the nats command does, with its stream in front.
	Setting string
	// Have is what the server has, Want what onceledger needs.
	Have, Want string
	// Change is the command or the edit that mends it; may be empty.
	Change string
}

// SettingsError lists every difference at once; it wraps ErrSettings.
type SettingsError []Difference

// Error prints one difference a line.
func (e SettingsError) Error() string {
	var b strings.Builder
	b.WriteString(ErrSettings.Error())
	for _, d := range e {
		fmt.Fprintf(&b, "\n  %s: have %s, want %s", d.Setting, d.Have, d.Want)
		if d.Change != "" {
			b.WriteString(" (" + d.Change + ")")
		}
	}
	return b.String()
}

// Unwrap makes errors.Is(err, ErrSettings) and errors.Is(err, ErrRefused) hold.
func (e SettingsError) Unwrap() error { return ErrSettings }

// Incarnation tells one stream of a name from another: when it was created, in
// the resolution of the database.
func Incarnation(created time.Time) time.Time { return created.UTC().Truncate(time.Microsecond) }
