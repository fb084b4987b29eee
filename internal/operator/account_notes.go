package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// accountAction is what was done to an account, in one of its assets.
type accountAction struct {
	Action
	change dedupe.AccountChange
}

// readHistory returns what was done to an account, oldest first.
func readHistory(ctx context.Context, pool *pgxpool.Pool, account string) ([]accountAction, error) {
	done, err := dedupe.AccountActions(ctx, pool, account)
	if err != nil {
		return nil, err
	}
	history := make([]accountAction, len(done))
	for i, a := range done {
		history[i].Action = Action{At: a.At.UTC(), Actor: a.Actor, Verb: string(a.Verb), Note: a.Note, Detail: a.Detail}
		raw, _ := a.Detail.(json.RawMessage)
		if err := json.Unmarshal(raw, &history[i].change); err != nil {
			return nil, fmt.Errorf("read action of %s: %w", a.At.UTC(), err)
		}
	}
	return history, nil
}

// actionsOn selects those in one asset.
func actionsOn(history []accountAction, asset string) []Action {
	var actions []Action
	for _, a := range history {
		if a.change.Asset == asset {
			actions = append(actions, a.Action)
		}
	}
	return actions
}

// printNotes prints the metadata of an account, and what was done to it.
func (s *Session) printNotes(accounts []*ledger.Account, history []accountAction) error {
	t := newTable(s.Out, "ASSET", "KEY", "VALUE")
	noted := false
	for _, a := range accounts {
		for _, key := range slices.Sorted(maps.Keys(a.Metadata)) {
			noted = true
			t.row(a.Code, key, a.Metadata[key])
		}
	}
	if noted {
		fmt.Fprintln(s.Out)
		if err := t.flush(); err != nil {
			return err
		}
	}
	if len(history) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	t = newTable(s.Out, "DONE", "BY", "ASSET", "ACTION", "NOTE")
	for _, a := range history {
		what := []string{a.Verb}
		for _, key := range slices.Sorted(maps.Keys(a.change.Metadata)) {
			what = append(what, key+"="+a.change.Metadata[key])
		}
		t.row(when(a.At), a.Actor, a.change.Asset, strings.Join(what, " "), cmp.Or(a.Note, "-"))
	}
	return t.flush()
}
