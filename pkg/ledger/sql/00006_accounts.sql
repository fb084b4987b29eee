-- +goose Up

-- An account is open; frozen, so that nothing but facts moves it; or closed, for
-- good. Both columns have constant defaults: no row is rewritten.
ALTER TABLE accounts
    ADD COLUMN state    text  COLLATE "C" NOT NULL DEFAULT 'open',
    ADD COLUMN metadata jsonb NOT NULL DEFAULT '{}',
    ADD CONSTRAINT accounts_state_known CHECK (state IN ('open', 'frozen', 'closed')) NOT VALID;

-- Batches look for the few accounts among theirs that are not open. It holds no
-- column that a batch changes, so that every update still stays on its page.
CREATE INDEX accounts_not_open ON accounts (name, asset) WHERE state <> 'open';

-- The last guard of a state. A batch locks accounts without a limit only when it
-- writes: one that was frozen since the batch looked at it is seen here, and here
-- alone. Trying the transaction again then sees it in time. What eases a hold
-- always passes, and so does, while the account is frozen, what its limit records.
-- +goose StatementBegin
CREATE FUNCTION accounts_state() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    debited  boolean := NEW.debits_posted > OLD.debits_posted OR NEW.debits_pending > OLD.debits_pending;
    credited boolean := NEW.credits_posted > OLD.credits_posted OR NEW.credits_pending > OLD.credits_pending;
BEGIN
    IF OLD.state = 'closed' AND NEW.state <> 'closed' THEN
        RAISE EXCEPTION 'accounts: account % is closed for good', NEW.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'closed'
       AND (NEW.debits_posted <> NEW.credits_posted OR NEW.debits_pending <> 0 OR NEW.credits_pending <> 0) THEN
        RAISE EXCEPTION 'accounts: account % has a balance, or something pending', NEW.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'frozen' AND NEW.limit_policy = 'record' THEN
        IF NEW.balance_limit = 'debits_must_not_exceed_credits' THEN
            debited := false;
        ELSE
            credited := false;
        END IF;
    END IF;
    IF OLD.state <> 'open' AND (debited OR credited) THEN
        RAISE EXCEPTION 'accounts: account % is %', NEW.name, OLD.state
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER accounts_state BEFORE UPDATE ON accounts
    FOR EACH ROW
    WHEN (OLD.state <> 'open' OR NEW.state <> 'open')
    EXECUTE FUNCTION accounts_state();
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_state;
