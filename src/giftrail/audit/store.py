"""SQL of the audit: each query finds rows that cannot be."""

from datetime import datetime

from giftrail.db import pool


async def list_unpaid_or_paid_twice(conn: pool.Connection) -> list[pool.Record]:
    """Orders whose transfers do not fit their state: partner_id, order_id, status, debit_minor, kinds, moved."""
    return await conn.fetch(
        "SELECT o.partner_id, o.order_id, o.status, o.debit_minor, t.kinds, t.moved FROM orders o LEFT JOIN ("
        "   SELECT partner_id, order_id, array_agg(kind ORDER BY wallet_version) AS kinds,"
        "   sum(amount_minor) AS moved, sum(amount_minor) FILTER (WHERE kind = 'REFUND') AS refunded,"
        "   -sum(amount_minor) FILTER (WHERE kind = 'CAPTURE') AS captured"
        "   FROM transfer WHERE order_id IS NOT NULL GROUP BY partner_id, order_id) t"
        " USING (partner_id, order_id)"
        " WHERE (o.status = 'SUCCESS' AND (t.kinds IS NULL OR NOT (t.kinds = '{DEBIT}' AND t.moved = -o.debit_minor"
        "     OR t.kinds = '{HOLD,CAPTURE}' AND t.captured = o.debit_minor)))"
        " OR (o.status IN ('FAILED', 'CANCELLED') AND t.kinds IS NOT NULL AND t.kinds <> '{HOLD,RELEASE}')"
        " OR (o.status = 'PROCESSING' AND (t.kinds IS NULL OR t.kinds <> '{HOLD}'))"
        " OR (o.status = 'REVERSED' AND (t.kinds IS NULL OR t.kinds NOT IN ('{DEBIT,REFUND}', '{HOLD,CAPTURE,REFUND}')"
        "     OR t.refunded IS DISTINCT FROM o.debit_minor))"
    )


async def list_transfers_without_order(conn: pool.Connection) -> list[pool.Record]:
    """Transfers whose order does not exist: partner_id, wallet_version, order_id (None where one must be named)."""
    return await conn.fetch(
        "SELECT partner_id, wallet_version, order_id FROM transfer t"
        " WHERE (order_id IS NOT NULL OR kind NOT IN ('TOP_UP', 'ADJUSTMENT')) AND NOT EXISTS"
        " (SELECT FROM orders o WHERE o.partner_id = t.partner_id AND o.order_id = t.order_id)"
    )


async def list_wrong_amounts(conn: pool.Connection) -> list[pool.Record]:
    """Orders whose amount is not that of their lines, or whose debit is not the amount less their discount."""
    return await conn.fetch(
        "SELECT partner_id, order_id, status, amount_minor, debit_minor FROM orders o WHERE amount_minor <>"
        " (SELECT sum(l.denomination * l.quantity)"
        "   FROM unnest(o.denominations_minor, o.quantities) AS l (denomination, quantity))"
        # PostgreSQL rounds numerics half away from zero, as the wallet does.
        " OR debit_minor <> CASE WHEN status IN ('FAILED', 'CANCELLED') THEN 0"
        "   ELSE amount_minor - round(amount_minor * discount_percentage / 100) END"
    )


async def list_wrong_vouchers(conn: pool.Connection) -> list[pool.Record]:
    """Orders whose vouchers are not exactly those of their lines: partner_id, order_id, status."""
    return await conn.fetch(
        "WITH wanted AS (SELECT o.partner_id, o.order_id, l.denomination,"
        "   CASE WHEN o.status IN ('SUCCESS', 'REVERSED') THEN l.quantity ELSE 0 END AS quantity"
        "   FROM orders o, unnest(o.denominations_minor, o.quantities) AS l (denomination, quantity)),"
        " issued AS (SELECT partner_id, order_id, amount_minor AS denomination, count(*) AS quantity"
        "   FROM voucher GROUP BY partner_id, order_id, amount_minor)"
        " SELECT DISTINCT partner_id, order_id, o.status FROM wanted"
        " FULL JOIN issued USING (partner_id, order_id, denomination) LEFT JOIN orders o USING (partner_id, order_id)"
        " WHERE coalesce(wanted.quantity, 0) <> coalesce(issued.quantity, 0)"
    )


async def list_codes_not_sold_once(conn: pool.Connection) -> list[pool.Record]:
    """Vouchers whose code is not recorded as sold as exactly this voucher: partner_id, voucher_id, provider."""
    return await conn.fetch(
        "SELECT v.partner_id, v.voucher_id, v.provider FROM voucher v"
        " LEFT JOIN stock_code s ON v.provider = 'stock' AND s.code_digest = v.code_digest"
        "   AND s.partner_id = v.partner_id AND s.voucher_id = v.voucher_id"
        " LEFT JOIN issued_code i ON i.source = v.provider AND i.code_digest = v.code_digest"
        "   AND i.partner_id = v.partner_id AND i.voucher_id = v.voucher_id"
        " WHERE (s.voucher_id IS NULL) = (i.voucher_id IS NULL)"
    )


async def list_sold_without_voucher(conn: pool.Connection) -> list[pool.Record]:
    """Sold codes whose voucher does not exist: partner_id, voucher_id."""
    return await conn.fetch(
        "SELECT sold.partner_id, sold.voucher_id FROM (SELECT partner_id, voucher_id FROM issued_code"
        "   UNION ALL SELECT partner_id, voucher_id FROM stock_code WHERE sold_at IS NOT NULL) sold"
        " LEFT JOIN voucher v USING (partner_id, voucher_id) WHERE v.voucher_id IS NULL"
    )


