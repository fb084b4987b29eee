package operator

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nuid"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/exit"
)

// Sample says what a built-in test event holds. Zero values mean the defaults of
// the source's provider.
type Sample struct {
	// ID of the event; empty makes a fresh one. The same ID makes the same bytes.
	ID string
	// Type of the event, for example charge.succeeded.
	Type string
	// Amount in the units the provider counts in, as the text of a number: it is
	// written into the body as it is.
	Amount, Currency string
	// Set holds path=value pairs for members of the body; a value that is JSON
	// is written as it is, any other as a string.
	Set []string
}

// fixedTime stands in events whose id was given, so that sending the id again is
// a resend of the same bytes.
var fixedTime = time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)

// sampled is a test event before it is signed.
type sampled struct {
	id     string
	key    string // the id under which the receiver stores it
	body   []byte
	header map[string]string
}

// build makes the body and the headers of a test event for src.
func (s Sample) build(src *catalog.Source, now time.Time) (*sampled, error) {
	if s.ID == "" {
		s.ID = "evt_test_" + nuid.Next()
	} else {
		now = fixedTime
	}
	usual := "19.99" // what counts in major units
	if p := src.Config.Provider.Value; p == "stripe" || p == "github" {
		usual = "1999"
	}
	s.Amount, s.Currency = cmp.Or(s.Amount, usual), cmp.Or(s.Currency, "EUR")
	if !json.Valid([]byte(s.Amount)) {
		return nil, exit.Usagef("--amount %q is not a number", s.Amount)
	}
	out := &sampled{id: s.ID, header: map[string]string{}}
	body := map[string]any{}
	switch src.Config.Provider.Value {
	case "stripe":
		s.stripe(body, src, now)
	case "github":
		s.github(body, out.header)
	case "standard-webhooks":
		s.standard(body, now)
	default:
		s.generic(body, out.header, src, now)
	}
	for _, pair := range s.Set {
		path, value, ok := strings.Cut(pair, "=")
		if !ok || path == "" {
			return nil, exit.Usagef("--set %q is not path=value, as in data.object.customer=cus_1", pair)
		}
		put(body, path, valueOf(value))
	}
	var err error
	if out.body, err = json.MarshalIndent(body, "", "  "); err != nil {
		return nil, fmt.Errorf("write sample event: %w", err)
	}
	return out, nil
}

// object is an id that belongs to the event's.
func (s Sample) object(prefix string) string {
	hash := sha256.Sum256([]byte(s.ID))
	return prefix + hex.EncodeToString(hash[:8])
}

func (s Sample) stripe(body map[string]any, src *catalog.Source, now time.Time) {
	body["id"], body["object"], body["created"] = s.ID, "event", now.Unix()
	body["type"] = cmp.Or(s.Type, "charge.succeeded")
	body["livemode"] = cmp.Or(src.Config.Mode, "live") == "live"
	body["data"] = map[string]any{"object": map[string]any{
		"id": s.object("ch_"), "object": "charge", "status": "succeeded",
		"amount": json.RawMessage(s.Amount), "currency": strings.ToLower(s.Currency),
		"customer": "cus_test", "metadata": map[string]any{"customer": "cus_test"},
	}}
}

func (s Sample) github(body map[string]any, header map[string]string) {
	event, action, _ := strings.Cut(cmp.Or(s.Type, "sponsorship.created"), ".")
	header["X-GitHub-Event"] = event
	if action != "" {
		body["action"] = action
	}
	body["sponsorship"] = map[string]any{
		"node_id": s.object("S_"), "sponsor": map[string]any{"login": "octocat"},
		"tier": map[string]any{"monthly_price_in_cents": json.RawMessage(s.Amount)},
	}
}

func (s Sample) standard(body map[string]any, now time.Time) {
	body["type"], body["timestamp"] = cmp.Or(s.Type, "order.paid"), now.UTC().Format(time.RFC3339)
	body["data"] = map[string]any{
		"id": s.object("ord_"), "customer_id": "cus_test", "points": 10,
		"total": json.RawMessage(s.Amount), "amount": json.RawMessage(s.Amount), "currency": s.Currency,
	}
}

// generic fills the places that the source's configuration names, and members
// that rules often read.
func (s Sample) generic(body map[string]any, header map[string]string, src *catalog.Source, now time.Time) {
	for name, value := range map[string]any{
		"amount": json.RawMessage(s.Amount), "currency": s.Currency, "asset": s.Currency,
		"user": "user_test", "customer": "cus_test", "payment_id": s.object("pay_"), "order_id": s.object("ord_"),
	} {
		body[name] = value
	}
	at := func(locator string, value any) {
		kind, place, _ := strings.Cut(locator, ":")
		switch kind {
		case "body":
			put(body, place, value)
		case "header":
			name, _, _ := strings.Cut(place, ",")
			header[name] = fmt.Sprint(value)
		}
	}
	at(src.Config.ID.Value, s.ID)
	at(src.Config.Type.Value, cmp.Or(s.Type, "topup"))
	at(src.Config.Time.Value, now.UTC().Format(time.RFC3339))
	at(src.Config.LiveMode.Value, cmp.Or(src.Config.Mode, "live") == "live")
}

// put writes a member at a path of names between dots.
func put(body map[string]any, path string, value any) {
	first, rest, more := strings.Cut(path, ".")
	if !more {
		body[first] = value
		return
	}
	under, ok := body[first].(map[string]any)
	if !ok {
		under = map[string]any{}
		body[first] = under
	}
	put(under, rest, value)
}

func valueOf(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}
