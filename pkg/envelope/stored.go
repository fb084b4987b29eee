package envelope

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNotStored is returned by ReadOne where the stream has no message with a
// sequence.
var ErrNotStored = errors.New("no such message")

// Stored is a message as it lies in a stream.
type Stored struct {
	Subject string
	Seq     uint64
	// Time is when it was stored; zero where its header cannot be read.
	Time time.Time
	// Header and Data are what was published.
	Header nats.Header
	Data   []byte
}

// Range selects stored messages.
type Range struct {
	// From is the first sequence; where it is 0, Since is when the first message
	// was stored.
	From  uint64
	Since time.Time
	// Subject selects by subject, which may have wildcards; empty selects all.
	Subject string
	// Messages and Bytes bound what is returned; the message that reaches Bytes
	// belongs to it. No Bytes leaves the bound to the broker.
	Messages, Bytes int
}

// readTimeout bounds a read whose context has no deadline.
const readTimeout = 30 * time.Second

// Read returns the messages of a range in their order, past gaps; none means
// that there are none, or that all of them were removed. An answer that breaks
// off is an error, never a short result.
//
// Anybody may have published what is read, with headers that look like the
// broker's: where a message lies is taken from what the broker has added behind
// them.
func Read(ctx context.Context, js jetstream.JetStream, stream string, r Range) ([]*Stored, error) {
	request := struct {
		Seq     uint64     `json:"seq,omitempty"`
		Since   *time.Time `json:"start_time,omitempty"`
		Subject string     `json:"next_by_subj,omitempty"`
		Batch   int        `json:"batch"`
		Bytes   int        `json:"max_bytes,omitempty"`
	}{Seq: r.From, Subject: r.Subject, Batch: r.Messages, Bytes: r.Bytes}
	if r.From == 0 {
		request.Since = &r.Since
	}
	found := make([]*Stored, 0, min(r.Messages, 1000))
	err := direct(ctx, js, stream, request, func(answer *nats.Msg) (more bool, err error) {
		if err := follow(found, answer.Header); err != nil {
			return false, err
		}
		if !ofMessage(answer) {
			return false, statusOf(answer.Header)
		}
		m, err := storedIn(answer, ofRead)
		found = append(found, m)
		return true, err
	})
	if errors.Is(err, ErrNotStored) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read messages of %s: %w", stream, err)
	}
	return found, nil
}

// errIncomplete means that answers were lost on their way, as with a connection.
var errIncomplete = errors.New("a part of the answer is missing")

// follow checks that an answer follows what was found: the broker says which
// message it has sent before.
func follow(found []*Stored, h nats.Header) error {
	previous, err := strconv.ParseUint(last(h, jetstream.LastSequenceHeader), 10, 64)
	if err != nil {
		return nil //nolint:nilerr // not in a batch, or not readable
	}
	var before uint64
	if n := len(found); n > 0 {
		if found[n-1].Seq == 0 { // its own answer could not say
			found[n-1].Seq = previous
		}
		before = found[n-1].Seq
	}
	if previous != before {
		return fmt.Errorf("%w: message %d", errIncomplete, previous)
	}
	return nil
}

// ReadOne returns the message with a sequence, or ErrNotStored.
func ReadOne(ctx context.Context, js jetstream.JetStream, stream string, seq uint64) (*Stored, error) {
	if seq == 0 { // to the broker that is no sequence at all
		return nil, fmt.Errorf("read message of %s: %w: 0", stream, ErrNotStored)
	}
	request := struct {
		Seq uint64 `json:"seq"`
	}{seq}
	var found *Stored
	err := direct(ctx, js, stream, request, func(answer *nats.Msg) (more bool, err error) {
		if !ofMessage(answer) {
			return false, statusOf(answer.Header)
		}
		found, err = storedIn(answer, ofReadOne)
		return false, err
	})
	if err != nil {
		return nil, fmt.Errorf("read message %d of %s: %w", seq, stream, err)
	}
	found.Seq = seq
	return found, nil
}

// direct asks the broker for stored messages and hands over each answer until
// more is false.
func direct(ctx context.Context, js jetstream.JetStream, stream string, request any, each func(*nats.Msg) (more bool, err error)) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readTimeout)
		defer cancel()
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	nc := js.Conn()
	inbox, answers, done := nc.NewInbox(), make(chan *nats.Msg), make(chan struct{})
	defer close(done)
	// The client's own ways to wait take a message's status for the broker's.
	sub, err := nc.Subscribe(inbox, func(answer *nats.Msg) {
		select {
		case answers <- answer:
		case <-done:
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // with the connection it is gone already
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	if err := nc.PublishRequest(apiPrefix(js.Options())+"DIRECT.GET."+stream, inbox, body); err != nil {
		return err
	}
	for {
		select {
		case answer := <-answers:
			if more, err := each(answer); err != nil || !more {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	}
	return jetstream.DefaultAPIPrefix
}

// ofMessage reports whether an answer is a stored message: the broker's own
// words have no body and no sequence, whatever status a message may claim. One
// whose header the client could not read has neither header nor words.
func ofMessage(answer *nats.Msg) bool {
	return answer.Header == nil || last(answer.Header, jetstream.SequenceHeader) != ""
}

// statusOf turns the broker's word into an error; nil for the end of a batch.
func statusOf(h nats.Header) error {
	switch status := h.Get("Status"); status {
	case "204":
		return nil
	case "404":
		return ErrNotStored
	case "503":
		return nats.ErrNoResponders
	default:
		return fmt.Errorf("the broker answered %s %s", status, h.Get("Description"))
	}
}

// The headers that the broker adds, each once, behind those of the message.
var (
	ofReadOne = []string{jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer}
	ofRead    = append([]string{"Nats-Num-Pending", jetstream.LastSequenceHeader}, ofReadOne...)
)

// storedIn reads an answer and takes off what the broker has added.
func storedIn(answer *nats.Msg, added []string) (*Stored, error) {
	m := &Stored{Header: answer.Header, Data: answer.Data}
	if answer.Header == nil {
		return m, nil
	}
	var err error
	m.Subject = last(m.Header, jetstream.SubjectHeader)
	if m.Seq, err = strconv.ParseUint(last(m.Header, jetstream.SequenceHeader), 10, 64); err != nil {
		return nil, fmt.Errorf("read sequence: %w", err)
	}
	if m.Time, err = time.Parse(time.RFC3339Nano, last(m.Header, jetstream.TimeStampHeaer)); err != nil {
		return nil, fmt.Errorf("read time of message %d: %w", m.Seq, err)
	}
	for _, name := range added {
		switch values := m.Header[name]; len(values) {
		case 0:
		case 1:
			delete(m.Header, name)
		default:
			m.Header[name] = values[:len(values)-1]
		}
	}
	return m, nil
}

// last returns the last value of a header: what the broker says stands behind
// what the message says.
func last(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
