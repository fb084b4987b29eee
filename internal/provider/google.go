package provider

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/keyring"
)

// googlePlay is Real-time Developer Notifications, pushed by Pub/Sub with a
// token that says who pushes, and nothing of the body: each is a hint, and what
// was bought has to be asked of the API. audience is the subscription's, and
// service_account the account that pushes: anybody can have Google make a token
// for any audience. Keys are fetched from Google unless public_keys has them.
// Read: developer.android.com RTDN reference; Pub/Sub takes any of 102, 200, 201,
// 202 and 204 for an acknowledgement.
var googlePlay = preset{
	name:   "google-play",
	signed: "JWT with RS256, header Authorization, over audience and account, nothing of the body",
	secret: "none; audience and service_account are those of the push subscription, keys are fetched from Google unless public_keys has them",
	scheme: googleScheme,
	uses:   usesKeys | usesAudience | usesServiceAccount,
	hint:   true,
	kind: body.Kind{Inner: []body.Inner{{
		Path: []string{"message", "data"}, Open: body.Base64Std.Open,
	}}},
	typ: []string{
		"body:message.data.subscriptionNotification.notificationType", "body:message.data.oneTimeProductNotification.notificationType",
	},
	account:  "body:message.data.packageName",
	occurred: "body:message.data.eventTimeMillis",
	ack:      Ack{Status: http.StatusNoContent},
	sample: `{"message":{"messageId":"{id}","data":{"version":"1.0","packageName":"com.example","eventTimeMillis":"1700000000000",` +
		`"oneTimeProductNotification":{"version":"1.0","notificationType":1,"purchaseToken":"{id}","sku":"gems.100"}}},"subscription":"projects/p/subscriptions/s"}`,
}

// googleIssuers are the two spellings of Google's.
var googleIssuers = []string{"https://accounts.google.com", "accounts.google.com"}

type googleToken struct {
	bearer body.Bearer
	given  keys
	ring   keyring.Keys // nil where keys are given
}

func googleScheme(src config.Source, f *faults) scheme {
	s := &googleToken{bearer: body.Bearer{
		Algorithm: body.RS256, Issuers: googleIssuers, Audience: src.Audience.Value, Email: src.ServiceAccount.Value,
		Tolerance: tolerance,
	}}
	if src.Tolerance != 0 {
		s.bearer.Tolerance = src.Tolerance
	}
	var others []string
	s.given, others = publicKeys(src, f)
	if len(others) > 0 {
		f.add(src.Pos, "secrets", "is no private key; Google shares no secret")
	}
	if s.bearer.Audience == "" {
		f.add(src.Pos, "audience", "is needed: that of the push subscription")
	}
	if s.bearer.Email == "" {
		f.add(src.Pos, "service_account", "is needed: the e-mail address of the account with which the subscription pushes")
	}
	if len(s.given.publics) == 0 {
		s.ring = keyring.Google(f.options)
	}
	return s
}

func (s *googleToken) limit() time.Duration { return s.bearer.Tolerance }

func (s *googleToken) verify(ctx context.Context, req Request, now time.Time) error {
	value, err := req.hidden("Authorization")
	if err != nil {
		return err
	}
	text, ok := strings.CutPrefix(value, "Bearer ")
	if !ok {
		return refuse("header Authorization holds no bearer token")
	}
	req.trace.claims(text, s.bearer.Audience, s.bearer.Email)
	if s.ring != nil {
		err := s.check(text, now, func(id string) (crypto.PublicKey, error) {
			key, err := s.ring.Key(ctx, id)
			if errors.Is(err, keyring.ErrRefused) {
				err = body.ErrNoKey
			}
			return key, err
		})
		req.trace.judged("token", err)
		return judge(err)
	}
	for i, public := range s.given.publics {
		err = s.check(text, now, func(string) (crypto.PublicKey, error) { return public, nil })
		req.trace.judged(s.given.names[i], err)
		if err == nil {
			return nil
		}
	}
	return judge(err)
}

func (s *googleToken) check(text string, now time.Time, find func(id string) (crypto.PublicKey, error)) error {
	bearer := s.bearer
	bearer.Keys = find
	_, err := bearer.Verify(text, now)
	return err
}

// judge tells a token at fault from a key that could not be had. Errors about
// tokens quote them, and so are not passed on.
func judge(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, body.ErrToken):
		return refuse("the token is not by Google, not for this audience and account, or not valid now")
	default:
		return fmt.Errorf("verify request: %w: %w", ErrUnavailable, err)
	}
}

// sign makes the token with a made-up key, and base64 of what stands open in
// message.data.
func (s *googleToken) sign(req *Request, _ string, now time.Time) error {
	if s.given.private == nil {
		return errUnsigned
	}
	if _, ok := s.given.private.(*rsa.PrivateKey); !ok {
		return errors.New("the private key is not RSA")
	}
	var err error
	wrap := func(open json.RawMessage) (any, error) { return base64.StdEncoding.EncodeToString(open), nil }
	if req.Body, err = sealed(req.Body, wrap, "message", "data"); err != nil {
		return err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": googleIssuers[0], "aud": s.bearer.Audience, "email": s.bearer.Email, "email_verified": true,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})
	if err != nil {
		return err
	}
	raw := base64.RawURLEncoding
	text := raw.EncodeToString([]byte(`{"alg":"RS256","kid":"test","typ":"JWT"}`)) + "." + raw.EncodeToString(claims)
	signature, err := s.given.sign([]byte(text))
	if err != nil {
		return err
	}
	der, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+text+"."+raw.EncodeToString(der))
	return nil
}
