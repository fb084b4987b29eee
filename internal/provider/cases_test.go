package provider

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/internal/keyring"
)

// mustSign returns a request that s accepts.
func mustSign(t testing.TB, s *Source, body, id string) Request {
	req, err := s.Sign([]byte(body), id, now)
	require.NoError(t, err)
	require.NoError(t, s.Verify(context.Background(), req, now))
	return req
}

// Case 47: only the configuration says what the URL is.
func TestTheURLIsTheConfiguredOne(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"square", "hubspot", "hubspot-v2", "twilio"} {
		src := sourceOf(t, name)
		s := mustNew(t, src)
		req := mustSign(t, s, string(s.Sample("1")), "1")
		for header, value := range map[string]string{
			"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "Forwarded": "host=evil.example",
		} {
			req.Header.Set(header, value)
		}
		require.NoError(t, s.Verify(t.Context(), req, now), name)
		src.URL = config.Text{Value: "https://evil.example/webhooks/" + name}
		require.ErrorIs(t, mustNew(t, src).Verify(t.Context(), req, now), ErrSignature, name)

		// The query that arrived is signed; of Square, the one that is registered.
		req.Query = "added=1"
		if name == "square" {
			require.NoError(t, s.Verify(t.Context(), req, now))
		} else {
			require.ErrorIs(t, s.Verify(t.Context(), req, now), ErrSignature, name)
		}
		for _, bad := range []string{"example.com/x", "ftp://a/b", "https://", "https://a/b#c", "https://%zz/"} {
			src.URL = config.Text{Value: bad}
			_, faults := New(src)
			require.Len(t, faults, 1, bad)
			require.Equal(t, "sources.src.url", faults[0].Path)
		}
	}
}

// HubSpot decodes some escapes before it signs, and leaves others.
func TestHubSpotDecodesSomeEscapes(t *testing.T) {
	t.Parallel()
	src := sourceOf(t, "hubspot")
	target := mustNew(t, src).scheme.(*mac).target
	require.Equal(t, "https://example.com/webhooks/hubspot?a=x:y/%20%25,z", target.of("a=x%3Ay%2f%20%25%2Cz"))
}

// Case 49: the body is not signed and never believed; ids in either case.
func TestMercadoPagoSignsNoBody(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "mercado-pago"))
	req := mustSign(t, s, `{"data":{"id":"ord1"},"amount":1}`, "ord1")
	req.Body = []byte(`{"data":{"id":"ord1"},"amount":9999}`)
	require.NoError(t, s.Verify(t.Context(), req, now))
	require.Equal(t, "needs_fetch", s.Events(req, now)[0].Fault)

	req.Query = url.Values{"data.id": {"ORD1"}}.Encode() // signed in lower case
	require.NoError(t, s.Verify(t.Context(), req, now))
	upper := mustSign(t, s, "{}", "ORD1") // signed as it is
	upper.Query = url.Values{"data.id": {"ord1"}}.Encode()
	require.ErrorIs(t, s.Verify(t.Context(), upper, now), ErrSignature)

	for _, more := range []string{",ts=1", ",v1=00"} { // which of the two would count?
		twice := req.Header.Clone()
		twice.Set("X-Signature", req.Header.Get("X-Signature")+more)
		require.ErrorIs(t, s.Verify(t.Context(), Request{Header: twice, Query: req.Query}, now), ErrSignature, more)
	}
	seconds := req.Header.Clone()
	for _, value := range []string{
		"ts=1750000000,v1=00", "ts=1,ts=2,v1=00", "v1=00", "", "ts=abc,v1=00", strings.Repeat("ts=1,", 500),
	} {
		seconds.Set("X-Signature", value)
		require.ErrorIs(t, s.Verify(t.Context(), Request{Header: seconds, Query: req.Query}, now), ErrSignature, value)
	}
}

