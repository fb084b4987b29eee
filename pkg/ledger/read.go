package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Account is one account in one asset, amounts in minor units. What is posted counts
// in balances; what is pending is held, and counts against limits alone.
type Account struct {
	Name string
	Asset
	DebitsPosted, CreditsPosted int64
	// DebitsPending and CreditsPending are what is held and has not expired.
	DebitsPending, CreditsPending int64
	// Limit is nil where the account has none.
	Limit  *Limit
	Opened time.Time
	State  State
	// Metadata is what operators have noted of the account; never nil.
	Metadata map[string]string
}

// Balance is credits less debits: what we owe the owner of a wallet, and, below
// zero, what an account such as a provider's receivable owes us.
func (a *Account) Balance() int64 { return a.CreditsPosted - a.DebitsPosted }

// Overdrawn reports whether the account is over its limit: only what a provider
// reports as a fact can bring it there.
func (a *Account) Overdrawn() bool {
	switch {
	case a.Limit == nil:
		return false
	case a.Limit.Rule == DebitsMustNotExceedCredits:
		return a.DebitsPosted > a.CreditsPosted-a.DebitsPending
	default:
		return a.CreditsPosted > a.DebitsPosted-a.CreditsPending
	}
}

// AccountFilter selects accounts; its zero value selects all, without a bound.
type AccountFilter struct {
	// Prefix of the name, Asset and State of the account; empty selects any.
	Prefix, Asset string
	State         State
	// After is the account that the page before ended with.
	AfterName, AfterAsset string
	// Limit bounds the page.
	Limit int
}

// beyond sorts after every name that begins like the text before it.
const beyond = "\U0010FFFF\U0010FFFF\U0010FFFF\U0010FFFF"

// Accounts returns a page of accounts, ordered by name and asset. It costs what the
// page has, and what a filter by asset or state leaves out between.
func Accounts(ctx context.Context, q Querier, f AccountFilter) ([]*Account, error) {
	found, err := q.Query(ctx, accountsSQL+`
		WHERE (a.name, a.asset) > ($1, $2) AND a.name >= $3 AND a.name <= $4 AND ($5 = '' OR a.asset = $5)
		      AND ($7 = '' OR a.state = $7)
		ORDER BY a.name, a.asset
		LIMIT NULLIF($6, 0)`, f.AfterName, f.AfterAsset, f.Prefix, f.Prefix+beyond, f.Asset, f.Limit, string(f.State))
	return collectAccounts(found, err)
}

// Balances returns one account in all its assets, by their codes; none where there is
// no such account. It costs one lookup.
func Balances(ctx context.Context, q Querier, name string) ([]*Account, error) {
	found, err := q.Query(ctx, accountsSQL+`
		WHERE a.name = $1
		ORDER BY a.asset`, name)
	return collectAccounts(found, err)
}

// accountsSQL reads accounts with what is held now; storedSQL with what their rows
// say, which counts holds that have expired until they are released.
const (
	accountsSQL = accountsHead + `
	       a.debits_pending - CASE WHEN a.debits_pending = 0 THEN 0 ELSE (
	           SELECT COALESCE(sum(h.held), 0)::bigint
	           FROM holds h
	           WHERE h.debit = a.name AND h.asset = a.asset AND h.held > 0 AND h.expires_at <= now()) END,
	       a.credits_pending - CASE WHEN a.credits_pending = 0 THEN 0 ELSE (
	           SELECT COALESCE(sum(h.held), 0)::bigint
	           FROM holds h
	           WHERE h.credit = a.name AND h.asset = a.asset AND h.held > 0 AND h.expires_at <= now()) END,` + accountsTail
	storedSQL = accountsHead + ` a.debits_pending, a.credits_pending,` + accountsTail

	accountsHead = `
	SELECT a.name, a.asset, d.exponent, a.debits_posted, a.credits_posted,`
	accountsTail = `
	       a.balance_limit, a.limit_policy, a.opened_at, a.state, a.metadata
	FROM accounts a
	LEFT JOIN assets d ON d.code = a.asset`
)

