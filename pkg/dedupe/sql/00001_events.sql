-- +goose Up

-- Numbers are handed out in blocks of 1,000, so that a worker knows the number
-- of an event before it inserts it. Gaps are normal.
CREATE SEQUENCE event_numbers INCREMENT BY 1000 MINVALUE 0 START WITH 0;

-- One row an event: the only place that says whether it is done.
CREATE TABLE events (
    no             bigint      NOT NULL,
    source         text        COLLATE "C" NOT NULL,
    event_id       text        COLLATE "C" NOT NULL,
    variant        text        COLLATE "C" NOT NULL, -- '', or conflict:<hash> of a parked conflict
    state          text        COLLATE "C" NOT NULL,
    outcome        text        COLLATE "C",
    reason         text        COLLATE "C",
    error          text,
    type           text        NOT NULL,
    occurred_at    timestamptz NOT NULL,
    body_hash      bytea       NOT NULL,
    fingerprint    bytea       NOT NULL,
    rules_version  bigint      NOT NULL,
    stream_created timestamptz NOT NULL, -- which incarnation of the stream seq belongs to
    seq            bigint      NOT NULL,
    attempts       integer     NOT NULL DEFAULT 0,
    redrives       integer     NOT NULL DEFAULT 0,
    first_failed_at timestamptz,
    next_try_at    timestamptz,
    dlq_seq        bigint,
    created_at     timestamptz NOT NULL DEFAULT now(),
    decided_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, event_id, variant),
    CONSTRAINT events_state CHECK (state IN ('pending', 'processing', 'completed', 'failed', 'discarded')),
    CONSTRAINT events_outcome CHECK (
        CASE WHEN state = 'completed' THEN outcome IS NOT NULL AND outcome IN ('applied', 'ignored', 'duplicate_operation')
             ELSE outcome IS NULL
        END),
    CONSTRAINT events_failed_has_reason CHECK (state <> 'failed' OR reason IS NOT NULL),
    CONSTRAINT events_dlq CHECK (dlq_seq IS NULL OR state IN ('failed', 'pending', 'discarded')),
    CONSTRAINT events_variant CHECK (variant = '' OR variant LIKE 'conflict:%'),
    CONSTRAINT events_hashes CHECK (length(body_hash) = 32 AND length(fingerprint) = 32),
    CONSTRAINT events_counters CHECK (no >= 0 AND seq > 0 AND attempts >= 0 AND redrives >= 0)
);

CREATE UNIQUE INDEX events_no ON events (no);

-- What is not finished, and what is parked: small beside the table.
CREATE INDEX events_open ON events (state, decided_at) WHERE state <> 'completed';

-- A completed event never changes and no event goes away. The transaction that
-- inserted a row may still rewrite it: a batch inserts rows in their final form
-- and corrects the few that it then refuses.
-- +goose StatementBegin
CREATE FUNCTION events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' THEN
        RAISE EXCEPTION 'events: % is not allowed, rows are the record of what was applied', TG_OP
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'completed'
       AND OLD.xmin::text::bigint <> pg_current_xact_id()::text::bigint % 4294967296 THEN
        RAISE EXCEPTION 'events: a completed event is immutable'
            USING ERRCODE = 'restrict_violation',
                  DETAIL = format('source %s, event %s, variant %s', OLD.source, OLD.event_id, OLD.variant);
    END IF;
    IF (NEW.no, NEW.source, NEW.event_id, NEW.variant, NEW.created_at)
       IS DISTINCT FROM (OLD.no, OLD.source, OLD.event_id, OLD.variant, OLD.created_at) THEN
        RAISE EXCEPTION 'events: number, key and creation time are immutable'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER events_guard BEFORE UPDATE OR DELETE ON events
    FOR EACH ROW EXECUTE FUNCTION events_guard();
CREATE TRIGGER events_guard_truncate BEFORE TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION events_guard();
ALTER TABLE events ENABLE ALWAYS TRIGGER events_guard;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_guard_truncate;
