package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Every kind of fault at once, each with its place.
func TestEveryFaultIsReported(t *testing.T) {
	t.Parallel()
	_, err := config.Load("testdata/faults.yaml", env("EMPTY", "", "WORKER_ADMIN", "9081"))
	require.Error(t, err)
	if *update {
		require.NoError(t, os.WriteFile("testdata/faults.golden", []byte(err.Error()+"\n"), 0o600))
	}
	want, readErr := os.ReadFile("testdata/faults.golden")
	require.NoError(t, readErr)
	require.Equal(t, strings.Split(strings.TrimSpace(string(want)), "\n"), strings.Split(err.Error(), "\n"))
	require.NotContains(t, err.Error(), "hunter2")
}

func TestUnreadableYAMLIsOneFaultWithItsPlace(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"a: 1\n b: 2\n":                   "1:4: YAML syntax: mapping value is not allowed in this context",
		"receiver:\n\tlisten: x\n":        "2:1: YAML syntax: found character '\t' that cannot start any token",
		"sources: {}\n---\nsources: {}\n": "3:1: a second YAML document is not read; put everything into one",
		"- a\n":                           "1:1: must be a mapping of keys, not a list",
		"text":                            "1:1: must be a mapping of keys, not a string",
		"retry: &x {attempts: *x}\n":      "1:12: retry.attempts: must be a whole number from 1 to 1000, not a mapping",
	} {
		require.Contains(t, faults(t, yaml, env()), want, "%q", yaml)
	}
}

// Case 46: an empty secret turned the check off, or made it computable.
func TestNoSecretIsAFault(t *testing.T) {
	t.Parallel()
	const source = "sources:\n  s:\n    provider: stripe\n    "
	for given, want := range map[string]string{
		"":                      `2:3: sources.s: key "secrets" is missing`,
		`secret: ""`:            "4:14: sources.s.secret: is empty",
		"secret:":               "4:5: sources.s.secret: has no value",
		`secret: " "`:           "4:14: sources.s.secret: is empty",
		"secret: ~":             "4:5: sources.s.secret: has no value",
		"secret: ${GONE}":       "4:13: sources.s.secret: variable GONE is not set or empty",
		"secret: ${EMPTY}":      "4:13: sources.s.secret: variable EMPTY is not set or empty",
		"secret: ${BLANK}":      "4:13: sources.s.secret: secret starts or ends with white space",
		"secret: whsec_${GONE}": "4:13: sources.s.secret: variable GONE is not set or empty",
		"secrets: []":           "4:5: sources.s.secrets: has no secret; without one anybody could sign",
		"secrets:":              "4:5: sources.s.secrets: has no secret; without one anybody could sign",
		"secrets: [a, '']":      "4:19: sources.s.secrets[1]: is empty",
	} {
		require.Equal(t, []string{want}, faults(t, source+given+"\n", env("EMPTY", "", "BLANK", "  ")), given)
	}
}

func TestFaultsAreOrderedAndNilWithoutAny(t *testing.T) {
	t.Parallel()
	require.NoError(t, config.Faults(nil).In("x"))
	err := config.Faults{
		{Pos: config.Pos{Line: 10, Column: 2}, Path: "b", Message: "two"},
		{Pos: config.Pos{Line: 9, Column: 30}, Path: "a", Message: "one"},
		{Path: "DATABASE_URL", Message: "zero"},
	}.In("f.yaml")
	require.EqualError(t, err, "f.yaml: DATABASE_URL: zero\nf.yaml:9:30: a: one\nf.yaml:10:2: b: two")
}

func TestNearWordsAreSuggested(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{`1:1: unknown key "recever"; did you mean "receiver"?`}, faults(t, "recever: {}\n", env()))
	require.Equal(t, []string{`1:1: unknown key "zebra"`}, faults(t, "zebra: {}\n", env()))
}

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"testdata/full.yaml", "testdata/faults.yaml"} {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(string(data))
	}
	f.Add("a: &x [*x]\nsources: *x\n")
	f.Add("sources: {a: {rules: [{when: >-\n\n  x\n}]}}")
	f.Fuzz(func(t *testing.T, yaml string) {
		for _, line := range faults(t, yaml, env("STRIPE_SECRET", "s3cret-value")) {
			require.NotContains(t, line, "s3cret-value")
		}
	})
}
