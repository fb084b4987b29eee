package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Accounts is what the configuration says of accounts, ready to be looked up by
// their names.
type Accounts struct {
	policy   string
	names    map[string]config.Account
	patterns []pattern // longest prefix first
	// assets is set where a declaration names any.
	assets bool
}

// pattern is a declaration for all names that begin with prefix.
type pattern struct {
	prefix  string
	account config.Account
}

// NewAccounts returns the declarations of cfg. Where {source} stands in one, it is
// one for each source; what is written out wins over it.
func NewAccounts(cfg *config.Config) *Accounts {
	a := &Accounts{policy: cfg.AccountsPolicy, names: map[string]config.Account{}}
	for _, account := range cfg.Accounts {
		a.assets = a.assets || len(account.Assets) > 0
		if match := account.Match.Value; !strings.Contains(match, config.SourceMark) {
			a.add(match, account)
		}
	}
	for _, account := range cfg.Accounts {
		if match := account.Match.Value; strings.Contains(match, config.SourceMark) {
			for _, source := range cfg.Sources {
				a.add(strings.ReplaceAll(match, config.SourceMark, source.Name.Value), account)
			}
		}
	}
	slices.SortStableFunc(a.patterns, func(p, q pattern) int { return cmp.Compare(len(q.prefix), len(p.prefix)) })
	return a
}

// add notes a declaration, unless there is one with the same match.
func (a *Accounts) add(match string, account config.Account) {
	if prefix, ok := strings.CutSuffix(match, "*"); ok {
		a.patterns = append(a.patterns, pattern{prefix, account}) // the first of two equal ones is found
		return
	}
	if _, ok := a.names[match]; !ok {
		a.names[match] = account
	}
}

// AccountRule returns the declaration whose match fits name: the account's own
// name before patterns, and of these the longest. It reports false where the
// account has no declaration.
func (a *Accounts) AccountRule(name string) (config.Account, bool) {
	if account, ok := a.names[name]; ok {
		return account, true
	}
	for _, p := range a.patterns {
		if strings.HasPrefix(name, p.prefix) {
			return p.account, true
		}
	}
	return config.Account{}, false
}

// Limit tells the ledger which accounts are bounded, and how, and which have to be
// opened first.
func (a *Accounts) Limit(account string) (ledger.Limit, bool) {
	rule, declared := a.AccountRule(account)
	limit := ledger.Limit{
		Rule: ledger.LimitRule(rule.Limit), Enforce: rule.Policy == "enforce",
		Explicit: a.policy == "explicit" || a.policy == "declared" && !declared,
	}
	return limit, limit != ledger.Limit{}
}

// CheckAsset returns why an account may not be moved in an asset.
func (a *Accounts) CheckAsset(account, asset string) error {
	if !a.assets {
		return nil
	}
	rule, _ := a.AccountRule(account)
	if len(rule.Assets) == 0 || slices.ContainsFunc(rule.Assets, func(t config.Text) bool { return t.Value == asset }) {
		return nil
	}
	codes := make([]string, len(rule.Assets))
	for i, t := range rule.Assets {
		codes[i] = t.Value
	}
	return fmt.Errorf("account %s takes %s alone, by its declaration %s, and no %s", account, strings.Join(codes, ", "), rule.Match.Value, asset)
}

// checkTransfers is CheckAsset of both accounts of each transfer.
func (a *Accounts) checkTransfers(transfers []ledger.Transfer) error {
	for _, t := range transfers {
		if t.Kind == ledger.KindVoid {
			continue // its hold was checked
		}
		for _, account := range []string{t.Debit, t.Credit} {
			if err := a.CheckAsset(account, t.Asset); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknownAssets are the faults of declarations that name an asset which is none.
func unknownAssets(cfg *config.Config, known *ledger.Assets) (faults config.Faults) {
	for i, account := range cfg.Accounts {
		for _, code := range account.Assets {
			if _, ok := known.Lookup(code.Value); code.Value != "" && !ok {
				faults = append(faults, config.Fault{
					Pos: code.Pos, Path: fmt.Sprintf("accounts[%d].asset", i),
					Message: fmt.Sprintf("asset %q is neither an ISO 4217 code nor declared under assets", code.Value),
				})
			}
		}
	}
	return faults
}
