-- +goose Up

-- The door out of completed, for every event that has no transfers: one that was
-- ignored, and one whose money was there already from another event, which may
-- have been corrected since.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' THEN
        RAISE EXCEPTION 'events: % is not allowed, rows are the record of what was applied', TG_OP
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'completed'
       AND OLD.xmin::text::bigint <> pg_current_xact_id()::text::bigint % 4294967296
       AND NOT (OLD.outcome IN ('ignored', 'duplicate_operation') AND NEW.state = 'pending'
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
