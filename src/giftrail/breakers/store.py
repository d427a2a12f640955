"""SQL of breakers and of the counts they follow."""

from datetime import datetime

from giftrail.breakers import model
from giftrail.db import pool

_BREAKER = "SELECT provider, brand_id, open_until, openings, probe_until, paused FROM provider_breaker"


async def list_breakers(conn: pool.Connection | pool.Pool) -> list[model.Breaker]:
    """Those that are not closed."""
    return [model.Breaker(*row) for row in await conn.fetch(_BREAKER + " ORDER BY provider, brand_id")]


async def lock_breaker(conn: pool.Connection, *, provider: str, brand_id: str) -> model.Breaker | None:
    """The breaker unless it is closed, locked until the transaction ends."""
    row = await conn.fetchrow(_BREAKER + " WHERE provider = $1 AND brand_id = $2 FOR UPDATE", provider, brand_id)
    return model.Breaker(*row) if row else None


async def open_breaker(
    conn: pool.Connection, *, provider: str, brand_id: str, open_until: datetime, openings: int, now: datetime
) -> None:
    """Open it, or open it again."""
    await conn.execute(
        "INSERT INTO provider_breaker (provider, brand_id, opened_at, open_until, openings) VALUES ($1, $2, $3, $4, $5)"
        " ON CONFLICT (provider, brand_id) DO UPDATE SET opened_at = $3, open_until = $4, openings = $5,"
        " probe_until = NULL",
        provider, brand_id, now, open_until, openings,
    )  # fmt: skip


async def pause(conn: pool.Connection, *, provider: str, brand_id: str, now: datetime) -> None:
    """Open it until it is closed by hand."""
    await conn.execute(
        "INSERT INTO provider_breaker (provider, brand_id, opened_at, open_until, openings, paused)"
        " VALUES ($1, $2, $3, $3, 0, true) ON CONFLICT (provider, brand_id) DO UPDATE SET paused = true",
        provider, brand_id, now,
    )  # fmt: skip


async def begin_probe(conn: pool.Connection, *, provider: str, brand_id: str, probe_until: datetime) -> None:
    """Somebody asks; nobody else until then."""
    await conn.execute(
        "UPDATE provider_breaker SET probe_until = $3 WHERE provider = $1 AND brand_id = $2",
        provider, brand_id, probe_until,
    )  # fmt: skip


async def close_breaker(conn: pool.Connection, *, provider: str, brand_id: str) -> bool:
    """Close it and forget what was counted; returns whether it was open."""
    await conn.execute("DELETE FROM provider_minute WHERE provider = $1 AND brand_id = $2", provider, brand_id)
    done = await conn.execute("DELETE FROM provider_breaker WHERE provider = $1 AND brand_id = $2", provider, brand_id)
    return done == "DELETE 1"


async def count_call(conn: pool.Connection, *, provider: str, brand_id: str, failed: bool, now: datetime) -> None:
    """Count a call in its minute."""
    await conn.execute(
        "INSERT INTO provider_minute (provider, brand_id, minute, calls, failures)"
        " VALUES ($1, $2, date_trunc('minute', $3::timestamptz), 1, $4) ON CONFLICT (provider, brand_id, minute)"
        " DO UPDATE SET calls = provider_minute.calls + 1, failures = provider_minute.failures + EXCLUDED.failures",
        provider, brand_id, now, int(failed),
    )  # fmt: skip


async def sum_calls(conn: pool.Connection, *, provider: str, brand_id: str, since: datetime) -> tuple[int, int]:
    """Calls and failures in the minutes since."""
    row = await conn.fetchrow(
        "SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(failures), 0)::bigint FROM provider_minute"
        " WHERE provider = $1 AND brand_id = $2 AND minute >= $3",
        provider, brand_id, since,
    )  # fmt: skip
    return (row[0], row[1]) if row else (0, 0)


async def delete_minutes(conn: pool.Connection | pool.Pool, *, before: datetime) -> None:
    """Forget counts that no breaker looks at any more."""
    await conn.fetch("DELETE FROM provider_minute WHERE minute < $1", before)
