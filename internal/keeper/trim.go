package keeper

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

const (
	// trimAbove is the share of EVENTS' limit from which room is made, down to
	// trimTo; alertAbove the share that a person is told of.
	trimAbove, trimTo = 0.60, 0.50
	alertAbove        = 0.80
)

// trim looks how full EVENTS is and how old its backlog, and removes what is
// accounted for and may go.
func (k *keeper) trim(ctx context.Context, p *audit.Progress) error {
	events, err := k.JS.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	info := events.CachedInfo()
	if err := k.watchBacklog(ctx, p, info); err != nil {
		return err
	}
	created := stream.Incarnation(info.Created)
	if !created.Equal(p.Stream.Created) {
		return nil // another stream than the one that was audited
	}
	ratio := 0.0
	if info.Config.MaxBytes > 0 {
		ratio = float64(info.State.Bytes) / float64(info.Config.MaxBytes)
	}
	k.watchFilling(ratio, info)
	if ratio < trimAbove && k.Config.Trim != "age" || info.State.Msgs == 0 {
		return nil
	}
	free, err := k.free(ctx, p, info, created)
	if err != nil {
		return err
	}
	upTo, err := k.trimmable(ctx, info, ratio, free)
	if err != nil || upTo < info.State.FirstSeq {
		return err
	}
	return k.purge(ctx, events, info.State, upTo)
}

// free returns the last message that nothing open needs: everything up to it is
// answered and accounted for, no undecided event names one of them, and every
// letter that might have to be stored again from one is there.
func (k *keeper) free(ctx context.Context, p *audit.Progress, info *jetstream.StreamInfo, created time.Time) (uint64, error) {
	free := min(p.Accounted, p.Stream.AckFloor)
	needed, err := dedupe.OldestNeeded(ctx, k.Pool, dedupe.Position{StreamCreated: created, Seq: info.State.FirstSeq})
	if err != nil {
		return 0, err
	}
	limit := func(seq uint64) {
		if seq != 0 {
			free = min(free, seq-1)
		}
	}
	limit(needed)
	limit(p.FirstOpen)
	for _, row := range p.Unlettered {
		if row.StreamCreated.Equal(created) && row.Seq >= info.State.FirstSeq {
			limit(row.Seq)
		}
	}
	return free, nil
}

// trimmable returns the last message to remove: those older than the span that
// is kept, and where that does not make enough room, as many more as it takes.
func (k *keeper) trimmable(ctx context.Context, info *jetstream.StreamInfo, ratio float64, free uint64) (uint64, error) {
	young, err := stream.FirstSince(ctx, k.JS, info.TimeStamp.Add(-k.Config.Keep))
	if err != nil {
		return 0, err
	}
	upTo := info.State.LastSeq
	if young != nil {
		upTo = young.Seq - 1
	}
	if ratio >= trimAbove {
		// Sequences have few gaps and messages about one size; what is left over
		// goes in the next round.
		share := 1 - trimTo/ratio
		enough := info.State.FirstSeq + uint64(share*float64(info.State.LastSeq-info.State.FirstSeq+1))
		upTo = max(upTo, enough)
	}
	return min(upTo, free), nil
}

// purge removes everything up to a message. It is recorded first: a record
// without its purge is repeated, a purge without its record is not explained.
func (k *keeper) purge(ctx context.Context, events jetstream.Stream, state jetstream.StreamState, upTo uint64) error {
	action := dedupe.Action{
		Actor: actor, Verb: dedupe.VerbTrim, Note: "accounted for",
		Detail: map[string]any{"stream": stream.Events, "first_seq": state.FirstSeq, "last_seq": upTo, "bytes_before": state.Bytes},
	}
	err := pgx.BeginFunc(ctx, k.Pool, func(tx pgx.Tx) error { return dedupe.Record(ctx, tx, action, nil) })
	if err != nil {
		return err
	}
	if err := events.Purge(ctx, jetstream.WithPurgeSequence(upTo+1)); err != nil {
		return fmt.Errorf("purge %s up to %d: %w", stream.Events, upTo, err)
	}
	k.metrics.trimmed.Add(float64(upTo - state.FirstSeq + 1))
	k.Log.Info().Uint64("first_sequence", state.FirstSeq).Uint64(telemetry.KeySequence, upTo).Uint64(telemetry.KeyBytes, state.Bytes).
		Msg("messages that are accounted for were removed from " + stream.Events)
	return nil
}

func (k *keeper) watchFilling(ratio float64, info *jetstream.StreamInfo) {
	if ratio >= alertAbove {
		k.filling.begin(k.Log.Error().Uint64(telemetry.KeyBytes, info.State.Bytes).Float64("filled", ratio),
			stream.Events+" is filling: nothing more of it is accounted for that could be removed; full, it refuses deliveries")
	} else {
		k.filling.end(k.Log.Info().Float64("filled", ratio), stream.Events+" has room again")
	}
	// Who sees a gauge change finds the line.
	k.metrics.set("events_fill_ratio", ratio)
	k.metrics.set("alert_events_filling", flag(ratio >= alertAbove))
}

// watchBacklog looks how old the oldest message is that nobody has answered.
func (k *keeper) watchBacklog(ctx context.Context, p *audit.Progress, info *jetstream.StreamInfo) error {
	age := time.Duration(0)
	if p.Stream.AckFloor < info.State.LastSeq {
		oldest, err := stream.FirstFrom(ctx, k.JS, p.Stream.AckFloor+1)
		if err != nil {
			return err
		}
		if oldest != nil {
			age = max(0, info.TimeStamp.Sub(oldest.Time))
		}
	}
	old := age > k.Config.BacklogAlert
	if old {
		k.backlog.begin(k.Log.Error().Dur("age", age).Uint64("answered", p.Stream.AckFloor), "a message has waited too long for its decision")
	} else {
		k.backlog.end(k.Log.Info(), "no message waits too long any more")
	}
	k.metrics.set("backlog_age_seconds", age.Seconds())
	k.metrics.set("alert_backlog_age", flag(old)) // last: who sees it change finds the others
	return nil
}
