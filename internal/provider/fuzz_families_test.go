package provider

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// One target for each kind of verifier. Whatever a request holds, it is refused
// as a bad signature or accepted; what this source accepts, one with other keys
// refuses; and what was accepted can be stored.

func FuzzAdyen(f *testing.F)  { fuzzFamily(f, "adyen") }
func FuzzTwilio(f *testing.F) { fuzzFamily(f, "twilio") }
func FuzzTokens(f *testing.F) {
	fuzzFamily(f, "flutterwave", "chargebee", "microsoft-graph", "mollie-classic")
}
func FuzzMercadoPago(f *testing.F) { fuzzFamily(f, "mercado-pago") }
func FuzzPublicKeys(f *testing.F)  { fuzzFamily(f, "wise", "sendgrid") }
func FuzzWeChatV3(f *testing.F)    { fuzzFamily(f, "wechatpay-v3") }
func FuzzWeChatV2(f *testing.F)    { fuzzFamily(f, "wechatpay-v2") }
func FuzzAlipay(f *testing.F)      { fuzzFamily(f, "alipay") }
func FuzzPayPal(f *testing.F)      { fuzzFamily(f, "paypal") }
func FuzzBraintree(f *testing.F)   { fuzzFamily(f, "braintree") }
func FuzzApple(f *testing.F)       { fuzzFamily(f, "apple") }
func FuzzGooglePlay(f *testing.F)  { fuzzFamily(f, "google-play") }

// FuzzMACs is every provider with a keyed hash in a header.
func FuzzMACs(f *testing.F) {
	var names []string
	for _, name := range Names() {
		switch mustNew(f, sourceOf(f, name)).scheme.(type) {
		case *mac, *paystackForms:
			names = append(names, name)
		}
	}
	require.Greater(f, len(names), 25)
	fuzzFamily(f, names...)
}

// contender is a source and one with the same settings and other keys.
type contender struct{ source, stranger *Source }

func fuzzFamily(f *testing.F, names ...string) {
	contenders := make([]contender, len(names))
	for i, name := range names {
		contenders[i] = contender{mustNew(f, sourceOf(f, name)), mustNew(f, strangerOf(f, name))}
		for _, id := range []string{"evt_1", "a.b/c"} {
			s := contenders[i].source
			req, err := s.Sign(s.Sample(id), id, now)
			require.NoError(f, err)
			f.Add(uint8(i), req.Query, headerText(req.Header), req.Body)
		}
	}
	for _, v := range vectors(f) {
		if i := slices.Index(names, v.Provider); i >= 0 {
			req := v.request(f)
			f.Add(uint8(i), req.Query, headerText(req.Header), req.Body)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, query, header string, body []byte) {
		c := contenders[int(which)%len(contenders)]
		parsed, err := textproto.NewReader(bufio.NewReader(strings.NewReader(header + "\r\n"))).ReadMIMEHeader()
		if err != nil {
			return
		}
		req := Request{Method: http.MethodPost, Query: query, Header: http.Header(parsed), Body: body}
		ctx, given := context.Background(), bytes.Clone(body)
		for _, verified := range []bool{false, true} {
			c.source.Handshake(req, verified)
		}
		err = c.source.Verify(ctx, req, now)
		require.Equal(t, given, req.Body, "the body is not touched")
		if err != nil {
			require.True(t, errors.Is(err, ErrSignature) || errors.Is(err, ErrUnavailable), err)
		} else {
			require.Error(t, c.stranger.Verify(ctx, req, now), "anybody could have made this")
		}
		for _, event := range c.source.Events(req, now) {
			_, err := event.Msg()
			require.NoError(t, err)
		}
		require.Equal(t, given, req.Body)
	})
}

// strangerOf is sourceOf with other keys.
func strangerOf(t testing.TB, name string) config.Source {
	src := sourceOf(t, name)
	switch name {
	case "adyen", "adyen-platform":
		src.Secrets = []config.Secret{config.NewSecret(strings.Repeat("0b", 32))}
	case "chargebee":
		src.Secrets = []config.Secret{config.NewSecret("user:another")}
	case "braintree":
		src.Secrets = []config.Secret{config.NewSecret("public:another")}
	case "wise", "paypal", "alipay", "google-play":
		src.Secrets, src.PublicKeys = nil, []config.Text{{Value: strangers[false]}}
	case "wechatpay-v3":
		src.Secrets = slices.DeleteFunc(src.Secrets, func(s config.Secret) bool { return strings.HasPrefix(s.Reveal(), "-----") })
		src.PublicKeys = []config.Text{{Value: strangers[false]}}
	case "sendgrid", "apple": // whose keys are made anew each time
	default:
		src.Secrets = []config.Secret{config.NewSecret("YW5vdGhlciBzZWNyZXQ=")}
	}
	return src
}

func headerText(h http.Header) string {
	var b strings.Builder
	for name, values := range h {
		for _, value := range values {
			b.WriteString(name + ": " + value + "\r\n")
		}
	}
	return b.String()
}
