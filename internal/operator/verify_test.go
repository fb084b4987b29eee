package operator_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/provider"
)

const verifyConfiguration = `
sources:
  stripe: {provider: stripe, secrets: [whsec_of_the_year_before, whsec_of_the_test]}
  sandbox: {provider: stripe, secret: whsec_of_the_sandbox, mode: test}
  pages: {provider: github, secret: secret-of-github}
  svix: {provider: standard-webhooks, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
  ed25519: {provider: standard-webhooks, secret: whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=}
  hubspot: {provider: hubspot-v1, secret: secret-of-hubspot}
  xsolla: {provider: xsolla, secret: secret-of-xsolla}
  wechat: {provider: wechatpay-v2, secret: secret-of-wechat}
  adyen: {provider: adyen, secret: "0a0b0c0d0e0f0a0b0c0d0e0f0a0b0c0d0e0f"}
  braintree: {provider: braintree, secret: "public-half:private-half"}
  chargebee: {provider: chargebee, secret: "user:password-of-chargebee"}
  flutterwave: {provider: flutterwave, secret: hash-of-flutterwave}
  mollie: {provider: mollie-classic, secret: token-of-mollie}
  graph: {provider: microsoft-graph, secret: state-of-graph}
  twilio: {provider: twilio, secret: secret-of-twilio, url: "https://hooks.example.com/webhooks/twilio"}
  mercado: {provider: mercado-pago, secret: secret-of-mercado}
  meta: {provider: meta, secret: secret-of-meta, verify_token: token-of-meta}
`

// signedAt is the clock of the requests below.
var signedAt = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

// verifying is a configuration in a file, to verify by.
type verifying struct {
	t    *testing.T
	file string
	cat  *catalog.Catalog
}

func newVerifying(t *testing.T) *verifying {
	t.Helper()
	file := filepath.Join(t.TempDir(), "onceledger.yaml")
	writeFile(t, file, verifyConfiguration)
	cat, err := catalog.Load(file, func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	return &verifying{t, file, cat}
}

// request is what a source's provider sends, as text.
func (v *verifying) request(source, body string) string {
	v.t.Helper()
	src := v.cat.Sources[source]
	text := []byte(body)
	if body == "" {
		text = src.Sample("evt_1")
	}
	req, err := src.Sign(text, "evt_1", signedAt)
	require.NoError(v.t, err)
	return wire(v.t, req, "/webhooks/"+source)
}

func wire(t *testing.T, req provider.Request, path string) string {
	t.Helper()
	var head bytes.Buffer
	require.NoError(t, req.Header.Write(&head))
	if req.Query != "" {
		path += "?" + req.Query
	}
	return "POST " + path + " HTTP/1.1\r\n" + head.String() + "\r\n" + string(req.Body)
}

// run verifies a request that stands in a file.
func (v *verifying) run(asJSON bool, source, request, at string) (string, error) {
	v.t.Helper()
	file := filepath.Join(v.t.TempDir(), "captured.http")
	writeFile(v.t, file, request)
	var out bytes.Buffer
	err := operator.Verify(v.t.Context(), &operator.Session{
		Config: v.file, Env: func(string) (string, bool) { return "", false }, Out: &out, JSON: asJSON,
	}, strings.NewReader(request), operator.Verifying{Source: source, Request: file, At: at})
	return out.String(), err
}

// tried is how many changes were tried, which every new provider adds to.
var tried = regexp.MustCompile(`("tried":|none of )\d+`)

func TestVerifyExplains(t *testing.T) {
	t.Parallel()
	v := newVerifying(t)
	body := `{"id":"evt_1","type":"charge.succeeded","livemode":true,"created":1777629600,"name":"Zoë"}`
	batch := `{"live":"true","notificationItems":[` +
		`{"NotificationRequestItem":{"eventCode":"AUTHORISATION","pspReference":"P1","merchantAccountCode":"Shop","success":"true"}},` +
		`{"NotificationRequestItem":{"eventCode":"AUTHORISATION","merchantAccountCode":"Shop"}}]}`
	at := signedAt.Add(3 * time.Second).Format(time.RFC3339)
	for name, row := range map[string]struct{ source, request, at, err string }{
		"verify_passes":    {"stripe", v.request("stripe", body), at, ""},
		"verify_newline":   {"stripe", v.request("stripe", body) + "\n", at, "source stripe refuses this request"},
		"verify_late":      {"stripe", v.request("stripe", body), signedAt.Add(time.Hour).Format(time.RFC3339), "source stripe refuses this request"},
		"verify_source":    {"sandbox", v.request("stripe", body), at, "source sandbox refuses this request"},
		"verify_batch":     {"adyen", v.request("adyen", batch), at, ""},
		"verify_hint":      {"flutterwave", v.request("flutterwave", `{"event":"charge.completed","data":{"id":1}}`), at, ""},
		"verify_handshake": {"meta", "GET /webhooks/meta?hub.mode=subscribe&hub.verify_token=token-of-meta&hub.challenge=42 HTTP/1.1\n\n", at, ""},
		"verify_unknown":   {"pages", "POST /webhooks/pages HTTP/1.1\nContent-Length: 50\nX-Hub-Signature-256: sha256=00\n\n\x1b[2J{\"a\":1}", at, "source pages refuses this request"},
		"verify_method":    {"pages", "PUT /webhooks/pages HTTP/1.1\n\n{}", at, "source pages refuses this request"},
	} {
		t.Run(name, func(t *testing.T) {
			for suffix, asJSON := range map[string]bool{".txt": false, ".json": true} {
				out, err := v.run(asJSON, row.source, row.request, row.at)
				compare(t, name+suffix, tried.ReplaceAllString(out, "${1}N"))
				if row.err == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, row.err)
					require.Equal(t, exit.Failed, exit.Code(err))
				}
			}
		})
	}
}

