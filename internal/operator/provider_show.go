package operator

import (
	"cmp"
	"fmt"
	"strings"
)

func (p *Provider) print(s *Session) error {
	t := newTable(s.Out)
	t.row("provider", p.Name)
	t.row("signature", p.Scheme)
	t.row("clock", p.clockWords())
	for _, setting := range p.Settings {
		if setting.Key == "secrets" {
			t.row(setting.Key, setting.About)
			continue
		}
		need := "may be left out"
		if setting.Required {
			need = "required"
		}
		t.row(setting.Key, setting.About+" ("+need+")")
	}
	t.row("events", p.eventsWords())
	t.row("event id", p.eventID())
	t.row("event type", cmp.Or(strings.Join(p.Types, " . "), "not said"))
	t.row("account", cmp.Or(p.Account, "not said"))
	t.row("mode", cmp.Or(p.Mode, "not said"))
	t.row("occurred at", cmp.Or(p.Occurred, "not said"))
	t.row("headers kept", cmp.Or(strings.Join(p.Headers, ", "), "none"))
	t.row("amounts", p.amountsWords())
	if p.Handshake {
		t.row("handshake", "requests that check the endpoint are answered, and are no events")
	}
	t.row("if stored", p.Stored.cell())
	t.row("if not signed", p.Refused.cell())
	t.row("if unavailable", p.Again.cell())
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.Out, "\n%s", p.Config)
	return err
}

func (p *Provider) clockWords() string {
	if p.Tolerance == 0 {
		return "no signed time is held to it: a repeat is told by its id"
	}
	return "a signed time may be off by " + strings.TrimPrefix(p.clock(), "±") + " in both directions"
}

func (p *Provider) eventsWords() string {
	switch p.Batch {
	case "":
		return "one a request"
	case ".":
		return "each item of the body"
	}
	return "each item of " + p.Batch
}

// amountsWords says whether the body may be believed.
func (p *Provider) amountsWords() string {
	lookup := "parked as needs_fetch"
	if p.Fetch {
		lookup = "looked up in the API where the source has fetch:, and parked as needs_fetch elsewhere"
	}
	switch {
	case !p.Trusted:
		return "never from the body, which nobody signs or which has none: each event is " + lookup
	case p.Thin:
		return "from the signed body; events without any are " + lookup
	}
	return "from the signed body"
}

// examples are values that pass a check, for keys that are no secrets.
var examples = map[string]string{
	"url":             "https://hooks.example.com/webhooks/NAME",
	"audience":        "com.example.app",
	"service_account": "push@example.iam.gserviceaccount.com",
	"webhook_id":      "1AB23456CD789012E",
	"hmac":            "{header: X-Signature}",
	"id":              "body:id",
}

// minimal is a configuration that passes a check as it stands, once its variables
// are set.
func (p *Provider) minimal() string {
	variable := strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))
	var out strings.Builder
	fmt.Fprintf(&out, "sources:\n  %s: # POST /webhooks/%[1]s\n    provider: %[1]s\n", p.Name)
	for _, setting := range p.Settings {
		value := strings.ReplaceAll(examples[setting.Key], "NAME", p.Name)
		switch setting.Key {
		case "secrets":
			value = fmt.Sprintf(`["${%s_SECRET}"]`, variable)
		case "public_keys":
			value = fmt.Sprintf(`["${%s_PUBLIC_KEY}"]`, variable)
		case "verify_token": // without it no endpoint can be registered
			value, setting.Required = fmt.Sprintf(`"${%s_VERIFY_TOKEN}"`, variable), true
		}
		if setting.Required {
			fmt.Fprintf(&out, "    %s: %s\n", setting.Key, value)
		}
	}
	out.WriteString("    rules: []\n")
	return out.String()
}
