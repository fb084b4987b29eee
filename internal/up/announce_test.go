package up

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
)

func TestQuotedTextIsOneWordOfAShell(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/srv/data", quote("/srv/data"))
	for _, text := range []string{"", "a b", "it's", `$HOME`, "`id`", "a\nb", `\`, "ü", "*", "-x"} {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+"x"+quote(text)).Output()
		require.NoError(t, err)
		require.Equal(t, "x"+text, string(out))
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:8080":   "http://127.0.0.1:8080",
		":8080":            "http://127.0.0.1:8080",
		"0.0.0.0:8080":     "http://127.0.0.1:8080",
		"[::]:8080":        "http://127.0.0.1:8080",
		"[::1]:8080":       "http://[::1]:8080",
		"pay.example:8080": "http://pay.example:8080",
	} {
		require.Equal(t, want, baseURL(listen))
	}
}

// What the commands name is there only after the event that is offered was pasted.
func TestSuggestionsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	s := &system{Options: Options{Data: ".data", Command: "onceledger"}, cat: &catalog.Catalog{Config: &config.Config{}}, stack: &devstack.Stack{}, ownConfig: true}
	require.Contains(t, s.suggestions("stripe"), "  onceledger event show stripe evt_first --data .data\n  onceledger account balance wallet:alice --data .data\n")
	none := s.suggestions("")
	require.NotContains(t, none, "evt_first")
	require.NotContains(t, none, "wallet:alice")
	require.Contains(t, none, "  onceledger account list --data .data\n")
}