async def list_processing_without_work(conn: pool.Connection) -> list[pool.Record]:
    """Orders that are PROCESSING though nobody will go on with them: partner_id, order_id."""
    return await conn.fetch(
        "SELECT o.partner_id, o.order_id FROM orders o LEFT JOIN fulfilment f USING (partner_id, order_id)"
        " WHERE o.status = 'PROCESSING' AND f.state IS DISTINCT FROM 'DUE'"
    )


async def list_overdue_orders(conn: pool.Connection, *, placed_before: datetime) -> list[pool.Record]:
    """Orders that are PROCESSING though clients have given them up: partner_id, order_id, created_at."""
    return await conn.fetch(
        "SELECT partner_id, order_id, created_at FROM orders WHERE status = 'PROCESSING' AND created_at < $1",
        placed_before,
    )


async def list_undelivered_vouchers(conn: pool.Connection) -> list[pool.Record]:
    """Orders whose recipients do not each have a delivery, or have one though the order never succeeded.

    partner_id, order_id, status, how many recipients and how many of them have deliveries.
    """
    return await conn.fetch(
        "SELECT partner_id, order_id, o.status, coalesce(jsonb_array_length(o.recipients), 0) AS recipients,"
        " coalesce(d.n, 0) AS deliveries FROM orders o FULL JOIN (SELECT partner_id, order_id,"
        "   count(DISTINCT channel) AS n FROM recipient_delivery GROUP BY partner_id, order_id) d"
        " USING (partner_id, order_id) WHERE (o.recipients IS NOT NULL OR d.n IS NOT NULL) AND coalesce(d.n, 0)"
        " IS DISTINCT FROM CASE WHEN o.status IN ('SUCCESS', 'REVERSED') THEN jsonb_array_length(o.recipients)"
        "   ELSE 0 END"
    )


async def list_untold_endings(conn: pool.Connection, *, since: datetime) -> list[pool.Record]:
    """Orders stored PROCESSING that ended, whose ORDER_TERMINAL_STATE events are not exactly one that says so.

    partner_id, order_id, status and how many events there are.
    """
    return await conn.fetch(
        "SELECT o.partner_id, o.order_id, o.status, count(e.event_id) AS events FROM orders o LEFT JOIN event e"
        " ON e.partner_id = o.partner_id AND e.order_id = o.order_id AND e.kind = 'ORDER_TERMINAL_STATE'"
        " WHERE o.stored_processing AND o.updated_at >= $1 GROUP BY o.partner_id, o.order_id, o.status"
        " HAVING count(e.event_id) <> CASE WHEN o.status IN ('SUCCESS', 'FAILED', 'REVERSED') THEN 1 ELSE 0 END"
        " OR count(e.event_id) FILTER (WHERE convert_from(e.rendered, 'UTF8')::jsonb->>'status' <> o.status"
        "   AND o.status <> 'REVERSED') > 0",
        since,
    )


async def list_undelivered_events(conn: pool.Connection, *, since: datetime) -> list[pool.Record]:
    """Fanned-out events that are not on their way to as many endpoints as wanted them: partner_id, event_id, both."""
    return await conn.fetch(
        "SELECT e.partner_id, e.event_id, e.endpoints, count(d.endpoint_id) AS deliveries FROM event e"
        " LEFT JOIN webhook_delivery d USING (partner_id, event_id)"
        " WHERE e.sequence IS NOT NULL AND e.occurred_at >= $1 AND e.kind <> 'TEST'"
        " GROUP BY e.partner_id, e.event_id, e.endpoints HAVING count(d.endpoint_id) < e.endpoints",
        since,
    )


async def list_sequence_gaps(conn: pool.Connection) -> list[pool.Record]:
    """Partners whose events are not numbered without gaps: partner_id, first, last, count, last_sequence."""
    return await conn.fetch(
        "SELECT partner_id, min(e.sequence) AS first, max(e.sequence) AS last, count(*) AS count, c.last_sequence"
        " FROM event e LEFT JOIN event_counter c USING (partner_id) WHERE e.sequence IS NOT NULL"
        " GROUP BY partner_id, c.last_sequence"
        " HAVING max(e.sequence) - min(e.sequence) + 1 <> count(*) OR max(e.sequence) IS DISTINCT FROM c.last_sequence"
    )


async def list_codes_in_two_places(conn: pool.Connection) -> list[pool.Record]:
    """Delivered codes whose state is not what became of their order: provider, provider_voucher_id, state, status."""
    return await conn.fetch(
        "SELECT d.provider, d.provider_voucher_id, d.state, o.status FROM delivered_code d"
        " LEFT JOIN orders o USING (partner_id, order_id) LEFT JOIN voucher v USING (partner_id, voucher_id)"
        " WHERE o.order_id IS NULL OR (d.state = 'WAITING' AND o.status <> 'PROCESSING')"
        " OR (d.state = 'SOLD' AND (v.order_id IS DISTINCT FROM d.order_id OR o.status NOT IN ('SUCCESS', 'REVERSED')))"
    )


async def list_wrong_spending(conn: pool.Connection) -> list[pool.Record]:
    """Windows whose count is not that of their orders: partner_id, brand_id, period, window_start, orders, counted."""
    return await conn.fetch(
        "SELECT s.partner_id, s.brand_id, s.period, s.window_start, s.orders, count(o.order_id) AS counted"
        " FROM spending s LEFT JOIN orders o ON o.partner_id = s.partner_id AND s.brand_id IN ('', o.brand_id)"
        "   AND o.status IN ('SUCCESS', 'PROCESSING')"
        "   AND date_trunc(lower(s.period), o.created_at, 'UTC') = s.window_start"
        " GROUP BY s.partner_id, s.brand_id, s.period, s.window_start, s.orders, s.amount_minor"
        " HAVING s.orders <> count(o.order_id) OR s.amount_minor <> coalesce(sum(o.amount_minor), 0)"
    )
