package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// AccountChange says which account is changed, and by whom.
type AccountChange struct {
	// Account in one Asset; an empty one means all that it has.
	Account, Asset string
	// Metadata is set; an empty value removes its key.
	Metadata map[string]string
	// Actor is who does it, default the user of this machine; Note is why.
	Actor, Note string
	// DryRun only shows what would be done.
	DryRun bool
}

// ChangedAccount is an account after a change. Its JSON names are part of the
// public interface.
type ChangedAccount struct {
	// Result is opened, frozen, unfrozen, closed or set. With DryRun nothing was
	// done.
	Result string `json:"result"`
	DryRun bool   `json:"dry_run,omitempty"`
	Account
}

// changing does a change in a transaction and returns the accounts as they are then.
type changing func(context.Context, pgx.Tx) ([]*ledger.Account, error)

// OpenAccount opens an account in an asset, before anything moves it.
func OpenAccount(ctx context.Context, s *Session, m AccountChange) error {
	if err := rules.CheckAccount(m.Account); err != nil {
		return exit.Usagef("%w", err)
	}
	m.Asset = assetCode(m.Asset)
	if m.Asset == "" {
		return exit.Usagef("say in which asset with --asset")
	}
	cfg, err := s.settings()
	if err != nil {
		return err
	}
	declared := catalog.NewAccounts(cfg)
	if err := declared.CheckAsset(m.Account, m.Asset); err != nil {
		return exit.Usagef("%w", err)
	}
	limit, _ := declared.Limit(m.Account)
	return s.changeAccount(ctx, m, dedupe.VerbOpenAccount, "opened", func(ctx context.Context, tx pgx.Tx) ([]*ledger.Account, error) {
		if _, err := knownAsset(ctx, tx, m.Asset); err != nil {
			return nil, err
		}
		a, err := ledger.OpenAccount(ctx, tx, m.Account, m.Asset, &limit, m.Metadata)
		return []*ledger.Account{a}, err
	})
}

// FreezeAccount lets nothing move an account but what a limit only records. The note
// is required, as it is for what takes it back.
func FreezeAccount(ctx context.Context, s *Session, m AccountChange) error {
	return s.changeState(ctx, m, dedupe.VerbFreezeAccount, ledger.StateFrozen, "frozen")
}

// UnfreezeAccount opens a frozen account again.
func UnfreezeAccount(ctx context.Context, s *Session, m AccountChange) error {
	return s.changeState(ctx, m, dedupe.VerbUnfreezeAccount, ledger.StateOpen, "unfrozen")
}

// CloseAccount closes an empty account for good.
func CloseAccount(ctx context.Context, s *Session, m AccountChange) error {
	return s.changeState(ctx, m, dedupe.VerbCloseAccount, ledger.StateClosed, "closed")
}

func (s *Session) changeState(ctx context.Context, m AccountChange, verb dedupe.Verb, to ledger.State, done string) error {
	if strings.TrimSpace(m.Note) == "" && !m.DryRun {
		return exit.Usagef("it needs --note: why is the account %s?", done)
	}
	return s.changeAccount(ctx, m, verb, done, func(ctx context.Context, tx pgx.Tx) ([]*ledger.Account, error) {
		return ledger.SetState(ctx, tx, m.Account, assetCode(m.Asset), to)
	})
}

// SetAccount changes the metadata of an account.
func SetAccount(ctx context.Context, s *Session, m AccountChange) error {
	if len(m.Metadata) == 0 {
		return exit.Usagef("say what to set, as in owner=Ada; owner= removes it")
	}
	return s.changeAccount(ctx, m, dedupe.VerbSetAccount, "set", func(ctx context.Context, tx pgx.Tx) ([]*ledger.Account, error) {
		return ledger.SetMetadata(ctx, tx, m.Account, assetCode(m.Asset), m.Metadata)
	})
}

// changeAccount does a change, with a record of it in the same transaction.
func (s *Session) changeAccount(ctx context.Context, m AccountChange, verb dedupe.Verb, done string, do changing) error {
	pool, err := s.Database(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	accounts, err := changeAccount(ctx, pool, m.DryRun, do, dedupe.Action{Actor: cmp.Or(m.Actor, userName(s.Env)), Verb: verb, Note: m.Note}, m.Metadata)
	if err != nil {
		return changeHint(err, m)
	}
	would := ""
	if m.DryRun {
		would = "would be "
	}
	for _, a := range accounts {
		if s.JSON {
			if err := s.object(ChangedAccount{Result: done, DryRun: m.DryRun, Account: *accountOf(a)}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(s.Out, "account %s in %s: %s%s\n", printable(a.Name), a.Code, would, done)
	}
	return nil
}

func changeAccount(ctx context.Context, pool *pgxpool.Pool, dry bool, do changing, a dedupe.Action, set map[string]string) ([]*ledger.Account, error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	accounts, err := do(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		a.Detail = dedupe.AccountChange{Account: account.Name, Asset: account.Code, Metadata: set}
		if err := dedupe.Record(ctx, tx, a, nil); err != nil {
			return nil, err
		}
	}
	if dry {
		return accounts, nil
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return accounts, nil
}

// changeHint adds to a refusal what to do about it.
func changeHint(err error, m AccountChange) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, ledger.ErrAccountUnknown):
		return fmt.Errorf("%w\nopen it with: onceledger account open %s --asset %s", err, printable(m.Account), cmp.Or(m.Asset, "CODE"))
	case errors.Is(err, ledger.ErrAccountExists), errors.Is(err, ledger.ErrAccountState):
		return fmt.Errorf("%w\nsee: onceledger account balance %s", err, printable(m.Account))
	case errors.Is(err, ledger.ErrNotEmpty):
		return fmt.Errorf("%w\nlet an event move what is left, and capture or void what is held or wait until it expires, then close it; until then it can be frozen", err)
	case errors.Is(err, ledger.ErrMetadata):
		return exit.Usagef("%w", err)
	case errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "40P01"):
		return fmt.Errorf("%w\naccount %s is busy; try again", err, m.Account)
	}
	return err
}

func checkState(state string) error {
	switch ledger.State(state) {
	case "", ledger.StateOpen, ledger.StateFrozen, ledger.StateClosed:
		return nil
	}
	return exit.Usagef("--state %q is not one of open, frozen, closed", state)
}
