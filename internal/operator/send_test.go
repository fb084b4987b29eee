package operator_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/pkg/envelope"
)

func TestSend(t *testing.T) {
	s := newSystem(t)
	var got []*envelope.Event
	server := standIn(t, s.cat, func(e *envelope.Event) { got = append(got, e) })
	send := func(sending operator.Sending) (string, error) {
		got = nil
		if sending.URL == "" {
			sending.URL = server.URL
		}
		return s.run(false, func(ctx context.Context, o *operator.Session) error {
			return operator.Send(ctx, o, strings.NewReader(`{"id":"evt_stdin","type":"x"}`), sending)
		})
	}

	t.Run("a sample of every provider verifies and is readable", func(t *testing.T) {
		for source, typ := range map[string]string{"shop": "topup", "stripe": "charge.succeeded", "pages": "sponsorship.created", "orders": "order.paid"} {
			out, err := send(operator.Sending{Source: source})
			require.NoError(t, err, source)
			require.Contains(t, out, "200 OK")
			require.Len(t, got, 1)
			require.Empty(t, got[0].Fault)
			require.Equal(t, typ, got[0].Type)
			require.Contains(t, out, "onceledger event show "+source+" "+got[0].ID)
		}
	})
	t.Run("the same id is the same bytes, as often as asked", func(t *testing.T) {
		_, err := send(operator.Sending{Source: "stripe", Sample: provider.Sample{ID: "evt_1", Amount: "2500", Currency: "usd"}, Repeat: 3})
		require.NoError(t, err)
		require.Len(t, got, 3)
		require.Equal(t, got[0].Data, got[2].Data)
		require.Contains(t, string(got[0].Data), `"amount":2500`)
		require.Equal(t, "evt_1", got[0].ID)
	})
	t.Run("members can be set", func(t *testing.T) {
		_, err := send(operator.Sending{Source: "shop", Sample: provider.Sample{ID: "e", Type: "paid", Set: []string{"to=purse:b", "deep.n=7"}}})
		require.NoError(t, err)
		require.Contains(t, string(got[0].Data), `"to":"purse:b"`)
		require.Contains(t, string(got[0].Data), `"n":7`)
		require.Equal(t, "paid", got[0].Type)
	})
	t.Run("a body comes from a file or standard input, byte for byte", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "body.json")
		body := "{\"id\" : \"evt_file\",\n\"type\":\"paid\"}\n"
		require.NoError(t, os.WriteFile(file, []byte(body), 0o600))
		_, err := send(operator.Sending{Source: "shop", Body: file})
		require.NoError(t, err)
		require.Equal(t, body, string(got[0].Data))
		_, err = send(operator.Sending{Source: "shop", Body: "-"})
		require.NoError(t, err)
		require.Equal(t, "evt_stdin", got[0].ID)
	})
	t.Run("what a sample cannot be is a usage error that says what helps", func(t *testing.T) {
		for text, sending := range map[string]operator.Sending{
			"--set: \"x\" is not path=value":                                          {Source: "shop", Sample: provider.Sample{Set: []string{"x"}}},
			"--amount: \"1,5\" is not a number":                                       {Source: "shop", Sample: provider.Sample{Amount: "1,5"}},
			"--currency: the sample has no member for it; name the member with --set": {Source: "pages", Sample: provider.Sample{Currency: "EUR"}},
			"what --body names is sent as it is":                                      {Source: "shop", Body: "-", Sample: provider.Sample{Set: []string{"a=1"}}},
			"--type stands in the body":                                               {Source: "shop", Body: "-", Sample: provider.Sample{Type: "paid"}},
			"--set: the sample has no member for it outside the one element":          {Source: "xml", Sample: provider.Sample{Set: []string{"a=1"}}},
			"--set: XML cannot hold it":                                               {Source: "xml", Sample: provider.Sample{Set: []string{"xml.a=\x01"}}},
		} {
			out, err := send(sending)
			require.ErrorContains(t, err, text)
			require.Equal(t, exit.Usage, exit.Code(err), text)
			require.Empty(t, out)
		}
		require.Empty(t, got)
	})
	t.Run("a body of one's own has the type that is a header's", func(t *testing.T) {
		_, err := send(operator.Sending{Source: "pages", Body: "-", Sample: provider.Sample{Type: "push"}})
		require.NoError(t, err)
		require.Equal(t, "push", got[0].Type)
		require.JSONEq(t, `{"id":"evt_stdin","type":"x"}`, string(got[0].Data))
	})
	t.Run("a refusal is an error, with the answer shown", func(t *testing.T) {
		out, err := send(operator.Sending{Source: "shop", URL: server.URL + "/webhooks/stripe"})
		require.EqualError(t, err, "the receiver refused 1 of 1 request")
		require.Contains(t, out, "401 Unauthorized")
		require.Contains(t, out, "bad signature")
	})
	t.Run("nobody listening is said so", func(t *testing.T) {
		_, err := send(operator.Sending{Source: "shop", URL: "http://127.0.0.1:1"})
		require.ErrorContains(t, err, "is a receiver listening at http://127.0.0.1:1/webhooks/shop?")
	})
	t.Run("an unknown source lists the known ones", func(t *testing.T) {
		_, err := send(operator.Sending{Source: "shup"})
		require.ErrorContains(t, err, "it has orders, pages, shop, stripe, xml")
		require.Equal(t, exit.Usage, exit.Code(err))
	})
}

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, text string) string {
		file := filepath.Join(t.TempDir(), "onceledger.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	session := func(out *strings.Builder, json bool) *operator.Session {
		return &operator.Session{Env: func(string) (string, bool) { return "", false }, Out: out, JSON: json}
	}

	t.Run("sums up what has no fault", func(t *testing.T) {
		t.Parallel()
		for suffix, json := range map[string]bool{".txt": false, ".json": true} {
			var out strings.Builder
			file := write(t, configuration)
			require.NoError(t, operator.CheckConfig(session(&out, json), file))
			compare(t, "check"+suffix, strings.ReplaceAll(out.String(), file, "FILE"))
		}
	})
	t.Run("reports every fault with its place", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder
		file := write(t, "retry: {attempts: 0}\nsources: {a: {provider: strip, secret: x}}\n")
		err := operator.CheckConfig(session(&out, false), file)
		require.ErrorContains(t, err, file+":1:")
		require.ErrorContains(t, err, file+":2:")
		require.Equal(t, exit.Usage, exit.Code(err))

		err = operator.CheckConfig(session(&out, true), file)
		require.Equal(t, exit.Usage, exit.Code(err))
		require.Contains(t, out.String(), `"valid":false`)
		require.Contains(t, out.String(), `"line":1`)
	})
	t.Run("a file that is not there is a usage error", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder
		err := operator.CheckConfig(session(&out, false), "nowhere.yaml")
		require.ErrorContains(t, err, "nowhere.yaml")
		require.Equal(t, exit.Usage, exit.Code(err))
	})
}
