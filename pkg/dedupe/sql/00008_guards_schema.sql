-- +goose Up

-- The guard looks into the tables of its own schema, whatever the session's search_path
-- says: a session's temporary table of the same name comes before them otherwise. A
-- function that replaces this one has to say it again.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION events_guard() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
