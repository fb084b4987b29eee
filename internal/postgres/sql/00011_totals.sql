-- +goose Up

-- Workers write down the totals they are told; the guard wants an operation for each
-- change, and they delete none.
GRANT SELECT ON totals TO onceledger_worker;
GRANT INSERT (key, seen) ON totals TO onceledger_worker;
GRANT UPDATE (seen) ON totals TO onceledger_worker;
