package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/operator"
)

// Commands of a document stand at the beginning of a line of a code block, or
// alone in inline code.
var (
	codeBlock   = regexp.MustCompile("(?ms)^```.*?^```")
	commandLine = regexp.MustCompile(`(?m)^(?:\$ )?(?:\.bin/)?onceledger ([a-z][^|>#\n]*)`)
	inlineCode  = regexp.MustCompile("`onceledger ([a-z][^`|>]*)")
)

// documented returns the command lines of a document.
func documented(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	require.NoError(t, err)
	var lines []string
	for _, block := range codeBlock.FindAllString(string(text), -1) {
		lines = append(lines, commands(block)...)
	}
	prose := codeBlock.ReplaceAllString(string(text), "")
	for _, found := range inlineCode.FindAllStringSubmatch(prose, -1) {
		lines = append(lines, strings.TrimSpace(found[1]))
	}
	return lines
}

// commands returns the command lines of a block, without their program.
func commands(block string) []string {
	var lines []string
	for _, found := range commandLine.FindAllStringSubmatch(block, -1) {
		lines = append(lines, strings.TrimSpace(found[1]))
	}
	return lines
}

// words splits a line as a shell does, as far as the documents need it.
func words(line string) []string {
	var split []string
	for _, word := range regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`).FindAllString(line, -1) {
		split = append(split, strings.NewReplacer(`"`, "", `'`, "").Replace(word))
	}
	return split
}

// parses reports what is wrong with a line, without running it.
func parses(line string) error {
	root := newRoot(&operator.Session{})
	cmd, args, err := root.Find(words(line))
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && cmd.Example == "" {
		return errors.New("it is only a group of commands")
	}
	if err := cmd.ParseFlags(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return ignoreMissing(cmd.ValidateArgs(cmd.Flags().Args()))
}

// ignoreMissing lets a text name a command without its arguments.
func ignoreMissing(err error) error {
	if err != nil && strings.HasSuffix(err.Error(), "is missing") {
		return nil
	}
	return err
}

// A document that names a command or a flag which does not exist is worst at
// three in the morning.
func TestDocumentedCommandsExist(t *testing.T) {
	for name, least := range map[string]int{"docs/operations.md": 30, "README.md": 6, "docs/configuration.md": 1} {
		t.Run(name, func(t *testing.T) {
			lines := documented(t, name)
			require.GreaterOrEqual(t, len(lines), least, "the document is read")
			for _, line := range lines {
				require.NoError(t, parses(line), "onceledger %s", line)
			}
		})
	}
	t.Run("what does not exist is found", func(t *testing.T) {
		for _, line := range []string{"dlq redirve 1", "audit --grase 1m", "dlq", "account balance a b", "replay --from-seq x"} {
			require.Error(t, parses(line), line)
		}
	})
	t.Run("an example is a command line as well", func(t *testing.T) {
		var visit func(*cobra.Command)
		visit = func(cmd *cobra.Command) {
			for _, line := range commands(strings.ReplaceAll(cmd.Example, "  onceledger", "onceledger")) {
				require.NoError(t, parses(line), "onceledger %s", line)
			}
			for _, sub := range cmd.Commands() {
				visit(sub)
			}
		}
		visit(newRoot(&operator.Session{}).Command)
	})
}
