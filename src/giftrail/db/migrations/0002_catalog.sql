CREATE TABLE brand (
    brand_id text COLLATE "C" PRIMARY KEY,
    status text NOT NULL CHECK (status IN ('ACTIVE', 'INACTIVE')),
    title text NOT NULL,
    description text,
    category text[] NOT NULL,
    tags text[] NOT NULL,
    denomination_type text NOT NULL CHECK (denomination_type IN ('FIXED', 'FLEXIBLE')),
    redemption_type text NOT NULL CHECK (redemption_type IN ('OFFLINE', 'ONLINE', 'ONLINE_AND_OFFLINE')),
    card_type text NOT NULL
        CHECK (card_type IN ('CARD_NUMBER_SECURED', 'PIN_NO_SECURED', 'CARD_AND_PIN_NO_SECURED')),
    currency text NOT NULL,
    denominations_minor bigint[] NOT NULL,
    min_order_minor bigint NOT NULL,
    max_order_minor bigint NOT NULL,
    min_voucher_minor bigint NOT NULL,
    max_voucher_minor bigint NOT NULL,
    max_vouchers_per_order integer,
    max_vouchers_per_denomination integer,
    max_denominations_per_order integer,
    thumbnail_url text NOT NULL,
    icon_image_url text NOT NULL,
    logo_url text,
    tnc_url text,
    terms text[] NOT NULL,
    how_to_use jsonb NOT NULL,
    voucher_expiry_months integer,
    providers text[] NOT NULL,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX brand_version ON brand (version);

CREATE TABLE entitlement (
    partner_id text COLLATE "C" NOT NULL REFERENCES partner,
    brand_id text COLLATE "C" NOT NULL REFERENCES brand,
    enabled boolean NOT NULL,
    discount_percentage numeric(7, 4) NOT NULL DEFAULT 0 CHECK (discount_percentage BETWEEN 0 AND 100),
    version bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (partner_id, brand_id)
);
CREATE INDEX entitlement_version ON entitlement (version);
CREATE INDEX entitlement_brand ON entitlement (brand_id);
