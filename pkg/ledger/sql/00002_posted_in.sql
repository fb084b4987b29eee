-- +goose Up

-- posted_in is the transaction that posted a transfer. Transactions commit in
-- another order than they begin, so what is below the oldest one that still
-- runs (pg_snapshot_xmin) is complete, and nothing will be added to it: the
-- incremental audit reads from there. Rows from before this migration, and rows
-- that a dump brought from another server, have a posted_in that is not their
-- xmin, which tells them apart.
ALTER TABLE transfers ADD COLUMN posted_in xid8 NOT NULL DEFAULT pg_current_xact_id();

-- All rows of a batch share one value, so that the index is small and grows at
-- its right end only.
CREATE INDEX transfers_posted_in ON transfers (posted_in);
