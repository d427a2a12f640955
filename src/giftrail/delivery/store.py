"""SQL of deliveries to recipients, of links to the voucher page, of reveals and of brands' pictures."""

from collections.abc import Sequence
from datetime import datetime

from giftrail.db import pool
from giftrail.delivery import model

_COLUMNS = "partner_id, delivery_id, order_id, channel, address, outcome, reason, tries, created_at, sent_at"


async def append_deliveries(conn: pool.Connection, deliveries: Sequence[model.Delivery]) -> None:
    """Write new deliveries, due at once, inside the caller's transaction."""
    await conn.execute(
        "INSERT INTO recipient_delivery (partner_id, delivery_id, order_id, channel, address, next_at, created_at,"
        " updated_at) SELECT *, created_at, created_at FROM unnest($1::text[], $2::text[], $3::text[], $4::text[],"
        " $5::text[], $6::timestamptz[]) AS d (partner_id, delivery_id, order_id, channel, address, created_at)",
        [one.partner_id for one in deliveries],
        [one.delivery_id for one in deliveries],
        [one.order_id for one in deliveries],
        [one.channel.value for one in deliveries],
        [one.address for one in deliveries],
        [one.created_at for one in deliveries],
    )


async def find_delivery(
    conn: pool.Connection | pool.Pool, *, partner_id: str, delivery_id: str
) -> model.Delivery | None:
    """The delivery."""
    row = await conn.fetchrow(
        f"SELECT {_COLUMNS} FROM recipient_delivery WHERE partner_id = $1 AND delivery_id = $2", partner_id, delivery_id
    )
    return _delivery(row) if row else None


async def list_deliveries(
    conn: pool.Connection | pool.Pool, *, partner_id: str, order_ids: Sequence[str]
) -> list[model.Delivery]:
    """The deliveries of the partner's orders, oldest first."""
    rows = await conn.fetch(
        f"SELECT d.* FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (SELECT {_COLUMNS}"
        " FROM recipient_delivery WHERE partner_id = $1 AND order_id = wanted.id) d ORDER BY d.created_at, d.channel",
        partner_id, list(order_ids),
    )  # fmt: skip
    return [_delivery(row) for row in rows]


async def list_recent(conn: pool.Connection, *, outcome: str | None, limit: int) -> list[model.Delivery]:
    """The last deliveries of all partners, newest first, for the operator."""
    outcomes = list(model.Outcome) if outcome is None else [outcome]
    rows = await conn.fetch(
        f"SELECT d.* FROM unnest($1::text[]) AS wanted (name) CROSS JOIN LATERAL (SELECT {_COLUMNS}"
        "   FROM recipient_delivery WHERE outcome = wanted.name ORDER BY delivery_id DESC LIMIT $2) d"
        " ORDER BY d.delivery_id DESC LIMIT $2",
        outcomes, limit,
    )  # fmt: skip
    return [_delivery(row) for row in rows]


async def end_delivery(
    conn: pool.Connection | pool.Pool,
    *,
    delivery: model.Delivery,
    token: object,
    outcome: model.Outcome,
    reason: str | None,
    now: datetime,
) -> bool:
    """Write what became of a delivery, if its lease (`token`) is still ours."""
    row = await conn.fetchrow(
        "UPDATE recipient_delivery SET outcome = $4, reason = $5, tries = tries + 1, state = 'DONE', attempts = 0,"
        " lease_token = NULL, lease_until = NULL, updated_at = $6,"
        " sent_at = CASE WHEN $4 = 'SENT' THEN $6::timestamptz END"
        " WHERE partner_id = $1 AND delivery_id = $2 AND lease_token = $3 RETURNING true",
        delivery.partner_id, delivery.delivery_id, token, outcome.value, reason, now,
    )  # fmt: skip
    return row is not None


