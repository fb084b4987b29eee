package operator

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/nats-io/nuid"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/provider"
)

// sampled is a test event before it is signed.
type sampled struct {
	id     string
	key    string // the id under which the receiver stores it
	body   []byte
	header http.Header
}

// event makes the event to send: a sample, or a file's bytes with a sample's
// headers. A sample without an id has a fresh one and happens now; one with an id
// is always the same, so that sending it again is a resend.
func (sending *Sending) event(in io.Reader, src *catalog.Source) (*sampled, error) {
	sample := sending.Sample
	if sample.ID == "" {
		sample.ID, sample.At = "evt_test_"+nuid.Next(), time.Now()
	}
	if sending.Body != "" {
		switch {
		case sample.Amount != "" || sample.Currency != "" || sample.Set != nil:
			return nil, exit.Usagef("--amount, --currency and --set change a sample; what --body names is sent as it is")
		case sample.Type != "" && !src.TypeInHeader():
			return nil, exit.Usagef("--type stands in the body of this provider's events; write it into %s", sending.Body)
		}
	}
	out := &sampled{id: sample.ID}
	var err error
	if out.body, out.header, err = src.Compose(sample); err != nil {
		return nil, unfit(err)
	}
	switch sending.Body {
	case "":
		return out, nil
	case "-":
		out.body, err = io.ReadAll(in)
	default:
		out.body, err = os.ReadFile(sending.Body)
	}
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return out, nil
}

// unfit says which flag asked for what the provider's sample cannot be, and what
// helps.
func unfit(err error) error {
	if errors.Is(err, provider.ErrNoPlace) {
		return exit.Usagef("--%w; name the member with --set PATH=VALUE", err)
	}
	return exit.Usagef("--%w", err)
}
