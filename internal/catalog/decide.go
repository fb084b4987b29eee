package catalog

import (
	"crypto/sha256"
	"fmt"

	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// Decide lets the rules of the event's source say what it is, and returns their
// version. An event of a source that the configuration does not have is parked
// as source_unknown; it means its bytes, so that two different ones are never
// taken for one. A hint that is looked up means its bytes, too, and is ignored:
// what it leads to are events of their own. An event that would move an account in an
// asset which its declaration does not name is parked as currency_mismatch.
func (c *Catalog) Decide(e *envelope.Event) (rules.Decision, int64) {
	source, ok := c.Sources[e.Source]
	if !ok {
		return rules.Decision{
			Parked: dlq.SourceUnknown, Err: fmt.Errorf("source %q is not in the configuration", e.Source), Fingerprint: sha256.Sum256(e.Data),
		}, 0
	}
	if e.Fault == string(dlq.NeedsFetch) && source.Fetch != nil {
		return rules.Decision{Ignored: dlq.Fetched, Fingerprint: sha256.Sum256(e.Data)}, 0
	}
	d := source.Rules.Decide(e)
	if err := c.checkTransfers(d.Transfers); err != nil {
		d.Transfers, d.Parked, d.Err = nil, dlq.CurrencyMismatch, err
	}
	return d, source.Rules.Version()
}
