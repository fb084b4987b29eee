package operator_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// accountChange is a command on an account.
type accountChange func(context.Context, *operator.Session, operator.AccountChange) error

// change runs a command on an account, in JSON.
func (s *system) change(command accountChange, m operator.AccountChange) ([]operator.ChangedAccount, error) {
	s.t.Helper()
	if m.Actor == "" {
		m.Actor = "ada"
	}
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return command(ctx, o, m) })
	return lines[operator.ChangedAccount](s.t, out), err
}

// results are the results of changes, with their assets.
func results(changed []operator.ChangedAccount) (results []string) {
	for _, c := range changed {
		results = append(results, c.Asset+" "+c.Result+" "+c.State)
	}
	return results
}

// An account's life, by commands alone.
func TestAccountCommands(t *testing.T) {
	s := newSystem(t)
	s.write(strings.Replace(configuration, "accounts:", "accounts_policy: explicit\naccounts:", 1))
	s.decide(payment("evt_1", "p1", "1999", "EUR"))
	require.Equal(t, "account_unknown", s.event("evt_1").Reason)
	in := func(asset string) operator.AccountChange {
		return operator.AccountChange{Account: "purse:a", Asset: asset, Note: "INC-7"}
	}

	planned, err := s.change(operator.OpenAccount, operator.AccountChange{Account: "purse:a", Asset: "EUR", DryRun: true})
	require.NoError(t, err)
	require.True(t, planned[0].DryRun)
	opened, err := s.change(operator.OpenAccount, operator.AccountChange{Account: "purse:a", Asset: "EUR", Metadata: map[string]string{"owner": "Ada"}})
	require.NoError(t, err, "the dry run left nothing")
	require.Equal(t, []string{"EUR opened open"}, results(opened))
	require.Equal(t, "debits_must_not_exceed_credits", opened[0].Limit, "its limit is there from the start")
	require.False(t, opened[0].DryRun)
	for _, asset := range []string{"EUR", "GEMS"} {
		_, err = s.change(operator.OpenAccount, operator.AccountChange{Account: "shop:due", Asset: asset})
		require.NoError(t, err)
	}
	_, err = s.change(operator.OpenAccount, in("GEMS"))
	require.NoError(t, err)
	_, err = s.redrive(operator.LetterMove{All: true, Yes: true, Note: "opened"})
	require.NoError(t, err)
	s.decide(payment("evt_2", "p2", "5", "GEMS"))
	require.Equal(t, "applied", s.event("evt_1").Outcome)

	frozen, err := s.change(operator.FreezeAccount, in(""))
	require.NoError(t, err)
	require.Equal(t, []string{"EUR frozen frozen", "GEMS frozen frozen"}, results(frozen))
	s.decide(payment("evt_3", "p3", "1", "EUR"))
	require.Equal(t, "account_frozen", s.event("evt_3").Reason)
	_, records := s.csv(func(ctx context.Context, o *operator.Session) error {
		return operator.ListAccounts(ctx, o, "", "GEMS", "frozen")
	})
	require.Len(t, records, 2)
	last := len(records[0]) - 1
	require.Equal(t, []string{"state", "frozen"}, []string{records[0][last], records[1][last]})
	thawed, err := s.change(operator.UnfreezeAccount, in("EUR"))
	require.NoError(t, err)
	require.Equal(t, []string{"EUR unfrozen open"}, results(thawed))

	set, err := s.change(operator.SetAccount, operator.AccountChange{Account: "purse:a", Actor: "bob", Metadata: map[string]string{"owner": "", "tier": "gold"}})
	require.NoError(t, err)
	require.Equal(t, []string{"EUR set open", "GEMS set frozen"}, results(set))
	require.Equal(t, map[string]string{"tier": "gold"}, set[0].Metadata)

	_, err = s.change(operator.CloseAccount, in("EUR"))
	require.ErrorIs(t, err, ledger.ErrNotEmpty)
	require.ErrorContains(t, err, "has a balance of 19.99 EUR")
	s.decide(event("evt_4", "paid", `{"id":"evt_4","type":"paid","payment":"p4","from":"purse:a","to":"shop:due","amount":1999,"asset":"EUR"}`))
	closed, err := s.change(operator.CloseAccount, in("EUR"))
	require.NoError(t, err)
	require.Equal(t, []string{"EUR closed closed"}, results(closed))
	_, err = s.change(operator.UnfreezeAccount, in("EUR"))
	require.ErrorIs(t, err, ledger.ErrAccountClosed)

	s.golden("account_history", func(ctx context.Context, o *operator.Session) error {
		return operator.ShowBalance(ctx, o, "purse:a", time.Time{})
	})
	_, err = s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.ListAccounts(ctx, o, "", "", "asleep")
	})
	require.ErrorContains(t, err, `--state "asleep" is not one of open, frozen, closed`)
}

