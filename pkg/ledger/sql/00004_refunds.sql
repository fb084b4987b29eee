-- +goose Up

-- The operation of which a transfer gives back a part: what all of them give back
-- is at most its amount. The column is null for all that is there, and for all
-- that is no refund: no row is rewritten, and the index holds refunds alone.
ALTER TABLE operations ADD COLUMN refunds text COLLATE "C";
CREATE INDEX operations_refunds ON operations (refunds) INCLUDE (amount) WHERE refunds IS NOT NULL;
