package rig

import (
	"context"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/traffic"
	"github.com/onceledger/onceledger/internal/local"
)

// theirs is a contender: one process that does what is asked of it.
type theirs struct{ contender.Contender }

// Name implements System.
func (t theirs) Name() string { return t.Contender.Name }

// Queue implements System.
func (t theirs) Queue() bool { return t.Contender.Queue }

// Batches implements System.
func (t theirs) Batches() bool { return false }

// Prepare implements System.
func (t theirs) Prepare(ctx context.Context, r *Rig) error {
	return t.Contender.Prepare(ctx, r.Catalog.Config)
}

// Fill implements System.
func (t theirs) Fill(ctx context.Context, r *Rig, charges *traffic.Charges, numbers []int) error {
	bodies := make([][]byte, len(numbers))
	for i, n := range numbers {
		bodies[i] = charges.Append(nil, n)
	}
	return t.Contender.Fill(ctx, r.Catalog.Config, bodies)
}

// Watch implements System.
func (t theirs) Watch(ctx context.Context, r *Rig) (contender.Left, func(), error) {
	return t.Contender.Watch(ctx, r.Catalog.Config)
}

// Recount implements System.
func (t theirs) Recount(ctx context.Context, r *Rig) (contender.Books, error) {
	return contender.Recount(ctx, r.Catalog.Config)
}

// Start implements System.
func (t theirs) Start(ctx context.Context, r *Rig, parts contender.Parts) (*Running, error) {
	listen, err := local.Chosen(anyPort)
	if err != nil {
		return nil, err
	}
	base := "http://" + listen
	p, err := r.run(ctx, t.Name(), role{Contender: t.Name(), Parts: parts}, []string{"RECEIVER_LISTEN=" + listen},
		func(ctx context.Context) error { return probe(ctx, base+"/readyz") })
	if err != nil {
		return nil, err
	}
	running := &Running{Programs: map[string]*Program{"contender": p}}
	if parts.Serve {
		running.URL = base + "/webhooks/" + Source
	}
	return running, nil
}
