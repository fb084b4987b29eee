package envelope

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The headers of a message. NATS compares names byte by byte, so they are
// written exactly like this.
//
//	NATS/1.0
//	ce-specversion: 1.0
//	ce-id: evt_1
//	ce-source: stripe
//	ce-type: charge.succeeded
//	ce-time: 2024-05-01T10:00:00Z
//	ce-mode: live
//	content-type: application/json
//	Onceledger-H-X-Github-Event: push
//
//	{"id":"evt_1",…}
const (
	HeaderSpecVersion = "ce-specversion"
	HeaderID          = "ce-id"
	HeaderSource      = "ce-source"
	HeaderType        = "ce-type"
	HeaderTime        = "ce-time"
	HeaderAccount     = "ce-account"
	HeaderMode        = "ce-mode"
	HeaderFault       = "ce-fault"
	HeaderHint        = "ce-hint"
	HeaderContentType = "content-type"
	HeaderTraceParent = "traceparent"
	HeaderRedrive     = "Onceledger-Redrive"
	// HeaderKept is what a kept request header's name is prefixed with.
	HeaderKept = "Onceledger-H-"
)

const (
	specVersion = "1.0"
	// untyped stands for an empty type, which CloudEvents does not allow.
	untyped = "onceledger.untyped"
)

// Msg returns e as a message ready to publish, with the subject
// Subject(e.Source, e.Type). It fails with ErrInvalid where a part of e is
// missing, too long or no text. The message shares e's data.
func (e *Event) Msg() (*nats.Msg, error) {
	if err := e.validate(); err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}

	msg := nats.NewMsg(Subject(e.Source, e.Type))
	msg.Data = e.Data
	set := func(name, value string) {
		if value != "" {
			msg.Header[name] = []string{value}
		}
	}

	set(HeaderSpecVersion, specVersion)
	set(HeaderID, encodeAttribute(e.ID))
	set(HeaderSource, encodeAttribute(e.Source))
	set(HeaderType, encodeAttribute(e.Type))
	if e.Type == "" {
		set(HeaderType, untyped)
	}
	if !e.Time.IsZero() {
		set(HeaderTime, e.Time.UTC().Format(time.RFC3339Nano))
	}
	set(HeaderAccount, encodeAttribute(e.Account))
	set(HeaderMode, encodeAttribute(e.Mode))
	set(HeaderFault, encodeAttribute(e.Fault))
	set(HeaderHint, encodeAttribute(e.Hint))

	set(HeaderContentType, EncodeText(e.ContentType))
	set(HeaderTraceParent, EncodeText(e.TraceParent))
	if e.Redrive > 0 {
		set(HeaderRedrive, strconv.Itoa(e.Redrive))
	}
	for name, value := range e.Header {
		msg.Header[HeaderKept+name] = []string{EncodeText(value)}
	}
	return msg, nil
}

// EncodedSize returns the bytes of msg that count against the server's
// max_payload: headers and data. What a batch adds to it is not included.
func EncodedSize(msg *nats.Msg) int {
	return msg.Size() - len(msg.Subject) - len(msg.Reply)
}

// Decode returns the event that a message with these headers and this data
// carries. It fails with ErrInvalid where Msg cannot have written it; headers
// of others, such as the broker's, are skipped. The event shares data.
func Decode(h nats.Header, data []byte) (*Event, error) {
	d := decoder{header: h}
	if version := d.text(HeaderSpecVersion); version != specVersion {
		d.err = cmp.Or(d.err, fmt.Errorf("%w: header %q is %q, not %q", ErrInvalid, HeaderSpecVersion, version, specVersion))
	}
	e := &Event{
		Source:      d.text(HeaderSource),
		ID:          d.text(HeaderID),
		Type:        d.text(HeaderType),
		Time:        d.time(HeaderTime),
		ContentType: d.text(HeaderContentType),
		Account:     d.text(HeaderAccount),
		Mode:        d.text(HeaderMode),
		Fault:       d.text(HeaderFault),
		Hint:        d.text(HeaderHint),
		Redrive:     d.count(HeaderRedrive),
		TraceParent: d.text(HeaderTraceParent),
		Header:      d.kept(),
		Data:        data,
	}
	if e.Type == untyped {
		e.Type = ""
	}

	if d.err != nil {
		return nil, fmt.Errorf("decode event: %w", d.err)
	}
	if err := e.validate(); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	return e, nil
}

// decoder reads headers and keeps the first fault.
type decoder struct {
	header nats.Header
	err    error
}

func (d *decoder) fault(name string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: header %q is not as it was written", ErrInvalid, name)
	}
}

// text returns the decoded value of a header, or "" if it is absent.
func (d *decoder) text(name string) string {
	values := d.header[name]
	if len(values) == 0 {
		return ""
	}
	value, ok := DecodeText(values[0])
	if !ok || len(values) > 1 {
		d.fault(name)
	}
	return value
}

func (d *decoder) time(name string) time.Time {
	value := d.text(name)
	if value == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		d.fault(name)
	}
	return at.UTC()
}

func (d *decoder) count(name string) int {
	value := d.text(name)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || strconv.Itoa(n) != value {
		d.fault(name)
	}
	return n
}

func (d *decoder) kept() map[string]string {
	var kept map[string]string
	for name := range d.header {
		short, ok := strings.CutPrefix(name, HeaderKept)
		if !ok {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[short] = d.text(name)
	}
	return kept
}
