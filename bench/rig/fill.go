package rig

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/bench/traffic"
	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/postgres"
)

const (
	// fillChunk is how many events are written between two checkpoints: the WAL of
	// ten million would fill a disk.
	fillChunk = 1_000_000
	// fullness is how full, in per cent, a tree is that grew by keys without order.
	fullness = 70
)

// History is what Fill made.
type History struct {
	// Events have one transfer each, the model among them, and Amount is what they
	// move together in minor units.
	Events int
	Amount int64
	// Bytes is how large the database is.
	Bytes int64
	// Next is the least number that an event after it can have.
	Next int64
}

// keyed are the tables that grow with the events.
var keyed = []string{"events", "operations", "transfers"}

// Fill gives the current database n more events with what belongs to each, like the
// one that a worker has applied already, their ids in order or random as those of
// traffic.Charges are. No worker may run. A million take half a minute and a
// gigabyte.
func (r *Rig) Fill(ctx context.Context, n int, random bool) (History, error) {
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return History{}, fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	h := History{Events: 1}
	if err := conn.QueryRow(ctx, `SELECT sum(amount)::bigint FROM transfers`).Scan(&h.Amount); err != nil {
		return h, fmt.Errorf("read model: %w", err)
	}
	if n > 0 {
		if err := fill(ctx, conn, n, random); err != nil {
			return h, fmt.Errorf("fill with %d events: %w", n, err)
		}
	}
	h.Events += n
	for i := range n {
		h.Amount += traffic.Amount(i)
	}
	if err := conn.QueryRow(ctx, `SELECT nextval('event_numbers'), pg_database_size(current_database())`).Scan(&h.Next, &h.Bytes); err != nil {
		return h, fmt.Errorf("draw number: %w", err)
	}
	return h, nil
}

func fill(ctx context.Context, conn *pgx.Conn, n int, random bool) error {
	// The model: the only event there is.
	var model string
	var base int64
	if err := conn.QueryRow(ctx, `
		SELECT substr(operation, strpos(operation, 'ch_') + 3, 18), nextval('event_numbers')
		FROM transfers`).Scan(&model, &base); err != nil {
		return fmt.Errorf("read model: %w", err)
	}
	drop, create, err := indexes(ctx, conn, random)
	if err != nil {
		return err
	}
	run := func(statements ...string) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("run %.60q: %w", statement, err)
			}
		}
		return nil
	}
	// No guard is in the way: they are about what is changed, not about what is added.
	if err := run(append([]string{
		`CREATE TEMP TABLE model_events AS SELECT * FROM events`,
		`CREATE TEMP TABLE model_operations AS SELECT * FROM operations`,
		`CREATE TEMP TABLE model_transfers AS SELECT * FROM transfers`,
		`SET synchronous_commit = off`, `SET maintenance_work_mem = '512MB'`,
		`SELECT setval('event_numbers', ` + fmt.Sprint(base+int64(n/1000+2)*1000) + `, false)`,
	}, drop...)...); err != nil {
		return err
	}
	id := `lpad(i::text, 18, '0')`
	if random {
		id = `left(encode(sha256(i::text::bytea), 'hex'), 18)`
	}
	for from := 0; from < n; from += fillChunk {
		for _, statement := range copies {
			statement = strings.NewReplacer("{id}", id, "{model}", model, "{base}", fmt.Sprint(base), "{n}", fmt.Sprint(n),
				"{from}", fmt.Sprint(from), "{to}", fmt.Sprint(min(from+fillChunk, n)-1)).Replace(statement)
			if err := run(statement); err != nil {
				return err
			}
		}
	}
	for _, index := range create {
		if err := run(index, `CHECKPOINT`); err != nil { // the WAL again
			return err
		}
	}
	return run(fillAccounts, `VACUUM ANALYZE events`, `VACUUM ANALYZE operations`, `VACUUM ANALYZE transfers`, `VACUUM ANALYZE accounts`, `CHECKPOINT`)
}

// copies write a chunk: the model's rows with other keys, customers and amounts.
var copies = []string{
	`INSERT INTO events (no, source, event_id, variant, state, outcome, type, occurred_at, body_hash, fingerprint,
	                     rules_version, stream_created, seq, created_at, decided_at)
	 SELECT {base} + i, source, replace(event_id, '{model}', {id}), variant, state, outcome, type, occurred_at,
	        sha256(('body ' || i)::bytea), sha256(('print ' || i)::bytea), rules_version, stream_created - interval '1 day', i + 1,
	        created_at - ({n} - i) * interval '10 ms', decided_at - ({n} - i) * interval '10 ms'
	 FROM generate_series({from}::bigint, {to}) AS i,
	      model_events AS model`,
	`INSERT INTO operations (key, event_no, debit, credit, asset, amount)
	 SELECT replace(key, '{model}', {id}), {base} + i, debit, 'wallet:cus_' || lpad((i % 10000)::text, 5, '0'), asset, 1000 + i % 9000
	 FROM generate_series({from}::bigint, {to}) AS i,
	      model_operations AS model`,
	`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, created_at)
	 SELECT {base} + i, n, replace(operation, '{model}', {id}), debit, 'wallet:cus_' || lpad((i % 10000)::text, 5, '0'), asset,
	        1000 + i % 9000, created_at - ({n} - i) * interval '10 ms'
	 FROM generate_series({from}::bigint, {to}) AS i,
	      model_transfers AS model`,
	`CHECKPOINT`,
}

