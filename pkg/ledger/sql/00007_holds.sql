-- +goose Up

-- An operation may open a hold, capture a part of one, or void it. Both columns are
-- null for every other operation, and for all that is there: no row is rewritten. A
-- hold and a void move no money, and a void names nothing but its hold.
ALTER TABLE operations
    ADD COLUMN kind text COLLATE "C",
    ADD COLUMN hold text COLLATE "C", -- the operation of the hold that is captured or voided
    DROP CONSTRAINT operations_amount_check,
    ADD CONSTRAINT operations_amount CHECK (CASE WHEN kind = 'void' THEN amount = 0 ELSE amount > 0 END) NOT VALID,
    ADD CONSTRAINT operations_kind CHECK (
        CASE WHEN kind IS NULL OR kind = 'hold' THEN hold IS NULL
             ELSE kind IN ('capture', 'final_capture', 'void') AND hold IS NOT NULL END) NOT VALID;
CREATE INDEX operations_holds ON operations (hold) INCLUDE (kind, amount) WHERE hold IS NOT NULL;
CREATE INDEX operations_untransferred ON operations (event_no) WHERE kind IN ('hold', 'void');

-- What a hold reserves of the accounts that it names, until expires_at by this
-- server's clock. The content is null where a capture came as a fact before its hold:
-- the row keeps what was captured until the hold is told of, and is locked in its
-- place meanwhile. captured counts every capture, closed says what ended the hold, if
-- not the whole amount was captured.
CREATE TABLE holds (
    key        text   COLLATE "C" PRIMARY KEY, -- its operation
    event_no   bigint,
    debit      text   COLLATE "C",
    credit     text   COLLATE "C",
    asset      text   COLLATE "C",
    amount     bigint CHECK (amount > 0),
    expires_at timestamptz,
    captured   bigint NOT NULL DEFAULT 0 CHECK (captured >= 0),
    closed     text   COLLATE "C" CHECK (closed IN ('final', 'voided', 'expired')),
    held       bigint GENERATED ALWAYS AS (CASE WHEN closed IS NULL AND amount > captured THEN amount - captured ELSE 0 END) STORED,
    CONSTRAINT holds_content CHECK (
        num_nulls(event_no, debit, credit, amount, expires_at) IN (0, 5) AND (amount IS NULL OR asset IS NOT NULL)),
    CONSTRAINT holds_two_accounts CHECK (debit <> credit)
);

-- What is held of an account and has not expired, or has and still counts in its
-- row, is a sum of few entries: holds that have ended leave these indexes.
CREATE INDEX holds_debited ON holds (debit, asset, expires_at) INCLUDE (held) WHERE held > 0;
CREATE INDEX holds_credited ON holds (credit, asset, expires_at) INCLUDE (held) WHERE held > 0;
CREATE INDEX holds_expiring ON holds (expires_at) WHERE held > 0;

-- A hold is opened once; from then on it only comes to its end. Nobody ends it as
-- expired before its time.
-- +goose StatementBegin
CREATE FUNCTION holds_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.xmin::text::bigint = pg_current_xact_id()::text::bigint % 4294967296 THEN
            RETURN OLD; -- reserved by this transaction, and not needed
        END IF;
    ELSIF NEW.key = OLD.key
          AND (OLD.amount IS NULL
               OR (NEW.event_no, NEW.debit, NEW.credit, NEW.amount, NEW.expires_at)
                  IS NOT DISTINCT FROM (OLD.event_no, OLD.debit, OLD.credit, OLD.amount, OLD.expires_at))
          AND (OLD.asset IS NULL OR NEW.asset = OLD.asset)
          AND NEW.captured >= OLD.captured
          AND (NEW.closed IS NOT DISTINCT FROM OLD.closed
               OR OLD.closed IS NULL AND (NEW.closed <> 'expired' OR NEW.expires_at <= now())) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'holds: % is not allowed, a hold only comes to its end', TG_OP
        USING ERRCODE = 'restrict_violation', DETAIL = OLD.key;
END $$;
-- +goose StatementEnd
CREATE TRIGGER holds_guard BEFORE UPDATE OR DELETE ON holds
    FOR EACH ROW EXECUTE FUNCTION holds_guard();
CREATE TRIGGER holds_guard_truncate BEFORE TRUNCATE ON holds
    FOR EACH STATEMENT EXECUTE FUNCTION transfers_guard();
ALTER TABLE holds ENABLE ALWAYS TRIGGER holds_guard;
ALTER TABLE holds ENABLE ALWAYS TRIGGER holds_guard_truncate;

-- The mark of a capture that was posted as a fact: the part of its amount that no
-- hold covered.
ALTER TABLE transfers
    ADD COLUMN uncovered bigint,
    ADD CONSTRAINT transfers_uncovered CHECK (uncovered BETWEEN 1 AND amount) NOT VALID;
CREATE INDEX transfers_uncovered ON transfers (event_no, n) WHERE uncovered IS NOT NULL;

-- An account's row counts a hold until somebody comes to it after its end. The limit
-- does not: the trigger's condition, which is cheap, may call for what is fine.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION accounts_limit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    expired numeric;
BEGIN
    IF NEW.balance_limit = 'debits_must_not_exceed_credits' THEN
        SELECT COALESCE(sum(held), 0) INTO expired
        FROM holds
        WHERE debit = NEW.name AND asset = NEW.asset AND held > 0 AND expires_at <= now();
        IF NEW.debits_posted + (NEW.debits_pending - expired) <= NEW.credits_posted THEN
            RETURN NEW;
        END IF;
    ELSE
        SELECT COALESCE(sum(held), 0) INTO expired
        FROM holds
        WHERE credit = NEW.name AND asset = NEW.asset AND held > 0 AND expires_at <= now();
        IF NEW.credits_posted + (NEW.credits_pending - expired) <= NEW.debits_posted THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'accounts: the limit % refuses the change of account %', NEW.balance_limit, NEW.name
        USING ERRCODE = 'check_violation', CONSTRAINT = 'accounts_limit';
END $$;
-- +goose StatementEnd
