"""The audit trail: who did what to whom, written in the transaction in which it was done."""

from datetime import datetime
from typing import Any

from giftrail.db import pool
from giftrail.kit import ids
from giftrail.operators import store


async def record(
    conn: pool.Connection, *, operator: str, act: str, subject: str, detail: dict[str, Any], now: datetime
) -> None:
    """Record that `operator` did `act` to `subject`, inside the transaction of the act. `detail` holds no secret."""
    await store.append_act(
        conn, act_id=ids.new("act", now=now), operator=operator, act=act, subject=subject, detail=detail, now=now
    )
