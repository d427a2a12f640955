-- Vouchers to recipients: how a partner's are delivered, what is on its way, the links in it, and who opened them.

ALTER TABLE partner ADD COLUMN delivery jsonb; -- null: the service does not deliver for the partner
ALTER TABLE orders ADD COLUMN recipients jsonb; -- [[channel, address], …] as they were when the order was placed

-- A message on its way. Claimed rows are moved to the end of their lease.
CREATE TABLE recipient_delivery (
    partner_id text COLLATE "C" NOT NULL,
    delivery_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    channel text NOT NULL CHECK (channel IN ('EMAIL', 'SMS')),
    address text NOT NULL,
    outcome text NOT NULL DEFAULT 'PENDING' CHECK (outcome IN ('PENDING', 'SENT', 'FAILED', 'BOUNCED')),
    reason text,
    tries integer NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'DUE' CHECK (state IN ('DUE', 'DONE')),
    next_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0, -- claims that have not come back
    lease_until timestamptz,
    lease_token uuid,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    sent_at timestamptz,
    PRIMARY KEY (partner_id, delivery_id),
    CHECK ((state = 'DUE') = (outcome = 'PENDING'))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX recipient_delivery_due ON recipient_delivery (next_at) WHERE state = 'DUE';
CREATE INDEX recipient_delivery_order ON recipient_delivery (partner_id, order_id);

-- A link to the voucher page; of its token only the digest.
CREATE TABLE voucher_link (
    token_digest bytea PRIMARY KEY,
    partner_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    delivery_id text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX voucher_link_order ON voucher_link (partner_id, order_id);

CREATE TABLE voucher_reveal (
    partner_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    reveal_id text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    address inet,
    PRIMARY KEY (partner_id, order_id, reveal_id)
);

-- A picture of the brand that the voucher page shows from here, so that it asks nobody else for it.
CREATE TABLE brand_picture (
    brand_id text COLLATE "C" PRIMARY KEY,
    media_type text NOT NULL CHECK (media_type IN ('image/png', 'image/jpeg', 'image/webp')),
    content bytea NOT NULL,
    updated_at timestamptz NOT NULL
);
