-- +goose Up

-- Contents that were parked and whose event another content took over since.
-- Their dead letter is what explains the message that brought them; before it is
-- removed, it is noted here, so that the audit can still tell the message from a
-- lost one.
CREATE TABLE superseded (
    source         text        COLLATE "C" NOT NULL,
    event_id       text        COLLATE "C" NOT NULL,
    body_hash      bytea       NOT NULL CHECK (length(body_hash) = 32),
    stream_created timestamptz NOT NULL, -- of the message that the letter named
    seq            bigint      NOT NULL CHECK (seq >= 0),
    reason         text        NOT NULL,
    at             timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, event_id, body_hash)
);
