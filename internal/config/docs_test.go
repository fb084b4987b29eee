package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const reference = "../../docs/configuration.md"

// row is one key of the reference.
type row struct{ kind, standard, bounds, env string }

// documented reads the tables of the reference.
func documented(t *testing.T) map[string]row {
	t.Helper()
	text, err := os.ReadFile(reference)
	require.NoError(t, err)
	rows := map[string]row{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 2 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		require.Len(t, cells, 8, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		key := strings.Trim(cells[1], "`")
		require.NotContains(t, rows, key)
		require.NotEmpty(t, cells[6], "%s has no meaning", key)
		rows[key] = row{kind: cells[2], standard: cells[3], bounds: cells[4], env: strings.Trim(cells[5], "`")}
	}
	return rows
}

// known lists every key of the schema by its path.
func known(k keys, prefix string, into map[string]field) map[string]field {
	for name, f := range k {
		path := join(prefix, name)
		into[path] = f
		if f.under != nil {
			known(f.under(), path+f.suffix, into)
		}
	}
	return into
}

func TestTheReferenceIsTheSchema(t *testing.T) {
	t.Parallel()
	rows := documented(t)
	fields := known(fileKeys(defaults()), "", map[string]field{})
	require.Equal(t, slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(rows)))
	for path, f := range fields {
		require.Equal(t, f.bounds, rows[path].bounds, path)
		require.Equal(t, f.env, rows[path].env, path)
		require.Equal(t, f.required, strings.Contains(rows[path].kind, "*required*"), path)
	}
}

// A file that sets each documented default is the empty file.
func TestDocumentedDefaultsAreTheDefaults(t *testing.T) {
	t.Parallel()
	env := func(string) (string, bool) { return "", false }
	for path, r := range documented(t) {
		standard, quoted := strings.CutPrefix(r.standard, "`")
		section, key, nested := strings.Cut(path, ".")
		if !quoted || !nested || strings.HasPrefix(path, "sources.") {
			continue
		}
		yaml := fmt.Sprintf("%s: {%s: %q}", section, key, strings.TrimSuffix(standard, "`"))
		if r.kind == "number" {
			yaml = strings.ReplaceAll(yaml, `"`, "")
		}
		c, faults := decode([]byte(yaml), env)
		require.Empty(t, faults, yaml)
		c.places = nil
		require.Equal(t, defaults(), c, yaml)
	}

	const source = "sources: {name: {provider: x, secret: long-enough, hmac: {header: X}, fetch: {token: t}}}"
	bare, faults := decode([]byte(source), env)
	require.Empty(t, faults)
	for path, r := range documented(t) {
		standard, quoted := strings.CutPrefix(r.standard, "`")
		key, mine := strings.CutPrefix(path, "sources.NAME.")
		if !quoted || !mine {
			continue
		}
		yaml := strings.Replace(source, "secret:", fmt.Sprintf("%s: %q, secret:", key, strings.TrimSuffix(standard, "`")), 1)
		if key, hmac := strings.CutPrefix(key, "hmac."); hmac {
			yaml = strings.Replace(source, "header:", fmt.Sprintf("%s: %q, header:", key, strings.TrimSuffix(standard, "`")), 1)
		}
		if key, fetch := strings.CutPrefix(key, "fetch."); fetch {
			yaml = strings.Replace(source, "token:", fmt.Sprintf("%s: %q, token:", key, strings.TrimSuffix(standard, "`")), 1)
		}
		c, faults := decode([]byte(yaml), env)
		require.Empty(t, faults, yaml)
		got, want := c.Sources[0], bare.Sources[0]
		require.Equal(t, want.Mode, got.Mode)
		require.Equal(t, want.Unmatched, got.Unmatched)
		require.Equal(t, want.HMAC.Content.Value, got.HMAC.Content.Value)
		require.Equal(t, want.HMAC.Encoding, got.HMAC.Encoding)
		require.Equal(t, want.Fetch.Timeout, got.Fetch.Timeout)
		require.Equal(t, want.HMAC.Algorithm, got.HMAC.Algorithm)
	}
}

