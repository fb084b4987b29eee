-- +goose Up

GRANT SELECT, INSERT, UPDATE, DELETE ON readings TO onceledger_worker;
