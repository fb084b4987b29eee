package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/onceledger/onceledger/internal/operator"
)

func newReplay(s *operator.Session) *cobra.Command {
	var r operator.Replay
	var since string
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send again what the database does not know, after a restore of Postgres",
		Long: `Reads the messages of EVENTS in their order, from a sequence or a time on, and
sends those again that were answered and that the database does not know, or
knows only as undecided with nothing left to decide them: as after a restore of
Postgres from a backup that is older than the stream. The worker that keeps
house does the same by itself; this is for doing it at once, and for seeing it.

Copies have the original bytes and headers. What was applied is done, what a
worker has still to be given or to answer waits: neither is sent. Money cannot
move twice: a copy of an event that was applied meanwhile is a duplicate. The
sweep and a replay do not send the same again while a copy is on its way, nor
does a second replay. A message that holds no event is parked.

What would be done is counted first, and asked for at a terminal; elsewhere
--yes is needed. --dry-run only counts. It may be stopped and repeated at any
time. Who replays what, and why, is recorded before anything is sent. With
--json, one object a message: sent, parked, elsewhere (decided, or sent by
another, meanwhile), refused (nothing has its bytes), or failed.

It needs the configuration: the rules tell a resend with the same meaning from
a conflict. What left the stream before it was replayed can only be sent again
by its provider.`,
		Example: `  onceledger replay --since 2024-05-01T03:00:00Z --dry-run
  onceledger replay --from-seq 1 --note "restored the backup of 03:00"
  onceledger replay --since 6h --source stripe --rate 200 --yes --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if r.Since, err = operator.ParseSince(since, time.Now()); err != nil {
				return err
			}
			return operator.ReplayMessages(cmd.Context(), s, r)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&r.FromSeq, "from-seq", 0, "begin with message `N`; 1 for all that the stream has")
	flags.StringVar(&since, "since", "", "begin with what was stored since `TIME`: 2024-05-01T10:00:00Z, 2024-05-01, or how long ago, as in 24h")
	flags.Uint64Var(&r.ToSeq, "to-seq", 0, "end with message `N` (default: the last one when it begins)")
	flags.StringVar(&r.Source, "source", "", "only messages of this `SOURCE`")
	flags.BoolVar(&r.DryRun, "dry-run", false, "only count what would be done")
	flags.BoolVarP(&r.Yes, "yes", "y", false, "do not ask")
	flags.IntVar(&r.Rate, "rate", operator.DefaultRate, "at most `N` messages a second")
	flags.StringVar(&r.Actor, "actor", "", "`NAME` of who does it (default: the user of this machine)")
	flags.StringVar(&r.Note, "note", "", "`TEXT` that says why, for the record")
	return cmd
}
