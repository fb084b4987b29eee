package operator

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// TrialTotal is what all accounts of one asset add up to. Its JSON names are part
// of the public interface; amounts are minor units of any size.
type TrialTotal struct {
	Asset    string    `json:"asset"`
	Exponent int       `json:"exponent"`
	At       time.Time `json:"at,omitzero"`
	// Final is not set while something recorded before At may still be added.
	Final    bool     `json:"final"`
	Accounts int      `json:"accounts"`
	Debits   *big.Int `json:"debits_minor"`
	Credits  *big.Int `json:"credits_minor"`
	Equal    bool     `json:"equal"`
}

var totalForm = form{
	columns: []string{"ASSET", "ACCOUNTS", "DEBITS", "CREDITS", "DIFFERENCE"},
	numbers: []int{1, 2, 3, 4},
	header:  []string{"asset", "exponent", "at", "final", "accounts", "debits_minor", "credits_minor", "debits", "credits", "equal"},
}

// columnsForm is what the columns of accounts add up to.
var columnsForm = form{columns: []string{"TOTAL", "ACCOUNTS", "DEBIT", "CREDIT", "DIFFERENCE"}, numbers: []int{1, 2, 3, 4}}

func (t *TrialTotal) cells() []string {
	difference := new(big.Int).Sub(t.Debits, t.Credits)
	return []string{
		t.Asset, strconv.Itoa(t.Accounts), ledger.FormatTotal(t.Debits, t.Exponent), ledger.FormatTotal(t.Credits, t.Exponent),
		ledger.FormatTotal(difference, t.Exponent),
	}
}

func (t *TrialTotal) record() []string {
	return []string{
		t.Asset, strconv.Itoa(t.Exponent), stamp(t.At), strconv.FormatBool(t.Final), strconv.Itoa(t.Accounts),
		t.Debits.String(), t.Credits.String(), ledger.FormatTotal(t.Debits, t.Exponent), ledger.FormatTotal(t.Credits, t.Exponent),
		strconv.FormatBool(t.Equal),
	}
}

// TrialAccount is one account of a trial balance: its balance stands on the side
// that has more. Its JSON names are part of the public interface; amounts are
// minor units.
type TrialAccount struct {
	Account       string    `json:"account"`
	Asset         string    `json:"asset"`
	Exponent      int       `json:"exponent"`
	At            time.Time `json:"at"`
	Final         bool      `json:"final"`
	DebitBalance  int64     `json:"debit_balance_minor"`
	CreditBalance int64     `json:"credit_balance_minor"`
	Debits        int64     `json:"debits_posted_minor"`
	Credits       int64     `json:"credits_posted_minor"`
}

var trialForm = form{
	columns: []string{"ACCOUNT", "ASSET", "DEBIT", "CREDIT"},
	numbers: []int{2, 3},
	header: []string{
		"account", "asset", "exponent", "at", "final", "debit_balance_minor", "credit_balance_minor", "debits_posted_minor", "credits_posted_minor",
		"debit_balance", "credit_balance", "debits_posted", "credits_posted",
	},
}

func (a *TrialAccount) cells() []string {
	cells := []string{a.Account, a.Asset, "", ""}
	if a.DebitBalance > 0 {
		cells[2] = ledger.FormatMinor(a.DebitBalance, a.Exponent)
	} else {
		cells[3] = ledger.FormatMinor(a.CreditBalance, a.Exponent)
	}
	return cells
}

func (a *TrialAccount) record() []string {
	return append([]string{outside(a.Account), a.Asset, strconv.Itoa(a.Exponent), stamp(a.At), strconv.FormatBool(a.Final)},
		amounts([]int64{a.DebitBalance, a.CreditBalance, a.Debits, a.Credits}, a.Exponent)...)
}

// trial prints a trial balance.
type trial struct {
	pool  *pgxpool.Pool
	out   *lines
	at    time.Time
	final bool
	asset string
}

// TrialBalance prints the totals of each asset, or the one that is named, as they
// are or, at an instant, as they stood before that; by account where accounts is
// set. It returns an error with exit.Found where debits and credits differ.
func TrialBalance(ctx context.Context, s *Session, at time.Time, asset string, accounts bool) error {
	f := totalForm
	if accounts {
		f = trialForm
	}
	out, pool, err := s.listing(ctx, f)
	if err != nil {
		return err
	}
	defer pool.Close()
	if asset, err = knownAsset(ctx, pool, asset); err != nil {
		return err
	}
	if at.IsZero() && accounts { // the pages must be of one instant
		if err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at); err != nil {
			return fmt.Errorf("read clock: %w", err)
		}
	}
	t := &trial{pool: pool, out: out, at: at, final: true, asset: asset}
	if !at.IsZero() {
		if t.final, err = settle(ctx, pool, at); err != nil {
			return err
		}
		if out.table() {
			fmt.Fprintf(s.Out, "before %s\n\n", when(at))
		}
	}
	show := t.totals
	if accounts {
		show = t.accounts
	}
	totals, err := show(ctx)
	if err != nil {
		return err
	}
	if len(totals) == 0 && out.table() {
		fmt.Fprintln(s.Out, t.nothing())
	}
	if !t.final {
		return out.unsettled(false, at)
	}
	return differing(totals)
}