// Each bound is the last value that loads.
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	env := func(string) (string, bool) { return "", false }
	for yaml, ok := range map[string]bool{
		"receiver: {max_body: 1KiB}": true, "receiver: {max_body: 1023}": false,
		"receiver: {max_body: 64MiB}": true, "receiver: {max_body: 67108865}": false,
		"receiver: {max_body: 1.5MiB}": false, "receiver: {max_body: -1}": false, "receiver: {max_body: 99999999999999999999}": false,
		"receiver: {max_body: 9223372036854775807TiB}": false, "receiver: {max_body: [1]}": false,
		"worker: {ack_wait: 1s}": true, "worker: {ack_wait: 999ms}": false,
		"worker: {ack_wait: 1h}": true, "worker: {ack_wait: 1h1ns}": false, "worker: {ack_wait: -5s}": false,
		"worker: {ack_wait: true}": false, "worker: {ack_wait: {}}": false,
		"keeper: {interval: 1s}": true, "keeper: {interval: 999ms}": false, "keeper: {interval: 24h}": true, "keeper: {interval: 24h1ns}": false,
		"keeper: {keep: 1m}": true, "keeper: {keep: 59s}": false, "keeper: {keep: 8760h}": true, "keeper: {keep: 8760h1s}": false,
		"keeper: {backlog_alert: 1s}": true, "keeper: {backlog_alert: 0s}": false,
		"keeper: {backlog_alert: 2160h}": true, "keeper: {backlog_alert: 2160h1s}": false,
		"keeper: {trim: age}": true, "keeper: {trim: never}": false,
		"keeper: {compensate: 'off'}": true, "keeper: {compensate: 'no'}": false,
		"nats: {replicas: 1}": true, "nats: {replicas: 0}": false, "nats: {replicas: 5}": true, "nats: {replicas: 6}": false,
		"nats: {replicas: -1}": false, "nats: {replicas: '3'}": false, "nats: {replicas: 1e0}": false,
		"nats: {replicas: 99999999999999999999}": false,
		"retry: {attempts: 1000}":                true, "retry: {attempts: 1001}": false, "retry: {attempts: 0}": false,
		"retry: {age: 2160h}": true, "retry: {age: 2161h}": false,
		"retry: {base: 1ms}": true, "retry: {base: 0s}": false, "retry: {base: 11m}": false, "retry: {cap: 1ms}": false,
		"sources: {s: {provider: x, secret: y, retry: {base: 11m}}}":                                       false,
		"sources: {s: {provider: x, secret: y, retry: {base: 11m, cap: 1h}}}":                              true,
		"receiver: {listen: ':0'}":                                                                         true,
		"receiver: {listen: ':65536'}":                                                                     false,
		"receiver: {listen: 'localhost:http'}":                                                             false,
		"sources: {" + strings.Repeat("a", 63) + ": {provider: x, secret: y}}":                             true,
		"sources: {" + strings.Repeat("a", 64) + ": {provider: x, secret: y}}":                             false,
		"sources: {-a: {provider: x, secret: y}}":                                                          false,
		"sources: {a_b: {provider: x, secret: y}}":                                                         false,
		"sources: {a.b: {provider: x, secret: y}}":                                                         false,
		"sources: {s: {provider: x, secrets: [" + strings.Repeat("y, ", 7) + "y]}}":                        true,
		"sources: {s: {provider: x, secrets: [" + strings.Repeat("y, ", 8) + "y]}}":                        false,
		"sources: {s: {provider: " + strings.Repeat("x", maxText) + ", secret: y}}":                        true,
		"sources: {s: {provider: " + strings.Repeat("x", maxText+1) + ", secret: y}}":                      false,
		"sources: {s: {provider: x, secret: y, rules: [{when: 1, transfers: [{}]}]}}":                      false,
		"sources: {s: {provider: \"a\\0b\", secret: y}}":                                                   false,
		"accounts: [{match: a, limit: debits_must_not_exceed_credits}]":                                    false,
		"accounts: [{match: a, policy: enforce}]":                                                          false,
		"accounts: [{match: '*', limit: debits_must_not_exceed_credits, policy: x}]":                       false,
		"accounts: [{match: '**'}]":                                                                        false,
		"accounts: [{match: 'a:{source}'}]":                                                                true,
		"accounts: [{match: '{source}:{source}:*'}]":                                                       true,
		"accounts: [{match: 'a:{sources}'}]":                                                               false,
		"accounts: [{match: 'a:{Source}'}]":                                                                false,
		"accounts: [{match: 'a:{source'}]":                                                                 false,
		"accounts: [{match: a, asset: EUR}]":                                                               true,
		"accounts: [{match: a, asset: [EUR, GEMS]}]":                                                       true,
		"accounts: [{match: a, asset: []}]":                                                                false,
		"accounts: [{match: a, asset: ''}]":                                                                false,
		"accounts: [{match: a, asset: ~}]":                                                                 false,
		"accounts: [{match: a, asset: [EUR, EUR]}]":                                                        false,
		"accounts: [{match: a, asset: {code: EUR}}]":                                                       false,
		"accounts_policy: open":                                                                            true,
		"accounts_policy: declared":                                                                        true,
		"accounts_policy: explicit":                                                                        true,
		"accounts_policy: closed":                                                                          false,
		"accounts_policy: [open]":                                                                          false,
		"alerts: {url: 'https://a.b/c', secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}":       true,
		"alerts: {url: 'http://127.0.0.9:8/', secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}":       true,
		"alerts: {url: 'http://[::1]:8/', secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}":           true,
		"alerts: {url: 'http://localhost', secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}":          true,
		"alerts: {url: 'http://localhost.evil.com', secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}": false,
		"alerts: {url: 'http://10.0.0.1/', secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}":          false,
		"alerts: {url: 'https://u:p@a.b/', secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}":          false,
		"alerts: {url: 'https:///c', secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}":                false,
		"alerts: {url: 'https://a.b/c', secret: whsec_short}":                                              false,
		"alerts: {url: 'https://a.b/c'}":                                                                   false,
		"alerts: {secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}":                                   false,
		"redis: {url: unix:///run/redis.sock}":                                                             true,
		"redis: {url: localhost}":                                                                          false,
		"nats: {url: 'nats://a,http://b'}":                                                                 false,
		"database: {url: 'postgres://u:p@a:5432,b:5432/db?target_session_attrs=read-write'}":               true,
		"database: {url: 'postgres://u@/db?host=/run/postgresql'}":                                         true,
		"database: {url: 'host=localhost'}":                                                                false,
		"database: {url: 'postgres://'}":                                                                   false,
		"database: {url: 'postgres://a:b:c/d'}":                                                            false,
		"database: {url: 'postgres://a b'}":                                                                false,
		"assets: [{code: GEMS, exponent: 18}]":                                                             true,
		"assets: [{code: GEMS, exponent: 19}]":                                                             false,
		"sources: {s: {provider: x, secret: y, fetch: {token: t}}}":                                        true,
		"sources: {s: {provider: x, secret: y, fetch: {token: t, url: 'https://a.b/c', timeout: 100ms}}}":  true,
		"sources: {s: {provider: x, secret: y, fetch: {token: t, url: 'http://127.0.0.1:1'}}}":             true,
		"sources: {s: {provider: x, secret: y, fetch: {}}}":                                                false,
		"sources: {s: {provider: x, secret: y, fetch: {token: ''}}}":                                       false,
		"sources: {s: {provider: x, secret: y, fetch: {token: t, url: 'http://a.b/c'}}}":                   false,
		"sources: {s: {provider: x, secret: y, fetch: {token: t, url: 'https://u:p@a.b/c'}}}":              false,
		"sources: {s: {provider: x, secret: y, fetch: {token: t, timeout: 99ms}}}":                         false,
		"sources: {s: {provider: x, secret: y, fetch: {token: t, timeout: 31s}}}":                          false,
		"sources: {s: {provider: x, secret: y, tolerance: 24h}}":                                           true,
		"sources: {s: {provider: x, secret: y, tolerance: 25h}}":                                           false,
		"sources: {s: {provider: x, secret: y, operation_scope: 'A B'}}":                                   false,
		"sources: {s: {provider: x, secret: y, fingerprint: [body.a, {}]}}":                                false,
		"sources: {s: {provider: x, secret: y, rules: [{when: true, transfers: []}]}}":                     true,
	} {
		_, faults := decode([]byte(yaml), env)
		require.Equal(t, ok, len(faults) == 0, "%.120s: %v", yaml, faults)
	}
}
