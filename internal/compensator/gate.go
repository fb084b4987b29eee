package compensator

import (
	"math"
	"time"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// gate decides which parked events go. What it knows of a group is its last
// canary: one that waits holds the group back, one that was completed lets
// those go that were parked before it, and one that failed makes the next one
// wait longer.
type gate struct {
	canaries map[dedupe.Group]dedupe.Canary
	wait     time.Duration
	// sent are the groups that got a canary in this pass.
	sent map[dedupe.Group]bool
}

// going is an event that goes, with the detail of its action.
type going struct {
	row *dedupe.Row
	why dedupe.Compensation
}

// pass returns which of the rows go.
func (g *gate) pass(rows []*dedupe.Row) []going {
	var list []going
	for _, row := range rows {
		group := dedupe.Group{Source: row.Source, Reason: row.Reason}
		why := dedupe.Compensation{Source: row.Source, Reason: row.Reason, DLQSeq: row.DLQSeq}
		last, known := g.canaries[group]
		switch {
		case g.sent[group]:
			continue
		case known && last.State == dedupe.Completed && row.Decided.Before(last.At):
			// It was parked before the canary went: what mended that one mends it.
		case known && !g.next(last):
			continue
		default:
			why.Canary = true
			if known && last.State != dedupe.Completed {
				why.FailedBefore = last.FailedBefore + 1
			}
			g.sent[group] = true
		}
		list = append(list, going{row, why})
	}
	return list
}

// next reports whether a group may have another canary after last.
func (g *gate) next(last dedupe.Canary) bool {
	switch last.State {
	case dedupe.Completed:
		return true
	case dedupe.Pending, dedupe.Processing:
		return last.Ago >= canaryLimit
	}
	return last.Ago >= pause(g.wait, last.FailedBefore+1)
}

// pause is the wait after so many canaries that failed in a row.
func pause(first time.Duration, failed int) time.Duration {
	return time.Duration(min(float64(mostWait), float64(first)*math.Pow(4, float64(failed))))
}
