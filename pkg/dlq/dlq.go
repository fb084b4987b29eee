// Package dlq is the stream side of dead letters: what could not be applied is
// kept with its original bytes and headers, a reason, and a hint for the person
// who reads it.
//
// Guarantee: Park returns after the broker has stored the letter; the body is
// the one that was received, to the byte.
//
//	seq, err := dlq.Park(ctx, js, dlq.Letter{Header: msg.Headers(), Data: msg.Data(),
//		Source: "stripe", EventID: "evt_1", Reason: dlq.RuleError, Error: "no such key: amount"})
//	err = dlq.List(ctx, js, dlq.Filter{Reason: dlq.RuleError}, func(l *dlq.Letter) error { … })
package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// Stream is the name of the dead-letter stream. Its subjects are
// dlq.<reason>.<source>, so that `nats stream subjects DLQ` is the overview.
const Stream = "DLQ"

// The headers that a letter adds to those of the event.
const (
	HeaderReason    = "Onceledger-Reason"
	HeaderError     = "Onceledger-Error"
	HeaderAttempts  = "Onceledger-Attempts"
	HeaderHint      = "Onceledger-Hint"
	HeaderFirstSeen = "Onceledger-First-Seen"
	HeaderOriginSeq = "Onceledger-Origin-Seq"
	// HeaderSource, HeaderEventID and HeaderVariant name the event's row.
	HeaderSource  = "Onceledger-Source"
	HeaderEventID = "Onceledger-Event-Id"
	HeaderVariant = "Onceledger-Variant"
)

const (
	// Room is the most that a letter adds to the headers of an event within the
	// bounds of package envelope, in bytes. Whoever accepts events leaves so much
	// free below the broker's max_payload, or an event could be too large to park.
	Room = 8 << 10

	// maxError bounds the error text of a letter, in bytes. Percent-encoding
	// can make it three times as long.
	maxError = 1024
)

// ErrNotFound is returned where the stream has no letter with a sequence.
var ErrNotFound = errors.New("no such dead letter")

// Letter is one dead letter.
type Letter struct {
	// Seq is the sequence in the dead-letter stream; set on reading.
	Seq uint64
	// Parked is when the letter was stored; set on reading.
	Parked time.Time
	// Once names this parking: of two letters with one name that are stored
	// within the stream's duplicate window the broker keeps the first. Empty
	// stores always.
	Once string
	// Source, EventID and Variant are the key of the event's row.
	Source, EventID, Variant string
	Reason                   Reason
	// Error says in words what went wrong.
	Error string
	// Attempts that failed by the event's own fault before it was parked.
	Attempts int
	// FirstSeen is when the event was first stored in its stream.
	FirstSeen time.Time
	// OriginSeq is its sequence there.
	OriginSeq uint64
	// Header and Data are the event as it was received.
	Header nats.Header
	Data   []byte
}

// Hint says what a person can do about the letter.
func (l *Letter) Hint() string {
	info, _ := l.Reason.Info()
	return info.Hint
}

// Subject returns where letters of a reason and source are stored. An empty
// part stands for any.
func Subject(reason Reason, source string) string {
	token := func(text string) string {
		if text == "" {
			return "*"
		}
		return envelope.Token(text)
	}
	return "dlq." + token(string(reason)) + "." + token(source)
}

// Park stores a letter and returns its sequence. It is idempotent only within
// the stream's duplicate window; beyond, the event's row says whether its letter
// is stored. A name is taken for a repeat only while the letter of that name is
// there and says the same: after a restore of the database rows count anew, and
// give names that other letters had, which are gone by now. That costs one read.
func Park(ctx context.Context, js jetstream.JetStream, l Letter) (uint64, error) {
	for {
		ack, err := js.PublishMsg(ctx, l.msg())
		if err == nil && ack.Duplicate {
			var first *Letter
			first, err = Get(ctx, js, ack.Sequence)
			if errors.Is(err, ErrNotFound) || err == nil && !first.repeats(l) {
				l.Once += "/" + strconv.FormatUint(ack.Sequence, 10)
				continue
			}
		}
		if err != nil {
			return 0, fmt.Errorf("park event %s of %s: %w", l.EventID, l.Source, err)
		}
		return ack.Sequence, nil
	}
}

// repeats reports whether l is about the same event as other, and for the same reason.
func (l *Letter) repeats(other Letter) bool {
	return l.Source == other.Source && l.EventID == other.EventID && l.Variant == other.Variant && l.Reason == other.Reason
}

// msg builds the letter's message: the event's own headers without those of
// the broker, which would make it a part of a batch that does not exist.
func (l *Letter) msg() *nats.Msg {
	msg := nats.NewMsg(Subject(cmp.Or(l.Reason, "_"), cmp.Or(l.Source, "_")))
	msg.Data = l.Data
	for name, values := range l.Header {
		if !ofBroker(name) && !ofLetter(name) {
			name = writable(name)
			msg.Header[name] = append(msg.Header[name], values...)
		}
	}
	set := func(name, value string) { msg.Header[name] = []string{envelope.EncodeText(value)} }
	if l.Once != "" {
		msg.Header[jetstream.MsgIDHeader] = []string{envelope.EncodeText(l.Once)}
	}
	set(HeaderSource, l.Source)
	set(HeaderEventID, l.EventID)
	if l.Variant != "" {
		set(HeaderVariant, l.Variant)
	}
	set(HeaderReason, string(l.Reason))
	set(HeaderError, bounded(l.Error))
	set(HeaderHint, l.Hint())
	set(HeaderAttempts, strconv.Itoa(l.Attempts))
	set(HeaderFirstSeen, l.FirstSeen.UTC().Format(time.RFC3339Nano))
	set(HeaderOriginSeq, strconv.FormatUint(l.OriginSeq, 10))
	return msg
}

// writable replaces what the client reads in a header's name but refuses to
// write: anybody may have published the event, and it must be parked all the same.
func writable(name string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ':' {
			return '_'
		}
		return r
	}, name)
}

func ofBroker(name string) bool {
	return len(name) >= 5 && strings.EqualFold(name[:5], "nats-")
}

func ofLetter(name string) bool {
	switch name {
	case HeaderSource, HeaderEventID, HeaderVariant, HeaderReason, HeaderError, HeaderHint, HeaderAttempts, HeaderFirstSeen, HeaderOriginSeq:
		return true
	}
	return false
}

// bounded cuts text at a character's boundary.
func bounded(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") + "…"
}

// read is the inverse of msg. What a stranger wrote into the stream is read as
// far as it goes.
func read(h nats.Header, data []byte) *Letter {
	text := func(name string) string {
		value, _ := envelope.DecodeText(h.Get(name))
		return value
	}
	l := &Letter{
		Source: text(HeaderSource), EventID: text(HeaderEventID), Variant: text(HeaderVariant),
		Once: text(jetstream.MsgIDHeader), Reason: Reason(text(HeaderReason)), Error: text(HeaderError),
		Header: nats.Header{}, Data: data,
	}
	l.Attempts, _ = strconv.Atoi(text(HeaderAttempts))
	l.OriginSeq, _ = strconv.ParseUint(text(HeaderOriginSeq), 10, 64)
	l.FirstSeen, _ = time.Parse(time.RFC3339Nano, text(HeaderFirstSeen))
	for name, values := range h {
		if !ofBroker(name) && !ofLetter(name) {
			l.Header[name] = values
		}
	}
	return l
}
