package provider

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// Events returns the events that a verified request carries, at least one. It
// never fails: what cannot be keyed becomes an event with a Fault and a
// generated id, which the worker parks with its bytes. Bodies are kept, not copied.
//
// A key is [mode/][account/]id, where the mode is written only if it is not the
// one of this source, so that test traffic never meets a live key.
//
// Where a request holds a batch, each item is an event of its own, with a key
// and a fault of its own, and its data is the item's bytes exactly as they stood
// in the body: all that rules read is in the item, a resend of it in another
// batch is the same message, and a dead letter shows what is wrong and nothing
// else. What stands beside the items (Adyen's live) becomes a header. A batch
// that cannot be taken apart is one event with the whole body and a fault.
func (s *Source) Events(req Request, now time.Time) []*envelope.Event {
	if s.preset.batch == "" {
		r := reading{req: req, data: req.Body}
		r.doc, r.fault = s.read(req, req.Body)
		return []*envelope.Event{s.event(&r, now)}
	}
	items, beside, err := split(req.Body, s.preset.batch)
	if err != nil || len(items) == 0 {
		r := reading{req: req, data: req.Body, fault: body.Reason(err)}
		return []*envelope.Event{s.event(&r, now)}
	}
	events := make([]*envelope.Event, len(items))
	for i, item := range items {
		r := reading{req: req, data: item.Data, batch: beside, fault: body.Reason(item.Err)}
		if r.fault == "" {
			r.doc, r.fault = s.read(req, item.Data)
		}
		events[i] = s.event(&r, now)
	}
	return events
}

// View reads an event's data as rules do, whatever its format: forms, XML,
// envelopes and sealed resources are what they hold. See body.View.
func (s *Source) View(contentType string, data []byte, keep *jsondoc.Paths) (any, error) {
	if s.preset.orJSON && looksLikeJSON(data) {
		return jsondoc.Scan(data, keep)
	}
	return body.View(&s.kind, contentType, data, keep)
}

func looksLikeJSON(data []byte) bool {
	data = bytes.TrimLeft(data, "\xEF\xBB\xBF \t\r\n")
	return len(data) > 0 && (data[0] == '{' || data[0] == '[')
}

// read returns what the locators need of an event's data.
func (s *Source) read(req Request, data []byte) (any, dlq.Reason) {
	contentType := ""
	if values := req.Header["Content-Type"]; len(values) == 1 {
		contentType = values[0]
	}
	doc, err := s.View(contentType, data, s.paths)
	return doc, body.Reason(err)
}

func (s *Source) event(r *reading, now time.Time) *envelope.Event {
	event := &envelope.Event{
		Source:      s.name,
		Type:        r.join(s.typ, envelope.MaxType),
		Time:        r.time(s.occurred, s.zone, now),
		ContentType: r.plain("Content-Type", envelope.MaxContentType),
		Account:     r.text(s.account, envelope.MaxAccount),
		Mode:        r.mode(s.live, s.preset.modes),
		TraceParent: traceParent(r.plain("Traceparent", envelope.MaxTraceParent)),
		Header:      r.kept(s.keep),
		Data:        r.data,
	}

	id, fault := r.id(s.id)
	switch {
	case s.preset.hint, s.preset.thin != nil && s.preset.thin(r):
		fault = dlq.NeedsFetch
	case fault == "":
		event.ID = s.key(event, id)
		if len(event.ID) > envelope.MaxID {
			fault = dlq.IDInvalid
		}
	}
	if reason := cmp.Or(r.fault, fault); reason != "" {
		event.Fault = string(reason)
		event.ID = envelope.GeneratedID()
	}
	return event
}

// key composes the event key so that no two (mode, account, id) share one: a
// slash within an account is escaped, and so is an account that reads like a
// mode; an id with a slash of its own follows an empty account.
func (s *Source) key(event *envelope.Event, id string) string {
	key := id
	switch {
	case event.Account != "":
		key = escapeAccount(event.Account) + "/" + id
	case strings.Contains(id, "/") && (s.account.set() || s.live.set()):
		key = "/" + id
	}
	if event.Mode != "" && event.Mode != s.mode {
		key = event.Mode + "/" + key
	}
	return key
}

