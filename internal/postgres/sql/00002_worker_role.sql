-- +goose Up

GRANT UPDATE (attempt, crashes) ON events TO onceledger_worker;
