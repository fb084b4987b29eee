package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/exit"
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
