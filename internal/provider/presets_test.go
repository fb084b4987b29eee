package provider

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// sourceOf is a source of each provider that can verify and sign.
func sourceOf(t testing.TB, name string) config.Source {
	src := configured(name)
	secret := "b2xkIHNlY3JldA=="
	switch name {
	case "hmac":
		return genericConfig()
	case "adyen", "adyen-platform":
		secret = strings.Repeat("0a", 32)
	case "chargebee":
		secret = "user:pass:word"
	case "braintree":
		secret = "public:private"
	case "wise", "paypal", "alipay", "google-play":
		keys := rsaPair(t)
		secret, src.PublicKeys = keys.private, []config.Text{{Value: keys.certificate}}
	case "sendgrid", "apple":
		keys := ecdsaPair(t)
		secret, src.PublicKeys = keys.private, []config.Text{{Value: keys.certificate}}
	case "wechatpay-v3":
		keys := rsaPair(t)
		secret, src.PublicKeys = strings.Repeat("k", 32), []config.Text{{Value: keys.certificate}}
		src.Secrets = append(src.Secrets, config.NewSecret(keys.private))
	}
	src.Secrets = append(src.Secrets, config.NewSecret(secret))
	uses := presets[name].uses
	for _, s := range []struct {
		setting setting
		target  *config.Text
		value   string
	}{
		{usesURL, &src.URL, "https://example.com/webhooks/" + name},
		{usesAudience, &src.Audience, "com.example"},
		{usesServiceAccount, &src.ServiceAccount, "push@example.iam.gserviceaccount.com"},
		{usesWebhookID, &src.WebhookID, "WH-1"},
	} {
		if uses&s.setting != 0 {
			*s.target = config.Text{Value: s.value}
		}
	}
	if uses&usesToken != 0 {
		src.VerifyToken = config.NewSecret("verify me")
	}
	return src
}

// Every provider's requests can be made, and are accepted as they are made.
func TestEveryProviderCanBeTried(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := mustNew(t, sourceOf(t, name))
			req, err := s.Sign(s.Sample("evt_1"), "evt_1", now)
			require.NoError(t, err)
			require.NoError(t, s.Verify(ctx, req, now))

			limit := s.Tolerance()
			if limit != 0 && name != "google-play" { // whose tokens live for an hour
				require.NoError(t, s.Verify(ctx, req, now.Add(limit)))
				require.ErrorIs(t, s.Verify(ctx, req, now.Add(limit+time.Second)), ErrSignature)
				require.ErrorIs(t, s.Verify(ctx, req, now.Add(-limit-time.Second)), ErrSignature)
			}

			events := s.Events(req, now)
			require.Len(t, events, 1)
			event := events[0]
			msg, err := event.Msg()
			require.NoError(t, err)
			again, err := envelope.Decode(msg.Header, msg.Data)
			require.NoError(t, err)
			require.Equal(t, event, again)
			require.True(t, s.HasMode() == (event.Mode != "") || event.Fault != "", event.Mode)
			if s.Hint() {
				require.Equal(t, "needs_fetch", event.Fault)
				require.NotEqual(t, event.ID, s.Events(req, now)[0].ID, "each hint is one of its own")
			} else {
				require.Empty(t, event.Fault)
				require.Equal(t, event.ID, s.Events(req, now)[0].ID)
			}
			_, err = s.View(event.ContentType, event.Data, everything)
			require.NoError(t, err)

			// Another event has another key.
			other, err := s.Sign(s.Sample("evt_2"), "evt_2", now)
			require.NoError(t, err)
			require.NoError(t, s.Verify(ctx, other, now))
			require.NotEqual(t, event.ID, s.Events(other, now)[0].ID)
		})
	}
}

