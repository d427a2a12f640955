"""SQL of orders."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from giftrail.db import pool
from giftrail.delivery import model as delivery_model
from giftrail.delivery.recipients import OTHER
from giftrail.orders import decide, model, states

_COLUMNS = (
    "order_id, partner_id, reference_id, fingerprint, brand_id, status, failure_code, currency, amount_minor,"
    " discount_percentage, debit_minor, created_at, updated_at, reversal_pending, recipients"
)
# An upper bound always, or a kept plan would walk from the newest order on.
_BEHIND_ALL_IDS = "ord_~"


async def list_known(
    conn: pool.Connection, *, references: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], decide.Known]:
    """By (partner, reference), the orders that have one of them."""
    # One look into the unique index for each reference. With `= ANY` a plan made while the table was empty may walk
    # through all orders of the partner instead, and is kept.
    rows = await conn.fetch(
        "SELECT o.* FROM unnest($1::text[], $2::text[]) AS wanted (partner_id, reference_id) CROSS JOIN LATERAL"
        " (SELECT partner_id, reference_id, order_id, fingerprint FROM orders WHERE partner_id = wanted.partner_id"
        "   AND reference_id = wanted.reference_id LIMIT 1) o",
        [partner_id for partner_id, _ in references], [reference_id for _, reference_id in references],
    )  # fmt: skip
    return {(row["partner_id"], row["reference_id"]): decide.Known(row["order_id"], row["fingerprint"]) for row in rows}


async def append_orders(conn: pool.Connection, *, drafts: Sequence[model.Draft], orders: Sequence[model.Order]) -> None:
    """Write new orders, each beside its draft, inside the caller's transaction."""
    await conn.execute(
        "INSERT INTO orders (partner_id, order_id, reference_id, fingerprint, brand_id, status, failure_code, currency,"
        " amount_minor, discount_percentage, debit_minor, denominations_minor, quantities, customer, delivery,"
        " recipients, stored_processing, created_at, updated_at)"
        " SELECT partner_id, order_id, reference_id, fingerprint, brand_id, status, failure_code, currency,"
        " amount_minor, discount_percentage, debit_minor, denominations::bigint[], quantities::int[], customer,"
        " delivery, recipients, status = 'PROCESSING', created_at, updated_at"
        " FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[],"
        " $9::bigint[], $10::numeric[], $11::bigint[], $12::text[], $13::text[], $14::jsonb[], $15::jsonb[],"
        " $16::jsonb[], $17::timestamptz[], $18::timestamptz[]) AS o (partner_id, order_id, reference_id, fingerprint,"
        " brand_id, status, failure_code, currency, amount_minor, discount_percentage, debit_minor, denominations,"
        " quantities, customer, delivery, recipients, created_at, updated_at)",
        [order.partner_id for order in orders], [order.order_id for order in orders],
        [order.reference_id for order in orders], [order.fingerprint for order in orders],
        [order.brand_id for order in orders], [order.status.value for order in orders],
        [order.failure_code for order in orders], [order.currency for order in orders],
        [order.amount_minor for order in orders], [order.discount_percentage for order in orders],
        [order.debit_minor for order in orders],
        # unnest flattens arrays of arrays, so a line's array travels as its text.
        [_array(draft.lines.keys()) for draft in drafts],
        [_array(draft.lines.values()) for draft in drafts],
        [draft.customer for draft in drafts],
        [draft.delivery for draft in drafts],
        [msgspec.json.encode(order.recipients).decode() if order.recipients else None for order in orders],
        [order.created_at for order in orders], [order.updated_at for order in orders],
    )  # fmt: skip


async def append_fulfilments(conn: pool.Connection, *, orders: Sequence[tuple[str, str, int]], now: datetime) -> None:
    """The work of (partner, order, vouchers in one part) that remote providers serve, due at once."""
    partner_ids, order_ids, part_vouchers = zip(*orders, strict=True)
    await conn.execute(
        "INSERT INTO fulfilment (partner_id, order_id, part_vouchers, next_at)"
        " SELECT *, $4 FROM unnest($1::text[], $2::text[], $3::int[])",
        partner_ids, order_ids, part_vouchers, now,
    )  # fmt: skip


async def find_part_vouchers(conn: pool.Connection, *, partner_id: str, order_id: str) -> int | None:
    """How many vouchers of the order are asked for in one call."""
    row = await conn.fetchrow(
        "SELECT part_vouchers FROM fulfilment WHERE partner_id = $1 AND order_id = $2", partner_id, order_id
    )
    return row["part_vouchers"] if row else None


