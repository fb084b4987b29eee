package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/provider/providertest"
	"github.com/onceledger/onceledger/internal/receiver"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// printed is what a command prints that needs no system.
func printed(t *testing.T, json bool, command func(*operator.Session) error) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, command(&operator.Session{Out: &out, JSON: json}))
	return out.String()
}

func show(name string) func(*operator.Session) error {
	return func(s *operator.Session) error { return operator.ShowProvider(s, name) }
}

func TestProviders(t *testing.T) {
	t.Parallel()
	t.Run("are listed, each on a line of a screen's width", func(t *testing.T) {
		t.Parallel()
		lines := strings.Split(strings.TrimSpace(printed(t, false, operator.ListProviders)), "\n")
		require.Len(t, lines, 1+len(provider.Names()))
		require.Regexp(t, `^PROVIDER +SIGNATURE +EVENT ID +CLOCK +ANSWER$`, lines[0])
		for i, name := range provider.Names() {
			require.Equal(t, name, strings.Fields(lines[1+i])[0])
			require.LessOrEqual(t, len([]rune(lines[1+i])), 280)
		}
		require.Contains(t, strings.Join(strings.Fields(strings.Join(lines, "\n")), " "),
			"stripe HMAC-SHA256, hex, header Stripe-Signature (v1=) body:id ±5m 200 ")
	})
	t.Run("are objects for programs, without nulls", func(t *testing.T) {
		t.Parallel()
		out := printed(t, true, operator.ListProviders)
		require.NotContains(t, out, "null")
		all := lines[operator.Provider](t, out)
		require.Len(t, all, len(provider.Names()))
		for _, p := range all {
			require.Equal(t, p.Name == "paddle", p.Tolerance == 5, p.Name)
			require.NotEmpty(t, p.Scheme)
		}
	})
	t.Run("show all that a source needs", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"square", "google-play", "gocardless"} {
			compare(t, "provider_"+name+".txt", printed(t, false, show(name)))
		}
		compare(t, "provider_square.json", printed(t, true, show("square")))
	})
	t.Run("say what nobody signs, and who can look it up", func(t *testing.T) {
		t.Parallel()
		for name, says := range map[string]string{
			"flutterwave": "looked up in the API where the source has fetch:", "paypal-ipn": "each event is parked as needs_fetch\n",
			"stripe": "from the signed body; events without any are looked up", "shopify": "from the signed body\n",
		} {
			require.Contains(t, printed(t, false, show(name)), says, name)
		}
	})
	t.Run("that are not there are a usage error", func(t *testing.T) {
		t.Parallel()
		for name, says := range map[string]string{"gocardles": `did you mean "gocardless"?`, "acme": "provider list"} {
			err := operator.ShowProvider(&operator.Session{}, name)
			require.ErrorContains(t, err, says)
			require.Equal(t, exit.Usage, exit.Code(err))
		}
	})
}

// shortest are the configurations that are shown, and the variables they name.
func shortest(t *testing.T) (blocks, env map[string]string) {
	t.Helper()
	blocks, env = map[string]string{}, map[string]string{}
	for _, p := range lines[operator.Provider](t, printed(t, true, operator.ListProviders)) {
		blocks[p.Name] = p.Config
		variable := strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))
		secret := "b2xkIHNlY3JldA=="
		switch p.Name {
		case "adyen", "adyen-platform":
			secret = strings.Repeat("0a", 32)
		case "chargebee", "braintree":
			secret = "user:password"
		case "wechatpay-v3":
			secret = strings.Repeat("k", 32)
		}
		env[variable+"_SECRET"], env[variable+"_VERIFY_TOKEN"] = secret, "typed-there"
		env[variable+"_PUBLIC_KEY"], env[variable+"_PRIVATE_KEY"] = providertest.Pair(t, p.Name)
	}
	return blocks, env
}