// Case 50: a colon belongs to the merchant's reference or to nobody.
func TestAdyenFieldsCannotBeShifted(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "adyen"))
	genuine := mustSign(t, s, `{"live":"true","notificationItems":[{"NotificationRequestItem":{"pspReference":"P","merchantAccountCode":"Shop",`+
		`"merchantReference":"A:B","amount":{"value":1000,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true"}}]}`, "")
	require.Contains(t, string(genuine.Body), `"A:B"`)
	forged := strings.NewReplacer(`"Shop"`, `"Shop:A"`, `"A:B"`, `"B"`).Replace(string(genuine.Body))
	require.ErrorIs(t, s.Verify(t.Context(), Post(nil, []byte(forged)), now), ErrSignature)

	// Case 72: what is not signed is there all the same, and one bad item refuses all.
	extra := strings.Replace(string(genuine.Body), `"additionalData":{`, `"additionalData":{"refusalReason":"x",`, 1)
	require.NoError(t, s.Verify(t.Context(), Post(nil, []byte(extra)), now))
	for _, body := range []string{
		strings.Replace(string(genuine.Body), "1000", "9000", 1),
		strings.Replace(string(genuine.Body), "]}", `,{"NotificationRequestItem":{}}]}`, 1),
		`{"notificationItems":[]}`, `{}`, ``, `[]`, `{"notificationItems":[1]}`,
	} {
		require.ErrorIs(t, s.Verify(t.Context(), Post(nil, []byte(body)), now), ErrSignature, body)
	}
}

// Case 51.
func TestAppleTokensAreForOneApp(t *testing.T) {
	t.Parallel()
	v57, v58, v60 := vectorByID(t, "V57"), vectorByID(t, "V58"), vectorByID(t, "V60")
	src := v57.config(t)
	src.PublicKeys = append(src.PublicKeys, v58.config(t).PublicKeys...)
	s := mustNew(t, src)

	require.NoError(t, s.Verify(t.Context(), v57.request(t), now))
	event := s.Events(v57.request(t), now)[0]
	require.Equal(t, "test/com.example/9ad56bd2-0bc6-42e0-af24-fd996d87a1e6", event.ID, "sandbox, so that it moves no money")
	require.Equal(t, "TEST", event.Type)
	require.Equal(t, int64(1681314324), event.Time.Unix())

	require.ErrorIs(t, s.Verify(t.Context(), v58.request(t), now), ErrSignature, "it is for another app")
	require.ErrorIs(t, s.Verify(t.Context(), vectorByID(t, "V59").request(t), now), ErrSignature)
	require.NoError(t, s.Verify(t.Context(), v60.request(t), now))
	require.Equal(t, "no_event_id", s.Events(v60.request(t), now)[0].Fault, "a transaction, and no notification")
	own := mustNew(t, sourceOf(t, "apple"))
	nobodys, err := own.Sign([]byte(`{"signedPayload":{"notificationUUID":"a"}}`), "", now)
	require.NoError(t, err)
	require.ErrorIs(t, own.Verify(t.Context(), nobodys, now), ErrSignature, "it is for no app")
	require.ErrorIs(t, s.Verify(t.Context(), v57.request(t), now.AddDate(10, 0, 0)), ErrSignature, "its certificates are over")
}

// counted answers every request with an error, and counts them.
type counted struct{ asked []string }

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked = append(c.asked, r.URL.String())
	return nil, errors.New("nobody is there")
}

// Case 52: whoever names the certificate does not choose where it comes from.
func TestPayPalCertificatesComeFromPayPal(t *testing.T) {
	t.Parallel()
	v := vectorByID(t, "V63")
	src := v.config(t)
	src.PublicKeys = nil
	internet := &counted{}
	s, faults := NewWith(src, keyring.Options{Client: &http.Client{Transport: internet}})
	require.Empty(t, faults)
	req := v.request(t)
	require.ErrorIs(t, s.Verify(t.Context(), req, v.now()), ErrSignature, "it names no certificate")
	for _, link := range []string{
		"https://api.paypal.com.attacker.example/v1/notifications/certs/CERT-1", "http://api.paypal.com/v1/notifications/certs/CERT-1",
		"https://api.paypal.com@evil.example/v1/notifications/certs/CERT-1", "https://127.0.0.1/v1/notifications/certs/CERT-1",
		"file:///etc/passwd", "", "https://api.paypal.com:8443/v1/notifications/certs/CERT-1",
	} {
		req.Header.Set("PAYPAL-CERT-URL", link)
		require.ErrorIs(t, s.Verify(t.Context(), req, v.now()), ErrSignature, link)
	}
	require.Empty(t, internet.asked)

	req.Header.Set("PAYPAL-CERT-URL", "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-a5cafa77")
	err := s.Verify(t.Context(), req, v.now())
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotErrorIs(t, err, ErrSignature)
	require.Len(t, internet.asked, 1)
}

