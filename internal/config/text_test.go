package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// lineColumn is where needle stands in text.
func lineColumn(t *testing.T, text, needle string) config.Pos {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, needle), "%q in %q", needle, text)
	before := text[:strings.Index(text, needle)]
	line := strings.Count(before, "\n")
	return config.Pos{Line: line + 1, Column: len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1}
}

// The place of MARK within the value leads back to MARK within the file,
// however the scalar is written.
func TestPositionsLeadBackToTheFile(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]string{
		"plain":                    ` first == MARK`,
		"plain with marks":         ` 日本é == "MARK" # comment`,
		"plain on the next line":   "\n          first == MARK",
		"plain folded":             " first &&\n          日 &&\n\n          third == MARK",
		"single quotes":            ` 'first == MARK'`,
		"single quotes, doubled":   ` 'first == ''a''  && MARK'`,
		"double quotes":            ` "first == MARK"`,
		"double quotes, escaped":   ` "first == \"a\\b\" && \u65e5\x41 && MARK"`,
		"double quotes, folded":    " \"first == \\\"a\\\" &&\n            MARK\"",
		"literal":                  " |\n          first &&\n            日 &&\n          MARK\n",
		"literal, one line":        " |\n          first && MARK",
		"literal, stripped":        " |-\n          first &&\n\n          日本 && MARK\n",
		"literal after blank":      " |\n\n          first &&\n          MARK\n",
		"literal, own indentation": " |2\n            first &&\n            MARK\n",
		"literal, keep":            " |+\n          first && MARK\n\n",
		"literal with comment":     " | # comment\n          first && MARK\n",
		"folded":                   " >\n          first &&\n          日 &&\n\n          MARK\n",
		"folded, stripped":         " >-\n          first &&\n          third && MARK\n",
		"anchored":                 ` &a first == MARK`,
	} {
		yaml := "# comment\n\nsources:\n  s: # comment\n    provider: stripe\n    secret: long-enough\n" +
			"    rules:\n      - transfers: []\n        when:" + when + "\nretry: {attempts: 3}\n"
		for ending, text := range map[string]string{"LF": yaml, "CRLF": strings.ReplaceAll(yaml, "\n", "\r\n")} {
			cfg, err := config.Load(write(t, text), env())
			require.NoError(t, err, "%s %s", name, ending)
			got := cfg.Sources[0].Rules[0].When
			at := lineColumn(t, got.Value, "MARK")
			require.Equal(t, lineColumn(t, yaml, "MARK"), got.At(at.Line, at.Column-1), "%s %s: %q", name, ending, got.Value)
			if strings.HasPrefix(got.Value, "first") {
				require.Equal(t, lineColumn(t, yaml, "first"), got.Pos, "%s %s", name, ending)
			}
		}
	}
}

func TestTextWithoutAFileCountsFromItsPlace(t *testing.T) {
	t.Parallel()
	text := config.Text{Value: "a == b", Pos: config.Pos{Line: 7, Column: 11}}
	require.Equal(t, config.Pos{Line: 7, Column: 16}, text.At(1, 5))
	require.Equal(t, config.Pos{Line: 8, Column: 11}, text.At(2, 0))
}

func TestAPlaceBeyondTheTextStaysNearIt(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(write(t, "sources: {s: {provider: abc, secret: long-enough}}\n"), env())
	require.NoError(t, err)
	text := cfg.Sources[0].Provider
	require.Equal(t, config.Pos{Line: 1, Column: 25}, text.Pos)
	require.Equal(t, config.Pos{Line: 1, Column: 28}, text.At(1, 3))
	require.Equal(t, config.Pos{Line: 1, Column: 124}, text.At(1, 99))
}
