package provider

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/internal/config"
)

var tctx = context.Background()

// explained holds an explanation to what it promises, whatever the request: its
// verdict is Verify's, to the letter, and no secret is in it.
func explained(t require.TestingT, s *Source, src config.Source, req Request, at time.Time) Explanation {
	e := s.Explain(tctx, req, at)
	require.Equal(t, fmt.Sprint(s.Verify(tctx, req, at)), fmt.Sprint(e.Err))
	if e.Err == nil {
		require.NotEmpty(t, e.Steps)
		require.NotEqual(t, Wrong, e.Steps[len(e.Steps)-1].Verdict)
	}
	printed := fmt.Sprintf("%+v", e.Steps)
	for _, step := range e.Steps {
		require.NotEmpty(t, step.What)
		if step.Text != nil {
			printed += step.Text.Start
			require.LessOrEqual(t, len(step.Text.Start), textShown)
		}
	}
	for _, secret := range src.Secrets {
		noSecret(t, printed, secret.Reveal())
	}
	return e
}

// noSecret looks for a secret in the forms in which one could slip out. Those of
// some vectors are so short that any text holds them.
func noSecret(t require.TestingT, printed, secret string) {
	if len(secret) < 8 {
		return
	}
	parts := []string{secret, strings.TrimPrefix(secret, macSecret)}
	if public, private, ok := strings.Cut(secret, ":"); ok && public != "" {
		parts = append(parts, private)
	}
	for _, part := range parts {
		raw := []byte(part)
		for _, form := range []string{
			part, hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		} {
			require.NotContains(t, printed, form)
		}
	}
}

// changes are what may befall a request.
var changes = map[string]func(*Request){
	"nothing":        func(*Request) {},
	"another body":   func(r *Request) { r.Body = append(slices.Clone(r.Body), '\n') },
	"no body":        func(r *Request) { r.Body = nil },
	"another query":  func(r *Request) { r.Query = "a=b" },
	"another method": func(r *Request) { r.Method = http.MethodPut },
}

// headerChanges are what may befall one of its headers.
var headerChanges = map[string]func(h http.Header, name string){
	"missing": func(h http.Header, name string) { h.Del(name) },
	"empty":   func(h http.Header, name string) { h[name] = []string{""} },
	"twice":   func(h http.Header, name string) { h[name] = append(slices.Clone(h[name]), "x") },
	"other":   func(h http.Header, name string) { h[name] = []string{"t=1,v1=00 " + h[name][0]} },
	"cut":     func(h http.Header, name string) { h[name] = []string{h[name][0][:len(h[name][0])/2]} },
}

// Every vector, good and bad, with its own secret and another's, whole and damaged.
func TestExplainingIsVerifying(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			for _, src := range []config.Source{v.config(t), v.other(t)} {
				s := v.source(t, src)
				for _, change := range changes {
					req := v.request(t)
					change(&req)
					for _, at := range []time.Time{v.now(), v.now().Add(time.Hour), v.now().Add(-time.Hour)} {
						explained(t, s, src, req, at)
					}
				}
				for name := range v.request(t).Header {
					for _, change := range headerChanges {
						req := v.request(t)
						req.Header = req.Header.Clone()
						change(req.Header, name)
						explained(t, s, src, req, v.now())
					}
				}
			}
		})
	}
}

// The same for requests that each preset signs, with changes at random.
func TestExplainingIsVerifyingWhateverComes(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := sourceOf(t, name)
			s := mustNew(t, src)
			good, err := s.Sign(s.Sample("evt_1"), "evt_1", now)
			require.NoError(t, err)
			require.NoError(t, explained(t, s, src, good, now).Err)
			rapid.Check(t, func(t *rapid.T) {
				req := good
				req.Header = good.Header.Clone()
				if len(req.Body) > 0 && rapid.Bool().Draw(t, "body") {
					at := rapid.IntRange(0, len(req.Body)-1).Draw(t, "at")
					req.Body = slices.Concat(req.Body[:at], rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "bytes"), req.Body[at+1:])
				}
				if rapid.Bool().Draw(t, "header") {
					header := rapid.SampledFrom(slices.Sorted(maps.Keys(req.Header))).Draw(t, "name")
					kind := rapid.SampledFrom(slices.Sorted(maps.Keys(headerChanges))).Draw(t, "change")
					headerChanges[kind](req.Header, header)
				}
				if rapid.Bool().Draw(t, "query") {
					req.Query = rapid.StringMatching(`[a-z.=&%0-9]{0,12}`).Draw(t, "text")
				}
				late := time.Duration(rapid.IntRange(-900, 900).Draw(t, "late")) * time.Second
				explained(t, s, src, req, now.Add(late))
			})
		})
	}
}

