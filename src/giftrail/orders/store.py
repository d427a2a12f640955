"""SQL of orders."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from giftrail.db import pool
from giftrail.orders import decide, model, states

_COLUMNS = (
    "order_id, partner_id, reference_id, fingerprint, brand_id, status, failure_code, currency, amount_minor,"
    " discount_percentage, debit_minor, created_at, updated_at"
)


async def list_known(
    conn: pool.Connection, *, partner_id: str, reference_ids: Sequence[str]
) -> dict[str, decide.Known]:
    """By reference, the orders of the partner that have one of the references."""
    # One look into the unique index for each reference. With `= ANY` a plan made while the table was empty may walk
    # through all orders of the partner instead, and is kept.
    rows = await conn.fetch(
        "SELECT o.* FROM unnest($2::text[]) AS wanted (reference_id) CROSS JOIN LATERAL (SELECT reference_id, order_id,"
        " fingerprint FROM orders WHERE partner_id = $1 AND reference_id = wanted.reference_id LIMIT 1) o",
        partner_id, list(reference_ids),
    )  # fmt: skip
    return {row["reference_id"]: decide.Known(row["order_id"], row["fingerprint"]) for row in rows}


async def append_orders(
    conn: pool.Connection, *, partner_id: str, drafts: Sequence[model.Draft], orders: Sequence[model.Order]
) -> None:
    """Write new orders of one partner, each beside its draft, inside the caller's transaction."""
    await conn.execute(
        "INSERT INTO orders (partner_id, order_id, reference_id, fingerprint, brand_id, status, failure_code, currency,"
        " amount_minor, discount_percentage, debit_minor, denominations_minor, quantities, customer, delivery,"
        " stored_processing, created_at, updated_at)"
        " SELECT $1, order_id, reference_id, fingerprint, brand_id, status, failure_code, currency, amount_minor,"
        " discount_percentage, debit_minor, denominations::bigint[], quantities::int[], customer, delivery,"
        " status = 'PROCESSING', created_at, updated_at"
        " FROM unnest($2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[],"
        " $9::bigint[], $10::numeric[], $11::bigint[], $12::text[], $13::text[], $14::jsonb[], $15::jsonb[],"
        " $16::timestamptz[], $17::timestamptz[]) AS o (order_id, reference_id, fingerprint, brand_id, status,"
        " failure_code, currency, amount_minor, discount_percentage, debit_minor, denominations, quantities, customer,"
        " delivery, created_at, updated_at)",
        partner_id,
        [order.order_id for order in orders],
        [order.reference_id for order in orders],
        [order.fingerprint for order in orders],
        [order.brand_id for order in orders],
        [order.status.value for order in orders],
        [order.failure_code for order in orders],
        [order.currency for order in orders],
        [order.amount_minor for order in orders],
        [order.discount_percentage for order in orders],
        [order.debit_minor for order in orders],
        # unnest flattens arrays of arrays, so a line's array travels as its text.
        [_array(draft.lines.keys()) for draft in drafts],
        [_array(draft.lines.values()) for draft in drafts],
        [draft.customer for draft in drafts],
        [draft.delivery for draft in drafts],
        [order.created_at for order in orders],
        [order.updated_at for order in orders],
    )


async def find_order(conn: pool.Connection | pool.Pool, *, partner_id: str, order_id: str) -> model.Order | None:
    """The partner's order of that id, without its vouchers."""
    row = await conn.fetchrow(
        f"SELECT {_COLUMNS} FROM orders WHERE partner_id = $1 AND order_id = $2", partner_id, order_id
    )
    return _order(row) if row else None


async def find_order_by_reference(
    conn: pool.Connection | pool.Pool, *, partner_id: str, reference_id: str
) -> model.Order | None:
    """The partner's order of that reference, without its vouchers."""
    row = await conn.fetchrow(
        f"SELECT {_COLUMNS} FROM orders WHERE partner_id = $1 AND reference_id = $2", partner_id, reference_id
    )
    return _order(row) if row else None