func TestVerifyReadsWhereItIsTold(t *testing.T) {
	t.Parallel()
	v := newVerifying(t)
	session := func(out *bytes.Buffer) *operator.Session {
		return &operator.Session{Config: v.file, Env: func(string) (string, bool) { return "", false }, Out: out}
	}
	verify := func(in string, what operator.Verifying) (string, error) {
		var out bytes.Buffer
		err := operator.Verify(t.Context(), session(&out), strings.NewReader(in), what)
		return out.String(), err
	}
	request := v.request("pages", "{}")
	out, err := verify(request, operator.Verifying{Source: "pages", Request: "-"})
	require.NoError(t, err)
	require.Contains(t, out, "PASSES, the receiver answers 200 OK")

	for want, what := range map[string]operator.Verifying{
		`source "page" is not in ` + v.file:  {Source: "page", Request: "-"},
		"open nowhere.http: no such file":    {Source: "pages", Request: "nowhere.http"},
		`--at "soon" is neither a time`:      {Source: "pages", Request: "-", At: "soon"},
		"read request: it does not begin":    {Source: "pages", Request: "-"},
		"it has more than 6262144 bytes, wh": {Source: "pages", Request: "-"},
	} {
		in := "nonsense"
		if strings.Contains(want, "more than") {
			in = request + strings.Repeat("x", 7_000_000)
		}
		_, err := verify(in, what)
		require.ErrorContains(t, err, want)
		require.Equal(t, exit.Usage, exit.Code(err))
	}
}

// Whatever befell a request, and however it is printed, no secret is shown, not
// even one that stands in its body, its URL or a header.
func TestVerifyShowsNoSecret(t *testing.T) {
	t.Parallel()
	v := newVerifying(t)
	for name, src := range v.cat.Sources {
		good := v.request(name, "")
		if src.Sample("") == nil {
			good = v.request(name, `{"id":"evt_1"}`)
		}
		head, body, _ := strings.Cut(good, "\r\n\r\n")
		var secrets []string
		for _, secret := range src.Config.Secrets {
			secrets = append(secrets, secret.Reveal())
		}
		requests := map[string]string{
			"whole":      good,
			"changed":    good + "x",
			"empty":      head + "\r\n\r\n",
			"headless":   "POST /webhooks/" + name + " HTTP/1.1\r\n\r\n" + body,
			"repeated":   strings.Replace(good, "\r\n", "\r\nX-Signature: a\r\nX-Signature: b\r\nAuthorization: Basic eA==\r\n", 1),
			"telltale":   good + strings.Join(secrets, "&"),
			"of another": strings.Replace(v.request("pages", "{}"), "\r\n", "\r\nVerif-Hash: "+secrets[0]+"\r\nAuthorization: Basic "+base64.StdEncoding.EncodeToString([]byte(secrets[0]))+"\r\n", 1),
			"in the URL": strings.Replace(good, "/webhooks/"+name, "/webhooks/"+name+"/"+secrets[0], 1),
		}
		for what, request := range requests {
			for _, asJSON := range []bool{false, true} {
				out, err := v.run(asJSON, name, request, signedAt.Format(time.RFC3339))
				if what == "whole" {
					require.NoError(t, err, name)
				}
				for _, part := range parts(secrets) {
					require.NotContains(t, out+fmt.Sprint(err), part, "%s %s", name, what)
				}
				if asJSON {
					require.True(t, json.Valid([]byte(out)))
				}
			}
		}
	}
}

// parts are the forms in which a secret could slip out.
func parts(secrets []string) []string {
	var list []string
	for _, secret := range secrets {
		forms := []string{secret}
		if _, rest, ok := strings.Cut(secret, "_"); ok && strings.HasPrefix(secret, "wh") {
			forms = append(forms, rest)
			if key, err := base64.StdEncoding.DecodeString(rest); err == nil {
				forms = append(forms, string(key))
			}
		}
		if _, rest, ok := strings.Cut(secret, ":"); ok {
			forms = append(forms, rest)
		}
		for _, form := range forms {
			raw := []byte(form)
			list = append(list, form, hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
				base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw))
		}
	}
	return list
}
