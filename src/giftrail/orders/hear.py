"""A provider tells that something happened: the orders that wait for it are due now."""

from datetime import datetime

from giftrail.calls import store as call_store
from giftrail.db import pool
from giftrail.orders import store

# A webhook that names no reference has so many orders looked at.
MAX_ORDERS = 200


async def hear_from_provider(database: pool.Database, *, provider: str, key: str | None, now: datetime) -> int:
    """Make the order of the key due, or those that wait for the provider longest; returns how many."""
    async with database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
        waiting = await call_store.hasten_calls(conn, provider=provider, key=key, limit=MAX_ORDERS, now=now)
        if waiting:
            await store.hasten_fulfilments(conn, orders=waiting, now=now)
    return len(waiting)