// Case 84: no token, no notification; and who else's token is not enough.
func TestGoogleTokensAreForThisSubscription(t *testing.T) {
	t.Parallel()
	src := sourceOf(t, "google-play")
	s := mustNew(t, src)
	req := mustSign(t, s, string(s.Sample("1")), "1")
	require.ErrorIs(t, s.Verify(t.Context(), Post(http.Header{}, req.Body), now), ErrSignature)
	require.ErrorIs(t, s.Verify(t.Context(), req, now.Add(2*time.Hour)), ErrSignature)
	for name, spoil := range map[string]func(*config.Source){
		"audience": func(s *config.Source) { s.Audience.Value = "another" },
		"account":  func(s *config.Source) { s.ServiceAccount.Value = "another@example.com" },
	} {
		other := src
		spoil(&other)
		require.ErrorIs(t, mustNew(t, other).Verify(t.Context(), req, now), ErrSignature, name)
	}
	token := req.Header.Get("Authorization")
	for _, value := range []string{"", "Bearer ", token[7:], token[:len(token)-8], "Basic dTpw", token + "x"} {
		req.Header.Set("Authorization", value)
		require.ErrorIs(t, s.Verify(t.Context(), req, now), ErrSignature, value)
	}

	src.PublicKeys, src.Secrets = nil, nil
	internet := &counted{}
	fetching, faults := NewWith(src, keyring.Options{Client: &http.Client{Transport: internet}})
	require.Empty(t, faults)
	req.Header.Set("Authorization", token)
	require.ErrorIs(t, fetching.Verify(t.Context(), req, now), ErrUnavailable)
	require.Len(t, internet.asked, 1)
}

// Case 74, 75 and 76.
func TestAlipayFormsAreBytes(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "alipay"))
	gbk, err := simplifiedchinese.GBK.NewEncoder().String("测试商品")
	require.NoError(t, err)
	form := "notify_id=1&app_id=a&charset=GBK&subject=" + url.QueryEscape(gbk) + "&body=ends+with+space+&novel_field=x%2By&empty="
	req := mustSign(t, s, form, "")
	req.Query = "shop=7" // of the registered URL, and not signed
	require.NoError(t, s.Verify(t.Context(), req, now))
	doc, err := s.View("", req.Body, everything)
	require.NoError(t, err)
	for name, want := range map[string]string{"subject": "测试商品", "body": "ends with space ", "novel_field": "x+y"} {
		got, _ := jsondoc.Lookup(doc, name)
		require.Equal(t, want, got)
	}
	for _, change := range [][2]string{
		{"novel_field=x%2By", "novel_field=x+y"}, {"space+&", "space&"}, {"app_id=a", "app_id=b"}, {"&sign_type=RSA2", ""},
		{"sign_type=RSA2", "sign_type=RSA"}, {"app_id=a", "app_id=a&app_id=b"}, {"&sign=", "&sign=x&sign="}, {"empty=", "empty=1"},
	} {
		body := strings.Replace(string(req.Body), change[0], change[1], 1)
		require.NotEqual(t, string(req.Body), body)
		require.ErrorIs(t, s.Verify(t.Context(), Post(nil, []byte(body)), now), ErrSignature, change[1])
	}

	// A library that leaves empty fields out of what it signs is right, too.
	without := mustSign(t, s, "notify_id=1&app_id=a", "")
	without.Body = append(without.Body, "&empty="...)
	require.NoError(t, s.Verify(t.Context(), without, now))
}