async def end_fulfilments(
    conn: pool.Connection, *, partner_id: str, order_ids: Sequence[str], look_again_at: Mapping[str, datetime]
) -> None:
    """The orders' work is done, or due again at a moment to hear of calls that are still out."""
    await conn.execute(
        "UPDATE fulfilment f SET lease_token = NULL, lease_until = NULL, attempts = 0,"
        " state = CASE WHEN e.again IS NULL THEN 'DONE' ELSE 'DUE' END, next_at = coalesce(e.again, f.next_at)"
        " FROM unnest($2::text[], $3::timestamptz[]) AS e (order_id, again)"
        " WHERE f.partner_id = $1 AND f.order_id = e.order_id",
        partner_id, list(order_ids), [look_again_at.get(order_id) for order_id in order_ids],
    )  # fmt: skip


async def hasten_fulfilments(conn: pool.Connection, *, orders: Sequence[tuple[str, str]], now: datetime) -> None:
    """The work of (partner, order) is due now, unless somebody is at it."""
    await conn.execute(
        "UPDATE fulfilment f SET next_at = least(next_at, $3) FROM unnest($1::text[], $2::text[])"
        " AS w (partner_id, order_id) WHERE f.partner_id = w.partner_id AND f.order_id = w.order_id"
        " AND f.state = 'DUE' AND f.lease_until IS NULL",
        [partner_id for partner_id, _ in orders], [order_id for _, order_id in orders], now,
    )  # fmt: skip


async def lock_orders(
    conn: pool.Connection, *, partner_id: str, order_ids: Sequence[str]
) -> dict[str, tuple[model.Order, dict[int, int]]]:
    """Those of the partner's orders with their lines, locked in the order of their ids until the transaction ends."""
    rows = await conn.fetch(
        f"SELECT o.* FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (SELECT {_COLUMNS},"
        " denominations_minor, quantities FROM orders WHERE partner_id = $1 AND order_id = wanted.id FOR UPDATE) o",
        partner_id, sorted(set(order_ids)),
    )  # fmt: skip
    return {row["order_id"]: (_order(row), _lines(row)) for row in rows}


async def find_order_with_lines(
    conn: pool.Connection | pool.Pool, *, partner_id: str, order_id: str
) -> tuple[model.Order, dict[int, int]] | None:
    """The partner's order and its lines, without its vouchers."""
    row = await conn.fetchrow(
        f"SELECT {_COLUMNS}, denominations_minor, quantities FROM orders WHERE partner_id = $1 AND order_id = $2",
        partner_id, order_id,
    )  # fmt: skip
    return (_order(row), _lines(row)) if row else None


async def update_statuses(conn: pool.Connection, *, partner_id: str, orders: Sequence[model.Order]) -> None:
    """Write status, failure code, debit and moment of orders whose rows the caller holds."""
    await conn.execute(
        "UPDATE orders o SET status = n.status, failure_code = n.failure_code, debit_minor = n.debit_minor,"
        " updated_at = n.updated_at, reversal_pending = false"
        " FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[])"
        " AS n (order_id, status, failure_code, debit_minor, updated_at)"
        " WHERE o.partner_id = $1 AND o.order_id = n.order_id",
        partner_id, [order.order_id for order in orders], [order.status.value for order in orders],
        [order.failure_code for order in orders], [order.debit_minor for order in orders],
        [order.updated_at for order in orders],
    )  # fmt: skip


async def mark_reversal_pending(conn: pool.Connection, *, order: model.Order, now: datetime) -> model.Order:
    """The order, whose row the caller holds, is being reversed."""
    await conn.execute(
        "UPDATE orders SET reversal_pending = true, updated_at = $3 WHERE partner_id = $1 AND order_id = $2",
        order.partner_id, order.order_id, now,
    )  # fmt: skip
    return msgspec.structs.replace(order, reversal_pending=True, updated_at=now)


async def list_settled(
    conn: pool.Connection | pool.Pool, *, partner_ids: Sequence[str], order_ids: Sequence[str]
) -> list[str]:
    """Those of the orders (partner and id side by side) that are neither PROCESSING nor being reversed."""
    rows = await conn.fetch(
        "SELECT o.order_id FROM unnest($1::text[], $2::text[]) AS wanted (partner_id, id) CROSS JOIN LATERAL"
        " (SELECT order_id FROM orders WHERE partner_id = wanted.partner_id AND order_id = wanted.id"
        "   AND status <> 'PROCESSING' AND NOT reversal_pending LIMIT 1) o",
        list(partner_ids), list(order_ids),
    )  # fmt: skip
    return [row["order_id"] for row in rows]