func collectAccounts(found pgx.Rows, err error) ([]*Account, error) {
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	accounts, err := pgx.CollectRows(found, scanAccount)
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	return accounts, nil
}

func scanAccount(found pgx.CollectableRow) (*Account, error) {
	var (
		a            Account
		exponent     *int
		rule, policy *string
	)
	err := found.Scan(&a.Name, &a.Code, &exponent, &a.DebitsPosted, &a.CreditsPosted, &a.DebitsPending, &a.CreditsPending,
		&rule, &policy, &a.Opened, &a.State, &a.Metadata)
	if err != nil {
		return nil, err
	}
	a.Exponent = exponentOf(a.Code, exponent)
	if rule != nil && policy != nil {
		a.Limit = &Limit{Rule: LimitRule(*rule), Enforce: *policy == "enforce"}
	}
	return &a, nil
}

// exponentOf is an asset's exponent: the declared one, else that of ISO 4217.
func exponentOf(code string, declared *int) int {
	if declared != nil {
		return *declared
	}
	iso, _ := isoAsset(code)
	return iso.Exponent
}

// DeclaredAssets returns ISO 4217 with the assets this ledger has declared, all of
// which it reads.
func DeclaredAssets(ctx context.Context, q Querier) (*Assets, error) {
	found, err := q.Query(ctx, `SELECT code, exponent FROM assets`)
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	declared, err := pgx.CollectRows(found, pgx.RowToStructByPos[Asset])
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	return NewAssets(declared)
}

// Entry is one transfer as it was posted.
type Entry struct {
	// EventNo and N place the transfer in its event, and in every statement.
	EventNo int64
	N       int16
	Transfer
	// Reverses is the N of the transfer of the same event that this one takes
	// back; nil where it takes none back.
	Reverses *int16
	// Uncovered is the part of a capture that was posted as a fact although no hold
	// covered it.
	Uncovered int64
	Posted    time.Time
}

// Standing returns the entries of whole events that count: those that are no
// reversal and were not reversed. They keep their order.
func Standing(entries []*Entry) []*Entry {
	type place struct {
		event int64
		n     int16
	}
	back := make(map[place]bool)
	for _, e := range entries {
		if e.Reverses != nil {
			back[place{e.EventNo, *e.Reverses}] = true
		}
	}
	standing := make([]*Entry, 0, len(entries))
	for _, e := range entries {
		if e.Reverses == nil && !back[place{e.EventNo, e.N}] {
			standing = append(standing, e)
		}
	}
	return standing
}

// Posted returns the transfers of events, by event number, in their order; reversals
// are among them (see Standing). It costs a lookup for each event.
func Posted(ctx context.Context, q Querier, events []int64) (map[int64][]*Entry, error) {
	found, err := q.Query(ctx, `
		SELECT event_no, n, operation, debit, credit, asset, amount, reverses, COALESCE(uncovered, 0), created_at
		FROM transfers
		WHERE event_no = ANY($1)
		ORDER BY event_no, n`, events)
	entries, err := collectEntries(found, err)
	if err != nil {
		return nil, err
	}
	byEvent := make(map[int64][]*Entry)
	for _, e := range entries {
		byEvent[e.EventNo] = append(byEvent[e.EventNo], e)
	}
	return byEvent, nil
}

func collectEntries(found pgx.Rows, err error) ([]*Entry, error) {
	if err != nil {
		return nil, fmt.Errorf("read transfers: %w", err)
	}
	entries, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (*Entry, error) {
		var e Entry
		err := row.Scan(&e.EventNo, &e.N, &e.Operation, &e.Debit, &e.Credit, &e.Transfer.Asset, &e.Amount, &e.Reverses, &e.Uncovered, &e.Posted)
		return &e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read transfers: %w", err)
	}
	return entries, nil
}
