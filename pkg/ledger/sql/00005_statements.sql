-- +goose Up

-- Statements and balances of an instant read an account in the order of
-- recorded time: a reversal stands where it was posted, not at the event that it
-- takes back. With the amount at hand, a sum reads no row of the table. They
-- stand in for the two indexes in the order of events.
CREATE INDEX transfers_debited ON transfers (debit, asset, created_at, event_no, n) INCLUDE (amount);
CREATE INDEX transfers_credited ON transfers (credit, asset, created_at, event_no, n) INCLUDE (amount);
DROP INDEX transfers_debit;
DROP INDEX transfers_credit;
