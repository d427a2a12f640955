-- What a service without batches does for one order of :vouchers vouchers: the same rows, one interactive transaction.
-- The two 16-byte codes stand for sealed ones; the wallet is chosen among :wallets.
\set wallet random(1, :wallets)
BEGIN;
SELECT posted_minor, held_minor, version FROM wallet WHERE partner_id = 'bench_' || :wallet FOR UPDATE \gset
SELECT gen_random_uuid()::text AS id \gset
\set version :version + 1
\set amount 10000 * :vouchers
\set after :posted_minor - :amount
\set less -:amount
SELECT order_id FROM orders WHERE partner_id = 'bench_' || :wallet AND reference_id = :id;
INSERT INTO orders (partner_id, order_id, reference_id, fingerprint, brand_id, status, failure_code, currency, amount_minor, discount_percentage, debit_minor, denominations_minor, quantities, customer, delivery, stored_processing, created_at, updated_at) VALUES ('bench_' || :wallet, 'ord_' || :id, :id, decode(md5(:id), 'hex'), 'bench', 'SUCCESS', NULL, 'INR', :amount, 0, :amount, '{10000}', ARRAY[:vouchers::int], NULL, NULL, false, now(), now());
\if :vouchers = 1
INSERT INTO voucher (partner_id, voucher_id, order_id, position, card_type, amount_minor, currency, valid_till, sealed, code_digest, provider) VALUES ('bench_' || :wallet, 'vch_' || :id, 'ord_' || :id, 0, 'CARD_AND_PIN_NO_SECURED', 10000, 'INR', now() + interval '1 year', decode(repeat(md5(:id), 4), 'hex'), sha256(convert_to(:id, 'UTF8')), 'generator');
INSERT INTO issued_code (source, code_digest, partner_id, voucher_id) VALUES ('generator', sha256(convert_to(:id, 'UTF8')), 'bench_' || :wallet, 'vch_' || :id);
\else
INSERT INTO voucher (partner_id, voucher_id, order_id, position, card_type, amount_minor, currency, valid_till, sealed, code_digest, provider) SELECT 'bench_' || :wallet, 'vch_' || :id || n, 'ord_' || :id, n, 'CARD_AND_PIN_NO_SECURED', 10000, 'INR', now() + interval '1 year', decode(repeat(md5(:id), 4), 'hex'), sha256(convert_to(:id || n, 'UTF8')), 'generator' FROM generate_series(1, :vouchers) n;
INSERT INTO issued_code (source, code_digest, partner_id, voucher_id) SELECT 'generator', sha256(convert_to(:id || n, 'UTF8')), 'bench_' || :wallet, 'vch_' || :id || n FROM generate_series(1, :vouchers) n;
\endif
INSERT INTO transfer (partner_id, wallet_version, kind, amount_minor, available_after_minor, held_after_minor, order_id, reference_id, created_at) VALUES ('bench_' || :wallet, :version, 'DEBIT', :less, :after, 0, 'ord_' || :id, :id, now());
INSERT INTO entry (partner_id, wallet_version, account, amount_minor, balance_after_minor) VALUES ('bench_' || :wallet, :version, 'AVAILABLE', :less, :after), ('bench_' || :wallet, :version, 'SALES', :amount, NULL);
UPDATE wallet SET posted_minor = :after, version = :version WHERE partner_id = 'bench_' || :wallet;
COMMIT;
