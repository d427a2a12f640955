"""Count what came of calls; open and close breakers (engines, fulfilment).

Counted and kept in the database, so that all processes know it: workers, who ask, and the API, which refuses orders
that nobody can serve (E100).
"""

from datetime import datetime, timedelta

from giftrail.breakers import store
from giftrail.db import changes, pool
from giftrail.kit import backoff

WINDOW_SECONDS = 300.0
MIN_CALLS = 10
MAX_FAILING = 0.5
OPEN = backoff.Doubling(first_seconds=30.0, last_seconds=900.0)
# Who probes has this long to come back before another may.
PROBE_SECONDS = 60.0


async def record_call(conn: pool.Connection, *, provider: str, brand_id: str, failed: bool, now: datetime) -> None:
    """Count a call that was answered, or failed, inside the caller's transaction."""
    breaker = await store.lock_breaker(conn, provider=provider, brand_id=brand_id)
    if breaker is None:
        await store.count_call(conn, provider=provider, brand_id=brand_id, failed=failed, now=now)
        if failed and await _fails_often(conn, provider=provider, brand_id=brand_id, now=now):
            await _open(conn, provider=provider, brand_id=brand_id, openings=1, now=now)
    elif breaker.is_open(now):
        return  # asked before it was opened
    elif failed:
        await _open(conn, provider=provider, brand_id=brand_id, openings=breaker.openings + 1, now=now)
    else:
        await store.close_breaker(conn, provider=provider, brand_id=brand_id)
        await changes.raise_version(conn, topic="breakers")


async def may_ask(conn: pool.Connection, *, provider: str, brand_id: str, now: datetime) -> bool:
    """Whether the provider may be asked now; when its breaker is half open, the caller becomes the one probe."""
    breaker = await store.lock_breaker(conn, provider=provider, brand_id=brand_id)
    if breaker is None:
        return True
    if breaker.closed_to_calls_until(now) is not None:
        return False
    await store.begin_probe(
        conn, provider=provider, brand_id=brand_id, probe_until=now + timedelta(seconds=PROBE_SECONDS)
    )
    await changes.raise_version(conn, topic="breakers")
    return True


async def pause(conn: pool.Connection, *, provider: str, brand_id: str, now: datetime) -> None:
    """Leave the provider alone for the brand until it is resumed."""
    await store.pause(conn, provider=provider, brand_id=brand_id, now=now)
    await changes.raise_version(conn, topic="breakers")


async def resume(conn: pool.Connection, *, provider: str, brand_id: str) -> bool:
    """Ask the provider again for the brand, whoever left it alone; returns whether it had been."""
    done = await store.close_breaker(conn, provider=provider, brand_id=brand_id)
    if done:
        await changes.raise_version(conn, topic="breakers")
    return done


async def forget_counts(conn: pool.Pool, *, before: datetime) -> None:
    """Forget what no breaker looks at any more."""
    await store.delete_minutes(conn, before=before)


async def _fails_often(conn: pool.Connection, *, provider: str, brand_id: str, now: datetime) -> bool:
    calls, failures = await store.sum_calls(
        conn, provider=provider, brand_id=brand_id, since=now - timedelta(seconds=WINDOW_SECONDS)
    )
    return calls >= MIN_CALLS and failures >= calls * MAX_FAILING


async def _open(conn: pool.Connection, *, provider: str, brand_id: str, openings: int, now: datetime) -> None:
    open_until = now + timedelta(seconds=OPEN.seconds(openings))
    await store.open_breaker(
        conn, provider=provider, brand_id=brand_id, open_until=open_until, openings=openings, now=now
    )
    await changes.raise_version(conn, topic="breakers")
