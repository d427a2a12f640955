-- Orders that take time: what must still be done, what providers were asked, and what they delivered.

-- One row for each order that a remote provider serves. Claimed rows are moved to the end of their lease, so that an
-- expired lease is simply due again.
CREATE TABLE fulfilment (
    partner_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    part_vouchers integer NOT NULL, -- asked for in one call
    state text NOT NULL DEFAULT 'DUE' CHECK (state IN ('DUE', 'DONE')),
    next_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0, -- claims that have not come back
    lease_until timestamptz,
    lease_token uuid,
    PRIMARY KEY (partner_id, order_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX fulfilment_due ON fulfilment (next_at) WHERE state = 'DUE';

-- One row for each part of an order and each provider asked for it, committed before the call. `key` is what the
-- provider knows it by.
CREATE TABLE provider_call (
    partner_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    line integer NOT NULL,
    part integer NOT NULL,
    provider text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    denomination_minor bigint NOT NULL,
    quantity integer NOT NULL,
    state text NOT NULL CHECK (state IN ('ASKED', 'DELIVERED', 'REFUSED', 'UNAVAILABLE', 'UNKNOWN', 'RESOLVED')),
    reason text,
    asks integer NOT NULL DEFAULT 1,
    asked_at timestamptz NOT NULL, -- first
    last_asked_at timestamptz NOT NULL,
    next_at timestamptz NOT NULL, -- not asked again before
    PRIMARY KEY (partner_id, order_id, line, part, provider)
) WITH (fillfactor = 80);
CREATE INDEX provider_call_asked ON provider_call (provider, key) WHERE state = 'ASKED';
CREATE INDEX provider_call_unknown ON provider_call (provider, partner_id, order_id) WHERE state = 'UNKNOWN';

-- What providers delivered: sealed until it is sold as a voucher or set aside for the operator.
CREATE TABLE delivered_code (
    provider text COLLATE "C" NOT NULL,
    provider_voucher_id text COLLATE "C" NOT NULL,
    code_digest bytea NOT NULL,
    partner_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    line integer NOT NULL,
    part integer NOT NULL,
    place integer NOT NULL,
    brand_id text COLLATE "C" NOT NULL,
    denomination_minor bigint NOT NULL,
    valid_till date,
    sealed bytea NOT NULL, -- emptied when it is sealed again elsewhere
    state text NOT NULL CHECK (state IN ('WAITING', 'SOLD', 'ASIDE', 'SHELVED')),
    voucher_id text COLLATE "C",
    delivered_at timestamptz NOT NULL,
    PRIMARY KEY (provider, provider_voucher_id),
    UNIQUE (provider, code_digest),
    CHECK ((state = 'SOLD') = (voucher_id IS NOT NULL))
);
CREATE INDEX delivered_code_order ON delivered_code (partner_id, order_id);
CREATE INDEX delivered_code_aside ON delivered_code (brand_id, denomination_minor) WHERE state = 'ASIDE';

-- The taking back of an order: committed as work before the provider is asked to void its vouchers.
CREATE TABLE reversal (
    partner_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    asked_reason text,
    requested_at timestamptz NOT NULL,
    outcome text CHECK (outcome IN ('REVERSED', 'REFUSED', 'UNKNOWN')),
    why text,
    voided text[] NOT NULL DEFAULT '{}', -- keys of the calls whose vouchers are void
    state text NOT NULL DEFAULT 'DUE' CHECK (state IN ('DUE', 'DONE')),
    next_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    lease_until timestamptz,
    lease_token uuid,
    PRIMARY KEY (partner_id, order_id),
    CHECK ((state = 'DONE') = (outcome IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX reversal_due ON reversal (next_at) WHERE state = 'DUE';

-- How a provider does on a brand, by the minute; and the breaker that keeps it from being asked.
CREATE TABLE provider_minute (
    provider text COLLATE "C" NOT NULL,
    brand_id text COLLATE "C" NOT NULL,
    minute timestamptz NOT NULL,
    calls integer NOT NULL,
    failures integer NOT NULL,
    PRIMARY KEY (provider, brand_id, minute)
);
CREATE TABLE provider_breaker (
    provider text COLLATE "C" NOT NULL,
    brand_id text COLLATE "C" NOT NULL,
    opened_at timestamptz NOT NULL,
    open_until timestamptz NOT NULL,
    paused boolean NOT NULL DEFAULT false, -- by the operator, until he resumes it
    openings integer NOT NULL, -- in a row, each twice as long as the one before
    probe_until timestamptz, -- somebody asks once to see whether it is well again
    PRIMARY KEY (provider, brand_id)
);
INSERT INTO change (topic, version) VALUES ('breakers', 0);

ALTER TABLE orders ADD COLUMN reversal_pending boolean NOT NULL DEFAULT false;

ALTER TABLE brand ADD COLUMN reversible boolean NOT NULL DEFAULT false;
ALTER TABLE brand ADD COLUMN reversal_window_hours integer NOT NULL DEFAULT 24 CHECK (reversal_window_hours > 0);

-- Spending limits; brand_id '' is all brands together. `limited` on the wallet spares all others the look.
CREATE TABLE spending_limit (
    partner_id text COLLATE "C" NOT NULL,
    brand_id text COLLATE "C" NOT NULL,
    period text NOT NULL CHECK (period IN ('HOUR', 'DAY', 'MONTH')),
    max_amount_minor bigint CHECK (max_amount_minor >= 0),
    max_orders bigint CHECK (max_orders >= 0),
    set_at timestamptz NOT NULL, -- windows before this one were never counted
    PRIMARY KEY (partner_id, brand_id, period),
    CHECK (max_amount_minor IS NOT NULL OR max_orders IS NOT NULL)
);
-- What was spent in the window in which a limit counts; kept for limits that exist, counted anew when one is set.
CREATE TABLE spending (
    partner_id text COLLATE "C" NOT NULL,
    brand_id text COLLATE "C" NOT NULL,
    period text NOT NULL,
    window_start timestamptz NOT NULL,
    amount_minor bigint NOT NULL,
    orders bigint NOT NULL,
    PRIMARY KEY (partner_id, brand_id, period, window_start)
) WITH (fillfactor = 70);
ALTER TABLE wallet ADD COLUMN limited boolean NOT NULL DEFAULT false;
