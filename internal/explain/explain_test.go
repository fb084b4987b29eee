package explain_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/explain"
	"github.com/onceledger/onceledger/internal/provider"
)

const plain = `{"id":"evt_1","type":"paid","amount":10.00,"b":{"d":1,"c":[true,"x"]}}`

// refusal is a captured request, and why it is refused.
type refusal struct {
	source string
	body   string                  // as it was signed
	change func(*provider.Request) // what befell it
	path   string                  // of the capture; default /webhooks/SOURCE
	late   time.Duration           // how much later it is judged
	want   []string                // kind: what
}

func TestEachCauseIsFound(t *testing.T) {
	t.Parallel()
	cat := shared()
	for name, row := range map[string]refusal{
		// the body
		"a newline was added": {"stripe", plain, body(plain + "\n"), "", 0,
			[]string{"body: the body was changed after it was signed: without its last newline, the signature is right"}},
		"CRLF was added": {"shop", plain, body(plain + "\r\n"), "", 0,
			[]string{"body: the body was changed after it was signed: without its last line end (CRLF), the signature is right"}},
		"lines were added": {"github", plain, body(plain + "\n\n "), "", 0,
			[]string{"body: the body was changed after it was signed: without the white space at its end, the signature is right"}},
		"the newline was lost": {"slack", plain + "\n", body(plain), "", 0,
			[]string{"body: the body was changed after it was signed: with a newline at its end, the signature is right"}},
		"the line end of SendGrid was lost": {"sendgrid", plain + "\r\n", body(plain), "", 0,
			[]string{"body: the body was changed after it was signed: with a line end (CRLF) after it, the signature is right"}},
		"LF became CRLF": {"github", "{\n\"a\":1\n}", body("{\r\n\"a\":1\r\n}"), "", 0,
			[]string{"body: the body was changed after it was signed: with LF instead of CRLF, the signature is right"}},
		"CRLF became LF": {"github", "{\r\n\"a\":1\r\n}", body("{\n\"a\":1\n}"), "", 0,
			[]string{"body: the body was changed after it was signed: with CRLF instead of LF, the signature is right"}},
		"a BOM was added": {"stripe", plain, body("\xEF\xBB\xBF" + plain), "", 0,
			[]string{"body: the body was changed after it was signed: without its byte order mark, the signature is right"}},
		"Python wrote it again": {"stripe", plain, body(`{"id": "evt_1", "type": "paid", "amount": 10.00, "b": {"d": 1, "c": [true, "x"]}}`), "", 0,
			[]string{"body: the body was changed after it was signed: as JSON written without spaces, the signature is right"}},
		"it was printed prettily": {"svix", plain, body("{\n  \"id\": \"evt_1\",\n  \"type\": \"paid\",\n  \"amount\": 10.00,\n  \"b\": {\"d\": 1, \"c\": [true, \"x\"]}\n}\n"), "", 0,
			[]string{"body: the body was changed after it was signed: as JSON written without spaces, the signature is right"}},
		"Python's spaces were lost": {"github", `{"a": 1, "b": [1, 2]}`, body(`{"a":1,"b":[1,2]}`), "", 0,
			[]string{"body: the body was changed after it was signed: as JSON written with a space after colons and commas, the signature is right"}},
		"indentation was lost": {"github", "{\n    \"a\": [\n        1\n    ],\n    \"b\": {}\n}", body(`{"a":[1],"b":{}}`), "", 0,
			[]string{"body: the body was changed after it was signed: as JSON written indented by four spaces, the signature is right"}},
		"members were sorted back": {"github", `{"a":1,"b":2}`, body(`{"b":2,"a":1}`), "", 0,
			[]string{"body: the body was changed after it was signed: as JSON written without spaces, with its members sorted, the signature is right"}},
		"JavaScript resolved the escapes of PHP": {"github", `{"u":"https:\/\/x\/","n":"Zo\u00eb \ud83d\ude00"}`, body(`{"u":"https://x/","n":"Zoë 😀"}`), "", 0,
			[]string{`body: the body was changed after it was signed: as JSON written without spaces, with \/ for slashes, with \u escapes for what is not ASCII, the signature is right`}},
		"JavaScript resolved the escapes of Go": {"github", `{"n":"\u003ca\u003e \u0026 é"}`, body(`{"n":"<a> & é"}`), "", 0,
			[]string{`body: the body was changed after it was signed: as JSON written without spaces, with \u escapes for <, > and &, the signature is right`}},
		"the text was encoded twice": {"github", plain, body(`"{\"id\":\"evt_1\",\"type\":\"paid\",\"amount\":10.00,\"b\":{\"d\":1,\"c\":[true,\"x\"]}}"`), "", 0,
			[]string{"body: the body was changed after it was signed: taken out of the JSON string that it is in, the signature is right"}},
		"a gateway made base64 of it": {"github", plain, body(base64.StdEncoding.EncodeToString([]byte(plain))), "", 0,
			[]string{"body: the body was changed after it was signed: decoded from base64, the signature is right"}},
		"Content-Encoding was lost": {"github", plain, body(compressed(plain)), "", 0,
			[]string{"body: the body was changed after it was signed: decompressed, the signature is right"}},
		"the sender signs what it compressed": {"github", compressed(plain), set("Content-Encoding", "gzip"), "", 0,
			[]string{"body: the body was changed after it was signed: compressed, as it travelled, the signature is right"}},
		"UTF-8 was read as Latin-1": {"github", `{"n":"Zoë"}`, body("{\"n\":\"Zo\u00c3\u00ab\"}"), "", 0,
			[]string{"body: the body was changed after it was signed: in ISO 8859-1 instead of UTF-8, the signature is right"}},
		"UTF-8 became Latin-1": {"github", `{"n":"Zoë"}`, body("{\"n\":\"Zo\xeb\"}"), "", 0,
			[]string{"body: the body was changed after it was signed: in UTF-8 instead of ISO 8859-1, the signature is right"}},
		"the next request stuck to it": {"github", plain, func(r *provider.Request) {
			r.Header.Set("Content-Length", "70")
			r.Body = append(r.Body, "POST / HTTP/1.1"...)
		}, "", 0, []string{"body: the body was changed after it was signed: cut at its Content-Length, the signature is right"}},
		"a form was written again": {"slack", "b=x+y&a=%2F%7E", func(r *provider.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Body = []byte("b=x%20y&a=/~")
		}, "", 0, []string{"body: the body was changed after it was signed: as a form written again as browsers do, with + for spaces, the signature is right"}},
		"JSON was taken out of GitHub's form": {"github", "payload=" + url.QueryEscape(plain), body(plain), "", 0,
			[]string{"body: the body was changed after it was signed: as the form field payload, the signature is right"}},

		// headers
		"a gateway renamed the header": {"stripe", plain, rename("Stripe-Signature", "X-Original-Stripe-Signature"), "", 0,
			[]string{"header: what the provider sends under one name came under another: Stripe-Signature as X-Original-Stripe-Signature"}},
		"CGI renamed them all": {"svix", plain, rename("Webhook-Id", "HTTP_WEBHOOK_ID", "Webhook-Timestamp", "HTTP_WEBHOOK_TIMESTAMP", "Webhook-Signature", "HTTP_WEBHOOK_SIGNATURE"), "", 0,
			[]string{"header: what the provider sends under one name came under another: Webhook-Id as Http_webhook_id, Webhook-Timestamp as Http_webhook_timestamp, Webhook-Signature as Http_webhook_signature"}},
		"the header has quite another name": {"shop", plain, rename("X-Shopify-Hmac-Sha256", "X-Auth"), "", 0,
			[]string{"header: header X-Shopify-Hmac-Sha256 is missing, and X-Auth holds what belongs there"}},
		"the header is there twice": {"github", plain, func(r *provider.Request) {
			r.Header["X-Hub-Signature-256"] = append(r.Header["X-Hub-Signature-256"], "sha256=00")
		}, "", 0, []string{"header: header X-Hub-Signature-256 is given 2 times, and with one of its values alone the signature is right"}},
		"the header was joined with itself": {"github", plain, func(r *provider.Request) {
			r.Header.Set("X-Hub-Signature-256", r.Header.Get("X-Hub-Signature-256")+", "+r.Header.Get("X-Hub-Signature-256"))
		}, "", 0, []string{"header: the value of header X-Hub-Signature-256 was changed: with its first part alone, before the comma, the signature is right"}},
		"quotes were put around it": {"stripe", plain, func(r *provider.Request) {
			r.Header.Set("Stripe-Signature", `"`+r.Header.Get("Stripe-Signature")+`"`)
		}, "", 0, []string{"header: the value of header Stripe-Signature was changed: without the quotes around it, the signature is right"}},
		"a token under another name": {"flutterwave", plain, rename("Verif-Hash", "X-Verif-Hash"), "", 0,
			[]string{"header: what the provider sends under one name came under another: Verif-Hash as X-Verif-Hash"}},

		// secrets and sources
		"the other endpoint's secret": {"stripe", plain, signedBy("stripe-test", plain), "", 0,
			[]string{"source: it is a request of source stripe-test, which accepts it"}},
		"another source's secret": {"github", plain, signedAs("github", "secret-of-the-shop", plain), "", 0,
			[]string{"source: with a secret of source shop the signature is right"}},
		"another webhook id": {"paypal", plain, signedBy("paypal-test", plain), "", 0,
			[]string{"source: it is a request of source paypal-test, which accepts it"}},
		"the secret lacks its prefix": {"bare", plain, signedAs("stripe", "whsec_MissesItsPrefix", plain), "", 0,
			[]string{"secret: secrets[0] is not what the provider signs with: with whsec_ before it, the signature is right"}},
		"the secret is in quotes": {"quoted", plain, signedAs("github", "secret in quotes", plain), "", 0,
			[]string{"secret: secrets[0] is not what the provider signs with: without the quotes around it, the signature is right"}},
		"the sender's secret ends in a newline": {"github", plain, signedAs("github", "secret-of-github\n", plain), "", 0,
			[]string{"secret: secrets[0] is not what the provider signs with: with a newline after it, the signature is right"}},
		"the secret is meant in hex": {"hex", plain, signedAs("github", "meant in hex", plain), "", 0,
			[]string{"secret: secrets[0] is not what the provider signs with: decoded from hex, the signature is right"}},
		"the text of the secret is the key": {"svix", plain,
			signedAs("standard-webhooks", "whsec_"+base64.StdEncoding.EncodeToString([]byte("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")), plain), "", 0,
			[]string{"secret: secrets[0] is not what the provider signs with: with its text as the key, not what that is base64 of, the signature is right"}},

		// settings
		"the block lacks the prefix": {"orders", plain, func(r *provider.Request) { r.Header.Set("X-Signature", "sha256="+r.Header.Get("X-Signature")) }, "", 0,
			[]string{"settings: the hmac: block says it otherwise than the sender signs"}},
		"the block names another encoding": {"orders", plain, func(r *provider.Request) {
			raw, _ := hex.DecodeString(r.Header.Get("X-Signature"))
			r.Header.Set("X-Signature", base64.StdEncoding.EncodeToString(raw))
		}, "", 0, []string{"settings: the hmac: block says it otherwise than the sender signs"}},
		"the provider is another one": {"svix", plain, signedAs("stripe", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", plain), "", 0,
			[]string{"provider: it is signed as stripe signs, not as standard-webhooks"}},

		// the URL
		"http is registered": {"square", plain, at("square", "http://hooks.example.com/webhooks/square", plain), "", 0,
			[]string{"url: the provider signed another URL: with url: http://hooks.example.com/webhooks/square the signature is right, and the configuration has https://hooks.example.com/webhooks/square"}},
		"a slash is registered": {"square", plain, at("square", "https://hooks.example.com/webhooks/square/", plain), "", 0,
			[]string{"url: the provider signed another URL: with url: https://hooks.example.com/webhooks/square/ the signature is right, and the configuration has https://hooks.example.com/webhooks/square"}},
		"another host is registered": {"hubspot", plain, both(at("hubspot", "https://abc.ngrok.app/webhooks/hubspot", plain), set("X-Forwarded-Host", "abc.ngrok.app")), "", 0,
			[]string{"url: the provider signed another URL: with url: https://abc.ngrok.app/webhooks/hubspot the signature is right, and the configuration has https://hooks.example.com/webhooks/hubspot"}},
		"another path and host are registered": {"twilio", "MessageSid=SM1", both(at("twilio", "https://example.net/sms", "MessageSid=SM1"), set("Host", "example.net")), "/sms", 0,
			[]string{"url: the provider signed another URL: with url: https://example.net/sms the signature is right, and the configuration has https://hooks.example.com/webhooks/twilio"}},

		// the clock
		"it came too late": {"stripe", plain, nil, "", 3 * time.Hour,
			[]string{"clock: the signature is right, and only the time is off: it was signed at 2025-06-15T15:06:40Z, 3h0m0s before the clock it is held to, and 5m0s are allowed"}},
		"it came too early": {"slack", plain, nil, "", -time.Hour,
			[]string{"clock: the signature is right, and only the time is off: it was signed at 2025-06-15T15:06:40Z, 1h0m0s after the clock it is held to, and 5m0s are allowed"}},
		"late, with a newline": {"stripe", plain, body(plain + "\n"), "", time.Hour, []string{
			"body: the body was changed after it was signed: without its last newline, the signature is right",
			"clock: besides, the time is off: it was signed at 2025-06-15T15:06:40Z, 1h0m0s before the clock it is held to, and 5m0s are allowed",
		}},
		"late, under another name": {"stripe", plain, rename("Stripe-Signature", "X-Stripe-Signature"), "", time.Hour, []string{
			"header: what the provider sends under one name came under another: Stripe-Signature as X-Stripe-Signature",
			"clock: besides, the time is off: it was signed at 2025-06-15T15:06:40Z, 1h0m0s before the clock it is held to, and 5m0s are allowed",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := sign(row.source, row.body)
			if row.change != nil {
				row.change(&req)
			}
			path := row.path
			if path == "" {
				path = "/webhooks/" + row.source
			}
			r := explain.Explain(t.Context(), cat, row.source, captured(t, wire(req, path)), now.Add(row.late))
			require.ErrorIs(t, r.Err, provider.ErrSignature)
			require.ErrorIs(t, cat.Sources[row.source].Verify(t.Context(), r.Request, now.Add(row.late)), provider.ErrSignature)
			var got []string
			for _, cause := range r.Causes {
				got = append(got, cause.Kind+": "+cause.What)
				require.NotEmpty(t, cause.Do)
				require.NotContains(t, cause.What+cause.Do, "whsec_Misses")
			}
			require.Equal(t, row.want, got)
			require.Empty(t, r.Hints)
		})
	}
}

// compressed is a body in gzip.
func compressed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// signedBy replaces a request by what another source's provider sends.
func signedBy(source, text string) func(*provider.Request) {
	return func(r *provider.Request) { *r = sign(source, text) }
}

// signedAs replaces a request by what this provider sends with this secret.
func signedAs(name, secret, text string) func(*provider.Request) {
	return signedTo(config.Source{Provider: config.Text{Value: name}, Secrets: []config.Secret{config.NewSecret(secret)}}, text)
}

// at replaces a request by what a source's provider sends to this URL.
func at(source, address, text string) func(*provider.Request) {
	src := shared().Sources[source].Config
	src.URL = config.Text{Value: address}
	return signedTo(src, text)
}

func signedTo(src config.Source, text string) func(*provider.Request) {
	return func(r *provider.Request) {
		source, faults := provider.New(src)
		if len(faults) > 0 {
			panic(faults[0].Message)
		}
		*r = signWith(source, text)
	}
}

func both(first, second func(*provider.Request)) func(*provider.Request) {
	return func(r *provider.Request) { first(r); second(r) }
}