// nothing says why there is no line.
func (t *trial) nothing() string {
	text := "no accounts"
	if t.asset != "" {
		text += " in " + printable(t.asset)
	}
	if !t.at.IsZero() {
		return text + " then"
	}
	return text + ": " + howAccountsOpen
}

// totals prints a line for each asset.
func (t *trial) totals(ctx context.Context) ([]*ledger.AssetTotal, error) {
	var totals []*ledger.AssetTotal
	err := patiently(ctx, t.pool, func(tx pgx.Tx) (err error) {
		totals, err = ledger.TrialBalance(ctx, tx, t.at, t.asset)
		return err
	})
	if err != nil {
		return nil, err
	}
	return totals, t.print(t.out, totals)
}

func (t *trial) print(out *lines, totals []*ledger.AssetTotal) error {
	for _, total := range totals {
		line := &TrialTotal{
			Asset: total.Code, Exponent: total.Exponent, At: t.at.UTC(), Final: t.final, Accounts: total.Accounts,
			Debits: total.Debits, Credits: total.Credits, Equal: total.Equal(),
		}
		if err := out.print(line); err != nil {
			return err
		}
	}
	return out.flush()
}

// accounts prints a line for each account, and under a table what they add up to.
func (t *trial) accounts(ctx context.Context) ([]*ledger.AssetTotal, error) {
	byAsset := make(map[string]*ledger.AssetTotal)
	filter := ledger.AccountFilter{Asset: t.asset, Limit: accountsPage}
	for {
		var page []*ledger.Balance
		err := patiently(ctx, t.pool, func(tx pgx.Tx) (err error) {
			page, err = ledger.BalancesAt(ctx, tx, filter, t.at)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			if err := t.account(b, byAsset); err != nil {
				return nil, err
			}
		}
		if err := t.out.flush(); err != nil {
			return nil, err
		}
		if len(page) < accountsPage {
			break
		}
		last := page[len(page)-1]
		filter.AfterName, filter.AfterAsset = last.Account, last.Code
	}
	totals := make([]*ledger.AssetTotal, 0, len(byAsset))
	for _, code := range slices.Sorted(maps.Keys(byAsset)) {
		totals = append(totals, byAsset[code])
	}
	if !t.out.table() || len(totals) == 0 {
		return totals, nil
	}
	fmt.Fprintln(t.out.s.Out)
	below, err := newLines(t.out.s, columnsForm)
	if err != nil {
		return nil, err
	}
	return totals, t.print(below, totals)
}

// account prints the line of an account that was there, and adds its balance to
// the total of its asset.
func (t *trial) account(b *ledger.Balance, byAsset map[string]*ledger.AssetTotal) error {
	if !b.OpenAt(t.at) {
		return nil
	}
	debit, credit := max(0, -b.Net()), max(0, b.Net())
	total := byAsset[b.Code]
	if total == nil {
		total = &ledger.AssetTotal{Asset: b.Asset, Debits: new(big.Int), Credits: new(big.Int)}
		byAsset[b.Code] = total
	}
	total.Accounts++
	total.Debits.Add(total.Debits, big.NewInt(debit))
	total.Credits.Add(total.Credits, big.NewInt(credit))
	return t.out.print(&TrialAccount{
		Account: b.Account, Asset: b.Code, Exponent: b.Exponent, At: t.at.UTC(), Final: t.final,
		DebitBalance: debit, CreditBalance: credit, Debits: b.Debits, Credits: b.Credits,
	})
}

// differing is the error of a trial balance that does not balance.
func differing(totals []*ledger.AssetTotal) error {
	var codes []string
	for _, t := range totals {
		if !t.Equal() {
			codes = append(codes, t.Code)
		}
	}
	if len(codes) == 0 {
		return nil
	}
	return exit.With(exit.Found, fmt.Errorf("debits and credits of %s differ; `onceledger audit` names the accounts", strings.Join(codes, ", ")))
}
