package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
)

// call runs a command line in a folder without any configuration.
func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	root := newRoot(&operator.Session{Env: func(string) (string, bool) { return "", false }, Out: &out})
	root.SetArgs(args)
	err := root.execute(t.Context())
	return out.String(), err
}

func TestRoot(t *testing.T) {
	t.Run("prints help and version", func(t *testing.T) {
		for _, args := range [][]string{{}, {"--help"}, {"help"}, {"event"}, {"dlq", "--help"}} {
			out, err := call(t, args...)
			require.NoError(t, err)
			require.Contains(t, out, "Usage:")
		}
		out, err := call(t, "--version")
		require.NoError(t, err)
		require.Contains(t, out, "onceledger version ")
	})
	t.Run("help of a command that stands deeper", func(t *testing.T) {
		out, err := call(t, "trial-balance", "--help")
		require.NoError(t, err)
		require.Contains(t, out, "onceledger account trial-balance [flags]")
		out, err = call(t, "show", "--help") // event show, dlq show, provider show
		require.NoError(t, err)
		require.Contains(t, out, "onceledger [command]")
	})
	t.Run("account open says the default, and what it needs", func(t *testing.T) {
		out, err := call(t, "account", "open", "--help")
		require.NoError(t, err)
		require.Contains(t, out, "by default (accounts_policy: open) an account opens with its first transfer")
		require.Contains(t, out, "the asset CODE that it is opened in, required")
	})
	t.Run("wrong arguments exit with 2 and say where help is", func(t *testing.T) {
		for line, text := range map[string]string{
			"evnt":                                    `unknown command "evnt" for "onceledger"; did you mean "event"?`,
			"trial-balance":                           `unknown command "trial-balance" for "onceledger"; did you mean "onceledger account trial-balance"?`,
			"event shwo":                              `unknown command "shwo" for "onceledger event"`,
			"event show stripe":                       "argument ID is missing",
			"account balance a b":                     `unexpected argument "b"`,
			"audit --grase 1m":                        "unknown flag: --grase",
			"audit --grace soon":                      "invalid argument",
			"audit --grace 0s":                        "--grace must be longer than 0",
			"send shop --repeat 0":                    "--repeat must be at least 1",
			"verify":                                  "argument SOURCE is missing",
			"verify shop":                             "--request FILE is missing",
			"verify shop --request x":                 "name the file with --config",
			"verify shop --request x --at soon":       "--at \"soon\" is neither",
			"dlq show x":                              `"x" is not a sequence`,
			"event export --since x":                  "is neither a time",
			"account statement a --limit -1":          "--limit must be at least 0",
			"account statement a --from soon":         "--from \"soon\" is neither",
			"account statement a --to soon":           "--to \"soon\" is neither",
			"account balance a --at soon":             "--at \"soon\" is neither",
			"account trial-balance --at soon":         "--at \"soon\" is neither",
			"account trial-balance a":                 "unknown command",
			"account list --csv --json":               "choose one",
			"account balance a --csv --json":          "choose one",
			"account statement a --csv --json":        "choose one",
			"account trial-balance --csv --json":      "choose one",
			"audit --csv":                             "unknown flag: --csv",
			"account freeze a --note n --csv":         "unknown flag: --csv",
			"account list --state asleep":             "is not one of open, frozen, closed",
			"account open a --asset EUR --set x":      "is not KEY=VALUE",
			"account set a =x":                        "is not KEY=VALUE",
			"account set a k=1 k=2":                   `key "k" is given twice`,
			"account set":                             "argument ACCOUNT is missing",
			"account list":                            "the database is not configured",
			"audit":                                   "name the file with --config",
			"config check":                            "onceledger.yaml",
			"config check --type x":                   "belong to --against-stream",
			"config check --against-stream":           "onceledger.yaml",
			"config check --against-stream --until x": "--until \"x\" is neither",
			"replay":                         "say where to begin",
			"replay --since x":               "is neither a time",
			"replay --from-seq 1 --since 1h": "not both",
			"replay --from-seq 1 --rate 0":   "--rate must be from 1",
			"replay --from-seq 1":            "name the file with --config",
			"replay 5":                       "unknown command",
			"provider show":                  "argument NAME is missing",
			"provider show strpie":           `provider "strpie" is unknown; did you mean "stripe"?`,
			"provider show acme":             "provider list` shows those there are",
			"provider list x":                "unknown command",
		} {
			_, err := call(t, strings.Fields(line)...)
			require.ErrorContains(t, err, text, line)
			require.Equal(t, exit.Usage, exit.Code(err), line)
		}
		_, err := call(t, "event", "show")
		require.ErrorContains(t, err, "see: onceledger event show --help")
	})
	t.Run("every command explains itself with an example", func(t *testing.T) {
		var visit func(*cobra.Command)
		visit = func(cmd *cobra.Command) {
			require.NotEmpty(t, cmd.Short, cmd.CommandPath())
			if !cmd.HasSubCommands() {
				require.NotEmpty(t, cmd.Long, cmd.CommandPath())
				require.NotEmpty(t, cmd.Example, cmd.CommandPath())
			}
			for _, line := range strings.Split(cmd.Long+"\n"+cmd.Example, "\n") {
				require.LessOrEqual(t, len(line), 100, line)
			}
			for _, sub := range cmd.Commands() {
				visit(sub)
			}
		}
		for _, cmd := range newRoot(&operator.Session{}).Commands() {
			visit(cmd)
		}
	})
}
