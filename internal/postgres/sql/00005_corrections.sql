-- +goose Up

-- Workers post; only operators reverse.
REVOKE INSERT ON transfers FROM onceledger_worker;
GRANT INSERT (event_no, n, operation, debit, credit, asset, amount) ON transfers TO onceledger_worker;
