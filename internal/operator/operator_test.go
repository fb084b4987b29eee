package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// TestCommands prints what one small history left behind.
func TestCommands(t *testing.T) {
	s := newSystem(t)
	escape := event("evt_esc", "paid\x1b[2J", `{}`)
	escape.Fault = "bad_json"
	s.decide(
		payment("evt_1", "p1", "1999", "EUR"),
		payment("evt_1", "p1", "2999", "EUR"),
		payment("evt_2", "p2", "5", "GEMS"),
		payment("evt_3", "p3", `"many"`, "EUR"),
		payment("evt_3", "p3", "1", "EUR"), // makes the letter before it stale
		event("evt_4", "looked at", `{"id":"evt_4"}`),
		&envelope.Event{Source: "nowhere", ID: "evt_5", Type: "paid", Data: []byte{0xff, 0x00}},
		escape,
	)
	s.renumber()

	s.golden("event", func(ctx context.Context, o *operator.Session) error {
		return operator.ShowEvent(ctx, o, "shop", "evt_1")
	})
	s.golden("event_ignored", func(ctx context.Context, o *operator.Session) error {
		return operator.ShowEvent(ctx, o, "shop", "evt_4")
	})
	s.golden("accounts", func(ctx context.Context, o *operator.Session) error { return operator.ListAccounts(ctx, o, "", "", "") })
	s.golden("accounts_purse", func(ctx context.Context, o *operator.Session) error {
		return operator.ListAccounts(ctx, o, "purse:", "EUR", "open")
	})
	s.golden("balance", func(ctx context.Context, o *operator.Session) error {
		return operator.ShowBalance(ctx, o, "purse:a", time.Time{})
	})
	s.golden("statement", func(ctx context.Context, o *operator.Session) error {
		return operator.ShowStatement(ctx, o, operator.StatementQuery{Account: "purse:a", Asset: "EUR", Limit: 1})
	})
	s.golden("dlq", func(ctx context.Context, o *operator.Session) error {
		return operator.ListLetters(ctx, o, operator.LetterQuery{})
	})
	s.golden("dlq_conflict", func(ctx context.Context, o *operator.Session) error {
		return operator.ListLetters(ctx, o, operator.LetterQuery{Reason: "id_conflict"})
	})
	s.golden("letter", func(ctx context.Context, o *operator.Session) error { return operator.ShowLetter(ctx, o, 1, false) })
	s.golden("letter_stale", func(ctx context.Context, o *operator.Session) error { return operator.ShowLetter(ctx, o, 2, false) })
	s.golden("audit", func(ctx context.Context, o *operator.Session) error { return operator.Audit(ctx, o, time.Minute) })
	s.golden("export", func(ctx context.Context, o *operator.Session) error {
		return operator.ExportEvents(ctx, o, time.Time{})
	})

	t.Run("a statement continues from its cursor", func(t *testing.T) {
		var ids []string
		for after, balance := "", int64(0); ; {
			out, err := s.run(true, func(ctx context.Context, o *operator.Session) error {
				return operator.ShowStatement(ctx, o, operator.StatementQuery{Account: "purse:a", Asset: "EUR", After: after, Limit: 1})
			})
			require.NoError(t, err)
			page := lines[operator.Entry](t, out)
			require.Equal(t, balance, page[0].Balance, "brought forward")
			if page[1].Kind == "entry" {
				ids = append(ids, page[1].EventID)
			}
			last := page[len(page)-1]
			if balance = last.Balance; last.Kind == "closing" {
				break
			}
			require.Equal(t, "carried", last.Kind)
			after = last.Cursor
		}
		require.Equal(t, []string{"evt_1", "evt_3"}, ids)
	})
	t.Run("an export begins where it is told to", func(t *testing.T) {
		out, err := s.run(true, func(ctx context.Context, o *operator.Session) error {
			return operator.ExportEvents(ctx, o, time.Now().Add(time.Hour))
		})
		require.NoError(t, err)
		require.Empty(t, out)
	})
	t.Run("a letter's raw body is what was received", func(t *testing.T) {
		out, err := s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.ShowLetter(ctx, o, 1, true) })
		require.NoError(t, err)
		require.Equal(t, string(payment("evt_1", "p1", "2999", "EUR").Data), out)
	})
	t.Run("no text from outside reaches the terminal as control characters", func(t *testing.T) {
		out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
			return operator.ListLetters(ctx, o, operator.LetterQuery{})
		})
		require.NoError(t, err)
		require.NotContains(t, out, "\x1b")
	})
	t.Run("what is not there is an error that says where to look", func(t *testing.T) {
		for text, command := range map[string]func(context.Context, *operator.Session) error{
			"not received, or no worker has decided it": func(ctx context.Context, o *operator.Session) error {
				return operator.ShowEvent(ctx, o, "shop", "evt_none")
			},
			"accounts open with their first transfer": func(ctx context.Context, o *operator.Session) error {
				return operator.ShowBalance(ctx, o, "purse:none", time.Time{})
			},
			"no such dead letter: 99": func(ctx context.Context, o *operator.Session) error { return operator.ShowLetter(ctx, o, 99, false) },
			"it has EUR, GEMS": func(ctx context.Context, o *operator.Session) error {
				return operator.ShowStatement(ctx, o, operator.StatementQuery{Account: "purse:a", Asset: "USD"})
			},
		} {
			_, err := s.run(false, command)
			require.ErrorContains(t, err, text)
			require.Equal(t, exit.Failed, exit.Code(err))
		}
	})
	t.Run("what is asked wrongly is a usage error", func(t *testing.T) {
		for text, command := range map[string]func(context.Context, *operator.Session) error{
			"choose one with --asset": func(ctx context.Context, o *operator.Session) error {
				return operator.ShowStatement(ctx, o, operator.StatementQuery{Account: "purse:a"})
			},
			"is not a cursor": func(ctx context.Context, o *operator.Session) error {
				return operator.ShowStatement(ctx, o, operator.StatementQuery{Account: "purse:a", Asset: "EUR", After: "x"})
			},
			"--reason \"none\" is unknown": func(ctx context.Context, o *operator.Session) error {
				return operator.ListLetters(ctx, o, operator.LetterQuery{Reason: "none"})
			},
		} {
			_, err := s.run(false, command)
			require.ErrorContains(t, err, text)
			require.Equal(t, exit.Usage, exit.Code(err))
		}
	})
	t.Run("an audit that finds something exits with 4", func(t *testing.T) {
		_, err := dlq.Park(t.Context(), s.js, dlq.Letter{Source: "shop", EventID: "evt_none", Reason: dlq.RuleError})
		require.NoError(t, err)
		out, err := s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.Audit(ctx, o, time.Minute) })
		require.EqualError(t, err, "the audit found 1 problem")
		require.Equal(t, exit.Found, exit.Code(err))
		require.Contains(t, out, "letter_unknown")
	})
}

