package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// What an operator may not do to an account as it stands.
var (
	// ErrAccountExists means that the account is there already.
	ErrAccountExists = errors.New("the account is there already")
	// ErrAccountState means that the account has this state already.
	ErrAccountState = errors.New("the account has this state already")
	// ErrNotEmpty means that an account with a balance, or with something pending,
	// was to be closed.
	ErrNotEmpty = errors.New("the account is not empty")
	// ErrMetadata means that metadata has too many keys, or one that is too long,
	// empty or not text.
	ErrMetadata = errors.New("metadata is out of bounds")
)

// Bounds of an account's metadata; lengths are bytes.
const (
	MaxMetadataKeys  = 16
	MaxMetadataKey   = 64
	MaxMetadataValue = 512
)

// OpenAccount opens an account in an asset, with nothing on it, in the caller's
// transaction. limit is what bounds it until it moves, when the caller of Post says
// so anew; nil for none.
//
// Errors: ErrAccountExists, ErrMetadata, and those of the database.
func OpenAccount(ctx context.Context, tx pgx.Tx, name, asset string, limit *Limit, metadata map[string]string) (*Account, error) {
	metadata, err := merge(nil, metadata)
	if err != nil {
		return nil, err
	}
	var rule, policy string
	if limit != nil && limit.Rule != "" {
		rule, policy = string(limit.Rule), limit.policy()
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO accounts (name, asset, balance_limit, limit_policy, metadata)
		VALUES ($1, $2, NULLIF($3, ''), NULLIF($4, ''), $5)
		ON CONFLICT (name, asset) DO NOTHING`, name, asset, rule, policy, metadata)
	if err != nil {
		return nil, fmt.Errorf("open account: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil, fmt.Errorf("%w: %s in %s", ErrAccountExists, name, asset)
	}
	opened, err := lockAccount(ctx, tx, name, asset)
	if err != nil {
		return nil, err
	}
	return opened[0], nil
}

// SetState opens a frozen account again, freezes or closes one, in one asset or, if
// asset is empty, in all it has; those that have the state already, or are closed,
// stay as they are. It returns those that were changed. Each batch of another
// transaction comes before or after it as a whole. Holds that have expired do not
// count: where an account is closed, they are released.
//
// Errors: ErrAccountUnknown (there is none), ErrAccountState and ErrAccountClosed
// (nothing to change), ErrNotEmpty (an account that is closed has a balance of 0 and
// nothing pending), and those of the database.
func SetState(ctx context.Context, tx pgx.Tx, name, asset string, to State) ([]*Account, error) {
	if to == StateClosed {
		if err := releaseHeld(ctx, tx, name, asset); err != nil {
			return nil, err
		}
	}
	accounts, err := lockAccount(ctx, tx, name, asset)
	if err != nil {
		return nil, err
	}
	why := ErrAccountState
	var changed []*Account
	for _, a := range accounts {
		switch {
		case a.State == to:
		case a.State == StateClosed:
			why = ErrAccountClosed
		case to == StateClosed && (a.Balance() != 0 || a.DebitsPending != 0 || a.CreditsPending != 0):
			return nil, fmt.Errorf("%w: %s has a balance of %s %s, with %s of debits and %s of credits pending", ErrNotEmpty, name,
				FormatMinor(a.Balance(), a.Exponent), a.Code, FormatMinor(a.DebitsPending, a.Exponent), FormatMinor(a.CreditsPending, a.Exponent))
		default:
			if _, err := tx.Exec(ctx, `UPDATE accounts SET state = $3 WHERE name = $1 AND asset = $2`, name, a.Code, string(to)); err != nil {
				return nil, fmt.Errorf("change state of account: %w", err)
			}
			a.State = to
			changed = append(changed, a)
		}
	}
	if len(changed) == 0 {
		return nil, fmt.Errorf("%w: %s is %s", why, name, accounts[0].State)
	}
	return changed, nil
}

// SetMetadata puts values into the metadata of an account, in one asset or, if asset
// is empty, in all it has; an empty value removes its key. It returns the accounts.
//
// Errors: ErrAccountUnknown (there is none), ErrMetadata, and those of the database.
func SetMetadata(ctx context.Context, tx pgx.Tx, name, asset string, values map[string]string) ([]*Account, error) {
	accounts, err := lockAccount(ctx, tx, name, asset)
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		if a.Metadata, err = merge(a.Metadata, values); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, `UPDATE accounts SET metadata = $3 WHERE name = $1 AND asset = $2`, name, a.Code, a.Metadata); err != nil {
			return nil, fmt.Errorf("change metadata of account: %w", err)
		}
	}
	return accounts, nil
}

// lockAccount returns an account in one asset, or all, locked in lock order.
func lockAccount(ctx context.Context, tx pgx.Tx, name, asset string) ([]*Account, error) {
	found, err := tx.Query(ctx, storedSQL+`
		WHERE a.name = $1 AND ($2 = '' OR a.asset = $2)
		ORDER BY a.name, a.asset
		FOR NO KEY UPDATE OF a`, name, asset)
	accounts, err := collectAccounts(found, err)
	if err == nil && len(accounts) == 0 {
		err = fmt.Errorf("%w: %s", ErrAccountUnknown, strings.TrimSuffix(name+" in "+asset, " in "))
	}
	return accounts, err
}

// merge puts values over those there are; empty ones remove theirs.
func merge(have, values map[string]string) (map[string]string, error) {
	merged := make(map[string]string, len(have)+len(values))
	maps.Copy(merged, have)
	for key, value := range values {
		switch {
		case key == "" || len(key) > MaxMetadataKey:
			return nil, fmt.Errorf("%w: the key %q has %d bytes, not 1 to %d", ErrMetadata, key, len(key), MaxMetadataKey)
		case len(value) > MaxMetadataValue:
			return nil, fmt.Errorf("%w: the value of %s has %d bytes, at most %d are allowed", ErrMetadata, key, len(value), MaxMetadataValue)
		case !storable(key) || !storable(value):
			return nil, fmt.Errorf("%w: %q is not UTF-8 text without NUL", ErrMetadata, key)
		case value == "":
			delete(merged, key)
		default:
			merged[key] = value
		}
	}
	if len(merged) > MaxMetadataKeys {
		return nil, fmt.Errorf("%w: %d keys, at most %d are allowed", ErrMetadata, len(merged), MaxMetadataKeys)
	}
	return merged, nil
}

func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }
