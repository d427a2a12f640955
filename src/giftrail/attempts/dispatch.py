"""The dispatcher: numbers committed events and gives them to the endpoints that want them."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime

import structlog

from giftrail.attempts import store
from giftrail.db import pool

EVENTS_AT_ONCE = 1000
# How soon an event is seen when nobody rings.
POLL_SECONDS = 0.1

_log = structlog.get_logger()


async def run(
    database: pool.Database, *, woken: asyncio.Event, tell: Callable[[], None], now: Callable[[], datetime]
) -> None:
    """Fan out for as long as the process lives; `tell` is called when there is something to deliver."""
    while True:
        woken.clear()
        if await dispatch(database, now=now()) == 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await woken.wait()
        else:
            tell()


async def dispatch(database: pool.Database, *, now: datetime) -> int:
    """Fan out once; returns how many events, 0 also when the database is away or another process is at it."""
    try:
        async with database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
            return await store.fan_out(conn, limit=EVENTS_AT_ONCE, now=now)
    except pool.UNAVAILABLE as error:
        _log.warning("events cannot be fanned out", error=repr(error))
    except Exception:
        _log.exception("events cannot be fanned out")
    return 0
