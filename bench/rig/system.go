package rig

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/traffic"
	"github.com/onceledger/onceledger/internal/worker"
)

// anyPort is far from those that others search from.
const anyPort = "127.0.0.1:0"

// The names under which onceledger itself is compared.
const (
	Ours         = "onceledger"
	OursOneByOne = "onceledger, one by one"
)

// System is one way to make debits of webhooks, so that whoever measures treats
// all of them alike. Reset goes before Prepare, and Prepare before the rest.
type System interface {
	// Name is for tables.
	Name() string
	// Queue says that it answers before it posts, and can have a backlog.
	Queue() bool
	// Batches says that it posts many events in a transaction.
	Batches() bool
	// Prepare makes what it needs in the services.
	Prepare(ctx context.Context, r *Rig) error
	// Fill stores the charges of the given numbers as if they had been received.
	Fill(ctx context.Context, r *Rig, charges *traffic.Charges, numbers []int) error
	// Start starts its programs and returns when they are ready.
	Start(ctx context.Context, r *Rig, parts contender.Parts) (*Running, error)
	// Watch counts the deliveries that were stored and are not done with, until
	// stop is called.
	Watch(ctx context.Context, r *Rig) (left contender.Left, stop func(), err error)
	// Recount reads its ledger.
	Recount(ctx context.Context, r *Rig) (contender.Books, error)
}

// Systems returns onceledger, the same without its two ideas, and all contenders.
func Systems() []System {
	systems := []System{
		ours{name: Ours, publishing: GroupCommit},
		ours{name: OursOneByOne, publishing: OneByOne, tuning: worker.Tuning{Batch: 1}},
	}
	for _, c := range contender.All() {
		systems = append(systems, theirs{c})
	}
	return systems
}

// Running are the programs of a System.
type Running struct {
	// URL takes webhooks, where that was asked for.
	URL string
	// Programs are for Meter, by a name for tables.
	Programs map[string]*Program
}

// Stop ends them in the order of what they do, and lets each finish.
func (r *Running) Stop(ctx context.Context) error {
	var errs []error
	for _, name := range []string{"receiver", "worker", "contender"} {
		if p, ok := r.Programs[name]; ok {
			errs = append(errs, p.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// Ended reports a program that is not there any more.
func (r *Running) Ended() error {
	for name, p := range r.Programs {
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended by itself", name)
		default:
		}
	}
	return nil
}
