-- What happened, written in the transaction in which it happened; `sequence` is given when it is sent on.
CREATE TABLE event (
    partner_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    body jsonb NOT NULL,
    occurred_at timestamptz NOT NULL,
    sequence bigint,
    PRIMARY KEY (partner_id, event_id)
);
CREATE UNIQUE INDEX event_sequence ON event (partner_id, sequence) WHERE sequence IS NOT NULL;
CREATE INDEX event_unsent ON event (partner_id, event_id) WHERE sequence IS NULL;