async def put_off(
    conn: pool.Connection | pool.Pool,
    *,
    delivery: model.Delivery,
    token: object,
    reason: str,
    next_at: datetime,
    now: datetime,
) -> bool:
    """Write that a try failed and when the next one is, if the lease is still ours."""
    row = await conn.fetchrow(
        "UPDATE recipient_delivery SET reason = $4, tries = tries + 1, attempts = 0, next_at = $5, lease_token = NULL,"
        " lease_until = NULL, updated_at = $6 WHERE partner_id = $1 AND delivery_id = $2 AND lease_token = $3"
        " RETURNING true",
        delivery.partner_id, delivery.delivery_id, token, reason, next_at, now,
    )  # fmt: skip
    return row is not None


async def append_link(
    conn: pool.Connection | pool.Pool, *, digest: bytes, delivery: model.Delivery, now: datetime
) -> None:
    """A link for a delivery."""
    await conn.fetchrow(
        "INSERT INTO voucher_link (token_digest, partner_id, order_id, delivery_id, created_at)"
        " VALUES ($1, $2, $3, $4, $5) RETURNING true",
        digest, delivery.partner_id, delivery.order_id, delivery.delivery_id, now,
    )  # fmt: skip


async def find_link(conn: pool.Connection | pool.Pool, *, digest: bytes) -> tuple[str, str] | None:
    """Partner and order of a link."""
    row = await conn.fetchrow("SELECT partner_id, order_id FROM voucher_link WHERE token_digest = $1", digest)
    return (row["partner_id"], row["order_id"]) if row else None


async def lock_reveals(conn: pool.Connection, *, order_id: str) -> None:
    """Until the transaction ends, nobody else counts this order's reveals."""
    await conn.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", order_id)


async def append_reveal(
    conn: pool.Connection,
    *,
    reveal_id: str,
    partner_id: str,
    order_id: str,
    address: object,
    since: datetime,
    most: int,
    now: datetime,
) -> bool:
    """Record a reveal, unless there were so many `since`; then False."""
    row = await conn.fetchrow(
        "INSERT INTO voucher_reveal (partner_id, order_id, reveal_id, at, address) SELECT $1, $2, $3, $4, $5"
        " WHERE (SELECT count(*) FROM voucher_reveal WHERE partner_id = $1 AND order_id = $2 AND at > $6) < $7"
        " RETURNING true",
        partner_id, order_id, reveal_id, now, address, since, most,
    )  # fmt: skip
    return row is not None


async def list_reveals(conn: pool.Connection | pool.Pool, *, partner_id: str, order_id: str) -> list[model.Reveal]:
    """When the codes of an order were looked at, oldest first."""
    rows = await conn.fetch(
        "SELECT at, host(address) AS address FROM voucher_reveal WHERE partner_id = $1 AND order_id = $2"
        " ORDER BY reveal_id",
        partner_id, order_id,
    )  # fmt: skip
    return [model.Reveal(at=row["at"], address=row["address"]) for row in rows]


async def upsert_picture(
    conn: pool.Connection, *, brand_id: str, media_type: str, content: bytes, now: datetime
) -> None:
    """The brand's picture, instead of the one before."""
    await conn.execute(
        "INSERT INTO brand_picture (brand_id, media_type, content, updated_at) VALUES ($1, $2, $3, $4)"
        " ON CONFLICT (brand_id) DO UPDATE SET media_type = $2, content = $3, updated_at = $4",
        brand_id, media_type, content, now,
    )  # fmt: skip


async def find_picture(conn: pool.Connection | pool.Pool, *, brand_id: str) -> tuple[str, bytes] | None:
    """Media type and bytes of the brand's picture."""
    row = await conn.fetchrow("SELECT media_type, content FROM brand_picture WHERE brand_id = $1", brand_id)
    return (row["media_type"], row["content"]) if row else None


def _delivery(row: pool.Record) -> model.Delivery:
    return model.Delivery(
        partner_id=row["partner_id"],
        delivery_id=row["delivery_id"],
        order_id=row["order_id"],
        channel=model.Channel(row["channel"]),
        address=row["address"],
        outcome=model.Outcome(row["outcome"]),
        reason=row["reason"],
        tries=row["tries"],
        created_at=row["created_at"],
        sent_at=row["sent_at"],
    )