async def find_order_of_anyone(conn: pool.Connection, *, order_id: str) -> model.Order | None:
    """The order of that id, for the operator."""
    row = await conn.fetchrow(f"SELECT {_COLUMNS} FROM orders WHERE order_id = $1", order_id)
    return _order(row) if row else None


async def list_orders_by_id(
    conn: pool.Connection | pool.Pool, *, partner_id: str, order_ids: Sequence[str]
) -> list[model.Order]:
    """Those of the partner's orders, without their vouchers."""
    rows = await conn.fetch(
        "SELECT o.* FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL"  # as in list_known
        f" (SELECT {_COLUMNS} FROM orders WHERE partner_id = $1 AND order_id = wanted.id LIMIT 1) o",
        partner_id, list(order_ids),
    )  # fmt: skip
    return [_order(row) for row in rows]


async def list_orders(
    conn: pool.Connection | pool.Pool,
    *,
    partner_id: str,
    statuses: Sequence[str] | None,
    created_from: datetime | None,
    created_to: datetime | None,
    floor_id: str,
    before_id: str | None,
    limit: int,
) -> list[model.Order]:
    """A partner's orders, newest first, of ids below `before_id`, without their vouchers; `created_to` is exclusive.

    `floor_id` bounds the walk along the primary key: no order created at or after `created_from` sorts below it.
    """
    rows = await conn.fetch(
        f"SELECT {_COLUMNS} FROM orders WHERE partner_id = $1 AND order_id >= $2"
        " AND ($3::text IS NULL OR order_id < $3) AND ($4::text[] IS NULL OR status = ANY($4))"
        " AND ($5::timestamptz IS NULL OR created_at >= $5) AND ($6::timestamptz IS NULL OR created_at < $6)"
        " ORDER BY order_id DESC LIMIT $7",
        partner_id, floor_id, before_id, list(statuses) if statuses else None, created_from, created_to, limit,
    )  # fmt: skip
    return [_order(row) for row in rows]


async def list_unpaid_or_paid_twice(conn: pool.Connection) -> list[pool.Record]:
    """Orders whose transfers do not fit their state: partner_id, order_id, status, debit_minor, kinds, moved."""
    return await conn.fetch(
        "SELECT o.partner_id, o.order_id, o.status, o.debit_minor, t.kinds, t.moved FROM orders o LEFT JOIN ("
        "   SELECT partner_id, order_id, array_agg(kind ORDER BY wallet_version) AS kinds,"
        "   sum(amount_minor) AS moved FROM transfer WHERE order_id IS NOT NULL GROUP BY partner_id, order_id) t"
        " USING (partner_id, order_id)"
        " WHERE (o.status = 'SUCCESS' AND (t.kinds IS NULL OR NOT (t.kinds = '{DEBIT}' AND t.moved = -o.debit_minor"
        "     OR t.kinds = '{HOLD,CAPTURE}')))"
        " OR (o.status IN ('FAILED', 'CANCELLED') AND t.kinds IS NOT NULL AND t.kinds <> '{HOLD,RELEASE}')"
        " OR (o.status = 'PROCESSING' AND (t.kinds IS NULL OR t.kinds <> '{HOLD}'))"
        " OR (o.status = 'REVERSED' AND (t.kinds IS NULL OR t.kinds[array_length(t.kinds, 1)] <> 'REFUND'))"
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
        " OR debit_minor <> CASE WHEN status = 'FAILED' THEN 0"
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


def _array(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _order(row: pool.Record) -> model.Order:
    return model.Order(
        order_id=row["order_id"],
        partner_id=row["partner_id"],
        reference_id=row["reference_id"],
        fingerprint=row["fingerprint"],
        brand_id=row["brand_id"],
        status=states.Status(row["status"]),
        failure_code=row["failure_code"],
        currency=row["currency"],
        amount_minor=row["amount_minor"],
        discount_percentage=row["discount_percentage"],
        debit_minor=row["debit_minor"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