async def sum_placed(
    conn: pool.Connection, *, partner_id: str, brand_id: str | None, placed_from: datetime, floor_id: str
) -> tuple[int, int]:
    """Amount and number of the partner's orders since a moment that count against limits; of one brand, or of all."""
    row = await conn.fetchrow(
        "SELECT coalesce(sum(amount_minor), 0)::bigint, count(*) FROM orders WHERE partner_id = $1 AND order_id >= $4"
        " AND created_at >= $3 AND status IN ('SUCCESS', 'PROCESSING') AND ($2::text IS NULL OR brand_id = $2)",
        partner_id, brand_id, placed_from, floor_id,
    )  # fmt: skip
    return (row[0], row[1]) if row else (0, 0)


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


async def read_details(conn: pool.Connection, *, partner_id: str, order_id: str) -> model.Details:
    """What the partner said of an order's customer and recipient."""
    row = await conn.fetchrow(
        "SELECT customer, delivery FROM orders WHERE partner_id = $1 AND order_id = $2", partner_id, order_id
    )
    customer, delivery = (msgspec.json.decode(row[name] or "{}") if row else {} for name in ("customer", "delivery"))
    is_gift = delivery.get("recipientType") == OTHER
    name = delivery.get("recipientName") if is_gift else customer.get("name")
    return model.Details(is_gift, name, delivery.get("senderName"), delivery.get("wishMessage"))


async def find_order_of_anyone(conn: pool.Connection, *, order_id: str) -> model.Order | None:
    """The order of that id, for the operator: partner by partner, as an index of its own would cost every order."""
    own = f"SELECT {_COLUMNS} FROM orders WHERE partner_id = p.partner_id AND order_id = $1"
    row = await conn.fetchrow(f"SELECT o.* FROM partner p CROSS JOIN LATERAL ({own}) o LIMIT 1", order_id)
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


async def list_orders_by_reference(
    conn: pool.Connection | pool.Pool, *, partner_id: str, reference_ids: Sequence[str]
) -> dict[str, model.Order]:
    """By reference, those of the partner's orders that exist, without their vouchers."""
    rows = await conn.fetch(
        "SELECT o.* FROM unnest($2::text[]) AS wanted (reference_id) CROSS JOIN LATERAL"  # as in list_known
        f" (SELECT {_COLUMNS} FROM orders WHERE partner_id = $1 AND reference_id = wanted.reference_id LIMIT 1) o",
        partner_id, list(reference_ids),
    )  # fmt: skip
    return {row["reference_id"]: _order(row) for row in rows}


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

    `floor_id` bounds the walk along the primary key: no order created at or after `created_from` sorts below it. What
    did not succeed has an index of its own, by status.
    """
    within = (
        "partner_id = $1 AND order_id >= $2 AND order_id < $3 AND ($4::timestamptz IS NULL OR created_at >= $4)"
        " AND ($5::timestamptz IS NULL OR created_at < $5)"
    )
    last = "ORDER BY order_id DESC LIMIT $7"
    query = f"SELECT {_COLUMNS} FROM orders WHERE {within} AND ($6::text[] IS NULL OR status = ANY($6)) {last}"
    if statuses and states.Status.SUCCESS not in statuses:
        of_status = f"SELECT {_COLUMNS} FROM orders WHERE {within} AND status <> 'SUCCESS' AND status = wanted.status"
        query = (
            f"SELECT o.* FROM unnest($6::text[]) AS wanted (status) CROSS JOIN LATERAL ({of_status} {last}) o {last}"
        )
    rows = await conn.fetch(
        query, partner_id, floor_id, before_id or _BEHIND_ALL_IDS, created_from, created_to,
        sorted(set(statuses)) if statuses else None, limit,
    )  # fmt: skip
    return [_order(row) for row in rows]


_recipients = msgspec.json.Decoder(tuple[delivery_model.Recipient, ...]).decode


def _array(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _lines(row: pool.Record) -> dict[int, int]:
    return dict(zip(row["denominations_minor"], row["quantities"], strict=True))


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
        reversal_pending=row["reversal_pending"],
        recipients=_recipients(row["recipients"]) if row["recipients"] else (),
    )
