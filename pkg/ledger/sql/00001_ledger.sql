-- +goose Up

-- Assets outside ISO 4217, as declared by the configuration.
CREATE TABLE assets (
    code     text     COLLATE "C" PRIMARY KEY,
    exponent smallint NOT NULL CHECK (exponent BETWEEN 0 AND 18)
);

-- One row an account and asset: the sums of its transfers. No index holds a
-- balance, so that every update stays on its page. The limit is that of the
-- configuration when the account last moved.
CREATE TABLE accounts (
    name            text   COLLATE "C" NOT NULL,
    asset           text   COLLATE "C" NOT NULL,
    debits_posted   bigint NOT NULL DEFAULT 0 CHECK (debits_posted >= 0),
    credits_posted  bigint NOT NULL DEFAULT 0 CHECK (credits_posted >= 0),
    debits_pending  bigint NOT NULL DEFAULT 0 CHECK (debits_pending >= 0),
    credits_pending bigint NOT NULL DEFAULT 0 CHECK (credits_pending >= 0),
    balance_limit   text   COLLATE "C",
    limit_policy    text   COLLATE "C",
    opened_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, asset),
    CONSTRAINT accounts_limit_known CHECK (
        balance_limit IN ('debits_must_not_exceed_credits', 'credits_must_not_exceed_debits')),
    CONSTRAINT accounts_policy_known CHECK (
        limit_policy IN ('enforce', 'record') AND (limit_policy IS NULL) = (balance_limit IS NULL))
) WITH (fillfactor = 60);

-- One row a business operation: what is reserved, so that the same money that
-- arrives as another event is seen.
CREATE TABLE operations (
    key      text   COLLATE "C" PRIMARY KEY,
    event_no bigint NOT NULL, -- the event that posted it
    debit    text   COLLATE "C" NOT NULL,
    credit   text   COLLATE "C" NOT NULL,
    asset    text   COLLATE "C" NOT NULL,
    amount   bigint NOT NULL CHECK (amount > 0)
);

-- The ledger: insert-only, one debit and one credit a row, so that both sides
-- are equal by construction.
CREATE TABLE transfers (
    event_no   bigint      NOT NULL,
    n          smallint    NOT NULL,
    operation  text        COLLATE "C" NOT NULL,
    debit      text        COLLATE "C" NOT NULL,
    credit     text        COLLATE "C" NOT NULL,
    asset      text        COLLATE "C" NOT NULL,
    amount     bigint      NOT NULL CHECK (amount > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_no, n),
    CONSTRAINT transfers_two_accounts CHECK (debit <> credit)
);

-- Statements read an account in the order of events.
CREATE INDEX transfers_debit ON transfers (debit, asset, event_no, n);
CREATE INDEX transfers_credit ON transfers (credit, asset, event_no, n);

-- +goose StatementBegin
CREATE FUNCTION transfers_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: % is not allowed, corrections are reversals', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION operations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.xmin::text::bigint <> pg_current_xact_id()::text::bigint % 4294967296 THEN
        RAISE EXCEPTION 'operations: % is not allowed, the operation is posted', TG_OP
            USING ERRCODE = 'restrict_violation', DETAIL = OLD.key;
    END IF;
    RETURN COALESCE(NEW, OLD);
END $$;
-- +goose StatementEnd

CREATE TRIGGER transfers_guard BEFORE UPDATE OR DELETE ON transfers
    FOR EACH ROW EXECUTE FUNCTION transfers_guard();
CREATE TRIGGER transfers_guard_truncate BEFORE TRUNCATE ON transfers
    FOR EACH STATEMENT EXECUTE FUNCTION transfers_guard();
CREATE TRIGGER operations_guard BEFORE UPDATE OR DELETE ON operations
    FOR EACH ROW EXECUTE FUNCTION operations_guard();
CREATE TRIGGER operations_guard_truncate BEFORE TRUNCATE ON operations
    FOR EACH STATEMENT EXECUTE FUNCTION transfers_guard();
-- A posted sum only grows; the condition is evaluated without calling anything.
CREATE TRIGGER accounts_guard BEFORE UPDATE ON accounts
    FOR EACH ROW
    WHEN (NEW.debits_posted < OLD.debits_posted OR NEW.credits_posted < OLD.credits_posted
          OR NEW.name <> OLD.name OR NEW.asset <> OLD.asset)
    EXECUTE FUNCTION transfers_guard();
-- The last guard of a limit: what the worker decided is what holds. Not a CHECK,
-- since a limit that is new to an account may find it passed: money that only
-- eases it must go on.
-- +goose StatementBegin
CREATE FUNCTION accounts_limit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'accounts: the limit % refuses the change of account %', NEW.balance_limit, NEW.name
        USING ERRCODE = 'check_violation', CONSTRAINT = 'accounts_limit';
END $$;
-- +goose StatementEnd
CREATE TRIGGER accounts_limit BEFORE UPDATE ON accounts
    FOR EACH ROW
    WHEN (NEW.limit_policy = 'enforce'
          AND CASE NEW.balance_limit
                  WHEN 'debits_must_not_exceed_credits' THEN
                      NEW.debits_posted + NEW.debits_pending > NEW.credits_posted
                      AND NEW.debits_posted + NEW.debits_pending > OLD.debits_posted + OLD.debits_pending
                  ELSE
                      NEW.credits_posted + NEW.credits_pending > NEW.debits_posted
                      AND NEW.credits_posted + NEW.credits_pending > OLD.credits_posted + OLD.credits_pending
              END)
    EXECUTE FUNCTION accounts_limit();
CREATE TRIGGER accounts_guard_delete BEFORE DELETE ON accounts
    FOR EACH ROW EXECUTE FUNCTION transfers_guard();
CREATE TRIGGER accounts_guard_truncate BEFORE TRUNCATE ON accounts
    FOR EACH STATEMENT EXECUTE FUNCTION transfers_guard();
ALTER TABLE transfers ENABLE ALWAYS TRIGGER transfers_guard;
ALTER TABLE transfers ENABLE ALWAYS TRIGGER transfers_guard_truncate;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_guard;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_guard_truncate;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_guard;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_limit;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_guard_delete;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_guard_truncate;
