package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/telemetry"
)

const rootHelp = `onceledger turns payment webhooks into ledger entries, each event exactly once.

This command runs everything on this machine (up, demo), prepares a database
and its streams (migrate), knows what providers send (provider), checks a
configuration (config check), sends signed test events (send), explains why a
request is refused (verify), and shows what became of events and money (event,
account, dlq, audit).

Where the system is, in this order: --data DIR of a stack that "onceledger up"
runs; the variables DATABASE_URL, NATS_URL and REDIS_URL; the configuration
file (--config, ONCELEDGER_CONFIG, or onceledger.yaml here).

Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, 3 refused to
start until something is changed, 4 found: the audit a problem, the trial balance
or config check --against-stream a difference.`

// root is the command line: the tree of commands and whether one has begun.
type root struct {
	*cobra.Command
	began bool
}

// newRoot builds the tree. Every subcommand is listed here, one file each.
func newRoot(s *operator.Session) *root {
	r := &root{Command: &cobra.Command{
		Use:           "onceledger",
		Short:         "Payment webhooks in, ledger debits out, each exactly once",
		Long:          rootHelp,
		Version:       telemetry.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		RunE:          help,
	}}
	r.PersistentPreRun = func(*cobra.Command, []string) { r.began = true }
	r.SetOut(s.Out)
	usual := r.HelpFunc()
	r.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if rest := cmd.Flags().Args(); cmd == r.Command && len(rest) > 0 { // trial-balance --help
			cmd = cmp.Or(deeper(cmd, rest[0]), cmd)
		}
		usual(cmd, args)
	})
	r.CompletionOptions.HiddenDefaultCmd = true

	flags := r.PersistentFlags()
	flags.StringVar(&s.Data, "data", "", "use the stack that \"onceledger up\" runs in `DIR`; replaces the URLs")
	flags.StringVar(&s.Config, "config", "", "read the configuration from `FILE` (default: ONCELEDGER_CONFIG, or onceledger.yaml)")
	flags.BoolVar(&s.JSON, "json", false, "print JSON, one object or one a line")

	r.AddCommand(
		newUp(s),
		newDemo(s),
		newMigrate(s),
		newConfig(s),
		newProvider(s),
		newSend(s),
		newVerify(s),
		newEvent(s),
		newAccount(s),
		newDLQ(s),
		newAudit(s),
		newReplay(s),
	)
	return r
}

// execute runs the command line. What goes wrong before a command begins is a
// mistake in its arguments.
func (r *root) execute(ctx context.Context) error {
	cmd, err := r.ExecuteContextC(ctx)
	if err != nil && !r.began {
		return exit.Usagef("%w\nsee: %s --help", err, cmd.CommandPath())
	}
	return err
}

// group returns a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: noSuchCommand, RunE: help}
	cmd.AddCommand(commands...)
	return cmd
}

// exactly wants these arguments, and names the ones that are missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("argument %s is missing", names[len(args)])
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// deeper returns the one command below the subcommands of cmd that has this name.
func deeper(cmd *cobra.Command, name string) *cobra.Command {
	var found []*cobra.Command
	for _, group := range cmd.Commands() {
		for _, sub := range group.Commands() {
			if sub.Name() == name {
				found = append(found, sub)
			}
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// noSuchCommand answers a word that names no subcommand.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2 // edits
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += fmt.Sprintf("; did you mean %q?", near[0])
	} else if found := deeper(cmd, args[0]); found != nil {
		message += fmt.Sprintf("; did you mean %q?", found.CommandPath())
	}
	return errors.New(message)
}