// fillAccounts makes every balance the sum of its transfers.
const fillAccounts = `
	INSERT INTO accounts (name, asset, debits_posted, credits_posted, balance_limit, limit_policy)
	SELECT moved.name, moved.asset, sum(debit), sum(credit), model.balance_limit, model.limit_policy
	FROM (
		SELECT debit AS name, asset, amount AS debit, 0 AS credit FROM transfers
		UNION ALL
		SELECT credit, asset, 0, amount FROM transfers) AS moved
	LEFT JOIN (SELECT * FROM accounts WHERE balance_limit IS NOT NULL) AS model ON starts_with(moved.name, 'wallet:')
	GROUP BY moved.name, moved.asset, model.balance_limit, model.limit_policy
	ON CONFLICT (name, asset) DO UPDATE
	SET debits_posted = excluded.debits_posted, credits_posted = excluded.credits_posted`

// indexes returns what takes the indexes away and makes them again, which is faster
// than to keep them, and leaves them as full as they would be: those over keys
// without order not quite.
func indexes(ctx context.Context, conn *pgx.Conn, random bool) (drop, create []string, err error) {
	rows, err := conn.Query(ctx, `
		SELECT t.relname, i.relname, COALESCE(pg_get_constraintdef(c.oid), ''), pg_get_indexdef(i.oid)
		FROM pg_index x
		JOIN pg_class i ON i.oid = x.indexrelid
		JOIN pg_class t ON t.oid = x.indrelid
		LEFT JOIN pg_constraint c ON c.conindid = i.oid
		WHERE t.relname = ANY($1)`, keyed)
	if err != nil {
		return nil, nil, fmt.Errorf("list indexes: %w", err)
	}
	var table, name, constraint, definition string
	_, err = pgx.ForEachRow(rows, []any{&table, &name, &constraint, &definition}, func() error {
		if constraint == "" {
			drop, create = append(drop, `DROP INDEX `+name), append(create, definition)
			return nil
		}
		drop = append(drop, `ALTER TABLE `+table+` DROP CONSTRAINT `+name)
		loose := random && table != "transfers" // whose key are numbers
		if loose {
			constraint += fmt.Sprintf(` WITH (fillfactor = %d)`, fullness)
		}
		create = append(create, `ALTER TABLE `+table+` ADD CONSTRAINT `+name+` `+constraint)
		if loose {
			create = append(create, `ALTER INDEX `+name+` RESET (fillfactor)`)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list indexes: %w", err)
	}
	return drop, create, nil
}

// Audit lets the incremental audit come up to what Fill made. A worker that waits for a
// backlog would begin with that, and work on it while it is measured: millions of events
// that nobody has audited yet are nobody's daily life.
func (r *Rig) Audit(ctx context.Context) error {
	pool, err := postgres.Open(ctx, r.database, postgres.Owner)
	if err != nil {
		return err
	}
	defer pool.Close()
	for {
		p, err := audit.Advance(ctx, audit.Options{JS: r.conn.JS, Pool: pool, Meaning: audit.Meaning(r.Catalog)})
		if err != nil || !p.More {
			return err
		}
	}
}

// CheckGrown recounts a filled database: what came after h, and that all balances
// together are all that was moved. It takes no look at each row of h again.
func (r *Rig) CheckGrown(ctx context.Context, h History) (events, transfers int, amount int64, err error) {
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM events WHERE no >= $1 AND state = 'completed' AND outcome = 'applied'),
		       (SELECT count(*) FROM transfers WHERE event_no >= $1),
		       (SELECT COALESCE(sum(amount), 0)::bigint FROM transfers WHERE event_no >= $1)`, h.Next).Scan(&events, &transfers, &amount)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("recount what was added: %w", err)
	}
	var debits, credits int64
	if err := conn.QueryRow(ctx, `SELECT sum(debits_posted)::bigint, sum(credits_posted)::bigint FROM accounts`).Scan(&debits, &credits); err != nil {
		return 0, 0, 0, fmt.Errorf("recount balances: %w", err)
	}
	if want := h.Amount + amount; debits != want || credits != want {
		return 0, 0, 0, fmt.Errorf("recount balances: debits of %d and credits of %d, and both must be %d", debits, credits, want)
	}
	return events, transfers, amount, nil
}

// Drop removes the current database, to give back its disk; Reset makes the next.
func (r *Rig) Drop(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, r.stack.DatabaseURL)
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range []string{
		`DROP DATABASE ` + pgx.Identifier{fmt.Sprintf("bench_%d", r.databases)}.Sanitize() + ` WITH (FORCE)`, `CHECKPOINT`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("drop database: %w", err)
		}
	}
	return nil
}
