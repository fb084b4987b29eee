-- +goose Up

-- What a worker may do, as a role of its own: insert and read, and change only
-- balances and event states. A worker takes the role on connecting. Where the
-- migrating user may not create roles, an administrator creates it beforehand.
-- +goose StatementBegin
DO $$
BEGIN
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'onceledger_worker') THEN
            CREATE ROLE onceledger_worker NOLOGIN;
        END IF;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL; -- another database's migration was first
    END;
    -- Since Postgres 16 the maker of a role is a member who may not take it.
    IF NOT pg_has_role(current_user, 'onceledger_worker',
                       CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
        EXECUTE format('GRANT onceledger_worker TO %I', current_user);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO onceledger_worker', current_schema());
END $$;
-- +goose StatementEnd

GRANT USAGE ON SEQUENCE event_numbers TO onceledger_worker;
GRANT SELECT, INSERT ON assets, transfers TO onceledger_worker;
GRANT SELECT, INSERT, DELETE ON operations TO onceledger_worker; -- the guard lets it delete only what its own transaction reserved
GRANT UPDATE ON operations TO onceledger_worker; -- for row locks; the guard refuses changes
GRANT SELECT, INSERT ON events, accounts TO onceledger_worker;
GRANT UPDATE (state, outcome, reason, error, type, occurred_at, body_hash, fingerprint, rules_version, stream_created,
              seq, attempts, redrives, first_failed_at, next_try_at, dlq_seq, decided_at)
    ON events TO onceledger_worker;
GRANT UPDATE (debits_posted, credits_posted, debits_pending, credits_pending, balance_limit, limit_policy) ON accounts TO onceledger_worker;
GRANT SELECT ON dedupe_migrations, ledger_migrations, postgres_migrations TO onceledger_worker;
