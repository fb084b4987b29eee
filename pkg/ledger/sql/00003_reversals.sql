-- +goose Up

-- A correction takes back what an event has posted with a reversal: a transfer
-- of the same event that moves the same money the other way. reverses is the n
-- of the transfer that it takes back. A transfer stands if it is no reversal and
-- has none. The column is null for all that is there: no row is rewritten.
ALTER TABLE transfers
    ADD COLUMN reverses smallint,
    ADD CONSTRAINT transfers_reverses CHECK (reverses < n) NOT VALID;

-- Nothing is taken back twice.
CREATE UNIQUE INDEX transfers_reversed ON transfers (event_no, reverses) WHERE reverses IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION transfers_reversal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM transfers t
                   WHERE t.event_no = NEW.event_no AND t.n = NEW.reverses AND t.reverses IS NULL
                     AND (t.operation, t.debit, t.credit, t.asset, t.amount)
                         = (NEW.operation, NEW.credit, NEW.debit, NEW.asset, NEW.amount)) THEN
        RAISE EXCEPTION 'transfers: a reversal must take back a transfer of its event as a whole'
            USING ERRCODE = 'restrict_violation', DETAIL = NEW.operation;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER transfers_reversal BEFORE INSERT ON transfers
    FOR EACH ROW WHEN (NEW.reverses IS NOT NULL)
    EXECUTE FUNCTION transfers_reversal();
ALTER TABLE transfers ENABLE ALWAYS TRIGGER transfers_reversal;

-- An operation is posted once and for all, with one exception: the transaction
-- that reverses its transfer may give the operation up, or give it the content
-- and the event that stand from then on.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION operations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.xmin::text::bigint <> pg_current_xact_id()::text::bigint % 4294967296
       AND (TG_OP = 'UPDATE' AND NEW.key <> OLD.key
            OR NOT EXISTS (SELECT FROM transfers r
                           WHERE r.event_no = OLD.event_no AND r.operation = OLD.key
                             AND r.reverses IS NOT NULL AND r.posted_in = pg_current_xact_id())) THEN
        RAISE EXCEPTION 'operations: % is not allowed, the operation is posted', TG_OP
            USING ERRCODE = 'restrict_violation', DETAIL = OLD.key;
    END IF;
    RETURN COALESCE(NEW, OLD);
END $$;
-- +goose StatementEnd
