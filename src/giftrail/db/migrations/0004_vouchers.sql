CREATE TABLE voucher (
    partner_id text COLLATE "C" NOT NULL,
    voucher_id text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    position integer NOT NULL,
    card_type text NOT NULL,
    amount_minor bigint NOT NULL,
    currency text NOT NULL,
    valid_till date,
    sealed bytea NOT NULL,
    code_digest bytea NOT NULL,
    provider text NOT NULL,
    PRIMARY KEY (partner_id, voucher_id),
    UNIQUE (partner_id, order_id, position)
);

-- A code is sold once: across all partners, for each source of codes.
CREATE TABLE issued_code (
    source text COLLATE "C" NOT NULL,
    code_digest bytea NOT NULL,
    partner_id text COLLATE "C" NOT NULL,
    voucher_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (source, code_digest)
);

CREATE TABLE stock_code (
    brand_id text COLLATE "C" NOT NULL,
    stock_id text COLLATE "C" NOT NULL,
    denomination_minor bigint NOT NULL,
    sealed bytea NOT NULL, -- emptied when the code is sold and sealed again under its voucher
    code_digest bytea NOT NULL,
    valid_till date NOT NULL, -- infinity: does not expire
    imported_at timestamptz NOT NULL,
    sold_at timestamptz,
    partner_id text COLLATE "C",
    voucher_id text COLLATE "C",
    PRIMARY KEY (brand_id, stock_id),
    UNIQUE (brand_id, code_digest),
    CHECK ((sold_at IS NULL) = (voucher_id IS NULL) AND (sold_at IS NULL) = (partner_id IS NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01);
-- What can be sold next: those that expire first, then the oldest.
CREATE INDEX stock_code_unsold ON stock_code (brand_id, denomination_minor, valid_till, stock_id)
    WHERE sold_at IS NULL;
