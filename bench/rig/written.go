package rig

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/devstack"
)

// Written is what was written since the services started, in bytes.
type Written struct {
	// WAL is that of Postgres.
	WAL int64
	// Postgres and NATS are what the two gave to the disk in all, the WAL among it.
	// Only on Linux; 0 elsewhere.
	Postgres, NATS int64
	// Syncs counts how often Postgres synced its WAL, Flushes how often the disk was
	// told to keep what it has, by whomever; the disk's only on Linux.
	Syncs, Flushes int64
}

// Since is what was written after before.
func (w Written) Since(before Written) Written {
	return Written{
		WAL: w.WAL - before.WAL, Postgres: w.Postgres - before.Postgres, NATS: w.NATS - before.NATS,
		Syncs: w.Syncs - before.Syncs, Flushes: w.Flushes - before.Flushes,
	}
}

// Written asks Postgres and the system.
func (r *Rig) Written(ctx context.Context) (Written, error) {
	w := Written{Postgres: serviceWrote(r.stack.Postgres), NATS: serviceWrote(r.stack.NATS), Flushes: flushes(r.dir)}
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return w, fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// Not every version has the column.
	if err := conn.QueryRow(ctx, `
		SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint, COALESCE((to_jsonb(w) ->> 'wal_sync')::bigint, 0)
		FROM pg_stat_wal AS w`).Scan(&w.WAL, &w.Syncs); err != nil {
		return w, fmt.Errorf("read position of wal: %w", err)
	}
	return w, nil
}

func serviceWrote(service *devstack.Service) int64 {
	if p := service.Process(); p != nil {
		return wrote(p.PID())
	}
	return 0
}

// Checkpoint lets Postgres write every changed page: what it writes next to its WAL
// is whole pages again.
func (r *Rig) Checkpoint(ctx context.Context) error { return r.exec(ctx, `CHECKPOINT`) }

func (r *Rig) exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("run %.60q: %w", statement, err)
		}
	}
	return nil
}

// Memory is how much of the program is in memory now, in bytes. Only on Linux; 0
// elsewhere.
func (p *Program) Memory() int64 { return status(p.PID(), "VmRSS:") }

// PeakMemory is the most that Memory ever was, or has been since ForgetPeak.
func (p *Program) PeakMemory() int64 { return status(p.PID(), "VmHWM:") }

// ForgetPeak begins PeakMemory anew, where the system lets it.
func (p *Program) ForgetPeak() { forgetPeak(p.PID()) }
