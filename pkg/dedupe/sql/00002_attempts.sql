-- +goose Up

-- attempt numbers the attempts that an event was given of its own: whoever
-- writes for one says which, so that a worker that woke up late changes nothing.
-- crashes counts those whose worker died in them.
ALTER TABLE events
    ADD COLUMN attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    ADD COLUMN crashes integer NOT NULL DEFAULT 0 CHECK (crashes >= 0);
