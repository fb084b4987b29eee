package worker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// streakLength is how many different events must fail alone, in a row, with
// one unclassified error before the database is blamed instead of them.
const streakLength = 10

// streak counts different events that fail alone with one error.
type streak struct {
	mu   sync.Mutex
	code string
	keys map[dedupe.Key]bool
}

// add reports whether the failure of key completes a streak.
func (s *streak) add(key dedupe.Key, cause error) bool {
	var pg *pgconn.PgError
	code := "unknown"
	if errors.As(cause, &pg) {
		code = pg.Code + " " + pg.ConstraintName
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || s.code != code {
		s.code, s.keys = code, map[dedupe.Key]bool{}
	}
	s.keys[key] = true
	return len(s.keys) >= streakLength
}

// reset ends a streak: an event was posted.
func (s *streak) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = nil
}

// errUnclassified hides the SQLSTATE from the verdict: it is the database that
// is blamed now, not an event.
func errUnclassified(cause error) error {
	return fmt.Errorf("unclassified: %s", cause.Error())
}
