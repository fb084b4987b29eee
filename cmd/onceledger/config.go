package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/review"
)

func newConfig(s *operator.Session) *cobra.Command {
	var against bool
	var filter review.Filter
	var times func(now time.Time) error
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Report every fault of a configuration, or what its rules would change",
		Long: `Reads a configuration as receiver and worker do: every key, every secret and
every expression of every rule. All faults are reported at once, one a line, as
file:line:column: key: what is wrong, and the exit code is 2. It connects to
nothing. Variables that the file names (${NAME}) must be set.

With --against-stream it lets the rules of a file without faults decide every
event again whose message EVENTS still has, and prints those that they would
treat in another way than they were, with what can be done about each:

  would_post_differently  applied, and the transfers would be others
  would_ignore            applied, and the rules ask for nothing
  would_post              ignored, and the rules ask for money that is not there
  would_park              completed, and the rules cannot decide it
  would_apply             parked by rules, and these would apply it
  would_ignore_parked     parked by rules, and these ask for nothing

It changes nothing, and may run beside working receivers and workers. Exit code
4: something differs. With --json, one object an event, then one with the sums.`,
		Example: `  onceledger config check onceledger.yaml
  onceledger config check --json | jq '.faults[]'
  onceledger config check next.yaml --against-stream --source stripe --since 24h`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := s.ConfigPath()
			if len(args) > 0 {
				path = args[0]
			}
			if err := times(time.Now()); err != nil {
				return err
			}
			if !against {
				if filter != (review.Filter{}) {
					return exit.Usagef("--source, --type, --since, --until, --from-seq and --to-seq belong to --against-stream")
				}
				return operator.CheckConfig(s, path)
			}
			return operator.CheckAgainstStream(cmd.Context(), s, path, filter)
		},
	}
	check.Flags().BoolVar(&against, "against-stream", false, "compare what the rules say with what is stored")
	times = streamFlags(check, &filter)
	return group("config", "Check a configuration", check)
}

// streamFlags gives a command the flags that select stored events; times reads
// those of them that are times.
func streamFlags(cmd *cobra.Command, filter *review.Filter) (times func(now time.Time) error) {
	var since, until string
	flags := cmd.Flags()
	flags.StringVar(&filter.Source, "source", "", "only events of this `SOURCE`")
	flags.StringVar(&filter.Type, "type", "", "only events of this `TYPE`; a prefix ends in *")
	flags.StringVar(&since, "since", "", "only what was stored since `TIME`: 2024-05-01T10:00:00Z, 2024-05-01, or how long ago, as in 24h")
	flags.StringVar(&until, "until", "", "only what was stored until `TIME`")
	flags.Uint64Var(&filter.From, "from-seq", 0, "begin with message `N`")
	flags.Uint64Var(&filter.To, "to-seq", 0, "end with message `N`")
	return func(now time.Time) (err error) {
		if filter.Since, err = operator.ParseSince(since, now); err != nil {
			return err
		}
		if filter.To != 0 && filter.To < filter.From {
			return exit.Usagef("--to-seq %d is before --from-seq %d", filter.To, filter.From)
		}
		filter.Until, err = operator.ParseUntil(until, now)
		return err
	}
}
