"""What is forgotten when it is old: events with their deliveries, and attempts; batch by batch."""

from datetime import datetime

from giftrail.attempts import store
from giftrail.db import pool

ROWS_AT_ONCE = 1000


async def forget_events(conn: pool.Pool, *, before: datetime) -> None:
    """Forget what happened before, and what was on its way because of it."""
    while await store.delete_events(conn, before=before, limit=ROWS_AT_ONCE) == ROWS_AT_ONCE:
        pass  # each batch is a transaction of its own


async def forget_attempts(conn: pool.Pool, *, before: datetime) -> None:
    """Forget how attempts before went."""
    while await store.delete_attempts(conn, before=before, limit=ROWS_AT_ONCE) == ROWS_AT_ONCE:
        pass
