-- +goose Up

-- A refund may move less than its amount, or nothing, where a running total or other
-- refunds of its operation have moved it before: unmoved is how much less. A total is
-- an operation of its own kind. The column is null for every other operation, and for
-- all that is there: no row is rewritten.
ALTER TABLE operations
    ADD COLUMN unmoved bigint,
    ADD CONSTRAINT operations_unmoved CHECK (unmoved IS NULL OR refunds IS NOT NULL AND unmoved BETWEEN 1 AND amount) NOT VALID,
    DROP CONSTRAINT operations_kind,
    ADD CONSTRAINT operations_kind CHECK (
        CASE WHEN kind IS NULL OR kind = 'hold' THEN hold IS NULL
             WHEN kind = 'total' THEN hold IS NULL AND refunds IS NOT NULL
             ELSE kind IN ('capture', 'final_capture', 'void') AND hold IS NOT NULL END) NOT VALID;
CREATE INDEX operations_told ON operations (event_no) WHERE unmoved IS NOT NULL OR kind = 'total';

-- The highest total told of what was given back of an operation. It is changed under
-- the lock of its operation's row.
CREATE TABLE totals (
    key  text   COLLATE "C" PRIMARY KEY, -- the operation whose refunds are told of
    seen bigint NOT NULL CHECK (seen > 0)
);

-- It only rises, with a total of this transaction.
-- +goose StatementBegin
CREATE FUNCTION totals_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    allowed boolean := false;
BEGIN
    IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND NEW.key = OLD.key AND NEW.seen > OLD.seen THEN
        SELECT EXISTS (SELECT FROM operations o
                       WHERE o.refunds = NEW.key AND o.kind = 'total' AND o.amount >= NEW.seen
                         AND o.xmin::text::bigint = pg_current_xact_id()::text::bigint % 4294967296) INTO allowed;
    END IF;
    IF NOT allowed THEN
        RAISE EXCEPTION 'totals: % is not allowed, a total follows its operations', TG_OP
            USING ERRCODE = 'restrict_violation', DETAIL = COALESCE(NEW.key, OLD.key);
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER totals_guard BEFORE INSERT OR UPDATE OR DELETE ON totals
    FOR EACH ROW EXECUTE FUNCTION totals_guard();
CREATE TRIGGER totals_guard_truncate BEFORE TRUNCATE ON totals
    FOR EACH STATEMENT EXECUTE FUNCTION transfers_guard();
ALTER TABLE totals ENABLE ALWAYS TRIGGER totals_guard;
ALTER TABLE totals ENABLE ALWAYS TRIGGER totals_guard_truncate;
