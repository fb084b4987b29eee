-- +goose Up

-- What a person has acknowledged of messages that are gone: how many of this
-- stream, and when; closed is an earlier stream, which is acknowledged as a whole.
ALTER TABLE audit_marks
    ADD COLUMN acknowledged bigint NOT NULL DEFAULT 0 CHECK (acknowledged >= 0),
    ADD COLUMN acknowledged_at timestamptz,
    ADD COLUMN closed boolean NOT NULL DEFAULT false;
