-- Orders number :first to :last of the past, as the service would have written them: every tenth took its time.
-- Half of them are the first partner's; the others share the rest. Run once for each slice, in one transaction.
CREATE TEMP TABLE slice ON COMMIT DROP AS
  SELECT g, p.partner_id, p.endpoint_id, k, is_slow, at, digest,
    'ord_' || lpad(to_hex(ms), 12, '0') || left(encode(digest, 'hex'), 20) AS order_id,
    'vch_' || lpad(to_hex(ms), 12, '0') || right(encode(digest, 'hex'), 20) AS voucher_id,
    'evt_' || lpad(to_hex(ms), 12, '0') || substr(encode(digest, 'hex'), 11, 20) AS event_id,
    'ref-' || md5(g::text) AS reference_id,
    1 + k + (k - 1) / 10 AS version, -- the first is the top-up; a slow order has two transfers
    CASE WHEN is_slow THEN 'sandbox' ELSE 'generator' END AS provider,
    :money - k * :amount AS available
  FROM (
    SELECT g, CASE WHEN g % 2 = 0 THEN 0 ELSE 1 + (g / 2) % :others END AS place,
      1 + CASE WHEN g % 2 = 0 THEN g / 2 ELSE g / 2 / :others END AS k,
      ':begin'::timestamptz + (':end'::timestamptz - ':begin'::timestamptz) * (g::float8 / :orders) AS at,
      sha256(convert_to(g::text, 'UTF8')) AS digest
    FROM generate_series(:first::bigint, :last::bigint) g) numbered
  CROSS JOIN LATERAL (SELECT k % 10 = 0 AS is_slow, floor(extract(epoch FROM at) * 1000)::bigint AS ms) derived
  JOIN past_partner p USING (place);

INSERT INTO orders (partner_id, order_id, reference_id, fingerprint, brand_id, status, currency, amount_minor,
    discount_percentage, debit_minor, denominations_minor, quantities, customer, stored_processing, created_at, updated_at)
  SELECT partner_id, order_id, reference_id, '\x01'::bytea || digest, 'bench', 'SUCCESS', 'INR', :amount, 0, :amount,
    ARRAY[:amount::bigint], ARRAY[1], ':customer'::jsonb, is_slow, at,
    CASE WHEN is_slow THEN at + interval '5 s' ELSE at END
  FROM slice ORDER BY g;

INSERT INTO voucher (partner_id, voucher_id, order_id, position, card_type, amount_minor, currency, valid_till, sealed,
    code_digest, provider)
  SELECT partner_id, voucher_id, order_id, 0, 'CARD_AND_PIN_NO_SECURED', :amount, 'INR', at::date + 365,
    substr(digest || sha256(digest) || digest, 1, :sealed_bytes), digest, provider
  FROM slice ORDER BY g;

INSERT INTO issued_code (source, code_digest, partner_id, voucher_id)
  SELECT provider, digest, partner_id, voucher_id FROM slice ORDER BY g;

INSERT INTO transfer (partner_id, wallet_version, kind, amount_minor, available_after_minor, held_after_minor, order_id,
    reference_id, resolves_version, created_at)
  SELECT partner_id, version + n, CASE WHEN NOT is_slow THEN 'DEBIT' WHEN n = 0 THEN 'HOLD' ELSE 'CAPTURE' END, -:amount,
    available, CASE WHEN is_slow AND n = 0 THEN :amount ELSE 0 END, order_id, reference_id,
    CASE WHEN n = 1 THEN version END, at + n * interval '5 s'
  FROM slice CROSS JOIN generate_series(0, 1) n WHERE n = 0 OR is_slow ORDER BY g, n;

INSERT INTO entry (partner_id, wallet_version, account, amount_minor, balance_after_minor)
  SELECT partner_id, version + n, account, amount, CASE account WHEN 'AVAILABLE' THEN available WHEN 'HELD' THEN held END
  FROM slice JOIN (VALUES
    (false, 0, 'AVAILABLE', -:amount, 0), (false, 0, 'SALES', :amount, 0),
    (true, 0, 'AVAILABLE', -:amount, 0), (true, 0, 'HELD', :amount, :amount),
    (true, 1, 'HELD', -:amount, 0), (true, 1, 'SALES', :amount, 0)
  ) AS side (slow, n, account, amount, held) ON slow = is_slow ORDER BY g, n;

INSERT INTO fulfilment (partner_id, order_id, part_vouchers, state, next_at)
  SELECT partner_id, order_id, 100, 'DONE', at FROM slice WHERE is_slow ORDER BY g;

INSERT INTO provider_call (partner_id, order_id, line, part, provider, key, denomination_minor, quantity, state, asked_at,
    last_asked_at, next_at)
  SELECT partner_id, order_id, 1, 1, provider, order_id || '-1-1', :amount, 1, 'DELIVERED', at, at, at
  FROM slice WHERE is_slow ORDER BY g;

INSERT INTO delivered_code (provider, provider_voucher_id, code_digest, partner_id, order_id, line, part, place, brand_id,
    denomination_minor, sealed, state, voucher_id, delivered_at)
  SELECT provider, 'v' || g, digest, partner_id, order_id, 1, 1, 0, 'bench', :amount, '', 'SOLD', voucher_id, at
  FROM slice WHERE is_slow ORDER BY g;

INSERT INTO event (partner_id, event_id, kind, rendered, order_id, occurred_at, sequence, endpoints)
  SELECT partner_id, event_id, 'ORDER_TERMINAL_STATE', convert_to(json_build_object('id', order_id, 'orderId', order_id,
    'referenceId', reference_id, 'status', 'SUCCESS', 'eventId', event_id, 'eventType', 'ORDER_TERMINAL_STATE',
    'occurredAt', at)::text, 'UTF8'), order_id, at + interval '5 s', k / 10, 1
  FROM slice WHERE is_slow ORDER BY g;

INSERT INTO webhook_delivery (partner_id, endpoint_id, event_id, state, tries, round_tries, next_at, created_at)
  SELECT partner_id, endpoint_id, event_id, 'DELIVERED', 1, 1, at, at FROM slice WHERE is_slow ORDER BY g;

INSERT INTO webhook_attempt (partner_id, endpoint_id, event_id, try, at, status, milliseconds, answer)
  SELECT partner_id, endpoint_id, event_id, 1, at, 204, 5, '' FROM slice WHERE is_slow ORDER BY g;