func TestMigrate(t *testing.T) {
	s := newSystem(t)

	t.Run("says that nothing was missing", func(t *testing.T) {
		s.golden("migrate_again", operator.Migrate)
	})
	t.Run("brings an empty database and broker up to date", func(t *testing.T) {
		s.dropStreams()
		s.env["DATABASE_URL"] = pgtest.Schema(s.t, stack.DatabaseURL)
		out, err := s.run(true, operator.Migrate)
		require.NoError(t, err)
		var done operator.Migration
		require.NoError(t, json.Unmarshal([]byte(out), &done))
		require.NotZero(t, done.Applied)
		require.Equal(t, []string{stream.Events, stream.DLQ}, done.Streams)
		_, err = s.js.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
	})
	t.Run("refuses streams with other settings", func(t *testing.T) {
		events, err := s.js.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		other := events.CachedInfo().Config
		other.MaxBytes *= 2
		_, err = s.js.UpdateStream(t.Context(), other)
		require.NoError(t, err)
		_, err = s.run(false, operator.Migrate)
		require.ErrorIs(t, err, stream.ErrSettings)
		require.Equal(t, exit.Refused, exit.Code(err))
	})
	t.Run("refuses a database of a newer release", func(t *testing.T) {
		url := pgtest.Migrated(s.t, stack.DatabaseURL)
		pgtest.Exec(t, url, `INSERT INTO ledger_migrations (version_id, is_applied) VALUES (99, true)`)
		before := s.env["DATABASE_URL"]
		s.env["DATABASE_URL"] = url
		defer func() { s.env["DATABASE_URL"] = before }()
		_, err := s.run(false, operator.Migrate)
		require.ErrorIs(t, err, postgres.ErrSchema)
		require.Equal(t, exit.Refused, exit.Code(err))
	})
	t.Run("leaves the broker alone where none is configured", func(t *testing.T) {
		delete(s.env, "NATS_URL")
		delete(s.env, "ONCELEDGER_CONFIG")
		t.Chdir(t.TempDir()) // where no onceledger.yaml is
		s.golden("migrate_database", operator.Migrate)
	})
}

