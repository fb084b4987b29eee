-- +goose Up

-- The events that were sent again first of all of their source and reason: what
-- became of the last one of a group decides about the rest.
CREATE INDEX actions_canaries ON actions (no) WHERE verb = 'compensate' AND detail ? 'canary';
