-- Lists that do not walk through what they leave out.

-- When the last transfer was made: no later one is dated before it, so a moment is a place in the chain of versions.
ALTER TABLE wallet ADD COLUMN moved_at timestamptz;
UPDATE wallet w SET moved_at = (SELECT max(t.created_at) FROM transfer t WHERE t.partner_id = w.partner_id);

-- The few that did not arrive, among all that did.
CREATE INDEX webhook_delivery_unsent ON webhook_delivery (partner_id, endpoint_id, state, event_id)
    WHERE state IN ('EXHAUSTED', 'HELD');
CREATE INDEX recipient_delivery_outcome ON recipient_delivery (outcome, delivery_id);
