-- +goose Up

-- Workers open accounts with their first transfer and move them; only operators
-- freeze and close them, and say what is known of them.
REVOKE INSERT ON accounts FROM onceledger_worker;
GRANT INSERT (name, asset, debits_posted, credits_posted, debits_pending, credits_pending, balance_limit, limit_policy)
    ON accounts TO onceledger_worker;

-- What was done to an account, and by whom.
CREATE INDEX actions_account ON actions ((detail ->> 'account'), no) WHERE detail ? 'account';
