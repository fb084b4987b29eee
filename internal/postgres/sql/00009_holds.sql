-- +goose Up

-- Workers open holds, count what is captured, and end them; the guard lets them
-- delete only what their own transaction reserved, and rewrite nothing.
GRANT SELECT, DELETE ON holds TO onceledger_worker;
GRANT INSERT (key) ON holds TO onceledger_worker;
GRANT UPDATE (event_no, debit, credit, asset, amount, expires_at, captured, closed) ON holds TO onceledger_worker;
GRANT INSERT (uncovered) ON transfers TO onceledger_worker;
