package up

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/local"
)

// Started is what --json prints once everything runs.
type Started struct {
	devstack.Addresses
	// Webhooks are the addresses to give to providers, by source.
	Webhooks map[string]string `json:"webhooks"`
	// Metrics are the Prometheus pages, by program.
	Metrics map[string]string `json:"metrics"`
	Config  string            `json:"config"`
	Logs    string            `json:"logs"`
}

// announce says how to use what runs.
func (s *system) announce() error {
	if s.JSON {
		return json.NewEncoder(s.Out).Encode(s.started())
	}
	s.say("\nWebhooks arrive here:\n")
	for _, source := range s.cat.Config.Sources {
		name := source.Name.Value
		s.say("  %-8s %s   (%s)", name, s.webhook(name), source.Provider.Value)
	}
	source, paste := s.paste()
	if paste != "" {
		s.say("\nSend a signed event, evt_first, which pays 12.50 USD into wallet:alice. Paste\nthis as often as you like; its money moves once:\n\n%s", paste)
	}
	s.say("\nThen, in another terminal:\n\n%s", s.suggestions(source))
	s.say("\nConfiguration %s, logs %s", s.path, s.logs())
	s.say("Ctrl-C stops everything; the data stays.")
	return nil
}

func (s *system) started() Started {
	v := Started{
		Addresses: s.stack.Addresses,
		Webhooks:  map[string]string{},
		Metrics:   map[string]string{},
		Config:    s.path,
		Logs:      s.logs(),
	}
	for _, source := range s.cat.Config.Sources {
		v.Webhooks[source.Name.Value] = s.webhook(source.Name.Value)
	}
	for _, p := range append([]*local.Process{s.receiver}, s.workers...) {
		v.Metrics[p.Name] = "http://" + p.Admin + "/metrics"
	}
	return v
}

func (s *system) webhook(source string) string {
	return s.stack.ReceiverURL + "/webhooks/" + source
}

// pasted is what a shell needs to sign and send an event of Stripe. The time is
// taken when it is pasted, as old signatures are refused.
const pasted = `  body='{"id":"evt_first","type":"charge.succeeded","livemode":true,
    "created":1764374400,"data":{"object":{"id":"ch_first","object":"charge",
    "amount":1250,"currency":"usd","customer":"alice"}}}'
  key=%s
  time=$(date +%%s)
  sum=$(printf %%s "$time.$body" |
    openssl dgst -sha256 -hmac "$key" | sed 's/.* //')
  curl -i %s -d "$body" \
    -H 'Content-Type: application/json' -H "Stripe-Signature: t=$time,v1=$sum"`

// paste returns commands that send a signed event, and its source: one of Stripe
// whose secret stands in the data folder's own configuration. Secrets of other files
// do not go to the terminal.
func (s *system) paste() (source, commands string) {
	text, err := os.ReadFile(s.path)
	if !s.ownConfig || err != nil {
		return "", ""
	}
	for _, source := range s.cat.Config.Sources {
		if source.Provider.Value != "stripe" || len(source.Secrets) == 0 {
			continue
		}
		secret := source.Secrets[0].Reveal()
		if strings.Contains(string(text), secret) {
			return source.Name.Value, fmt.Sprintf(pasted, quote(secret), s.webhook(source.Name.Value))
		}
	}
	return "", ""
}

// suggestions are commands to go on with, after an event of source was pasted; it is
// empty where none is offered.
func (s *system) suggestions(source string) string {
	at := " --data " + quote(s.Data)
	if !s.ownConfig {
		at += " --config " + quote(s.path)
	}
	first := "SOURCE"
	if len(s.cat.Config.Sources) > 0 {
		first = s.cat.Config.Sources[0].Name.Value
	}
	var lines []string
	if source != "" {
		lines = []string{"event show " + source + " evt_first" + at, "account balance wallet:alice" + at}
	}
	var b strings.Builder
	for _, line := range append(lines, "send "+first+at, "account list"+at, "dlq list"+at, "audit"+at) {
		fmt.Fprintf(&b, "  %s %s\n", s.Command, line)
	}
	server := `"$NATS_URL"` // may hold a password that is not ours to print
	if s.stack.NATS != nil {
		server = s.stack.NATSURL
	}
	fmt.Fprintf(&b, "  nats --server %s \\\n    stream get EVENTS 1", server)
	return b.String()
}

// baseURL is how this machine reaches an address that somebody listens on.
func baseURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// quote makes text one word of a shell.
func quote(text string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-./:@%+,", c)
	}
	if text != "" && strings.TrimLeftFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
