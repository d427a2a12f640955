-- Webhooks: where partners want to be called, what is on its way there, and how each attempt went.

CREATE TABLE webhook_endpoint (
    partner_id text COLLATE "C" NOT NULL,
    endpoint_id text COLLATE "C" NOT NULL,
    url text NOT NULL,
    description text,
    kinds text[] NOT NULL,
    secret bytea NOT NULL, -- sealed, as the two below
    staged_secret bytea, -- signs beside the other until it is promoted
    old_secret bytea, -- signs beside the promoted one for a day
    old_secret_until timestamptz,
    rate_per_second integer CHECK (rate_per_second > 0),
    disabled_at timestamptz,
    disabled_why text,
    last_success_at timestamptz,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    PRIMARY KEY (partner_id, endpoint_id)
);
CREATE INDEX webhook_endpoint_version ON webhook_endpoint (version);
INSERT INTO change (topic, version) VALUES ('webhooks', 0);

-- The bytes that are sent, made once; the number of endpoints the event was given to.
ALTER TABLE event ADD COLUMN rendered bytea;
UPDATE event SET rendered = convert_to((body || jsonb_build_object('eventId', event_id, 'eventType', kind,
    'occurredAt', to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))::text, 'UTF8');
ALTER TABLE event ALTER COLUMN rendered SET NOT NULL;
ALTER TABLE event DROP COLUMN body;
ALTER TABLE event ADD COLUMN order_id text COLLATE "C";
ALTER TABLE event ADD COLUMN endpoints integer;
ALTER TABLE event ADD COLUMN fault text CHECK (fault IN ('LOST', 'TWICE')); -- what the sandbox does to its webhook
DROP INDEX event_unsent;
CREATE INDEX event_unsent ON event (event_id) WHERE sequence IS NULL;
CREATE INDEX event_order ON event (partner_id, order_id) WHERE order_id IS NOT NULL;
CREATE INDEX event_occurred ON event (occurred_at);
CREATE TABLE event_counter (
    partner_id text COLLATE "C" PRIMARY KEY,
    last_sequence bigint NOT NULL
) WITH (fillfactor = 50);

-- An event on its way to an endpoint. Claimed rows are moved to the end of their lease.
CREATE TABLE webhook_delivery (
    partner_id text COLLATE "C" NOT NULL,
    endpoint_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('DUE', 'DELIVERED', 'EXHAUSTED', 'HELD')),
    tries integer NOT NULL DEFAULT 0, -- in all
    round_tries integer NOT NULL DEFAULT 0, -- since it was sent or replayed; the schedule follows it
    next_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0, -- claims that have not come back
    lease_until timestamptz,
    lease_token uuid,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (partner_id, endpoint_id, event_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX webhook_delivery_due ON webhook_delivery (partner_id, endpoint_id, next_at) WHERE state = 'DUE';
CREATE INDEX webhook_delivery_event ON webhook_delivery (partner_id, event_id);

CREATE TABLE webhook_attempt (
    partner_id text COLLATE "C" NOT NULL,
    endpoint_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    try integer NOT NULL,
    at timestamptz NOT NULL,
    status integer,
    error text,
    milliseconds integer NOT NULL,
    answer bytea NOT NULL,
    PRIMARY KEY (partner_id, endpoint_id, event_id, try)
);
CREATE INDEX webhook_attempt_at ON webhook_attempt (at);
