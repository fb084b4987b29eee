package rules

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

var errNoMode = errors.New("the event does not say whether it is live or test")

// refusal is an error that knows its reason; it survives the way through CEL.
type refusal struct {
	reason dlq.Reason
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(reason dlq.Reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Errorf(format, args...)}
}

// value is r as the result of a CEL function.
func (r *refusal) value() ref.Val { return types.WrapErr(r) }

// amountRefusal gives an error of pkg/ledger its reason.
func amountRefusal(err error) *refusal {
	for _, known := range []struct {
		err    error
		reason dlq.Reason
	}{
		{ledger.ErrAmountPrecision, dlq.AmountPrecision},
		{ledger.ErrAmountOverflow, dlq.AmountOverflow},
		{ledger.ErrCurrencyUnknown, dlq.CurrencyUnknown},
	} {
		if errors.Is(err, known.err) {
			return &refusal{known.reason, err}
		}
	}
	return &refusal{dlq.AmountFormat, err}
}

// errFault says what the receiver met: the reason alone, or, where it is the
// body, what is wrong with it.
func (s *Set) errFault(reason dlq.Reason, ev *envelope.Event) error {
	if reason == dlq.BadJSON || reason == dlq.AmbiguousJSON {
		if _, err := s.read(ev); err != nil {
			return err
		}
	}
	return fmt.Errorf("the receiver found no way to read the delivery: %s", reason)
}

func errPanic(r any) error { return fmt.Errorf("evaluate rules: panic: %v", r) }
