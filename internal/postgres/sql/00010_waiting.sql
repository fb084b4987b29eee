-- +goose Up

GRANT SELECT, INSERT, UPDATE, DELETE ON waiting TO onceledger_worker;
