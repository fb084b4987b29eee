package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// A secret that stands in the file itself is not printed with what was read around it.
func TestALoadedConfigurationDoesNotPrintItsSecrets(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(write(t, `
database: {url: "postgres://u:hunter2@db/x"}
redis: {url: "redis://:hunter2@cache"}
sources: {s: {provider: stripe, secrets: [whsec_hunter2], id: "body:id", rules: [{when: true, transfers: []}]}}
`), env())
	require.NoError(t, err)
	type holder struct{ hidden any }
	for _, subject := range []any{holder{*cfg}, holder{cfg.Sources}, &holder{cfg.Database.URL}, cfg, *cfg, cfg.Sources, cfg.Sources[0], cfg.Sources[0].Rules[0].When, &cfg.Sources[0].ID} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, subject)
			require.NotContains(t, text, "hunter2")
			require.NotContains(t, text, "68756e74657232")
		}
		text, err := json.Marshal(subject)
		require.NoError(t, err)
		require.NotContains(t, string(text), "hunter2")
		text, err = yaml.Marshal(subject)
		require.NoError(t, err)
		require.NotContains(t, string(text), "hunter2")
	}
}

func TestSecretsNeverPrint(t *testing.T) {
	t.Parallel()
	const value = "whsec_hunter2"
	secret := config.NewSecret(value)
	require.Equal(t, value, secret.Reveal())
	require.True(t, secret == config.NewSecret(value))
	require.True(t, config.NewSecret("").IsZero())
	require.Empty(t, config.Secret{}.Reveal())
	cfg := config.Config{
		Database: config.Database{URL: secret},
		Sources:  []config.Source{{Secrets: []config.Secret{secret}}},
	}

	var printed []string
	for _, subject := range []any{secret, &secret, cfg, &cfg, []config.Secret{secret}, map[string]config.Secret{"a": secret}, map[config.Secret]int{secret: 1}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			printed = append(printed, fmt.Sprintf(verb, subject))
		}
		if _, keyed := subject.(map[config.Secret]int); !keyed {
			text, err := yaml.Marshal(subject)
			require.NoError(t, err)
			printed = append(printed, string(text))
		}
		text, err := json.Marshal(subject)
		require.NoError(t, err)
		printed = append(printed, string(text))

		var log bytes.Buffer
		logger := zerolog.New(&log)
		logger.Info().Interface("a", subject).Any("b", subject).Str("c", fmt.Sprint(subject)).
			Stringer("d", secret).Err(fmt.Errorf("x %v: %w", subject, errors.ErrUnsupported)).Send()
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", subject)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", subject)
		printed = append(printed, log.String())
	}
	for _, text := range printed {
		require.NotContains(t, text, "hunter2")
		require.NotContains(t, text, "68756e746572")
	}
	require.Equal(t, "[secret]", fmt.Sprintf("%v", secret))
	require.Equal(t, "[secret]", fmt.Sprintf("%#v", secret))
	text, err := json.Marshal(secret)
	require.NoError(t, err)
	require.Equal(t, `"[secret]"`, string(text))
	text, err = yaml.Marshal(map[string]config.Secret{"a": secret})
	require.NoError(t, err)
	require.Equal(t, "a: \"[secret]\"\n", string(text))
}
