package operator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// accountsPage is how many accounts are read at a time.
const accountsPage = 1000

const howAccountsOpen = "accounts open with their first transfer, or with onceledger account open"

// Account is one account in one asset. Its JSON names are part of the public
// interface; amounts are minor units.
type Account struct {
	Account        string    `json:"account"`
	Asset          string    `json:"asset"`
	Exponent       int       `json:"exponent"`
	Balance        int64     `json:"balance_minor"`
	DebitsPosted   int64     `json:"debits_posted_minor"`
	CreditsPosted  int64     `json:"credits_posted_minor"`
	DebitsPending  int64     `json:"debits_pending_minor"`
	CreditsPending int64     `json:"credits_pending_minor"`
	Limit          string    `json:"limit,omitempty"`
	Policy         string    `json:"policy,omitempty"`
	Overdrawn      bool      `json:"overdrawn"`
	Opened         time.Time `json:"opened_at"`
	// State is open, frozen or closed; Metadata what operators have noted.
	State    string            `json:"state"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// History is what they did to the account; of a single one.
	History []Action `json:"history,omitempty"`
}

func accountOf(a *ledger.Account) *Account {
	out := &Account{
		Account: a.Name, Asset: a.Code, Exponent: a.Exponent, Balance: a.Balance(),
		DebitsPosted: a.DebitsPosted, CreditsPosted: a.CreditsPosted,
		DebitsPending: a.DebitsPending, CreditsPending: a.CreditsPending,
		Overdrawn: a.Overdrawn(), Opened: a.Opened.UTC(), State: string(a.State), Metadata: a.Metadata,
	}
	if a.Limit != nil {
		out.Limit, out.Policy = string(a.Limit.Rule), "record"
		if a.Limit.Enforce {
			out.Policy = "enforce"
		}
	}
	return out
}

var accountForm = form{
	columns: []string{"ACCOUNT", "ASSET", "BALANCE", "HELD", "DEBITS", "CREDITS", "LIMIT", "STATE"},
	numbers: []int{2, 3, 4, 5},
	header: []string{
		"account", "asset", "exponent", "balance_minor", "debits_posted_minor", "credits_posted_minor", "debits_pending_minor", "credits_pending_minor",
		"balance", "debits_posted", "credits_posted", "debits_pending", "credits_pending", "limit", "policy", "overdrawn", "opened_at", "state",
	},
}

func (a *Account) major(minor int64) string { return ledger.FormatMinor(minor, a.Exponent) }

func (a *Account) cells() []string {
	return []string{a.Account, a.Asset, a.major(a.Balance), a.major(a.DebitsPending), a.major(a.DebitsPosted), a.major(a.CreditsPosted), a.limit(), a.State}
}

func (a *Account) record() []string {
	moved := []int64{a.Balance, a.DebitsPosted, a.CreditsPosted, a.DebitsPending, a.CreditsPending}
	record := append([]string{outside(a.Account), a.Asset, strconv.Itoa(a.Exponent)}, amounts(moved, a.Exponent)...)
	return append(record, a.Limit, a.Policy, strconv.FormatBool(a.Overdrawn), stamp(a.Opened), a.State)
}

// amounts writes amounts in minor units, then the same in major ones.
func amounts(minor []int64, exponent int) []string {
	n := len(minor)
	cells := make([]string, 2*n)
	for i, amount := range minor {
		cells[i], cells[n+i] = strconv.FormatInt(amount, 10), ledger.FormatMinor(amount, exponent)
	}
	return cells
}

// limit is the limit as a cell: what it is, and whether it is passed.
func (a *Account) limit() string {
	switch {
	case a.Limit == "":
		return "-"
	case a.Overdrawn:
		return a.Limit + " (" + a.Policy + ", OVERDRAWN)"
	}
	return a.Limit + " (" + a.Policy + ")"
}

// ListAccounts prints the accounts whose name begins with prefix, in one asset
// or all, and in one state or any.
func ListAccounts(ctx context.Context, s *Session, prefix, asset, state string) error {
	if err := checkState(state); err != nil {
		return err
	}
	out, pool, err := s.listing(ctx, accountForm)
	if err != nil {
		return err
	}
	defer pool.Close()
	if asset, err = knownAsset(ctx, pool, asset); err != nil {
		return err
	}
	filter := ledger.AccountFilter{Prefix: prefix, Asset: asset, State: ledger.State(state), Limit: accountsPage}
	for {
		page, err := ledger.Accounts(ctx, pool, filter)
		if err != nil {
			return err
		}
		for _, a := range page {
			if err := out.print(accountOf(a)); err != nil {
				return err
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
		if len(page) < accountsPage {
			break
		}
		last := page[len(page)-1]
		filter.AfterName, filter.AfterAsset = last.Name, last.Code
	}
	if out.n == 0 && out.table() {
		fmt.Fprintln(s.Out, "no such accounts: "+howAccountsOpen)
	}
	return nil
}

// ShowBalance prints one account in all its assets, as it is or, at an instant,
// as it stood before that.
func ShowBalance(ctx context.Context, s *Session, name string, at time.Time) error {
	if !at.IsZero() {
		return showBalanceAt(ctx, s, name, at)
	}
	out, pool, err := s.listing(ctx, accountForm)
	if err != nil {
		return err
	}
	defer pool.Close()
	accounts, err := ledger.Balances(ctx, pool, name)
	if err != nil {
		return err
	}
	if len(accounts) == 0 {
		return noAccount(name)
	}
	history, err := readHistory(ctx, pool, name)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		account := accountOf(a)
		account.History = actionsOn(history, account.Asset)
		if err := out.print(account); err != nil {
			return err
		}
	}
	if err := out.flush(); err != nil || !out.table() {
		return err
	}
	return s.printNotes(accounts, history)
}

func noAccount(name string) error {
	return fmt.Errorf("account %s is not there: %s; see: onceledger account list", name, howAccountsOpen)
}
