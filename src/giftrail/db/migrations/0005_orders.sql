CREATE TABLE orders (
    partner_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    reference_id text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    brand_id text COLLATE "C" NOT NULL,
    status text NOT NULL CHECK (status IN ('SUCCESS', 'FAILED', 'PROCESSING', 'CANCELLED', 'REVERSED')),
    failure_code text,
    currency text NOT NULL,
    amount_minor bigint NOT NULL,
    discount_percentage numeric(7, 4) NOT NULL,
    debit_minor bigint NOT NULL,
    denominations_minor bigint[] NOT NULL,
    quantities integer[] NOT NULL,
    customer jsonb,
    delivery jsonb,
    stored_processing boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (partner_id, order_id),
    UNIQUE (partner_id, reference_id),
    CHECK ((status = 'FAILED') = (failure_code IS NOT NULL))
) WITH (fillfactor = 90);
-- Lists by a status that is rare; SUCCESS is nearly all and read by the primary key.
CREATE INDEX orders_not_success ON orders (partner_id, status, order_id) WHERE status <> 'SUCCESS';
