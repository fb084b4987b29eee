package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// reverse takes transfers back, as a correction does.
const reverse = `INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, reverses)
	SELECT event_no, 1, operation, credit, debit, asset, amount, n FROM transfers`

// TestDamageIsFound damages a system that was clean, in one way after another,
// and expects the findings that name it.
func TestDamageIsFound(t *testing.T) {
	tests := []struct {
		name   string
		damage []string        // statements, past every guard
		more   func(s *system) // damage outside of the database
		want   []audit.Kind
		about  func(t *testing.T, r *audit.Report)
	}{
		{
			name:   "an event's row is gone",
			damage: []string{`DELETE FROM events WHERE event_id = 'evt_1' AND variant = ''`},
			want:   []audit.Kind{audit.Lost, audit.Lost, audit.NoEvent},
			about: func(t *testing.T, r *audit.Report) {
				require.Equal(t, 2, r.Sum.Unaccounted, "the event and its duplicate")
				require.Equal(t, uint64(1), r.Findings[0].Seq)
				require.Equal(t, "shop", r.Findings[0].Source)
				require.Equal(t, "evt_1", r.Findings[0].EventID)
			},
		},
		{
			name:   "an answered event was never decided",
			damage: []string{`UPDATE events SET state = 'processing', outcome = NULL WHERE event_id = 'evt_looked'`},
			want:   []audit.Kind{audit.Undecided},
		},
		{
			name:   "an event's row holds another body's hash",
			damage: []string{`UPDATE events SET body_hash = sha256('x') WHERE event_id = 'evt_1' AND variant = ''`},
			want:   []audit.Kind{audit.OtherContent},
			about: func(t *testing.T, r *audit.Report) {
				require.Equal(t, 1, r.Sum.Unaccounted)
				require.Equal(t, 1, r.Sum.Duplicates, "its resend still has the same meaning")
			},
		},
		{
			name:   "a conflict was dropped",
			damage: []string{`DELETE FROM events WHERE variant <> ''`},
			want:   []audit.Kind{audit.LetterUnknown, audit.OtherContent},
			about: func(t *testing.T, r *audit.Report) {
				require.Equal(t, 1, r.Sum.Unaccounted)
				require.Equal(t, uint64(3), r.Findings[1].Seq)
			},
		},
		{
			name:   "an event's row names another event's message",
			damage: []string{`UPDATE events SET seq = 5 WHERE event_id = 'evt_1' AND variant = ''`},
			want:   []audit.Kind{audit.WrongOrigin},
		},
		{
			name: "an event was invented",
			damage: []string{`INSERT INTO events (no, source, event_id, variant, state, outcome, type, occurred_at, body_hash, fingerprint, rules_version, stream_created, seq)
				SELECT 999999, source, 'evt_forged', '', state, outcome, type, occurred_at, body_hash, fingerprint, rules_version, stream_created, 4
				FROM events WHERE event_id = 'evt_looked'`},
			want: []audit.Kind{audit.WrongOrigin},
		},
		{
			name:   "a balance was raised",
			damage: []string{`UPDATE accounts SET credits_posted = credits_posted + 1 WHERE name = 'purse:a'`},
			want:   []audit.Kind{audit.BalanceDiffers, audit.TotalDiffers},
			about: func(t *testing.T, r *audit.Report) {
				require.Equal(t, "purse:a", r.Findings[0].Account)
				require.Equal(t, "EUR", r.Findings[0].Asset)
				require.Contains(t, r.Findings[0].Detail, "credits 5.01 EUR; its transfers add up to debits 0.00 EUR, credits 5.00 EUR")
			},
		},
		{
			name:   "both sides were raised",
			damage: []string{`UPDATE accounts SET credits_posted = credits_posted + 1, debits_posted = debits_posted + 1`},
			want:   []audit.Kind{audit.BalanceDiffers, audit.BalanceDiffers},
		},
		{
			name:   "an account is gone",
			damage: []string{`DELETE FROM accounts WHERE name = 'shop:due'`},
			want:   []audit.Kind{audit.BalanceDiffers, audit.TotalDiffers},
		},
		{
			name:   "an account has money from nowhere",
			damage: []string{`INSERT INTO accounts (name, asset, debits_posted, credits_posted) VALUES ('purse:z', 'EUR', 7, 7)`},
			want:   []audit.Kind{audit.BalanceDiffers},
		},
		{
			name:   "a transfer is gone",
			damage: []string{`DELETE FROM transfers`},
			want:   []audit.Kind{audit.NothingPosted, audit.NoTransfer, audit.BalanceDiffers, audit.BalanceDiffers},
		},
		{
			name:   "a transfer has another amount",
			damage: []string{`UPDATE transfers SET amount = 501`},
			want:   []audit.Kind{audit.NoOperation, audit.BalanceDiffers, audit.BalanceDiffers},
		},
		{
			name: "a transfer was posted twice",
			damage: []string{
				`INSERT INTO transfers SELECT event_no, n + 1, operation, debit, credit, asset, amount FROM transfers`,
				`UPDATE accounts SET debits_posted = 2 * debits_posted, credits_posted = 2 * credits_posted`,
			},
			want: []audit.Kind{audit.NoTransfer},
		},
		{
			name:   "a transfer belongs to an event that is not applied",
			damage: []string{`UPDATE events SET outcome = 'ignored' WHERE event_id = 'evt_1' AND variant = ''`},
			want:   []audit.Kind{audit.NoEvent},
		},
		{
			name:   "a transfer belongs to no event",
			damage: []string{`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) VALUES (777777, 0, 'forged', 'a', 'b', 'EUR', 5)`},
			want:   []audit.Kind{audit.NoEvent, audit.NoOperation, audit.BalanceDiffers, audit.BalanceDiffers},
		},
		{
			name:   "an operation is gone",
			damage: []string{`DELETE FROM operations`},
			want:   []audit.Kind{audit.NoOperation},
		},
		{
			name:   "an operation was invented",
			damage: []string{`INSERT INTO operations (key, event_no, debit, credit, asset, amount) VALUES ('forged', 1, 'a', 'b', 'EUR', 5)`},
			want:   []audit.Kind{audit.NoTransfer},
		},
		{
			name: "more is given back than was paid",
			damage: []string{
				`INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds) SELECT 'back', event_no, credit, debit, asset, 501, key FROM operations`,
				`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) SELECT event_no, 1, key, debit, credit, asset, amount FROM operations WHERE key = 'back'`,
				`UPDATE accounts a SET debits_posted = debits_posted + o.amount FROM operations o WHERE o.key = 'back' AND a.name = o.debit`,
				`UPDATE accounts a SET credits_posted = credits_posted + o.amount FROM operations o WHERE o.key = 'back' AND a.name = o.credit`,
			},
			want: []audit.Kind{audit.OverRefunded},
		},
		{
			name:   "a transfer was reversed and its operation still says that it is posted",
			damage: []string{reverse + ` WHERE n = 0`, `UPDATE accounts SET debits_posted = 500, credits_posted = 500`},
			want:   []audit.Kind{audit.NoTransfer},
		},
		{
			name:   "a reversal takes back another amount",
			damage: []string{reverse + ` WHERE n = 0`, `UPDATE accounts SET debits_posted = 500, credits_posted = 500`, `UPDATE transfers SET amount = 499 WHERE n = 1`},
			want:   []audit.Kind{audit.WrongReversal, audit.NoTransfer, audit.BalanceDiffers, audit.BalanceDiffers},
		},
		{
			name: "a dead letter is gone",
			more: func(s *system) { s.deleteLetter(1) },
			want: []audit.Kind{audit.LetterGone},
		},
		{
			name:   "a parked event names another event's letter",
			damage: []string{`UPDATE events SET dlq_seq = 2 WHERE state = 'failed' AND dlq_seq = 1`},
			want:   []audit.Kind{audit.LetterGone},
		},
		{
			name:   "a failed event never got its letter",
			damage: []string{`UPDATE events SET dlq_seq = NULL WHERE state = 'failed' AND dlq_seq = 1`},
			want:   []audit.Kind{audit.Undecided, audit.LetterMissing},
		},
		{
			name: "a dead letter belongs to nobody",
			more: func(s *system) {
				_, err := dlq.Park(s.t.Context(), s.js, dlq.Letter{Source: "shop", EventID: "evt_none", Reason: dlq.RuleError})
				require.NoError(s.t, err)
			},
			want: []audit.Kind{audit.LetterUnknown},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSystem(t)
			s.decide(
				payment("evt_1", "p1", "500", ""),
				payment("evt_1", "p1", "500", ""),
				payment("evt_1", "p1", "900", ""), // a conflict
				event("evt_looked", "looked at", `{"id":"evt_looked","type":"looked at"}`),
				payment("evt_bad", "p2", `"many"`, ""), // parked
			)
			s.clean()
			s.exec(test.damage...)
			if test.more != nil {
				test.more(s)
			}
			report := s.audit()
			require.Equal(t, test.want, kinds(report), "%+v", report.Findings)
			require.False(t, report.Clean)
			require.Equal(t, len(test.want), report.Problems)
			if test.about != nil {
				test.about(t, report)
			}
		})
	}
}

func (s *system) deleteLetter(seq uint64) {
	s.t.Helper()
	letters, err := s.js.Stream(s.t.Context(), stream.DLQ)
	require.NoError(s.t, err)
	require.NoError(s.t, letters.DeleteMsg(s.t.Context(), seq))
}
