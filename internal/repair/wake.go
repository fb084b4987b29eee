package repair

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/resend"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// wake sends events again that waited for what a correction has posted, as a worker
// tries them behind its own commit. The correction stands whatever becomes of that:
// they also come by themselves, once their delay is over.
func (r Repairer) wake(ctx context.Context, done *Done, a dedupe.Action, o Options) {
	if o.DryRun || len(done.Posted) == 0 {
		return
	}
	var waiting []int64
	var look pgx.Batch
	ledger.Arrived(&look, []*ledger.Posting{{Posted: done.Posted}}, func(events []int64) { waiting = events })
	if err := r.Pool.SendBatch(ctx, &look).Close(); err != nil || len(waiting) == 0 {
		return
	}
	rows, err := dedupe.Numbered(ctx, r.Pool, waiting)
	if err != nil {
		return
	}
	events, err := r.JS.Stream(ctx, stream.Events)
	if err != nil {
		return
	}
	sender := &resend.Sender{Pool: r.Pool, JS: r.JS, Events: events, Actor: a.Actor, Verb: dedupe.VerbRedrive}
	sender.Stream.Created = stream.Incarnation(events.CachedInfo().Created)
	letters := &resend.Letters{JS: r.JS}
	note := fmt.Sprintf("what it waited for was posted by the correction of event %s", done.Row.ID)
	for _, row := range rows {
		if row.State == dedupe.Pending && row.Reason == string(dlq.MissingParent) {
			_, _ = sender.Undecided(ctx, row, nil, letters, note) // somebody may have been faster
		}
	}
}
