package provider

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// Event returns the event that a verified request carries. It never fails: a
// request that cannot be keyed becomes an event with a Fault and a generated
// id, which the worker parks with its bytes. body is kept, not copied.
//
// Its key is [mode/][account/]id, where the mode is written only if it is not
// the one of this source, so that test traffic never meets a live key.
func (s *Source) Event(h http.Header, body []byte, now time.Time) *envelope.Event {
	doc, err := jsondoc.Scan(body, s.paths)
	r := reading{header: h, doc: doc, fault: scanFault(err)}

	event := &envelope.Event{
		Source:      s.name,
		Type:        r.join(s.typ, envelope.MaxType),
		Time:        r.time(s.occurred, now),
		ContentType: r.plain("Content-Type", envelope.MaxContentType),
		Account:     r.text(s.account, envelope.MaxAccount),
		Mode:        r.mode(s.live),
		TraceParent: traceParent(r.plain("Traceparent", envelope.MaxTraceParent)),
		Header:      r.kept(s.keep),
		Data:        body,
	}

	id, fault := r.id(s.id)
	if fault == "" {
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

func scanFault(err error) dlq.Reason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, jsondoc.ErrAmbiguous):
		return dlq.AmbiguousJSON
	default:
		return dlq.BadJSON
	}
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

// reading reads the values of one request and keeps the first fault.
type reading struct {
	header http.Header
	doc    any
	fault  dlq.Reason
}

// id returns the event id, or why there is none. Integers count as their
// decimal text: 9007199254740993 and "9007199254740993" are the same id.
func (r *reading) id(l locator) (string, dlq.Reason) {
	value, _ := l.find(r.header, r.doc)
	if _, ok := value.(jsondoc.Unstorable); ok {
		return "", dlq.IDInvalid
	}
	id := scalar(value)
	switch {
	case id == "":
		return "", dlq.NoEventID
	case !envelope.Storable(id, envelope.MaxID):
		return "", dlq.IDInvalid
	}
	return id, ""
}

// text returns a string or an integer, and "" for what is absent or neither.
func (r *reading) text(l locator, limit int) string {
	value, _ := l.find(r.header, r.doc)
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

// mode reads a flag or a word; whatever is neither is no mode.
func (r *reading) mode(l locator) string {
	value, _ := l.find(r.header, r.doc)
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
	values := r.header[name]
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
