"""SQL of reversals."""

from datetime import datetime

from giftrail.db import pool
from giftrail.reversals import model


async def append_reversal(
    conn: pool.Connection, *, partner_id: str, order_id: str, reason: str | None, now: datetime
) -> None:
    """Commit the reversal as work, due at once; nothing happens when it was asked for before."""
    await conn.execute(
        "INSERT INTO reversal (partner_id, order_id, asked_reason, requested_at, next_at) VALUES ($1, $2, $3, $4, $4)"
        " ON CONFLICT DO NOTHING",
        partner_id, order_id, reason, now,
    )  # fmt: skip


async def find_reversal(conn: pool.Connection | pool.Pool, *, partner_id: str, order_id: str) -> model.Reversal | None:
    """The order's reversal, if it was asked for."""
    row = await conn.fetchrow(
        "SELECT partner_id, order_id, requested_at, outcome, why, voided FROM reversal"
        " WHERE partner_id = $1 AND order_id = $2",
        partner_id, order_id,
    )  # fmt: skip
    if row is None:
        return None
    return model.Reversal(
        partner_id=row["partner_id"],
        order_id=row["order_id"],
        requested_at=row["requested_at"],
        outcome=model.Outcome(row["outcome"]) if row["outcome"] else None,
        why=row["why"],
        voided=tuple(row["voided"]),
    )


async def add_voided(conn: pool.Connection, *, partner_id: str, order_id: str, key: str) -> None:
    """The vouchers of the call are void."""
    await conn.execute(
        "UPDATE reversal SET voided = array_append(voided, $3) WHERE partner_id = $1 AND order_id = $2"
        " AND NOT $3 = ANY (voided)",
        partner_id, order_id, key,
    )  # fmt: skip


async def end_reversal(
    conn: pool.Connection, *, partner_id: str, order_id: str, outcome: model.Outcome, why: str | None
) -> None:
    """The reversal ended so; whoever holds its lease holds it no longer."""
    await conn.execute(
        "UPDATE reversal SET outcome = $3, why = $4, state = 'DONE', lease_token = NULL, lease_until = NULL"
        " WHERE partner_id = $1 AND order_id = $2",
        partner_id, order_id, outcome.value, why,
    )  # fmt: skip


async def list_unknown(conn: pool.Connection) -> list[pool.Record]:
    """Reversals the operator must look into: partner_id, order_id, requested_at, why."""
    return await conn.fetch(
        "SELECT partner_id, order_id, requested_at, why FROM reversal WHERE outcome = 'UNKNOWN' ORDER BY requested_at"
    )
