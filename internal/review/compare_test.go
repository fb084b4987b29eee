package review

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

func transfer(operation string, amount int64) ledger.Transfer {
	return ledger.Transfer{Operation: operation, Debit: "a", Credit: "b", Asset: "EUR", Amount: amount}
}

func entry(operation string, amount int64) *ledger.Entry {
	return &ledger.Entry{Transfer: transfer(operation, amount)}
}

func TestCompare(t *testing.T) {
	completed := func(o dedupe.Outcome) *dedupe.Row { return &dedupe.Row{No: 1, State: dedupe.Completed, Outcome: o} }
	parked := &dedupe.Row{No: 1, State: dedupe.Failed, Reason: string(dlq.RuleError)}
	mine := map[int64][]*ledger.Entry{1: {entry("x", 5)}}
	refused := rules.Decision{Parked: dlq.RuleError, Err: errors.New("no such key")}
	asks := func(list ...ledger.Transfer) rules.Decision { return rules.Decision{Transfers: list} }
	others := func(list ...*ledger.Entry) map[string]*ledger.Entry {
		posted := map[string]*ledger.Entry{}
		for _, e := range list {
			posted[e.Operation] = e
		}
		return posted
	}
	refund, fact := transfer("r", 5), transfer("c", 5)
	refund.Parent, fact.Parent, fact.Kind, fact.Fact = "x", "h", ledger.KindCapture, true
	in := func(account string) ledger.Transfer { t := transfer("x", 5); t.Credit = account; return t }
	shut := map[accountKey]dlq.Reason{{"b2", "EUR"}: dlq.AccountUnknown, {"b3", "EUR"}: dlq.AccountClosed}
	tests := []struct {
		name   string
		row    *dedupe.Row
		own    map[int64][]*ledger.Entry
		posted map[string]*ledger.Entry
		says   rules.Decision
		kind   Kind
		change int
		// refused is why the ledger would refuse it.
		refused dlq.Reason
	}{
		{"applied, and the same", completed(dedupe.Applied), mine, nil, asks(transfer("x", 5)), "", 0, ""},
		{"applied, and the rest is another event's", completed(dedupe.Applied), mine, others(entry("y", 1)), asks(transfer("x", 5), transfer("y", 1)), "", 0, ""},
		{"applied, and another amount", completed(dedupe.Applied), mine, nil, asks(transfer("x", 6)), WouldPostDifferently, 1, ""},
		{"applied, and one more", completed(dedupe.Applied), mine, nil, asks(transfer("x", 5), transfer("y", 1)), WouldPostDifferently, 1, ""},
		{"applied, and another operation", completed(dedupe.Applied), mine, nil, asks(transfer("y", 5)), WouldPostDifferently, 2, ""},
		{"applied, and one that another event has otherwise", completed(dedupe.Applied), mine, others(entry("y", 2)), asks(transfer("x", 5), transfer("y", 1)), WouldPostDifferently, 1, dlq.OperationConflict},
		{"applied, and nothing", completed(dedupe.Applied), mine, nil, asks(), WouldIgnore, 1, ""},
		{"applied and taken back, and nothing", completed(dedupe.Applied), nil, nil, asks(), "", 0, ""},
		{"applied, and not to be decided", completed(dedupe.Applied), mine, nil, refused, WouldPark, 0, ""},
		{"ignored, and nothing", completed(dedupe.Ignored), nil, nil, asks(), "", 0, ""},
		{"ignored, and money", completed(dedupe.Ignored), nil, nil, asks(transfer("x", 5)), WouldPost, 1, ""},
		{"ignored, and money that is there", completed(dedupe.Ignored), nil, others(entry("x", 5)), asks(transfer("x", 5)), "", 0, ""},
		{"ignored, and not to be decided", completed(dedupe.Ignored), nil, nil, refused, WouldPark, 0, ""},
		{"a duplicate of what is there", completed(dedupe.DuplicateOperation), nil, others(entry("x", 5)), asks(transfer("x", 5)), "", 0, ""},
		{"a duplicate of what is gone", completed(dedupe.DuplicateOperation), nil, nil, asks(transfer("x", 5)), WouldPost, 1, ""},
		{"a duplicate of what is another amount now", completed(dedupe.DuplicateOperation), nil, others(entry("x", 4)), asks(transfer("x", 5)), WouldPost, 1, dlq.OperationConflict},
		{"parked, and still", parked, nil, nil, refused, "", 0, ""},
		{"parked, and money", parked, nil, nil, asks(transfer("x", 5)), WouldApply, 1, ""},
		{"parked, and money that is there", parked, nil, others(entry("x", 5)), asks(transfer("x", 5)), WouldApply, 0, ""},
		{"parked, and money that another event has otherwise", parked, nil, others(entry("x", 4)), asks(transfer("x", 5)), "", 1, dlq.OperationConflict},
		{"parked, and still without its parent", parked, nil, nil, asks(refund), "", 1, dlq.MissingParent},
		{"parked, and its parent is there", parked, nil, others(entry("x", 5)), asks(refund), WouldApply, 1, ""},
		{"ignored, and without its parent", completed(dedupe.Ignored), nil, nil, asks(refund), WouldPost, 1, dlq.MissingParent},
		{"ignored, and its parent comes along", completed(dedupe.Ignored), nil, nil, asks(refund, transfer("x", 5)), WouldPost, 2, ""},
		{"ignored, and a fact that needs no hold", completed(dedupe.Ignored), nil, nil, asks(fact), WouldPost, 1, ""},
		{"parked, and its account is not open", parked, nil, nil, asks(in("b2")), "", 1, dlq.AccountUnknown},
		{"ignored, and its account is not open", completed(dedupe.Ignored), nil, nil, asks(in("b2")), WouldPost, 1, dlq.AccountUnknown},
		{"applied, and its account is closed", completed(dedupe.Applied), map[int64][]*ledger.Entry{1: {{Transfer: in("b3")}}}, nil, asks(), WouldIgnore, 1, dlq.AccountClosed},
		{"parked, and nothing", parked, nil, nil, asks(), WouldIgnoreParked, 0, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := &Difference{Row: test.row, Decision: test.says}
			if test.row.Outcome == dedupe.Applied {
				d.posters = []int64{test.row.No}
			}
			require.Equal(t, test.kind, d.compare(&books{own: test.own, posted: test.posted, shut: shut}))
			require.Len(t, d.Changes, test.change)
			require.Equal(t, test.refused, d.Refused.Reason)
		})
	}
}

func TestFilterSelects(t *testing.T) {
	for _, f := range []Filter{{}, {Source: "shop"}, {Type: "charge.paid"}, {Type: "charge.*"}, {Type: "*"}} {
		require.True(t, f.selects("shop", "charge.paid"), "%+v", f)
	}
	for _, f := range []Filter{{Source: "sho"}, {Type: "charge"}, {Type: "refund.*"}, {Source: "stripe", Type: "*"}} {
		require.False(t, f.selects("shop", "charge.paid"), "%+v", f)
	}
}
