-- +goose Up

GRANT UPDATE (attempt, crashes) ON events TO onceledger_worker;
GRANT SELECT, INSERT ON actions TO onceledger_worker;
