// Package traffic writes what providers send in a torture run, and says what
// must be true of the ledger once all of it is applied. It is the independent
// model: it shares no code with onceledger, signs by itself, and knows accounts
// and amounts from what it wrote, never from rules.
//
//	stream := traffic.New(seed, rate)
//	d, ok := stream.Next()          // the next delivery
//	stream.Finish()                 // no more events; Next ends with what is owed
//	stream.Events                   // what each event means
package traffic

import "fmt"

// Sources by the names that the configuration gives them.
const (
	Stripe = "stripe"
	Orders = "orders"
)

// Fate is what must become of an event.
type Fate int

// The fates.
const (
	Applied Fate = iota
	Ignored
	// TestMode is ignored, and its key says so.
	TestMode
	// Refused is parked with the event's Reason.
	Refused
	// Spend is applied while its purse lasts, and else refused with Reason: any
	// of a purse's spends, but only so many.
	Spend
)

// Move is money that goes from one account to another, in minor units.
type Move struct {
	Debit, Credit, Asset string
	Amount               int64
}

// Content is one form of an event: what is sent, and the money it moves.
type Content struct {
	JSON  object
	Raw   []byte // instead of JSON
	Moves []Move
}

// Event is a business event, under the key by which onceledger knows it.
type Event struct {
	Source, ID string
	// Contents has two where two bodies arrive under one id; either may stand.
	Contents []Content
	Fate     Fate
	Reason   string
	// Twin reports the same payment under another id; nil for most.
	Twin *Event
	// Purse is what a Spend is paid from.
	Purse *Purse
	// Keyless is an event without a readable id: each delivery stored stands for
	// itself.
	Keyless bool
	// Forged is refused with 401 and stored nowhere.
	Forged bool
	// Deadly kills the worker that judges it while the fault is armed.
	Deadly bool
}

// String names the event in findings.
func (e *Event) String() string { return fmt.Sprintf("%s of %s", e.ID, e.Source) }

// Purse is an account whose limit is enforced: it has room for so many spends.
type Purse struct {
	Name   string
	Room   int
	Spends []*Event
}

// Delivery is one webhook: which content of which event, in which of its
// equivalent forms.
type Delivery struct {
	Event   *Event
	Content int
	Form    int
	// Impatient senders give up after a moment and send again.
	Impatient bool
}

// Body returns the bytes of the delivery.
func (d Delivery) Body() []byte {
	c := d.Event.Contents[d.Content]
	if c.Raw != nil {
		return c.Raw
	}
	return c.JSON.form(d.Form)
}