// The configuration that is shown passes a check as it stands.
func TestShownConfigurationsHaveNoFaults(t *testing.T) {
	t.Parallel()
	blocks, env := shortest(t)
	file := filepath.Join(t.TempDir(), "onceledger.yaml")
	for name, block := range blocks {
		writeFile(t, file, block)
		var named []string
		session := &operator.Session{Out: &bytes.Buffer{}, Env: func(key string) (string, bool) {
			value, ok := env[key]
			if ok {
				named = append(named, key)
			}
			return value, ok
		}}
		require.NoError(t, operator.CheckConfig(session, file), "%s:\n%s", name, block)
		require.Equal(t, strings.Contains(block, "${"), len(named) > 0, name)
	}
}

// keyed gives the sources of providers that sign with a key of their own a
// private one, as their users are told to.
func keyed(block, variable string) string {
	private := `"${` + variable + `_PRIVATE_KEY}"`
	if !strings.Contains(block, "secrets:") {
		return strings.Replace(block, "    rules:", "    secrets: ["+private+"]\n    rules:", 1)
	}
	return strings.Replace(block, `_SECRET}"]`, `_SECRET}", `+private+`]`, 1)
}

// What is sent as a provider sends it, a receiver stores and answers in that
// provider's words.
func TestSendAsEveryProvider(t *testing.T) {
	s := newSystem(t)
	blocks, env := shortest(t)
	text := "nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}\nsources:\n"
	for name, block := range blocks {
		switch name {
		case "wise", "sendgrid", "paypal", "alipay", "apple", "google-play", "wechatpay-v3":
			block = keyed(block, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		}
		text += strings.TrimPrefix(block, "sources:\n")
	}
	for key, value := range env {
		s.env[key] = value
	}
	writeFile(t, s.env["ONCELEDGER_CONFIG"], text)
	base := realReceiver(t, s)

	for _, name := range provider.Names() {
		t.Run(name, func(t *testing.T) {
			out, err := s.run(true, func(ctx context.Context, o *operator.Session) error {
				return operator.Send(ctx, o, nil, operator.Sending{Source: name, URL: base})
			})
			require.NoError(t, err)
			var sent operator.Sent
			require.NoError(t, json.Unmarshal([]byte(out), &sent))
			var about operator.Provider
			require.NoError(t, json.Unmarshal([]byte(printed(t, true, show(name))), &about))
			require.Equal(t, about.Stored.Status, sent.Status)
			require.Equal(t, about.Stored.Body, sent.Answer)
			if name == "mollie-classic" || name == "paypal-ipn" {
				require.Contains(t, sent.URL, "?token=…", "it is the secret")
			}

			event := s.newest()
			require.Equal(t, name, event.Source)
			switch name {
			case "paypal-ipn": // whose sample keeps its time
			default:
				require.WithinDuration(t, time.Now(), event.Time, time.Minute, "it happens now")
			}
			if about.Trusted {
				require.Empty(t, event.Fault)
				require.Equal(t, sent.EventID, event.ID)
			} else {
				require.Equal(t, "needs_fetch", event.Fault)
				require.Empty(t, sent.EventID)
			}
		})
	}
}

// realReceiver runs a receiver on the system's broker and returns its address.
func realReceiver(t *testing.T, s *system) string {
	t.Helper()
	cat, err := catalog.Load(s.env["ONCELEDGER_CONFIG"], s.lookup)
	require.NoError(t, err)
	conn, err := stream.Open(t.Context(), cat.Config.NATS, "receiver", zerolog.Nop())
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	server := receiver.NewServer(conn, cat, prometheus.NewRegistry(), zerolog.Nop())
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		conn.Close()
	})
	return "http://" + listener.Addr().String()
}

// newest is the event that was stored last.
func (s *system) newest() *envelope.Event {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	msg, err := events.GetMsg(s.t.Context(), events.CachedInfo().State.LastSeq)
	require.NoError(s.t, err)
	event, err := envelope.Decode(msg.Header, msg.Data)
	require.NoError(s.t, err)
	return event
}