// The account is part of the keys of events and money: one that stands in a header,
// which none of these providers signs, would let whoever has seen a request post it
// again under another.
func TestAccountsAreSigned(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		require.NotContains(t, presets[name].account, "header:", name)
	}
	s := mustNew(t, sourceOf(t, "shopify"))
	var ids []string
	for _, shop := range []string{"a.myshopify.com", "b.myshopify.com", ""} {
		req := mustSign(t, s, string(s.Sample("evt_1")), "evt_1")
		req.Header.Set("X-Shopify-Shop-Domain", shop)
		event := s.Events(req, now)[0]
		require.Empty(t, event.Account)
		ids = append(ids, event.ID)
	}
	require.Len(t, slices.Compact(ids), 1)
}

// What a request is accepted for, nobody else can make.
func TestAStrangersRequestIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			stranger := sourceOf(t, name)
			switch name {
			case "adyen", "adyen-platform":
				stranger.Secrets = []config.Secret{config.NewSecret(strings.Repeat("0b", 32))}
			case "wise", "paypal", "alipay", "google-play", "wechatpay-v3", "sendgrid", "apple": // made anew each time, or:
				if name != "sendgrid" && name != "apple" {
					stranger.PublicKeys, stranger.Secrets = nil, nil
					foreign := sourceOf(t, "sendgrid")
					stranger.PublicKeys = foreign.PublicKeys
					stranger.Secrets = foreign.Secrets
					if name == "wechatpay-v3" {
						stranger.Secrets = append(stranger.Secrets, config.NewSecret(strings.Repeat("k", 32)))
					}
				}
			case "chargebee", "braintree":
				stranger.Secrets = []config.Secret{config.NewSecret("user:another")}
			default:
				stranger.Secrets = []config.Secret{config.NewSecret("YW5vdGhlciBzZWNyZXQ=")}
			}
			s := mustNew(t, sourceOf(t, name))
			req, err := mustNew(t, stranger).Sign(s.Sample("evt_1"), "evt_1", now)
			if name == "google-play" {
				require.ErrorContains(t, err, "is not RSA")
				return
			}
			require.NoError(t, err)
			require.ErrorIs(t, s.Verify(ctx, req, now), ErrSignature)

			// With both secrets live, either verifies (rotation).
			both := sourceOf(t, name)
			both.Secrets = append(both.Secrets, stranger.Secrets...)
			both.PublicKeys = append(both.PublicKeys, stranger.PublicKeys...)
			require.NoError(t, mustNew(t, both).Verify(ctx, req, now))
		})
	}
}

// A source without what it verifies with is a fault, whatever the provider.
func TestNoProviderGoesWithoutASecret(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		src := sourceOf(t, name)
		src.Secrets, src.PublicKeys, src.WebhookID, src.Audience = nil, nil, config.Text{}, config.Text{}
		s, faults := New(src)
		require.Nil(t, s, name)
		require.NotEmpty(t, faults, name)

		src = sourceOf(t, name)
		src.Secrets = append(src.Secrets, config.NewSecret(" "))
		_, faults = New(src)
		require.NotEmpty(t, faults, name)
	}
}

// A setting that a provider does not have promises what nobody does.
func TestForeignSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		for key, set := range map[string]struct {
			uses setting
			give func(*config.Source)
		}{
			"url":             {usesURL, func(s *config.Source) { s.URL = text("https://a.b/c") }},
			"audience":        {usesAudience, func(s *config.Source) { s.Audience = text("a") }},
			"service_account": {usesServiceAccount, func(s *config.Source) { s.ServiceAccount = text("a@b") }},
			"webhook_id":      {usesWebhookID, func(s *config.Source) { s.WebhookID = text("a") }},
			"verify_token":    {usesToken, func(s *config.Source) { s.VerifyToken = config.NewSecret("a") }},
			"public_keys":     {usesKeys, func(s *config.Source) { s.PublicKeys = append(s.PublicKeys, text(strangers[false])) }},
		} {
			src := sourceOf(t, name)
			set.give(&src)
			_, faults := New(src)
			if presets[name].uses&set.uses == 0 {
				require.Len(t, faults, 1, "%s %s", name, key)
				require.Equal(t, "sources.src."+key, faults[0].Path)
			} else {
				require.Empty(t, faults, "%s %s", name, key)
			}
		}
	}
}
