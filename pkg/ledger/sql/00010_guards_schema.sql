-- +goose Up

-- A guard looks into the tables of its own schema, whatever the session's search_path
-- says: a session's temporary table of the same name comes before them otherwise, and
-- the guard believes what that says. A function that replaces one of these has to say
-- it again.
-- +goose StatementBegin
DO $$
DECLARE
    guard text;
BEGIN
    FOREACH guard IN ARRAY ARRAY['operations_guard', 'transfers_reversal', 'accounts_limit', 'totals_guard'] LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = %I, pg_temp', guard, current_schema());
    END LOOP;
END $$;
-- +goose StatementEnd
