-- +goose Up

-- What was sent again and is not answered yet, by its content: whoever sends a
-- message again claims its content first, so that the sweep and a replay do not
-- both send it, and two messages of one event are sent as one.
CREATE TABLE audit_copies (
    stream_created timestamptz NOT NULL, -- the incarnation of EVENTS
    source         text        COLLATE "C" NOT NULL,
    event_id       text        COLLATE "C" NOT NULL,
    body_hash      bytea       NOT NULL CHECK (length(body_hash) = 32),
    copy_seq       bigint      NOT NULL DEFAULT 0 CHECK (copy_seq >= 0), -- the copy; 0 until the broker has it
    claimed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stream_created, source, event_id, body_hash)
);

INSERT INTO audit_copies (stream_created, source, event_id, body_hash, copy_seq)
SELECT stream_created, source, event_id, body_hash, max(copy_seq)
FROM audit_open
WHERE copy_seq > 0
GROUP BY stream_created, source, event_id, body_hash;

ALTER TABLE audit_open DROP COLUMN copy_seq;

GRANT SELECT, INSERT, UPDATE, DELETE ON audit_copies TO onceledger_worker;
