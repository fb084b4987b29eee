package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/onceledger/onceledger/internal/letters"
)

// ListLetters prints the dead letters that q selects and that are not stale,
// oldest first, as they are read.
func ListLetters(ctx context.Context, s *Session, q LetterQuery) error {
	filter, err := q.filter(time.Now())
	if err != nil {
		return err
	}
	table := newTable(s.Out, "DLQ SEQ", "PARKED", "REASON", "SOURCE", "EVENT", "TYPE", "ATTEMPTS", "REDRIVES", "ERROR")
	n := 0
	err = s.letterStore(ctx, q.Source, func(store letters.Store) error {
		return store.Each(ctx, filter, func(page []letters.Lying) error {
			for _, l := range page {
				if l.Standing == letters.Stale {
					continue
				}
				n++
				if err := s.listLetter(table, letterOf(l)); err != nil {
					return err
				}
			}
			if s.JSON || n == 0 {
				return nil
			}
			return table.flush()
		})
	})
	if err == nil && n == 0 && !s.JSON {
		fmt.Fprintln(s.Out, "no dead letters")
	}
	return err
}

func (s *Session) listLetter(table *table, l Letter) error {
	if s.JSON {
		return s.object(l)
	}
	table.row(fmt.Sprint(l.Seq), when(l.Parked), l.Reason, l.Source, l.EventID, l.Type,
		fmt.Sprint(l.Attempts), fmt.Sprint(l.Redrives), cut(l.remark()+l.Error))
	return nil
}

// remark says what is particular about a letter that is not plainly parked.
func (l *Letter) remark() string {
	switch letters.Standing(l.Standing) {
	case letters.Redriven:
		return "(sent again, waits for a worker) "
	case letters.Deciding:
		return "(sent again, a worker is at it) "
	case letters.Orphaned:
		return "(no event has this id) "
	}
	return ""
}
