package operator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/resend"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// Replay says which messages of EVENTS to look at, and how to send those again
// that the database does not know.
type Replay struct {
	// FromSeq is the first message, or Since when it was stored; one of them.
	FromSeq uint64
	Since   time.Time
	// ToSeq is the last message; 0 is the last one of the stream.
	ToSeq uint64
	// Source selects one source's messages; empty selects all.
	Source string
	// Actor is who does it, default the user of this machine; Note is why.
	Actor, Note string
	// DryRun only previews. Yes asks nothing. Rate is the most messages a second.
	DryRun, Yes bool
	Rate        int
	// Grace is how old a message without an outcome must be; 0 is the audit's.
	Grace time.Duration
}

// ReplayMessages sends the messages of a range again that the database does not
// know, or knows only as undecided with nothing left to decide them.
func ReplayMessages(ctx context.Context, s *Session, r Replay) error {
	if err := r.check(); err != nil {
		return err
	}
	cat, err := s.Catalog()
	if err != nil {
		return fmt.Errorf("%w\na replay needs the rules: they tell a resend with the same meaning from a conflict", err)
	}
	pool, conn, err := s.both(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer conn.Close()
	if err := checkSource(ctx, r.Source, cat.Config.Sources, pool, conn.JS); err != nil {
		return err
	}
	grace := cmp.Or(r.Grace, audit.DefaultGrace)
	survey, err := audit.NewSurvey(ctx, audit.Options{JS: conn.JS, Pool: pool, Meaning: audit.Meaning(cat), Grace: grace})
	if err != nil {
		return noStream(err)
	}
	events, err := conn.JS.Stream(ctx, stream.Events)
	if err != nil {
		return err
	}
	replay := &resend.Replay{
		Sender: &resend.Sender{
			Pool: pool, JS: conn.JS, Events: events, Stream: survey.Stream(), Actor: cmp.Or(r.Actor, userName(s.Env)), Verb: dedupe.VerbReplay,
		},
		Survey: survey, Source: r.Source, Grace: grace, Note: r.Note,
	}
	return s.replay(ctx, r, replay)
}

// replay previews, asks, records, and sends page after page.
func (s *Session) replay(ctx context.Context, r Replay, replay *resend.Replay) error {
	preview, err := r.preview(ctx, s, replay)
	if err != nil {
		return err
	}
	if err := s.showReplay(preview, r.DryRun); err != nil || r.DryRun || preview.total() == 0 {
		return err
	}
	if !r.Yes {
		if err := s.confirm(ctx, fmt.Sprintf("replay %s?", count(preview.total(), "message"))); err != nil {
			return err
		}
	}
	if err := r.record(ctx, replay, preview); err != nil {
		return err
	}
	run := newReplayRun(s, r, replay, preview.total())
	err = replay.Each(ctx, func(page []resend.Planned) error {
		for _, p := range page {
			if p.Plan != resend.Send && p.Plan != resend.Park {
				continue
			}
			if err := run.add(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = run.flush(ctx)
	}
	return run.end(err)
}

// check reads the arguments.
func (r Replay) check() error {
	switch {
	case r.FromSeq != 0 && !r.Since.IsZero():
		return exit.Usagef("give --from-seq or --since, not both")
	case r.FromSeq == 0 && r.Since.IsZero():
		return exit.Usagef("say where to begin: --from-seq 1 for all that the stream has, or --since with the time of the backup")
	case r.ToSeq != 0 && r.ToSeq < r.FromSeq:
		return exit.Usagef("--to-seq %d is before --from-seq %d", r.ToSeq, r.FromSeq)
	case r.Rate < 1 || r.Rate > MaxRate:
		return exit.Usagef("--rate must be from 1 to %d messages a second", MaxRate)
	}
	return nil
}

// begin finds the first message of the range, and how many before it the stream
// has no more that were asked for.
func (r Replay) begin(ctx context.Context, replay *resend.Replay) (from, gone uint64, err error) {
	first := max(replay.Stream.First, 1)
	if r.FromSeq != 0 {
		return max(r.FromSeq, first), max(r.FromSeq, first) - r.FromSeq, nil
	}
	msg, err := stream.FirstSince(ctx, replay.JS, r.Since)
	if err != nil {
		return 0, 0, err
	}
	if msg == nil {
		return replay.Stream.Last + 1, 0, nil
	}
	if msg.Seq == first {
		gone = first - 1 // when those were stored, nobody knows any more
	}
	return msg.Seq, gone, nil
}

// record writes what is about to be done, once, before anything is.
func (r Replay) record(ctx context.Context, replay *resend.Replay, p *ReplayPreview) error {
	detail := struct {
		From   uint64 `json:"from_seq"`
		To     uint64 `json:"to_seq"`
		Source string `json:"source,omitempty"`
		resend.Detail
	}{p.From, p.To, r.Source, p.detail}
	action := dedupe.Action{Actor: replay.Actor, Verb: dedupe.VerbReplay, Note: r.Note, Detail: detail}
	return pgx.BeginFunc(ctx, replay.Pool, func(tx pgx.Tx) error { return dedupe.Record(ctx, tx, action, nil) })
}
