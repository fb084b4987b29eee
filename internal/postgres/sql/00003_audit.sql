-- +goose Up

-- How far the incremental audit has come. A mark is written after the rows it
-- relies on, so a database that is restored, or a standby that takes over, has
-- a mark that is as old as its rows: what is missing is found again.
CREATE TABLE audit_marks (
    stream_created timestamptz PRIMARY KEY, -- the incarnation of EVENTS
    seq            bigint      NOT NULL CHECK (seq >= 0), -- everything up to here is in sum, in gone or in audit_open
    sum            jsonb       NOT NULL,
    gone           bigint      NOT NULL DEFAULT 0 CHECK (gone >= 0), -- trimmed from the stream before they were accounted for
    version        bigint      NOT NULL,
    at             timestamptz NOT NULL DEFAULT now()
);

-- Messages up to the mark that are in flight or unaccounted.
CREATE TABLE audit_open (
    stream_created timestamptz NOT NULL,
    seq            bigint      NOT NULL,
    source         text        COLLATE "C" NOT NULL,
    event_id       text        COLLATE "C" NOT NULL,
    body_hash      bytea       NOT NULL,
    stored_at      timestamptz NOT NULL,
    redrive        boolean     NOT NULL,
    copy_seq       bigint      NOT NULL DEFAULT 0, -- the message with which the sweep sent it again
    PRIMARY KEY (stream_created, seq)
);

-- The sums of all transfers that were posted before a transaction, by account.
CREATE TABLE audit_balances (
    name    text    COLLATE "C" NOT NULL,
    asset   text    COLLATE "C" NOT NULL,
    debits  numeric NOT NULL,
    credits numeric NOT NULL,
    PRIMARY KEY (name, asset)
);

CREATE TABLE audit_ledger (
    one           boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster       bigint  NOT NULL, -- the server whose transactions are meant
    posted_before bigint,           -- null while audit_balances is being built
    suspects      bigint[] NOT NULL DEFAULT '{}', -- events whose transfers are wrong
    version       bigint  NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON audit_marks, audit_open, audit_balances, audit_ledger TO onceledger_worker;
GRANT SELECT, INSERT ON superseded TO onceledger_worker;
