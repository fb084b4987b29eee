package integration

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
)

func TestPostgresShutDownUnderLoad(t *testing.T) {
	t.Parallel()
	testOutage(t, func(ctx context.Context, postgres *devstack.Service) error { return postgres.Stop(ctx) })
}

func TestPostgresKilledUnderLoad(t *testing.T) {
	t.Parallel()
	testOutage(t, func(_ context.Context, postgres *devstack.Service) error { return postgres.Kill() })
}

// testOutage takes Postgres away for ten seconds while events arrive: that is
// nobody's fault, so it costs no event an attempt.
func testOutage(t *testing.T, down func(context.Context, *devstack.Service) error) {
	const outage = 10 * time.Second
	s := newSystem(t, base, devstack.Postgres)
	receiver, workers := s.receiver(), []*program{s.worker(), s.worker()}
	flood := s.flood(5*time.Millisecond, numbered, receiver)
	s.eventually("events are applied", func() bool { return s.transfers() >= 200 })

	// On a crowded machine Postgres may be slow before and afterwards, too: then there
	// are outages besides, each with two lines of its own.
	open := func(w *program) int { return s.logged(w, "postgres is unavailable") - s.logged(w, "postgres is back") }
	require.NoError(t, down(t.Context(), s.stack.Postgres))
	taken := flood.count(http.StatusOK)
	s.pass(outage)
	s.eventually("events are taken meanwhile", func() bool { return flood.count(http.StatusOK) >= taken+200 })
	for _, w := range workers {
		require.Error(t, probe(t.Context(), w.admin), "a worker without its database is not ready")
		s.eventually(w.name+" says that it is away", func() bool { return open(w) > 0 })
		require.Equal(t, 1, open(w), "%s says so once", w.name)
	}
	s.isReady(receiver) // it does not need it
	require.NoError(t, s.stack.Postgres.Start(t.Context()))

	reached := s.transfers() + 200
	s.eventually("events are applied again", func() bool { return s.transfers() >= reached })
	want := newBook()
	for _, a := range s.accepted(flood, receiver) {
		a.postTo(want)
	}
	s.verify(want)
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0 OR redrives > 0`), "no attempt is spent")
	require.Empty(t, s.letters())
	for _, w := range workers {
		s.eventually(w.name+" says that it is back", func() bool { return open(w) == 0 }) // in its own time
		s.isReady(w)
	}
}

func TestHungPostgresDelaysNoAck(t *testing.T) { // case 13
	t.Parallel()
	const hang = 14 * time.Second // longer than a worker waits for a transaction
	s := newSystem(t, base, devstack.Postgres)
	receiver := s.receiver()
	s.worker()
	s.ack(receiver, numbered(0))
	s.eventually("it is applied", func() bool { return s.transfers() == 1 })

	require.NoError(t, s.stack.Postgres.Pause())
	flood := s.flood(100*time.Millisecond, func(i int) delivery { return numbered(i + 1) }, receiver)
	s.pass(hang)
	s.eventually("events are taken meanwhile", func() bool { return flood.count(http.StatusOK) >= 50 })
	attempts := s.accepted(flood, receiver)
	require.NoError(t, s.stack.Postgres.Resume())

	want := newBook()
	numbered(0).postTo(want)
	for _, a := range attempts {
		require.Less(t, a.took, hang/2)
		a.postTo(want)
	}
	s.verify(want)
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
	require.Empty(t, s.letters())
}

// numbered is the i-th payment of a flood.
func numbered(i int) delivery {
	return payment(fmt.Sprintf("evt_%d", i), "bank", fmt.Sprintf("wallet:%d", i%20), int64(i+1))
}

// postTo writes into the book what a numbered payment asks for.
func (d delivery) postTo(b *book) {
	var i int
	if _, err := fmt.Sscanf(d.id, "evt_%d", &i); err != nil {
		panic(err)
	}
	b.post("bank", fmt.Sprintf("wallet:%d", i%20), int64(i+1))
}
