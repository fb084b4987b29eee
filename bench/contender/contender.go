// Package contender holds what people would build in place of onceledger, each
// written as its makers or the usual tutorials advise and tuned for this work: a
// plain HTTP handler, River, Watermill, and a JetStream consumer with Redis.
//
// Each takes the very same signed webhooks, verifies them with the same code,
// answers 2xx once its own store has them, and posts the same transfers: an
// amount from one merchant account to one of many customers' accounts, whose
// limit is enforced. None of them stores the body, groups commits, or applies
// more than one event in a transaction.
//
//	c, ok := contender.Find(contender.River)
//	err := c.Prepare(ctx, cfg)           // tables, streams
//	err = c.Fill(ctx, cfg, bodies)       // a backlog
//	err = c.Run(ctx, cat, log, contender.Parts{Serve: true, Work: true})
//	left, stop, err := c.Watch(ctx, cfg)
//	books, err := contender.Recount(ctx, cfg)
package contender

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
)

// The contenders.
const (
	Naive     = "naive"
	River     = "River"
	Watermill = "Watermill"
	Tutorial  = "JetStream and SETNX"
)

// Parts says what of a contender a process does: take webhooks, post what was
// taken, or both.
type Parts struct{ Serve, Work bool }

// store makes a verified event durable; it may apply it at once.
type store func(ctx context.Context, c charge) error

// Left counts the deliveries that were stored and are not done with.
type Left func(ctx context.Context) (int, error)

// Contender is one of them.
type Contender struct {
	Name string
	// Queue says that it answers before it posts, and can have a backlog.
	Queue bool

	prepare func(ctx context.Context, cfg *config.Config) error
	fill    func(ctx context.Context, cfg *config.Config, charges []charge) error
	watch   func(ctx context.Context, cfg *config.Config) (left Left, stop func(), err error)
	// open starts the parts within group, which its context ends, and returns
	// how to store what is received.
	open func(ctx context.Context, group *errgroup.Group, cfg *config.Config, log zerolog.Logger, parts Parts) (store, error)
}

// All returns every contender.
func All() []Contender { return []Contender{naive, river, watermill, tutorial} }

// Find returns the contender of a name.
func Find(name string) (Contender, bool) {
	for _, c := range All() {
		if c.Name == name {
			return c, true
		}
	}
	return Contender{}, false
}

// Prepare makes its tables and streams in services that hold none of them.
func (c Contender) Prepare(ctx context.Context, cfg *config.Config) error {
	if err := createTables(ctx, cfg); err != nil {
		return err
	}
	if c.prepare == nil {
		return nil
	}
	return c.prepare(ctx, cfg)
}

// Fill stores the events of bodies as if they had just been received.
func (c Contender) Fill(ctx context.Context, cfg *config.Config, bodies [][]byte) error {
	if c.fill == nil {
		return fmt.Errorf("fill backlog: %s has none", c.Name)
	}
	charges := make([]charge, len(bodies))
	for i, body := range bodies {
		var err error
		if charges[i], err = readCharge(body); err != nil {
			return err
		}
	}
	return c.fill(ctx, cfg, charges)
}

// Watch connects to where a backlog would be, until stop is called.
func (c Contender) Watch(ctx context.Context, cfg *config.Config) (left Left, stop func(), err error) {
	if c.watch == nil {
		return func(context.Context) (int, error) { return 0, nil }, func() {}, nil
	}
	return c.watch(ctx, cfg)
}

// Run does what parts say until ctx ends, then finishes what is under way.
func (c Contender) Run(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger, parts Parts) error {
	// Serving ends first: what it stores still finds its connections.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, working := errgroup.WithContext(working)
	serving, stopServing := context.WithCancelCause(ctx)
	defer stopServing(nil)
	context.AfterFunc(working, func() { stopServing(context.Cause(working)) })
	store, err := c.open(working, group, cat.Config, log, parts)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	group.Go(func() error {
		defer stop()
		if !parts.Serve {
			store = nil
		}
		return serve(serving, cat, log, store)
	})
	return group.Wait()
}