// Case 77: nothing is fetched, nothing grows, and the answer is WeChat's FAIL.
func TestXMLWithEntitiesIsRefused(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "wechatpay-v2"))
	req := mustSign(t, s, string(s.Sample("t1")), "")
	for _, body := range []string{
		`<?xml version="1.0"?><!DOCTYPE xml [<!ENTITY a SYSTEM "file:///etc/passwd">]>` + strings.Replace(string(req.Body), "wx1", "&a;", 1),
		`<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><xml><sign>&b;</sign></xml>`,
		string(req.Body) + "<more/>",
		strings.Replace(string(req.Body), "<total_fee>1<", "<total_fee>9<", 1),
		strings.Replace(string(req.Body), "<total_fee>1</total_fee>", "<total_fee>1</total_fee><total_fee>9</total_fee>", 1),
		strings.Replace(string(req.Body), "HMAC-SHA256", "SHA1", 1),
		`<xml><sign></sign></xml>`, `<xml/>`, `{}`, ``,
	} {
		require.ErrorIs(t, s.Verify(t.Context(), Post(nil, []byte(body)), now), ErrSignature, body)
	}
	require.Contains(t, string(s.Reject().Body), "FAIL")
}

// Case 78: a key that does not open is our fault, and WeChat's to repeat.
func TestWhatDoesNotOpenIsSentAgain(t *testing.T) {
	t.Parallel()
	v := vectorByID(t, "V52")
	src := v.config(t)
	s := mustNew(t, src)
	event := s.Events(v.request(t), v.now())[0]
	require.Empty(t, event.Fault)
	require.Equal(t, "3119dfba-e649-5eec-ab1e-3412bc4d2e17", event.ID[strings.LastIndex(event.ID, "/")+1:])
	require.Equal(t, string(v.request(t).Body), string(event.Data), "it travels sealed")
	doc, err := s.View("", event.Data, everything)
	require.NoError(t, err)
	opened, _ := jsondoc.Lookup(doc, "resource", "ciphertext")
	require.IsType(t, map[string]any{}, opened)

	src.Secrets = []config.Secret{config.NewSecret(strings.Repeat("x", 32))}
	wrong := mustNew(t, src)
	err = wrong.Verify(t.Context(), v.request(t), v.now())
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotErrorIs(t, err, ErrSignature)
	require.Contains(t, string(wrong.Again().Body), `"FAIL"`)
	require.Equal(t, "decrypt_failed", wrong.Events(v.request(t), v.now())[0].Fault)

	src.Secrets = append(src.Secrets, config.NewSecret("testMchAPIv3Key0"))
	require.NoError(t, mustNew(t, src).Verify(t.Context(), v.request(t), v.now()), "both keys are live")
}

// Case 63.
func TestAnswersAreTheProvidersOwn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][3]Ack{
		"alipay":       {plainAck(200, "success"), plainAck(401, "fail"), plainAck(503, "fail")},
		"gocardless":   {{Status: 204}, plainAck(498, "invalid token"), {Status: 503}},
		"stripe":       {{Status: 200}, {Status: 401}, {Status: 503}},
		"adyen":        {plainAck(202, "[accepted]"), {Status: 401}, {Status: 503}},
		"xsolla":       {{Status: 204}, jsonAck(400, `{"error":{"code":"INVALID_SIGNATURE","message":"Invalid signature"}}`), {Status: 503}},
		"wechatpay-v2": {xmlAck(200, "<xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>"), wechatV2.reject, wechatV2.again},
		"wechatpay-v3": {{Status: 204}, wechatV3.reject, jsonAck(503, `{"code":"FAIL","message":"please send again"}`)},
	} {
		s := mustNew(t, sourceOf(t, name))
		require.Equal(t, want, [3]Ack{s.Ack(), s.Reject(), s.Again()}, name)
	}
	for _, name := range Names() {
		s := mustNew(t, sourceOf(t, name))
		for _, ack := range []Ack{s.Ack(), s.Reject(), s.Again()} {
			require.NotContains(t, string(ack.Body), "\n", name)
			require.Equal(t, len(ack.Body) > 0, ack.ContentType != "", name)
		}
		require.Equal(t, 2, s.Ack().Status/100, name)
		require.GreaterOrEqual(t, s.Reject().Status, 400, name)
		require.Equal(t, 5, s.Again().Status/100, name)
	}
}

