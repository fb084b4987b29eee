package operator

import (
	"cmp"
	"context"
	"time"

	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// DifferingEvent is an event that the rules of a configuration would treat in
// another way than it was. Its JSON names are part of the public interface.
type DifferingEvent struct {
	// Kind is one of review's: would_post, would_post_differently, would_ignore,
	// would_park, would_apply or would_ignore_parked.
	Kind    string    `json:"kind"`
	Seq     uint64    `json:"seq"`
	Stored  time.Time `json:"stored_at"`
	Source  string    `json:"source"`
	EventID string    `json:"event_id"`
	Type    string    `json:"type"`
	Number  int64     `json:"event_no"`
	// State, Outcome and Reason are the event's, and Stands what it has posted.
	State   string     `json:"state"`
	Outcome string     `json:"outcome,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Stands  []Movement `json:"stands"`
	// Would is what the rules say: post, ignore or park.
	Would Would `json:"would"`
	// Uncorrectable is set where event correct refuses it: holds, and refunds with a
	// running total.
	Uncorrectable bool `json:"uncorrectable,omitempty"`
	// Refused is set where the ledger would refuse what Would says.
	Refused *Refused `json:"refused,omitempty"`
}

// Refused is why nothing would come of correcting an event, or of opening it again,
// as the books stand.
type Refused struct {
	// Reason is operation_conflict: Operation was posted otherwise by EventID of
	// Source; missing_parent: Operation is not posted; account_unknown or
	// account_closed: of Account in Asset. Of an event to be opened again it may be
	// duplicate_operation, too: EventID of Source has posted Operation.
	Reason    string `json:"reason"`
	Operation string `json:"operation,omitempty"`
	Source    string `json:"source,omitempty"`
	EventID   string `json:"event_id,omitempty"`
	Account   string `json:"account,omitempty"`
	Asset     string `json:"asset,omitempty"`
}

// Would is what rules say of an event.
type Would struct {
	Do string `json:"do"`
	// Reason and Error say why it would be parked, or ignored.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// Transfers are all that they ask for.
	Transfers []Movement `json:"transfers"`
}

// StreamCheck sums up a comparison with what is stored.
type StreamCheck struct {
	File string `json:"file"`
	// Messages of the range were selected, and Compared of their events were
	// compared, since the first of them was stored.
	Messages int        `json:"messages"`
	Compared int        `json:"compared"`
	First    uint64     `json:"first_seq"`
	Last     uint64     `json:"last_seq"`
	Since    *time.Time `json:"since,omitempty"`
	// Outside are applied events whose message has left the stream.
	Outside     int               `json:"outside"`
	Differences int               `json:"differences"`
	Groups      []DifferenceGroup `json:"groups"`
}

// DifferenceGroup counts the differences of one kind and source, those apart that
// event correct refuses, or the ledger for a reason.
type DifferenceGroup struct {
	Kind          string `json:"kind"`
	Source        string `json:"source"`
	Uncorrectable bool   `json:"uncorrectable,omitempty"`
	Refused       string `json:"refused,omitempty"`
	Events        int    `json:"events"`
}

// CheckAgainstStream compiles the configuration at path and prints each stored
// event that its rules would treat in another way than it was, with a sum at the
// end. It changes nothing. It returns an error with exit.Found where something
// differs.
func CheckAgainstStream(ctx context.Context, s *Session, path string, filter review.Filter) error {
	against := *s
	against.Config = cmp.Or(s.Config, path) // where the services are
	env, err := against.env()
	if err != nil {
		return err
	}
	cat, err := s.checked(path, env)
	if err != nil {
		return err
	}
	pool, conn, err := against.both(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer conn.Close()
	if err := checkSource(ctx, filter.Source, cat.Config.Sources, pool, conn.JS); err != nil {
		return err
	}
	assets, err := ledger.DeclaredAssets(ctx, pool)
	if err != nil {
		return err
	}
	c := newComparison(s, func(code string) int {
		asset, ok := cat.Assets.Lookup(code)
		if !ok {
			asset, _ = assets.Lookup(code)
		}
		return asset.Exponent
	})
	bar := s.progress("compare", 1)
	sum, err := review.Each(ctx, review.Options{
		JS: conn.JS, Pool: pool, Catalog: cat, Filter: filter,
		Progress: func(done, total uint64) {
			bar.ChangeMax64(int64(total))
			_ = bar.Set64(int64(done)) // a bar that cannot be drawn is no error
		},
	}, c.add)
	_ = bar.Finish() // as above
	if err != nil {
		return noStream(err)
	}
	return c.end(path, sum)
}