func TestSessionFindsTheSystem(t *testing.T) {
	s := newSystem(t)
	list := func(session *operator.Session) error {
		session.Out = &bytes.Buffer{}
		return operator.ListAccounts(t.Context(), session, "", "", "")
	}
	empty := func(string) (string, bool) { return "", false }

	t.Run("nowhere: says all ways to name it", func(t *testing.T) {
		t.Chdir(t.TempDir())
		err := list(&operator.Session{Env: empty})
		require.ErrorContains(t, err, "--data DIR")
		require.ErrorContains(t, err, "DATABASE_URL")
		require.Equal(t, exit.Usage, exit.Code(err))
	})
	t.Run("in a folder where nothing runs: says how to start it", func(t *testing.T) {
		dir := t.TempDir()
		err := list(&operator.Session{Env: empty, Data: dir})
		require.ErrorContains(t, err, "onceledger up --data "+dir)
	})
	t.Run("in a folder whose stack is gone: asks whether it runs", func(t *testing.T) {
		dir := t.TempDir()
		text, err := json.Marshal(devstack.Addresses{DatabaseURL: "postgres://u:hunter2@127.0.0.1:1/x"})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stack.json"), text, 0o600))
		err = list(&operator.Session{Env: empty, Data: dir})
		require.ErrorContains(t, err, "still running?")
		require.NotContains(t, err.Error(), "hunter2")
	})
	t.Run("by the stack's addresses, over the environment", func(t *testing.T) {
		dir := t.TempDir()
		text, err := json.Marshal(devstack.Addresses{DatabaseURL: s.env["DATABASE_URL"]})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stack.json"), text, 0o600))
		require.NoError(t, list(&operator.Session{Env: databaseAt("postgres://127.0.0.1:1/x"), Data: dir}))
	})
	t.Run("with the configuration that the stack runs with, unless another is named", func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "onceledger.yaml"), "of an earlier run")
		text, err := json.Marshal(devstack.Addresses{DatabaseURL: s.env["DATABASE_URL"], Config: s.env["ONCELEDGER_CONFIG"]})
		require.NoError(t, err)
		writeFile(t, filepath.Join(dir, "stack.json"), string(text))
		require.Equal(t, s.env["ONCELEDGER_CONFIG"], (&operator.Session{Env: empty, Data: dir}).ConfigPath())
		require.Equal(t, "c.yaml", (&operator.Session{Env: empty, Data: dir, Config: "c.yaml"}).ConfigPath())
	})
	t.Run("by a configuration whose secrets this shell does not know", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "other.yaml")
		text := strings.Replace(configuration, "secret-of-the-shop", "${SHOP_SECRET}", 1) + "database: {url: '" + s.env["DATABASE_URL"] + "'}\n"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, list(&operator.Session{Env: empty, Config: file}))
	})
	t.Run("a schema of another release is refused", func(t *testing.T) {
		err := list(&operator.Session{Env: databaseAt(pgtest.Schema(t, stack.DatabaseURL))})
		require.Equal(t, exit.Refused, exit.Code(err), "%v", err)
	})
}

// databaseAt is an environment that knows the database alone.
func databaseAt(url string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if name == "DATABASE_URL" {
			return url, true
		}
		return "", false
	}
}
