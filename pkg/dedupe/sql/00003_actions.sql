-- +goose Up

-- What operators, and the system on their behalf, did to events and money: who,
-- when, what and why. Rows are only ever added.
CREATE TABLE actions (
    no       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    actor    text        NOT NULL CHECK (actor <> ''),
    verb     text        COLLATE "C" NOT NULL CHECK (verb <> ''),
    note     text        NOT NULL DEFAULT '',
    event_no bigint, -- null where the action concerns no single event
    detail   jsonb
);

CREATE INDEX actions_event ON actions (event_no, no) WHERE event_no IS NOT NULL;
CREATE INDEX actions_verb ON actions (verb, no);

-- +goose StatementBegin
CREATE FUNCTION actions_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'actions: % is not allowed, rows are only added', TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd

CREATE TRIGGER actions_guard BEFORE UPDATE OR DELETE ON actions
    FOR EACH ROW EXECUTE FUNCTION actions_guard();
CREATE TRIGGER actions_guard_truncate BEFORE TRUNCATE ON actions
    FOR EACH STATEMENT EXECUTE FUNCTION actions_guard();
ALTER TABLE actions ENABLE ALWAYS TRIGGER actions_guard;
ALTER TABLE actions ENABLE ALWAYS TRIGGER actions_guard_truncate;

-- The one door out of completed: an event that was ignored, so that it has no
-- transfers, may be opened again by an operator. The action is recorded in the
-- same transaction, which sets the door's key.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' THEN
        RAISE EXCEPTION 'events: % is not allowed, rows are the record of what was applied', TG_OP
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'completed'
       AND OLD.xmin::text::bigint <> pg_current_xact_id()::text::bigint % 4294967296
       AND NOT (OLD.outcome = 'ignored' AND NEW.state = 'pending'
                AND EXISTS (SELECT FROM actions a
                            WHERE a.event_no = OLD.no AND a.verb = 'reopen'
                              AND a.xmin::text::bigint = pg_current_xact_id()::text::bigint % 4294967296)) THEN
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
