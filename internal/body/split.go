package body

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// MaxItems is how many events one body may hold. GoCardless sends up to 250;
// SendGrid up to 768 KB, some 2,500 of its events.
const MaxItems = 5000

// Item is one event of a batch.
type Item struct {
	// Data is the bytes that spell it, a part of the batch's own.
	Data []byte
	// Err wraps ErrSyntax if the item is no object; nil otherwise, which does not
	// say that its own names are not repeated: whoever reads it finds that.
	Err error
}

// Split returns the items of the JSON array at path, in their order, as the
// bytes of data that spell them; nothing is written anew. An empty path is the
// document itself (SendGrid, HubSpot); "events" is GoCardless, "notificationItems"
// Adyen, whose items stand without the members around the array: what is known
// from those (Adyen's live) has to be read from the whole body.
//
// What is wrong with one item is its own fault. What leaves in doubt where items
// begin or end, a syntax error anywhere or a repeated name on the way to the
// array, is the body's: it then stays one message. Errors wrap ErrLimit (more
// than MaxItems), ErrSyntax, or jsondoc's.
func Split(data []byte, path ...string) ([]Item, error) {
	elements, err := jsondoc.Elements(data, MaxItems, path...)
	switch {
	case errors.Is(err, jsondoc.ErrMany):
		return nil, fmt.Errorf("split batch: %w: %w", ErrLimit, err)
	case err != nil:
		return nil, fmt.Errorf("split batch: %w", err)
	}
	items := make([]Item, len(elements))
	for i, element := range elements {
		items[i].Data = element
		if !bytes.HasPrefix(element, []byte("{")) {
			items[i].Err = fmt.Errorf("%w: item %d of the batch is no object: %s", ErrSyntax, i, clip(element))
		}
	}
	return items, nil
}
