-- Word of change: one row a topic, raised inside the edit's transaction.
CREATE TABLE change (
    topic text PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0
);
INSERT INTO change (topic) VALUES ('catalog'), ('partners');

CREATE TABLE partner (
    partner_id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL UNIQUE,
    kind text NOT NULL CHECK (kind IN ('B2B', 'B2C')),
    currency text NOT NULL,
    region text NOT NULL,
    request_id_mode text NOT NULL CHECK (request_id_mode IN ('REQUIRE', 'GENERATE')),
    rate_per_second integer CHECK (rate_per_second >= 0),
    rate_burst integer CHECK (rate_burst >= 1),
    failed_logins_per_minute integer CHECK (failed_logins_per_minute >= 0),
    suspended_at timestamptz,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX partner_version ON partner (version);

CREATE TABLE credential (
    credential_id text COLLATE "C" PRIMARY KEY,
    partner_id text COLLATE "C" NOT NULL REFERENCES partner,
    secret_digest bytea NOT NULL,
    environment text NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX credential_partner ON credential (partner_id);

CREATE TABLE allowed_network (
    partner_id text COLLATE "C" NOT NULL REFERENCES partner,
    network cidr NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (partner_id, network)
);
