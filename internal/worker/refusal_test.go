package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// What a row and a letter say of a refusal is for people: events by their ids,
// operations by their parts, amounts as money.
func TestRefusalsAreForPeople(t *testing.T) {
	s := newSystem(t, shop)
	s.publish(payment("evt_paid", "p1", "bank", "wallet:1", 500))
	s.start()
	s.decided("evt_paid", dedupe.Completed)
	const said = "the operation stands with another content: shop/payment/p1: " +
		"event evt_paid of shop posted 5.00 EUR from bank to wallet:1, this one asks for 7.00 EUR from bank to wallet:1"

	// In a batch, and, since its second try is one, by itself.
	s.publish(payment("evt_other", "p1", "bank", "wallet:1", 700))
	s.parkedAs("evt_other", dlq.OperationConflict, said)
	s.publish(payment("evt_spent", "p2", "purse:1", "bank", 1250))
	row := s.decided("evt_spent", dedupe.Failed)
	require.Equal(t, 3, row.Attempts)
	require.Equal(t, "the account's limit refuses the transfer: account purse:1: "+
		"debits would be 12.50 EUR, with 0.00 EUR held, against credits of 0.00 EUR", row.Error)

	// What has another content than the event of its own id.
	s.publish(payment("evt_paid", "p1", "bank", "wallet:1", 800))
	s.eventually(func() bool { return len(s.letters()) == 3 }, "letters")
	require.Equal(t, said, s.letters()[0].Error)
	require.Equal(t, "another content stands under this id: that of message 1 of EVENTS", s.letters()[2].Error)
}
