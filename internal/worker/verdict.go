package worker

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// verdict is what is to be done about an error of the database. Domain packages
// say what went wrong; this table alone says what follows.
type verdict int

const (
	// again: the transaction lost a race or a wait; try the same batch again,
	// with jitter. Costs no attempt.
	again verdict = iota
	// blame: an event of the batch is at fault; find it by halving the batch.
	blame
	// unavailable: the database did not do its part, or nobody knows what
	// became of COMMIT; pause, give everything back. Costs no attempt.
	unavailable
)

// verdictOf judges an error by its SQLSTATE. Only data exceptions (class 22)
// and integrity violations (class 23) can be an event's fault; whatever is not
// known to be is the database's.
func verdictOf(err error) verdict {
	if errors.Is(err, ledger.ErrRace) {
		return again
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return unavailable // the network, a deadline, a lost COMMIT
	}
	switch pg.Code {
	case "22012", // division_by_zero: a locked row was not where it was, see ledger
		"40001", // serialization_failure
		"40P01", // deadlock_detected
		"55P03", // lock_not_available: lock_timeout
		"57014": // query_canceled: statement_timeout
		return again
	}
	switch pg.Code[:2] {
	case "22", "23":
		return blame
	}
	return unavailable
}

// timedOut reports whether a statement waited too long, for a lock or at work.
func timedOut(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "57014")
}

// blamed names the fault of the one event whose transaction failed with err.
func blamed(err error) dlq.Reason {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return dlq.RetryBudget
	}
	switch {
	case pg.Code == "22003": // numeric_value_out_of_range
		return dlq.AmountOverflow
	case pg.Code == "22021", pg.Code == "22P05": // not in the database's encoding
		return dlq.UnstorableText
	case pg.ConstraintName == "accounts_limit":
		return dlq.InsufficientFunds
	}
	return dlq.RetryBudget
}

// Refusal names why the ledger refused a posting: the word for its Err.
func Refusal(err error) dlq.Reason {
	switch {
	case errors.Is(err, ledger.ErrOperationConflict):
		return dlq.OperationConflict
	case errors.Is(err, ledger.ErrInsufficientFunds):
		return dlq.InsufficientFunds
	case errors.Is(err, ledger.ErrAccountUnknown):
		return dlq.AccountUnknown
	case errors.Is(err, ledger.ErrAccountFrozen):
		return dlq.AccountFrozen
	case errors.Is(err, ledger.ErrAccountClosed):
		return dlq.AccountClosed
	case errors.Is(err, ledger.ErrMissingParent):
		return dlq.MissingParent
	case errors.Is(err, ledger.ErrOverRefund):
		return dlq.OverRefund
	case errors.Is(err, ledger.ErrRefundInvalid):
		return dlq.RefundInvalid
	case errors.Is(err, ledger.ErrHoldClosed):
		return dlq.HoldClosed
	case errors.Is(err, ledger.ErrOverCapture):
		return dlq.OverCapture
	case errors.Is(err, ledger.ErrAmountOverflow):
		return dlq.AmountOverflow
	}
	return dlq.RetryBudget
}

// passes reports whether the item is parked for now only.
func (it *item) passes() bool { return it.passing || passes(it.decision.Parked) }

// passes reports whether a reason may pass by itself, so that the event is
// tried again within its budget.
func passes(r dlq.Reason) bool {
	info, _ := r.Info()
	return info.Transient || r == dlq.RetryBudget
}