// What a person reads of one request of each family.
func TestStepsOfAVerification(t *testing.T) {
	t.Parallel()
	steps := func(t *testing.T, src config.Source, change func(*Request)) []string {
		s := mustNew(t, src)
		req, err := s.Sign([]byte(`{"id":1}`), "evt_1", now)
		require.NoError(t, err)
		change(&req)
		var lines []string
		for _, step := range explained(t, s, src, req, now).Steps {
			line := []string{step.What, string(step.Verdict), "", step.Note}
			if step.Text != nil {
				line[2] = step.Text.Start
			}
			lines = append(lines, strings.Join(slices.DeleteFunc(line, func(s string) bool { return s == "" }), " "))
		}
		return lines
	}
	for name, row := range map[string]struct {
		src    config.Source
		change func(*Request)
		want   []string
	}{
		"the second of two secrets is right": {configured("github", "first secret", "second secret"), func(r *Request) {
			key := mac{header: "X-Hub-Signature-256", prefix: "sha256="}.scheme(configured("github", "second secret"), &faults{})
			require.NoError(t, key.sign(r, "", now))
		}, []string{"header X-Hub-Signature-256", `signed text {"id":1}`, "secrets[0] (12 characters) wrong", "secrets[1] (13 characters) right"}},
		"a time is signed": {configured("stripe", "whsec_of_stripe"), func(*Request) {}, []string{
			"header Stripe-Signature", "signed time right the same second as the clock; 5m0s are allowed",
			`signed text 1750000000.{"id":1}`, "secrets[0] (whsec_…, 15 characters) right",
		}},
		"a header is missing": {configured("stripe", "whsec_of_stripe"), func(r *Request) { r.Header = nil }, []string{"header Stripe-Signature wrong it is missing"}},
		"no signature counts": {configured("stripe", "whsec_of_stripe"), func(r *Request) { r.Header.Set("Stripe-Signature", "t=1750000000,v0=00") }, []string{
			"header Stripe-Signature", "signed time right the same second as the clock; 5m0s are allowed", `signed text 1750000000.{"id":1}`,
			`header Stripe-Signature wrong no part of it begins with "v1="`, "secrets[0] (whsec_…, 15 characters) wrong",
		}},
		"the secret is a part of the text": {configured("hubspot-v1", "k-of-hubspot"), func(*Request) {}, []string{
			"header X-Hubspot-Signature", `signed text {secret}{"id":1} the secret stands where {secret} is`, "secrets[0] (12 characters) right",
		}},
		"a token is not shown": {configured("flutterwave", "hash-of-flutterwave"), func(*Request) {}, []string{
			"header Verif-Hash 19 characters, which are not shown: they are the secret, or as good as it", "secrets[0] (19 characters) right",
		}},
		"nor is a wrong one": {configured("flutterwave", "hash-of-flutterwave"), func(r *Request) { r.Header.Set("Verif-Hash", "hash-of-test") }, []string{
			"header Verif-Hash 12 characters, which are not shown: they are the secret, or as good as it", "secrets[0] (19 characters) wrong",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, steps(t, row.src, row.change))
		})
	}
}

// What is expected is the signature that the sender makes.
func TestTheExpectedSignatureIsTheSenders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stripe", "github", "shopify", "standard-webhooks", "hubspot-v1", "twilio", "mercado-pago"} {
		src := sourceOf(t, name)
		s := mustNew(t, src)
		req, err := s.Sign(s.Sample("evt_1"), "evt_1", now)
		require.NoError(t, err)
		steps := explained(t, s, src, req, now).Steps
		last := steps[len(steps)-1]
		require.Equal(t, Right, last.Verdict, name)
		found := false
		for _, values := range req.Header {
			found = found || strings.Contains(values[0], last.Expected)
		}
		require.True(t, found && len(last.Expected) > 20, "%s expects %q", name, last.Expected)
	}
}

// Explaining is a thing of its own: to verify costs what it cost before. (With the
// race detector a pool forgets now and then, so that it is not quite nothing.)
func TestVerifyRecordsNothing(t *testing.T) {
	s := stripeSource(t, "whsec_of_stripe")
	req, err := s.Sign([]byte(`{"id":1}`), "evt_1", now)
	require.NoError(t, err)
	verifying := testing.AllocsPerRun(100, func() {
		if s.Verify(tctx, req, now) != nil {
			panic("refused")
		}
	})
	explaining := testing.AllocsPerRun(100, func() { s.Explain(tctx, req, now) })
	require.Less(t, verifying, explaining/4)
}
