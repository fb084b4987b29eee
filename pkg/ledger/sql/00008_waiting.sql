-- +goose Up

-- Events whose posting waits for an operation that nobody has posted yet. Whoever
-- posts it takes the row away and has the event tried at once. A row that is gone,
-- or left behind, costs nothing but time: the event's own state says what is true.
CREATE TABLE waiting (
    operation text   COLLATE "C" NOT NULL,
    event_no  bigint NOT NULL,
    PRIMARY KEY (operation, event_no)
);