// Case 79.
func TestHandshakesAreAnswered(t *testing.T) {
	t.Parallel()
	post := func(body string) Request { return Post(http.Header{}, []byte(body)) }
	get := func(query string) Request {
		return Request{Method: http.MethodGet, Query: query, Header: http.Header{}}
	}
	hook := func(query string) Request {
		return Request{Method: http.MethodPost, Query: query, Header: http.Header{}}
	}
	long := strings.Repeat("x", maxChallenge+1)
	for name, row := range map[string]struct {
		provider string
		req      Request
		verified bool // it takes a good signature
		want     Ack
	}{
		"slack":               {"slack", post(`{"type":"url_verification","challenge":"abc"}`), true, plainAck(200, "abc")},
		"slack, too long":     {"slack", post(`{"type":"url_verification","challenge":"` + long + `"}`), true, plainAck(400, "the challenge is missing or too long\n")},
		"meta":                {"meta", get("hub.mode=subscribe&hub.verify_token=verify+me&hub.challenge=123"), false, plainAck(200, "123")},
		"meta, wrong token":   {"meta", get("hub.mode=subscribe&hub.verify_token=x&hub.challenge=123"), false, plainAck(403, "the verify token is another\n")},
		"meta, no token":      {"meta", get("hub.mode=subscribe&hub.challenge=123"), false, plainAck(403, "the verify token is another\n")},
		"graph":               {"microsoft-graph", hook("validationToken=%3Cscript%3E"), false, plainAck(200, "<script>")},
		"graph, empty":        {"microsoft-graph", hook("validationToken="), false, plainAck(400, "the challenge is missing or too long\n")},
		"tebex":               {"tebex", post(`{"id":"a","type":"validation.webhook"}`), true, jsonAck(200, `{"id":"a"}`)},
		"braintree, no digit": {"braintree", get("bt_challenge=%3Cscript%3Ealert(1)%3C%2Fscript%3E"), false, plainAck(400, "the challenge is not 20 to 32 digits of hex\n")},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustNew(t, sourceOf(t, row.provider))
			got, ok := s.Handshake(row.req, row.verified)
			require.True(t, ok)
			require.Equal(t, row.want, got)
			if row.verified {
				_, ok = s.Handshake(row.req, false)
				require.False(t, ok, "without a signature it is none")
			}
		})
	}

	zoom := mustNew(t, sourceOf(t, "zoom"))
	for range 2 { // it is asked again every 72 hours
		got, ok := zoom.Handshake(post(`{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}`), true)
		require.True(t, ok)
		var answer map[string]string
		require.NoError(t, json.Unmarshal(got.Body, &answer))
		require.Equal(t, map[string]string{
			"plainToken": "abc",
			// openssl dgst -sha256 -hmac b2xkIHNlY3JldA==
			"encryptedToken": zoomAnswer,
		}, answer)
	}

	// Events are no handshakes, and neither are the requests of other providers.
	for _, name := range Names() {
		s := mustNew(t, sourceOf(t, name))
		req := mustSign(t, s, string(s.Sample("1")), "1")
		for _, verified := range []bool{false, true} {
			_, ok := s.Handshake(req, verified)
			require.False(t, ok, name)
		}
		_, ok := s.Handshake(get(""), false)
		require.False(t, ok, name)
	}
	bare := sourceOf(t, "meta")
	bare.VerifyToken = config.Secret{}
	got, ok := mustNew(t, bare).Handshake(get("hub.mode=subscribe&hub.verify_token=&hub.challenge=1"), false)
	require.True(t, ok)
	require.Equal(t, 403, got.Status, "without a token nobody knows it")
}

const zoomAnswer = "92bdd34f60b28863de5aa68d7def89bd12be28a9e2413563b103a42e01a994d4"
