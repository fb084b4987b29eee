package operator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// Audit accounts for every message and every cent and prints the report. It
// returns an error with exit.Found where something is wrong.
func Audit(ctx context.Context, s *Session, grace time.Duration) error {
	cat, err := s.Catalog()
	if err != nil {
		return fmt.Errorf("%w\nthe audit needs the rules: they tell a resend with the same meaning from a conflict", err)
	}
	pool, err := s.Database(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := s.Stream(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	report, err := audit.Run(ctx, audit.Options{JS: conn.JS, Pool: pool, Meaning: audit.Meaning(cat), Grace: grace})
	if err != nil {
		return err
	}
	if s.JSON {
		err = s.object(report)
	} else {
		err = report.WriteTable(s.Out)
	}
	if err == nil && !report.Clean {
		err = exit.With(exit.Found, fmt.Errorf("the audit found %s", report.Verdict()))
	}
	return err
}

// AcknowledgeGone takes note of messages that are gone, so that audits are clean
// again unless more goes. The note is required.
func AcknowledgeGone(ctx context.Context, s *Session, actor, note string) error {
	if strings.TrimSpace(note) == "" {
		return exit.Usagef("an acknowledgement needs --note: what was done about it?")
	}
	pool, conn, err := s.both(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer conn.Close()
	events, err := conn.JS.Stream(ctx, stream.Events)
	if err != nil {
		return noStream(err)
	}
	done, err := audit.Acknowledge(ctx, pool, events.CachedInfo().Created, dedupe.Action{Actor: cmp.Or(actor, userName(s.Env)), Note: note})
	switch {
	case err != nil:
		return err
	case s.JSON:
		return s.object(done)
	case done.None():
		fmt.Fprintln(s.Out, "nothing is gone that was not acknowledged")
		return nil
	}
	fmt.Fprintf(s.Out, "acknowledged: %s gone, %s of earlier streams undecided, %s lost", count(done.Messages, "message"),
		count(done.Undecided, "message"), count(done.Streams, "earlier stream"))
	if done.Restored {
		fmt.Fprint(s.Out, ", and a restore from an older copy")
	}
	fmt.Fprintln(s.Out)
	return nil
}