func escapeAccount(account string) string {
	switch account {
	case live:
		return "%6Cive"
	case test:
		return "%74est"
	}
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(account)
}

// The modes of an event.
const (
	live = "live"
	test = "test"
)

// reading reads the values of one event and keeps the first fault.
type reading struct {
	req   Request
	data  []byte // the event's own
	doc   any    // of data
	batch any    // what stands beside the items
	fault dlq.Reason
}

// id returns the event id, or why there is none. Integers count as their
// decimal text: 9007199254740993 and "9007199254740993" are the same id. Several
// parts are joined by colons, those within a part being escaped.
func (r *reading) id(parts []locator) (string, dlq.Reason) {
	var id string
	for i, l := range parts {
		value := r.find(l)
		if _, ok := value.(jsondoc.Unstorable); ok {
			return "", dlq.IDInvalid
		}
		part := scalar(value)
		if flag, ok := value.(bool); ok && l.optional { // a state, which some write so
			part = strconv.FormatBool(flag)
		}
		switch {
		case part == "" && !l.optional:
			return "", dlq.NoEventID
		case !envelope.Storable(part, envelope.MaxID):
			return "", dlq.IDInvalid
		case len(parts) == 1:
			return part, ""
		case i > 0:
			id += ":"
		}
		id += idEscaper.Replace(part)
	}
	if id == "" {
		return "", dlq.NoEventID
	}
	return id, ""
}

var idEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// text returns a string or an integer, and "" for what is absent or neither.
func (r *reading) text(l locator, limit int) string {
	value := r.find(l)
	if _, ok := value.(jsondoc.Unstorable); ok {
		r.unstorable()
		return ""
	}
	text := scalar(value)
	if !envelope.Storable(text, limit) {
		r.unstorable()
		return ""
	}
	return text
}

func (r *reading) unstorable() {
	r.fault = cmp.Or(r.fault, dlq.UnstorableText)
}

// join returns the texts at several places with dots between them.
func (r *reading) join(places []locator, limit int) string {
	var parts []string
	for _, l := range places {
		if text := r.text(l, limit); text != "" {
			parts = append(parts, text)
		}
	}
	joined := strings.Join(parts, ".")
	if len(joined) > limit {
		r.unstorable()
		return ""
	}
	return joined
}

// mode reads a flag or a word; whatever is neither is no mode. words are the
// provider's own.
func (r *reading) mode(l locator, words []word) string {
	if !l.set() {
		return ""
	}
	return modeOf(r.find(l), words)
}

func modeOf(value any, words []word) string {
	if words != nil {
		text := scalar(value)
		if flag, ok := value.(bool); ok {
			text = strconv.FormatBool(flag)
		}
		for _, w := range words {
			if w.text == text {
				return w.mode
			}
		}
		return ""
	}
	switch value {
	case true, "true", live:
		return live
	case false, "false", test:
		return test
	}
	return ""
}

// plain returns a request header for the record, "" where it cannot travel.
func (r *reading) plain(name string, limit int) string {
	values := r.req.Header[name]
	if len(values) != 1 || !envelope.Storable(values[0], limit) {
		return ""
	}
	return values[0]
}

// kept returns the headers that rules may read, without those that are absent,
// repeated or cannot travel.
func (r *reading) kept(names []string) map[string]string {
	var kept map[string]string
	for _, name := range names {
		value := r.plain(name, envelope.MaxHeaderValue)
		if value == "" {
			continue
		}
		if kept == nil {
			kept = make(map[string]string, len(names))
		}
		kept[name] = value
	}
	return kept
}

// scalar returns a string as it is, an integer as its decimals, and "" for
// everything else.
func scalar(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case jsondoc.Number:
		if !strings.ContainsAny(string(v), ".eE") { // an integer past 64 bits
			return string(v)
		}
	}
	return ""
}

// traceParent returns value if it has the shape of a W3C trace context.
func traceParent(value string) string {
	const shape = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if len(value) != shape || strings.Trim(value, "0123456789abcdef-") != "" {
		return ""
	}
	if value[2] != '-' || value[35] != '-' || value[52] != '-' {
		return ""
	}
	return value
}