func TestAccountCommandsRefuse(t *testing.T) {
	s := newSystem(t)
	s.write(strings.Replace(configuration, `{match: "purse:*",`, `{match: "purse:*", asset: EUR,`, 1))
	_, err := s.change(operator.OpenAccount, operator.AccountChange{Account: "purse:a", Asset: "EUR"})
	require.NoError(t, err)
	for text, c := range map[string]struct {
		command accountChange
		change  operator.AccountChange
		code    int
	}{
		"a part of the account name \"purse:\" is empty":    {operator.OpenAccount, operator.AccountChange{Account: "purse:", Asset: "EUR"}, exit.Usage},
		"say in which asset with --asset":                   {operator.OpenAccount, operator.AccountChange{Account: "x"}, exit.Usage},
		"takes EUR alone, by its declaration purse:*":       {operator.OpenAccount, operator.AccountChange{Account: "purse:b", Asset: "USD"}, exit.Usage},
		"asset GEMS is neither an ISO 4217 code nor":        {operator.OpenAccount, operator.AccountChange{Account: "x", Asset: "GEMS"}, exit.Usage},
		"the account is there already: purse:a in EUR":      {operator.OpenAccount, operator.AccountChange{Account: "purse:a", Asset: "EUR"}, exit.Failed},
		"it needs --note: why is the account frozen?":       {operator.FreezeAccount, operator.AccountChange{Account: "purse:a"}, exit.Usage},
		"it needs --note: why is the account closed?":       {operator.CloseAccount, operator.AccountChange{Account: "purse:a", Note: " "}, exit.Usage},
		"open it with: onceledger account open":             {operator.FreezeAccount, operator.AccountChange{Account: "purse:b", Note: "n"}, exit.Failed},
		"the account is not open: purse:a in USD":           {operator.FreezeAccount, operator.AccountChange{Account: "purse:a", Asset: "USD", Note: "n"}, exit.Failed},
		"the account has this state already: purse:a":       {operator.UnfreezeAccount, operator.AccountChange{Account: "purse:a", Note: "n"}, exit.Failed},
		"say what to set, as in owner=Ada":                  {operator.SetAccount, operator.AccountChange{Account: "purse:a"}, exit.Usage},
		"metadata is out of bounds: the value of k has 513": {operator.SetAccount, operator.AccountChange{Account: "purse:a", Metadata: map[string]string{"k": strings.Repeat("v", 513)}}, exit.Usage},
	} {
		changed, err := s.change(c.command, c.change)
		require.ErrorContains(t, err, text)
		require.Equal(t, c.code, exit.Code(err), text)
		require.Empty(t, changed)
	}
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error {
		return operator.ShowBalance(ctx, o, "purse:a", time.Time{})
	})
	require.NoError(t, err)
	require.Len(t, lines[operator.Account](t, out)[0].History, 1, "what is refused is not recorded")
}

// What was done is recorded with what does it, or not at all.
func TestAnAccountChangeIsRecordedInItsTransaction(t *testing.T) {
	s := newSystem(t)
	_, err := s.change(operator.OpenAccount, operator.AccountChange{Account: "purse:a", Asset: "EUR", Note: "first"})
	require.NoError(t, err)
	owner := pgtest.Open(t, s.env["DATABASE_URL"], postgres.Owner)
	var actor, verb, note string
	var detail json.RawMessage
	require.NoError(t, owner.QueryRow(t.Context(), `SELECT actor, verb, note, detail FROM actions`).Scan(&actor, &verb, &note, &detail))
	require.Equal(t, []string{"ada", "account_open", "first"}, []string{actor, verb, note})
	require.JSONEq(t, `{"account":"purse:a","asset":"EUR"}`, string(detail))

	pgtest.Exec(t, s.env["DATABASE_URL"], `ALTER TABLE actions ADD CONSTRAINT no_freeze CHECK (verb <> 'account_freeze')`)
	_, err = s.change(operator.FreezeAccount, operator.AccountChange{Account: "purse:a", Note: "n"})
	require.ErrorContains(t, err, "no_freeze")
	var state string
	require.NoError(t, owner.QueryRow(t.Context(), `SELECT state FROM accounts`).Scan(&state))
	require.Equal(t, "open", state)
}
