-- +goose Up

-- Contents that a worker is reading, to learn what they mean beside the one that
-- has the event's row, and those whose reading kills workers. A reading that ended
-- leaves nothing.
CREATE TABLE readings (
    source    text        COLLATE "C" NOT NULL,
    event_id  text        COLLATE "C" NOT NULL,
    body_hash bytea       NOT NULL CHECK (length(body_hash) = 32),
    holder    bigint      NOT NULL, -- drawn by the reader, who alone ends it
    redrive   integer     NOT NULL CHECK (redrive >= 0),
    crashes   integer     NOT NULL DEFAULT 0 CHECK (crashes >= 0),
    begun_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, event_id, body_hash)
);
