package provider

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/providers.md anew")

const reference = "../../docs/providers.md"

// The table of docs/providers.md is what the presets say.
func TestTheTableOfProvidersIsTheirData(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- presets -->\n", "<!-- /presets -->\n"
	var table strings.Builder
	table.WriteString("\n| provider | signature | beside `secrets` | events | event id | clock | stored | bad signature |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range Names() {
		d, ok := Describe(name)
		require.True(t, ok)
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n",
			d.Name, strings.ReplaceAll(d.Scheme, "|", `\|`), settingKeys(d), events(d), id(d), tolerated(d), answered(d.Ack), answered(d.Reject))
	}
	table.WriteString("\n")

	text, err := os.ReadFile(reference)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(reference, []byte(before+begin+table.String()+end+after), 0o600))
		return
	}
	require.Equal(t, old, table.String())
}

func TestNobodyDescribesAStranger(t *testing.T) {
	t.Parallel()
	_, ok := Describe("acme")
	require.False(t, ok)
}

func code(words []string) string {
	for i, word := range words {
		words[i] = "`" + word + "`"
	}
	return strings.Join(words, ", ")
}

func settingKeys(d Description) string {
	var keys []string
	for _, s := range d.Settings {
		if s.Key != "secrets" && s.Key != "id" { // which have columns of their own
			keys = append(keys, s.Key)
		}
	}
	return code(keys)
}

func events(d Description) string {
	switch {
	case d.Batch == ".":
		return "each item"
	case d.Batch != "":
		return "each of `" + d.Batch + "`"
	}
	return "one"
}

func id(d Description) string {
	switch {
	case d.Hint:
		return "none: looked up"
	case len(d.ID) == 0:
		return "`id:` says"
	}
	return code(append([]string(nil), d.ID...))
}

func tolerated(d Description) string {
	if d.Tolerance == 0 {
		return ""
	}
	return strings.TrimSuffix(d.Tolerance.String(), "0s")
}

func answered(a Ack) string {
	if len(a.Body) == 0 {
		return fmt.Sprint(a.Status)
	}
	text := strings.NewReplacer("<![CDATA[", "", "]]>", "").Replace(string(a.Body))
	return fmt.Sprintf("%d `%s`", a.Status, text)
}
