CREATE TABLE wallet (
    partner_id text COLLATE "C" PRIMARY KEY,
    currency text NOT NULL,
    posted_minor bigint NOT NULL DEFAULT 0,
    held_minor bigint NOT NULL DEFAULT 0 CHECK (held_minor >= 0),
    version bigint NOT NULL DEFAULT 0,
    low_threshold_minor bigint CHECK (low_threshold_minor >= 0),
    low_alerted boolean NOT NULL DEFAULT false,
    CHECK (posted_minor - held_minor >= 0)
) WITH (fillfactor = 50);

-- One row for each movement of a wallet, in the order of its versions: the chain has no gaps.
CREATE TABLE transfer (
    partner_id text COLLATE "C" NOT NULL,
    wallet_version bigint NOT NULL,
    kind text NOT NULL
        CHECK (kind IN ('TOP_UP', 'HOLD', 'CAPTURE', 'RELEASE', 'DEBIT', 'REFUND', 'ADJUSTMENT')),
    amount_minor bigint NOT NULL,
    available_after_minor bigint NOT NULL CHECK (available_after_minor >= 0),
    held_after_minor bigint NOT NULL CHECK (held_after_minor >= 0),
    order_id text COLLATE "C",
    reference_id text COLLATE "C",
    resolves_version bigint,
    note text,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (partner_id, wallet_version)
);
CREATE INDEX transfer_order ON transfer (partner_id, order_id) WHERE order_id IS NOT NULL;
-- A hold is captured or released at most once.
CREATE UNIQUE INDEX transfer_resolution ON transfer (partner_id, resolves_version) WHERE resolves_version IS NOT NULL;
CREATE INDEX transfer_created ON transfer (partner_id, created_at);

-- The double entry of a transfer: its entries add to zero. Only the partner's own accounts carry a balance.
CREATE TABLE entry (
    partner_id text COLLATE "C" NOT NULL,
    wallet_version bigint NOT NULL,
    account text NOT NULL CHECK (account IN ('AVAILABLE', 'HELD', 'SALES', 'FUNDING', 'CORRECTIONS')),
    amount_minor bigint NOT NULL,
    balance_after_minor bigint,
    PRIMARY KEY (partner_id, wallet_version, account),
    CHECK ((balance_after_minor IS NOT NULL) = (account IN ('AVAILABLE', 'HELD')))
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% rows are never changed or removed', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER transfer_is_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON transfer
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER entry_is_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
