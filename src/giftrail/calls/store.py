"""SQL of calls and of the codes they delivered."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from giftrail.calls import model
from giftrail.db import pool

_PART = "line, part, denomination_minor, quantity"


async def list_calls(
    conn: pool.Connection | pool.Pool, *, partner_id: str, order_ids: Sequence[str]
) -> dict[str, list[model.Call]]:
    """By order, its calls, by line, part and provider; an order that asked nobody has none."""
    rows = await conn.fetch(
        "SELECT c.* FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (SELECT * FROM provider_call"
        " WHERE partner_id = $1 AND order_id = wanted.id ORDER BY line, part, provider) c",
        partner_id, list(order_ids),
    )  # fmt: skip
    calls: dict[str, list[model.Call]] = {order_id: [] for order_id in order_ids}
    for row in rows:
        calls[row["order_id"]].append(_call(row))
    return calls


async def commit_key(
    conn: pool.Connection,
    *,
    partner_id: str,
    order_id: str,
    part: model.Part,
    provider: str,
    now: datetime,
) -> model.Call:
    """Record that the provider is about to be asked; the first time keeps its moment, each time counts."""
    row = await conn.fetchrow(
        f"INSERT INTO provider_call (partner_id, order_id, provider, key, {_PART}, state, asked_at, last_asked_at,"
        " next_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'ASKED', $9, $9, $9)"
        " ON CONFLICT (partner_id, order_id, line, part, provider) DO UPDATE SET state = 'ASKED',"
        " asks = provider_call.asks + 1, last_asked_at = $9, next_at = $9 RETURNING *",
        partner_id, order_id, provider, part.key(order_id), part.line, part.part, part.denomination_minor,
        part.quantity, now,
    )  # fmt: skip
    assert row is not None  # noqa: S101 — RETURNING of an upsert always gives a row
    return _call(row)


async def update_call(
    conn: pool.Connection,
    *,
    partner_id: str,
    order_id: str,
    call: model.Call,
    state: model.State,
    reason: str | None,
    next_at: datetime,
) -> None:
    """What came of the call."""
    await conn.execute(
        "UPDATE provider_call SET state = $6, reason = $7, next_at = $8"
        " WHERE partner_id = $1 AND order_id = $2 AND line = $3 AND part = $4 AND provider = $5",
        partner_id, order_id, call.part.line, call.part.part, call.provider, state.value, reason, next_at,
    )  # fmt: skip


async def refuse_parts(
    conn: pool.Connection,
    *,
    partner_id: str,
    order_id: str,
    parts: Mapping[model.Part, str],
    reason: str,
    now: datetime,
) -> None:
    """Record that the at-once providers of these parts could not serve them."""
    await conn.executemany(
        f"INSERT INTO provider_call (partner_id, order_id, provider, key, {_PART}, state, reason, asked_at,"
        " last_asked_at, next_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'REFUSED', $9, $10, $10, $10)"
        " ON CONFLICT (partner_id, order_id, line, part, provider) DO NOTHING",
        [
            (
                partner_id, order_id, provider, part.key(order_id), part.line, part.part, part.denomination_minor,
                part.quantity, reason, now,
            )
            for part, provider in parts.items()
        ],
    )  # fmt: skip


async def append_codes(
    conn: pool.Connection,
    *,
    codes: Sequence[model.SealedCode],
    provider: str,
    partner_id: str,
    order_id: str,
    part: model.Part,
    brand_id: str,
    aside: bool,
    now: datetime,
) -> None:
    """Write delivered codes. Raises asyncpg.UniqueViolationError on a voucher id or code known of the provider."""
    await conn.execute(
        "INSERT INTO delivered_code (provider, partner_id, order_id, line, part, brand_id, denomination_minor, state,"
        " delivered_at, provider_voucher_id, code_digest, place, valid_till, sealed)"
        " SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, * FROM"
        " unnest($10::text[], $11::bytea[], $12::int[], $13::date[], $14::bytea[])",
        provider, partner_id, order_id, part.line, part.part, brand_id, part.denomination_minor,
        "ASIDE" if aside else "WAITING", now,
        [code.provider_voucher_id for code in codes],
        [code.code_digest for code in codes],
        [code.place for code in codes],
        [code.valid_till for code in codes],
        [code.sealed for code in codes],
    )  # fmt: skip


async def list_waiting_codes(
    conn: pool.Connection, *, partner_id: str, order_ids: Sequence[str]
) -> dict[str, list[pool.Record]]:
    """By order, its delivered codes that are not sold yet, sealed, by line, part and place."""
    rows = await conn.fetch(
        "SELECT d.* FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (SELECT * FROM delivered_code"
        " WHERE partner_id = $1 AND order_id = wanted.id AND state = 'WAITING') d"
        " ORDER BY d.order_id, d.line, d.part, d.place",
        partner_id, list(order_ids),
    )  # fmt: skip
    waiting: dict[str, list[pool.Record]] = {order_id: [] for order_id in order_ids}
    for row in rows:
        waiting[row["order_id"]].append(row)
    return waiting


async def mark_codes_sold(conn: pool.Connection, *, sold: Sequence[tuple[str, str, str]]) -> None:
    """(provider, provider voucher id, voucher id) of codes that became vouchers; the sealed copy is emptied."""
    await conn.execute(
        "UPDATE delivered_code d SET state = 'SOLD', voucher_id = s.voucher_id, sealed = ''"
        " FROM unnest($1::text[], $2::text[], $3::text[]) AS s (provider, provider_voucher_id, voucher_id)"
        " WHERE d.provider = s.provider AND d.provider_voucher_id = s.provider_voucher_id",
        *map(list, zip(*sold, strict=True)),
    )


async def set_codes_aside(conn: pool.Connection, *, partner_id: str, order_ids: Sequence[str]) -> None:
    """Keep what was delivered for orders that failed for the operator."""
    await conn.execute(
        "UPDATE delivered_code SET state = 'ASIDE' WHERE partner_id = $1 AND order_id = ANY ($2::text[])"
        " AND state = 'WAITING'",
        partner_id, list(order_ids),
    )  # fmt: skip


async def list_sold_codes(conn: pool.Connection | pool.Pool, *, partner_id: str, order_id: str) -> list[pool.Record]:
    """provider, line, part and provider_voucher_id of each code of the order that a remote provider delivered."""
    return await conn.fetch(
        "SELECT provider, line, part, provider_voucher_id FROM delivered_code"
        " WHERE partner_id = $1 AND order_id = $2 AND state = 'SOLD' ORDER BY provider, line, part, place",
        partner_id, order_id,
    )  # fmt: skip


async def list_aside(conn: pool.Connection, *, brand_id: str | None) -> list[pool.Record]:
    """Codes that were delivered too late or in part, for the operator; never what they are."""
    return await conn.fetch(
        "SELECT provider, provider_voucher_id, brand_id, denomination_minor, valid_till, partner_id, order_id,"
        " delivered_at FROM delivered_code WHERE state = 'ASIDE' AND ($1::text IS NULL OR brand_id = $1)"
        " ORDER BY delivered_at, provider_voucher_id",
        brand_id,
    )


async def lock_aside(conn: pool.Connection, *, provider: str, provider_voucher_id: str) -> pool.Record | None:
    """The code set aside, locked until the transaction ends."""
    return await conn.fetchrow(
        "SELECT * FROM delivered_code WHERE provider = $1 AND provider_voucher_id = $2 AND state = 'ASIDE' FOR UPDATE",
        provider, provider_voucher_id,
    )  # fmt: skip


async def mark_shelved(conn: pool.Connection, *, provider: str, provider_voucher_id: str) -> None:
    """The code now stands in the stock; the sealed copy is emptied."""
    await conn.execute(
        "UPDATE delivered_code SET state = 'SHELVED', sealed = '' WHERE provider = $1 AND provider_voucher_id = $2",
        provider, provider_voucher_id,
    )  # fmt: skip


async def hasten_calls(
    conn: pool.Connection, *, provider: str, key: str | None, limit: int, now: datetime
) -> list[tuple[str, str]]:
    """The call of the key, or those waiting longest, may be asked about now; returns (partner, order) of each."""
    rows = await conn.fetch(
        "UPDATE provider_call c SET next_at = $4 FROM (SELECT partner_id, order_id, line, part FROM provider_call"
        "   WHERE provider = $1 AND state = 'ASKED' AND ($2::text IS NULL OR key = $2) ORDER BY last_asked_at LIMIT $3"
        "   FOR UPDATE SKIP LOCKED) w WHERE c.partner_id = w.partner_id AND c.order_id = w.order_id"
        " AND c.line = w.line AND c.part = w.part AND c.provider = $1 RETURNING c.partner_id, c.order_id",
        provider, key, limit, now,
    )  # fmt: skip
    return [(row["partner_id"], row["order_id"]) for row in rows]


async def list_unknown(conn: pool.Connection | pool.Pool) -> list[pool.Record]:
    """Calls whose outcome nobody knows, for the operator."""
    return await conn.fetch(
        "SELECT provider, key, partner_id, order_id, line, part, denomination_minor, quantity, reason, asks, asked_at"
        " FROM provider_call WHERE state = 'UNKNOWN' ORDER BY provider, asked_at, key"
    )


async def lock_unknown(conn: pool.Connection, *, provider: str, key: str) -> pool.Record | None:
    """The call of unknown outcome, locked until the transaction ends."""
    return await conn.fetchrow(
        "SELECT * FROM provider_call WHERE state = 'UNKNOWN' AND provider = $1 AND key = $2 FOR UPDATE", provider, key
    )


async def resolve_call(conn: pool.Connection, *, row: pool.Record, state: model.State, now: datetime) -> None:
    """What the operator found out about the call."""
    await conn.execute(
        "UPDATE provider_call SET state = $6, reason = 'found out by the operator', next_at = $7 WHERE"
        " partner_id = $1 AND order_id = $2 AND line = $3 AND part = $4 AND provider = $5",
        row["partner_id"], row["order_id"], row["line"], row["part"], row["provider"], state.value, now,
    )  # fmt: skip


def _call(row: pool.Record) -> model.Call:
    return model.Call(
        part=model.Part(row["line"], row["part"], row["denomination_minor"], row["quantity"]),
        provider=row["provider"],
        key=row["key"],
        state=model.State(row["state"]),
        reason=row["reason"],
        asks=row["asks"],
        asked_at=row["asked_at"],
        last_asked_at=row["last_asked_at"],
        next_at=row["next_at"],
    )
